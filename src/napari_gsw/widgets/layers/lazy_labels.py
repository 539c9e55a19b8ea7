"""Labels layers that stay responsive however large they are.

Outlines of a large array are computed here, 2 ms for a million pixels. A segmentation that does not fit into memory is
a value for each superpixel: only the part and the level that are displayed are computed, when napari asks for them.
napari asks for the coarsest level of two axes once and keeps the array; so that one is computed as a whole, and
written over with every new state.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from napari.layers import Labels as NapariLabels
from napari.utils.color import transform_color
from napari.utils.colormaps import CyclicLabelColormap
from numpy.typing import NDArray

from napari_gsw.core.sites.blocked_labels import BlockedLabels

# Displayed pixels above which napari is too slow at outlines: 0.07 s for a million.
MANY = 1 << 16
# Width in pixels of the outlines of regions, locks and questions.
THICK = 2
# Largest length of an axis of the coarsest level.
COARSEST = 1024
# Rows of outlines that are drawn at a time: they stay in the cache.
ROWS = 64


def _is_large(labels: Any) -> bool:
    return isinstance(labels, np.ndarray) and labels.ndim == 2 and labels.size > MANY


class Labels(NapariLabels):  # type: ignore[misc]
    """Labels layer with fast outlines, under napari's name, by which napari chooses icons and writers.

    The width of the outlines is known from the start, so that nothing is drawn twice.
    """

    def __init__(self, data: Any, *, contour: int = 0, **look: Any) -> None:
        super().__init__(data, **look)
        self._contour = contour

    def update_thumbnail(self) -> None:
        if self.visible:
            self._update_thumbnail()

    def _calculate_contour(self, labels: Any, data_slice: Any) -> Any:
        """Return the outlines of a whole slice; napari computes those of a part and of a small one."""
        is_whole = all(s.stop - s.start == n for s, n in zip(data_slice, labels.shape, strict=True))
        is_plain = _is_large(labels) and labels.dtype.kind in "ui" and self.colormap.background_value == 0
        if is_whole and is_plain and self.contour >= 1:
            return draw_outlines(labels, int(self.contour))
        return super()._calculate_contour(labels, data_slice)


def add_labels(viewer: Any, data: Any, select: bool = True, **look: Any) -> Labels:
    """Add a Labels layer to a viewer, and select it or leave the selection as it is."""
    active = viewer.layers.selection.active
    layer = Labels(data, **look)
    viewer.add_layer(layer)
    if not select and active is not None:
        viewer.layers.selection.active = active
    return layer


def make_colormap(*colours: str) -> CyclicLabelColormap:
    """Make a colormap of the labels 1, 2, ... from names of colours, which repeat; 0 is transparent.

    For a dictionary of the same colours, napari compiles for a second or two before the first image.
    """
    return CyclicLabelColormap(colors=np.vstack((np.zeros((1, 4)), *map(transform_color, colours))))


class LazySiteImage:
    """Image of one value for each superpixel, read like an array.

    It has `lead` axes of length 1 before those of the superpixels. If it is `kept`, the array of the whole image is
    always the same one and shows every new state.
    """

    def __init__(self, sites: BlockedLabels, values: NDArray[Any], lead: int = 0, kept: bool = False) -> None:
        self.sites, self.lead, self.kept = sites, lead, kept
        self._values = values
        # Superpixels and values of the whole image, once it has been read.
        self._site_image: NDArray[np.int32] | None = None
        self._image: NDArray[Any] | None = None
        self.shape = (1,) * lead + sites.shape
        self.chunks = ((1,),) * lead + sites.grid.chunks
        self.ndim, self.size, self.dtype = lead + sites.ndim, sites.size, values.dtype

    @property
    def values(self) -> NDArray[Any]:
        """Value of each superpixel (n + 1,), entry 0 for other pixels; may be set at any time to others of its type."""
        return self._values

    @values.setter
    def values(self, values: NDArray[Any]) -> None:
        if values.dtype != self.dtype:
            raise ValueError(f"values of type {self.dtype} cannot become {values.dtype}; make another image")
        self._values = values
        if self._image is not None and self._site_image is not None:
            np.take(values, self._site_image, out=self._image, mode="clip")

    def __getitem__(self, key: Any) -> NDArray[Any]:
        index = list(key) if isinstance(key, tuple) else [key]
        at = index.index(Ellipsis) if Ellipsis in index else len(index)
        index[at : at + 1] = [slice(None)] * (self.ndim - len(index) + (at < len(index)))
        image = self.values[self.sites[tuple(index[self.lead :])]]
        for axis in reversed(index[: self.lead]):
            if isinstance(axis, slice):
                image = image[np.newaxis][axis]
        return np.asarray(image)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        if not self.kept:
            return np.asarray(self[...], dtype=dtype)
        if self._image is None:
            self._site_image = np.asarray(self.sites[...]).reshape(self.shape)
            self._image = np.empty(self.shape, self.dtype)
            self.values = self._values  # the newest, which any thread may have set
        view = self._image.view()
        view.setflags(write=False)
        array = np.asarray(view, dtype=dtype)
        return array.copy() if copy else array

    def any(self) -> bool:
        return bool(self.values[1:].any())

    def count(self) -> int:
        return int(np.count_nonzero(np.unique(self.values[1:])))


def make_image_levels(image: LazySiteImage, levels: list[BlockedLabels], lead: int) -> list[LazySiteImage]:
    """Make the levels of an image for a multiscale layer."""
    return [LazySiteImage(level, image.values, lead, kept=level is levels[-1]) for level in levels]


def make_site_levels(sites: BlockedLabels) -> list[BlockedLabels]:
    """Make levels of every second pixel of the one before; two at least, since napari takes one for an array."""
    levels = [sites]
    while len(levels) < 2 or max(levels[-1].shape) > COARSEST:
        levels.append(levels[-1].coarser(2))
    return levels


def draw_outlines(labels: NDArray[np.integer], thickness: int) -> NDArray[np.integer]:
    """Keep each label (h, w) at its boundaries with other labels, and set all other pixels to 0.

    A pixel is kept where the largest label among it and its four neighbours differs from the smallest label among the
    pixels within `thickness` steps along the axes. This is the rule of napari: the smaller label has the thin side.
    """
    height, width = labels.shape
    out = np.empty_like(labels)
    for first in range(0, height, ROWS):
        last = min(first + ROWS, height)
        low, high = labels[first:last].copy(), labels[first:last].copy()
        for dy in range(-thickness, thickness + 1):
            reach = min(thickness - abs(dy), width - 1)
            top, bottom = max(first, -dy), min(last, height - dy)
            if top >= bottom:
                continue
            for dx in range(-reach, reach + 1):
                here = np.s_[top - first : bottom - first, max(0, -dx) : width - max(0, dx)]
                there = labels[top + dy : bottom + dy, max(0, dx) : width - max(0, -dx)]
                np.minimum(low[here], there, out=low[here])
                if abs(dy) + abs(dx) <= 1:
                    np.maximum(high[here], there, out=high[here])
        out[first:last] = np.where(high != low, labels[first:last], 0)
    return out
