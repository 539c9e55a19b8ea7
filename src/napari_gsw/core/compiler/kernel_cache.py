"""Compiled kernels are kept in files of ours, in the place of numba's own."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

from numba.core import environment
from numba.core.caching import CompileResultCacheImpl, FunctionCache
from numba.core.runtime import rtsys

from napari_gsw.core.compiler.argument_types import words_of_type
from napari_gsw.core.compiler.inner_library import InnerLibrary, read_inner
from napari_gsw.core.compiler.kernel import code_files, code_key
from napari_gsw.core.compiler.kernel_files import ENDING, KernelFiles, kernel_name
from napari_gsw.core.compiler.machine_code import IS_TRIED, Environment, MachineCode, is_known, processor


def kept_path(kernel: Any, types: tuple[Any, ...]) -> Path | None:
    """The file in which a kernel is kept, or would be, for some types of its arguments; None if it is not kept."""
    kept = getattr(kernel, "_cache", None)
    return kept.path(types, kernel.targetctx) if isinstance(kept, KernelCache) else None


class _Origin:
    """What numba asks of the place that a function comes from."""

    def __init__(self, file: str) -> None:
        self._py_file = file

    def ensure_cache_path(self) -> None:
        """It is there."""


class _KernelCacheImpl(CompileResultCacheImpl):  # type: ignore[misc]
    def __init__(self, function: Any) -> None:
        self._lineno = function.__code__.co_firstlineno
        self._locator = _Origin(function.__code__.co_filename)


class _InnerCacheImpl(_KernelCacheImpl):
    def rebuild(self, target_context: Any, payload: tuple[Any, ...]) -> Any:
        return read_inner(target_context, payload)


class _Unpickler(pickle.Unpickler):
    """Reads what is kept of a kernel, without importing those parts of numba that were compiled into it."""

    def find_class(self, module: str, name: str) -> Any:
        is_environment = (module, name) == (environment.__name__, environment._rebuild_env.__name__)
        return _kept_environment if is_environment else super().find_class(module, name)


def _kept_environment(module: str, constants: list[Any], name: str) -> Any:
    """The names and constants around a compiled function, as numba makes them again.

    Names are for what Python runs, and all kernels are machine code. Numba imports the module of every function for
    them, its own too: most of what it needs to compile for arrays, in a process that compiles nothing.
    """
    known = environment.lookup_environment(name)
    if known is not None or module in sys.modules or not module.startswith("numba."):
        return environment._rebuild_env(module, constants, name)
    kept = environment.Environment({"__name__": module})
    kept.consts[:] = constants
    kept.env_name = name
    environment.Environment._memo[name] = kept
    return kept


def _read(file: BinaryIO) -> Any:
    return _Unpickler(file).load()


class KernelCache(FunctionCache):  # type: ignore[misc]
    """What numba keeps of one kernel, in files that no other process can write over.

    Parameters
    ----------
    folder : of the files.
    is_inner : whether it has a library of ours.
    """

    def __init__(self, function: Any, folder: Path, is_inner: bool = False) -> None:
        self._name, self._py_func = repr(function), function
        self._impl = _InnerCacheImpl(function) if is_inner else _KernelCacheImpl(function)
        self._cache_path = str(folder)
        self._cache_file = KernelFiles(folder, kernel_name(function), ENDING, _read)
        self.enable()

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """What is kept for some types of arguments; None if there is nothing.

        Numba's own imports first all that may be needed to compile, which takes longer than to read all kernels; of
        that a kernel that is compiled already needs what counts its references.
        """
        rtsys.initialize(target_context)
        return self._load_overload(sig, target_context)

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep what was compiled, for numba and for :class:`~napari_gsw.core.compiler.kernel.Kernel`."""
        super().save_overload(sig, data)
        with suppress(Exception):  # it was compiled, and numba reads it, whatever is wrong here
            keep_code(self._py_func, data)

    def flush(self) -> None:
        """Forget everything."""
        super().flush()
        if (files := code_files(self._py_func)) is not None:
            files.flush()

    def path(self, types: tuple[Any, ...], context: Any) -> Path:
        """The file for some types of arguments, compiled in a context of numba's."""
        return self._cache_file.path(self._index_key(types, context.codegen()))


def keep_code(function: Callable[..., Any], compiled: Any) -> None:
    """Keep the machine code of a kernel if that is all that it takes to run it."""
    words = ", ".join([words_of_type(kind) for kind in compiled.signature.args])
    files, code = code_files(function), machine_code_of(compiled)
    if files is not None and code is not None:
        files.save(code_key(function, words), code)


def machine_code_of(compiled: Any) -> MachineCode | None:
    """The code of a kernel, and what is around it; None if it needs more than that."""
    library = compiled.library
    if not IS_TRIED or isinstance(library, InnerLibrary) or compiled.lifted or compiled.objectmode:
        return None
    if compiled.reload_init or library.has_dynamic_globals:
        return None
    if library.codegen.magic_tuple()[1:] != processor():  # for another processor than this one
        return None
    module = library._final_module
    called = {thing.name for thing in (*module.functions, *module.global_variables) if thing.is_declaration}
    if not all(map(is_known, called)):
        return None
    environments = {kept.env_name: kept for kept in (compiled.environment, *compiled._find_referenced_environments())}
    return MachineCode(
        library._get_compiled_object(),
        compiled.fndesc.llvm_cpython_wrapper_name,
        [Environment(kept.env_name, kept.globals["__name__"], list(kept.consts)) for kept in environments.values()],
    )
