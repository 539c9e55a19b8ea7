"""Summary of several chains: a partition, its credible ball, a hierarchy, and convergence.

Everything is computed on demand, and once. `Result` and the interactive run read the same summary.
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
from napari_gsw.core.model.problem import Problem, site_pixels
from napari_gsw.core.partitions import canonical_labels
from napari_gsw.core.posterior.consensus import Consensus, CredibleBall, Loss, find_consensus, find_credible_ball
from napari_gsw.core.posterior.diagnostics import MIN_SWEEPS, Diagnosis, diagnose
from napari_gsw.core.posterior.object_edits import FixedPixels, apply_edits
from napari_gsw.core.posterior.objects import (
    decode_objects,
    find_free_labels,
    find_objects,
    label_block_objects,
    same_object_probability,
)
from napari_gsw.core.posterior.regions import find_regions, make_boundary_tree, merge_weak_boundaries
from napari_gsw.core.sampler.ensemble import pool_snapshots
from napari_gsw.core.sampler.greedy import climb_to_maximum
from napari_gsw.core.sampler.options import needs_regroups
from napari_gsw.core.sampler.snapshot import Snapshot
from napari_gsw.core.settings import Settings
from napari_gsw.core.sites.blocked_labels import BlockedLabels, SiteImage, to_lazy


class Summary:
    """Summary of a posterior, from the snapshots and the traces (sweeps, 3) of all chains.

    `edits` are objects or regions that the user has fixed, and are ignored in a closed problem.
    """

    # (n,) sites of the displayed image, if it is one of several.
    image_sites: BoolArray | None = None

    def __init__(
        self,
        problem: Problem,
        settings: Settings,
        snapshots: Sequence[Snapshot],
        traces: Sequence[Float64Array],
        edits: FixedPixels | None = None,
    ) -> None:
        self.edits = None if problem.closed else edits
        self.problem, self.settings, self.traces = problem, settings, tuple(traces)
        self.snapshot = pool_snapshots(snapshots)
        self.shares = np.stack([snapshot.together for snapshot in snapshots])  # (chains, m)
        self._consensus: dict[str, Consensus] = {}

    def view_image(self, problem: Problem, image_sites: BoolArray) -> Summary:
        """Return a view of one of several images, which shares what is known of all sites."""
        for name in ("partition", "clusters", "regions"):
            getattr(self, name)
        other = copy(self)
        other.problem, other.image_sites = problem, image_sites
        for name in ("_image", "labels", "label_names"):
            other.__dict__.pop(name, None)
        return other

    @property
    def seeds(self) -> Int32Array:
        """(n,) labels of clamped sites, -1 for free ones."""
        return cast(Int32Array, self.snapshot.state["seeds"])

    @property
    def named_seeds(self) -> Int32Array:
        """(n,) seeds whose label is also that of their region or object; a site of a fixed object is -1."""
        return self.seeds if self.edits is None else np.where(self.edits.sites != 0, -1, self.seeds).astype(np.int32)

    @property
    def is_estimated(self) -> bool:
        """True if enough sweeps after the burn-in have been counted for probabilities."""
        return not np.isnan(self.snapshot.together).any() and len(self.draws) > 0 and self.counted >= MIN_SWEEPS

    @property
    def counted(self) -> int:
        """Sweeps of each chain after the burn-in."""
        return int(self.snapshot.state["counted"])

    @property
    def min_pixels(self) -> int:
        """Least number of pixels of a region."""
        return self.problem.smallest_region(self.settings.min_region)

    @cached_property
    def draws(self) -> Int32Array:
        """(d, n) partitions after the burn-in, of all chains."""
        return np.concatenate([np.empty((0, self.problem.n), np.int32), *self.snapshot.draws])

    def consensus(self, loss: Loss = "vi") -> Consensus:
        """Find the partition of least expected loss over the draws."""
        if loss not in self._consensus:
            self._consensus[loss] = find_consensus(self.draws, loss, site_pixels(self.problem))
        return self._consensus[loss]

    @cached_property
    def same_object_probability(self) -> Float64Array:
        """(m,) probability that the ends of an edge are one object, for fragments that a network has found."""
        return same_object_probability(self.problem, self.draws)

    @cached_property
    def partition(self) -> Int32Array:
        """(n,) reported partition: the best state, or the consensus if the settings say so.

        In a closed problem it is the likeliest label of each site, which has the fewest expected errors. Fragments that
        are probably one object have one colour. Without draws, or where the consensus would join different seeds, it
        is the best state.
        """
        best = self.snapshot.best.labels
        if self.problem.closed and len(self.draws):
            # Each cluster of a draw has the sites of one seed: a site takes the seed with which it is most often.
            first = np.unique(self.seeds, return_index=True)[1][int((self.seeds < 0).any()) :]
            votes = np.stack([(self.draws == self.draws[:, [site]]).sum(axis=0) for site in first])
            return canonical_labels(votes.argmax(axis=0).astype(np.int32))
        if self.problem.has_fragments and len(self.draws):
            objects = decode_objects(self.problem, self.same_object_probability, self.seeds)
            return best if objects is None else objects
        if self.settings.consensus == "none" and self.settings.polish == "yes":
            return climb_to_maximum(self.problem, best, self.seeds).labels
        if self.settings.consensus == "none" or not len(self.draws):
            return best
        estimate = self.consensus(cast(Loss, self.settings.consensus)).labels
        pairs = np.unique(np.stack((estimate, self.seeds)), axis=1)
        pairs = pairs[:, pairs[1] >= 0]
        return estimate if len(np.unique(pairs[0])) == pairs.shape[1] else best

    def ball(self, level: float = 0.95, loss: Loss = "vi") -> CredibleBall:
        """Find the draws nearest to the reported partition."""
        return find_credible_ball(self.draws, self.partition, level, loss, site_pixels(self.problem))

    @cached_property
    def credible_bounds(self) -> dict[str, Int32Array]:
        """The coarsest, the finest and the farthest partition of the 95 % ball."""
        ball = self.ball()
        return {name: self.draws[getattr(ball, name)] for name in ("coarsest", "finest", "farthest")}

    @cached_property
    def hierarchy(self) -> MergeTree:
        """Segmentations of every fineness, by the strength of boundaries."""
        return make_boundary_tree(self.problem, self.snapshot.together)

    @cached_property
    def diagnosis(self) -> Diagnosis:
        """Convergence of the chains since the burn-in."""
        burn_in = int(self.snapshot.state.get("burn_in", 0))
        late = [rows[min(burn_in, len(rows)) :] for rows in self.traces]
        return diagnose(late, self.shares, limited=needs_regroups(self.problem))

    @property
    def has_converged(self) -> bool:
        """True if several chains agree; one chain cannot show that."""
        return self.is_estimated and self.diagnosis.chains > 1 and self.diagnosis.agree

    @cached_property
    def clusters(self) -> Int64Array:
        """(n,) label of each site's cluster."""
        return number_clusters(self.partition, self.seeds)

    def regions_in(self, clusters: NDArray[np.integer], is_locked: BoolArray) -> Int32Array:
        """(n,) regions of a partition (n,), merged where they are too small or hardly separated, unless locked (n,)."""
        together = self.snapshot.together
        tie = together if self.settings.merge == "posterior" else None
        regions = find_regions(self.problem, clusters, self.min_pixels, tie, is_locked)
        weakest = 0.0 if self.problem.closed else self.settings.join  # two painted labels stay two
        return merge_weak_boundaries(self.problem, together, regions, weakest, is_locked)

    @cached_property
    def regions(self) -> Int64Array:
        """(n,) label of each site's region."""
        return number_clusters(self._parts, self.named_seeds)

    @cached_property
    def _parts(self) -> Int32Array:
        return self.regions_in(self.partition, self.seeds >= 0)

    @cached_property
    def numbers(self) -> Int64Array:
        """(n,) label of each site in the view of clusters or regions.

        In a closed problem these are the painted labels in every view, and small regions take the label of the region
        that they join.
        """
        if self.problem.closed and self.settings.view != "clusters":
            names, index = np.unique(self.clusters, return_inverse=True)
            pixels = np.zeros((int(self._parts.max()) + 1, len(names)))
            np.add.at(pixels, (self._parts, index), site_pixels(self.problem))
            return np.asarray(names[pixels.argmax(axis=1)][self._parts])
        return self.regions if self.settings.view == "regions" else self.clusters

    @cached_property
    def _image(self) -> SiteImage | None:
        """Objects, or regions that the user has edited, pixel by pixel; None if every site has one label."""
        problem, settings = self.problem, self.settings
        image: SiteImage | None = None
        objects = settings.view == "objects" and not problem.closed
        options = self.min_pixels, settings.neck, self.named_seeds
        if objects and problem.block_context is not None:
            image = label_block_objects(problem, self.partition, *options, settings.distinction)
        elif objects:
            is_several = self.image_sites is not None  # which have the same background
            background = int(np.bincount(self.partition, site_pixels(problem)).argmax()) if is_several else None
            image = find_objects(problem, self.partition, *options, background, settings.distinction)
        if self.edits is None:
            return image
        base = problem.paint(self.regions) if image is None else image
        return apply_edits(np.asarray(base), self.edits, self.min_pixels, objects)

    @cached_property
    def labels(self) -> NDArray[np.integer]:
        """Label image of the view; of regions or objects once the user has edited them."""
        image = self._image
        if image is None:
            return cast(NDArray[np.integer], self.problem.paint(self.numbers))
        if isinstance(image, BlockedLabels):
            return cast(NDArray[np.integer], to_lazy(image).astype(np.uint32))
        is_lazy = isinstance(self.problem.sites, BlockedLabels) and self.edits is None
        return to_lazy(image) if is_lazy else image

    @cached_property
    def label_names(self) -> NDArray[np.integer]:
        """Labels of the label image, ascending."""
        image = self.numbers if self._image is None else self._image
        tables = image.numbers if isinstance(image, BlockedLabels) else [image]
        return np.unique(np.concatenate([np.unique(table) for table in tables]))

    def labels_at_detail(self, share: float) -> Int64Array:
        """(n,) regions from coarse (0: one) to fine (1: every site), on a logarithmic scale of their number."""
        count = round(float(self.problem.n) ** share)
        return self.hierarchy.labels_with(max(count, 1)).astype(np.int64) + 1


def number_clusters(clusters: NDArray[np.integer], seeds: Int32Array) -> Int64Array:
    """(n,) labels 1, 2, ... of clusters 0, 1, ...; a cluster with a seed has its label, the others those left."""
    labels = np.zeros(int(clusters.max()) + 1, np.int64)
    labels[clusters[seeds >= 0]] = seeds[seeds >= 0]
    labels[labels == 0] = find_free_labels(int((labels == 0).sum()), labels)
    return np.asarray(labels[clusters])
