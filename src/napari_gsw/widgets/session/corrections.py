"""Corrections by the user as commands to the chain that can be undone: scribbles, locks, edits of objects.

A scribble on objects or regions, or a key there (accept, merge, cut, delete, draw), is interpreted for the displayed
labels (:mod:`napari_gsw.core.posterior.object_edits`), shown at once, and handed to the chain. The answer to a query,
which is computed as a command between two sweeps, is a correction like any scribble.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Literal

import numpy as np
from napari.layers import Labels
from numpy.typing import NDArray
from qtpy.QtCore import QObject, Signal

from napari_gsw.core.array_types import BoolArray, PointArray
from napari_gsw.core.errors import InputError
from napari_gsw.core.interactive.interactive_run import InteractiveRun
from napari_gsw.core.model.problem import site_pixels
from napari_gsw.core.posterior.active_learning import Query, next_query
from napari_gsw.core.posterior.object_edits import (
    Edit,
    Tool,
    accept_object,
    delete_object,
    edit_from_scribble,
    find_unused_labels,
)
from napari_gsw.core.sites.scribbles import Scribble, make_scribble, trace_path
from napari_gsw.widgets.common.setting_widgets import get_preference
from napari_gsw.widgets.common.undo import UndoStack
from napari_gsw.widgets.layers.brush import Brush
from napari_gsw.widgets.layers.cursor import find_label
from napari_gsw.widgets.layers.image_source import Position
from napari_gsw.widgets.session.array_run import ArrayRun, wrap_to_uint16
from napari_gsw.widgets.session.layer_view import LayerView
from napari_gsw.widgets.session.run_worker import Command, RunController

Action = Literal["accept", "merge", "cut", "delete", "draw"]
# Keys that napari does not use on Labels layers; they work while the layer of regions is selected.
EDIT_KEYS: dict[Action, str] = {"accept": "A", "merge": "J", "cut": "C", "delete": "D", "draw": "N"}
# Width in pixels of the line with which objects are cut and merged.
THIN = 1


class CorrectionStep:
    """One correction at a position, as a step of the undo stack; all of it goes through the chain as commands."""

    keeps_chains = False

    def __init__(self, owner: Corrections, position: Position, interactive: InteractiveRun) -> None:
        self.owner, self._position, self._interactive = owner, position, interactive
        self._refused = False

    @property
    def is_obsolete(self) -> bool:
        array_run = self.owner.controller.get_array_run(self._position)
        return self._refused or array_run is None or array_run.interactive is not self._interactive

    def carry_out(self, interactive: InteractiveRun, command: Command) -> None:
        """Make the correction and note whether it had any effect."""
        before = len(interactive.log.corrections)
        try:
            command(interactive)
        finally:
            self._refused = len(interactive.log.corrections) == before

    def undo(self, command: Command = InteractiveRun.undo) -> None:
        self.owner.layer_view.show_current()
        # It may have been refused after the user has asked for its undo.
        self.owner.controller.submit(self._position, lambda run: None if self._refused else command(run))

    def redo(self) -> None:
        self.undo(InteractiveRun.redo)


class Corrections(QObject):  # type: ignore[misc]
    """Scribbles and locks of the current segmentation."""

    changed = Signal()  # a correction is displayed, and on its way to the chain
    detached = Signal()  # the label layer was given other data, and is no longer ours

    def __init__(
        self, controller: RunController, layer_view: LayerView, steps: UndoStack, parent: QObject | None = None
    ) -> None:
        super().__init__(parent)
        self.controller, self.layer_view, self.steps = controller, layer_view, steps
        self.lock_strokes = bool(get_preference("lock_painted"))  # every scribble is locked at once
        layer_view.labels_added.connect(self.attach_brush)
        layer_view.painted_late.connect(self._add_late_paint)

    def keep_strokes(self, keep: bool) -> None:
        self.lock_strokes = keep

    def submit(self, position: Position | None, command: Command) -> None:
        """Have a correction made to the chain at a position, as a step that can be undone."""
        if position is not None and (array_run := self.controller.get_array_run(position)) is not None:
            step = CorrectionStep(self, position, array_run.interactive)
            self.controller.submit(position, partial(step.carry_out, command=command))
            self.steps.push(step)

    def lock_painted(self) -> None:
        self.submit(self.controller.position, lambda run: run.lock(np.flatnonzero(run.painted & ~run.locks)))

    def lock_label(self, number: int) -> None:
        """Lock a label as it is displayed, which may be in another state than the newest."""
        show, viewed = self.controller.view.show, self.layer_view.viewed

        def lock(run: InteractiveRun) -> None:
            shown = run.shown(show) if viewed is None or len(viewed) != run.problem.n else viewed
            free = (shown == number) & ~run.locks
            run.lock(np.flatnonzero(free & (run.display_labels == number)))
            run.paint(np.flatnonzero(free & (run.display_labels != number)), number, True)

        self.submit(self.controller.position, lock)

    def unlock(self, number: int | None = None) -> None:
        def unlock(run: InteractiveRun) -> None:
            run.unlock(np.flatnonzero(run.locks if number is None else run.display_labels == number))

        self.submit(self.controller.position, unlock)

    def name_sites(self, position: Position, sites: Sequence[int], number: int) -> None:
        self.layer_view.leave_history()
        self.submit(position, partial(InteractiveRun.paint, sites=sites, number=number, lock=True))

    def go_on_from_view(self) -> None:
        if (numbers := self.layer_view.viewed) is not None:
            self.layer_view.leave_history()
            self.submit(self.controller.position, lambda run: run.revert_to(numbers))
            self.changed.emit()

    # ---- the brush

    def attach_brush(self) -> None:
        seg = self.controller.segmentation
        assert seg is not None
        self.detach_brush()
        for layer in seg.layers.label_layers:
            if not layer.multiscale:  # napari does not allow painting on a pyramid
                paint, confirm = partial(self._add_scribble, layer), partial(self._confirm_label, layer)
                undo, redo, fits = self.steps.undo, self.steps.redo, seg.layers.fits
                self.layer_view.brushes.append(Brush(layer, paint, self.detached.emit, undo, redo, confirm, fits))

    def detach_brush(self) -> None:
        for brush in self.layer_view.brushes:
            brush.detach()
        self.layer_view.brushes.clear()

    def _add_scribble(self, layer: Labels, path: NDArray[np.float64]) -> None:
        seg = self.controller.segmentation
        if seg is None or not seg.layers.label_layers:
            return
        for position, written in list(seg.written.items()):
            if (array_run := seg.array_runs.get(position)) is None:
                continue
            painted = seg.layers.labels_at(position)
            problem = array_run.interactive.problem
            path_here, size = seg.layers.path_at(layer, path, position), site_pixels(problem).astype(np.int64)
            stroke = make_scribble(problem.site_image, written, painted, path_here, size)
            if stroke.sites.size:
                self.layer_view.leave_history()
                self._draw(position, stroke)
                # Shown at once, until the chain has followed.
                self.layer_view.write(position, self._snap_to_sites(array_run, stroke, written))
                self.changed.emit()
            elif not np.array_equal(painted, written):  # paint where there is no site
                self.layer_view.write(position, written)

    def _draw(self, position: Position, stroke: Scribble) -> None:
        self.submit(position, partial(InteractiveRun.draw, stroke=stroke, lock=self.lock_strokes))

    def _add_late_paint(self, position: Position, paint: NDArray[np.uint16]) -> None:
        if (array_run := self.controller.get_array_run(position)) is not None:
            stroke = make_scribble(array_run.interactive.problem.site_image, np.zeros_like(paint), paint)
            if stroke.sites.size:
                self._draw(position, stroke)
                self.changed.emit()

    def _confirm_label(self, layer: Labels, path: NDArray[np.float64]) -> None:
        """Lock the sites under a scribble with the label that they have, if scribbles are locked."""
        seg = self.controller.segmentation
        if seg is None or not self.lock_strokes or not layer.selected_label:
            return
        for position, array_run in seg.array_runs.items():
            sites = array_run.interactive.problem.site_image
            pixels = tuple(trace_path(sites.shape, seg.layers.path_at(layer, path, position)).T)
            has_label = seg.layers.labels_at(position)[pixels] == layer.selected_label
            confirmed = np.unique(sites[pixels][has_label]) - 1
            confirmed = confirmed[confirmed >= 0]
            if not array_run.interactive.locks[confirmed].all():
                self.name_sites(position, confirmed.tolist(), int(layer.selected_label))

    @staticmethod
    def _snap_to_sites(array_run: ArrayRun, stroke: Scribble, written: NDArray[np.uint16]) -> NDArray[np.uint16]:
        """Return the label image with a scribble: its whole sites, or its pixels where sites may be split."""
        frame, pixels = array_run.frame, site_pixels(array_run.interactive.problem)
        values = np.zeros(len(pixels), np.int64)
        as_sites = np.ones(len(stroke.sites), bool)
        if frame is not None and len(frame.locks) == len(values):
            as_sites = ~frame.locks[stroke.sites] | (frame.numbers[stroke.sites] == stroke.numbers)
        values[stroke.sites[as_sites]] = stroke.numbers[as_sites]
        labels = np.array(written)
        box = stroke.bounding_box(pixels)
        numbers = np.concatenate(([0], values))[stroke.site_image[box]]
        np.copyto(labels[box], wrap_to_uint16(numbers), where=numbers > 0)
        split_sites = np.isin(stroke.site_image.reshape(-1)[stroke.pixels] - 1, stroke.sites[~as_sites])
        is_pixel = split_sites & (stroke.labels > 0)
        labels.reshape(-1)[stroke.pixels[is_pixel]] = stroke.labels[is_pixel]
        return labels


class ObjectEditor(QObject):  # type: ignore[misc]
    """Edits of the layer of regions or objects."""

    changed = Signal()  # the layer or the tool has changed
    refused = Signal(str)  # why an edit is not possible
    layer_replaced = Signal(object)  # the layer was given other data, and is no longer ours

    def __init__(self, corrections: Corrections, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.corrections, self.layer_view, self.controller = corrections, corrections.layer_view, corrections.controller
        # What the next scribble does: "merge", "cut" or "draw"; None for what its label means.
        self.tool: Action | None = None
        self._brush_size = 0.0
        self.layer_view.regions_added.connect(self.attach)

    @property
    def layer(self) -> Labels | None:
        return None if self.layer_view.region_brush is None else self.layer_view.region_brush.layer

    def attach(self) -> None:
        seg = self.controller.segmentation
        self.detach()
        if seg is None or seg.plan.source.is_image_list or seg.layers.regions is None or seg.layers.regions.multiscale:
            return  # napari does not allow painting on a pyramid
        layer, steps = seg.layers.regions, self.corrections.steps
        replaced = partial(self.layer_replaced.emit, layer)
        brush = Brush(layer, self._apply_scribble, replaced, steps.undo, steps.redo, fits=seg.layers.fits)
        self.layer_view.region_brush = brush
        for event in (layer.events.mode, layer.events.selected_label):
            event.connect(self._drop_tool)
        for action, key in EDIT_KEYS.items():
            # No partial: napari asks what is bound to a key for its name.
            def press(layer: Any, action: Action = action) -> None:
                """Act on the object under the mouse."""
                self._do(action, find_label(layer, self.layer_view.viewer.cursor.position))

            layer.bind_key(key, press, overwrite=True)
        self.changed.emit()

    def detach(self) -> None:
        """Stop watching the layer, without a signal: Qt may have destroyed the panel already."""
        if (brush := self.layer_view.region_brush) is None:
            return
        brush.detach()
        self.layer_view.region_brush = None
        for event in (brush.layer.events.mode, brush.layer.events.selected_label):
            event.disconnect(self._drop_tool)
        for key in EDIT_KEYS.values():
            brush.layer.bind_key(key, None)
        self.tool = None

    def act(self, action: Action) -> None:
        """Accept or delete the object of the selected label, or take a tool for the next scribbles."""
        if self.layer is not None:
            self._do(action, int(self.layer.selected_label))

    def _do(self, action: Action, number: int) -> None:
        position = self.controller.position
        seg = self.controller.segmentation
        shown = None if seg is None or position is None else seg.written_regions.get(position)
        if shown is None or position is None:
            return  # there are no regions yet
        if action in ("accept", "delete"):
            edit = accept_object if action == "accept" else delete_object
            self._try(position, lambda: edit(shown, number, self._are_objects(position)))
        else:
            self._take(None if self.tool == action else action, find_unused_labels(shown)[0])

    def _take(self, tool: Action | None, label: int) -> None:
        if (layer := self.layer) is None:
            return
        self.layer_view.viewer.layers.selection.active = layer
        self._drop_tool()
        if tool is None:
            layer.mode = "pan_zoom"
            return
        layer.mode = "erase" if tool == "cut" else "paint"
        layer.selected_label = label
        if tool != "draw":
            self._brush_size, layer.brush_size = layer.brush_size, THIN
        self.tool = tool
        self.changed.emit()

    def _drop_tool(self, event: Any = None) -> None:
        """Drop the tool, as when the user chooses another mode or label in the controls of the layer."""
        if self.tool is None:
            return
        if self.tool != "draw" and self.layer is not None:
            self.layer.brush_size = self._brush_size
        self.tool = None
        self.changed.emit()

    # ---- scribbles

    def _apply_scribble(self, path: PointArray) -> None:
        seg, layer = self.controller.segmentation, self.layer
        if seg is None or layer is None:
            return
        tool: Tool = self.tool if self.tool in ("merge", "cut") else "paint"
        for position, shown in list(seg.written_regions.items()):
            array_run = seg.array_runs.get(position)
            painted = np.array(layer.data[seg.plan.source.index(position)])
            if array_run is None or np.array_equal(painted, shown):
                continue
            path_here, mask = seg.plan.source.path_at(path, position), np.asarray(array_run.sites) > 0
            are_objects = self._are_objects(position)
            self.layer_view.write_regions(position, shown)  # until it is known what the scribble means
            self._try(position, partial(edit_from_scribble, shown, painted, path_here, are_objects, mask, tool))

    def _try(self, position: Position, make_edit: Callable[[], Edit | None]) -> None:
        """Show an edit and hand it to the chain, or report why it is not possible."""
        array_run = self.controller.get_array_run(position)
        assert array_run is not None
        try:
            if (edit := make_edit()) is None:
                return
            array_run.interactive.check_edit()
        except InputError as reason:
            self.refused.emit(str(reason))
            return
        self.layer_view.leave_history()
        self.corrections.submit(position, partial(InteractiveRun.edit, edit=edit))
        self.layer_view.write_regions(position, edit.after)
        self.corrections.changed.emit()

    def _are_objects(self, position: Position) -> bool:
        array_run = self.controller.get_array_run(position)
        return array_run is not None and array_run.frame is not None and array_run.frame.kind == "object"

    def release(self) -> None:
        self.detach()
        self.changed.emit()


# Smallest probability with which a superpixel counts as following the answer.
FOLLOWS = 0.5
# Labels in the layer of the query.
ASKED, FOLLOWING = 1, 2
# Largest number of candidate labels in the text.
MAX_NAMED = 3


class ActiveLearning(QObject):  # type: ignore[misc]
    """Queries about the current segmentation, until the user stops them."""

    changed = Signal()  # another query, or none

    def __init__(self, corrections: Corrections, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.corrections, self.layer_view, self.controller = corrections, corrections.layer_view, corrections.controller
        self.active = False  # whether the user wants queries
        self.question: Query | None = None  # None while the next is computed
        self._position: Position = ()
        self._nothing_left = False
        self._is_submitted = False
        self._reply: tuple[Position, InteractiveRun, Query | None] | None = None  # left by the worker
        self._skipped: dict[Position, BoolArray] = {}
        corrections.changed.connect(self._ask_again)

    @property
    def text(self) -> str:
        """The query as a sentence, or why there is none; empty if the user wants none."""
        if not self.active:
            return ""
        if self.question is not None:
            candidates = zip(self.question.numbers.tolist(), self.question.probabilities.tolist(), strict=True)
            names = [f"{number} ({100 * p:.0f} %)" for number, p in candidates]
            return f"Which label is this? {', '.join(names[:MAX_NAMED])}"
        if self._nothing_left:
            return "There is nothing left to ask."
        if self.controller.run is None:
            return "Press Run: too little is known yet for a question."
        return "Looking for the next question ..."

    def start(self) -> None:
        self.active, self._nothing_left, self._is_submitted, self._reply = True, False, False, None
        self._skipped.clear()
        self.update()
        self.changed.emit()

    def stop(self) -> None:
        """Stop asking; also when Qt has destroyed the panel already."""
        was_active, self.active, self.question = self.active, False, None
        if (seg := self.controller.segmentation) is not None:
            seg.layers.remove("question")
        if was_active:
            with suppress(RuntimeError):
                self.changed.emit()

    def answer(self, number: int | None = None) -> None:
        """Give the superpixel an existing label, or the most probable one for None."""
        question, array_run = self.question, self.controller.get_array_run(self._position)
        if question is None or array_run is None or array_run.frame is None:
            return
        number = int(question.numbers[0]) if number is None else number
        if number in question.numbers or number in array_run.frame.numbers:
            self._close()
            self.corrections.name_sites(self._position, [question.site], number)
            self.changed.emit()

    def skip(self) -> None:
        """Ask about something else, and not about superpixels that would have followed the answer."""
        if self.question is not None:
            skipped = self.question.propagation >= FOLLOWS
            skipped[self.question.site] = True
            self._skipped[self._position] = skipped | self._skipped.get(self._position, False)
            self._close()
            self.update()
            self.changed.emit()

    def update(self) -> None:
        """Show the next query if it has been computed, or have it computed once the chain allows it."""
        if not self.active or self.question is not None:
            return
        controller, reply, self._reply = self.controller, self._reply, None
        if reply is not None:
            self._is_submitted = False
            array_run = controller.get_array_run(reply[0])
            # A query from before a correction may already be answered.
            if array_run is not None and array_run.interactive is reply[1] and array_run.is_up_to_date:
                self._show(reply[0], reply[2])
                return
        position, array_run, frame = controller.position, controller.array_run, controller.frame
        if self._is_submitted or self._nothing_left or position is None or frame is None or not frame.is_estimated:
            return
        if array_run is not frame.array_run or frame.n_commands_done != array_run.n_commands_sent:
            return
        skipped, self._is_submitted = self._skipped.get(position), True

        def compute(interactive: InteractiveRun) -> None:
            is_current = skipped is not None and len(skipped) == interactive.problem.n
            numbers = interactive.named(interactive.summary.partition)
            query = next_query(interactive.summary, skipped if is_current else None, numbers)
            self._reply = position, interactive, query

        controller.submit(position, compute)

    def _show(self, position: Position, question: Query | None) -> None:
        seg, array_run = self.controller.segmentation, self.controller.get_array_run(position)
        self.question, self._position, self._nothing_left = question, position, question is None
        if question is not None and seg is not None and array_run is not None and seg.layers.labels is not None:
            values = np.where(question.propagation >= FOLLOWS, FOLLOWING, 0)
            values[question.site] = ASKED
            image = np.asarray(array_run.paint(values))
            seg.layers.show_question(position, image)
            seg.layers.centre_view(position, image, ASKED)
        self.changed.emit()

    def _ask_again(self) -> None:
        """Compute the query anew after any correction: a scribble is an answer, too."""
        if self.active:
            self._nothing_left = False
            self._close()
            self.changed.emit()

    def _close(self) -> None:
        self.question = None
        if (seg := self.controller.segmentation) is not None:
            seg.layers.hide_question()
