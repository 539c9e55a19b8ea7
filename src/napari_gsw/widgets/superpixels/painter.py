"""Mending superpixels with the brush: merge, split, take out, undo."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from napari.layers import Labels
from numpy.typing import NDArray
from scipy import ndimage

from napari_gsw.core.sites.scribbles import apply_scribble
from napari_gsw.widgets.common.undo import UndoStack
from napari_gsw.widgets.layers.brush import Brush
from napari_gsw.widgets.layers.image_source import ImageSource

Box = tuple[slice, ...]


class PaintStep:
    """A stroke on superpixels, as a step that can be undone.

    Attributes
    ----------
    owner : the painter. box, before, after : where, and what was and is there.
    """

    keeps_chains = False
    is_obsolete = False

    def __init__(self, owner: SitePainter, box: Box, before: NDArray[Any], after: NDArray[Any]) -> None:
        self.owner, self.box, self.before, self.after = owner, box, before, after

    def undo(self) -> None:
        self.owner.put(self.box, self.before)

    def redo(self) -> None:
        self.owner.put(self.box, self.after)


class SitePainter:
    """Makes every stroke on a layer of superpixels leave superpixels behind.

    Only the boxes around the sites that a stroke touches are looked at, so that it is quick on a large image.

    Attributes
    ----------
    layer : the superpixels.
    source : the image they belong to.
    steps : what can be undone.
    """

    def __init__(
        self, layer: Labels, source: ImageSource, boxes: dict[int, Box], changed: Callable[[], None], steps: UndoStack
    ) -> None:
        self.layer, self.source, self.steps = layer, source, steps
        self._boxes = boxes
        self._changed = changed
        self._before = np.array(layer.data)
        self._brush = Brush(layer, self._painted, self._replaced, steps.undo, steps.redo)

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
        after = apply_scribble(before, data[box].astype(np.int32), along)
        fresh = np.setdiff1d(after, np.concatenate((before.ravel(), data[box].ravel())))
        for i, number in enumerate(fresh.tolist()):
            after[after == number] = most + 1 + i
        step = PaintStep(self, box, before.astype(data.dtype), after.astype(data.dtype))
        self.steps.push(step)
        step.redo()

    def put(self, box: Box, values: NDArray[Any]) -> None:
        """Write sites into a box of the layer."""
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
        self.steps.forget(self)
        self._changed()

    def detach(self) -> None:
        self._brush.detach()
        self.steps.forget(self)


def _around(points: NDArray[np.integer]) -> Box:
    low, high = points.min(axis=0), points.max(axis=0) + 1
    return tuple(slice(int(a), int(b)) for a, b in zip(low, high, strict=True))


def _union(boxes: list[Box]) -> Box:
    axes = range(len(boxes[0]))
    return tuple(slice(min(b[a].start for b in boxes), max(b[a].stop for b in boxes)) for a in axes)
