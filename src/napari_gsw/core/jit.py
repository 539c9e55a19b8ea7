"""Compilation by numba: decorators of kernels, a cache of compiled kernels, and the progress of compilation.

Numba's own cache does not see a change in another file that is compiled into the kernel, lets two processes write at
once, and does not notice damage. :class:`KernelCache` does better.
"""

from __future__ import annotations

import hashlib
import inspect
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
from types import SimpleNamespace
from typing import Any, NamedTuple, TypeVar, cast

import llvmlite
import numba
import numpy as np
from numba.core import event
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler, CompileResult
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
# Files of other versions of the sources that are kept for a kernel: several versions may be installed.
MAX_FILES = 12
# Import of names or modules of this package.
IMPORT = r"^from napari_gsw\.([\w.]+) import (\w.*|\([^)]*\))$"

# np.int64 to numba, a plain integer to the type checker
as_int64 = cast(Callable[[Any], int], np.int64)
# The same for an index that is never negative, so that numba does not check whether it counts from the end.
as_index = cast(Callable[[Any], int], np.uint32)

# Numba counts references whenever an array is taken out of a record, which takes longer than most of a sampler's visit.
# A numba without the option is slower and right.
_NOT_COUNTED = {"_nrt": False} if hasattr(CPUTargetOptions, "_nrt") else {}


class _InnerLibrary(JITCodeLibrary):  # type: ignore[misc]
    """Code of an inner kernel, which is linked into its callers and optimized there.

    Numba would do both twice, which takes a tenth longer, and makes whole-cluster moves a third slower.
    """

    codegen = SimpleNamespace(set_env=lambda name, environment: None)  # that is set in the callers

    def _optimize_final_module(self) -> None:
        pass

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._verify_declare_only_symbols()
        self._finalized = True

    def get_pointer_to_function(self, name: str) -> int:
        self._ensure_finalized()
        return 0  # Python does not call it


class _InnerCompiler(Compiler):  # type: ignore[misc]
    def compile_extra(self, func: Any) -> CompileResult:
        self.state.library = _InnerLibrary(self.state.targetctx.codegen(), func.__qualname__)
        return super().compile_extra(func)


class _OuterCompiler(Compiler):  # type: ignore[misc]
    """Compiler of kernels that contain inner ones, whose constants it sets in the compiled code."""

    def compile_extra(self, func: Any) -> CompileResult:
        result = super().compile_extra(func)
        for environment in result._find_referenced_environments():
            result.codegen.set_env(environment.env_name, environment)
        return result


