"""What a segmentation gives back: labels in both views, how sure the model is of them, and what made them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from napari_gsw.core.chain import Snapshot
from napari_gsw.core.components import regions_of
from napari_gsw.core.consensus import Consensus, CredibleBall, Loss, consensus, credible_ball
from napari_gsw.core.diagnostics import Diagnosis, diagnose
from napari_gsw.core.hierarchy import Hierarchy
from napari_gsw.core.model import Problem
from napari_gsw.core.objects import object_labels
from napari_gsw.core.posterior import boundary_probability, boundary_tree, site_entropy, site_pixels
from napari_gsw.core.settings import Settings

Labels = NDArray[np.unsignedinteger[Any]]
Ints = NDArray[np.int32]
Floats = NDArray[np.float64]


class Trace(NamedTuple):
    """One row a sweep: its number, and after it log posterior, number of clusters and entropy of their sizes."""

    sweep: NDArray[np.int64]
    log_posterior: Floats
    n_clusters: NDArray[np.int64]
    entropy: Floats


@dataclass(frozen=True, eq=False)
class Result:
    """A segmentation and what made it.

    Attributes
    ----------
    labels : label image of the view that ``settings.view`` asks for: clusters, regions, or objects. Numbers 1..k in the
        order of the first pixel (what holds a seed keeps the seed's number), 0 where there is no site, or no object;
        uint16, or uint32 if the numbers need it.
    clusters : (n,) cluster of each site.
    regions : (n,) region of each site; of objects, the one that most of its pixels belong to, 0 for the background.
    traces : log posterior, number of clusters and entropy of their sizes after each sweep, one trace a chain; ``trace``
        is the first.
    uncertainty : image of how unsure the model is of each site, in bits (0 sure, 1 a coin toss); NaN if the chain
        ended before its burn-in was over.
    boundary : image of the probability that a boundary runs through a pixel.
    provenance : settings, seed, versions and image hash, ready for JSON.
    problem, snapshot : what was sampled, and the last state of the chain, from which it can go on.
    shares : (chains, m) probability of each chain that the ends of an edge share a cluster.
    """

    labels: Labels
    clusters: NDArray[np.int64]
    regions: NDArray[np.int64]
    traces: tuple[Trace, ...]
    uncertainty: NDArray[np.float32]
    boundary: NDArray[np.float32]
    provenance: Mapping[str, Any]
    problem: Problem
    snapshot: Snapshot
    shares: Floats

    @property
    def trace(self) -> Trace:
        return self.traces[0]

    @property
    def n_clusters(self) -> int:
        return len(np.unique(self.clusters))

    @property
    def n_regions(self) -> int:
        return len(np.unique(self.regions))

    @property
    def draws(self) -> Ints:
        """(d, n) partitions seen after the burn-in, of all chains."""
        return np.concatenate(self.snapshot.draws) if self.snapshot.draws else np.empty((0, self.problem.n), np.int32)

    @cached_property
    def hierarchy(self) -> Hierarchy:
        """Segmentations of every fineness, from the probabilities of boundaries."""
        return boundary_tree(self.problem, self.snapshot.together)

    @cached_property
    def contour(self) -> NDArray[np.float32]:
        """Image of the ultrametric contour map: cut at any height, what is above it are closed boundaries."""
        height = self.hierarchy.contour(self.problem.edges)
        return boundary_probability(self.problem, 1 - np.minimum(height, 1.0))

    @cached_property
    def diagnosis(self) -> Diagnosis:
        """Whether the chains agree, with a sentence for a person."""
        late = [np.stack((t.log_posterior, t.n_clusters, t.entropy), axis=1)[len(t.sweep) // 2 :] for t in self.traces]
        return diagnose(late, self.shares)

    def consensus(self, loss: Loss = "vi") -> Consensus:
        """The partition of least expected loss, see :func:`napari_gsw.core.consensus.consensus`."""
        return consensus(self.draws, loss, site_pixels(self.problem))

    def credible_ball(self, level: float = 0.95, loss: Loss = "vi") -> CredibleBall:
        """The draws nearest to the clusters of this result; paint ``draws[ball.farthest]`` to look at one."""
        return credible_ball(self.draws, self.clusters, level, loss, site_pixels(self.problem))

    def __repr__(self) -> str:
        best = f"best log posterior {self.snapshot.best.log_posterior:,.1f}"
        count = f"{self.n_clusters} clusters, {self.n_regions} regions of {self.problem.n} sites"
        return f"<Result {self.labels.shape}, {count}, {best}>"


def result(
    problem: Problem,
    snapshot: Snapshot,
    traces: Sequence[Floats],
    made: Mapping[str, Any],
    shares: Sequence[Floats] = (),
) -> Result:
    """Paint what a snapshot says of the sites.

    Parameters
    ----------
    traces : (sweeps, 3) for each chain.
    shares : (m,) `together` of each chain, if it is not that of the snapshot alone.
    """
    settings = problem.settings or Settings()
    seeds = snapshot.state["seeds"]
    partition = estimate(problem, snapshot, settings.consensus)
    clusters = numbered(partition, seeds)
    parts = regions(problem, partition, snapshot.together, seeds, settings)
    if settings.view == "objects" and problem.sites is not None:
        shown = object_labels(problem, partition, settings.min_region, settings.neck)
        parts = site_majority(shown, problem)
    else:
        shown = problem.paint(parts if settings.view == "regions" else clusters)  # type: ignore[assignment]
    dtype = np.uint16 if shown.max() <= np.iinfo(np.uint16).max else np.uint32
    unsure = problem.paint(site_entropy(problem, snapshot.together).astype(np.float32))
    return Result(
        labels=shown.astype(dtype),
        clusters=clusters,
        regions=parts,
        traces=tuple(trace_of(rows, snapshot.sweep) for rows in traces),
        uncertainty=unsure,  # type: ignore[arg-type]
        boundary=boundary_probability(problem, snapshot.together),
        provenance=made,
        problem=problem,
        snapshot=snapshot,
        shares=np.stack(shares) if len(shares) else snapshot.together[np.newaxis],
    )


def estimate(problem: Problem, snapshot: Snapshot, how: str) -> Ints:
    """(n,) the partition to show: the best state, or the consensus of the draws by ``vi`` or ``binder``.

    Before the burn-in is over there are no draws, and a consensus may join sites that seeds hold apart: then it is the
    best state after all.
    """
    best = snapshot.best.labels
    if how == "none" or not any(len(rows) for rows in snapshot.draws):
        return best
    found = consensus(np.concatenate(snapshot.draws), cast(Loss, how), site_pixels(problem)).labels
    held = np.unique(np.stack((found, snapshot.state["seeds"])), axis=1)
    held = held[:, held[1] >= 0]
    return found if len(np.unique(held[0])) == held.shape[1] else best


def regions(
    problem: Problem, partition: NDArray[np.integer], together: Floats, seeds: Ints, settings: Settings
) -> NDArray[np.int64]:
    """(n,) numbers of the regions that the settings ask for; what holds a seed keeps the seed's number."""
    tie = together if settings.merge == "posterior" else None
    return numbered(regions_of(problem, partition, settings.min_region, tie, seeds >= 0), seeds)


def site_majority(image: NDArray[np.integer], problem: Problem) -> NDArray[np.int64]:
    """(n,) the commonest number of a label image under each site."""
    assert problem.sites is not None
    inside = problem.sites > 0
    pairs, count = np.unique(np.stack((problem.sites[inside] - 1, image[inside])), axis=1, return_counts=True)
    found = np.zeros(problem.n, np.int64)
    order = np.argsort(count, kind="stable")  # the commonest comes last and stays
    found[pairs[0, order]] = pairs[1, order]
    return found


def trace_of(rows: Floats, last: int) -> Trace:
    """Rows of a chain's trace up to sweep `last`, as columns."""
    return Trace(np.arange(last - len(rows), last) + 1, rows[:, 0], rows[:, 1].astype(np.int64), rows[:, 2])


def numbered(labels: NDArray[np.integer], seeds: Ints) -> NDArray[np.int64]:
    """Numbers 1, 2, ... for clusters; a cluster with a seed has the seed's number, the others take those left."""
    own = np.zeros(int(labels.max()) + 1, np.int64)
    own[labels[seeds >= 0]] = seeds[seeds >= 0]
    free = np.flatnonzero(own == 0)
    left = np.setdiff1d(np.arange(1, len(own) + len(free) + 1), own)
    own[free] = left[: len(free)]
    found: NDArray[np.int64] = own[labels]
    return found
