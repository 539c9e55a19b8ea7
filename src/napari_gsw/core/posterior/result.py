"""What a segmentation gives back: labels in every view, how sure the model is of them, and what made them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from napari_gsw.core.array_types import Float64Array, LabelImage
from napari_gsw.core.graph.merge_tree import MergeTree
from napari_gsw.core.model.problem import Problem, SharedProblem
from napari_gsw.core.posterior.consensus import Consensus, CredibleBall, Loss
from napari_gsw.core.posterior.diagnostics import Diagnosis
from napari_gsw.core.posterior.label_table import Columns, measure_labels
from napari_gsw.core.posterior.summary import Summary
from napari_gsw.core.posterior.uncertainty import compute_site_entropy, make_boundary_image
from napari_gsw.core.sampler.snapshot import Snapshot


class Trace(NamedTuple):
    """One row a sweep: its number, and after it log posterior, number of clusters and entropy of their sizes."""

    sweep: NDArray[np.int64]
    log_posterior: Float64Array
    n_clusters: NDArray[np.int64]
    entropy: Float64Array


@dataclass(frozen=True, eq=False)
class ResultBase:
    """What a run says about the sites, and what made it; the part of a result that needs no image.

    Attributes
    ----------
    clusters : (n,) cluster of each site.
    regions : (n,) region of each site; of objects, the one that most of its pixels belong to, 0 for the background.
    traces : log posterior, number of clusters and entropy of their sizes after each sweep, one trace a chain; ``trace``
        is the first.
    provenance : settings, seed, versions and image hash, ready for JSON.
    summary : what the chains have to say together; most of it is offered here too.
    run : all of the run, to be saved or gone on with (:class:`napari_gsw.core.pipeline.saved_run.SavedRun`), or None.
    """

    clusters: NDArray[np.int64]
    regions: NDArray[np.int64]
    traces: tuple[Trace, ...]
    provenance: Mapping[str, Any]
    summary: Summary
    run: Any = field(default=None, kw_only=True)

    @property
    def problem(self) -> Problem:
        """What was sampled."""
        return self.summary.problem

    @property
    def snapshot(self) -> Snapshot:
        """The last state of the first chain, from which it can go on, with the best state of all chains."""
        return self.summary.snapshot

    @property
    def trace(self) -> Trace:
        """That of the first chain."""
        return self.traces[0]

    @property
    def n_sites(self) -> int:
        """Sites of the image, or of all images."""
        return self.problem.n if self.summary.image_sites is None else int(self.summary.image_sites.sum())

    @property
    def n_clusters(self) -> int:
        """Clusters of the partition on the screen; the best state has a number of its own."""
        return len(np.unique(self._here(self.clusters)))

    @property
    def n_regions(self) -> int:
        """Regions of the partition on the screen, or objects if that is the view."""
        return len(np.unique(self._here(self.regions)))

    def _here(self, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        """Numbers (n,) of the sites that are looked at: all, or those of one of several images."""
        image_sites = self.summary.image_sites
        return numbers if image_sites is None else numbers[image_sites]

    @property
    def objects(self) -> bool:
        """Whether labels are objects on a background."""
        return self.summary.settings.view == "objects"

    @property
    def remark(self) -> str:
        """What there is to say beside the labels: that there is no object, if objects were looked for; or nothing."""
        return "no object stands out from the background" if self.objects and self.n_regions == 0 else ""

    @property
    def draws(self) -> NDArray[np.int32]:
        """(d, n) partitions seen after the burn-in, of all chains."""
        return self.summary.draws

    @property
    def hierarchy(self) -> MergeTree:
        """Segmentations of every fineness, by how strong boundaries are; a height is a probability."""
        return self.summary.hierarchy

    @property
    def diagnosis(self) -> Diagnosis:
        """Whether the chains agree, with a sentence for a person."""
        return self.summary.diagnosis

    def consensus(self, loss: Loss = "vi") -> Consensus:
        """The partition of least expected loss, see :func:`napari_gsw.core.posterior.consensus.find_consensus`."""
        return self.summary.consensus(loss)

    def credible_ball(self, level: float = 0.95, loss: Loss = "vi") -> CredibleBall:
        """The draws nearest to this result; ``problem.paint(draws[ball.farthest])`` shows one of them."""
        return self.summary.ball(level, loss)

    def _described(self, what: str) -> str:
        parts = f"{self.n_regions} {'objects' if self.objects else 'regions'}"
        best = self.snapshot.best
        return (
            f"<{type(self).__name__} {what}: {self.n_clusters} clusters, {parts} of {self.n_sites:,} sites; "
            f"best state {best.log_posterior:,.1f} with {best.n_clusters} clusters>"
        )


@dataclass(frozen=True, eq=False, repr=False)
class Result(ResultBase):
    """A segmentation and what made it; see also :class:`Findings`.

    Attributes
    ----------
    labels : label image of the view that ``settings.view`` asks for: clusters, regions, or objects. Numbers 1..k in the
        order of the first pixel (what holds a seed keeps the seed's number), 0 where there is no site, or no object;
        uint16, or uint32 if the numbers need it.
    uncertainty : image of how unsure the model is of each site, in bits (0 sure, 1 a coin toss); NaN if the chain
        ended before its burn-in was over.
    boundary : image of the probability that a boundary runs through a pixel.
    """

    labels: LabelImage
    uncertainty: NDArray[np.float32]
    boundary: NDArray[np.float32]

    @property
    def n_regions(self) -> int:
        return self.summary.n_objects if self.objects else super().n_regions

    @cached_property
    def contour(self) -> NDArray[np.float32]:
        """Image of the ultrametric contour map: cut at any height, what is above it are closed boundaries."""
        height = np.minimum(self.hierarchy.contour(self.problem.edges), 1.0)
        return make_boundary_image(self.problem, 1 - height)

    def table(
        self,
        image: Any = None,
        axes: str = "auto",
        *,
        scale: Sequence[float] | None = None,
        unit: str = "",
        names: Sequence[str] = (),
    ) -> Columns:
        """One row for each label of ``labels``: see :func:`napari_gsw.core.posterior.label_table.measure_labels`.

        ``pandas.DataFrame(result.table(image))`` is a table that is easy to read.
        """
        return measure_labels(self.labels, image, axes, self.summary, scale=scale, unit=unit, names=names)

    def __repr__(self) -> str:
        return self._described(str(self.labels.shape))


def make_result(summary: Summary, provenance: Mapping[str, Any], run: Any = None) -> Result:
    """Paint what a summary says of the sites; `run` is all of the run, if it is known."""
    problem, snapshot, shown = summary.problem, summary.snapshot, summary.labels
    dtype = np.uint16 if summary.largest <= np.iinfo(np.uint16).max else np.uint32
    by_pixel = summary.settings.view == "objects" or summary.edits is not None
    unsure = problem.paint(compute_site_entropy(problem, snapshot.together).astype(np.float32))
    return Result(
        labels=shown.astype(dtype),
        clusters=summary.clusters,
        regions=problem.majority_under(shown) if by_pixel else summary.regions,
        traces=tuple(make_trace(rows, snapshot.sweep) for rows in summary.traces),
        uncertainty=unsure,  # type: ignore[arg-type]
        boundary=make_boundary_image(problem, snapshot.together),
        provenance=provenance,
        summary=summary,
        run=run,
    )


def make_trace(rows: Float64Array, last: int) -> Trace:
    """Rows (sweeps, 3) of a chain's trace up to sweep `last`, as columns."""
    return Trace(np.arange(last - len(rows), last) + 1, rows[:, 0], rows[:, 1].astype(np.int64), rows[:, 2])


class MethodResult(NamedTuple):
    """The segmentation of any method.

    Attributes
    ----------
    labels : label image of the picture's shape.
    provenance : what made it, ready for JSON.
    result : trace, uncertainty and all the rest, of the methods that sample; otherwise None.
    """

    labels: LabelImage
    provenance: Mapping[str, Any]
    result: Result | None


@dataclass(frozen=True, eq=False, repr=False)
class SharedResult(ResultBase):
    """A segmentation of several images: a number means the same cluster in all of them.

    With the view ``regions`` each part of a cluster has a number of its own, in one image (or across linked ones), and
    objects are numbered from 1 in each image. ``result[k]`` is the result of an image, and what
    :class:`~napari_gsw.core.posterior.result.ResultBase` offers is here that of all images together.

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


def make_shared_result(
    problem: SharedProblem, summary: Summary, provenance: Mapping[str, Any], run: Any = None
) -> SharedResult:
    """Paint what a summary of a shared problem says of the sites, image by image; `run` is all of the run."""
    images = tuple(
        make_result(summary.view_image(problem.view_image(k), problem.sites_in_image(k)), {**provenance, "shown": k})
        for k in range(len(problem.site_images))
    )
    first = images[0]
    regions = np.max([one.regions for one in images], axis=0) if first.objects else first.regions
    return SharedResult(first.clusters, regions, first.traces, provenance, summary, images, run=run)
