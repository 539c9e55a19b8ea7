"""The head of the panel: which image, which part of it, and what its axes mean."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

import napari
from napari.layers import Image
from qtpy.QtCore import Signal
from qtpy.QtWidgets import QButtonGroup, QComboBox, QLabel, QWidget

from napari_gsw.core.errors import InputError
from napari_gsw.widgets.common.dock_panel import Connections, make_timer
from napari_gsw.widgets.common.help_page import make_help_button
from napari_gsw.widgets.common.layer_choosers import LayerCombo, LayerMenu
from napari_gsw.widgets.common.layouts import RowHeading, make_form, make_row
from napari_gsw.widgets.common.text import make_choice
from napari_gsw.widgets.layers import image_source
from napari_gsw.widgets.layers.cursor import get_view_position
from napari_gsw.widgets.layers.image_source import AxisGuess, AxisMeaning, ImageListSource, ImageSource
from napari_gsw.widgets.layers.layer_metadata import is_image, is_region

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
WHERE_TIP = "Segment everything, what is on the screen, or the inside of a Shapes or Labels layer"
AXIS_TIPS: dict[AxisMeaning, str] = {
    "channels": "The planes are channels of one image: they are segmented together",
    "time": "The planes are time points: each is segmented on its own",
    "depth": "The planes are z-slices of one volume",
}


class AxisRow(QWidget):  # type: ignore[misc]
    """Asks what an unnamed axis of an image means; the signal `answered` has the user's answer."""

    answered = Signal(str)

    def __init__(self) -> None:
        super().__init__()
        self.question = QLabel()
        group = QButtonGroup(self)
        self.buttons = {meaning: make_choice(meaning.capitalize(), tip, group) for meaning, tip in AXIS_TIPS.items()}
        for meaning, button in self.buttons.items():
            button.clicked.connect(lambda _, meaning=meaning: self.answered.emit(meaning))
        make_row(self.question, *((button, 1) for button in self.buttons.values()), parent=self)


