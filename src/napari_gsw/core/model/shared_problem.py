"""Several images as one problem: their sites side by side, their clusters shared.

A partition of the sites of all images says of any two sites, of the same image or of two, whether they share a cluster.
The likelihood of a cluster is that of all its sites, so that what is learnt in one image counts in the others. The
sampler knows nothing of it: it is a problem as any other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from napari_gsw.core.arrays import Ints, Mask, Sites
from napari_gsw.core.image.several import one_each
from napari_gsw.core.model.problem import Problem
from napari_gsw.core.sites.per_site import site_labels


@dataclass(frozen=True, eq=False)
class SharedProblem(Problem):
    """A problem whose sites are those of several images.

    Attributes
    ----------
    site_images : of each image (\\*shape,) its sites, numbered on from image to image; 0 where there is none.
    signals : of each image (\\*shape,) how far pixels stand out from the background, if that is what was looked at.
    """

    site_images: tuple[Sites, ...] = ()
    signals: tuple[NDArray[np.float32], ...] | None = None

    def paint(self, values: ArrayLike, background: float = 0) -> list[NDArray[np.generic]]:  # type: ignore[override]
        """One value for each site -> an image for each image, with `background` where there is no site."""
        return [self.of_image(k).paint(values, background) for k in range(len(self.site_images))]

    def labels_under(self, image: Any, name: str) -> Ints:
        """(n,) as of one image, from a list of label images; None where an image has none."""
        labels = np.full(self.n, -1, np.int32)
        given = one_each(image, len(self.site_images), name)
        for sites, one in zip(self.site_images, given, strict=True):
            if one is not None:
                labels = np.maximum(labels, site_labels(sites, self.n, one, name))
        return labels

    def within(self, number: int) -> Mask:
        """(n,) which sites are those of an image."""
        before = max((int(sites.max()) for sites in self.site_images[:number]), default=0)
        numbers = np.arange(1, self.n + 1)
        return (numbers > before) & (numbers <= int(self.site_images[number].max()))

    def of_image(self, number: int) -> Problem:
        """The same problem, seen in one of its images: all n sites, of which only its own are painted."""
        signal = None if self.signals is None else self.signals[number]
        return self._seen_in(self.site_images[number], signal)

    def stacked(self, places: Sequence[int] | None = None, depth: int | None = None) -> Problem:
        """The same problem with its images as slices of one array, which is as large as the largest.

        Parameters
        ----------
        places : of each image its slice; None for all slices in turn.
        depth : number of slices; where no image is, there is no site.
        """
        where = list(range(len(self.site_images)) if places is None else places)
        largest = np.max([sites.shape for sites in self.site_images], axis=0)
        shape = (len(where) if depth is None else depth, *largest.tolist())
        sites, signal = np.zeros(shape, np.int32), None
        if self.signals is not None:
            signal = np.zeros(shape, np.float32)
        for k, place in enumerate(where):
            inside = tuple(slice(n) for n in self.site_images[k].shape)
            sites[place][inside] = self.site_images[k]
            if signal is not None and self.signals is not None:
                signal[place][inside] = self.signals[k]
        return self._seen_in(sites, signal)

    def _seen_in(self, sites: Sites, signal: NDArray[np.float32] | None) -> Problem:
        shared = {f.name: getattr(self, f.name) for f in fields(Problem)}
        return self.lend(Problem(**(shared | {"sites": sites, "signal": signal})))


def numbered_on(sites: Sequence[Sites]) -> tuple[Sites, ...]:
    """Sites of several images, 1.. in each, numbered on from one image to the next; 0 stays 0.

    >>> [s.tolist() for s in numbered_on([np.array([1, 2, 0]), np.array([0, 1, 1])])]
    [[1, 2, 0], [0, 3, 3]]
    """
    before = np.concatenate(([0], np.cumsum([int(s.max()) for s in sites])))
    return tuple(np.where(s > 0, s + np.int32(b), 0).astype(np.int32) for s, b in zip(sites, before, strict=False))
