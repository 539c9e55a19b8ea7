"""What chains have to say together: one partition, how far from it the others are, every fineness, and do they agree.

Everything is computed when it is asked for, and once. The result of a segmentation and the window of a running one read
the same summary.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from functools import cached_property
from typing import cast

import numpy as np
from numpy.typing import NDArray

from napari_gsw.core.array_types import BoolArray, Float64Array, Int32Array, Int64Array
from napari_gsw.core.graph.merge_tree import MergeTree
from napari_gsw.core.model.problem import Problem
from napari_gsw.core.partitions import canonical_labels
from napari_gsw.core.posterior.block_objects import label_block_objects
from napari_gsw.core.posterior.consensus import Consensus, CredibleBall, Loss, find_consensus, find_credible_ball
from napari_gsw.core.posterior.diagnostics import MIN_SWEEPS, Diagnosis, diagnose
from napari_gsw.core.posterior.object_edits import FixedPixels, apply_edits
from napari_gsw.core.posterior.objects import (
    decode_objects,
    find_largest_cluster,
    find_objects,
    same_object_probability,
)
from napari_gsw.core.posterior.regions import find_regions, make_boundary_tree, merge_weak_boundaries
from napari_gsw.core.posterior.uncertainty import count_site_pixels
from napari_gsw.core.sampler.greedy import climb_to_maximum
from napari_gsw.core.sampler.options import needs_regroups
from napari_gsw.core.sampler.snapshot import Snapshot
from napari_gsw.core.settings import Settings
from napari_gsw.core.sites.blocked_labels import BlockedLabels, SiteImage, to_lazy, to_lazy_sites


class Summary:
    """What is known of a posterior.

    Attributes
    ----------
    problem, settings : what was sampled, and how its result is to look.
    snapshot : with the best state, the sums and the draws of all chains.
    traces : (sweeps, 3) of each chain.
    shares : (chains, m) probability of each chain that the ends of an edge share a cluster.
    within : (n,) the sites of the image that is looked at, where it is one of several; None for all.
    edits : objects or regions that a person has fixed; None if there are none, or if every cluster has a name.
    """

    image_sites: BoolArray | None = None

    def __init__(
        self,
        problem: Problem,
        settings: Settings,
        snapshot: Snapshot,
        traces: Sequence[Float64Array],
        shares: Sequence[Float64Array] = (),
        edits: FixedPixels | None = None,
    ) -> None:
        self.edits = None if problem.closed else edits
        self.problem, self.settings, self.snapshot, self.traces = problem, settings, snapshot, tuple(traces)
        self.shares = np.stack(shares) if len(shares) else snapshot.together[np.newaxis]
        self._consensus: dict[str, Consensus] = {}

    def view_image(self, problem: Problem, image_sites: BoolArray) -> Summary:
        """The same summary with one of several images to look at: what is known of all sites is computed once."""
        for name in ("partition", "clusters", "regions"):
            getattr(self, name)
        other = copy(self)
        other.problem, other.image_sites = problem, image_sites
        for name in ("_objects", "labels", "n_objects"):
            other.__dict__.pop(name, None)
        return other

    @property
    def seeds(self) -> Int32Array:
        """(n,) clamped sites, -1 for free ones."""
        seeds: Int32Array = self.snapshot.state["seeds"]
        return seeds

    @property
    def named_seeds(self) -> Int32Array:
        """(n,) clamped sites whose number is also that of their region or object; -1 for the others.

        A site that is clamped because its object is fixed has the number of a cluster only.
        """
        return self.seeds if self.edits is None else np.where(self.edits.sites != 0, -1, self.seeds).astype(np.int32)

    @property
    def is_estimated(self) -> bool:
        """Whether the burn-in is over and so many sweeps have been counted that their shares mean something."""
        is_estimated = not np.isnan(self.snapshot.together).any() and any(len(rows) for rows in self.snapshot.draws)
        return is_estimated and self.counted >= MIN_SWEEPS

    @property
    def counted(self) -> int:
        """Sweeps of each chain after its burn-in that the probabilities of edges are shares of."""
        return int(self.snapshot.state["counted"])

    @property
    def smallest(self) -> int:
        """Pixels of a region at least."""
        return self.problem.smallest_region(self.settings.min_region)

    @cached_property
    def draws(self) -> Int32Array:
        """(d, n) partitions seen after the burn-in, of all chains."""
        rows = self.snapshot.draws
        return np.concatenate(rows) if rows else np.empty((0, self.problem.n), np.int32)

    def consensus(self, loss: Loss = "vi") -> Consensus:
        """The partition of least expected loss over the draws."""
        if loss not in self._consensus:
            self._consensus[loss] = find_consensus(self.draws, loss, count_site_pixels(self.problem))
        return self._consensus[loss]

    @cached_property
    def same_colour(self) -> Float64Array:
        """(m,) probability that the ends of an edge are one object, where a network has seen fragments of objects."""
        return same_object_probability(self.problem, self.draws)

    @cached_property
    def partition(self) -> Int32Array:
        """(n,) the partition that is the result: the best state, or the consensus if the settings ask for it.

        If every cluster has a name, it is the likeliest name of each site: the least expected number of wrong pixels.
        Of objects that a network has seen, what is likely to be one object has one colour.
        Before the burn-in is over there are no draws, and a consensus may join sites that seeds hold apart: then it is
        the best state after all.
        """
        if self.problem.closed and len(self.draws):
            return vote_names(self.draws, self.seeds)
        if self.problem.has_fragments and len(self.draws):
            likely = decode_objects(self.problem, self.same_colour, self.seeds)
            return self.snapshot.best.labels if likely is None else likely
        if self.settings.consensus == "none" and self.settings.polish == "yes":
            return climb_to_maximum(self.problem, self.snapshot.best.labels, self.seeds).labels
        if self.settings.consensus == "none" or not len(self.draws):
            return self.snapshot.best.labels
        estimate = self.consensus(cast(Loss, self.settings.consensus)).labels
        held = np.unique(np.stack((estimate, self.seeds)), axis=1)
        held = held[:, held[1] >= 0]
        return estimate if len(np.unique(held[0])) == held.shape[1] else self.snapshot.best.labels

    def ball(self, level: float = 0.95, loss: Loss = "vi") -> CredibleBall:
        """The draws nearest to the partition that is the result."""
        return find_credible_ball(self.draws, self.partition, level, loss, count_site_pixels(self.problem))

    @cached_property
    def credible_bounds(self) -> dict[str, Int32Array]:
        """The coarsest, the finest and the farthest partition of the 95 % ball."""
        ball = self.ball()
        return {name: self.draws[getattr(ball, name)] for name in ("coarsest", "finest", "farthest")}

    @cached_property
    def hierarchy(self) -> MergeTree:
        """Segmentations of every fineness, by how strong boundaries are."""
        return make_boundary_tree(self.problem, self.snapshot.together)

    @cached_property
    def diagnosis(self) -> Diagnosis:
        """Whether the chains agree, by what they have traced since the burn-in."""
        burn_in = int(self.snapshot.state.get("burn_in", 0))
        late = [rows[min(burn_in, len(rows)) :] for rows in self.traces]
        return diagnose(late, self.shares, limited=needs_regroups(self.problem))

    @property
    def has_converged(self) -> bool:
        """Whether several chains agree on what is known; one alone cannot say whether others would come to the same."""
        return self.is_estimated and self.diagnosis.chains > 1 and self.diagnosis.agree

    @cached_property
    def clusters(self) -> Int64Array:
        """(n,) number of each site's cluster."""
        return number_clusters(self.partition, self.seeds)

    @cached_property
    def _parts(self) -> Int32Array:
        """(n,) region of each site of the partition that is the result."""
        return self.regions_in(self.partition, self.seeds >= 0)

    def regions_in(self, clusters: NDArray[np.integer], held: BoolArray) -> Int32Array:
        """(n,) region of each site of a partition (n,), without those that are too small or hardly parted.

        Regions of sites that are `held` (n,) stay as they are.
        """
        together = self.snapshot.together
        tie = together if self.settings.merge == "posterior" else None
        regions = find_regions(self.problem, clusters, self.smallest, tie, held)
        weakest = 0.0 if self.problem.closed else self.settings.join  # two names stay two
        return merge_weak_boundaries(self.problem, together, regions, weakest, held)

    @cached_property
    def regions(self) -> Int64Array:
        """(n,) number of each site's region, without those that are too small or hardly parted."""
        return number_clusters(self._parts, self.named_seeds)

    @cached_property
    def _objects(self) -> SiteImage | None:
        """Objects pixel by pixel, if that is the view."""
        if self.settings.view != "objects" or self.problem.closed:
            return None
        looks = self.smallest, self.settings.neck, self.named_seeds
        distinction = self.settings.distinction
        if self.problem.block_context is not None:
            return label_block_objects(self.problem, self.partition, *looks, distinction=distinction)
        common = None if self.image_sites is None else find_largest_cluster(self.problem, self.partition)
        return find_objects(self.problem, self.partition, *looks, background=common, distinction=distinction)

    @cached_property
    def _edited(self) -> Int32Array | None:
        """Label image of the objects, or else of the regions, with what a person has fixed; None if that is nothing."""
        if self.edits is None:
            return None
        objects = self.settings.view == "objects"
        base = self._objects if objects else self.problem.paint(self.regions)
        return apply_edits(np.asarray(base), self.edits, self.smallest, objects)

    @cached_property
    def labels(self) -> NDArray[np.integer]:
        """Label image of the view that the settings ask for; of regions or objects once a person has edited them."""
        if self._edited is not None:
            return self._edited
        if isinstance(self._objects, BlockedLabels):
            return cast(NDArray[np.integer], to_lazy_sites(self._objects).astype(np.uint32))
        if self._objects is not None:
            lazily = isinstance(self.problem.sites, BlockedLabels)
            return to_lazy(self._objects, self._objects.shape) if lazily else self._objects
        return cast(NDArray[np.integer], self.problem.paint(self.numbers))

    @cached_property
    def numbers(self) -> Int64Array:
        """(n,) number of each site in the label image, if that is not of objects.

        If every cluster has a name these are the names whatever the view; a region that is too small takes the name of
        the one that it joins.
        """
        if self.problem.closed and self.settings.view != "clusters":
            return find_commonest_labels(self._parts, self.clusters, count_site_pixels(self.problem))
        return self.regions if self.settings.view == "regions" else self.clusters

    @property
    def largest(self) -> int:
        """The largest number in the label image."""
        if self._edited is not None:
            return int(self._edited.max())
        if isinstance(self._objects, BlockedLabels):
            return int(max(table.max() for table in self._objects.numbers))
        if self._objects is not None:
            return int(self._objects.max())
        return int(self.numbers.max())

    @cached_property
    def n_objects(self) -> int:
        """How many objects there are, if that is the view: clamps may have numbers that are larger than that."""
        if self._objects is None:
            return 0
        if self._edited is not None:
            return len(np.setdiff1d(self._edited, [0]))
        tables = self._objects.numbers if isinstance(self._objects, BlockedLabels) else [self._objects]
        return len(np.setdiff1d(np.concatenate([np.unique(table) for table in tables]), [0]))

    def labels_at_detail(self, share: float) -> Int64Array:
        """(n,) regions from coarse (0: one) to fine (1: every site), on a logarithmic scale of their number."""
        count = round(float(self.problem.n) ** share)
        return self.hierarchy.labels_with(max(count, 1)).astype(np.int64) + 1


