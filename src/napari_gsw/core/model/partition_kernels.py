"""Canonical numbers of a partition, compiled."""

from __future__ import annotations

import numpy as np

from napari_gsw.core.arrays import Ints
from napari_gsw.core.jit import jit


@jit
def renumber(labels: Ints, result: Ints) -> None:
    """Labels become 0, 1, ... in the order of their first site: equal partitions become equal arrays."""
    most = 0
    for i in range(labels.size):
        most = max(most, labels[i])
    number = np.full(most + 1, -1, np.int32)
    count = 0
    for i in range(labels.size):
        if number[labels[i]] < 0:
            number[labels[i]] = count
            count += 1
        result[i] = number[labels[i]]


@jit
def canonical(labels: Ints) -> Ints:
    """The same partition, renumbered."""
    result = np.empty(labels.size, np.int32)
    renumber(labels, result)
    return result
