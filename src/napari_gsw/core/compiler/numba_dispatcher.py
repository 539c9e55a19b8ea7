"""What numba makes of a kernel: a dispatcher, which compiles it or reads what is kept."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import numba
from numba.core import event as events
from numba.core.cpu import CPUTargetOptions
from numba.core.errors import NumbaError

from napari_gsw.core.compiler.compilation import COMPILATION
from napari_gsw.core.compiler.inner_library import IS_POSSIBLE, InnerCompiler, OuterCompiler
from napari_gsw.core.compiler.kernel import Kernel
from napari_gsw.core.compiler.kernel_cache import KernelCache
from napari_gsw.core.compiler.kernel_files import cache_folder

# How numba is told not to count references; a version without that option is slower and right.
NOT_COUNTED = {"_nrt": False} if hasattr(CPUTargetOptions, "_nrt") else {}


def dispatcher_of(kernel: Kernel) -> Any:
    """Numba's dispatcher of a kernel; the function itself if numba was told to leave functions alone."""
    use = kernel.use
    if use.is_merged:
        return numba.njit(nogil=True, inline="always")(kernel.py_func)
    options: dict[str, Any] = {} if use.is_counted else dict(NOT_COUNTED)
    options |= {"forceinline": True} if use.is_inlined else {}
    # What Python, and C, would call it through.
    options |= {"no_cpython_wrapper": use.is_inner, "no_cfunc_wrapper": True}
    if IS_POSSIBLE:
        options["pipeline_class"] = InnerCompiler if use.is_inner else OuterCompiler
    dispatcher = numba.njit(nogil=True, **options)(kernel.py_func)
    folder = cache_folder().path
    if folder is not None and hasattr(dispatcher, "_cache"):
        dispatcher._cache = KernelCache(kernel.py_func, folder, use.is_inner and IS_POSSIBLE)
        dispatcher._compile_for_args = partial(_compile_beside_first, kernel, dispatcher, dispatcher._compile_for_args)
    return dispatcher


def _compile_beside_first(kernel: Kernel, dispatcher: Any, compile_here: Callable[..., Any], *args: Any) -> Any:
    """What numba does for arguments of types that are new to this process; another process may compile for it first."""
    if COMPILATION.beside is not None:
        with suppress(NumbaError, ValueError):  # what has no type is for numba to tell
            COMPILATION.beside(kernel, tuple(dispatcher.typeof_pyval(value) for value in args))
    return compile_here(*args)


class _Listener(events.Listener):  # type: ignore[misc]
    """Hears of every kernel of this package that numba compiles; napari has some, too."""

    def on_start(self, event: events.Event) -> None:
        if _is_ours(event):
            COMPILATION.add(depth=1)

    def on_end(self, event: events.Event) -> None:
        if _is_ours(event):
            COMPILATION.add(count=1, depth=-1)


def _is_ours(event: events.Event) -> bool:
    return bool(event.data["dispatcher"].py_func.__module__.startswith("napari_gsw."))


events.register("numba:compile", _Listener())
