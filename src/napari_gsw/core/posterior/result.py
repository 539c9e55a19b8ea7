"""Results of segmentations: labels, uncertainty and provenance, of one image or several."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from napari_gsw.core.array_types import Float64Array, LabelImage
from napari_gsw.core.features.site_features import ImageFeatures
from napari_gsw.core.graph.boundary_model import BoundaryModel, load_boundary_model
from napari_gsw.core.graph.merge_tree import MergeTree
from napari_gsw.core.image.normalized_image import fill_outside_mask, normalize_image
from napari_gsw.core.model.problem import Problem, SharedProblem
from napari_gsw.core.posterior.consensus import Consensus, CredibleBall, Loss
from napari_gsw.core.posterior.diagnostics import Diagnosis
from napari_gsw.core.posterior.region_table import Columns, measure_labels
from napari_gsw.core.posterior.regions import boundary_log_odds, compute_site_entropy, make_boundary_image
from napari_gsw.core.posterior.summary import Summary
from napari_gsw.core.sampler.snapshot import Snapshot
from napari_gsw.core.settings import Settings
from napari_gsw.core.special import expit
from napari_gsw.core.versions import FormerName

# The posterior of a simple model of a photograph ranks boundaries well, but is overconfident. A logistic curve over the
# learnt log odds of a boundary and those of the posterior calibrates it. It was fitted by research/paper/quality.py to
# the presets general and photo on training images of the Berkeley data set (100 without a network, 200 with one), with
# log odds from models and networks that had not seen the image. A boundary counts as an annotator's within 0.75 % of
# the image's diagonal. Weights of the calibrated log odds: a constant, the learnt log odds, and those of the posterior.
WITHOUT_NETWORK = 0.272, 0.646, 0.006
WITH_NETWORK = 0.464, 0.691, 0.0


class Trace(NamedTuple):
    """One value for each sweep: its number, log posterior, number of clusters and entropy of their sizes."""

    sweep: NDArray[np.int64]
    log_posterior: Float64Array
    n_clusters: NDArray[np.int64]
    entropy: Float64Array


def make_trace(rows: Float64Array, last: int) -> Trace:
    """Make a trace from the rows (sweeps, 3) of a chain up to sweep `last`."""
    return Trace(np.arange(last - len(rows), last) + 1, rows[:, 0], rows[:, 1].astype(np.int64), rows[:, 2])


@dataclass(frozen=True, eq=False, repr=False)
class ResultBase:
    """The part of a result that needs no image.

    Attributes
    ----------
    clusters : (n,) int64 array
        Cluster of each site.
    regions : (n,) int64 array
        Region of each site, or the object that has most of its pixels, 0 for the background.
    traces : tuple of Trace
        One for each chain.
    provenance : dict
        Settings, seed, versions and image hash, ready for JSON.
    summary : Summary
        Summary of all chains; most of it is offered here too.
    run : SavedRun or None
        The complete run, to save or resume.
    """

    clusters: NDArray[np.int64]
    regions: NDArray[np.int64]
    traces: tuple[Trace, ...]
    provenance: Mapping[str, Any]
    summary: Summary
    run: Any = field(default=None, kw_only=True)

    @property
    def problem(self) -> Problem:
        """The sampled problem."""
        return self.summary.problem

    @property
    def snapshot(self) -> Snapshot:
        """The last state of the first chain, from which it can resume, with the best state of all chains."""
        return self.summary.snapshot

    @property
    def trace(self) -> Trace:
        """Trace of the first chain."""
        return self.traces[0]

    @property
    def n_sites(self) -> int:
        """Number of sites of the image, or of all images."""
        return len(self._select_sites(self.clusters))

    @property
    def n_clusters(self) -> int:
        """Number of clusters of the reported partition; the best state has its own."""
        return len(np.unique(self._select_sites(self.clusters)))

    @property
    def n_regions(self) -> int:
        """Number of regions of the reported partition, or of objects if that is the view."""
        if self.has_background and not self.problem.closed:
            return sum(int(np.count_nonzero(image.label_names)) for image in self._image_summaries())
        return len(np.unique(self._select_sites(self.regions)))

    def _select_sites(self, labels: NDArray[np.int64]) -> NDArray[np.int64]:
        """Select the labels (n,) of the sites of this image, if it is one of several."""
        image_sites = self.summary.image_sites
        return labels if image_sites is None else labels[image_sites]

    def _image_summaries(self) -> list[Summary]:
        return [self.summary]

    @property
    def has_background(self) -> bool:
        """True if labels are objects on a background, which is 0."""
        return self.summary.settings.view == "objects"

    objects = FormerName("has_background")

    @property
    def remark(self) -> str:
        """A remark if objects were looked for and none was found, otherwise empty."""
        is_empty = self.has_background and self.n_regions == 0
        return "no object stands out from the background" if is_empty else ""

    @property
    def draws(self) -> NDArray[np.int32]:
        """(d, n) partitions after the burn-in, of all chains."""
        return self.summary.draws

    @property
    def hierarchy(self) -> MergeTree:
        """Segmentations of every fineness; a height is the probability of a boundary."""
        return self.summary.hierarchy

    @property
    def diagnosis(self) -> Diagnosis:
        """Convergence of the chains."""
        return self.summary.diagnosis

    def consensus(self, loss: Loss = "vi") -> Consensus:
        """Find the partition of least expected loss: see `find_consensus` in core.posterior.consensus."""
        return self.summary.consensus(loss)

    def credible_ball(self, level: float = 0.95, loss: Loss = "vi") -> CredibleBall:
        """Find the draws nearest to this result; ``problem.paint(draws[ball.farthest])`` shows one of them."""
        return self.summary.ball(level, loss)

    def _describe(self, what: str) -> str:
        noun, best = "objects" if self.has_background else "regions", self.snapshot.best
        return (
            f"<{type(self).__name__} {what}: {self.n_clusters} clusters, {self.n_regions} {noun} of {self.n_sites:,} "
            f"sites; best state {best.log_posterior:,.1f} with {best.n_clusters} clusters>"
        )


@dataclass(frozen=True, eq=False, repr=False)
class Result(ResultBase):
    """Result of a segmentation run.

    Attributes
    ----------
    labels : array
        Label image of the view in the settings: clusters, regions or objects. Labels are 1..k in the order of the first
        pixel (what holds a seed keeps its label), and 0 where there is no site or object; uint16, or uint32 if needed.
    uncertainty : float32 array
        Image of the neighbour entropy of each site in bits, from 0 (certain) to 1; NaN before the end of the burn-in.
    boundary : float32 array
        Image of the probability that a boundary runs through a pixel.
    """

    labels: LabelImage
    uncertainty: NDArray[np.float32]
    boundary: NDArray[np.float32]

    @cached_property
    def contour(self) -> NDArray[np.float32]:
        """Ultrametric contour map: above any height its boundaries are closed."""
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
        """Measure each label of `labels`: see `measure_labels` in core.posterior.region_table.

        ``pandas.DataFrame(result.table(image))`` makes a data frame.
        """
        return measure_labels(self.labels, image, axes, self.summary, scale=scale, unit=unit, names=names)

    def __repr__(self) -> str:
        return self._describe(str(self.labels.shape))


def make_result(summary: Summary, provenance: Mapping[str, Any], run: Any = None) -> Result:
    """Make a result from a summary; `run` is the complete run, if it is known."""
    problem, together, labels = summary.problem, summary.snapshot.together, summary.labels
    dtype = np.uint16 if summary.label_names[-1] <= np.iinfo(np.uint16).max else np.uint32
    is_by_pixel = summary.settings.view == "objects" or summary.edits is not None
    entropy = problem.paint(compute_site_entropy(problem, together).astype(np.float32))
    return Result(
        labels=labels.astype(dtype),
        clusters=summary.clusters,
        regions=problem.majority_under(labels) if is_by_pixel else summary.regions,
        traces=tuple(make_trace(rows, summary.snapshot.sweep) for rows in summary.traces),
        uncertainty=entropy,  # type: ignore[arg-type]
        boundary=make_boundary_image(problem, together),
        provenance=provenance,
        summary=summary,
        run=run,
    )


class MethodResult(NamedTuple):
    """Segmentation of an image by any method; `result` is None unless the method samples."""

    labels: LabelImage
    provenance: Mapping[str, Any]
    result: Result | None


@dataclass(frozen=True, eq=False, repr=False)
class SharedResult(ResultBase):
    """Joint segmentation of several images: a label means the same cluster in all of them.

    In the view ``regions`` each part of a cluster has its own label, in one image or across linked ones. Objects are
    numbered from 1 in each image. ``result[k]`` is the result of one image; the other attributes are of all images.

    Attributes
    ----------
    images : tuple of Result
        The result of each image.
    """

    images: tuple[Result, ...]

    @property
    def labels(self) -> list[LabelImage]:
        """Label image of each image."""
        return [image.labels for image in self.images]

    @property
    def uncertainty(self) -> list[NDArray[np.float32]]:
        """Neighbour entropy of each image, in bits."""
        return [image.uncertainty for image in self.images]

    @property
    def boundary(self) -> list[NDArray[np.float32]]:
        """Boundary probability of each image."""
        return [image.boundary for image in self.images]

    def _image_summaries(self) -> list[Summary]:
        return [image.summary for image in self.images]

    def __getitem__(self, number: int) -> Result:
        return self.images[number]

    def __iter__(self) -> Iterator[Result]:
        return iter(self.images)

    def __len__(self) -> int:
        return len(self.images)

    def __repr__(self) -> str:
        return self._describe(f"{len(self)} images")


def make_shared_result(
    problem: SharedProblem, summary: Summary, provenance: Mapping[str, Any], run: Any = None
) -> SharedResult:
    """Make the result of several images from a summary of their joint problem."""
    images = tuple(
        make_result(summary.view_image(problem.view_image(k), problem.sites_in_image(k)), {**provenance, "shown": k})
        for k in range(len(problem.site_images))
    )
    first = images[0]
    regions = np.max([image.regions for image in images], axis=0) if first.has_background else first.regions
    return SharedResult(first.clusters, regions, first.traces, provenance, summary, images, run=run)


# ---- calibrated boundary probability


def calibrate_boundary_odds(log_odds: Float64Array, together: Float64Array, network: bool = False) -> Float64Array:
    """(m,) log odds that an annotator draws a boundary along an edge, from those of a `BoundaryModel`.

    `together` (m,) is the posterior probability that the two ends share a cluster.
    """
    intercept, learnt, posterior = WITH_NETWORK if network else WITHOUT_NETWORK
    return np.asarray(intercept + learnt * log_odds + posterior * boundary_log_odds(together))


def make_calibrated_boundary(
    image: ArrayLike, result: Result, model: BoundaryModel | None = None
) -> NDArray[np.float32]:
    """Make a float32 image of the probability that an annotator draws a boundary through a pixel; 0 within a site.

    `image` is the segmented 2D photograph, `result` its segmentation, and `model` one of annotated boundaries, by
    default the bundled one, with its network if that can be computed.

    >>> from napari_gsw import segment
    >>> image = np.kron(np.eye(2), np.ones((30, 30)))
    >>> probability = make_calibrated_boundary(image, segment(image, seed=0))
    >>> bool(probability[10, 29] > probability[10, 15])
    True
    """
    problem = result.problem
    assert problem.graph is not None
    settings = problem.settings or Settings()
    if settings.coupling != "learnt":
        settings = settings.replace(network="shipped")  # the network of the settings may be of another kind, or none
    image = fill_outside_mask(image, settings.axes, lambda _: problem.site_image > 0)  # it may be NaN there
    features = ImageFeatures([normalize_image(image, settings.axes)], [problem.site_image], settings)
    model = model or load_boundary_model("shipped", features.has_network)
    odds = calibrate_boundary_odds(model.log_odds(features, problem.graph), result.snapshot.together, model.network)
    return make_boundary_image(problem, 1 - expit(odds))
