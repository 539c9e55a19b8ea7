"""Machine code that numba has made is run without numba.

Importing numba takes longer than most of what a segmentation does, and all of it is for compiling. What was compiled
is an object file in memory; it calls the interpreter, the C library and the C functions in numba's extension modules,
which LLVM is told the addresses of, as numba tells it. Only code of this very version of numba is run (the name of its
file says so), and only code that calls nothing but what is known here.
"""

from __future__ import annotations

import builtins
import ctypes
import math
import os
import pickle
import sys
import threading
from collections.abc import Callable
from functools import cache
from importlib.machinery import EXTENSION_SUFFIXES
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

# Settings of numba's that change nothing about what is compiled, or for whom.
HARMLESS = {
    "NUMBA_CACHE_DIR", "NUMBA_DISABLE_ERROR_MESSAGE_HIGHLIGHTING", "NUMBA_NUM_THREADS", "NUMBA_THREADING_LAYER",
}  # fmt: skip
SETTINGS_FILE = ".numba_config.yaml"
# What an object file begins with on Linux.
OBJECT_FILE = b"\x7fELF"
# The module with the function that makes objects of what is kept in code, and bytes of numba's hash of that.
UNPICKLES, DIGEST = "numba.core.serialize", 20
# Seconds after which another thread gets a turn: much longer than what must not be seen by one.
ONE_TURN = 5.0


class Environment(NamedTuple):
    """Objects of Python that a compiled function uses.

    Attributes
    ----------
    symbol : where in the code the address of the environment belongs.
    module : of the function. constants : what it boxes its results by.
    """

    symbol: str
    module: str
    constants: list[Any]


class MachineCode(NamedTuple):
    """A kernel that was compiled for some types of its arguments.

    Attributes
    ----------
    code : the object file.
    entry : name of the function in it that Python calls.
    environments : of the kernel, and of all that became a part of it.
    """

    code: bytes
    entry: str
    environments: list[Environment]


# Elsewhere numba reads what it has compiled: this was tried on Linux alone.
IS_TRIED = sys.platform == "linux"


def is_wanted() -> bool:
    """Whether code is run without numba: whoever has set something of numba's gets numba."""
    others = {name for name in os.environ if name.startswith("NUMBA_")} - HARMLESS
    return IS_TRIED and not others and not os.path.exists(SETTINGS_FILE)


@cache
def processor() -> tuple[str, str]:
    """What code is made for: the name of this processor and all that it can do."""
    from llvmlite import binding

    return binding.get_host_cpu_name(), binding.get_host_cpu_features().flatten()


def is_known(symbol: str) -> bool:
    """Whether LLVM would find what code calls; a name that it does not find ends the process."""
    if symbol.startswith("llvm.") or symbol in _addresses():
        return True
    return not symbol.startswith("__svml") and hasattr(ctypes.CDLL(None), symbol)


def callable_of(kept: MachineCode, function: Callable[..., Any]) -> Callable[..., Any]:
    """A function that runs the code; `function` is what it was made of."""
    from llvmlite import binding

    if not kept.code.startswith(OBJECT_FILE):  # which LLVM would not survive
        raise ImportError(f"what was kept of {function.__name__} is not code")
    with _LOCK:
        _prepare_llvm()
        # An engine for each kernel: parts that two of them share have the same names.
        target = binding.Target.from_triple(binding.get_process_triple())
        engine = binding.create_mcjit_compiler(binding.parse_assembly(""), target.create_target_machine(jit=True))
        engine.add_object_file(binding.ObjectFileRef.from_data(kept.code))
        engine.finalize_object()
        entry = engine.get_function_address(kept.entry)
        environments = [_placed(engine, environment) for environment in kept.environments]
    if not entry or environments[0] is None:
        raise ImportError(f"no {kept.entry} in what was kept")
    _LOADED.append(engine)
    ready: Callable[..., Any] = _extension("_dynfunc").make_function(
        sys.modules[function.__module__], function.__name__, function.__doc__ or "", entry, environments[0],
        tuple(environments),
    )  # fmt: skip
    return ready


