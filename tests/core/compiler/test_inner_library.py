"""Inner kernels are parts of their callers: what they do, raise and print is as if numba had compiled them itself."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from numba import int64
from numba.core import event
from numba.core.compiler import Flags

from napari_gsw.core.compiler import numba_dispatcher
from napari_gsw.core.compiler.inner_library import InnerLibrary, QuickFlags
from napari_gsw.core.compiler.kernel_files import CacheFolder
from napari_gsw.core.jit import inner, jit

# The parts of which are inner kernels, two deep, one of them with two callers.
SCRIPT = """
import sys
import numpy as np
from napari_gsw.core.jit import inlined, inner, jit, lean

@inlined
def root(x):
    return np.sqrt(x)

@lean
def filled(values):
    for i in range(values.size):
        values[i] = root(float(i))

@inner
def checked(x):
    if x < 0:
        raise ValueError("negative", x)
    print("seen", x)
    values = np.empty(x)
    filled(values)
    return values

@jit
def first(x):
    return checked(x)[-1]

@jit
def second(x):
    return checked(x).sum() + root(float(x))

for kernel in {kernels}:
    print(kernel(5))
    try:
        kernel(-1)
    except ValueError as error:
        print(error.args)
print(sum(sum(kernel.stats.cache_misses.values()) for kernel in (root, filled, checked, first, second)), "compiled",
    "with" if sys.modules.keys() & {"numba.typed.dictimpl", "numba.np.arrayobj"} else "without", "what compiling needs")
"""
WITHOUT = "from napari_gsw.core.compiler import inner_library\ninner_library.IS_POSSIBLE = False\n"
NEEDED = "what compiling needs"
ANSWERS = {"first": f"{2.0}", "second": f"{sum(i**0.5 for i in range(5)) + 5**0.5}"}


@pytest.fixture
def ran(tmp_path, monkeypatch):
    """Runs the kernels in a process of its own that keeps what it compiles here; the lines that it prints."""
    script = tmp_path / "script.py"
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "kernels"))

    def ran(*kernels):
        script.write_text(SCRIPT.replace("{kernels}", f"({', '.join(kernels)},)"))
        command = [sys.executable, str(script)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()

    return ran


def expected(*kernels):
    return [line for name in kernels for line in ("seen 5", ANSWERS[name], "('negative', -1)")]


def test_they_do_raise_and_print_as_any_compiled_and_kept(ran):
    assert ran("first") == [*expected("first"), f"4 compiled with {NEEDED}"]
    assert ran("first") == [*expected("first"), f"0 compiled without {NEEDED}"]
    # Its parts are those of the first, which are read; a process that has both has one environment for each part.
    assert ran("second") == [*expected("second"), f"1 compiled with {NEEDED}"]
    assert ran("second", "first") == [*expected("second", "first"), f"0 compiled without {NEEDED}"]


def test_a_numba_that_lacks_what_is_replaced_compiles_them_as_any(ran, monkeypatch):
    monkeypatch.setattr(sys.modules[__name__], "SCRIPT", WITHOUT + SCRIPT)
    assert ran("first") == [*expected("first"), f"4 compiled with {NEEDED}"]
    assert ran("second") == [*expected("second"), f"1 compiled with {NEEDED}"]
    assert ran("second", "first") == [*expected("second", "first"), f"0 compiled without {NEEDED}"]


def test_they_are_kept_without_machine_code(tmp_path, monkeypatch):
    # Of its own, since what an earlier run of the tests has kept would be read.
    monkeypatch.setattr(numba_dispatcher, "cache_folder", lambda: CacheFolder(tmp_path))

    @inner
    def part(x):
        return x + 1

    @jit
    def outer(x):
        return part(x) * 2

    assert outer(3) == 8
    (library,) = [overload.library for overload in part.overloads.values()]
    assert type(library) is InnerLibrary
    assert library.serialize_using_object_code()[1] == "bitcode"
    assert not library._codegen._engine.is_symbol_defined(part.overloads[int64,].fndesc.mangled_name)


def test_quick_flags_are_equal_where_numbas_are():
    plain, other = Flags(), Flags()
    other.nrt = True
    for flags in (plain, other):
        quick = QuickFlags(flags)
        assert quick.values() == flags.values()
        assert hash(quick) == hash(flags)
        assert quick == flags
        assert quick == quick.copy()
        assert type(quick.copy()) is QuickFlags
    assert QuickFlags(plain) != QuickFlags(other)
    assert QuickFlags(plain) != other
    assert other != QuickFlags(plain)
    default = QuickFlags(plain)
    default.nrt = plain.nrt  # set to what it is anyway
    assert default == QuickFlags(plain)
    assert QuickFlags(plain) != "flags"


def test_who_may_call_a_kernel_makes_no_difference_to_what_calls_in_it_mean(monkeypatch):
    monkeypatch.setattr(numba_dispatcher, "cache_folder", lambda: CacheFolder(None))

    @inner
    def part(n):
        return np.full(n, 7.0)

    @jit
    def outer(n):
        return np.full(n, 7.0)[0] + part(n)[0]

    compiled = []

    class Listener(event.Listener):
        def on_start(self, event):
            compiled.append(event.data["dispatcher"].py_func.__name__)

        def on_end(self, event):
            pass

    with event.install_listener("numba:compile", Listener()):
        assert outer(np.int8(3)) == 14.0  # of a type that nobody else has
    assert [compiled.count(name) for name in ("outer", "part", "full")] == [1, 1, 1]
