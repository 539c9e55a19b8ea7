"""A Labels layer whose outlines are drawn in a moment, however large it is."""

from __future__ import annotations

from typing import Any

import numpy as np
from napari.layers import Labels as NapariLabels
from napari.utils.color import transform_color
from napari.utils.colormaps import CyclicLabelColormap

from napari_gsw.core.sites.outlines import outlines

# Pixels on the screen at once above which napari takes too long for outlines: 0.07 s for a million.
MANY = 1 << 16


class Labels(NapariLabels):  # type: ignore[misc]
    """As napari's, under the same name: that is what napari chooses icons and writers by."""

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
        return outlines(labels, int(self.contour)) if ours else super()._calculate_contour(labels, data_slice)


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
