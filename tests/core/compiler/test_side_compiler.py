"""Kernels that other processes compile for this one."""

from __future__ import annotations

import pickle
import signal
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numba
import numpy as np
import pytest

from napari_gsw.core.compiler import side_compiler
from napari_gsw.core.compiler.compilation import COMPILATION
from napari_gsw.core.compiler.kernel_cache import KernelCache, kept_path
from napari_gsw.core.compiler.side_compiler import Helper, Order, SideCompiler
from napari_gsw.core.jit import jit

MODULE = """
from napari_gsw.core.jit import inner, jit

@inner
def half(x):
    return 0.5 * x

@jit
def quarter(x):
    return half(half(x))

def eight():
    quarter(8.0)
    raise ValueError("which nobody hears")
"""


@pytest.fixture
def quarter(tmp_path, monkeypatch):
    """A kernel of a module that this process and others find by its name, and that nobody has compiled yet."""
    (tmp_path / "quarter_kernels.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(side_compiler, "cores", lambda: 2)
    import quarter_kernels

    yield quarter_kernels.quarter
    quarter_kernels.quarter._cache.flush()
    quarter_kernels.half._cache.flush()
    del sys.modules["quarter_kernels"]


@pytest.fixture
def side():
    compiler = SideCompiler()
    yield compiler
    compiler.end()


@pytest.fixture
def compiled_here(monkeypatch):
    """Names of the kernels that this process compiles for itself."""
    names = []

    class Listener(numba.core.event.Listener):
        def on_start(self, event):
            names.append(event.data["dispatcher"].py_func.__name__)

        def on_end(self, event):
            pass

    with numba.core.event.install_listener("numba:compile", Listener()):
        yield names


def test_what_another_process_has_compiled_is_read_here(quarter, side, compiled_here, monkeypatch):
    monkeypatch.setattr(COMPILATION, "beside", side.compile)
    before, depths = COMPILATION.count, []
    monkeypatch.setattr(COMPILATION, "watchers", [lambda: depths.append(COMPILATION.depth)])
    assert quarter(8.0) == 2.0
    assert quarter(np.float32(2)) == 0.5
    assert compiled_here == []
    assert COMPILATION.depth == 0
    assert max(depths) == 1  # while it waits
    assert len(side._helpers) == 1  # the second time by the same process
    # A module of a test does not count; what the other process says is added to what this one has.
    assert COMPILATION.count == before


def test_a_process_that_was_started_ahead_compiles_what_is_ordered(quarter, side, compiled_here, monkeypatch):
    monkeypatch.setattr(COMPILATION, "beside", side.compile)
    with monkeypatch.context() as patch:
        patch.setattr(side_compiler, "cores", lambda: 1)
        assert not side.start("quarter_kernels:eight")
    assert not side._helpers
    assert side.start("quarter_kernels:eight")
    assert not side.start("quarter_kernels:eight")
    (helper,) = side._helpers
    while not kept_path(quarter, (numba.float64,)).exists():  # before anything is ordered
        time.sleep(0.01)
    assert quarter(8.0) == 2.0
    helper._process.send_signal(signal.SIGINT)  # which a terminal sends to all processes
    assert quarter(np.float32(2)) == 0.5
    assert compiled_here == []
    assert side._helpers == {helper}
    assert side._free == [helper]


def test_what_is_in_the_cache_and_what_cannot_be_named_is_not_ordered(quarter, side, tmp_path, monkeypatch):
    orders = []
    monkeypatch.setattr(side, "_order", orders.append)
    types = (numba.float64,)
    side.compile(quarter, types)
    assert [pickle.loads(order) for order in orders] == [Order("quarter_kernels", "quarter", types)]
    kept_path(quarter, types).write_bytes(b"")
    side.compile(quarter, types)
    local = jit(lambda x: x)
    side.compile(local, types)
    plain = numba.njit(abs_of)
    side.compile(plain, types)
    for name, value in (("cores", lambda: 1), ("sys", type("bundle", (), {"executable": "/a/napari", "modules": {}}))):
        with monkeypatch.context() as patch:
            patch.setattr(side_compiler, name, value)
            side.compile(quarter, (numba.int64,))
    assert len(orders) == 1
    assert isinstance(local._cache, KernelCache)


def abs_of(x):
    return abs(x)


def test_what_cannot_be_sent_is_compiled_here(quarter, side, compiled_here, monkeypatch):
    def unwilling(*order):
        raise TypeError("cannot pickle")

    monkeypatch.setattr(side_compiler, "Order", unwilling)
    monkeypatch.setattr(COMPILATION, "beside", side.compile)
    assert quarter(8.0) == 2.0
    assert "quarter" in compiled_here
    assert not side._going


def test_one_kernel_is_compiled_once_for_all_who_wait_for_it(quarter, side, monkeypatch):
    begun, go, orders = threading.Event(), threading.Event(), []

    def slow(order):
        orders.append(order)
        begun.set()
        assert go.wait(60)

    monkeypatch.setattr(side, "_order", slow)
    with ThreadPoolExecutor(3) as pool:
        first = pool.submit(side.compile, quarter, (numba.float64,))
        assert begun.wait(60)
        others = [pool.submit(side.compile, quarter, (numba.float64,)) for _ in range(2)]
        time.sleep(0.05)
        assert not any(other.done() for other in others)
        go.set()
        for call in (first, *others):
            call.result(60)
    assert len(orders) == 1
    assert not side._going


def test_no_more_processes_than_two_and_the_third_waits(side, monkeypatch):
    monkeypatch.setattr(side_compiler, "SCRIPT", "import time; print('done', flush=True); time.sleep(60)")
    first, second = side._taken(), side._taken()
    with ThreadPoolExecutor(1) as pool:
        third = pool.submit(side._taken)
        time.sleep(0.05)
        assert not third.done()
        with side._change:
            side._free.append(second)
            side._change.notify()
        assert third.result(60) is second
    assert side._helpers == {first, second}
    for helper in (first, second):
        helper.close()


@pytest.mark.parametrize("script", ["raise SystemExit(3)", "print('nonsense', flush=True); input()", "print('done')"])
def test_a_process_that_fails_leaves_the_work_to_this_one(quarter, side, compiled_here, monkeypatch, script):
    monkeypatch.setattr(side_compiler, "SCRIPT", script)
    monkeypatch.setattr(COMPILATION, "beside", side.compile)
    assert quarter(8.0) == 2.0
    assert sorted(compiled_here) == ["half", "quarter"]
    assert quarter(np.float32(2)) == 0.5  # by another process, which fails as well


def test_a_machine_that_starts_no_process_compiles_here(quarter, side, compiled_here, monkeypatch):
    def refused(*args, **more):
        raise OSError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(side_compiler.subprocess, "Popen", refused)
    monkeypatch.setattr(COMPILATION, "beside", side.compile)
    assert quarter(8.0) == 2.0
    assert "quarter" in compiled_here


def test_the_end_is_told_to_whoever_waits(quarter, side, monkeypatch):
    monkeypatch.setattr(side_compiler, "SCRIPT", "import time; time.sleep(600)")
    waiter = threading.Thread(target=side.compile, args=(quarter, (numba.float64,)))
    waiter.start()
    while not side._helpers:
        time.sleep(0.001)
    side.end()
    waiter.join(60)
    assert not waiter.is_alive()
    assert COMPILATION.depth == 0


def test_it_counts_what_the_other_process_compiles(side, monkeypatch):
    script = "for k in (1, 2, 7, 'done', 8, 'done'): print(k, flush=True)\nimport time; time.sleep(600)"
    monkeypatch.setattr(side_compiler, "SCRIPT", script)
    before, helper = COMPILATION.count, Helper()
    helper.compile(b"")
    assert COMPILATION.count == before + 7
    helper.compile(b"")
    assert COMPILATION.count == before + 8
    helper.close()
    assert not helper.lives


def test_a_process_that_nobody_needs_ends(monkeypatch):
    module = side_compiler.__name__
    script = f"import {module} as module; module.PATIENCE = 0.05; module.serve()"
    monkeypatch.setattr(side_compiler, "SCRIPT", script)
    helper = Helper()
    assert helper._process.wait(60) == 0
    helper.close()


def test_what_cannot_be_compiled_is_told_here(quarter, side, monkeypatch):
    """The other process fails in silence and lives; this one says why."""
    monkeypatch.setattr(COMPILATION, "beside", side.compile)
    with pytest.raises(numba.TypingError):
        quarter("eight")
    assert quarter(8.0) == 2.0
    assert len(side._helpers) == 1
