"""A Labels layer whose outlines are drawn in a moment, however large it is."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from napari.layers import Labels as NapariLabels
from napari.utils.color import transform_color
from napari.utils.colormaps import CyclicLabelColormap
from numpy.typing import NDArray

from napari_gsw.core.sites.outlines import outlines

# Pixels on the screen at once above which napari takes too long for outlines: 0.07 s for a million.
MANY = 1 << 16
# How thick outlines of regions, locks and questions are, in pixels.
THICK = 2


@dataclass(eq=False)
class Outlined:
    """Outlines (h, w) of a label image, which were made where nobody waits for them.

    Attributes
    ----------
    thickness : theirs, in pixels.
    fresh : whether nobody has painted on them since: napari writes to what it shows.
    """

    outlines: NDArray[Any]
    thickness: int
    fresh: bool = True


def outlined(labels: Any) -> Outlined | None:
    """The outlines of a label image that is so large that the window would stand still for them; of another None."""
    large = isinstance(labels, np.ndarray) and labels.ndim == 2 and labels.size > MANY
    return Outlined(outlines(labels, THICK), THICK) if large else None


class Labels(NapariLabels):  # type: ignore[misc]
    """As napari's, under the same name: that is what napari chooses icons and writers by.

    Parameters
    ----------
    contour : thickness of its outlines, 0 if it is filled: known from the start, so that nothing is drawn twice.
    """

    def __init__(self, data: Any, *, contour: int = 0, outlined: Outlined | None = None, **look: Any) -> None:
        # Outlines of what is being written to the layer at this moment, and those that napari shows.
        self._ready, self._shown = outlined, outlined
        super().__init__(data, **look)
        self._contour = contour

    @contextmanager
    def showing(self, outlined: Outlined | None) -> Iterator[None]:
        """Within this the layer is given a picture whose outlines are known; for all later ones they are made."""
        self._ready = outlined
        try:
            yield
        finally:
            self._ready = None

    def renew_thumbnail(self) -> None:
        """Draw the small picture in the list of layers again, and nothing else."""
        if self.visible:
            self._update_thumbnail()

    def _calculate_contour(self, labels: Any, data_slice: Any) -> Any:
        """The outlines of a picture that is sliced anew; of a part of it, and of a small one, napari makes them."""
        at_once = all(s.stop - s.start == n for s, n in zip(data_slice, labels.shape, strict=True))
        if not at_once and self._shown is not None:
            self._shown.fresh = False
        ours = (
            self.contour >= 1
            and isinstance(labels, np.ndarray)
            and labels.ndim == 2
            and labels.size > MANY
            and labels.dtype.kind in "ui"
            and self.colormap.background_value == 0
            and at_once
        )
        if not ours:
            return super()._calculate_contour(labels, data_slice)
        ready = self._ready
        if ready is None or not ready.fresh or ready.thickness != self.contour or ready.outlines.shape != labels.shape:
            self._shown = None
            return outlines(labels, int(self.contour))
        self._shown = ready
        return ready.outlines


def add_labels(viewer: Any, data: Any, outlined: Outlined | None = None, **look: Any) -> Labels:
    """As ``viewer.add_labels``; `outlined` are the outlines of the data, if they are known."""
    layer = Labels(data, outlined=outlined, **look)
    with layer.showing(outlined):
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
