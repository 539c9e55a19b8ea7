"""The dock "Superpixels": divide an image into superpixels and correct them by painting: merge, split, remove, undo."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import replace
from functools import partial
from typing import Any

import napari
import numpy as np
from napari.layers import Image, Labels
from numpy.typing import NDArray
from qtpy.QtCore import QSize
from qtpy.QtWidgets import QLabel, QWidget
from scipy import ndimage

from napari_gsw.core.errors import InputError
from napari_gsw.core.graph.region_graph import build_region_graph
from napari_gsw.core.image.normalized_image import NormalizedImage, normalize_image
from napari_gsw.core.image.spacing import parse_spacing
from napari_gsw.core.settings import Settings
from napari_gsw.core.settings.presets import preset
from napari_gsw.core.sites.scribbles import apply_scribble
from napari_gsw.core.sites.superpixels import make_superpixels
from napari_gsw.widgets.common.dock_panel import DockPanel, make_timer
from napari_gsw.widgets.common.layer_choosers import LayerCombo
from napari_gsw.widgets.common.layouts import make_column, make_form, make_scroll_area
from napari_gsw.widgets.common.setting_widgets import SettingWidget, get_preference
from napari_gsw.widgets.common.text import format_error, make_button, make_check_box, make_text_label, report_error
from napari_gsw.widgets.common.undo import UndoStack, UndoStep, get_undo_stack
from napari_gsw.widgets.common.worker import make_worker, run_in_thread
from napari_gsw.widgets.layers.brush import Brush
from napari_gsw.widgets.layers.cursor import get_view_position
from napari_gsw.widgets.layers.image_source import ImageSource, guess_channel_axis, guess_depth
from napari_gsw.widgets.layers.layer_metadata import SUPERPIXELS_OF, is_image, is_region, make_metadata
from napari_gsw.widgets.layers.lazy_labels import add_labels

SETTINGS = ("superpixels", "site_size", "compactness", "smoothing")
HINT = (
    "Paint on the layer to correct it: the label of a superpixel over its neighbours merges them, a new label (key M) "
    "splits, and the eraser removes pixels."
)
# Milliseconds without a change before a preview is made.
PREVIEW_DELAY = 300
Box = tuple[slice, ...]


class SitePainter:
    """Turns every stroke on a layer of superpixels of an image into superpixels."""

    def __init__(self, layer: Labels, source: ImageSource, changed: Callable[[], None], steps: UndoStack) -> None:
        self.layer, self.source, self.steps = layer, source, steps
        self._changed = changed
        self._before = np.array(layer.data)
        self._brush = Brush(layer, self._on_painted, self._on_replaced, steps.undo, steps.redo)

    @property
    def is_busy(self) -> bool:
        return self._brush.is_busy

    def _on_painted(self, path: NDArray[np.float64]) -> None:
        """Divide the superpixels that a stroke touches anew, in the box around them."""
        data = self.layer.data
        painted = np.argwhere(data != self._before)
        if not len(painted):
            return
        box: Box = tuple(map(slice, painted.min(axis=0).tolist(), (painted.max(axis=0) + 1).tolist()))
        found = dict(enumerate(ndimage.find_objects(self._before.astype(np.int32)), 1))
        touched = np.unique(np.concatenate((self._before[box].ravel(), data[box].ravel())))
        boxes = [box, *filter(None, (found.get(number) for number in touched.tolist()))]
        box = tuple(slice(min(s.start for s in axis), max(s.stop for s in axis)) for axis in zip(*boxes, strict=True))
        before = self._before[box].astype(np.int32)
        # New numbers have to be new in the whole layer, not only in the box.
        largest = int(max(self._before.max(), data[box].max()))
        local_path = path - np.array([s.start for s in box]) if len(path) else None
        after = apply_scribble(before, data[box].astype(np.int32), local_path)
        new = np.setdiff1d(after, np.concatenate((before.ravel(), data[box].ravel())))
        for i, number in enumerate(new.tolist()):
            after[after == number] = largest + 1 + i
        undo, redo = (partial(self._put, box, sites.astype(data.dtype)) for sites in (before, after))
        self.steps.push(UndoStep(self, undo, redo))
        redo()

    def _put(self, box: Box, values: NDArray[Any]) -> None:
        self.layer.data[box] = values
        self._before[box] = values
        self.layer.refresh()
        self._changed()

    def _on_replaced(self) -> None:
        """Begin anew with another array; strokes on the old one cannot be undone any more."""
        self._before = np.array(self.layer.data)
        self.steps.forget(self)
        self._changed()

    def detach(self) -> None:
        self._brush.detach()
        self.steps.forget(self)


class SuperpixelPanel(DockPanel):
    """Makes a Labels layer of superpixels, which are merged and split by painting on it."""

    def __init__(self, napari_viewer: napari.Viewer) -> None:
        super().__init__(napari_viewer)
        viewer = self.viewer
        self.steps = get_undo_stack(viewer)
        self.steps.bind_undo_keys(viewer, self.connections)
        self.worker: Any = None
        self.painter: SitePainter | None = None
        self._image: Image | None = None
        self._is_cancelled = self._starts_again = False
        self._n_counts = 0
        self._build()
        self._timer = self.connections.stop_on_close(make_timer(self, self.make, PREVIEW_DELAY))
        self.connections.connect_layers(viewer.layers.events, self._layers_changed)
        self.connections.on_close(self._end)
        self._layers_changed()
        for signal in (self.image.chosen, self.region.chosen, self.preview.toggled):
            signal.connect(self._on_changed)
        for control in self.controls.values():
            control.changed.connect(self._on_changed)
        self._on_changed()

    def _build(self) -> None:
        start = preset(str(get_preference("preset")))
        self.image = LayerCombo("The image layer to divide into superpixels", is_image)
        where_tip = "Everywhere, or inside a Shapes or Labels layer"
        self.region = LayerCombo(where_tip, is_region, [("Everywhere", None)])
        self.controls = {name: SettingWidget(name, getattr(start, name)) for name in SETTINGS}
        self.preview = make_check_box("Live preview", "Make superpixels again after every change")
        self.count = QLabel()
        self.make_button = make_button("Make superpixels", "Make a Labels layer of superpixels", self._on_pressed)
        controls = ((control.title, control) for control in self.controls.values())
        rows = (("Image", self.image), ("Where", self.region), *controls, ("", self.preview))
        inner = QWidget()
        form = make_form(*rows, ("Superpixels", self.count), parent=inner)
        form.setContentsMargins(6, 4, 6, 6)
        form.addRow(self.make_button)
        form.addRow(make_text_label("hint", HINT))
        make_column(make_scroll_area(inner), parent=self)

    @property
    def layer(self) -> Labels | None:
        return None if self.painter is None else self.painter.layer

    def sizeHint(self) -> QSize:
        return QSize(310, 330)

    def settings(self) -> Settings:
        return Settings(**{name: control.value() for name, control in self.controls.items()})

    def source(self) -> ImageSource:
        layer = self.image.value()
        if layer is None:
            raise InputError("Open an image to divide into superpixels")
        axis, where = guess_channel_axis(layer), get_view_position(self.viewer, layer)
        mask = self.region.value()
        source = ImageSource(layer, channel_axis=axis, depth=guess_depth(layer, axis), mask=mask, **where)
        source.check()
        return source

    def _on_changed(self, _: Any = None) -> None:
        if self._show_estimate() and self.preview.isChecked():
            self._timer.start()

    def _show_estimate(self) -> bool:
        """Show how many superpixels there would be, or why there can be none; return whether there can."""
        settings = self.settings()
        self.controls["compactness"].setEnabled(settings.is_active("compactness"))
        try:
            source = self.source()
        except InputError as reason:
            self.count.setText(str(reason))
            self.make_button.setEnabled(self.worker is not None)
            return False
        self.make_button.setEnabled(True)
        n_slices = len(source.positions)
        about = f"about {settings.site_count_for(source.pixels):,}"
        self.count.setText(about + (f" in each of {n_slices} slices" if n_slices > 1 else ""))
        return True

    def _layers_changed(self, _event: Any = None) -> None:
        self.image.follow(self.viewer.layers)
        self.region.follow(self.viewer.layers)
        is_image_gone = self._image is not None and self._image not in self.viewer.layers
        self._is_cancelled |= is_image_gone
        if is_image_gone or (self.layer is not None and self.layer not in self.viewer.layers):
            self._drop_layer()

    def _on_pressed(self) -> None:
        if self.worker is not None:
            self._is_cancelled, self._starts_again = True, False
            self._timer.stop()
        else:
            self.make()

    def make(self) -> None:
        """Make superpixels in the background; if they are being made, make them again afterwards."""
        if self.worker is not None:
            self._is_cancelled = self._starts_again = True
            return
        try:
            source, settings = self.source(), self.settings()
        except InputError as reason:
            self.count.setText(str(reason))
            return
        self._image, self._is_cancelled, self._starts_again = source.layer, False, False
        self.worker = make_worker(self._compute, source, settings)
        self.worker.yielded.connect(self._on_yielded)
        self.worker.returned.connect(partial(self._on_returned, source))
        self.worker.finished.connect(self._on_finished)
        self.make_button.setText("Cancel")
        self.count.setText("making superpixels ...")
        self.worker.start()

    def _compute(
        self, source: ImageSource, settings: Settings
    ) -> Generator[str, None, tuple[NDArray[np.int32] | None, Exception | None]]:
        """Make the superpixels of every slice in the worker, with different numbers in each.

        An error is a result: raised, napari would swallow a RuntimeError and print any other.
        """
        try:
            positions = source.positions
            sites = np.zeros(source.label_shape, np.int32)
            for i, position in enumerate(positions):
                if self._is_cancelled:
                    return None, None
                image = normalize_image(source.image(position), source.axes)
                image = replace(image, spacing=parse_spacing(source.spacing, len(image.shape)))
                yield "making superpixels ..." + (f" {i + 1} of {len(positions)}" if len(positions) > 1 else "")
                of_slice = make_superpixels(image, settings, source.mask_at(position))
                sites[source.index(position)] = np.where(of_slice > 0, of_slice + sites.max(), 0)
            return sites, None
        except Exception as reason:
            return None, reason

    def _on_yielded(self, text: str) -> None:
        self.count.setText(text)  # not connected itself, since it is deleted before the worker ends

    def _on_returned(self, source: ImageSource, outcome: tuple[NDArray[np.int32] | None, Exception | None]) -> None:
        sites, failure = outcome
        if failure is not None:
            self.count.setText(format_error(failure))
            report_error(failure, "Superpixels")
            return
        if sites is None or self._is_cancelled or source.layer not in self.viewer.layers:
            return
        image_id = str(source.layer.unique_id)
        data = sites.astype(np.uint16) if sites.max() <= np.iinfo(np.uint16).max else sites
        layer = self.layer
        self._drop_layer()
        is_same = layer is not None and layer.metadata.get(SUPERPIXELS_OF) == image_id
        if layer is not None and is_same and (layer.data.shape, layer.data.dtype) == (data.shape, data.dtype):
            layer.data = data
        else:
            look: dict[str, Any] = {"name": f"{source.layer.name} [superpixels]", "contour": 1, **source.geometry()}
            look["metadata"] = make_metadata("superpixels", {SUPERPIXELS_OF: image_id})
            layer = add_labels(self.viewer, data, **look)
        self.painter = SitePainter(layer, source, self._count, self.steps)
        self._count()

    def _count(self) -> None:
        """Count superpixels and borders in the background."""
        if self.painter is None:
            return
        source, data = self.painter.source, np.array(self.painter.layer.data)
        self._n_counts += 1
        number = self._n_counts

        def count() -> tuple[int, int]:
            slices = [data[source.index(position)] for position in source.positions]
            return len(np.unique(data[data > 0])), sum(map(_count_borders, slices))

        def show(counts: tuple[int, int]) -> None:
            if number == self._n_counts and self.connections.is_open:  # a later stroke has its own count
                self.count.setText("{:,} superpixels, {:,} borders".format(*counts))

        run_in_thread(count, show, partial(report_error, source="Superpixels"))

    def _on_finished(self) -> None:
        self.worker = None
        self.make_button.setText("Make superpixels")
        if self._starts_again:
            self.make()
        elif self._is_cancelled:
            self._show_estimate()  # a user who has cancelled does not want them again at once

    def _drop_layer(self) -> None:
        """Leave the layer of superpixels to the user."""
        if self.painter is not None:
            self.painter.detach()
        self.painter = None

    def _end(self) -> None:
        self._is_cancelled, self._starts_again = True, False
        if self.worker is not None:
            self.worker.quit()
        self._drop_layer()


def _count_borders(sites: NDArray[np.integer]) -> int:
    """Count the edges of the region graph."""
    compact = np.unique(sites, return_inverse=True)[1].reshape(sites.shape).astype(np.int32)
    image = NormalizedImage(np.zeros((*sites.shape, 1), np.float32), False)
    return len(build_region_graph(image, compact + (0 if (sites == 0).any() else 1)).edges)