class ImageChooser(QWidget):  # type: ignore[misc]
    """Image, part, axes and channels: only what the image has is shown. The signal `changed` tells of a new choice.

    `current_source` returns the source of the run on the screen, if there is one.
    """

    changed = Signal()

    def __init__(
        self, viewer: napari.Viewer, connections: Connections, current_source: Callable[[], ImageSource | None]
    ) -> None:
        super().__init__()
        self.viewer, self._current_source = viewer, current_source
        self.image = LayerCombo("The image layer to segment", is_image, name="Image")
        self.where = LayerCombo(WHERE_TIP, is_region, name="Where")
        self.depth = QComboBox(toolTip=STACK_TIP)
        for text, value in STACKS.items():
            self.depth.addItem(text, value)
        self.channel_axis = QComboBox(toolTip="The axis of the image that holds channels, if one does")
        self.also = LayerMenu("This one only", "Further image layers of the same shape to use as channels")
        self.together = LayerMenu("By itself", TOGETHER_TIP)
        self.help = make_help_button("widget.md#gsw-segmentation")
        self.planes = AxisRow()
        self.form = make_form((RowHeading("Image"), make_row((self.image, 1), self.help)), parent=self, spacing=4)
        self.form.addRow(self.planes)
        self.form.addRow(RowHeading("Where"), self.where)
        self.form.addRow("Together", self.together)
        self.form.addRow("Channels", self.also)
        self.form.addRow("Channel axis", self.channel_axis)
        self.form.addRow("Stack as", self.depth)
        self._layer: Image | None = None
        # What the question about the axes depends on, the question, and what the user has answered before.
        self._axes: tuple[Any, ...] | None = None
        self._question: AxisGuess | None = None
        self._answers: WeakKeyDictionary[Image, AxisGuess] = WeakKeyDictionary()
        # The source of a run that the user has turned away from.
        self._abandoned: ImageSource | None = None
        self._again = connections.stop_on_close(make_timer(self, self._image_chosen))
        connections.connect(viewer.layers.events, self._on_event)  # which emits those of its layers, too
        self.image.chosen.connect(self._image_chosen)
        self.planes.answered.connect(self._answered)
        self.where.activated.connect(self._choose_view_again)
        self.channel_axis.activated.connect(self._axis_chosen)
        self.depth.activated.connect(self._update)
        for signal in (self.where.chosen, self.also.changed, self.together.changed):
            signal.connect(self.changed)
        self._fit_rows()
        self.follow()

    def source(self) -> ImageSource:
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
        current = self._current_source()
        if current is not None and current is not self._abandoned and current.where == source.where == "view":
            # The part that was visible when the run began is kept, though the user has zoomed in since.
            same = dataclasses.replace(source, corners=current.corners)
            source = same if same.key == current.key else source
        source.check()
        return source

    def _choose_view_again(self) -> None:
        """Take the part that is visible now, since the user has chosen where once more."""
        self._abandoned = self._current_source()
        self.changed.emit()

    def choose(self, source: ImageSource) -> None:
        self.follow()
        self.image.choose(source.layer)
        self.also.chosen = list(source.channels)
        self.together.chosen = list(source.image_layers[1:]) if source.is_image_list else []
        _select(self.channel_axis, source.channel_axis)
        if not source.is_image_list:
            _select(self.depth, source.slices if source.shares_labels else source.depth)
        self._fit_rows()
        self.where.choose(source.where if source.mask is None else source.mask)
        self.changed.emit()

    def _depth(self) -> int:
        return 2 if not self.form.isRowVisible(self.depth) or self.depth.currentData() == 2 else 3

    def _image_chosen(self) -> None:
        layer = self._layer = self.image.value()
        self._axes, self._question = _describe_axes(layer), None
        self.also.chosen, self.together.chosen = [], []
        self.channel_axis.clear()
        self.channel_axis.addItem("None", None)
        if layer is not None:
            for axis, name in enumerate(layer.axis_labels if layer.ndim > 2 else ()):
                text = f"axis {axis}" if name.lstrip("-").isdigit() else name
                self.channel_axis.addItem(f"{text} ({layer.data.shape[axis]})", axis)
            guessed = image_source.guess_channel_axis(layer)
            _select(self.channel_axis, guessed)
            _select(self.depth, image_source.guess_depth(layer, guessed))
            if (question := image_source.guess_axis(layer)) is not None:
                answer = self._answers.get(layer)
                self._question = answer if answer is not None and answer[:2] == question[:2] else question
                self.planes.question.setText(f"{question.planes} planes:")
                self.planes.buttons[self._question.guess].setChecked(True)
                self._apply_meaning(self._question)
        self._update()

    def _answered(self, meaning: AxisMeaning) -> None:
        if self._question is not None and self._layer is not None:  # they may go while the question is on the screen
            answer = self._answers[self._layer] = self._question._replace(guess=meaning)
            self._apply_meaning(answer)
            self._update()

    def _apply_meaning(self, answer: AxisGuess) -> None:
        _select(self.channel_axis, answer.axis if answer.guess == "channels" else None)
        _select(self.depth, 2 if answer.guess == "time" else 3)

    def _on_event(self, event: Any) -> None:
        """Ask again what the axes mean, once napari is done, if they have changed; pixels say nothing about them."""
        if event.type in ("data", "axis_labels") and _describe_axes(self._layer) != self._axes:
            self._again.start()

    def _axis_chosen(self) -> None:
        if self._layer is not None:
            _select(self.depth, image_source.guess_depth(self._layer, self.channel_axis.currentData()))
        self._update()

    def _update(self) -> None:
        self._fit_rows()
        self.changed.emit()

    def _fit_rows(self) -> None:
        self._offer_others()
        n_axes = self._count_space_axes()
        self.form.setRowVisible(self.planes, self._question is not None)
        self.form.setRowVisible(self.depth, n_axes > 2)
        self.form.setRowVisible(self.channel_axis, self._layer is not None and self._layer.ndim > 2)
        slices = [("Every slice", "image"), ("This slice", "slice")]
        self.where.fixed = slices if n_axes > self._depth() else [("Whole image", "image")]
        self.where.fixed.append(("Visible part", "view"))
        self.where.follow(self.viewer.layers)

    def follow(self) -> None:
        """Follow the layers of the viewer."""
        self.image.follow(self.viewer.layers)
        self.where.follow(self.viewer.layers)
        self._offer_others()

    def _count_space_axes(self) -> int:
        return 0 if self._layer is None else self._layer.ndim - (self.channel_axis.currentData() is not None)

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


def _select(combo: QComboBox, value: Any) -> None:
    combo.setCurrentIndex(combo.findData(value))


def _describe_axes(layer: Image | None) -> tuple[Any, ...] | None:
    return None if layer is None else (layer.data.shape, tuple(layer.axis_labels), layer.rgb)
