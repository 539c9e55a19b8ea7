"""What a person tells the chain: strokes, locks, undo and redo; all of it goes through the chain as orders."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
from napari.layers import Labels
from numpy.typing import NDArray
from qtpy.QtCore import QObject, Signal

from napari_gsw.core.pipeline.live_chain import LiveChain
from napari_gsw.core.sites.strokes import Stroke, path_pixels, stroke_of
from napari_gsw.widgets.kit.preferences import preference
from napari_gsw.widgets.kit.undo_list import UndoList
from napari_gsw.widgets.layers.brush import Brush
from napari_gsw.widgets.layers.source import Position
from napari_gsw.widgets.session.array_run import ArrayRun, wrapped
from napari_gsw.widgets.session.canvas import Canvas
from napari_gsw.widgets.session.correction_step import CorrectionStep
from napari_gsw.widgets.session.orders import Orders
from napari_gsw.widgets.session.run import Order

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

    def __init__(self, orders: Orders, canvas: Canvas, steps: UndoList, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.orders, self.canvas, self.steps = orders, canvas, steps
        self.lock_strokes = bool(preference("lock_painted"))
        canvas.labels_added.connect(self.attach_brush)
        canvas.painted_late.connect(self._painted_late)

    # ---- what the user asks for

    def keep_strokes(self, keep: bool) -> None:
        """Whether every stroke is locked from now on."""
        self.lock_strokes = keep

    def lock_painted(self) -> None:
        """Lock every site that was painted and is not locked yet."""
        self._correct(lambda live: live.lock(np.flatnonzero(live.painted & ~live.locks)))

    def lock_label(self, number: int) -> None:
        """Lock a label as it is on the screen, which may show another state than the newest."""
        show, viewed = self.orders.view.show, self.canvas.viewed

        def lock(live: LiveChain) -> None:
            shown = live.shown(show) if viewed is None or len(viewed) != live.problem.n else viewed
            seen = (shown == number) & ~live.locks
            there = live.numbers == number
            live.lock(np.flatnonzero(seen & there))
            live.paint(np.flatnonzero(seen & ~there), number, True)

        self._correct(lock)

    def unlock(self, number: int | None = None) -> None:
        """Unlock the sites of a number, or all."""
        self._correct(
            lambda live: live.unlock(np.flatnonzero(live.locks if number is None else live.numbers == number))
        )

    def name_sites(self, position: Position, sites: Sequence[int], number: int) -> None:
        """Give sites of an array their label for good."""
        self.canvas.look_ahead()
        self.submit(position, partial(LiveChain.paint, sites=sites, number=number, lock=True))

    def go_on_from_view(self) -> None:
        """Continue the chain from the state that is being looked at."""
        numbers = self.canvas.viewed
        if numbers is not None:
            self.canvas.look_ahead()
            self._correct(lambda live: live.go_back(numbers))
            self.changed.emit()

    def _correct(self, order: Order) -> None:
        position = self.canvas.position
        if position is not None:
            self.submit(position, order)

    def submit(self, position: Position, order: Order) -> None:
        """Have a correction made to the chain at a position, as a step that can be undone."""
        seg = self.orders.segmentation
        if seg is not None and position in seg.array_runs:
            step = CorrectionStep(self, self.canvas, position, seg.array_runs[position].live)
            self.orders.submit(position, step.first(order))
            self.steps.push(step)

    def forget(self) -> None:
        """Nothing of it is left to undo."""
        self.steps.forget(self)

    # ---- the brush

    def attach_brush(self) -> None:
        """Watch the label layer for paint."""
        seg = self.orders.segmentation
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
        seg = self.orders.segmentation
        if seg is None or not seg.layers.label_layers:
            return
        for position, written in list(seg.written.items()):
            array_run = seg.array_runs.get(position)
            if array_run is None:
                continue
            here = seg.layers.labels_at(position)
            along = seg.layers.path_at(layer, path, position)
            live = array_run.live
            size = live.pixels.astype(np.int64) if len(live.pixels) == live.problem.n else None
            stroke = stroke_of(live.problem.site_image, written, here, along, size)
            if not stroke.sites.size:
                if not np.array_equal(here, written):  # paint where there is no site
                    self.canvas.write(position, written)
                continue
            self.canvas.look_ahead()
            self.submit(position, partial(LiveChain.draw, stroke=stroke, lock=self.lock_strokes))
            # A stroke is on the screen at once: with what follows from it, or else until the chain confirms it.
            if self.orders.answered(position, MOMENT):
                self.canvas.collect()
                self.canvas.draw()
            else:
                self.canvas.write(position, self._snapped(position, array_run, stroke, written))
            self.changed.emit()

    def _confirmed(self, layer: Labels, path: NDArray[np.float64]) -> None:
        """A stroke with the label that is there already: if strokes are kept, so is what it went over."""
        seg = self.orders.segmentation
        if seg is None or not self.lock_strokes or not layer.selected_label:
            return  # where nothing is, nothing can be kept
        for position, array_run in seg.array_runs.items():
            live, along = array_run.live, seg.layers.path_at(layer, path, position)
            if not len(along):
                continue
            sites = live.problem.site_image
            pixels = tuple(path_pixels(sites.shape, along).T)
            here = seg.layers.labels_at(position)[pixels] == layer.selected_label
            kept = np.unique(sites[pixels][here]) - 1
            kept = kept[kept >= 0]
            if len(kept) and not live.locks[kept].all():
                self.name_sites(position, kept.tolist(), int(layer.selected_label))

    def _painted_late(self, position: Position, paint: NDArray[np.uint16]) -> None:
        """Paint that was there before the first picture of its chain is a stroke like any other."""
        seg = self.orders.segmentation
        array_run = None if seg is None else seg.array_runs.get(position)
        if seg is None or array_run is None:
            return
        stroke = stroke_of(array_run.live.problem.site_image, np.zeros_like(paint), paint)
        if stroke.sites.size:
            self.submit(position, partial(LiveChain.draw, stroke=stroke, lock=self.lock_strokes))
            self.changed.emit()

    def _snapped(
        self, position: Position, array_run: ArrayRun, stroke: Stroke, written: NDArray[np.uint16]
    ) -> NDArray[np.uint16]:
        """(\\*shape,) what is on the screen with a stroke: its sites; of those that may be cut, the painted pixels."""
        live = array_run.live
        frame, values = self.canvas.frames.get(position), np.zeros(live.problem.n, np.int64)
        as_sites = np.ones(len(stroke.sites), bool)
        if frame is not None and len(frame.locks) == len(values):
            as_sites = ~frame.locks[stroke.sites] | (frame.numbers[stroke.sites] == stroke.numbers)
        values[stroke.sites[as_sites]] = stroke.numbers[as_sites]
        picture = np.array(written)
        box = stroke.reach(live.pixels if len(live.pixels) == len(values) else None)
        numbers = np.concatenate(([0], values))[stroke.site_image[box]]
        np.copyto(picture[box], wrapped(numbers), where=numbers > 0)
        cut = np.isin(stroke.site_image.reshape(-1)[stroke.pixels] - 1, stroke.sites[~as_sites]) & (stroke.labels > 0)
        picture.reshape(-1)[stroke.pixels[cut]] = stroke.labels[cut]
        return picture

    def _replaced(self, layer: Labels) -> None:
        """A layer has another array: paint, if it has the same form; otherwise it is no longer ours."""
        seg = self.orders.segmentation
        if seg is None or not seg.layers.label_layers:
            return
        if seg.layers.fits(layer):
            self._painted(layer, np.empty((0, layer.ndim)))
        else:
            self.detached.emit()
