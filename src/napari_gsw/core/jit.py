"""The one way in which functions of the package are compiled, and the types that numba wants named."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numpy as np

from napari_gsw.core.compiler.kernel import Kernel, Use

F = TypeVar("F", bound=Callable[..., Any])

# np.int64 to numba, a plain integer to the type checker
as_int64 = cast(Callable[[Any], int], np.int64)
# The same for an index that is never negative, so that numba need not look whether it counts from the end.
as_index = cast(Callable[[Any], int], np.uint32)


def jit(function: F) -> F:
    """Compile without the GIL, once per machine: the result is kept on disk where that is possible."""
    return _kernel(function, Use())


def inner(function: F) -> F:
    """As :func:`jit`, for a kernel that only kernels call: what Python would need to call it takes long to compile."""
    return _kernel(function, Use(is_inner=True))


def lean(function: F) -> F:
    """As :func:`inner`, for a loop that makes no arrays and returns none: references are not counted in it.

    Numba counts them whenever an array is taken out of a record, which costs more than most of what a visit does.
    """
    return _kernel(function, Use(is_inner=True, is_counted=False))


def inlined(function: F) -> F:
    """As :func:`lean`, for a part of an inner loop: it is compiled into whoever calls it."""
    return _kernel(function, Use(is_inner=True, is_counted=False, is_inlined=True))


def merged(function: F) -> F:
    """For a kernel that one kernel calls, in one place: it becomes a part of its caller before anything is compiled.

    By itself it would be compiled for nobody, and once more as a part of each that leads to it.
    """
    return _kernel(function, Use(is_inner=True, is_merged=True))


def is_compiled(function: Callable[..., Any]) -> bool:
    """Whether a kernel is ready in this process: compiled, read from the cache, or never to be compiled at all."""
    return bool(getattr(function, "signatures", True))


def _kernel(function: F, use: Use) -> F:
    return cast(F, Kernel(function, use, _dispatcher))


def _dispatcher(kernel: Kernel) -> Any:
    # Which imports numba.
    from napari_gsw.core.compiler.numba_dispatcher import dispatcher_of

    return dispatcher_of(kernel)
