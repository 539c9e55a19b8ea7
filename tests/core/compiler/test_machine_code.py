"""Kernels that were compiled before run without numba, and do as they did with it."""

from __future__ import annotations

import os
import pickle
import shutil
import subprocess
import sys

import numba
import numpy as np
import pytest

from napari_gsw.core.compiler import kernel as kernel_module
from napari_gsw.core.compiler.kernel import CODE, Kernel, Use, code_files, code_key
from napari_gsw.core.compiler.kernel_files import DIGEST, ENDING, CacheFolder
from napari_gsw.core.compiler.machine_code import MachineCode, callable_of, is_known, is_wanted
from napari_gsw.core.jit import jit

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="numba reads all kernels there")

MODULE = """
from typing import NamedTuple

import numpy as np

from napari_gsw.core.jit import inner, jit, merged

class State(NamedTuple):
    values: object
    inside: object

@inner
def grown(values, size):
    if size < 0:
        raise ValueError("too small", size)
    more = np.zeros(size, values.dtype)
    more[: values.size] = values
    return more

@merged
def doubled(values):
    for i in range(values.size):
        values[i] *= 2

@jit
def stepped(state, size, more, rng):
    values = grown(state.values, size)
    doubled(values)
    if more is not None:
        values += more
    values[0] += np.exp(rng.random()) + np.log1p(rng.standard_normal() ** 2)
    print("now", size)
    return State(values, state), values.sum(), size > 3
"""
SCRIPT = """
import sys
import numpy as np
from step_kernels import State, stepped

state = State(np.arange(3.0), np.ones(2, np.int32))
for more in (None, 0.5, None):
    rng = np.random.default_rng(3)
    after, total, is_large = stepped(state, 5, more, rng)
    print(type(after).__name__, type(after.inside).__name__, after.values.tolist(), total, is_large, rng.random())
    print(after.inside.inside is not state.inside, after.inside.inside.tolist(), after.values.flags.owndata)
try:
    stepped(state, "five", None, rng) if sys.argv[1:] else stepped(3, 5, None, rng)
except Exception as error:
    print(type(error).__name__)
print("numba" in sys.modules, file=sys.stderr)
try:
    stepped(state, -1, None, np.random.default_rng(3))
except ValueError as error:
    print(error.args)
import numba
print(numba.njit(lambda x: x + 1)(1), stepped(state, 5, None, np.random.default_rng(3))[1])
"""


