"""Corrections by the user as commands to the chain that can be undone: scribbles, locks, edits of objects.

A scribble on objects or regions, or a key there (accept, merge, cut, delete, draw), is interpreted for the displayed
labels (:mod:`napari_gsw.core.posterior.object_edits`), shown at once, and handed to the chain.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Literal

import numpy as np
from napari.layers import Labels
from numpy.typing import NDArray
from qtpy.QtCore import QObject, Signal

from napari_gsw.core.array_types import PointArray
from napari_gsw.core.errors import InputError
from napari_gsw.core.interactive.interactive_run import InteractiveRun
from napari_gsw.core.model.problem import site_pixels
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

    def undo(self) -> None:
        self._submit(InteractiveRun.undo)

    def redo(self) -> None:
        self._submit(InteractiveRun.redo)

    def _submit(self, command: Command) -> None:
        self.owner.layer_view.show_current()
        # It may have been refused after the user has asked for its undo.
        self.owner.controller.submit(self._position, lambda run: None if self._refused else command(run))


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

    def lock_painted(self) -> None:
        """Lock every painted site that is not locked yet."""
        self._correct(lambda run: run.lock(np.flatnonzero(run.painted & ~run.locks)))

    def lock_label(self, number: int) -> None:
        """Lock a label as it is displayed, which may be in another state than the newest."""
        show, viewed = self.controller.view.show, self.layer_view.viewed

        def lock(run: InteractiveRun) -> None:
            shown = run.shown(show) if viewed is None or len(viewed) != run.problem.n else viewed
            free = (shown == number) & ~run.locks
            run.lock(np.flatnonzero(free & (run.display_labels == number)))
            run.paint(np.flatnonzero(free & (run.display_labels != number)), number, True)

        self._correct(lock)

    def unlock(self, number: int | None = None) -> None:
        self._correct(
            lambda run: run.unlock(np.flatnonzero(run.locks if number is None else run.display_labels == number))
        )

    def name_sites(self, position: Position, sites: Sequence[int], number: int) -> None:
        self.layer_view.leave_history()
        self.submit(position, partial(InteractiveRun.paint, sites=sites, number=number, lock=True))

    def go_on_from_view(self) -> None:
        """Continue the chain from the displayed earlier sweep."""
        numbers = self.layer_view.viewed
        if numbers is not None:
            self.layer_view.leave_history()
            self._correct(lambda run: run.revert_to(numbers))
            self.changed.emit()

    def _correct(self, command: Command) -> None:
        position = self.controller.position
        if position is not None:
            self.submit(position, command)

    def submit(self, position: Position, command: Command) -> None:
        """Have a correction made to the chain at a position, as a step that can be undone."""
        if (array_run := self.controller.get_array_run(position)) is not None:
            step = CorrectionStep(self, position, array_run.interactive)
            self.controller.submit(position, partial(step.carry_out, command=command))
            self.steps.push(step)

    # ---- the brush

    def attach_brush(self) -> None:
        seg = self.controller.segmentation
        assert seg is not None
        self.detach_brush()
        for layer in seg.layers.label_layers:
            if not layer.multiscale:  # napari does not allow painting on a pyramid
                callbacks = [partial(f, layer) for f in (self._add_scribble, self._replace_data, self._confirm_label)]
                paint, replace, confirm = callbacks
                self.layer_view.brushes.append(Brush(layer, paint, replace, self.steps.undo, self.steps.redo, confirm))

    def detach_brush(self) -> None:
        for brush in self.layer_view.brushes:
            brush.detach()
        self.layer_view.brushes.clear()

    def _add_scribble(self, layer: Labels, path: NDArray[np.float64]) -> None:
        """Find the sites that new paint on a layer covers, and hand them to the chain."""
        seg = self.controller.segmentation
        if seg is None or not seg.layers.label_layers:
            return
        for position, written in list(seg.written.items()):
            array_run = seg.array_runs.get(position)
            if array_run is None:
                continue
            painted = seg.layers.labels_at(position)
            problem = array_run.interactive.problem
            path_here, size = seg.layers.path_at(layer, path, position), site_pixels(problem).astype(np.int64)
            stroke = make_scribble(problem.site_image, written, painted, path_here, size)
            if not stroke.sites.size:
                if not np.array_equal(painted, written):  # paint where there is no site
                    self.layer_view.write(position, written)
                continue
            self.layer_view.leave_history()
            self.submit(position, partial(InteractiveRun.draw, stroke=stroke, lock=self.lock_strokes))
            # Shown at once, until the chain has followed.
            self.layer_view.write(position, self._snap_to_sites(array_run, stroke, written))
            self.changed.emit()

    def _confirm_label(self, layer: Labels, path: NDArray[np.float64]) -> None:
        """Lock the sites under a scribble with the label that they have, if scribbles are locked."""
        seg = self.controller.segmentation
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
        if (array_run := self.controller.get_array_run(position)) is None:
            return
        stroke = make_scribble(array_run.interactive.problem.site_image, np.zeros_like(paint), paint)
        if stroke.sites.size:
            self.submit(position, partial(InteractiveRun.draw, stroke=stroke, lock=self.lock_strokes))
            self.changed.emit()

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

    def _replace_data(self, layer: Labels) -> None:
        """Take a new array of the same shape as paint; a layer with another shape is no longer ours."""
        seg = self.controller.segmentation
        if seg is None or not seg.layers.label_layers:
            return
        if seg.layers.fits(layer):
            self._add_scribble(layer, np.empty((0, layer.ndim)))
        else:
            self.detached.emit()


class ObjectEditor(QObject):  # type: ignore[misc]
    """Edits of the layer of regions or objects."""

    changed = Signal()  # the layer or the tool has changed
    refused = Signal(str)  # why an edit is not possible

    def __init__(self, corrections: Corrections, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.corrections, self.layer_view, self.controller = corrections, corrections.layer_view, corrections.controller
        # What the next scribble does: "merge", "cut" or "draw"; None for what its label means.
        self.tool: Action | None = None
        self._is_taking_tool = False
        self._brush_size = 0.0
        self.layer_view.regions_added.connect(self.attach)
        self.layer_view.layer_gone.connect(self._layer_gone)

    @property
    def layer(self) -> Labels | None:
        return None if self.layer_view.region_brush is None else self.layer_view.region_brush.layer

    def attach(self) -> None:
        seg = self.controller.segmentation
        self.detach()
        if seg is None or seg.plan.source.is_image_list or seg.layers.regions is None or seg.layers.regions.multiscale:
            return  # napari does not allow painting on a pyramid
        layer, steps = seg.layers.regions, self.corrections.steps
        self.layer_view.region_brush = Brush(layer, self._apply_scribble, self._replace_data, steps.undo, steps.redo)
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
        layer = self.layer
        if layer is None or self.layer_view.region_brush is None:
            return
        self.layer_view.region_brush.detach()
        self.layer_view.region_brush = None
        for event in (layer.events.mode, layer.events.selected_label):
            event.disconnect(self._drop_tool)
        for key in EDIT_KEYS.values():
            layer.bind_key(key, None)
        self.tool = None

    def act(self, action: Action) -> None:
        """Accept or delete the object of the selected label, or take a tool for the next scribbles."""
        if self.layer is not None:
            self._do(action, int(self.layer.selected_label))

    def _do(self, action: Action, number: int) -> None:
        if action in ("merge", "cut", "draw"):
            self.take(None if self.tool == action else action)
        elif (position := self.controller.position) is not None and (shown := self._shown()) is not None:
            edit = accept_object if action == "accept" else delete_object
            self._try(position, lambda: edit(shown, number, self._are_objects(position)))

    def take(self, tool: Action | None) -> None:
        layer, shown = self.layer, self._shown()
        if layer is None or shown is None:
            return
        self.layer_view.viewer.layers.selection.active = layer
        if self.tool in ("merge", "cut"):
            layer.brush_size = self._brush_size
        self._is_taking_tool = True
        if tool is None:
            layer.mode = "pan_zoom"
        else:
            layer.mode = "erase" if tool == "cut" else "paint"
            layer.selected_label = find_unused_labels(shown)[0]
            if tool != "draw":
                self._brush_size, layer.brush_size = layer.brush_size, THIN
        self._is_taking_tool = False
        self.tool = tool
        self.changed.emit()

    def _drop_tool(self, event: Any = None) -> None:
        """Drop the tool when the user chooses another mode or label in the controls of the layer."""
        if self._is_taking_tool or self.tool is None:
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

    def _replace_data(self) -> None:
        """Take a new array of the same shape as paint; a layer with another shape is no longer ours."""
        seg, layer = self.controller.segmentation, self.layer
        if seg is None or layer is None:
            return
        if seg.layers.fits(layer):
            self._apply_scribble(np.empty((0, layer.ndim)))
        else:
            self.layer_view.layer_removed(layer)

    def _try(self, position: Position, make_edit: Callable[[], Edit | None]) -> None:
        """Show an edit and hand it to the chain, or report why it is not possible."""
        seg = self.controller.segmentation
        assert seg is not None
        try:
            edit = make_edit()
            if edit is None:
                return
            seg.array_runs[position].interactive.check_edit()
        except InputError as reason:
            self.refused.emit(str(reason))
            return
        self.layer_view.leave_history()
        self.corrections.submit(position, partial(InteractiveRun.edit, edit=edit))
        self.layer_view.write_regions(position, edit.after)
        self.corrections.changed.emit()

    def _shown(self) -> Any:
        """Return the label image of the displayed regions; None if there are none yet."""
        seg, position = self.controller.segmentation, self.controller.position
        return None if seg is None or position is None else seg.written_regions.get(position)

    def _are_objects(self, position: Position) -> bool:
        """Return whether objects on a background are displayed."""
        array_run = self.controller.get_array_run(position)
        return array_run is not None and array_run.frame is not None and array_run.frame.kind == "object"

    def _layer_gone(self, name: str) -> None:
        if name == "regions":
            self.detach()
            self.changed.emit()
