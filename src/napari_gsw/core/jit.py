"""The one way in which functions of the package are compiled, and the types that numba wants named."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
import numpy as np
from numba.core.cpu import CPUTargetOptions

F = TypeVar("F", bound=Callable[..., Any])

# How numba is told not to count references; a version without that option is slower and right.
NOT_COUNTED = {"_nrt": False} if hasattr(CPUTargetOptions, "_nrt") else {}
# And not to make what Python would call a kernel through.
NOT_FOR_PYTHON = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}


# np.int64 to numba, a plain integer to the type checker
as_int64 = cast(Callable[[Any], int], np.int64)
# The same for an index that is never negative, so that numba need not look whether it counts from the end.
as_index = cast(Callable[[Any], int], np.uint32)


def jit(function: F) -> F:
    """Compile without the GIL, once per machine: the result is kept on disk where that is possible.

    Where neither the package's folder nor the user's cache can be written, numba refuses to cache; the kernel is then
    compiled at each start instead.
    """
    return _compiled(function)


def inner(function: F) -> F:
    """As :func:`jit`, for a kernel that only kernels call: what Python would need to call it takes long to compile."""
    return _compiled(function, **NOT_FOR_PYTHON)


def lean(function: F) -> F:
    """As :func:`inner`, for a loop that makes no arrays and returns none: references are not counted in it.

    Numba counts them whenever an array is taken out of a record, which costs more than most of what a visit does.
    """
    return _compiled(function, **NOT_COUNTED, **NOT_FOR_PYTHON)


def inlined(function: F) -> F:
    """As :func:`lean`, for a part of an inner loop: it is compiled into whoever calls it."""
    return _compiled(function, forceinline=True, **NOT_COUNTED, **NOT_FOR_PYTHON)


def _compiled(function: F, **options: bool) -> F:
    try:
        kernel = numba.njit(nogil=True, cache=True, **options)(function)
    except RuntimeError:
        return cast(F, numba.njit(nogil=True, **options)(function))
    # Numba keeps what it compiled for as long as the function's own file is unchanged, but the code of functions in
    # other files is compiled into it. With the state of all kernels in the stamp, a change in any file counts.
    file: Any = getattr(getattr(kernel, "_cache", None), "_cache_file", None)
    if hasattr(file, "_source_stamp"):
        file._source_stamp = (file._source_stamp, _kernel_files())
        file._load_index = partial(_index, file._load_index)
    return cast(F, kernel)


def _index(load: Callable[[], dict[Any, str]]) -> dict[Any, str]:
    """What the cache of a kernel holds; nothing, if it was left by a version whose records are gone."""
    try:
        return load()
    except Exception:  # to unpickle may raise anything
        return {}


@cache
def _kernel_files() -> tuple[tuple[str, int, int], ...]:
    """Name, time and size of every file of the package that compiled code is made of."""
    package = Path(__file__).parents[1]
    # Records and the constants that name their entries are compiled in too.
    files = sorted([*package.rglob("*kernels.py"), *package.rglob("*tables.py"), *package.rglob("records.py")])
    return tuple((f.name, s.st_mtime_ns, s.st_size) for f in files for s in [f.stat()])


def is_compiled(function: Callable[..., Any]) -> bool:
    """Whether a kernel is ready in this process: compiled, read from the cache, or never to be compiled at all."""
    return bool(getattr(function, "signatures", True))
