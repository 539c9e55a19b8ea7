"""Compilation by numba: the decorators of kernels, the files that keep what was compiled, and how far it has come.

Numba compiles a kernel for each combination of argument types and keeps the result on disk, so that it happens once on
a computer. Its own cache neither sees a change in another file that is compiled into the kernel, nor lets two processes
write at once, nor notices damage; `KernelCache` does.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import re
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, cast

import llvmlite
import numba
import numpy as np
from numba.core import event
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler, CompileResult, Flags
from numba.core.cpu import CPUTargetOptions
from numba.core.registry import CPUDispatcher
from numba.core.runtime import rtsys
from numba.core.serialize import dumps
from numpy.typing import NDArray

F = TypeVar("F", bound=Callable[..., Any])
S = TypeVar("S", bound=np.generic)

PACKAGE = Path(__file__).parents[1]
ENDING = ".nbc"
# Bytes of the digest with which a file of the cache begins.
DIGEST_SIZE = 16
# Files kept for a kernel when it is compiled again: it has several signatures, and several versions may be installed.
MAX_FILES = 12

# np.int64 to numba, a plain integer to the type checker
as_int64 = cast(Callable[[Any], int], np.int64)
# The same for an index that is never negative, so that numba need not look whether it counts from the end.
as_index = cast(Callable[[Any], int], np.uint32)

# Reference counting, which numba does whenever an array is taken out of a record, costs more than most of a visit does.
# A numba without the option is slower and right.
_NOT_COUNTED = {"_nrt": False} if hasattr(CPUTargetOptions, "_nrt") else {}


class _NoEngine:
    @staticmethod
    def set_env(name: str, environment: object) -> None:
        """Do nothing: the environment is set in the callers."""


class InnerLibrary(JITCodeLibrary):  # type: ignore[misc]
    """Code of an inner kernel, which is only linked into its callers and optimized there: numba would do both twice."""

    codegen = _NoEngine()

    def _optimize_final_module(self) -> None:
        pass

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._verify_declare_only_symbols()
        self._finalized = True

    def get_pointer_to_function(self, name: str) -> int:
        """Return no address: Python does not call it."""
        self._ensure_finalized()
        return 0


class KernelFlags(Flags):  # type: ignore[misc]
    """Flags without those for callers, since numba compiles what a kernel calls anew for each combination of flags."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Flags) and _FLAGS | self._values | _CALLERS == _FLAGS | other._values | _CALLERS

    def __hash__(self) -> int:
        return _FLAGS_HASH


_FLAGS = {name: option.default for name, option in Flags.options.items()}
_FLAGS_HASH = hash(Flags())  # numba's depends on the names alone
_CALLERS = {"no_cpython_wrapper": None, "no_cfunc_wrapper": None}


class _Compiler(Compiler):  # type: ignore[misc]
    def __init__(self, typing: Any, target: Any, library: Any, args: Any, returned: Any, flags: Flags, types: Any):
        super().__init__(typing, target, library, args, returned, KernelFlags(flags), types)


class InnerCompiler(_Compiler):
    """Compiler of inner kernels."""

    def compile_extra(self, func: Any) -> CompileResult:
        """Compile into a library that is only linked."""
        self.state.library = InnerLibrary(self.state.targetctx.codegen(), func.__qualname__)
        return super().compile_extra(func)


class OuterCompiler(_Compiler):
    """Compiler of kernels that have inner ones in them, whose constants it sets in the compiled code."""

    def compile_extra(self, func: Any) -> CompileResult:
        """Compile as numba does."""
        result = super().compile_extra(func)
        for environment in result._find_referenced_environments():
            result.codegen.set_env(environment.env_name, environment)
        return result


class InnerDispatcher(CPUDispatcher):  # type: ignore[misc]
    """Dispatcher of a kernel that only kernels call: there is no machine code that Python could call it by."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the Python function."""
        return self.py_func(*args, **kwargs)


def njit(function: F) -> F:
    """Compile a kernel that Python calls."""
    dispatcher: Any = numba.njit(nogil=True, no_cfunc_wrapper=True, pipeline_class=OuterCompiler)(function)
    if (folder := cache_folder().path) is not None and not numba.config.DISABLE_JIT:
        dispatcher._cache = KernelCache(function, folder)
    return cast(F, dispatcher)


