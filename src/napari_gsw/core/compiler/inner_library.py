"""What numba makes of a kernel that only kernels call: a part of its callers, and nothing else.

Numba optimises each kernel with all that it calls, and makes machine code of it, as if Python might call it. Of a
kernel that only others call all that is for nobody: its callers are optimised with it as a part of them. Here it stays
what numba calls a module, which is linked into whoever calls it.
"""

from __future__ import annotations

from typing import Any, ClassVar

from llvmlite import binding
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler, CompileResult, Flags, compile_result

# What of numba is replaced and called here; a version that has it no more compiles inner kernels as all others.
USED = (
    "_optimize_final_module", "_finalize_final_module", "_finalize_dynamic_globals", "_verify_declare_only_symbols",
    "get_pointer_to_function", "serialize_using_object_code", "serialize_using_bitcode",
)  # fmt: skip
IS_POSSIBLE = all(hasattr(JITCodeLibrary, name) for name in USED)


class _NoEngine:
    """Where the code of a kernel is put by which nobody calls it."""

    def set_env(self, name: str, environment: object) -> None:
        """Its environment is set in its callers."""


class InnerLibrary(JITCodeLibrary):  # type: ignore[misc]
    """The code of an inner kernel, to be linked into its callers."""

    def _optimize_final_module(self) -> None:
        """Its callers are optimised."""

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._verify_declare_only_symbols()
        self._finalized = True

    def get_pointer_to_function(self, name: str) -> int:
        """There is nothing to point to."""
        self._ensure_finalized()
        return 0

    @property
    def codegen(self) -> _NoEngine:
        """Where its environment need not be set."""
        return _NoEngine()

    def serialize_using_object_code(self) -> tuple[str, str, bytes]:
        """There is no object code."""
        serialized: tuple[str, str, bytes] = self.serialize_using_bitcode()
        return serialized

    @classmethod
    def read(cls, codegen: Any, serialized: tuple[str, str, bytes]) -> InnerLibrary:
        """One that was kept."""
        name, _, bitcode = serialized
        library = cls(codegen, name)
        library._final_module = binding.parse_bitcode(bitcode)
        library._finalize_final_module()
        return library


class QuickFlags(Flags):  # type: ignore[misc]
    """How a kernel is compiled.

    Numba remembers by them what a call means, and compares them a hundred thousand times, for which its own collect all
    values. And what a call means to an inner kernel it means to any other: who may call the kernel makes no difference.
    """

    _DEFAULTS: ClassVar[dict[str, Any]] = {name: option.default for name, option in Flags.options.items()}
    _CALLERS: ClassVar[dict[str, Any]] = dict.fromkeys(("no_cpython_wrapper", "no_cfunc_wrapper"))
    _HASH = hash(Flags())

    def values(self) -> dict[str, Any]:
        """All values by their names."""
        return {**self._DEFAULTS, **self._values}

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Flags):
            return NotImplemented
        if isinstance(other, QuickFlags):
            ours, theirs = {**self._values, **self._CALLERS}, {**other._values, **self._CALLERS}
            return ours == theirs or {**self._DEFAULTS, **ours} == {**self._DEFAULTS, **theirs}
        return bool(self.values() == other.values())

    def __hash__(self) -> int:
        return self._HASH  # numba's is one of the names


class _QuickCompiler(Compiler):  # type: ignore[misc]
    def __init__(self, typing: Any, target: Any, library: Any, args: Any, returned: Any, flags: Flags, types: Any):
        super().__init__(typing, target, library, args, returned, QuickFlags(flags), types)


class InnerCompiler(_QuickCompiler):
    """Compiles inner kernels."""

    def compile_extra(self, func: Any) -> CompileResult:
        """As numba does it, into a library of ours."""
        self.state.library = InnerLibrary(self.state.targetctx.codegen(), func.__qualname__)
        return super().compile_extra(func)


class OuterCompiler(_QuickCompiler):
    """Compiles kernels that may have inner ones as parts of them."""

    def compile_extra(self, func: Any) -> CompileResult:
        """As numba does it; and the environments of all parts are set, which are what they print by."""
        result = super().compile_extra(func)
        for environment in result._find_referenced_environments():
            result.codegen.set_env(environment.env_name, environment)
        return result


def read_inner(target: Any, kept: tuple[Any, ...]) -> CompileResult:
    """An inner kernel from what numba keeps of a kernel; as numba's own, which knows one kind of library only."""
    serialized, description, environment, signature, objectmode, lifted, annotation, initial, referenced = kept
    for function in initial:
        function()
    library = InnerLibrary.read(target.codegen(), serialized)
    return compile_result(
        target_context=target, typing_context=target.typing_context, library=library, environment=environment,
        entry_point=target.get_executable(library, description, environment), fndesc=description,
        type_annotation=annotation, signature=signature, objectmode=objectmode, lifted=lifted, reload_init=initial,
        referenced_envs=referenced,
    )  # fmt: skip
