"""The Superpixels widget: cut an image into sites, look at them, and mend them by painting."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace
from typing import Any

import napari
import numpy as np
from magicgui.widgets import CheckBox, ComboBox, Label, PushButton, create_widget
from napari.layers import Image, Labels, Layer
from numpy.typing import NDArray
from qtpy.QtCore import QTimer
from qtpy.QtWidgets import QFormLayout, QVBoxLayout, QWidget

from napari_gsw.core.errors import InputError
from napari_gsw.core.graph.region_graph import build_region_graph
from napari_gsw.core.image.normalized_image import NormalizedImage, normalize_image
from napari_gsw.core.image.spacing import parse_spacing
from napari_gsw.core.settings import Settings, setting_fields
from napari_gsw.core.settings.presets import preset
from napari_gsw.core.sites.superpixels import make_superpixels
from napari_gsw.widgets.common.collapsible import make_scroll_area
from napari_gsw.widgets.common.dock_panel import DockPanel
from napari_gsw.widgets.common.labels import WorkerFailure, format_error, make_text_label, report_error
from napari_gsw.widgets.common.preferences import get_preference
from napari_gsw.widgets.common.setting_widgets import display_text, setting_title, tooltip_text
from napari_gsw.widgets.common.undo import get_undo_stack
from napari_gsw.widgets.common.worker import make_worker
from napari_gsw.widgets.layers.cursor import get_view_position
from napari_gsw.widgets.layers.image_source import ImageSource, guess_channel_axis, guess_depth
from napari_gsw.widgets.layers.layer_metadata import SUPERPIXELS_OF, is_image, is_region, make_metadata, unwrap_viewer
from napari_gsw.widgets.layers.lazy_labels import add_labels
from napari_gsw.widgets.superpixels.painter import SitePainter

EVERYWHERE = "everywhere"
SHOWN_SETTINGS = ("superpixels", "site_size", "compactness", "smoothing")
# How long the user has to be still before a preview is made, in milliseconds.
STILL = 300
# What the worker brings: the source, its sites, the number of borders, and the sites' boxes.
Cut = tuple[ImageSource, NDArray[np.int32], int, dict[int, tuple[slice, ...]]]


class SuperpixelPanel(DockPanel):
    """Makes a Labels layer of superpixels where the image is; painting on it merges and splits them."""

    def __init__(self, napari_viewer: napari.Viewer) -> None:
        super().__init__(napari_viewer)
        self.viewer = viewer = unwrap_viewer(napari_viewer)
        self.steps = get_undo_stack(viewer)
        self.steps.bind_undo_keys(viewer, self.connections)
        self._build()
        self.worker: Any = None
        self.layer: Labels | None = None
        self.painter: SitePainter | None = None
        self._of: Image | None = None
        self._cancelled = False
        self._again = False
        self._counts = 0
        self._timer = QTimer(self)
        self._timer.setSingleShot(True)
        self._timer.setInterval(STILL)
        self._timer.timeout.connect(self.make)
        self.connections.connect_layers(viewer.layers.events, self._layers_changed)
        self.connections.on_close(self._end)
        self.connections.stop_on_close(self._timer)
        for widget in (self.image, self.region, *self.settings_widgets.values(), self.preview):
            widget.changed.connect(self._touched)
        self.make_button.changed.connect(self._pressed)
        self._layers_changed()

    # ---- the form

    def _build(self) -> None:
        start, declared = preset(str(get_preference("preset"))), setting_fields()
        self.image = ComboBox(choices=self._images, label="Image", tooltip="The image layer to cut into superpixels")
        self.region = ComboBox(
            choices=self._regions, label="Where", tooltip="Everywhere, or inside a Shapes or Labels layer"
        )
        self.settings_widgets = {
            name: create_widget(
                getattr(start, name), name=name, label=setting_title(name, declared[name]), options=_options(name)
            )
            for name in SHOWN_SETTINGS
        }
        self.preview = CheckBox(
            value=False, label="", text="Live preview", tooltip="Make them again whenever something changes"
        )
        self.count = Label(value="", label="Sites")
        self.make_button = PushButton(text="Make superpixels", tooltip="Make a Labels layer of superpixels")
        self.hint = make_text_label("hint")
        self.hint.setText(
            "Paint on the layer to mend it: a site's own label over its neighbours merges them, a new label (key M) "
            "splits, the eraser takes pixels out."
        )
        inner = QWidget()
        form = QFormLayout(inner)
        form.setContentsMargins(6, 4, 6, 6)
        form.setFieldGrowthPolicy(QFormLayout.FieldGrowthPolicy.AllNonFixedFieldsGrow)
        for widget in (self.image, self.region, *self.settings_widgets.values(), self.preview, self.count):
            form.addRow(widget.label, widget.native)
        form.addRow(self.make_button.native)
        form.addRow(self.hint)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.addWidget(make_scroll_area(inner))

    def _images(self, _: Any) -> list[tuple[str, Layer]]:
        return [(x.name, x) for x in reversed(self.viewer.layers) if is_image(x)]

    def _regions(self, _: Any) -> list[tuple[str, Any]]:
        return [("Everywhere", EVERYWHERE), *((x.name, x) for x in reversed(self.viewer.layers) if is_region(x))]

    def settings(self) -> Settings:
        return Settings(**{name: widget.value for name, widget in self.settings_widgets.items()})

    def source(self) -> ImageSource:
        """What is to be cut; an InputError says why it cannot be."""
        layer = self.image.value
        if layer is None:
            raise InputError("Open an image to cut into superpixels")
        axis = guess_channel_axis(layer)
        region = None if self.region.value == EVERYWHERE else self.region.value
        source = ImageSource(
            layer,
            channel_axis=axis,
            depth=guess_depth(layer, axis),
            mask=region,
            **get_view_position(self.viewer, layer),
        )
        source.check()
        return source

    def _touched(self, _: Any = None) -> None:
        if self._foretell() and self.preview.value:
            self._timer.start()

    def _foretell(self) -> bool:
        """Say how many there would be, or why there can be none; whether there can."""
        now = self.settings()
        self.settings_widgets["compactness"].enabled = now.is_active("compactness")
        try:
            source = self.source()
        except InputError as reason:
            self.count.value = str(reason)
            self.make_button.enabled = self.worker is not None
            return False
        self.make_button.enabled = True
        slices = len(source.positions)
        about = f"about {now.site_count_for(source.pixels):,}"
        self.count.value = about + (f" in each of {slices} slices" if slices > 1 else "")
        return True

    def _layers_changed(self, event: Any = None) -> None:
        """List the layers as they are now; what is said about the chosen ones stays unless the choice has changed."""
        chosen = self.image.value, self.region.value
        with self.image.changed.blocked(), self.region.changed.blocked():  # another name is no other choice
            self.image.reset_choices()
            self.region.reset_choices()
        if self.layer is not None and self.layer not in self.viewer.layers:
            self._drop_layer()
        if self._of is not None and self._of not in self.viewer.layers:
            self._cancelled = True
            self._drop_layer()
        if event is None or chosen != (self.image.value, self.region.value):
            self._touched()

    # ---- making

    def _pressed(self) -> None:
        if self.worker is not None:
            self._cancelled, self._again = True, False
            self._timer.stop()
        else:
            self.make()

    def make(self) -> None:
        """Cut the image, in the background; what is asked for meanwhile is made afterwards."""
        if self.worker is not None:
            self._again = True
            self._cancelled = True
            return
        try:
            source, settings = self.source(), self.settings()
        except InputError as reason:
            self.count.value = str(reason)
            return
        self._of, self._cancelled, self._again = source.layer, False, False
        self.worker = make_worker(self._cut, source, settings)
        self.worker.yielded.connect(self._progressed)
        self.worker.returned.connect(self._returned)
        self.worker.finished.connect(self._finished)
        self.make_button.text = "Cancel"
        self.count.value = "making them ..."
        self.worker.start()

    def _cut(self, source: ImageSource, settings: Settings) -> Generator[str, None, Cut | WorkerFailure | None]:
        """In the worker's thread: sites of every slice, numbered on, and what there is to say about them."""
        try:
            positions = source.positions
            sites = np.zeros(source.label_shape, np.int32)
            borders = 0
            for i, position in enumerate(positions):
                if self._cancelled:
                    return None
                pixels = normalize_image(source.image(position), source.axes)
                pixels = replace(pixels, spacing=parse_spacing(source.spacing, len(pixels.shape)))
                yield f"making them ... {i + 1} of {len(positions)}" if len(positions) > 1 else "making them ..."
                here = make_superpixels(pixels, settings, source.mask_at(position))
                borders += _borders(pixels, here)
                sites[source.index(position)] = np.where(here > 0, here + sites.max(), 0)
            return source, sites, borders, SitePainter.boxes_of(sites)
        except Exception as reason:
            return WorkerFailure(reason)

    def _progressed(self, text: str) -> None:
        self.count.value = text

    def _returned(self, cut: Cut | WorkerFailure | None) -> None:
        if isinstance(cut, WorkerFailure):
            self.count.value = format_error(cut.reason)
            report_error(cut.reason, "Superpixels")
            return
        if cut is None or self._cancelled:
            return
        source, sites, borders, boxes = cut
        if source.layer not in self.viewer.layers:
            return
        data = sites.astype(np.uint16) if sites.max() <= np.iinfo(np.uint16).max else sites
        self._drop_painter()
        if (
            self.layer is not None
            and self.layer.metadata.get(SUPERPIXELS_OF) == str(source.layer.unique_id)
            and _alike(self.layer, data)
        ):
            self.layer.data = data
        else:
            self.layer = add_labels(
                self.viewer,
                data,
                name=f"{source.layer.name} [superpixels]",
                metadata=make_metadata("superpixels", {SUPERPIXELS_OF: str(source.layer.unique_id)}),
                **source.geometry(),
            )
            self.layer.contour = 1
        self.painter = SitePainter(self.layer, source, boxes, self._mended, self.steps)
        self._show_count(int(len(np.unique(sites)) - (sites.min() == 0)), borders)

    def _show_count(self, count: int, borders: int) -> None:
        self.count.value = f"{count:,} sites, {borders:,} borders"

    def _mended(self) -> None:
        """The user has painted: count again, in the background."""
        if self.layer is None or self.painter is None:
            return
        source, data = self.painter.source, np.array(self.layer.data)

        def count() -> tuple[int, int]:
            borders = 0
            for position in source.positions:
                here = data[source.index(position)].astype(np.int32)
                blank = NormalizedImage(np.zeros((*here.shape, 1), np.float32), False)
                borders += _borders(blank, here)
            return len(np.unique(data[data > 0])), borders

        self._counts += 1
        number = self._counts

        def show(counted: tuple[int, int]) -> None:
            if number == self._counts and self.connections.is_open:  # a later stroke has its own count
                self._show_count(*counted)

        worker = make_worker(count)
        worker.returned.connect(show)
        worker.start()

    def _finished(self) -> None:
        self.worker = None
        self.make_button.text = "Make superpixels"
        if self._again:
            self.make()
        elif self._cancelled:
            self._foretell()  # whoever has cancelled does not want them again at once

    # ---- the end

    def _drop_painter(self) -> None:
        if self.painter is not None:
            self.painter.detach()
            self.painter = None

    def _drop_layer(self) -> None:
        """The layer of superpixels is the user's own from now on."""
        self._drop_painter()
        self.layer = None

    def _end(self) -> None:
        self._cancelled, self._again = True, False
        if self.worker is not None:
            self.worker.quit()
        self._drop_layer()


def _options(name: str) -> dict[str, Any]:
    setting = setting_fields()[name]
    options: dict[str, Any] = {"tooltip": tooltip_text(name, setting)}
    if setting.choices:
        choices = [(display_text(word, name), word) for word in setting.choices]
        return options | {"widget_type": "ComboBox", "choices": choices}
    low = max(setting.low, 0) + (1e-3 if setting.exclusive_min else 0)
    return options | {"min": setting.kind(low), "max": setting.kind(min(setting.high, 1_000_000))}


def _borders(pixels: NormalizedImage, sites: NDArray[np.int32]) -> int:
    """Number of edges of the region graph."""
    compact = np.unique(sites, return_inverse=True)[1].reshape(sites.shape).astype(np.int32)
    return len(build_region_graph(pixels, compact + (0 if (sites == 0).any() else 1)).edges)


def _alike(layer: Labels, data: NDArray[Any]) -> bool:
    return bool(layer.data.shape == data.shape and layer.data.dtype == data.dtype)
