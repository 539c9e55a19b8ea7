"""Clamped sites: what seeds must be, and whether labels respect them."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from napari_gsw.core.arrays import Ints
from napari_gsw.core.errors import InputError
from napari_gsw.core.inputs import plain_array
from napari_gsw.core.model.problem import check_labels


def check_seeds(seeds: ArrayLike, n: int) -> Ints:
    """(n,) int32 seeds, or an InputError that says what is wrong with them."""
    check_labels(seeds, n, "seeds")
    values = plain_array("seeds", seeds)  # as they came: a huge number would be another one as int64
    if values.min() < -1 or values.max() > np.iinfo(np.int32).max:
        raise InputError(
            f"seeds must be numbers in [0, 2147483647], or -1 for a free site, not {values.min()} to {values.max()}"
        )
    return values.astype(np.int32)


def are_held(labels: NDArray[np.integer], seeds: Ints) -> bool:
    """Whether in labels (n,) sites with the same seed share a cluster, and sites with different seeds do not."""
    clamped = seeds >= 0
    pairs = np.unique(np.stack((seeds[clamped], labels[clamped])), axis=1)
    return all(len(np.unique(row)) == pairs.shape[1] for row in pairs)