def njit_inner(function: F) -> F:
    """Compile a kernel that only kernels call."""
    return _compile_inner(function)


def njit_loop(function: F) -> F:
    """Compile an inner kernel without reference counts, for a loop that neither makes nor returns arrays."""
    return _compile_inner(function, **_NOT_COUNTED)


def njit_inline(function: F) -> F:
    """Compile a kernel as :func:`njit_loop`, inlined by LLVM wherever it is called."""
    return _compile_inner(function, **_NOT_COUNTED, forceinline=True)


def njit_merged(function: F) -> F:
    """Merge a kernel into its only caller before types are inferred, which saves compiling it by itself."""
    return cast(F, numba.njit(nogil=True, inline="always")(function))


def _compile_inner(function: F, **options: Any) -> F:
    if numba.config.DISABLE_JIT:
        return function
    options |= {"nopython": True, "nogil": True, "boundscheck": None}  # as numba.njit
    options |= {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
    return cast(F, InnerDispatcher(function, targetoptions=options, pipeline_class=InnerCompiler))


class CacheFolder(NamedTuple):
    """Folder of compiled kernels, None where nothing can be kept, and a notice for the user or ""."""

    path: Path | None
    notice: str = ""


@cache
def cache_folder() -> CacheFolder:
    """Return the first folder that can be written: NUMBA_CACHE_DIR, the package's own or the user's cache."""
    for folder in _candidate_folders():
        with suppress(OSError):
            folder.mkdir(parents=True, exist_ok=True)
            tempfile.TemporaryFile(dir=folder).close()
            return CacheFolder(folder)
    return CacheFolder(
        None,
        "compiled kernels cannot be saved, so each start takes half a minute longer:"
        " set the environment variable NUMBA_CACHE_DIR to a folder that you can write",
    )


def _candidate_folders() -> Iterator[Path]:
    if folder := os.environ.get("NUMBA_CACHE_DIR"):
        yield Path(folder, "napari-gsw")
    yield PACKAGE / "__pycache__"
    from platformdirs import user_cache_dir

    yield Path(user_cache_dir("napari-gsw", appauthor=False), "kernels")


def compiled_files() -> list[Path]:
    """List the files of the kernels and of what they import from this package, such as constants and records."""
    files, pending = set(), [*PACKAGE.rglob("*_kernels.py"), Path(__file__)]
    while pending:
        files.add(file := pending.pop())
        for module in re.findall(r"^from napari_gsw\.([\w.]+) import", file.read_text("utf-8"), re.MULTILINE):
            imported = PACKAGE.joinpath(*module.split(".")).with_suffix(".py")
            if imported.exists() and imported not in files:
                pending.append(imported)
    return sorted(files)


@cache
def source_hash() -> str:
    """Hash all that machine code depends on beside argument types and processor: our sources and the versions."""
    content = hashlib.sha256(f"{numba.__version__} {llvmlite.__version__} {np.__version__} {sys.version}".encode())
    for file in compiled_files():
        content.update(file.read_bytes())
    return content.hexdigest()[:12]


class KernelCache:
    """Cache of one kernel with numba's methods: a file for each signature, named by a hash of all that it depends on.

    As the name says what is in a file, processes cannot mix up their results, and the files may be moved to wherever
    the same version is installed. A file is written under another name first; one that is damaged is compiled anew.
    """

    def __init__(self, function: Callable[..., Any], folder: Path) -> None:
        self._folder, self._function = folder, function
        self._name = f"{function.__module__.rpartition('.')[2]}.{function.__qualname__}"

    @property
    def cache_path(self) -> str:
        """Folder of the files."""
        return str(self._folder)

    def find_path(self, signature: Any, target_context: Any) -> Path:
        """Return the path of the file for a signature."""
        function = self._function
        closure = [cell.cell_contents for cell in function.__closure__ or ()]
        processor = target_context.codegen().magic_tuple()
        key = repr((str(signature), processor, function.__code__.co_code, repr(closure)))
        digest = hashlib.sha256(key.encode()).hexdigest()[:24]
        return self._folder / f"{self._name}.{source_hash()}-{digest}{ENDING}"

    def load_overload(self, signature: Any, target_context: Any) -> CompileResult | None:
        """Read the machine code for a signature; None if there is none, or none that can be read."""
        # Numba's own cache imports here all that compiling may need, which takes longer than to read all kernels.
        rtsys.initialize(target_context)
        with suppress(Exception):  # unpickling may raise anything
            content = self.find_path(signature, target_context).read_bytes()
            if content[:DIGEST_SIZE] == _digest(content[DIGEST_SIZE:]):  # else damaged code would be run
                return CompileResult._rebuild(target_context, *pickle.loads(content[DIGEST_SIZE:]))
        return None

    def save_overload(self, signature: Any, compiled: CompileResult) -> None:
        """Write the machine code for a signature; where the disk is full nothing is kept."""
        if compiled.lifted or compiled.library.has_dynamic_globals:  # as numba's own cache
            return
        content = dumps(compiled._reduce())
        path = self.find_path(signature, compiled.target_context)
        with suppress(OSError):
            descriptor, temporary = tempfile.mkstemp(dir=self._folder, prefix=f"{self._name}.", suffix=".tmp")
            try:
                with os.fdopen(descriptor, "wb") as file:
                    file.write(_digest(content) + content)
                os.replace(temporary, path)
            except BaseException:
                os.unlink(temporary)
                raise
            self._remove_old()

    def flush(self) -> None:
        """Remove all files of the kernel."""
        for file in self._list_files():
            file.unlink(missing_ok=True)

    def has_any(self) -> bool:
        """Whether the kernel has been compiled for any types."""
        return any(file.name.startswith(f"{self._name}.{source_hash()}-") for file in self._list_files())

    def _list_files(self) -> list[Path]:
        return list(self._folder.glob(f"{self._name}.*{ENDING}"))

    def _remove_old(self) -> None:
        """Remove the oldest of the files that another version of the sources has left."""
        current = f"{self._name}.{source_hash()}-"
        files = [(file.stat().st_mtime, file) for file in self._list_files() if not file.name.startswith(current)]
        for _, file in sorted(files)[:-MAX_FILES]:
            file.unlink(missing_ok=True)


def _digest(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=DIGEST_SIZE).digest()


class CompilationProgress(event.Listener):  # type: ignore[misc]
    """Counts the kernels of this package that this process compiles; those read from the cache do not count.

    Attributes
    ----------
    count : kernels compiled so far, by signature.
    depth : kernels being compiled now: one, and those that wait for it.
    watchers : called, in the thread that compiles, whenever a kernel is begun or done.
    """

    def __init__(self) -> None:
        self.count = self.depth = 0
        self.watchers: list[Callable[[], None]] = []
        self._lock = threading.Lock()

    def add(self, count: int = 0, depth: int = 0) -> None:
        """Count so many kernels more as done and as begun, here or in another process that compiles for this one."""
        with self._lock:
            self.count += count
            self.depth += depth
        for watcher in list(self.watchers):
            watcher()

    def on_start(self, event: event.Event) -> None:
        """Count a kernel as begun."""
        if _is_ours(event):
            self.add(depth=1)

    def on_end(self, event: event.Event) -> None:
        """Count a kernel as done."""
        if _is_ours(event):
            self.add(count=1, depth=-1)


def _is_ours(event: event.Event) -> bool:
    return bool(event.data["dispatcher"].py_func.__module__.startswith("napari_gsw."))  # napari has kernels, too


PROGRESS = CompilationProgress()
event.register("numba:compile", PROGRESS)


# Numba compiles a function and others that it calls for each use of np.zeros, np.full and np.arange; these three take a
# third of that time.


@njit_inner
def zeros(shape: int | tuple[int, ...], dtype: type[S]) -> NDArray[S]:
    """Make an array of zeros."""
    array = np.empty(shape, dtype)
    array[:] = 0
    return array


@njit_inner
def full(shape: int | tuple[int, ...], value: Any, dtype: type[S]) -> NDArray[S]:
    """Make an array of one value."""
    array = np.empty(shape, dtype)
    array[:] = value
    return array


@njit_inner
def arange(n: int, dtype: type[S]) -> NDArray[S]:
    """Make the array 0, 1, ..., n - 1."""
    array = np.empty(n, dtype)
    for i in range(n):
        array[i] = i
    return array
