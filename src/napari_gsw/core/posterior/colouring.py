"""Objects from chains that colour their fragments: what touches and is probably of one colour is one object.

The colours of a state mean nothing, and the most probable state is not the best answer: two fragments may have one
colour in one way and different ones in many. What counts is how probable it is that they have the same.
"""

from __future__ import annotations

import numpy as np

from napari_gsw.core.arrays import Floats, Ints
from napari_gsw.core.graph.object_model import COLOURS
from napari_gsw.core.graph.region_graph import connected_pairs
from napari_gsw.core.model.partition_kernels import canonical
from napari_gsw.core.model.problem import Problem
from napari_gsw.core.odds import expit
from napari_gsw.core.sparse_rows import SparseRows

# Two fragments are shown as one object if they are so with a probability above this: more than one half, since two
# objects taken for one are both lost, and of one that is cut the larger part often remains.
ONE = 0.55
# Fitted by experiments/objects.py to touching fragments of 173 pictures of nuclei, with networks and forests that had
# not seen the picture; and what is never sure.
SLOPES, SHIFT = (1.15, 0.27), 0.64
LEAST = 0.002


def same_colour(problem: Problem, draws: Ints) -> Floats:
    """(m,) probability that the ends of an edge have one colour, from states (d, n) of the chains.

    Of each end its probabilities given all the others in a state, averaged over the states: of two fragments that touch
    nothing else they are right with one state already, where shares of states would need hundreds.
    """
    i, j = problem.edges.T
    total = np.zeros(len(problem.edges))
    rows = np.arange(problem.n)
    for state in draws:
        colours = max(COLOURS, int(state.max()) + 1)
        pull = np.bincount(i * colours + state[j], problem.beta, problem.n * colours)
        pull += np.bincount(j * colours + state[i], problem.beta, problem.n * colours)
        weight = np.exp(pull.reshape(problem.n, colours) - pull.reshape(problem.n, colours).max(axis=1)[rows, None])
        weight /= weight.sum(axis=1, keepdims=True)
        total += (weight[i, state[j]] + weight[j, state[i]]) / 2
    return total / max(len(draws), 1)


def right_as_often(probability: Floats) -> Floats:
    """(k,) probabilities that fragments are one object, as often right as they say.

    The log odds of the calibrated probability are ``SLOPES[0] log p - SLOPES[1] log(1 - p) + SHIFT``.

    Parameters
    ----------
    probability : (k,) of the posterior, which is too sure where it says that fragments are one: of three that touch
        each other every pair vouches for the third.
    """
    p = np.clip(probability, LEAST, 1 - LEAST)
    calibrated = expit(SLOPES[0] * np.log(p) - SLOPES[1] * np.log1p(-p) + SHIFT)
    return np.asarray(np.where(np.isnan(probability), np.nan, calibrated))


def likely_objects(problem: Problem, together: Floats, seeds: Ints) -> Ints | None:
    """(n,) a colouring in which two touching sites have one colour if that is likely; None if there is none.

    Parameters
    ----------
    together : (m,) probability that the ends of an edge have one colour.
    seeds : (n,) the numbers of clamped sites, -1 for free ones: those of one number have a colour of their own.
    """
    i, j = problem.edges.T
    kept = (together > ONE) & ((seeds[i] == seeds[j]) | (seeds[i] < 0) | (seeds[j] < 0))
    part = connected_pairs(problem.n, problem.edges[kept])
    count = int(part.max()) + 1
    colour = np.full(count, -1)
    numbers = np.unique(seeds[seeds >= 0])
    held = np.unique(np.stack((part, seeds))[:, seeds >= 0], axis=1)
    if len(np.unique(held[0])) < held.shape[1]:
        return None  # likely pairs would join what a person holds apart
    colour[held[0]] = np.searchsorted(numbers, held[1])
    between = np.unique(np.sort(np.stack((part[i], part[j])), axis=0)[:, part[i] != part[j]], axis=1)
    ends, others = np.hstack((between, between[::-1]))
    near = SparseRows.of_places(ends, others, None, (count, count))
    for one in np.argsort(-np.diff(near.indptr), kind="stable"):
        if colour[one] < 0:
            taken = colour[near.indices[near.indptr[one] : near.indptr[one + 1]]]
            free = np.setdiff1d(np.arange(len(numbers), max(COLOURS, len(numbers) + 1)), taken)
            if not len(free):
                return None
            colour[one] = free[0]
    return canonical(colour[part].astype(np.int32))
