"""The head of the panel: which image, which part of it, and what its axes mean."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

import napari
from napari.layers import Image
from qtpy.QtCore import QTimer, Signal
from qtpy.QtWidgets import QComboBox, QFormLayout, QHBoxLayout, QWidget

from napari_gsw.core.errors import InputError
from napari_gsw.widgets.common.collapsible import RowHeading
from napari_gsw.widgets.common.dock_panel import Connections
from napari_gsw.widgets.common.help_page import make_help_button
from napari_gsw.widgets.common.layer_choosers import LayerCombo, LayerMenu
from napari_gsw.widgets.layers.cursor import get_view_position
from napari_gsw.widgets.layers.image_source import (
    AxisGuess,
    AxisMeaning,
    ImageListSource,
    ImageSource,
    Slices,
    guess_axis,
    guess_channel_axis,
    guess_depth,
)
from napari_gsw.widgets.layers.layer_metadata import is_image, is_region
from napari_gsw.widgets.panel.rows import AxisRow


class ImageChooser(QWidget):  # type: ignore[misc]
    """Image, where, axes and channels; only what the image has is shown.

    Signals
    -------
    changed : another image, or another part of it.
    """

    changed = Signal()

    def __init__(self, viewer: napari.Viewer, connections: Connections) -> None:
        super().__init__()
        self.viewer, self._connections = viewer, connections
        self.image = LayerCombo(is_image)
        self.image.setToolTip("The image layer to segment")
        self.image.setAccessibleName("Image")
        self.where = LayerCombo(is_region, [("Whole image", "image"), ("Visible part", "view")])
        self.where.setToolTip(
            "Segment everything, what is on the screen now, or what lies inside a Shapes or Labels layer"
        )
        self.where.setAccessibleName("Where")
        self.depth = QComboBox()
        self.depth.addItem("3D volume", 3)
        self.depth.addItem("2D slices, one by one", 2)
        self.depth.addItem("2D slices, shared labels", "shared")
        self.depth.addItem("2D slices, shared and linked", "linked")
        self.depth.setToolTip(
            "Segment a stack as one volume; every slice on its own; or all slices together, so that a label means the "
            "same in all of them and what is painted in one teaches all. Linked slices hold together where they overlap"
        )
        self.channel_axis = QComboBox()
        self.channel_axis.setToolTip("The axis of the image that holds channels, if one does")
        self.also = LayerMenu("This one only", "Further image layers of the same shape to use as channels")
        self.together = LayerMenu(
            "By itself",
            "Further images to segment together with this one, of any size: a label means the same in all of them, and "
            "what is painted in one teaches all",
        )
        self._layer: Image | None = None
        self._form: tuple[Any, ...] | None = None
        self._again = QTimer(self)
        self._again.setSingleShot(True)
        self._again.timeout.connect(self._image_chosen)
        connections.stop_on_close(self._again)
        self.form = QFormLayout(self)
        self.form.setContentsMargins(0, 0, 0, 0)
        self.form.setHorizontalSpacing(4)
        self.form.setVerticalSpacing(4)
        self.form.setFieldGrowthPolicy(QFormLayout.FieldGrowthPolicy.AllNonFixedFieldsGrow)
        self.help = make_help_button("widget.md#gsw-segmentation")
        first = QHBoxLayout()
        first.setSpacing(2)
        first.addWidget(self.image, 1)
        first.addWidget(self.help)
        self.form.addRow(RowHeading("Image"), first)
        self.planes = AxisRow()
        self.planes.answered.connect(self._answered)
        self._question: AxisGuess | None = None
        # What the user has said of an image stays said when he comes back to it.
        self._answers: WeakKeyDictionary[Image, AxisGuess] = WeakKeyDictionary()
        self.form.addRow(self.planes)
        self.form.addRow(RowHeading("Where"), self.where)
        self.form.addRow("Together", self.together)
        self.form.addRow("Channels", self.also)
        self.form.addRow("Channel axis", self.channel_axis)
        self.form.addRow("Stack as", self.depth)
        self.image.chosen.connect(self._image_chosen)
        self.where.chosen.connect(self.changed)
        self.where.activated.connect(self._chosen_again)
        # The source of the run that there is, if there is one, and the one that the user has turned away from.
        self.standing: Callable[[], ImageSource | None] = lambda: None
        self._left: ImageSource | None = None
        self.channel_axis.activated.connect(self._axis_chosen)
        self.also.changed.connect(self.changed)
        self.together.changed.connect(self.changed)
        self.depth.activated.connect(self._fit_rows)
        self.depth.activated.connect(self.changed)
        self._fit_rows()
        self.follow()

    # ---- what is chosen

    def source(self) -> ImageSource:
        """What is to be segmented; an InputError says why it cannot be."""
        layer = self.image.value()
        if layer is None:
            raise InputError("Open an image to segment")
        where = self.where.value()
        beside: dict[str, Any] = {
            "channels": tuple(self.also.chosen),
            "channel_axis": self.channel_axis.currentData(),
            "where": "slice" if where == "slice" else "view" if where == "view" else "image",
            "mask": None if isinstance(where, str) else where,
            **get_view_position(self.viewer, layer),
        }
        if self.together.chosen and self.form.isRowVisible(self.together):
            images = (layer, *self.together.chosen)
            members = tuple(ImageSource(x, channel_axis=self.channel_axis.currentData()) for x in images)
            source: ImageSource = ImageListSource(layer, slices="shared", members=members, **beside)
        else:
            source = ImageSource(layer, depth=self._depth(), slices=self._slices(), **beside)
        source = self._with_kept_view(source)
        source.check()
        return source

    def _with_kept_view(self, source: ImageSource) -> ImageSource:
        """The part that was visible when its run began, until the user chooses the visible part again.

        Whoever has zoomed in to look at something goes on with what there is.
        """
        kept = self.standing()
        if kept is None or kept is self._left or not kept.where == source.where == "view":
            return source
        same = dataclasses.replace(source, corners=kept.corners)
        return same if same.key == kept.key else source

    def _chosen_again(self) -> None:
        """The user has chosen where, perhaps the same as before: what is visible now is meant."""
        self._left = self.standing()
        self.changed.emit()

    def choose(self, source: ImageSource) -> None:
        """Show the choices that a source was made by."""
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
        if not self.form.isRowVisible(self.depth):
            return 2
        return 2 if self.depth.currentData() == 2 else 3

    def _slices(self) -> Slices:
        together: Slices = self.depth.currentData() if self.depth.currentData() in ("shared", "linked") else "volume"
        return together if self._depth() == 3 else "volume"

    # ---- following the viewer

    def follow(self) -> None:
        """List the viewer's layers as they are now."""
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
        if layer is not None:
            names = layer.axis_labels
            for axis in range(layer.ndim if layer.ndim > 2 else 0):
                shown = names[axis] if not names[axis].lstrip("-").isdigit() else f"axis {axis}"
                self.channel_axis.addItem(f"{shown} ({layer.data.shape[axis]})", axis)
            guessed = guess_channel_axis(layer)
            self.channel_axis.setCurrentIndex(0 if guessed is None else guessed + 1)
            self.depth.setCurrentIndex(self.depth.findData(guess_depth(layer, guessed)))
        self._question = None if layer is None else guess_axis(layer)
        said = self._answers.get(layer) if layer is not None else None
        if self._question is not None and said is not None and said[:2] == self._question[:2]:
            self._question = said
        if self._question is not None:
            self.planes.ask(self._question)
            self._take_meaning(self._question.guess)
        self._fit_rows()
        self.changed.emit()

    def _answered(self, meaning: AxisMeaning) -> None:
        if self._question is None or self._layer is None:  # it went away while its question was on the screen
            return
        self._answers[self._layer] = self._question._replace(guess=meaning)
        self._take_meaning(meaning)
        self._fit_rows()
        self.changed.emit()

    def _take_meaning(self, meaning: AxisMeaning) -> None:
        """Set channels and depth as the answer to the question says."""
        assert self._question is not None
        axis = self._question.axis if meaning == "channels" else None
        self.channel_axis.setCurrentIndex(self.channel_axis.findData(axis))
        self.depth.setCurrentIndex(self.depth.findData(2 if meaning == "time" else 3))

    def _watch(self, layer: Image | None) -> None:
        """Hear of it when the image that is chosen gets other axes."""
        for old in () if self._layer is None else (self._layer.events.data, self._layer.events.axis_labels):
            self._connections.disconnect(old, self._image_changed)
        for new in () if layer is None else (layer.events.data, layer.events.axis_labels):
            self._connections.connect(new, self._image_changed)
        self._layer, self._form = layer, _form_of(layer)

    def _image_changed(self, event: Any = None) -> None:
        """Ask again what the axes mean, once napari is done, if they are others; pixels say nothing about them."""
        if _form_of(self._layer) != self._form:
            self._again.start(0)

    def _axis_chosen(self) -> None:
        if self._layer is not None:
            axis = self.channel_axis.currentData()
            self.depth.setCurrentIndex(self.depth.findData(guess_depth(self._layer, axis)))
        self._fit_rows()
        self.changed.emit()

    def _fit_rows(self) -> None:
        """Show only the questions that this image raises."""
        self._offer_others()
        layer = self._layer
        space = 0 if layer is None else layer.ndim - (self.channel_axis.currentData() is not None)
        self.form.setRowVisible(self.planes, self._question is not None)
        self.form.setRowVisible(self.depth, space > 2)
        self.form.setRowVisible(self.channel_axis, layer is not None and layer.ndim > 2)
        slices = layer is not None and space > self._depth()
        fixed: list[tuple[str, Any]] = [("Whole image", "image")]
        if slices:
            fixed = [("Every slice", "image"), ("This slice", "slice")]
        self.where.set_fixed([*fixed, ("Visible part", "view")])
        self.where.follow(list(self.viewer.layers))

    def _offer_others(self) -> None:
        """List the layers that may be channels of the image, and the images that may be segmented with it."""
        layer = self._layer
        images = [x for x in self.viewer.layers if is_image(x) and x is not layer and not x.multiscale]
        alike = [x for x in images if layer is not None and x.rgb == layer.rgb and x.ndim == layer.ndim]
        channels = [x for x in alike if not x.rgb and layer is not None and x.data.shape == layer.data.shape]
        self.also.offer(channels)
        self.form.setRowVisible(self.also, bool(channels))
        self.together.offer([] if layer is None or layer.multiscale else alike)
        space = 0 if layer is None else layer.ndim - (self.channel_axis.currentData() is not None)
        self.form.setRowVisible(self.together, space == 2 and bool(self.together.menu().actions()))


def _form_of(layer: Image | None) -> tuple[Any, ...] | None:
    """What the questions about an image depend on: its shape and the names of its axes."""
    return None if layer is None else (layer.data.shape, tuple(layer.axis_labels), layer.rgb)
