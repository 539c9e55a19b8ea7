"""How well labels come out where the numbers themselves are wanted, as those of scribbles are."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from napari_gsw.core.arrays import Floats
from napari_gsw.core.errors import InputError


def mean_dice(labels: ArrayLike, wanted: ArrayLike, where: ArrayLike | None = None) -> float:
    """Dice coefficient of each wanted label, averaged over the labels: small regions count as much as large ones.

    Parameters
    ----------
    labels, wanted, where : as for :func:`dice_of_labels`.

    Examples
    --------
    >>> mean_dice([1, 1, 1, 2], [1, 1, 2, 2])
    0.7333333333333334
    """
    return float(dice_of_labels(labels, wanted, where).mean())


def dice_of_labels(labels: ArrayLike, wanted: ArrayLike, where: ArrayLike | None = None) -> Floats:
    """Twice the pixels that have a label in both, over the pixels that have it in either, counted in each.

    Parameters
    ----------
    labels : label image of what came out; a number that is not wanted anywhere is wrong wherever it stands.
    wanted : label image of the same shape.
    where : pixels to compare, bool of the same shape; None for all.

    Returns
    -------
    (k,) float64, for the wanted labels in the order of their numbers: 1 where a label came out as wanted.
    """
    x, y = np.asarray(labels), np.asarray(wanted)
    if x.shape != y.shape:
        raise InputError(f"two segmentations must have the same shape, not {x.shape} and {y.shape}")
    if where is not None:
        keep = np.asarray(where, dtype=bool)
        x, y = x[keep], y[keep]
    if x.size == 0:
        raise InputError("there is no pixel to compare")
    return np.array([2 * np.sum((x == v) & (y == v)) / (np.sum(x == v) + np.sum(y == v)) for v in np.unique(y)])