class _InnerDispatcher(CPUDispatcher):  # type: ignore[misc]
    """Dispatcher of an inner kernel; called from Python it runs the Python function."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.py_func(*args, **kwargs)


def njit(function: F) -> F:
    """Compile a kernel that Python calls."""
    dispatcher: Any = numba.njit(nogil=True, no_cfunc_wrapper=True, pipeline_class=_OuterCompiler)(function)
    if (folder := cache_folder().path) is not None and not numba.config.DISABLE_JIT:
        dispatcher._cache = KernelCache(function, folder)
    return cast(F, dispatcher)


def njit_inner(function: F, **options: Any) -> F:
    """Compile a kernel that only kernels call."""
    if numba.config.DISABLE_JIT:
        return function
    options |= {"nopython": True, "nogil": True, "boundscheck": None}  # as numba.njit
    options |= {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
    return cast(F, _InnerDispatcher(function, targetoptions=options, pipeline_class=_InnerCompiler))


def njit_loop(function: F) -> F:
    """Compile an inner kernel without reference counts, for a loop that neither makes nor returns arrays."""
    return njit_inner(function, **_NOT_COUNTED)


def njit_inline(function: F) -> F:
    """Compile a kernel as :func:`njit_loop`, inlined by LLVM wherever it is called."""
    return njit_inner(function, **_NOT_COUNTED, forceinline=True)


def njit_merged(function: F) -> F:
    """Merge a short kernel into its callers before types are inferred, which saves compiling it by itself."""
    return cast(F, numba.njit(nogil=True, inline="always")(function))


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


@cache
def read_module(file: Path) -> tuple[bytes, tuple[Path, ...]]:
    """Read a module of this package, and find the modules that it imports from it."""
    content, imported = file.read_bytes(), []
    for package, names in re.findall(IMPORT, content.decode(), re.MULTILINE):
        folder = PACKAGE.joinpath(*package.split("."))
        imported += [folder.with_suffix(".py"), *(folder / f"{name}.py" for name in re.findall(r"\w+", names))]
    return content, tuple(path for path in imported if path.is_file())


@cache
def source_hash(module: Path) -> str:
    """Hash all that machine code depends on beside argument types and processor: our sources and the versions."""
    files, pending = set(), [module]
    while pending:  # what a kernel imports may be compiled into it
        if (file := pending.pop()) not in files:
            files.add(file)
            pending += read_module(file)[1]
    versions = f"{numba.__version__} {llvmlite.__version__} {np.__version__} {sys.version}".encode()
    return hashlib.sha256(b"".join([versions, *(read_module(file)[0] for file in sorted(files))])).hexdigest()[:12]


class KernelCache:
    """Cache of one kernel for numba: one file for each signature, named by a hash of what it was compiled from.

    Since the name says what is in a file, processes cannot mix up their results, and files may be moved to another
    installation of the same version. A file is written under another name first; a damaged one is compiled anew.
    """

    def __init__(self, function: Callable[..., Any], folder: Path) -> None:
        self._folder, self._function, self.cache_path = folder, function, str(folder)
        self._name = f"{function.__module__.rpartition('.')[2]}.{function.__qualname__}"

    def _current_name(self) -> str:
        return f"{self._name}.{source_hash(Path(inspect.getfile(self._function)))}-"

    def find_path(self, signature: Any, target_context: Any) -> Path:
        """Return the path of the file for a signature."""
        closure = [cell.cell_contents for cell in self._function.__closure__ or ()]
        processor = target_context.codegen().magic_tuple()
        key = repr((str(signature), processor, self._function.__code__.co_code, repr(closure)))
        digest = hashlib.sha256(key.encode()).hexdigest()[:24]
        return self._folder / f"{self._current_name()}{digest}{ENDING}"

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
        """Write the machine code for a signature, unless the disk is full, and remove the oldest files."""
        if compiled.lifted or compiled.library.has_dynamic_globals:  # as numba's own cache
            return
        content = dumps(compiled._reduce())
        with suppress(OSError):
            descriptor, temporary = tempfile.mkstemp(dir=self._folder, prefix=f"{self._name}.", suffix=".tmp")
            try:
                with os.fdopen(descriptor, "wb") as file:
                    file.write(_digest(content) + content)
                os.replace(temporary, self.find_path(signature, compiled.target_context))
            except BaseException:
                os.unlink(temporary)
                raise
            paths = self._folder.glob(f"{self._name}.*{ENDING}")
            old = [path for path in paths if not path.name.startswith(self._current_name())]
            for path in sorted(old, key=lambda path: path.stat().st_mtime)[:-MAX_FILES]:
                path.unlink(missing_ok=True)

    def has_any(self) -> bool:
        """Return whether the kernel has been compiled for any types."""
        return any(self._folder.glob(f"{self._current_name()}*{ENDING}"))


def _digest(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=DIGEST_SIZE).digest()


class CompilationProgress(event.Listener):  # type: ignore[misc]
    """Counts the kernels of this package that this process compiles; those read from the cache do not count."""

    def __init__(self) -> None:
        self.count = 0  # kernels compiled so far, by signature
        self.depth = 0  # kernels being compiled now: one, and those that wait for it
        self.watchers: list[Callable[[], None]] = []  # called in the thread that compiles, at begin and end of each
        self._lock = threading.Lock()

    def add(self, count: int = 0, depth: int = 0) -> None:
        """Count so many kernels more as done and as begun, here or in another process that compiles for this one."""
        with self._lock:
            self.count += count
            self.depth += depth
        for watcher in list(self.watchers):
            watcher()

    def notify(self, event: event.Event) -> None:
        """Count a kernel as begun or as done."""
        if event.data["dispatcher"].py_func.__module__.startswith("napari_gsw."):  # napari has kernels, too
            self.add(count=int(event.is_end), depth=1 if event.is_start else -1)

    on_start = on_end = notify


PROGRESS = CompilationProgress()
event.register("numba:compile", PROGRESS)


# Numba compiles several functions for each use of np.zeros, np.full and np.arange; these take a third of that time.


@njit_merged
def zeros(shape: int | tuple[int, ...], dtype: type[S]) -> NDArray[S]:
    """Make an array of zeros."""
    array = np.empty(shape, dtype)
    array[:] = 0
    return array


@njit_merged
def full(shape: int | tuple[int, ...], value: Any, dtype: type[S]) -> NDArray[S]:
    """Make an array of one value."""
    array = np.empty(shape, dtype)
    array[:] = value
    return array


@njit_merged
def arange(n: int, dtype: type[S]) -> NDArray[S]:
    """Make the array 0, 1, ..., n - 1."""
    array = np.empty(n, dtype)
    for i in range(n):
        array[i] = i
    return array
