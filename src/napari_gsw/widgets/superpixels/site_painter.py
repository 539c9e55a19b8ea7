"""Mending superpixels with the brush: merge, split, take out, undo."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from napari.layers import Labels
from numpy.typing import NDArray
from scipy import ndimage

from napari_gsw.core.sites.strokes import repainted
from napari_gsw.widgets.layers.brush import Brush
from napari_gsw.widgets.layers.source import Source

Box = tuple[slice, ...]
MOST_UNDO = 100


class SitePainter:
    """Makes every stroke on a layer of superpixels leave superpixels behind.

    Only the boxes around the sites that a stroke touches are looked at, so that it is quick on a large image.

    Attributes
    ----------
    layer : the superpixels.
    source : the image they belong to.
    """

    def __init__(self, layer: Labels, source: Source, boxes: dict[int, Box], changed: Callable[[], None]) -> None:
        self.layer, self.source = layer, source
        self._boxes = boxes
        self._changed = changed
        self._before = np.array(layer.data)
        self._done: list[tuple[Box, NDArray[Any], NDArray[Any]]] = []
        self._undone: list[tuple[Box, NDArray[Any], NDArray[Any]]] = []
        self._brush = Brush(layer, self._painted, self._replaced, self.undo, self.redo)

    @staticmethod
    def boxes_of(sites: NDArray[np.integer]) -> dict[int, Box]:
        """The bounding box of every site, by number."""
        boxes = ndimage.find_objects(sites)
        return {number: box for number, box in enumerate(boxes, 1) if box is not None}

    def _painted(self, path: NDArray[np.float64]) -> None:
        data = self.layer.data
        stroke = np.argwhere(data != self._before)
        if not len(stroke):
            return
        box = _around(stroke)
        touched = np.unique(np.concatenate((self._before[box].ravel(), data[box].ravel())))
        boxes = [self._boxes[n] for n in touched.tolist() if n in self._boxes]
        box = _union([box, *boxes])
        before = self._before[box].astype(np.int32)
        # New numbers have to be new in the whole layer, not in the box alone.
        most = max([*self._boxes, int(data[box].max())])
        start = np.array([s.start for s in box])
        along = path - start if len(path) else None
        after = repainted(before, data[box].astype(np.int32), along)
        fresh = np.setdiff1d(after, np.concatenate((before.ravel(), data[box].ravel())))
        for i, number in enumerate(fresh.tolist()):
            after[after == number] = most + 1 + i
        self._keep(box, before.astype(data.dtype), after.astype(data.dtype))

    def _keep(self, box: Box, before: NDArray[Any], after: NDArray[Any]) -> None:
        self._done.append((box, before, after))
        del self._done[:-MOST_UNDO]
        self._undone.clear()
        self._put(box, after)

    def _put(self, box: Box, values: NDArray[Any]) -> None:
        for number in np.unique(np.concatenate((self._before[box].ravel(), values.ravel()))).tolist():
            self._boxes.pop(number, None)
        self.layer.data[box] = values
        self._before[box] = values
        for number, inner in self.boxes_of(values.astype(np.int32)).items():
            offset = tuple(slice(b.start + i.start, b.start + i.stop) for b, i in zip(box, inner, strict=True))
            self._boxes[number] = offset
        self.layer.refresh()
        self._changed()

    def _replaced(self) -> None:
        """Another array: what was done to the old one cannot be undone any more."""
        self._before = np.array(self.layer.data)
        self._boxes = self.boxes_of(self._before.astype(np.int32))
        self._done.clear()
        self._undone.clear()
        self._changed()

    def undo(self) -> None:
        if self._done:
            box, before, after = self._done.pop()
            self._undone.append((box, before, after))
            self._put(box, before)

    def redo(self) -> None:
        if self._undone:
            box, before, after = self._undone.pop()
            self._done.append((box, before, after))
            self._put(box, after)

    def detach(self) -> None:
        self._brush.detach()


def _around(points: NDArray[np.integer]) -> Box:
    low, high = points.min(axis=0), points.max(axis=0) + 1
    return tuple(slice(int(a), int(b)) for a, b in zip(low, high, strict=True))


def _union(boxes: list[Box]) -> Box:
    axes = range(len(boxes[0]))
    return tuple(slice(min(b[a].start for b in boxes), max(b[a].stop for b in boxes)) for a in axes)
