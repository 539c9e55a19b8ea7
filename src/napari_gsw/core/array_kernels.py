"""Arrays that a kernel begins with, as those of ``np.zeros``, ``np.full`` and ``np.arange``.

Of these numba compiles a function, and others that it calls, for every type of array, and makes machine code of each: a
third of a second, where everything has to be compiled. These here take a third of that.
"""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from napari_gsw.core.jit import inner

S = TypeVar("S", bound=np.generic)


@inner
def zeros(shape: int | tuple[int, ...], dtype: type[S]) -> NDArray[S]:
    """An array of zeros."""
    array = np.empty(shape, dtype)
    array[:] = 0
    return array


@inner
def full(shape: int | tuple[int, ...], value: Any, dtype: type[S]) -> NDArray[S]:
    """An array that has one value throughout."""
    array = np.empty(shape, dtype)
    array[:] = value
    return array


@inner
def counting(n: int, dtype: type[S]) -> NDArray[S]:
    """(n,) 0, 1, 2, ..."""
    array = np.empty(n, dtype)
    for i in range(n):
        array[i] = i
    return array
