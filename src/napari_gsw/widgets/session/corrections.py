"""What a person tells the chain: strokes, locks, undo and redo; all of it goes through the chain as orders."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from napari_gsw.core.pipeline.live_chain import LiveChain
from napari_gsw.core.sites.strokes import touched_sites
from napari_gsw.widgets.kit.preferences import preference
from napari_gsw.widgets.layers.brush import Brush
from napari_gsw.widgets.layers.source import Position
from napari_gsw.widgets.session.plan import Plan

if TYPE_CHECKING:
    from napari_gsw.widgets.session.session import Session


class Corrections:
    """Corrections of one session.

    Attributes
    ----------
    lock_strokes : whether every stroke is locked at once.
    """

    def __init__(self, session: Session) -> None:
        self.session = session
        self.lock_strokes = bool(preference("lock_painted"))
        self._brush: Brush | None = None
        # Where the corrections were made, in the order in which they can be undone and done again.
        self._undoable: list[Position] = []
        self._redoable: list[Position] = []

    # ---- what the user asks for

    def open_canvas(self, plan: Plan) -> None:
        """An empty label layer to paint on before the first run."""
        if plan.source.large:
            self.session.say("an image this large cannot be painted on; give seeds as a Labels layer")
            return
        seg = self.session.segmentation
        if seg is None or seg.plan.source.key != plan.source.key:
            seg = self.session.fresh(plan)
        if seg.layers.labels is None:
            position = plan.source.positions[0]
            seg.layers.show_labels(position, np.zeros(plan.source.space, np.uint16))
            self.hold()
        assert seg.layers.labels is not None
        self.session.viewer.layers.selection.active = seg.layers.labels
        seg.layers.labels.mode = "paint"

    def undo(self) -> None:
        """Undo the last correction, through the chain."""
        self._revise(self._undoable, self._redoable, LiveChain.undo)

    def redo(self) -> None:
        self._revise(self._redoable, self._undoable, LiveChain.redo)

    def _revise(self, here: list[Position], there: list[Position], what: Callable[[LiveChain], object]) -> None:
        if here:
            there.append(here.pop())
            self.session.live_again()
            self.session.order(there[-1], what)

    def lock_painted(self) -> None:
        """Lock every site that was painted and is not locked yet."""
        self._each(lambda live: live.lock(np.flatnonzero(live.painted & ~live.locks)))

    def lock_label(self, number: int) -> None:
        """Lock a region as it is."""
        self._each(lambda live: live.lock(np.flatnonzero((live.numbers == number) & ~live.locks)))

    def unlock(self, number: int | None = None) -> None:
        """Unlock the sites of a number, or all."""
        self._each(lambda live: live.unlock(np.flatnonzero(live.locks if number is None else live.numbers == number)))

    def _each(self, what: Callable[[LiveChain], None]) -> None:
        position = self.session.position
        if position is not None:
            self.note(position)
            self.session.order(position, what)

    def note(self, position: Position) -> None:
        self._undoable.append(position)
        self._redoable.clear()

    # ---- the brush

    @property
    def busy(self) -> bool:
        """Whether a stroke is under way, which nothing may overwrite."""
        return self._brush is not None and self._brush.busy

    def hold(self) -> None:
        seg = self.session.segmentation
        assert seg is not None
        assert seg.layers.labels is not None
        self.release()
        if seg.layers.labels.multiscale:  # napari does not let anybody paint on a pyramid
            return
        self._brush = Brush(seg.layers.labels, self._painted, self._replaced, self.undo, self.redo)

    def release(self) -> None:
        if self._brush is not None:
            self._brush.let_go()
            self._brush = None

    def _painted(self, path: NDArray[np.float64]) -> None:
        """A stroke is done: find out which sites it means and hand them to the chain."""
        seg = self.session.segmentation
        if seg is None or seg.layers.labels is None:
            return
        source = seg.plan.source
        for position, written in list(seg.written.items()):
            part = seg.parts.get(position)
            if part is None:
                continue
            here = seg.layers.labels.data[source.index(position)]
            along = source.path_at(path, position)
            sites, numbers = touched_sites(part.live.problem.site_image, written, here, along)
            if not sites.size:
                if not np.array_equal(here, written):  # paint where there is no site
                    self.session.write(position, part, written)
                continue
            self.session.look_ahead()
            self.note(position)
            lock = self.lock_strokes
            self.session.order(position, partial(LiveChain.paint, sites=sites, number=numbers, lock=lock))
            # The stroke snaps to its sites at once; the chain confirms it with its next frame.
            values = np.zeros(len(part.means), np.int64)
            values[sites] = numbers
            over = part.paint(values)
            self.session.write(position, part, np.where(over > 0, over, written))
            self.session.framed.emit()

    def _replaced(self) -> None:
        """The layer has another array: paint, if it has the same form; otherwise it is no longer ours."""
        seg = self.session.segmentation
        if seg is None or seg.layers.labels is None:
            return
        data = seg.layers.labels.data
        same = isinstance(data, np.ndarray) and data.shape == seg.plan.source.label_shape and data.dtype == np.uint16
        if same and data.flags.writeable:
            self._painted(np.empty((0, data.ndim)))
        else:
            self.session.drop()
            self.session.say("the label layer was given other data, so the run has let it go")
            if self.session.run is None:
                self.session.rest()

    def forget(self) -> None:
        """Nothing is left to undo."""
        self._undoable.clear()
        self._redoable.clear()