def run_script(folder, **settings):
    """What the script prints in a process of its own, and whether that took numba."""
    done = subprocess.run(
        [sys.executable, str(folder / "script.py")], capture_output=True, text=True, timeout=120, check=False,
        env=os.environ | {"NUMBA_CACHE_DIR": str(folder / "kernels")} | settings,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr.strip()


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    """A folder with the script and what it has compiled, under a setting of numba's; and what it printed."""
    folder = tmp_path_factory.mktemp("compiled")
    (folder / "step_kernels.py").write_text(MODULE)
    (folder / "script.py").write_text(SCRIPT)
    said, with_numba = run_script(folder, NUMBA_WARNINGS="0")
    assert with_numba == "True"
    return folder, said


@pytest.fixture
def said(compiled, tmp_path):
    """What the script has printed that can be run in this folder; it has been compiled."""
    shutil.copytree(compiled[0], tmp_path, dirs_exist_ok=True)
    return compiled[1]


def kept(tmp_path, ending):
    return sorted(file.name.split(".")[1] for file in tmp_path.glob(f"kernels/*/*{ending}"))


def test_what_was_compiled_runs_without_numba_and_does_the_same(said, tmp_path):
    assert kept(tmp_path, CODE) == ["stepped", "stepped"]  # with None, and with a number
    script = (tmp_path / "script.py").read_text()
    (tmp_path / "script.py").write_text(script.replace("stepped(3, 5, None, rng)", "int('refused')"))
    again, with_numba = run_script(tmp_path)
    assert with_numba == "False"
    assert again.replace("ValueError\n", "TypingError\n") == said
    assert "('too small', -1)" in again


@pytest.mark.parametrize("damage", [b"", b"not what was kept", None])
def test_what_is_damaged_or_gone_is_read_by_numba(said, tmp_path, damage):
    for file in tmp_path.glob(f"kernels/*/*{CODE}"):
        if damage is None:
            file.unlink()
        else:
            file.write_bytes(damage + file.read_bytes()[len(damage) :] if damage else b"")
    before = kept(tmp_path, ENDING)
    assert run_script(tmp_path) == (said, "True")
    assert kept(tmp_path, ENDING) == before


def test_whoever_sets_numba_gets_numba(said, tmp_path, monkeypatch):
    assert run_script(tmp_path, NUMBA_BOUNDSCHECK="1") == (said, "True")
    monkeypatch.setenv("NUMBA_OPT", "1")
    assert not is_wanted()
    monkeypatch.delenv("NUMBA_OPT")
    monkeypatch.chdir(tmp_path)
    assert is_wanted() or any(name.startswith("NUMBA_") for name in os.environ)
    (tmp_path / ".numba_config.yaml").write_text("opt: 1\n")
    assert not is_wanted()


def test_code_that_calls_what_is_not_known_is_not_kept():
    assert all(
        map(is_known, ("NRT_MemInfo_alloc", "numba_unpickle", "PyExc_ValueError", "PyTuple_New", "exp", "memcpy"))
    )
    assert is_known("llvm.memset.p0.i64")
    assert not is_known("_ZN5numba_nobody_has_this")
    assert not is_known("__svml_exp8")


def test_what_is_around_a_kernel_may_change_so_it_is_not_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(kernel_module, "cache_folder", lambda: CacheFolder(tmp_path))
    amount = 3

    def added(x):
        return x + amount

    assert code_files(added) is None
    assert code_files(plain) is not None
    monkeypatch.setattr(kernel_module, "cache_folder", lambda: CacheFolder(None))
    assert code_files(plain) is None


def plain(x):
    return x + 1


@pytest.mark.usefixtures("said")
def test_what_is_not_code_or_lacks_its_function_is_refused(tmp_path):
    with pytest.raises(ImportError, match="not code"):
        callable_of(MachineCode(b"not an object file", "nobody", []), plain)
    code = pickle.loads(next(tmp_path.glob(f"kernels/*/*{CODE}")).read_bytes()[DIGEST:])
    with pytest.raises(ImportError, match="no nobody"):
        callable_of(code._replace(entry="nobody"), plain)
    with pytest.raises(ImportError, match="no "):
        callable_of(code._replace(environments=[code.environments[0]._replace(symbol="nowhere")]), plain)


def test_code_for_another_processor_or_of_another_function_has_another_name(monkeypatch):
    key = code_key(plain, "int64")
    assert code_key(kept, "int64") != key
    assert code_key(plain, "float64") != key
    monkeypatch.setattr(kernel_module, "processor", lambda: ("another", "+avx"))
    assert code_key(plain, "int64") != key


def test_to_numba_a_kernel_is_a_dispatcher():
    kernel = jit(plain)
    assert isinstance(kernel, Kernel)
    assert kernel.__name__ == "plain"
    assert kernel.py_func is plain
    assert numba.njit(lambda x: kernel(x) * 2)(3) == 8
    assert kernel(np.int8(3)) == 4
    assert kernel(x=3) == 4  # by name, as numba does it
    assert set(kernel.signatures) == {"int64", "int8"}
    with pytest.raises(AttributeError):
        kernel.__no_such_thing__  # noqa: B018
    with pytest.raises(AttributeError):
        kernel.no_such_thing  # noqa: B018


def test_an_inner_kernel_is_never_looked_for(monkeypatch):
    monkeypatch.setattr(kernel_module, "code_files", lambda function: pytest.fail("was looked for"))
    kernel = Kernel(plain, Use(is_inner=True), lambda kernel: kernel.py_func)
    assert kernel(3) == 4


INTERRUPTED = """
import signal
import sys
import numpy as np
from napari_gsw.core.sites.pixel_kernels import grouped

grouped(3, *np.zeros((2, 2), np.int32))  # compiled and kept; boxed once
size = 10_000_000
pairs = np.random.default_rng(0).integers(0, size, (2, size), np.int32)
signal.signal(signal.SIGVTALRM, signal.default_int_handler)
signal.setitimer(signal.ITIMER_VIRTUAL, 0.05)  # of processor time, however busy the machine is
try:
    grouped(size, *pairs)
    print("in time")
except KeyboardInterrupt:
    print("interrupted")
print("numba" in sys.modules)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="signals are others there")
def test_ctrl_c_during_a_kernel_is_heard_after_it():
    """A signal that comes while a kernel runs is raised when it boxes what it returns."""
    for _ in range(2):  # the first may compile
        done = subprocess.run([sys.executable, "-c", INTERRUPTED], capture_output=True, text=True, check=False)
    assert done.stderr == ""
    assert done.stdout.splitlines() == ["interrupted", "False"]


@pytest.mark.usefixtures("said")
def test_code_for_another_processor_is_not_kept_for_this_one(tmp_path):
    before, code = kept(tmp_path, ENDING), kept(tmp_path, CODE)
    run_script(tmp_path, NUMBA_CPU_NAME="generic", NUMBA_CPU_FEATURES="")
    assert len(kept(tmp_path, ENDING)) > len(before)
    assert kept(tmp_path, CODE) == code
