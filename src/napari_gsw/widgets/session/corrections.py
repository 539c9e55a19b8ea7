"""A correction of a chain as a step that can be undone: through the chain, as an order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np
from napari.layers import Labels
from numpy.typing import NDArray
from qtpy.QtCore import QObject, Signal

from napari_gsw.core.interactive.interactive_run import InteractiveRun
from napari_gsw.core.sites.scribbles import Scribble, make_scribble, trace_path
from napari_gsw.widgets.common.preferences import get_preference
from napari_gsw.widgets.common.undo import UndoStack
from napari_gsw.widgets.layers.brush import Brush
from napari_gsw.widgets.layers.image_source import Position
from napari_gsw.widgets.session.array_run import ArrayRun, Frame, wrap_to_uint16
from napari_gsw.widgets.session.layer_view import LayerView
from napari_gsw.widgets.session.run_plan import RunPlan, Segmentation
from napari_gsw.widgets.session.run_worker import Command, CommandQueue


class CorrectionStep:
    """One correction at a position.

    Attributes
    ----------
    owner : the corrections that it is one of. heavy : it keeps no chain alive that is not on the screen.
    """

    keeps_chains = False

    def __init__(self, owner: object, canvas: LayerView, position: Position, interactive: InteractiveRun) -> None:
        self.owner, self._canvas, self._position, self._live = owner, canvas, position, interactive
        self._refused = False
        # Whether the chain has it among its corrections; None while it has not come to the chain.
        self._in_effect: bool | None = None

    @property
    def is_obsolete(self) -> bool:
        seg = self._canvas.commands.segmentation
        array_run = None if seg is None else seg.array_runs.get(self._position)
        return self._refused or array_run is None or array_run.interactive is not self._live

    def first(self, order: Command) -> Command:
        """The order that makes the correction."""

        def act(interactive: InteractiveRun) -> None:
            before = len(interactive.log.corrections)
            try:
                order(interactive)
            finally:  # it may have been refused, or have had nothing to do
                self._in_effect = len(interactive.log.corrections) > before
                self._refused = not self._in_effect

        return act

    def undo(self) -> None:
        self._submit(self._take_back)

    def redo(self) -> None:
        self._submit(self._do_again)

    def _submit(self, order: Command) -> None:
        self._canvas.show_current()
        self._canvas.commands.submit(self._position, order)

    def _take_back(self, interactive: InteractiveRun) -> None:
        if self._in_effect:
            self._in_effect = not interactive.undo()

    def _do_again(self, interactive: InteractiveRun) -> None:
        if self._in_effect is False and not self._refused:
            self._in_effect = interactive.redo()


@dataclass(eq=False)
class SegmentationState:
    """The plan of the last run, the chains, the newest frame of each, and the fineness that is shown."""

    plan: RunPlan
    array_runs: dict[Position, ArrayRun] = field(default_factory=dict)
    frames: dict[Position, Frame] = field(default_factory=dict)
    detail: float | None = None


@dataclass(eq=False)
class ResetStep:
    """A Reset: whoever undoes it exchanges how the segmentation stands now for how it stood, and back again.

    Attributes
    ----------
    owner : the session. aside : what is not on the screen.
    exchange : puts another standing on the screen, when no run is on, and hands over the one that was there.
    is_void : whether the segmentation is gone.
    """

    owner: object
    segmentation: Segmentation
    aside: SegmentationState
    exchange: Callable[[ResetStep], None]
    is_void: Callable[[Segmentation], bool]
    keeps_chains: bool = True

    @property
    def is_obsolete(self) -> bool:
        return self.is_void(self.segmentation)

    def undo(self) -> None:
        self.exchange(self)

    def redo(self) -> None:
        self.exchange(self)


# How long a stroke waits for the chain to take it up before it is drawn, in seconds: less than what nobody notices,
# and less than it takes to paint the screen twice.
MOMENT = 0.06


class Corrections(QObject):  # type: ignore[misc]
    """Corrections of the segmentation that the orders work on.

    Signals
    -------
    changed : a correction is on the screen, and on its way to the chain.
    detached : the label layer was given other data, and is no longer ours.

    Attributes
    ----------
    lock_strokes : whether every stroke is locked at once.
    steps : what can be undone.
    """

    changed = Signal()
    detached = Signal()

    def __init__(
        self, commands: CommandQueue, canvas: LayerView, steps: UndoStack, parent: QObject | None = None
    ) -> None:
        super().__init__(parent)
        self.commands, self.canvas, self.steps = commands, canvas, steps
        self.lock_strokes = bool(get_preference("lock_painted"))
        canvas.labels_added.connect(self.attach_brush)
        canvas.painted_late.connect(self._painted_late)

    # ---- what the user asks for

    def keep_strokes(self, keep: bool) -> None:
        """Whether every stroke is locked from now on."""
        self.lock_strokes = keep

    def lock_painted(self) -> None:
        """Lock every site that was painted and is not locked yet."""
        self._correct(lambda interactive: interactive.lock(np.flatnonzero(interactive.painted & ~interactive.locks)))

    def lock_label(self, number: int) -> None:
        """Lock a label as it is on the screen, which may show another state than the newest."""
        show, viewed = self.commands.view.show, self.canvas.viewed

        def lock(interactive: InteractiveRun) -> None:
            shown = interactive.shown(show) if viewed is None or len(viewed) != interactive.problem.n else viewed
            seen = (shown == number) & ~interactive.locks
            there = interactive.numbers == number
            interactive.lock(np.flatnonzero(seen & there))
            interactive.paint(np.flatnonzero(seen & ~there), number, True)

        self._correct(lock)

    def unlock(self, number: int | None = None) -> None:
        """Unlock the sites of a number, or all."""
        self._correct(
            lambda interactive: interactive.unlock(
                np.flatnonzero(interactive.locks if number is None else interactive.numbers == number)
            )
        )

    def name_sites(self, position: Position, sites: Sequence[int], number: int) -> None:
        """Give sites of an array their label for good."""
        self.canvas.leave_history()
        self.submit(position, partial(InteractiveRun.paint, sites=sites, number=number, lock=True))

    def go_on_from_view(self) -> None:
        """Continue the chain from the state that is being looked at."""
        numbers = self.canvas.viewed
        if numbers is not None:
            self.canvas.leave_history()
            self._correct(lambda interactive: interactive.go_back(numbers))
            self.changed.emit()

    def _correct(self, order: Command) -> None:
        position = self.canvas.position
        if position is not None:
            self.submit(position, order)

    def submit(self, position: Position, order: Command) -> None:
        """Have a correction made to the chain at a position, as a step that can be undone."""
        seg = self.commands.segmentation
        if seg is not None and position in seg.array_runs:
            step = CorrectionStep(self, self.canvas, position, seg.array_runs[position].interactive)
            self.commands.submit(position, step.first(order))
            self.steps.push(step)

    def forget(self) -> None:
        """Nothing of it is left to undo."""
        self.steps.forget(self)

    # ---- the brush

    def attach_brush(self) -> None:
        """Watch the label layer for paint."""
        seg = self.commands.segmentation
        assert seg is not None
        self.detach_brush()
        for layer in seg.layers.label_layers:
            if not layer.multiscale:  # napari does not let anybody paint on a pyramid
                painted, replaced = partial(self._painted, layer), partial(self._replaced, layer)
                confirmed = partial(self._confirmed, layer)
                brush = Brush(layer, painted, replaced, self.steps.undo, self.steps.redo, confirmed)
                self.canvas.brushes.append(brush)

    def detach_brush(self) -> None:
        """Give the label layers back to napari."""
        for brush in self.canvas.brushes:
            brush.detach()
        self.canvas.brushes.clear()

    def _painted(self, layer: Labels, path: NDArray[np.float64]) -> None:
        """A stroke on a layer is done: find out which sites it means and hand them to the chain."""
        seg = self.commands.segmentation
        if seg is None or not seg.layers.label_layers:
            return
        for position, written in list(seg.written.items()):
            array_run = seg.array_runs.get(position)
            if array_run is None:
                continue
            here = seg.layers.labels_at(position)
            along = seg.layers.path_at(layer, path, position)
            interactive = array_run.interactive
            size = interactive.pixels.astype(np.int64) if len(interactive.pixels) == interactive.problem.n else None
            stroke = make_scribble(interactive.problem.site_image, written, here, along, size)
            if not stroke.sites.size:
                if not np.array_equal(here, written):  # paint where there is no site
                    self.canvas.write(position, written)
                continue
            self.canvas.leave_history()
            self.submit(position, partial(InteractiveRun.draw, stroke=stroke, lock=self.lock_strokes))
            # A stroke is on the screen at once: with what follows from it, or else until the chain confirms it.
            if self.commands.answered(position, MOMENT):
                self.canvas.collect()
                self.canvas.draw()
            else:
                self.canvas.write(position, self._snapped(position, array_run, stroke, written))
            self.changed.emit()

    def _confirmed(self, layer: Labels, path: NDArray[np.float64]) -> None:
        """A stroke with the label that is there already: if strokes are kept, so is what it went over."""
        seg = self.commands.segmentation
        if seg is None or not self.lock_strokes or not layer.selected_label:
            return  # where nothing is, nothing can be kept
        for position, array_run in seg.array_runs.items():
            interactive, along = array_run.interactive, seg.layers.path_at(layer, path, position)
            if not len(along):
                continue
            sites = interactive.problem.site_image
            pixels = tuple(trace_path(sites.shape, along).T)
            here = seg.layers.labels_at(position)[pixels] == layer.selected_label
            kept = np.unique(sites[pixels][here]) - 1
            kept = kept[kept >= 0]
            if len(kept) and not interactive.locks[kept].all():
                self.name_sites(position, kept.tolist(), int(layer.selected_label))

    def _painted_late(self, position: Position, paint: NDArray[np.uint16]) -> None:
        """Paint that was there before the first picture of its chain is a stroke like any other."""
        seg = self.commands.segmentation
        array_run = None if seg is None else seg.array_runs.get(position)
        if seg is None or array_run is None:
            return
        stroke = make_scribble(array_run.interactive.problem.site_image, np.zeros_like(paint), paint)
        if stroke.sites.size:
            self.submit(position, partial(InteractiveRun.draw, stroke=stroke, lock=self.lock_strokes))
            self.changed.emit()

    def _snapped(
        self, position: Position, array_run: ArrayRun, stroke: Scribble, written: NDArray[np.uint16]
    ) -> NDArray[np.uint16]:
        """(\\*shape,) what is on the screen with a stroke: its sites; of those that may be cut, the painted pixels."""
        interactive = array_run.interactive
        frame, values = self.canvas.frames.get(position), np.zeros(interactive.problem.n, np.int64)
        as_sites = np.ones(len(stroke.sites), bool)
        if frame is not None and len(frame.locks) == len(values):
            as_sites = ~frame.locks[stroke.sites] | (frame.numbers[stroke.sites] == stroke.numbers)
        values[stroke.sites[as_sites]] = stroke.numbers[as_sites]
        picture = np.array(written)
        box = stroke.bounding_box(interactive.pixels if len(interactive.pixels) == len(values) else None)
        numbers = np.concatenate(([0], values))[stroke.site_image[box]]
        np.copyto(picture[box], wrap_to_uint16(numbers), where=numbers > 0)
        cut = np.isin(stroke.site_image.reshape(-1)[stroke.pixels] - 1, stroke.sites[~as_sites]) & (stroke.labels > 0)
        picture.reshape(-1)[stroke.pixels[cut]] = stroke.labels[cut]
        return picture

    def _replaced(self, layer: Labels) -> None:
        """A layer has another array: paint, if it has the same form; otherwise it is no longer ours."""
        seg = self.commands.segmentation
        if seg is None or not seg.layers.label_layers:
            return
        if seg.layers.fits(layer):
            self._painted(layer, np.empty((0, layer.ndim)))
        else:
            self.detached.emit()
