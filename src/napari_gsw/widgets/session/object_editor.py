"""What a person does to objects or regions on their layer: accept, merge, cut, delete, draw.

It only finds out what a stroke or a key means for the picture on the screen
(:mod:`napari_gsw.core.posterior.object_edits`), shows it at once, and hands it to the chain as an order.
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
# Keys that napari leaves free on Labels layers; they work while the layer of regions is selected.
EDIT_KEYS: dict[Action, str] = {"accept": "A", "merge": "J", "cut": "C", "delete": "D", "draw": "N"}
# Width of the line with which objects are cut and merged, in pixels.
THIN = 1


class ObjectEditor(QObject):  # type: ignore[misc]
    """Edits of the layer of regions or objects.

    Signals
    -------
    changed : there is a layer to edit, or none any more, or another tool is in hand.
    refused : why an edit cannot be done, in a sentence.

    Attributes
    ----------
    tool : what the next stroke is for: "merge", "cut" or "draw"; None for what its label says.
    """

    changed = Signal()
    refused = Signal(str)

    def __init__(self, corrections: Corrections, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.corrections, self.canvas, self.commands = corrections, corrections.canvas, corrections.commands
        self.tool: Action | None = None
        self._taking = False
        self._brush_size = 0.0
        self.canvas.regions_added.connect(self.attach)
        self.canvas.layer_gone.connect(self._layer_gone)

    @property
    def layer(self) -> Labels | None:
        """The layer that can be edited, if there is one."""
        return None if self.canvas.region_brush is None else self.canvas.region_brush.layer

    def attach(self) -> None:
        """Watch the layer of regions for paint and keys."""
        seg = self.commands.segmentation
        self.detach()
        if seg is None or seg.plan.source.is_image_list or seg.layers.regions is None or seg.layers.regions.multiscale:
            return  # napari does not let anybody paint on a pyramid
        layer, steps = seg.layers.regions, self.corrections.steps
        self.canvas.region_brush = Brush(layer, self._painted, self._replaced, steps.undo, steps.redo)
        for event in (layer.events.mode, layer.events.selected_label):
            event.connect(self._chosen_by_hand)
        for action, key in EDIT_KEYS.items():
            # A function: napari asks what is bound to a key for its name.
            layer.bind_key(key, lambda layer, action=action: self._key_pressed(action, layer), overwrite=True)
        self.changed.emit()

    def detach(self) -> None:
        """Give the layer back to napari; silent, since Qt may have destroyed the panel already."""
        layer = self.layer
        if layer is None or self.canvas.region_brush is None:
            return
        self.canvas.region_brush.detach()
        self.canvas.region_brush = None
        for event in (layer.events.mode, layer.events.selected_label):
            event.disconnect(self._chosen_by_hand)
        for key in EDIT_KEYS.values():
            layer.bind_key(key, None)
        self.tool = None

    # ---- what the user asks for

    def act(self, action: Action) -> None:
        """Accept or delete the object of the selected label, or take a tool for the next strokes."""
        if self.layer is not None:
            self._do(action, int(self.layer.selected_label))

    def _key_pressed(self, action: Action, layer: Any) -> None:
        """The same for the object under the mouse."""
        self._do(action, find_label(layer, self.canvas.viewer.cursor.position))

    def _do(self, action: Action, number: int) -> None:
        if action == "accept" or action == "delete":
            edit = accept_object if action == "accept" else delete_object
            position = self.canvas.position
            shown = None if position is None else self._shown(position)
            if position is not None and shown is not None:
                self._try(position, lambda: edit(shown, number, self._objects(position)))
        else:
            self.take(None if self.tool == action else action)

    def take(self, tool: Action | None) -> None:
        """Take a tool in hand, or lay it down."""
        layer, position = self.layer, self.canvas.position
        shown = None if position is None else self._shown(position)
        if layer is None or shown is None:
            return
        self.canvas.viewer.layers.selection.active = layer
        if self.tool in ("merge", "cut"):
            layer.brush_size = self._brush_size
        self._taking = True  # the mode changes because of us
        if tool is None:
            layer.mode = "pan_zoom"
        else:
            layer.mode = "erase" if tool == "cut" else "paint"
            layer.selected_label = find_unused_labels(shown)[0]
            if tool != "draw":
                self._brush_size, layer.brush_size = layer.brush_size, THIN
        self._taking = False
        self.tool = tool
        self.changed.emit()

    def _chosen_by_hand(self, event: Any = None) -> None:
        """The user has chosen another mode or label in the layer's own controls, and with it laid the tool down."""
        if self._taking or self.tool is None:
            return
        if self.tool != "draw" and self.layer is not None:
            self.layer.brush_size = self._brush_size
        self.tool = None
        self.changed.emit()

    # ---- strokes

    def _painted(self, path: PointArray) -> None:
        seg, layer = self.commands.segmentation, self.layer
        if seg is None or layer is None:
            return
        tool: Tool = "merge" if self.tool == "merge" else "cut" if self.tool == "cut" else "paint"
        for position, shown in list(seg.written_regions.items()):
            array_run = seg.array_runs.get(position)
            here = np.array(layer.data[seg.plan.source.index(position)])
            if array_run is None or np.array_equal(here, shown):
                continue
            along = seg.plan.source.path_at(path, position)
            inside = np.asarray(array_run.sites) > 0
            objects = self._objects(position)
            self.canvas.write_regions(position, shown)  # until it is known what the stroke means
            self._try(position, partial(edit_from_scribble, shown, here, along, objects, inside, tool))

    def _replaced(self) -> None:
        """The layer has another array: paint, if it has the same form; otherwise it is no longer ours."""
        seg, layer = self.commands.segmentation, self.layer
        if seg is None or layer is None:
            return
        if seg.layers.fits(layer):
            self._painted(np.empty((0, layer.ndim)))
        else:
            self.canvas.layer_removed(layer)

    def _try(self, position: Position, edit_of: Callable[[], Edit | None]) -> None:
        """Show an edit and hand it to the chain; what cannot be done is said."""
        seg = self.commands.segmentation
        assert seg is not None
        try:
            edit = edit_of()
            if edit is not None:
                seg.array_runs[position].interactive.check_edit()
        except InputError as reason:
            self.refused.emit(str(reason))
            return
        if edit is None:
            return
        self.canvas.leave_history()
        self.corrections.submit(position, partial(InteractiveRun.edit, edit=edit))
        self.canvas.write_regions(position, edit.after)
        self.corrections.changed.emit()

    def _shown(self, position: Position) -> Any:
        """(\\*shape,) the regions on the screen; None if there are none yet."""
        seg = self.commands.segmentation
        return None if seg is None else seg.written_regions.get(position)

    def _objects(self, position: Position) -> bool:
        """Whether it is objects on a background that are on the screen."""
        frame = self.canvas.frames.get(position)
        return frame is not None and frame.kind == "object"

    def _layer_gone(self, name: str) -> None:
        if name == "regions":
            self.detach()
            self.changed.emit()
