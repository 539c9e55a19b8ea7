"""Edits of objects or regions on their layer: accept, merge, cut, delete, draw.

A scribble or key is interpreted for the displayed labels (:mod:`napari_gsw.core.posterior.object_edits`), shown at
once, and handed to the chain as a command.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Literal

import numpy as np
from napari.layers import Labels
from qtpy.QtCore import QObject, Signal

from napari_gsw.core.array_types import PointArray
from napari_gsw.core.errors import InputError
from napari_gsw.core.interactive.interactive_run import InteractiveRun
from napari_gsw.core.posterior.object_edits import (
    Edit,
    Tool,
    accept_object,
    delete_object,
    edit_from_scribble,
    find_unused_labels,
)
from napari_gsw.widgets.layers.brush import Brush
from napari_gsw.widgets.layers.cursor import find_label
from napari_gsw.widgets.layers.image_source import Position
from napari_gsw.widgets.session.corrections import Corrections

Action = Literal["accept", "merge", "cut", "delete", "draw"]
# Keys that napari does not use on Labels layers; they work while the layer of regions is selected.
EDIT_KEYS: dict[Action, str] = {"accept": "A", "merge": "J", "cut": "C", "delete": "D", "draw": "N"}
# Width in pixels of the line with which objects are cut and merged.
THIN = 1


class ObjectEditor(QObject):  # type: ignore[misc]
    """Edits of the layer of regions or objects.

    Signals
    -------
    changed : the layer or the tool has changed.
    refused : why an edit is not possible.

    Attributes
    ----------
    tool : what the next scribble does: "merge", "cut" or "draw"; None for what its label means.
    """

    changed = Signal()
    refused = Signal(str)

    def __init__(self, corrections: Corrections, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.corrections, self.canvas, self.commands = corrections, corrections.canvas, corrections.commands
        self.tool: Action | None = None
        self._is_taking_tool = False
        self._brush_size = 0.0
        self.canvas.regions_added.connect(self.attach)
        self.canvas.layer_gone.connect(self._layer_gone)

    @property
    def layer(self) -> Labels | None:
        """The layer that can be edited, or None."""
        return None if self.canvas.region_brush is None else self.canvas.region_brush.layer

    def attach(self) -> None:
        """Watch the layer of regions for paint and keys."""
        seg = self.commands.segmentation
        self.detach()
        if seg is None or seg.plan.source.is_image_list or seg.layers.regions is None or seg.layers.regions.multiscale:
            return  # napari does not allow painting on a pyramid
        layer, steps = seg.layers.regions, self.corrections.steps
        self.canvas.region_brush = Brush(layer, self._apply_scribble, self._replace_data, steps.undo, steps.redo)
        for event in (layer.events.mode, layer.events.selected_label):
            event.connect(self._drop_tool)
        for action, key in EDIT_KEYS.items():
            # A function and no partial: napari asks what is bound to a key for its name.
            layer.bind_key(key, lambda layer, action=action: self._press_key(action, layer), overwrite=True)
        self.changed.emit()

    def detach(self) -> None:
        """Stop watching the layer, without a signal: Qt may have destroyed the panel already."""
        layer = self.layer
        if layer is None or self.canvas.region_brush is None:
            return
        self.canvas.region_brush.detach()
        self.canvas.region_brush = None
        for event in (layer.events.mode, layer.events.selected_label):
            event.disconnect(self._drop_tool)
        for key in EDIT_KEYS.values():
            layer.bind_key(key, None)
        self.tool = None

    def act(self, action: Action) -> None:
        """Accept or delete the object of the selected label, or take a tool for the next scribbles."""
        if self.layer is not None:
            self._do(action, int(self.layer.selected_label))

    def _press_key(self, action: Action, layer: Any) -> None:
        """Do the same for the object under the mouse."""
        self._do(action, find_label(layer, self.canvas.viewer.cursor.position))

    def _do(self, action: Action, number: int) -> None:
        if action in ("merge", "cut", "draw"):
            self.take(None if self.tool == action else action)
        elif (position := self.canvas.position) is not None and (shown := self._shown(position)) is not None:
            edit = accept_object if action == "accept" else delete_object
            self._try(position, lambda: edit(shown, number, self._are_objects(position)))

    def take(self, tool: Action | None) -> None:
        """Take a tool, or none."""
        layer, position = self.layer, self.canvas.position
        shown = None if position is None else self._shown(position)
        if layer is None or shown is None:
            return
        self.canvas.viewer.layers.selection.active = layer
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
        seg, layer = self.commands.segmentation, self.layer
        if seg is None or layer is None:
            return
        tool: Tool = "merge" if self.tool == "merge" else "cut" if self.tool == "cut" else "paint"
        for position, shown in list(seg.written_regions.items()):
            array_run = seg.array_runs.get(position)
            painted = np.array(layer.data[seg.plan.source.index(position)])
            if array_run is None or np.array_equal(painted, shown):
                continue
            path_here, mask = seg.plan.source.path_at(path, position), np.asarray(array_run.sites) > 0
            are_objects = self._are_objects(position)
            self.canvas.write_regions(position, shown)  # until it is known what the scribble means
            self._try(position, partial(edit_from_scribble, shown, painted, path_here, are_objects, mask, tool))

    def _replace_data(self) -> None:
        """Take a new array of the same shape as paint; a layer with another shape is no longer ours."""
        seg, layer = self.commands.segmentation, self.layer
        if seg is None or layer is None:
            return
        if seg.layers.fits(layer):
            self._apply_scribble(np.empty((0, layer.ndim)))
        else:
            self.canvas.layer_removed(layer)

    def _try(self, position: Position, make_edit: Callable[[], Edit | None]) -> None:
        """Show an edit and hand it to the chain, or report why it is not possible."""
        seg = self.commands.segmentation
        assert seg is not None
        try:
            edit = make_edit()
            if edit is None:
                return
            seg.array_runs[position].interactive.check_edit()
        except InputError as reason:
            self.refused.emit(str(reason))
            return
        self.canvas.leave_history()
        self.corrections.submit(position, partial(InteractiveRun.edit, edit=edit))
        self.canvas.write_regions(position, edit.after)
        self.corrections.changed.emit()

    def _shown(self, position: Position) -> Any:
        """Return the label image of the displayed regions; None if there are none yet."""
        seg = self.commands.segmentation
        return None if seg is None else seg.written_regions.get(position)

    def _are_objects(self, position: Position) -> bool:
        """Return whether objects on a background are displayed."""
        frame = self.canvas.frames.get(position)
        return frame is not None and frame.kind == "object"

    def _layer_gone(self, name: str) -> None:
        if name == "regions":
            self.detach()
            self.changed.emit()
