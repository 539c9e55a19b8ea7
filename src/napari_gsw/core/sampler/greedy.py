"""Greedy ascent from a state to a local maximum of the posterior."""

from __future__ import annotations

from numpy.typing import ArrayLike

from napari_gsw.core.model.problem import Problem, log_posterior
from napari_gsw.core.partitions import canonical_labels
from napari_gsw.core.sampler.bonds import constant_bonds
from napari_gsw.core.sampler.chain import restart_from, start_chain
from napari_gsw.core.sampler.moves import greedy_kernels
from napari_gsw.core.sampler.options import SamplerOptions
from napari_gsw.core.sampler.snapshot import State, make_readonly

# Gains below this are rounding.
MIN_GAIN = 1e-8


def climb_to_maximum(problem: Problem, labels: ArrayLike, seeds: ArrayLike | None = None) -> State:
    """Climb to a state that no move of a site and no merge of two clusters improves, without any random draw.

    In turns, sites move in order to their best cluster or one of their own until none moves, and each cluster merges
    with the one that gains most. `labels` (n,) must respect the `seeds` (n,).

    Examples
    --------
    >>> problem = Problem.from_counts([[9, 0], [9, 0], [0, 9], [0, 9]], [(0, 1), (1, 2), (2, 3)], phi=2.0)
    >>> climb_to_maximum(problem, [0, 1, 2, 3]).labels.tolist()
    [0, 0, 1, 1]
    """
    chain = start_chain(problem, SamplerOptions(constant_bonds(problem, 0.0)), 0, labels)
    if seeds is not None:
        chain = restart_from(chain, labels, seeds, 0)
    target, state = chain.target, chain.state
    has_gained = True
    while has_gained:
        state, gain = greedy_kernels.move_sites(target, state, MIN_GAIN)
        has_gained = gain > 0 or greedy_kernels.merge_clusters(target, state, MIN_GAIN) > 0
    best = make_readonly(canonical_labels(state.labels))
    return State(0, best, log_posterior(problem, best))
