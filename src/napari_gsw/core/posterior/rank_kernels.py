"""One place of a sorted array, without sorting it: numba takes two seconds to compile a sort."""

from __future__ import annotations

from napari_gsw.core.arrays import Floats
from napari_gsw.core.jit import njit_inner


@njit_inner
def ranked(values: Floats, rank: int) -> float:
    """The value that `values` (n,) would have at index `rank` if they were sorted; they are put in another order."""
    first, last = 0, values.size - 1
    while first < last:
        pivot = values[(first + last) // 2]
        low, high = first, last
        while low <= high:
            while values[low] < pivot:
                low += 1
            while values[high] > pivot:
                high -= 1
            if low <= high:
                values[low], values[high] = values[high], values[low]
                low += 1
                high -= 1
        if rank <= high:
            last = high
        elif rank >= low:
            first = low
        else:
            break
    return float(values[rank])