def vote_names(draws: Int32Array, seeds: Int32Array) -> Int32Array:
    """(n,) of draws (d, n) in which every cluster holds one seed, the seed that a site is with most often.

    Clusters 0, 1, ... in the order of their first site, as in any partition.
    """
    anchors = np.unique(seeds, return_index=True)[1][1 if (seeds < 0).any() else 0 :]
    votes = np.stack([(draws == draws[:, [site]]).sum(axis=0) for site in anchors])
    return canonical_labels(votes.argmax(axis=0).astype(np.int32))


def find_commonest_labels(parts: NDArray[np.integer], numbers: Int64Array, weight: Float64Array) -> Int64Array:
    """(n,) the number that most of the weight (n,) of each part (n,) has."""
    is_estimated, index = np.unique(numbers, return_inverse=True)
    table = np.zeros((int(parts.max()) + 1, len(is_estimated)))
    np.add.at(table, (parts, index), weight)
    return np.asarray(is_estimated[table.argmax(axis=1)][parts])


def number_clusters(labels: NDArray[np.integer], seeds: Int32Array) -> Int64Array:
    """(n,) numbers 1, 2, ... of clusters; one with a seed has the seed's number, the others take those left.

    Parameters
    ----------
    labels : (n,) clusters 0, 1, ...
    seeds : (n,) number of a clamped site, -1 for a free one.
    """
    own = np.zeros(int(labels.max()) + 1, np.int64)
    own[labels[seeds >= 0]] = seeds[seeds >= 0]
    free = np.flatnonzero(own == 0)
    left = np.setdiff1d(np.arange(1, len(own) + len(free) + 1), own)
    own[free] = left[: len(free)]
    numbers: Int64Array = own[labels]
    return numbers
