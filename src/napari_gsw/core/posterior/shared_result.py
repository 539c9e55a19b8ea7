"""What a segmentation of several images with shared clusters gives back: a result for each, and what they share."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from napari_gsw.core.arrays import LabelImage
from napari_gsw.core.model.shared_problem import SharedProblem
from napari_gsw.core.posterior.result import Findings, Result, result
from napari_gsw.core.posterior.summary import Summary


@dataclass(frozen=True, eq=False, repr=False)
class SharedResult(Findings):
    """A segmentation of several images: a number means the same cluster in all of them.

    With the view ``regions`` each part of a cluster has a number of its own, in one image (or across linked ones), and
    objects are numbered from 1 in each image. ``result[k]`` is the result of an image, and what
    :class:`~napari_gsw.core.posterior.result.Findings` offers is here that of all images together.

    Attributes
    ----------
    images : the result of each image.
    """

    images: tuple[Result, ...]

    @property
    def labels(self) -> list[LabelImage]:
        """Label image of each image, see :class:`~napari_gsw.core.posterior.result.Result`."""
        return [one.labels for one in self.images]

    @property
    def uncertainty(self) -> list[NDArray[np.float32]]:
        """Of each image, how unsure the model is of each site, in bits."""
        return [one.uncertainty for one in self.images]

    @property
    def boundary(self) -> list[NDArray[np.float32]]:
        """Of each image, the probability that a boundary runs through a pixel."""
        return [one.boundary for one in self.images]

    @property
    def n_regions(self) -> int:
        """Regions in all images, or objects if that is the view."""
        return sum(one.n_regions for one in self.images) if self.objects else super().n_regions

    def __getitem__(self, number: int) -> Result:
        return self.images[number]

    def __iter__(self) -> Iterator[Result]:
        return iter(self.images)

    def __len__(self) -> int:
        return len(self.images)

    def __repr__(self) -> str:
        return self._described(f"{len(self)} images")


def shared_result(
    problem: SharedProblem, summary: Summary, provenance: Mapping[str, Any], run: Any = None
) -> SharedResult:
    """Paint what a summary of a shared problem says of the sites, image by image; `run` is all of the run."""
    images = tuple(
        result(summary.seen_in(problem.of_image(k), problem.within(k)), {**provenance, "shown": k})
        for k in range(len(problem.site_images))
    )
    first = images[0]
    regions = np.max([one.regions for one in images], axis=0) if first.objects else first.regions
    return SharedResult(first.clusters, regions, first.traces, provenance, summary, images, run=run)
