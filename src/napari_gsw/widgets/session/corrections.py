"""Corrections by the user (scribbles, locks, Reset) as commands to the chain that can be undone."""

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
    """One correction at a position, as a step of the undo stack; all of it goes through the chain as commands.

    Attributes
    ----------
    owner : the corrections that it belongs to.
    keeps_chains : whether it keeps chains alive that are not displayed.
    """

    keeps_chains = False

    def __init__(self, owner: object, canvas: LayerView, position: Position, interactive: InteractiveRun) -> None:
        self.owner, self._canvas, self._position, self._interactive = owner, canvas, position, interactive
        self._refused = False
        # Whether the chain has it among its corrections; None until the command is carried out.
        self._in_effect: bool | None = None

    @property
    def is_obsolete(self) -> bool:
        """Whether it can no longer be undone."""
        seg = self._canvas.commands.segmentation
        array_run = None if seg is None else seg.array_runs.get(self._position)
        return self._refused or array_run is None or array_run.interactive is not self._interactive

    def first(self, command: Command) -> Command:
        """Return the command that makes the correction and notes whether it had any effect."""

        def act(interactive: InteractiveRun) -> None:
            before = len(interactive.log.corrections)
            try:
                command(interactive)
            finally:
                self._in_effect = len(interactive.log.corrections) > before
                self._refused = not self._in_effect

        return act

    def undo(self) -> None:
        """Undo the correction."""
        self._submit(self._undo)

    def redo(self) -> None:
        """Make the correction again."""
        self._submit(self._redo)

    def _submit(self, command: Command) -> None:
        self._canvas.show_current()
        self._canvas.commands.submit(self._position, command)

    def _undo(self, interactive: InteractiveRun) -> None:
        if self._in_effect:
            self._in_effect = not interactive.undo()

    def _redo(self, interactive: InteractiveRun) -> None:
        if self._in_effect is False and not self._refused:
            self._in_effect = interactive.redo()


@dataclass(eq=False)
class SegmentationState:
    """The plan of the last run, the runs of the arrays, the newest frame of each, and the displayed detail."""

    plan: RunPlan
    array_runs: dict[Position, ArrayRun] = field(default_factory=dict)
    frames: dict[Position, Frame] = field(default_factory=dict)
    detail: float | None = None


