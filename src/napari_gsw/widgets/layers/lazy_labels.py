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

from napari_gsw.core.sites.blocked_labels import BlockedLabels
from napari_gsw.core.sites.outlines import draw_outlines

# Pixels on the screen at once above which napari takes too long for outlines: 0.07 s for a million.
MANY = 1 << 16
# How thick outlines of regions, locks and questions are, in pixels.
THICK = 2


@dataclass(eq=False)
class OutlinedLabels:
    """Outlines (h, w) of a label image, which were made where nobody waits for them.

    Attributes
    ----------
    thickness : theirs, in pixels.
    fresh : whether nobody has painted on them since: napari writes to what it shows.
    """

    outlines: NDArray[Any]
    thickness: int
    fresh: bool = True


def outline_if_large(labels: Any) -> OutlinedLabels | None:
    """The outlines of a label image that is so large that the window would stand still for them; of another None."""
    large = isinstance(labels, np.ndarray) and labels.ndim == 2 and labels.size > MANY
    return OutlinedLabels(draw_outlines(labels, THICK), THICK) if large else None


class Labels(NapariLabels):  # type: ignore[misc]
    """As napari's, under the same name: that is what napari chooses icons and writers by.

    Parameters
    ----------
    contour : thickness of its outlines, 0 if it is filled: known from the start, so that nothing is drawn twice.
    """

    def __init__(self, data: Any, *, contour: int = 0, outlined: OutlinedLabels | None = None, **look: Any) -> None:
        # Outlines of what is being written to the layer at this moment, and those that napari shows.
        self._ready, self._shown = outlined, outlined
        super().__init__(data, **look)
        self._contour = contour

    @contextmanager
    def showing(self, outlined: OutlinedLabels | None) -> Iterator[None]:
        """Within this the layer is given a picture whose outlines are known; for all later ones they are made."""
        self._ready = outlined
        try:
            yield
        finally:
            self._ready = None

    def update_thumbnail(self) -> None:
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
            return draw_outlines(labels, int(self.contour))
        self._shown = ready
        return ready.outlines


def add_labels(viewer: Any, data: Any, outlined: OutlinedLabels | None = None, **look: Any) -> Labels:
    """As ``viewer.add_labels``; `outlined` are the outlines of the data, if they are known."""
    layer = Labels(data, outlined=outlined, **look)
    with layer.showing(outlined):
        viewer.add_layer(layer)
    return layer


def make_colormap(*colours: str) -> CyclicLabelColormap:
    """Colours of the labels 1, 2, ... by their names, which come round again; 0 is not drawn.

    The same as a dictionary makes napari compile for a second or two before the first picture.
    """
    return CyclicLabelColormap(colors=np.vstack((np.zeros((1, 4)), *map(transform_color, colours))))


def compile_outlines(pixels: int) -> None:
    """What the first picture of so many pixels would else wait for, where it would."""
    if pixels > MANY:
        for kind in (np.uint16, np.int32):
            draw_outlines(np.zeros((2, 2), kind), 1)


# The coarsest level has at most so many pixels along each axis.
COARSEST = 1024


class LazySiteImage:
    """An image of one value for each site, read like an array.

    Attributes
    ----------
    sites : the sites of this level.
    values : (n + 1,) value of each site; entry 0 for pixels without one. It may be exchanged at any time for one of the
        same type.
    lead : axes of length 1 before those of the sites, as the layer has them.
    kept : whether the array that it is taken for as a whole is always the same one, and shows every new state.
    """

    def __init__(self, sites: BlockedLabels, values: NDArray[Any], lead: int = 0, kept: bool = False) -> None:
        self.sites, self.lead, self.kept = sites, lead, kept
        self._values = values
        self._numbers: NDArray[np.int32] | None = None  # the sites, and their picture, once it has been asked for
        self._picture: NDArray[Any] | None = None

    @property
    def values(self) -> NDArray[Any]:
        return self._values

    @values.setter
    def values(self, values: NDArray[Any]) -> None:
        if values.dtype != self._values.dtype:
            raise ValueError(f"values of type {self._values.dtype} cannot become {values.dtype}; make another picture")
        self._values = values
        if self._picture is not None and self._numbers is not None:
            np.take(values, self._numbers, out=self._picture, mode="clip")

    @property
    def shape(self) -> tuple[int, ...]:
        return (1,) * self.lead + self.sites.shape

    @property
    def ndim(self) -> int:
        return self.lead + self.sites.ndim

    @property
    def size(self) -> int:
        return self.sites.size

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.values.dtype

    @property
    def chunks(self) -> tuple[tuple[int, ...], ...]:
        return ((1,),) * self.lead + self.sites.grid.chunks

    def __getitem__(self, key: Any) -> NDArray[Any]:
        given = list(key) if isinstance(key, tuple) else [key]
        if Ellipsis in given:
            at = given.index(Ellipsis)
            given[at : at + 1] = [slice(None)] * (self.ndim - len(given) + 1)
        given += [slice(None)] * (self.ndim - len(given))
        inner = self.values[self.sites[tuple(given[self.lead :])]]
        for axis in reversed(given[: self.lead]):
            if isinstance(axis, slice):
                inner = inner[np.newaxis][axis]
        return np.asarray(inner)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        if not self.kept:
            return np.asarray(self[...], dtype=dtype)
        if self._picture is None:
            self._numbers = np.asarray(self.sites[...]).reshape(self.shape)
            self._picture = np.empty(self.shape, self.dtype)
            self.values = self._values  # the newest, in whatever thread it was exchanged
        view = self._picture.view()
        view.setflags(write=False)
        array = np.asarray(view, dtype=dtype)
        return array.copy() if copy else array

    def any(self) -> bool:
        """Whether a site has a value other than 0."""
        return bool(self.values[1:].any())

    def count(self) -> int:
        """How many different values other than 0 there are."""
        return int(np.count_nonzero(np.unique(self.values[1:])))


def make_image_levels(image: LazySiteImage, levels: list[BlockedLabels], lead: int) -> list[LazySiteImage]:
    """The image at every level, as a multiscale layer takes it."""
    return [LazySiteImage(level, image.values, lead, kept=level is levels[-1]) for level in levels]


def make_site_levels(sites: BlockedLabels) -> list[BlockedLabels]:
    """The sites, then every second pixel of them, and so on; two at least, since napari takes one for an array."""
    levels = [sites]
    while len(levels) < 2 or max(levels[-1].shape) > COARSEST:
        levels.append(levels[-1].coarser(2))
    return levels
