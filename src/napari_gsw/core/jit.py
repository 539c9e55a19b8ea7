"""The one decorator of every compiled function of the package."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba

F = TypeVar("F", bound=Callable[..., Any])


def jit(function: F) -> F:
    """Compile without the GIL, once per machine: the result is kept on disk where that is possible.

    Where neither the package's folder nor the user's cache can be written, numba refuses to cache; the kernel is then
    compiled at each start instead.
    """
    try:
        return cast(F, numba.njit(nogil=True, cache=True)(function))
    except RuntimeError:
        return cast(F, numba.njit(nogil=True)(function))


def is_compiled(function: Callable[..., Any]) -> bool:
    """Whether a kernel is ready in this process: compiled, read from the cache, or never to be compiled at all."""
    return bool(getattr(function, "signatures", True))
