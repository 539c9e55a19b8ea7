"""Objects that a person has numbered: which pixels of the view of objects belong to which clamp.

A clamp is more than what the view makes of the clusters: an object that holds clamped sites has their number, a clamped
patch of the background is shown, and no object has two numbers.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from skimage import measure, segmentation

from napari_gsw.core.arrays import Ints


def clamped_pixels(sites: Ints, seeds: Ints | None) -> Ints | None:
    """(\\*shape,) number to which each pixel is clamped, 0 for the free ones; None if there is no clamp.

    Parameters
    ----------
    sites : (\\*shape,) sites from 1, 0 for none. seeds : (n,) numbers > 0 of clamped sites; others are free.
    """
    if seeds is None or not (seeds > 0).any():
        return None
    clamps: Ints = np.concatenate(([0], np.maximum(seeds, 0))).astype(np.int32)[sites]
    return clamps


def without_small(parts: Ints, smallest: int, clamps: Ints | None) -> Ints:
    """(\\*shape,) the parts that have `smallest` pixels or a clamp; 0 for the others."""
    small = np.bincount(parts.ravel()) < smallest
    if clamps is not None:
        small[np.unique(parts[clamps > 0])] = False
    return np.where(small[parts], 0, parts)


def clamped_numbers(parts: Ints, clusters: NDArray[np.integer], sites: Ints, clamps: Ints) -> Ints:
    """(\\*shape,) number of the clamp that each pixel's object holds, 0 for the objects and the background without one.

    A clamped site is held by the part in which most of its pixels are: a neck may cut through it. A part with one clamp
    has its number. In a part with several, each begins with the connected pixels of the cluster
    that holds it, and what is left goes to the nearest within the part. Clamped pixels that are in no part, being in
    the background, are shown by themselves.

    Parameters
    ----------
    parts : (\\*shape,) objects from 1, 0 for the background. clusters : (\\*shape,) cluster of each pixel, -1 for none.
    sites : (\\*shape,) sites from 1. clamps : (\\*shape,) as :func:`clamped_pixels` gives them.
    """
    held = clamps > 0
    shares, count = np.unique(np.stack((sites[held], clamps[held], parts[held])), axis=1, return_counts=True)
    order = np.lexsort((-count, shares[0]))
    most = order[np.unique(shares[0, order], return_index=True)[1]]
    pairs = np.unique(shares[:0:-1, most], axis=1)  # the part of each site, and its clamp
    pairs = pairs[:, pairs[0] > 0]
    several = np.bincount(pairs[0], minlength=int(parts.max()) + 1) > 1
    number = np.zeros(len(several), np.int32)
    number[pairs[0]] = pairs[1]
    result = np.where(several[parts], 0, number[parts])
    contested = several[parts]
    if contested.any():
        cores = measure.label(np.where(contested, clusters + 1, 0), background=0, connectivity=1)
        name = np.zeros(int(cores.max()) + 1, np.int32)
        name[cores[held & contested]] = clamps[held & contested]
        begin = np.where(contested, np.where(held, clamps, name[cores]), 0)
        result[contested] = segmentation.watershed(np.zeros(parts.shape, np.uint8), begin, mask=contested)[contested]
    result[held] = clamps[held]
    numbers: Ints = result.astype(np.int32)
    return numbers


def free_numbers(count: int, clamps: NDArray[np.integer]) -> Ints:
    """(count,) numbers 1, 2, ... without those of the clamps.

    >>> free_numbers(3, np.array([2, 7])).tolist()
    [1, 3, 4]
    """
    taken = np.unique(clamps)
    return np.setdiff1d(np.arange(1, count + len(taken) + 1), taken)[:count].astype(np.int32)
