"""What ties our layers to their image and to the panel: they go where the image goes, and eyes and boxes agree."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import napari
from napari.layers import Layer
from qtpy.QtCore import QObject, Signal

from napari_gsw.widgets.kit.link import Link
from napari_gsw.widgets.layers.kinds import kind_of
from napari_gsw.widgets.session.canvas import Canvas
from napari_gsw.widgets.session.orders import Orders
from napari_gsw.widgets.session.plan import Segmentation

# What can change of where a layer lies.
PLACE = ("scale", "translate", "rotate", "shear", "affine", "units")


class LayerTies(QObject):  # type: ignore[misc]
    """Hears what happens to the layers of a segmentation while there is one.

    Signals
    -------
    image_replaced : an image was given other pixels.
    moved : an image has gone somewhere else, or its pixels have another size.
    eyes_changed : name of a picture ("boundary", "entropy", "regions", "sites"), and whether it is shown now.
    """

    image_replaced = Signal()
    moved = Signal()
    eyes_changed = Signal(str, bool)

    def __init__(
        self, viewer: napari.Viewer, link: Link, orders: Orders, canvas: Canvas, parent: QObject | None = None
    ) -> None:
        super().__init__(parent)
        self.orders, self.canvas, self.link = orders, canvas, link
        link.connect(viewer.layers.events.inserted, self._inserted)
        link.connect(viewer.layers.events.removed, self._removed)
        canvas.layers_taken.connect(self._watch_taken)

    # ---- the image

    def tie(self, segmentation: Segmentation) -> None:
        """Hear what happens to the images of a segmentation."""
        for signal, slot in self._of_images(segmentation):
            self.link.connect(signal, slot)

    def untie(self, segmentation: Segmentation | None) -> None:
        """Hear it no more; nothing happens if there is none."""
        for signal, slot in self._of_images(segmentation):
            self.link.disconnect(signal, slot)

    def _of_images(self, segmentation: Segmentation | None) -> Iterator[tuple[Any, Any]]:
        for image in () if segmentation is None else segmentation.plan.source.image_layers:
            yield image.events.data, self._data_replaced
            for name in PLACE:
                yield getattr(image.events, name), self._moved

    def _data_replaced(self, event: Any = None) -> None:
        self.image_replaced.emit()

    def _moved(self, event: Any = None) -> None:
        """The image has gone somewhere else."""
        if (seg := self.orders.segmentation) is None:
            return
        seg.layers.place()
        size = seg.plan.source.pixel_size
        if any(one.pixel_size != size for one in seg.array_runs.values()):
            for one in seg.array_runs.values():
                one.pixel_size = size
            self.canvas.redraw()
        self.moved.emit()

    # ---- the eyes in napari's list of layers

    def _watch_taken(self) -> None:
        """Layers that an earlier run has left may be older than we are."""
        seg = self.orders.segmentation
        for layer in () if seg is None else seg.layers.all():
            self.link.disconnect(layer.events.visible, self._eye)
            self.link.connect(layer.events.visible, self._eye)

    def _inserted(self, event: Any) -> None:
        if kind_of(event.value) is not None:
            self.link.connect(event.value.events.visible, self._eye)

    def _removed(self, event: Any) -> None:
        self.link.disconnect(event.value.events.visible, self._eye)

    def _eye(self, event: Any) -> None:
        """A picture was shown or hidden; of those of several images, the box stands for any."""
        layer: Layer = event.source
        seg, view = self.orders.segmentation, self.orders.view
        name = None if seg is None else seg.layers.name_of(layer)
        if seg is None or name is None:
            return
        shown = any(one.visible for one in seg.layers.pictures(name))
        if name != "sites" and shown != (name in view.wanted):
            if shown:
                self.canvas.change_view(wanted=view.wanted | {name})
            else:
                self.orders.view = replace(view, wanted=view.wanted - {name})
        self.eyes_changed.emit(name, shown)
