"""The one decorator of every compiled function of the package."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
import numpy as np

F = TypeVar("F", bound=Callable[..., Any])


def jit(function: F) -> F:
    """Compile without the GIL, once per machine: the result is kept on disk where that is possible.

    Where neither the package's folder nor the user's cache can be written, numba refuses to cache; the kernel is then
    compiled at each start instead.
    """
    try:
        made = numba.njit(nogil=True, cache=True)(function)
    except RuntimeError:
        return cast(F, numba.njit(nogil=True)(function))
    # Numba keeps what it compiled for as long as the function's own file is unchanged, but the code of functions in
    # other files is compiled into it. With the state of all kernels in the stamp, a change in any file counts.
    file: Any = getattr(getattr(made, "_cache", None), "_cache_file", None)
    if hasattr(file, "_source_stamp"):
        file._source_stamp = (file._source_stamp, _kernel_files())
    return cast(F, made)


@cache
def _kernel_files() -> tuple[tuple[str, int, int], ...]:
    """Name, time and size of every file of the package that holds kernels."""
    files = sorted(Path(__file__).parents[1].rglob("*kernels.py"))
    return tuple((f.name, s.st_mtime_ns, s.st_size) for f in files for s in [f.stat()])


def is_compiled(function: Callable[..., Any]) -> bool:
    """Whether a kernel is ready in this process: compiled, read from the cache, or never to be compiled at all."""
    return bool(getattr(function, "signatures", True))


# np.int64 to numba, a plain integer to the type checker
as_int64 = cast(Callable[[Any], int], np.int64)


# The same for an index that is never negative, so that numba need not look whether it counts from the end.
as_index = cast(Callable[[Any], int], np.uint32)
