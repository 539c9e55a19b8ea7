"""The one way in which functions of the package are compiled, and the types that numba wants named."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar, cast

import numba
import numpy as np
from numba.core import event as events
from numba.core.compiler import Compiler
from numba.core.cpu import CPUTargetOptions
from numba.core.errors import NumbaError

from napari_gsw.core.inner_library import IS_POSSIBLE, InnerCompiler, OuterCompiler
from napari_gsw.core.kernel_cache import KernelCache
from napari_gsw.core.kernel_files import cache_folder

F = TypeVar("F", bound=Callable[..., Any])

# How numba is told not to count references; a version without that option is slower and right.
NOT_COUNTED = {"_nrt": False} if hasattr(CPUTargetOptions, "_nrt") else {}


# np.int64 to numba, a plain integer to the type checker
as_int64 = cast(Callable[[Any], int], np.int64)
# The same for an index that is never negative, so that numba need not look whether it counts from the end.
as_index = cast(Callable[[Any], int], np.uint32)


def jit(function: F) -> F:
    """Compile without the GIL, once per machine: the result is kept on disk where that is possible."""
    return _compiled(function, OuterCompiler)


def inner(function: F) -> F:
    """As :func:`jit`, for a kernel that only kernels call: what Python would need to call it takes long to compile."""
    return _compiled(function, InnerCompiler)


def lean(function: F) -> F:
    """As :func:`inner`, for a loop that makes no arrays and returns none: references are not counted in it.

    Numba counts them whenever an array is taken out of a record, which costs more than most of what a visit does.
    """
    return _compiled(function, InnerCompiler, **NOT_COUNTED)


def inlined(function: F) -> F:
    """As :func:`lean`, for a part of an inner loop: it is compiled into whoever calls it."""
    return _compiled(function, InnerCompiler, forceinline=True, **NOT_COUNTED)


def merged(function: F) -> F:
    """For a kernel that one kernel calls, in one place: it becomes a part of its caller before anything is compiled.

    By itself it would be compiled for nobody, and once more as a part of each that leads to it.
    """
    return cast(F, numba.njit(nogil=True, inline="always")(function))


def _compiled(function: F, compiler: type[Compiler], **options: bool) -> F:
    is_inner = compiler is InnerCompiler
    options |= {"no_cpython_wrapper": is_inner, "no_cfunc_wrapper": True}  # what Python, and C, would call it through
    own = {"pipeline_class": compiler} if IS_POSSIBLE else {}
    kernel = numba.njit(nogil=True, **own, **options)(function)
    folder = cache_folder().path
    if folder is not None and hasattr(kernel, "_cache"):  # which a function has not that numba was told to leave alone
        kernel._cache = KernelCache(function, folder, is_inner and IS_POSSIBLE)
        kernel._compile_for_args = partial(_compile_beside_first, kernel, kernel._compile_for_args)
    return cast(F, kernel)


def _compile_beside_first(kernel: Any, compile_here: Callable[..., Any], *args: Any) -> Any:
    """What numba does for arguments of types that are new to this process; another process may compile for it first."""
    if COMPILATION.beside is not None:
        with suppress(NumbaError, ValueError):  # what has no type is for numba to tell
            COMPILATION.beside(kernel, tuple(kernel.typeof_pyval(value) for value in args))
    return compile_here(*args)


def is_compiled(function: Callable[..., Any]) -> bool:
    """Whether a kernel is ready in this process: compiled, read from the cache, or never to be compiled at all."""
    return bool(getattr(function, "signatures", True))


class Compilation(events.Listener):  # type: ignore[misc]
    """Counts the kernels that this process compiles; what is read from the cache does not count.

    Attributes
    ----------
    count : kernels that are compiled, each as often as it was for other types.
    depth : kernels that are being compiled now: one, and those that wait for it.
    watchers : called, in whatever thread compiles, when a kernel is begun and when it is compiled.
    beside : called with a kernel and the types of its arguments before this process compiles it or reads it from the
        cache, so that somebody else can compile it; None if nobody does.
    """

    def __init__(self) -> None:
        self.count = self.depth = 0
        self.watchers: list[Callable[[], None]] = []
        self.beside: Callable[[Any, tuple[Any, ...]], None] | None = None
        self._lock = threading.Lock()

    def on_start(self, event: events.Event) -> None:
        if _is_ours(event):
            self.add(depth=1)

    def on_end(self, event: events.Event) -> None:
        if _is_ours(event):
            self.add(count=1, depth=-1)

    def add(self, count: int = 0, depth: int = 0) -> None:
        """So many more are compiled, and are being compiled, here or in a process beside this one."""
        with self._lock:
            self.count += count
            self.depth += depth
        for watcher in list(self.watchers):
            watcher()


def _is_ours(event: events.Event) -> bool:
    """Whether it is about a kernel of this package; napari has some, too."""
    return bool(event.data["dispatcher"].py_func.__module__.startswith("napari_gsw."))


# That of this process.
COMPILATION = Compilation()
events.register("numba:compile", COMPILATION)
