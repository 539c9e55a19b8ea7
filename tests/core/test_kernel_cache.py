"""Where compiled kernels are kept, what two processes do to each other there, and what is said while they are made."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import numba
import pytest

from napari_gsw.core import kernel_cache
from napari_gsw.core.jit import COMPILATION
from napari_gsw.core.kernel_cache import ENDING, CacheFolder, KernelFiles, cache_folder, is_kept
from napari_gsw.core.pipeline import warm_up as module
from napari_gsw.core.pipeline.stage import Stage
from napari_gsw.core.pipeline.warm_up import KERNELS, Background, compiling_stage


def key(*types):
    return (types, ("linux", "cpu"), ("code", ""))


def test_two_processes_that_compile_for_two_types_at_once_keep_both(tmp_path):
    """Numba's own files are numbered: both would write number 1, and the index would lead one of them astray."""
    ours, theirs = KernelFiles(tmp_path, "kernel"), KernelFiles(tmp_path, "kernel")
    ours.save(key("int32"), "of 32 bits")
    theirs.save(key("int64"), "of 64 bits")
    ours.save(key("int32"), "of 32 bits")
    for files in (ours, theirs):
        assert [files.load(key("int32")), files.load(key("int64"))] == ["of 32 bits", "of 64 bits"]
    assert len(list(tmp_path.iterdir())) == 2  # and nothing is left of the writing


def test_what_cannot_be_read_is_compiled_again(tmp_path):
    files = KernelFiles(tmp_path, "kernel")
    assert files.load(key("int32")) is None
    files.path(key("int32")).write_bytes(b"cnapari_gsw.core.arrays\nNoSuchRecord\n.")
    assert files.load(key("int32")) is None
    files.save(key("int32"), "code")
    assert files.load(key("int32")) == "code"
    files.flush()
    assert files.load(key("int32")) is None


def test_what_an_earlier_version_has_left_goes_and_other_kernels_stay(tmp_path, monkeypatch):
    files, other = KernelFiles(tmp_path, "kernel"), KernelFiles(tmp_path, "kernel_2")
    files.save(key("int32"), "old")
    other.save(key("int32"), "other")
    monkeypatch.setattr(kernel_cache, "source_stamp", lambda: "newer")
    assert files.load(key("int32")) is None
    files.save(key("int64"), "new")
    assert [file.name.split(".")[0] for file in sorted(tmp_path.glob(f"*{ENDING}"))] == ["kernel", "kernel_2"]


def test_a_full_disk_is_no_reason_to_fail(tmp_path, monkeypatch):
    def full(*args, **kwargs):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(kernel_cache.tempfile, "mkstemp", full)
    KernelFiles(tmp_path, "kernel").save(key("int32"), "code")


@pytest.fixture
def read_only(tmp_path, monkeypatch):
    """Neither the package nor the home can be written; what is temporary is in a folder of the test."""
    monkeypatch.setattr(kernel_cache, "_lasting_folders", lambda: iter(()))
    monkeypatch.setattr(kernel_cache.tempfile, "gettempdir", lambda: str(tmp_path))
    return tmp_path


def test_a_read_only_home_falls_back_to_a_temporary_folder_and_says_so(read_only):
    first, second = cache_folder.__wrapped__(), cache_folder.__wrapped__()
    assert first == second  # the next process finds what this one has compiled
    assert read_only in first.path.parents
    assert "only in" in first.remark
    assert str(first.path) in first.remark
    KernelFiles(first.path, "kernel").save(key("int32"), "code")
    assert KernelFiles(second.path, "kernel").load(key("int32")) == "code"


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="temporary folders are private there")
def test_a_temporary_folder_that_others_can_write_is_not_used(read_only):
    """What is read from the cache is run."""
    open_to_all = read_only / f"napari-gsw-{os.getuid()}"
    open_to_all.mkdir()
    open_to_all.chmod(0o777)
    folder = cache_folder.__wrapped__()
    assert folder.path is None
    assert "at each start" in folder.remark


def test_the_command_line_says_where_kernels_are_kept_if_that_is_not_for_good(tmp_path, monkeypatch, capsys):
    from napari_gsw.cli import main

    monkeypatch.setattr(kernel_cache, "cache_folder", lambda: CacheFolder(tmp_path, "only for now"))
    words = ["segment", str(tmp_path / "nowhere.png"), "-o", str(tmp_path / "out")]
    assert main(words) == 2
    assert "napari-gsw: only for now\n" in capsys.readouterr().err
    assert main([*words, "-q"]) == 2
    assert "only for now" not in capsys.readouterr().err


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
    background = Background()
    background.side = Endless()
    background.begin()
    assert begun.wait(60)
    background.end()
    background._thread.join(60)
    assert not background.going
    assert not background.warm
    assert not compiled_here


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
        COMPILATION.beside("sampler", ())
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
    assert ordered == ["sampler"]
    assert len(compiled) == 1
    assert compiled[0] is not threading.current_thread()


def test_what_is_kept_is_known_without_loading_it(tmp_path):
    kernel = numba.njit(lambda x: x)
    assert not is_kept(kernel)
    kernel._cache = kernel_cache.KernelCache(kernel.py_func, tmp_path)
    assert not is_kept(kernel)
    kernel._cache._cache_file.save(key("int32"), "code")
    assert is_kept(kernel)


@pytest.mark.slow
def test_the_number_of_kernels_that_is_announced_is_true(tmp_path):
    script = "import napari_gsw; napari_gsw.warm_up(); from napari_gsw.core.jit import COMPILATION as c; print(c.count)"
    asked = {"env": os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}, "capture_output": True, "text": True}
    process = subprocess.run([sys.executable, "-c", script], check=True, **asked)
    assert int(process.stdout) == KERNELS
    again = subprocess.run([sys.executable, "-c", script], check=True, **asked)
    assert int(again.stdout) == 0
