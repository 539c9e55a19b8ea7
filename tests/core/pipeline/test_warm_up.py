"""Kernels are compiled before they are needed, and progress says how far that is."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading

import numba
import pytest

from napari_gsw.core.jit import PROGRESS, CacheFolder
from napari_gsw.core.pipeline import warm_up as module
from napari_gsw.core.pipeline.prepare import Stage
from napari_gsw.core.pipeline.warm_up import BACKGROUND, N_KERNELS, BackgroundWarmUp, compiling_stage, start_compiler


@pytest.fixture(autouse=True)
def nothing_compiles_beside():
    """Wait for what a dock of another test has begun, since it counts kernels, too."""
    if BACKGROUND.is_running:
        BACKGROUND._thread.join()


@pytest.fixture
def background(monkeypatch):
    """A background whose process ends when it is told to, and which notes what it does."""

    class Process:
        def __init__(self):
            self.over, self.was_ended = threading.Event(), False

        def wait(self):
            assert self.over.wait(60)

        def poll(self):
            return 0 if self.over.is_set() else None

        def terminate(self):
            self.was_ended = True
            self.over.set()

    background = BackgroundWarmUp()
    background.processes, background.calls = [], []

    def start(function):
        assert function == "warm_up"
        background.processes.append(Process())
        return background.processes[-1]

    monkeypatch.setattr(module, "start_compiler", start)
    monkeypatch.setattr(module, "is_cold", lambda: True)
    monkeypatch.setattr(module, "warm_up", lambda: background.calls.append(threading.current_thread()))
    module.warm_up.__name__ = "warm_up"
    return background


def test_only_kernels_of_this_package_are_counted():
    def ours(x):
        return x + 1

    def theirs(x):
        return x + 2

    ours.__module__ = "napari_gsw.core.nowhere_kernels"
    before, counts = PROGRESS.count, []
    watcher = lambda: counts.append((PROGRESS.depth, PROGRESS.count - before))  # noqa: E731
    PROGRESS.watchers.append(watcher)
    try:
        numba.njit(ours)(1)
        numba.njit(theirs)(1)
    finally:
        PROGRESS.watchers.remove(watcher)
    assert counts == [(1, 0), (0, 1)]


def test_compiling_is_a_stage_only_while_it_goes_on(monkeypatch):
    monkeypatch.setattr(PROGRESS, "count", 12)
    monkeypatch.setattr(PROGRESS, "depth", 0)
    assert compiling_stage() is None
    monkeypatch.setattr(PROGRESS, "depth", 1)
    assert compiling_stage() == Stage("compiling", 12, N_KERNELS)
    monkeypatch.setattr(PROGRESS, "count", N_KERNELS + 3)  # other settings need more
    assert compiling_stage() == Stage("compiling", N_KERNELS + 3, N_KERNELS + 4)


def test_bar_of_the_command_line_shows_compilation(monkeypatch):
    from napari_gsw.cli.segment import SweepBar

    with SweepBar(10, quiet=False) as bar:
        bar.report(Stage("features"), None)
        monkeypatch.setattr(PROGRESS, "depth", 1)
        monkeypatch.setattr(PROGRESS, "count", 12)
        PROGRESS.add()
        assert bar.bar.desc == f"compiling, once on this machine, 12 of {N_KERNELS}"
        monkeypatch.setattr(PROGRESS, "depth", 0)
        PROGRESS.add()
        assert bar.bar.desc == "features"
    assert bar._show_compilation not in PROGRESS.watchers


def test_background_loads_once_after_the_process_has_compiled(background):
    background.begin()
    background.begin()
    assert background.is_compiling
    assert background.is_running
    assert background.calls == []
    background.processes[0].over.set()
    background._thread.join(60)
    background.begin()
    assert not background.is_compiling
    assert not background.is_running
    assert background.is_warm
    assert len(background.processes) == len(background.calls) == 1
    assert background.calls[0] is not threading.main_thread()


def test_last_window_ends_the_process_and_loads_nothing(background):
    background.begin()
    background.begin()
    background.end()
    assert not background.processes[0].was_ended, "there is another window"
    background.end()
    background._thread.join(60)
    assert background.processes[0].was_ended
    assert background.calls == []
    assert not background.is_warm
    background.begin()
    assert len(background.processes) == 2
    background.end()


def test_ctrl_c_ends_the_process_that_compiles_the_sampler(monkeypatch):
    ended = []

    class Process:
        def terminate(self):
            ended.append(True)

    def interrupt(*args, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(module, "is_cold", lambda: True)
    monkeypatch.setattr(module, "start_compiler", lambda function: Process())
    monkeypatch.setattr(module, "prepare", interrupt)
    thresholds = gc.get_threshold()
    with pytest.raises(KeyboardInterrupt):
        module.warm_up()
    assert ended == [True]
    assert gc.get_threshold() == thresholds


@pytest.mark.parametrize("reason", ["no folder", "one core", "no Python", "no process"])
def test_without_a_process_kernels_are_compiled_here(monkeypatch, tmp_path, reason):
    def fail(*args, **options):
        raise OSError("no process")

    monkeypatch.setattr(module, "cache_folder", lambda: CacheFolder(None if reason == "no folder" else tmp_path))
    monkeypatch.setattr(module, "count_cores", lambda: 1 if reason == "one core" else 2)
    monkeypatch.setattr(sys, "executable", "napari.exe" if reason == "no Python" else "python")
    monkeypatch.setattr(module.subprocess, "Popen", fail)
    assert start_compiler("warm_up") is None


@pytest.mark.slow
def test_announced_number_of_kernels_is_true_and_a_warm_start_compiles_none(tmp_path):
    script = (
        "import napari_gsw; from napari_gsw.core.jit import PROGRESS\n"
        "napari_gsw.warm_up(); print(PROGRESS.count, PROGRESS.depth)"
    )
    options = {"env": os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}, "capture_output": True, "text": True}
    process = subprocess.run([sys.executable, "-c", script], check=True, **options)
    count, depth = map(int, process.stdout.split())
    assert count == pytest.approx(N_KERNELS, rel=0.1)  # both processes compile some
    assert depth == 0
    again = subprocess.run([sys.executable, "-c", script], check=True, **options)
    assert again.stdout.split() == ["0", "0"]
