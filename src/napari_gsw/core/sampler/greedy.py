"""Greedy ascent from a state to a local maximum of the posterior: the last step of a search for the best state."""

from __future__ import annotations

from numpy.typing import ArrayLike

from napari_gsw.core.model.problem import Problem, log_posterior
from napari_gsw.core.partitions import canonical_labels
from napari_gsw.core.sampler import bonds as bonding
from napari_gsw.core.sampler.chain import restart_from, start_chain
from napari_gsw.core.sampler.moves import greedy_kernels
from napari_gsw.core.sampler.options import SamplerOptions
from napari_gsw.core.sampler.snapshot import State, make_readonly

# Gains below this are rounding.
MIN_GAIN = 1e-8


def climb_to_maximum(problem: Problem, labels: ArrayLike, seeds: ArrayLike | None = None) -> State:
    """The state where a climb from `labels` ends: no site's move and no merge of two clusters raises the log posterior.

    Sites go in order, each to its best cluster or to one of its own, until none moves; then clusters, each into the one
    that gains most by it; and so on until nothing does. Nothing is drawn.

    Parameters
    ----------
    labels : (n,) where to begin; sites with the same seed must be together, those with different ones apart.
    seeds : (n,) numbers >= 0 for clamped sites, -1 for free ones; None clamps none.

    Examples
    --------
    >>> problem = Problem.from_counts([[9, 0], [9, 0], [0, 9], [0, 9]], [(0, 1), (1, 2), (2, 3)], phi=2.0)
    >>> polished(problem, [0, 1, 2, 3]).labels.tolist()
    [0, 0, 1, 1]
    """
    chain = start_chain(problem, SamplerOptions(bonding.constant_bonds(problem, 0.0)), 0, labels)
    if seeds is not None:
        chain = restart_from(chain, labels, seeds, 0)
    target, walker = chain.target, chain.walker
    rises, merged = True, True
    while rises or merged:
        walker, rise = greedy_kernels.move_sites(target, walker, MIN_GAIN)
        rises, merged = rise > 0, False
        if not rises:
            merged = greedy_kernels.merge_clusters(target, walker, MIN_GAIN) > 0
    best = make_readonly(canonical_labels(walker.labels))
    return State(0, best, log_posterior(problem, best))