@dataclass(eq=False)
class ResetStep:
    """A Reset as a step of the undo stack: undo and redo exchange the present state of a segmentation and another.

    Attributes
    ----------
    owner : the session.
    aside : the state that is not displayed.
    exchange : displays `aside` once no run is on, and puts the displayed state in its place.
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
        """Whether it can no longer be undone."""
        return self.is_void(self.segmentation)

    def undo(self) -> None:
        """Show the state before the Reset."""
        self.exchange(self)

    redo = undo


# Seconds that a scribble waits for the chain before it is drawn: unnoticeable, and less than it takes to paint twice.
MOMENT = 0.06


class Corrections(QObject):  # type: ignore[misc]
    """Scribbles and locks of the current segmentation.

    Signals
    -------
    changed : a correction is displayed, and on its way to the chain.
    detached : the label layer was given other data, and is no longer ours.

    Attributes
    ----------
    lock_strokes : whether every scribble is locked at once.
    steps : the undo stack.
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
        canvas.painted_late.connect(self._add_late_paint)

    def keep_strokes(self, keep: bool) -> None:
        """Lock every scribble from now on, or not."""
        self.lock_strokes = keep

    def lock_painted(self) -> None:
        """Lock every painted site that is not locked yet."""
        self._correct(lambda run: run.lock(np.flatnonzero(run.painted & ~run.locks)))

    def lock_label(self, number: int) -> None:
        """Lock a label as it is displayed, which may be in another state than the newest."""
        show, viewed = self.commands.view.show, self.canvas.viewed

        def lock(run: InteractiveRun) -> None:
            shown = run.shown(show) if viewed is None or len(viewed) != run.problem.n else viewed
            free = (shown == number) & ~run.locks
            run.lock(np.flatnonzero(free & (run.display_labels == number)))
            run.paint(np.flatnonzero(free & (run.display_labels != number)), number, True)

        self._correct(lock)

    def unlock(self, number: int | None = None) -> None:
        """Unlock the sites of a label, or all."""
        self._correct(
            lambda run: run.unlock(np.flatnonzero(run.locks if number is None else run.display_labels == number))
        )

    def name_sites(self, position: Position, sites: Sequence[int], number: int) -> None:
        """Give sites a label and lock them."""
        self.canvas.leave_history()
        self.submit(position, partial(InteractiveRun.paint, sites=sites, number=number, lock=True))

    def go_on_from_view(self) -> None:
        """Continue the chain from the displayed earlier sweep."""
        numbers = self.canvas.viewed
        if numbers is not None:
            self.canvas.leave_history()
            self._correct(lambda run: run.revert_to(numbers))
            self.changed.emit()

    def _correct(self, command: Command) -> None:
        position = self.canvas.position
        if position is not None:
            self.submit(position, command)

    def submit(self, position: Position, command: Command) -> None:
        """Have a correction made to the chain at a position, as a step that can be undone."""
        seg = self.commands.segmentation
        if seg is not None and position in seg.array_runs:
            step = CorrectionStep(self, self.canvas, position, seg.array_runs[position].interactive)
            self.commands.submit(position, step.first(command))
            self.steps.push(step)

    def forget(self) -> None:
        """Remove all corrections from the undo stack."""
        self.steps.forget(self)

    # ---- the brush

    def attach_brush(self) -> None:
        """Watch the label layers for paint."""
        seg = self.commands.segmentation
        assert seg is not None
        self.detach_brush()
        for layer in seg.layers.label_layers:
            if not layer.multiscale:  # napari does not allow painting on a pyramid
                callbacks = [partial(f, layer) for f in (self._add_scribble, self._replace_data, self._confirm_label)]
                paint, replace, confirm = callbacks
                self.canvas.brushes.append(Brush(layer, paint, replace, self.steps.undo, self.steps.redo, confirm))

    def detach_brush(self) -> None:
        """Stop watching the label layers."""
        for brush in self.canvas.brushes:
            brush.detach()
        self.canvas.brushes.clear()

    def _add_scribble(self, layer: Labels, path: NDArray[np.float64]) -> None:
        """Find the sites that new paint on a layer covers, and hand them to the chain."""
        seg = self.commands.segmentation
        if seg is None or not seg.layers.label_layers:
            return
        for position, written in list(seg.written.items()):
            array_run = seg.array_runs.get(position)
            if array_run is None:
                continue
            painted = seg.layers.labels_at(position)
            interactive = array_run.interactive
            size = interactive.pixels.astype(np.int64) if len(interactive.pixels) == interactive.problem.n else None
            path_here = seg.layers.path_at(layer, path, position)
            stroke = make_scribble(interactive.problem.site_image, written, painted, path_here, size)
            if not stroke.sites.size:
                if not np.array_equal(painted, written):  # paint where there is no site
                    self.canvas.write(position, written)
                continue
            self.canvas.leave_history()
            self.submit(position, partial(InteractiveRun.draw, stroke=stroke, lock=self.lock_strokes))
            # Shown at once: with what follows from it, or else as it is until the chain confirms it.
            if self.commands.answered(position, MOMENT):
                self.canvas.collect()
                self.canvas.draw()
            else:
                self.canvas.write(position, self._snap_to_sites(position, array_run, stroke, written))
            self.changed.emit()

    def _confirm_label(self, layer: Labels, path: NDArray[np.float64]) -> None:
        """Lock the sites under a scribble with the label that they have, if scribbles are locked."""
        seg = self.commands.segmentation
        if seg is None or not self.lock_strokes or not layer.selected_label:
            return
        for position, array_run in seg.array_runs.items():
            interactive, path_here = array_run.interactive, seg.layers.path_at(layer, path, position)
            if not len(path_here):
                continue
            sites = interactive.problem.site_image
            pixels = tuple(trace_path(sites.shape, path_here).T)
            has_label = seg.layers.labels_at(position)[pixels] == layer.selected_label
            confirmed = np.unique(sites[pixels][has_label]) - 1
            confirmed = confirmed[confirmed >= 0]
            if len(confirmed) and not interactive.locks[confirmed].all():
                self.name_sites(position, confirmed.tolist(), int(layer.selected_label))

    def _add_late_paint(self, position: Position, paint: NDArray[np.uint16]) -> None:
        """Take paint from before the first frame of a chain as a scribble."""
        seg = self.commands.segmentation
        array_run = None if seg is None else seg.array_runs.get(position)
        if seg is None or array_run is None:
            return
        stroke = make_scribble(array_run.interactive.problem.site_image, np.zeros_like(paint), paint)
        if stroke.sites.size:
            self.submit(position, partial(InteractiveRun.draw, stroke=stroke, lock=self.lock_strokes))
            self.changed.emit()

    def _snap_to_sites(
        self, position: Position, array_run: ArrayRun, stroke: Scribble, written: NDArray[np.uint16]
    ) -> NDArray[np.uint16]:
        """Return the label image with a scribble: its whole sites, or its pixels where sites may be split."""
        interactive = array_run.interactive
        frame, values = self.canvas.frames.get(position), np.zeros(interactive.problem.n, np.int64)
        as_sites = np.ones(len(stroke.sites), bool)
        if frame is not None and len(frame.locks) == len(values):
            as_sites = ~frame.locks[stroke.sites] | (frame.numbers[stroke.sites] == stroke.numbers)
        values[stroke.sites[as_sites]] = stroke.numbers[as_sites]
        labels = np.array(written)
        box = stroke.bounding_box(interactive.pixels if len(interactive.pixels) == len(values) else None)
        numbers = np.concatenate(([0], values))[stroke.site_image[box]]
        np.copyto(labels[box], wrap_to_uint16(numbers), where=numbers > 0)
        split_sites = np.isin(stroke.site_image.reshape(-1)[stroke.pixels] - 1, stroke.sites[~as_sites])
        is_pixel = split_sites & (stroke.labels > 0)
        labels.reshape(-1)[stroke.pixels[is_pixel]] = stroke.labels[is_pixel]
        return labels

    def _replace_data(self, layer: Labels) -> None:
        """Take a new array of the same shape as paint; a layer with another shape is no longer ours."""
        seg = self.commands.segmentation
        if seg is None or not seg.layers.label_layers:
            return
        if seg.layers.fits(layer):
            self._add_scribble(layer, np.empty((0, layer.ndim)))
        else:
            self.detached.emit()