_LOCK = threading.Lock()
# Engines whose code may run: as numba's, it stays as long as the process.
_LOADED: list[Any] = []


def _placed(engine: Any, kept: Environment) -> object | None:
    """The environment, its address where the code looks for it; None if nothing in the code does."""
    place = engine.get_global_value_address(kept.symbol)
    if not place:
        return None
    environment = _extension("_dynfunc").Environment({"__name__": kept.module})
    environment.consts[:] = kept.constants
    ctypes.c_void_p.from_address(place).value = id(environment)
    return environment  # type: ignore[no-any-return]


@cache
def _prepare_llvm() -> None:
    """Tell LLVM the addresses of all that code may call."""
    from llvmlite import binding

    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    _extension("core.runtime._nrt_python").memsys_use_cpython_allocator()
    for name, address in _addresses().items():
        binding.add_symbol(name, address)
    _teach_to_unpickle(_addresses()["numba_unpickle"])


@cache
def _addresses() -> dict[str, int]:
    """Addresses of C functions and objects by the names that numba gives them in code."""
    helpers = dict(_extension("_helperlib").c_helpers)
    addresses = {f"numba_{name}": address for name, address in (helpers | _extension("_dynfunc").c_helpers).items()}
    for name, address in _extension("core.runtime._nrt_python").c_helpers.items():
        addresses[name if name.startswith("_") else f"NRT_{name}"] = address
    # The C library's, unless several are loaded.
    addresses |= {name: address for name, address in helpers.items() if hasattr(math, name)}
    addresses["_Py_NoneStruct"] = id(None)
    for thing in vars(builtins).values():
        if isinstance(thing, type) and issubclass(thing, BaseException):
            addresses[f"PyExc_{thing.__name__}"] = id(thing)
    return addresses


def _extension(name: str) -> ModuleType:
    """An extension module of numba's, by itself; numba finds it where it looks for its modules when it is imported."""
    full = f"numba.{name}"
    if full not in sys.modules:
        numba = find_spec("numba")
        if numba is None or numba.origin is None:
            raise ImportError("numba is not installed")
        *folders, file = name.split(".")
        folder = Path(numba.origin).parent.joinpath(*folders)
        path = next(path for ending in EXTENSION_SUFFIXES if (path := folder / f"{file}{ending}").exists())
        spec = spec_from_file_location(full, path)
        assert spec is not None
        assert spec.loader is not None
        module = module_from_spec(spec)
        spec.loader.exec_module(module)
        sys.modules[full] = module
    return sys.modules[full]


# Objects that are kept in code, such as the classes of records, by their place there and numba's hash of them.
_CONSTANTS: dict[tuple[int, bytes], Any] = {}


def _unpickled(address: int, content: bytes, digest: bytes) -> Any:
    key = address, digest
    if key not in _CONSTANTS:
        _CONSTANTS[key] = pickle.loads(content)
    return _CONSTANTS[key]


def _teach_to_unpickle(function: int) -> None:
    """Have numba's C function that makes objects of what is kept in code call ours; it would import numba for it.

    It looks for what it calls when it is first called, and remembers it. So for that one call there is a module of
    numba's name, and no other thread gets a turn meanwhile. The function stays numba's, since a callback from C to
    Python cannot raise: Ctrl+C during a kernel would be lost.
    """
    module = ModuleType(UNPICKLES)
    module.__dict__["_numba_unpickle"] = _unpickled
    call = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p)(function)
    content = pickle.dumps(None)
    stand_ins = {"numba": ModuleType("numba"), UNPICKLES: module}
    interval = sys.getswitchinterval()
    sys.setswitchinterval(ONE_TURN)
    try:
        if "numba" not in sys.modules:  # asked here, where no other thread can begin to import it
            sys.modules |= stand_ins
            call(content, len(content), bytes(DIGEST))
    finally:
        for name, stand_in in stand_ins.items():
            if sys.modules.get(name) is stand_in:
                del sys.modules[name]
        sys.setswitchinterval(interval)
