"""What is said while kernels are compiled, and the warming up that compiles them before they are needed."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
from contextlib import suppress

import numba
import numpy as np
import pytest

import napari_gsw as gsw
from napari_gsw.core.compiler import side_compiler
from napari_gsw.core.compiler.compilation import COMPILATION
from napari_gsw.core.compiler.kernel_cache import KernelCache
from napari_gsw.core.compiler.kernel_files import CacheFolder
from napari_gsw.core.pipeline import head_start
from napari_gsw.core.pipeline import warm_up as module
from napari_gsw.core.pipeline.stage import Stage
from napari_gsw.core.pipeline.warm_up import BACKGROUND, KERNELS, Background, compiling_stage
from napari_gsw.core.posterior.consensus import expected_loss
from napari_gsw.core.posterior.consensus_kernels import canonical_rows
from napari_gsw.core.sites.face_kernels import connected_parts


@pytest.fixture(autouse=True)
def nobody_else_compiles(monkeypatch):
    """A dock that another test has closed may still be about to; what it calls and counts is replaced here.

    And what a test here has begun ends before the next one replaces what it calls.
    """
    if BACKGROUND.going:
        BACKGROUND._thread.join()
    monkeypatch.setattr(COMPILATION, "beside", None)
    yield
    for thread in threading.enumerate():
        if thread.name.startswith("napari-gsw compiles"):
            thread.join(60)


def test_only_our_own_kernels_are_counted_while_they_are_compiled():
    def ours(x):
        return x + 1

    def theirs(x):
        return x + 2

    ours.__module__ = "napari_gsw.core.nowhere_kernels"
    before, seen = COMPILATION.count, []
    watcher = lambda: seen.append((COMPILATION.depth, COMPILATION.count - before))  # noqa: E731
    COMPILATION.watchers.append(watcher)
    try:
        numba.njit(ours)(1)
        numba.njit(theirs)(1)
    finally:
        COMPILATION.watchers.remove(watcher)
    assert seen == [(1, 0), (0, 1)]


def test_compiling_is_a_stage_while_it_goes_on_and_not_longer(monkeypatch):
    monkeypatch.setattr(COMPILATION, "count", 12)
    monkeypatch.setattr(COMPILATION, "depth", 0)
    assert compiling_stage() is None
    monkeypatch.setattr(COMPILATION, "depth", 1)
    assert compiling_stage() == Stage("compiling", 12, KERNELS)
    monkeypatch.setattr(COMPILATION, "count", KERNELS + 3)  # other settings need more
    assert compiling_stage() == Stage("compiling", KERNELS + 3, KERNELS + 4)


def test_the_bar_of_the_command_line_says_that_it_compiles(monkeypatch):
    from napari_gsw.cli.progress import SweepBar

    with SweepBar(10, quiet=False) as bar:
        bar.report(Stage("features"), None)
        monkeypatch.setattr(COMPILATION, "depth", 1)
        monkeypatch.setattr(COMPILATION, "count", 12)
        COMPILATION.add()
        assert bar.bar.desc == f"compiling, once on this machine, 12 of {KERNELS}"
        monkeypatch.setattr(COMPILATION, "depth", 0)
        COMPILATION.add()
        assert bar.bar.desc == "features"
    assert bar._compiling not in COMPILATION.watchers


def test_the_background_warms_up_once_and_ends_where_it_is_told(monkeypatch):
    calls = []

    def slow(*args, report, **more):
        calls.append(report)
        background.end()
        report(Stage("graph"), None)
        raise AssertionError("it was told to end")

    monkeypatch.setattr(module, "is_cold", lambda: False)
    monkeypatch.setattr(module, "segment", slow)
    background = Background()
    background.begin()
    background._thread.join()
    assert not background.warm
    monkeypatch.setattr(module, "segment", lambda *args, **more: calls.append(None))
    for _ in range(2):
        background.begin()
        background._thread.join()
    assert background.warm
    assert len(calls) == 2


def test_the_end_does_not_wait_for_the_process_beside(monkeypatch):
    """And what the process was at is not compiled in this one instead."""
    begun, over, compiled_here = threading.Event(), threading.Event(), []

    class Endless:
        def compile(self, kernel, types):
            begun.set()
            assert over.wait(60)

        def end(self):
            over.set()

    def sampler(problem, sweeps):
        background._compile_beside(None, ())
        compiled_here.append(problem)

    monkeypatch.setattr(module, "is_cold", lambda: True)
    monkeypatch.setattr(module, "prepare", lambda *args, **more: None)
    monkeypatch.setattr(module, "run", sampler)
    monkeypatch.setattr(module, "segment", lambda *args, report, **more: report(Stage("superpixels"), None))
    background = Background(Endless())
    background.begin()
    assert begun.wait(60)
    background.end()
    background._thread.join(60)
    assert not background.going
    assert not background.warm
    assert not compiled_here


def test_ctrl_c_does_not_wait_for_the_sampler(monkeypatch):
    over, compiled_here = threading.Event(), []

    class Endless:
        def compile(self, kernel, types):
            assert over.wait(60)

        def end(self):
            over.set()

    def sampler(problem, sweeps):
        COMPILATION.beside(module.advance, ())
        compiled_here.append(problem)

    def interrupted(*args, **more):
        raise KeyboardInterrupt

    monkeypatch.setattr(module, "is_cold", lambda: True)
    monkeypatch.setattr(module, "prepare", interrupted)
    monkeypatch.setattr(module, "run", sampler)
    background = Background(Endless())
    with pytest.raises(KeyboardInterrupt):
        background.warm_up()
    assert over.is_set()
    assert not compiled_here
    assert not background.warm


def test_the_background_is_at_work_as_long_as_its_sampler_compiles(monkeypatch):
    go_on = threading.Event()
    monkeypatch.setattr(module, "is_cold", lambda: True)
    monkeypatch.setattr(module, "prepare", lambda *args, report, **more: report(Stage("superpixels"), None))
    monkeypatch.setattr(module, "run", lambda problem, sweeps: go_on.wait(60))
    background = Background()
    background.ending = True
    background._thread = threading.Thread(target=background._work)
    background._thread.start()
    background._thread.join(0.2)
    assert background.going
    go_on.set()
    background._thread.join(60)
    assert not background.going
    assert not background.warm


def test_other_processes_compile_as_long_as_there_is_a_window(monkeypatch):
    """Another window is no reason to stop for the one that is left."""
    monkeypatch.setattr(module, "is_cold", lambda: False)
    monkeypatch.setattr(module, "segment", lambda *args, **more: None)
    background, ordered, ended = Background(), [], []
    monkeypatch.setattr(background.side, "compile", lambda kernel, types: ordered.append(kernel))
    monkeypatch.setattr(background.side, "end", lambda: ended.append(None))
    background.begin()
    background.begin()
    background.end()
    COMPILATION.beside("one", ())
    assert not ended
    background.end()
    COMPILATION.beside("two", ())
    assert ordered == ["one"]
    assert len(ended) == 1


def test_after_a_window_was_closed_the_sampler_is_compiled_beside_as_before(monkeypatch):
    background, ordered, compiled = Background(), [], []

    def sampler(problem, sweeps):
        COMPILATION.beside(module.advance, ())
        compiled.append(threading.current_thread())

    monkeypatch.setattr(module, "is_cold", lambda: True)
    monkeypatch.setattr(module, "prepare", lambda *args, **more: None)
    monkeypatch.setattr(module, "consensus", lambda *args: None)
    monkeypatch.setattr(module, "segment", lambda *args, **more: None)
    monkeypatch.setattr(module, "run", sampler)
    monkeypatch.setattr(background.side, "compile", lambda kernel, types: ordered.append(kernel))
    background.ending = True  # as the last window has left it
    background.warm_up()
    assert background.warm
    assert ordered == [module.advance]
    assert len(compiled) == 1
    assert compiled[0] is not threading.current_thread()


@pytest.mark.parametrize("window", [False, True])
def test_whoever_waits_without_a_window_compiles_all_but_the_sampler(monkeypatch, window):
    background, ordered, thresholds = Background(), [], []

    def sampler(problem, sweeps):
        COMPILATION.beside("before", ())
        COMPILATION.beside(module.advance, ())

    def rest(*args, **more):
        assert window or background._ordered.is_set(), "it would be in the way of the order"
        COMPILATION.beside("rest", ())
        thresholds.append(gc.get_threshold())

    monkeypatch.setattr(module, "is_cold", lambda: True)
    monkeypatch.setattr(module, "prepare", rest)
    monkeypatch.setattr(module, "consensus", lambda *args: None)
    monkeypatch.setattr(module, "segment", lambda *args, **more: None)
    monkeypatch.setattr(module, "run", sampler)
    monkeypatch.setattr(background.side, "compile", lambda kernel, types: ordered.append(kernel))
    monkeypatch.setattr(side_compiler, "MANY", 12_345)
    usual = gc.get_threshold()
    if window:
        background.begin()
        background._thread.join()
        assert thresholds == [usual], "a window's own garbage is collected as ever"
    else:
        background.warm_up()
        assert thresholds[0][0] == 12_345
        assert gc.get_threshold() == usual
    assert set(ordered) == ({"before", "rest", module.advance} if window else {module.advance})


def test_a_head_start_is_for_a_sampler_that_has_to_be_compiled(monkeypatch, tmp_path):
    deeds = []
    monkeypatch.setattr(head_start.SIDE, "start", lambda name: deeds.append(name) or True)
    monkeypatch.setattr(head_start.SIDE, "end", lambda: deeds.append("end"))

    def attempt(path):
        monkeypatch.setattr(head_start, "cache_folder", lambda: CacheFolder(path))
        with suppress(KeyError), head_start.head_start():
            raise KeyError("whatever comes in between")
        return [deeds.pop(0) for _ in list(deeds)]

    assert attempt(None) == [], "nothing could be kept for this process"
    assert attempt(tmp_path) == [f"{head_start.__name__}:meanwhile", "end"]
    KernelCache(module.advance.py_func, tmp_path)._cache_file.save(("types",), "code")
    assert attempt(tmp_path) == []


def test_what_is_compiled_meanwhile_is_what_is_needed():
    kernels = (canonical_rows, connected_parts)
    head_start.meanwhile()
    compiled = [set(kernel.signatures) for kernel in kernels]
    assert all(compiled)
    expected_loss([0, 0, 1], [[0, 1, 1], [0, 0, 0]])
    gsw.prepare(np.zeros((6, 7, 3), np.uint8), site_size=4)
    assert [set(kernel.signatures) for kernel in kernels] == compiled


def test_a_process_is_started_before_numba_is_imported():
    script = f"import sys, {head_start.__name__}; print('numba' in sys.modules, 'numpy' in sys.modules)"
    process = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    assert process.stdout.split() == ["False", "False"]


@pytest.mark.slow
def test_the_number_of_kernels_that_is_announced_is_true(tmp_path):
    script = (
        "import napari_gsw; from napari_gsw.core.compiler.compilation import COMPILATION as c\n"
        "napari_gsw.warm_up(); print(c.count)"
    )
    asked = {"env": os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}, "capture_output": True, "text": True}
    process = subprocess.run([sys.executable, "-c", script], check=True, **asked)
    assert int(process.stdout) == KERNELS
    again = subprocess.run([sys.executable, "-c", script], check=True, **asked)
    assert int(again.stdout) == 0
