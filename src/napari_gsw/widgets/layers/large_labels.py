"""A Labels layer whose outlines are drawn in a moment, however large it is."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from napari.layers import Labels as NapariLabels
from napari.utils.color import transform_color
from napari.utils.colormaps import CyclicLabelColormap
from numpy.typing import NDArray

from napari_gsw.core.sites.outlines import outlines, outlines_after

# Pixels on the screen at once above which napari takes too long for outlines: 0.07 s for a million.
MANY = 1 << 16
# How thick outlines of regions, locks and questions are, in pixels.
THICK = 2


class Outlined(NamedTuple):
    """A label image (h, w) with its outlines, which may have been made where nobody waits for them."""

    labels: NDArray[Any]
    outlines: NDArray[Any]
    thickness: int

    def of(self, labels: NDArray[Any], thickness: int) -> NDArray[Any]:
        """The outlines of a label image, which are made anew where it differs from this one."""
        if thickness != self.thickness or labels.dtype != self.labels.dtype or labels.shape != self.labels.shape:
            return outlines(labels, thickness)
        return outlines_after(labels, thickness, self.labels, self.outlines)


def outlined(labels: Any) -> Outlined | None:
    """The outlines of a label image that is so large that the window would stand still for them; of another None."""
    large = isinstance(labels, np.ndarray) and labels.ndim == 2 and labels.size > MANY
    return Outlined(labels, outlines(labels, THICK), THICK) if large else None


class Labels(NapariLabels):  # type: ignore[misc]
    """As napari's, under the same name: that is what napari chooses icons and writers by.

    Parameters
    ----------
    contour : thickness of its outlines, 0 if it is filled: known from the start, nothing is drawn twice.
    outlined : outlines of what it will show, or None. They may be exchanged at any time.
    """

    def __init__(self, data: Any, *, contour: int = 0, outlined: Outlined | None = None, **look: Any) -> None:
        self.outlined = outlined
        super().__init__(data, **look)
        self._contour = contour

    def _calculate_contour(self, labels: Any, data_slice: Any) -> Any:
        """The outlines of a picture that is sliced anew; of a part of it, and of a small one, napari makes them."""
        ours = (
            self.contour >= 1
            and isinstance(labels, np.ndarray)
            and labels.ndim == 2
            and labels.size > MANY
            and labels.dtype.kind in "ui"
            and self.colormap.background_value == 0
            and all(s.stop - s.start == n for s, n in zip(data_slice, labels.shape, strict=True))
        )
        if not ours:
            return super()._calculate_contour(labels, data_slice)
        thickness = int(self.contour)
        ready = self.outlined
        drawn = outlines(labels, thickness) if ready is None else ready.of(labels, thickness)
        if ready is None or drawn is not ready.outlines:
            self.outlined = Outlined(labels.copy(), drawn, thickness)  # the layer's own array changes in place
        return drawn.copy()  # which napari writes to as somebody paints


def add_labels(viewer: Any, data: Any, **look: Any) -> Labels:
    """As ``viewer.add_labels``."""
    layer = Labels(data, **look)
    viewer.add_layer(layer)
    return layer


def inks(*colours: str) -> CyclicLabelColormap:
    """Colours of the labels 1, 2, ... by their names, which come round again; 0 is not drawn.

    The same as a dictionary makes napari compile for a second or two before the first picture.
    """
    return CyclicLabelColormap(colors=np.vstack((np.zeros((1, 4)), *map(transform_color, colours))))


def compile_outlines(pixels: int) -> None:
    """What the first picture of so many pixels would else wait for, where it would."""
    if pixels > MANY:
        for kind in (np.uint16, np.int32):
            outlines(np.zeros((2, 2), kind), 1)
