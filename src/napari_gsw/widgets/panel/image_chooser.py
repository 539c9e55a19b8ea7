"""The head of the panel: which image, which part of it, and what its axes mean."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

import napari
from napari.layers import Image
from qtpy.QtCore import Signal
from qtpy.QtWidgets import QComboBox, QWidget

from napari_gsw.core.errors import InputError
from napari_gsw.widgets.common.collapsible import RowHeading
from napari_gsw.widgets.common.dock_panel import Connections, make_timer
from napari_gsw.widgets.common.help_page import make_help_button
from napari_gsw.widgets.common.layer_choosers import LayerCombo, LayerMenu
from napari_gsw.widgets.common.layouts import make_form, make_row
from napari_gsw.widgets.layers.cursor import get_view_position
from napari_gsw.widgets.layers.image_source import (
    AxisGuess,
    AxisMeaning,
    ImageListSource,
    ImageSource,
    guess_axis,
    guess_channel_axis,
    guess_depth,
)
from napari_gsw.widgets.layers.layer_metadata import is_image, is_region
from napari_gsw.widgets.panel.rows import AxisRow

STACKS: dict[str, Any] = {
    "3D volume": 3,
    "2D slices, one by one": 2,
    "2D slices, shared labels": "shared",
    "2D slices, shared and linked": "linked",
}
STACK_TIP = (
    "Segment a stack as one volume, each slice on its own, or all slices with shared labels: then a label means the "
    "same in every slice, and a scribble in one slice applies to all. Linked slices also hold together where they "
    "overlap"
)
TOGETHER_TIP = (
    "Images of any size to segment jointly with this one: a label means the same in all of them, and a scribble in one "
    "image applies to all"
)


class ImageChooser(QWidget):  # type: ignore[misc]
    """Image, part, axes and channels: only what the image has is shown. The signal `changed` tells of a new choice."""

    changed = Signal()

    def __init__(self, viewer: napari.Viewer, connections: Connections) -> None:
        super().__init__()
        self.viewer, self._connections = viewer, connections
        self.image = LayerCombo(is_image)
        self.image.setToolTip("The image layer to segment")
        self.image.setAccessibleName("Image")
        self.where = LayerCombo(is_region, [("Whole image", "image"), ("Visible part", "view")])
        self.where.setToolTip("Segment everything, what is on the screen, or the inside of a Shapes or Labels layer")
        self.where.setAccessibleName("Where")
        self.depth = QComboBox()
        for text, value in STACKS.items():
            self.depth.addItem(text, value)
        self.depth.setToolTip(STACK_TIP)
        self.channel_axis = QComboBox()
        self.channel_axis.setToolTip("The axis of the image that holds channels, if one does")
        self.also = LayerMenu("This one only", "Further image layers of the same shape to use as channels")
        self.together = LayerMenu("By itself", TOGETHER_TIP)
        self.help = make_help_button("widget.md#gsw-segmentation")
        self.planes = AxisRow()
        self._layer: Image | None = None
        # What the questions about the image depend on, the question itself, and what the user has answered before.
        self._axes: tuple[Any, ...] | None = None
        self._question: AxisGuess | None = None
        self._answers: WeakKeyDictionary[Image, AxisGuess] = WeakKeyDictionary()
        # The source of the run on the screen, if there is one, and the one that the user has turned away from.
        self.current_source: Callable[[], ImageSource | None] = lambda: None
        self._left: ImageSource | None = None
        self._again = make_timer(self, self._image_chosen)
        connections.stop_on_close(self._again)
        self._build()
        self._fit_rows()
        self.follow()

    def _build(self) -> None:
        self.form = make_form(self, spacing=4)
        self.form.addRow(RowHeading("Image"), make_row((self.image, 1), self.help))
        self.form.addRow(self.planes)
        self.form.addRow(RowHeading("Where"), self.where)
        self.form.addRow("Together", self.together)
        self.form.addRow("Channels", self.also)
        self.form.addRow("Channel axis", self.channel_axis)
        self.form.addRow("Stack as", self.depth)
        self.image.chosen.connect(self._image_chosen)
        self.planes.answered.connect(self._answered)
        self.where.activated.connect(self._choose_view_again)
        self.channel_axis.activated.connect(self._axis_chosen)
        self.depth.activated.connect(self._fit_rows)
        for signal in (self.where.chosen, self.also.changed, self.together.changed, self.depth.activated):
            signal.connect(self.changed)

    # ---- what is chosen

    def source(self) -> ImageSource:
        """Get what is to be segmented; raise an InputError where that is impossible."""
        layer = self.image.value()
        if layer is None:
            raise InputError("Open an image to segment")
        where, channel_axis, stack = self.where.value(), self.channel_axis.currentData(), self.depth.currentData()
        choices: dict[str, Any] = {
            "channels": tuple(self.also.chosen),
            "channel_axis": channel_axis,
            "where": where if where in ("slice", "view") else "image",
            "mask": None if isinstance(where, str) else where,
            **get_view_position(self.viewer, layer),
        }
        if self.together.chosen and self.form.isRowVisible(self.together):
            members = tuple(ImageSource(x, channel_axis=channel_axis) for x in (layer, *self.together.chosen))
            source: ImageSource = ImageListSource(layer, slices="shared", members=members, **choices)
        else:
            slices: Any = stack if self._depth() == 3 and stack in ("shared", "linked") else "volume"
            source = ImageSource(layer, depth=self._depth(), slices=slices, **choices)
        source = self._keep_view(source)
        source.check()
        return source

    def _keep_view(self, source: ImageSource) -> ImageSource:
        """Keep the part that was visible when the run began, though the user has zoomed in since."""
        kept = self.current_source()
        if kept is None or kept is self._left or not kept.where == source.where == "view":
            return source
        same = dataclasses.replace(source, corners=kept.corners)
        return same if same.key == kept.key else source

    def _choose_view_again(self) -> None:
        """Take the part that is visible now, since the user has chosen where once more."""
        self._left = self.current_source()
        self.changed.emit()

    def choose(self, source: ImageSource) -> None:
        self.follow()
        self.image.choose(source.layer)
        self.also.chosen = list(source.channels)
        self.together.chosen = list(source.image_layers[1:]) if source.is_image_list else []
        self.channel_axis.setCurrentIndex(self.channel_axis.findData(source.channel_axis))
        if not source.is_image_list:
            stack: Any = source.slices if source.shares_labels else source.depth
            self.depth.setCurrentIndex(self.depth.findData(stack))
        self._fit_rows()
        self.where.choose(source.where if source.mask is None else source.mask)
        self.changed.emit()

    def _depth(self) -> int:
        return 2 if not self.form.isRowVisible(self.depth) or self.depth.currentData() == 2 else 3

    def _count_space_axes(self) -> int:
        return 0 if self._layer is None else self._layer.ndim - (self.channel_axis.currentData() is not None)

    # ---- following the viewer

    def follow(self) -> None:
        layers = list(self.viewer.layers)
        self.image.follow(layers)
        self.where.follow(layers)
        self._offer_others()

    def _image_chosen(self) -> None:
        layer = self.image.value()
        self._watch(layer)
        self.also.clear()
        self.together.clear()
        self.channel_axis.clear()
        self.channel_axis.addItem("None", None)
        self._question = None
        if layer is not None:
            for axis, name in enumerate(layer.axis_labels if layer.ndim > 2 else ()):
                text = f"axis {axis}" if name.lstrip("-").isdigit() else name
                self.channel_axis.addItem(f"{text} ({layer.data.shape[axis]})", axis)
            guessed = guess_channel_axis(layer)
            self.channel_axis.setCurrentIndex(0 if guessed is None else guessed + 1)
            self.depth.setCurrentIndex(self.depth.findData(guess_depth(layer, guessed)))
            self._question = guess_axis(layer)
        if self._question is not None:
            answer = self._answers.get(layer)
            if answer is not None and answer[:2] == self._question[:2]:
                self._question = answer
            self.planes.ask(self._question)
            self._apply_meaning(self._question)
        self._fit_rows()
        self.changed.emit()

    def _answered(self, meaning: AxisMeaning) -> None:
        if self._question is None or self._layer is None:  # it went away while its question was on the screen
            return
        answer = self._answers[self._layer] = self._question._replace(guess=meaning)
        self._apply_meaning(answer)
        self._fit_rows()
        self.changed.emit()

    def _apply_meaning(self, answer: AxisGuess) -> None:
        axis = answer.axis if answer.guess == "channels" else None
        self.channel_axis.setCurrentIndex(self.channel_axis.findData(axis))
        self.depth.setCurrentIndex(self.depth.findData(2 if answer.guess == "time" else 3))

    def _watch(self, layer: Image | None) -> None:
        """Connect to the events by which the chosen image gets other axes."""
        for old in () if self._layer is None else (self._layer.events.data, self._layer.events.axis_labels):
            self._connections.disconnect(old, self._image_changed)
        for new in () if layer is None else (layer.events.data, layer.events.axis_labels):
            self._connections.connect(new, self._image_changed)
        self._layer, self._axes = layer, _describe_axes(layer)

    def _image_changed(self, event: Any = None) -> None:
        """Ask again what the axes mean, once napari is done, if they have changed; pixels say nothing about them."""
        if _describe_axes(self._layer) != self._axes:
            self._again.start()

    def _axis_chosen(self) -> None:
        if self._layer is not None:
            depth = guess_depth(self._layer, self.channel_axis.currentData())
            self.depth.setCurrentIndex(self.depth.findData(depth))
        self._fit_rows()
        self.changed.emit()

    def _fit_rows(self) -> None:
        """Show only the questions that this image raises."""
        self._offer_others()
        space = self._count_space_axes()
        self.form.setRowVisible(self.planes, self._question is not None)
        self.form.setRowVisible(self.depth, space > 2)
        self.form.setRowVisible(self.channel_axis, self._layer is not None and self._layer.ndim > 2)
        has_slices = self._layer is not None and space > self._depth()
        fixed = [("Every slice", "image"), ("This slice", "slice")] if has_slices else [("Whole image", "image")]
        self.where.set_fixed([*fixed, ("Visible part", "view")])
        self.where.follow(list(self.viewer.layers))

    def _offer_others(self) -> None:
        """List the layers that may be channels of the image, and the images that may be segmented with it."""
        channels: list[Image] = []
        joint: list[Image] = []
        if (layer := self._layer) is not None:
            images = [x for x in self.viewer.layers if is_image(x) and x is not layer and not x.multiscale]
            alike = [x for x in images if x.rgb == layer.rgb and x.ndim == layer.ndim]
            channels = [x for x in alike if not x.rgb and x.data.shape == layer.data.shape]
            joint = [] if layer.multiscale else alike
        self.also.offer(channels)
        self.form.setRowVisible(self.also, bool(channels))
        self.together.offer(joint)
        self.form.setRowVisible(self.together, bool(joint) and self._count_space_axes() == 2)


def _describe_axes(layer: Image | None) -> tuple[Any, ...] | None:
    return None if layer is None else (layer.data.shape, tuple(layer.axis_labels), layer.rgb)
