"""A kernel: a function that numba compiles, or that was compiled before and is run without numba.

Importing numba takes longer than many an image does. So it is imported when something has to be compiled; what is kept
of a kernel is run as it is.
"""

from __future__ import annotations

import functools
import hashlib
import platform
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple

from napari_gsw.core.compiler.argument_types import NoWords, words_of, words_of_type
from napari_gsw.core.compiler.kernel_files import KernelFiles, cache_folder, kernel_name
from napari_gsw.core.compiler.machine_code import MachineCode, callable_of, is_wanted, processor

CODE = ".code"
# Attributes of a kernel that are not numba's.
_OWN = {"py_func", "use", "_made_by", "_dispatcher", "_ready", "_lock"}


class Use(NamedTuple):
    """Who calls a kernel, and how it is compiled into them; see the decorators of ``core.jit``."""

    is_inner: bool = False
    is_counted: bool = True
    is_inlined: bool = False
    is_merged: bool = False


class Kernel:
    """A function that is compiled for each type of its arguments; to numba it is a dispatcher of numba's.

    Parameters
    ----------
    function : what is compiled, `py_func` from then on.
    use : who calls it.
    dispatcher : makes numba's dispatcher of a kernel.
    """

    def __init__(self, function: Callable[..., Any], use: Use, dispatcher: Callable[[Kernel], Any]) -> None:
        functools.update_wrapper(self, function)
        self.py_func, self.use = function, use
        self._made_by, self._dispatcher = dispatcher, None
        self._ready: dict[str, Callable[..., Any]] = {}
        self._lock = threading.RLock()

    def __repr__(self) -> str:
        return f"<kernel {self.py_func.__module__}.{self.py_func.__qualname__}>"

    def __call__(self, *args: Any, **named: Any) -> Any:
        """Run it; compile it before if that was not done for arguments of such types.

        What only kernels call is not compiled for Python, which would run into nothing: Python runs it itself.
        """
        if self.use.is_inner:
            return self.py_func(*args, **named)
        if self._dispatcher is None and not named and (ready := self._ready_for(args)) is not None:
            return ready(*args)
        return self.dispatcher(*args, **named)

    @property
    def dispatcher(self) -> Any:
        """Numba's, made when it is first asked for."""
        if self._dispatcher is None:
            with self._lock:
                if self._dispatcher is None:
                    self._dispatcher = self._made_by(self)
        return self._dispatcher

    @property
    def signatures(self) -> list[str]:
        """Types of arguments that it is ready for in this process, in words; what was kept, numba may have read too."""
        by_numba: list[Any] = [] if self._dispatcher is None else getattr(self._dispatcher, "signatures", [()])
        return list(dict.fromkeys([*self._ready, *map(_words_of_types, by_numba)]))

    def __getattr__(self, name: str) -> Any:
        """What numba asks a dispatcher for."""
        if name == "_numba_type_":
            from numba import types

            return types.Dispatcher(self.dispatcher)
        if name in _OWN or name.startswith("__"):  # what Python looks for in any object
            raise AttributeError(name)
        return getattr(self.dispatcher, name)

    def __reduce__(self) -> str | tuple[Any, ...]:
        """Another process knows it by its name, or makes it again if it has none."""
        name = self.py_func.__qualname__
        if getattr(sys.modules.get(self.py_func.__module__), name, None) is self:
            return name
        return Kernel, (self.py_func, self.use, self._made_by)

    def _ready_for(self, args: tuple[Any, ...]) -> Callable[..., Any] | None:
        """What runs for such arguments without numba; None if there is nothing."""
        try:
            words = ", ".join([words_of(value) for value in args])
        except NoWords:
            return None
        if (ready := self._ready.get(words)) is None:
            with self._lock, suppress(Exception):  # whatever is wrong with what is kept, numba reads or compiles it
                ready = self._ready.get(words) or self._read(words)
        return ready

    def _read(self, words: str) -> Callable[..., Any] | None:
        files = code_files(self.py_func) if is_wanted() else None
        kept = None if files is None else files.load(code_key(self.py_func, words))
        if not isinstance(kept, MachineCode):
            return None
        self._ready[words] = ready = callable_of(kept, self.py_func)
        return ready


def _words_of_types(kinds: tuple[Any, ...]) -> str:
    try:
        return ", ".join([words_of_type(kind) for kind in kinds])
    except NoWords:
        return str(kinds)


def is_kept(kernel: Any) -> bool:
    """Whether a kernel is in the cache, compiled for some type of its arguments."""
    folder = cache_folder().path
    return folder is not None and KernelFiles(folder, kernel_name(kernel.py_func)).any


def code_files(function: Callable[..., Any]) -> KernelFiles | None:
    """Where the machine code of a kernel is kept; None if nowhere."""
    folder = cache_folder().path
    if folder is None or function.__closure__:  # what is around it is compiled into it, and nobody looks at that
        return None
    return KernelFiles(folder, kernel_name(function), CODE)


def code_key(function: Callable[..., Any], words: str) -> tuple[Any, ...]:
    """What machine code depends on beside the sources of this package; `words` are those of its arguments."""
    return words, platform.machine(), *processor(), hashlib.sha256(function.__code__.co_code).hexdigest()
