"""Correction of superpixels with the brush: merge, split, remove, undo."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from napari.layers import Labels
from numpy.typing import NDArray
from scipy import ndimage

from napari_gsw.core.sites.scribbles import apply_scribble
from napari_gsw.widgets.common.undo import UndoStack, UndoStep
from napari_gsw.widgets.layers.brush import Brush
from napari_gsw.widgets.layers.image_source import ImageSource

Box = tuple[slice, ...]


class SitePainter:
    """Turns every stroke on a layer of superpixels of an image into superpixels.

    Only the `boxes` around the superpixels that a stroke touches are read, so that it is quick on a large image.
    """

    def __init__(
        self, layer: Labels, source: ImageSource, boxes: dict[int, Box], changed: Callable[[], None], steps: UndoStack
    ) -> None:
        self.layer, self.source, self.steps = layer, source, steps
        self._boxes = boxes
        self._changed = changed
        self._before = np.array(layer.data)
        self._brush = Brush(layer, self._on_painted, self._on_replaced, steps.undo, steps.redo)

    @property
    def is_busy(self) -> bool:
        return self._brush.is_busy

    def _on_painted(self, path: NDArray[np.float64]) -> None:
        data = self.layer.data
        painted = np.argwhere(data != self._before)
        if not len(painted):
            return
        box: Box = tuple(map(slice, painted.min(axis=0).tolist(), (painted.max(axis=0) + 1).tolist()))
        touched = np.unique(np.concatenate((self._before[box].ravel(), data[box].ravel())))
        boxes = [box, *(self._boxes[n] for n in touched.tolist() if n in self._boxes)]
        box = tuple(slice(min(s.start for s in axis), max(s.stop for s in axis)) for axis in zip(*boxes, strict=True))
        before = self._before[box].astype(np.int32)
        # New numbers have to be new in the whole layer, not only in the box.
        largest = max([*self._boxes, int(data[box].max())])
        local_path = path - np.array([s.start for s in box]) if len(path) else None
        after = apply_scribble(before, data[box].astype(np.int32), local_path)
        new = np.setdiff1d(after, np.concatenate((before.ravel(), data[box].ravel())))
        for i, number in enumerate(new.tolist()):
            after[after == number] = largest + 1 + i
        undo, redo = (partial(self.put, box, sites.astype(data.dtype)) for sites in (before, after))
        self.steps.push(UndoStep(self, undo, redo))
        redo()

    def put(self, box: Box, values: NDArray[Any]) -> None:
        for number in np.unique(np.concatenate((self._before[box].ravel(), values.ravel()))).tolist():
            self._boxes.pop(number, None)
        self.layer.data[box] = values
        self._before[box] = values
        for number, inner in find_boxes(values.astype(np.int32)).items():
            offset = tuple(slice(b.start + i.start, b.start + i.stop) for b, i in zip(box, inner, strict=True))
            self._boxes[number] = offset
        self.layer.refresh()
        self._changed()

    def _on_replaced(self) -> None:
        """Begin anew with another array; strokes on the old one cannot be undone any more."""
        self._before = np.array(self.layer.data)
        self._boxes = find_boxes(self._before.astype(np.int32))
        self.steps.forget(self)
        self._changed()

    def detach(self) -> None:
        self._brush.detach()
        self.steps.forget(self)


def find_boxes(sites: NDArray[np.integer]) -> dict[int, Box]:
    """Return the bounding box of every superpixel by its number."""
    return {number: box for number, box in enumerate(ndimage.find_objects(sites), 1) if box is not None}
