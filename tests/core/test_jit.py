"""Kernels are compiled once: what is kept of them, where, and what happens if it is damaged."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import numpy as np
import pytest

from napari_gsw.core import jit
from napari_gsw.core.jit import CacheFolder, KernelCache, arange, cache_folder, full, njit, zeros

SCRIPT = """
import sys
import numpy as np
from napari_gsw.core.jit import njit, njit_inline, njit_inner, njit_loop

@njit_inline
def root(x):
    return np.sqrt(x)

@njit_loop
def fill(values):
    for i in range(values.size):
        values[i] = root(float(i))

@njit_inner
def checked(x):
    if x < 0:
        raise ValueError("negative", x)
    print("got", x)
    values = np.empty(x)
    fill(values)
    return values

@njit
def first(x):
    return checked(x)[-1]

@njit
def second(x):
    return checked(x).sum() + root(float(x))

for kernel in [globals()[name] for name in sys.argv[1:]]:
    print(kernel(5))
    try:
        kernel(-1)
    except ValueError as error:
        print(error.args)
print(sum(sum(kernel.stats.cache_misses.values()) for kernel in (first, second)), "compiled")
"""
ANSWERS = {"first": f"{2.0}", "second": f"{sum(i**0.5 for i in range(5)) + 5**0.5}"}


def expected_lines(*kernels):
    return [line for name in kernels for line in ("got 5", ANSWERS[name], "('negative', -1)")]


@pytest.fixture
def cache_path(tmp_path, monkeypatch):
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache" / "napari-gsw"


@pytest.fixture
def run_kernels(tmp_path, cache_path):
    """Run kernels of the script in a process of its own, and return the lines that it prints."""
    script = tmp_path / "script.py"

    def run(*kernels):
        script.write_text(SCRIPT)
        done = subprocess.run(
            [sys.executable, script, *kernels], capture_output=True, text=True, timeout=120, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()

    return run


def test_kernels_return_raise_and_print_alike_compiled_and_cached(run_kernels):
    assert run_kernels("first") == [*expected_lines("first"), "1 compiled"]
    assert run_kernels("first") == [*expected_lines("first"), "0 compiled"]
    assert run_kernels("second") == [*expected_lines("second"), "1 compiled"]
    assert run_kernels("second", "first") == [*expected_lines("second", "first"), "0 compiled"]


@pytest.mark.parametrize("damage", ["bit", "cut", "empty", "pickle"])
def test_damaged_file_is_compiled_again(run_kernels, cache_path, damage):
    run_kernels("first")
    (file,) = cache_path.glob("*.nbc")
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    damaged = {"bit": content, "cut": file.read_bytes()[:1000], "empty": b"", "pickle": b"cno.such\nRecord\n."}[damage]
    file.write_bytes(damaged)
    assert run_kernels("first") == [*expected_lines("first"), "1 compiled"]
    assert run_kernels("first") == [*expected_lines("first"), "0 compiled"]


def test_moved_package_reads_the_same_files(tmp_path, cache_path):
    """The name of a file has nothing of the folder that the package is installed in."""
    moved = tmp_path / "elsewhere" / "napari_gsw"
    shutil.copytree(jit.PACKAGE, moved, ignore=shutil.ignore_patterns("__pycache__"))
    script = (
        "import napari_gsw.core.jit as jit; from napari_gsw.core.partitions import canonical_labels\n"
        "import numpy as np; canonical_labels(np.zeros(3, np.int32)); print(jit.PACKAGE, jit.PROGRESS.count)"
    )
    counts = []
    for folder in (jit.PACKAGE.parent, moved.parent):
        environment = os.environ | {"PYTHONPATH": str(folder)}
        done = subprocess.run(
            [sys.executable, "-c", script], capture_output=True, text=True, check=True, env=environment
        )
        path, count = done.stdout.split()
        assert path == str(folder / "napari_gsw")
        counts.append(int(count))
    assert counts[0] > 0
    assert counts[1] == 0


def test_two_processes_compile_at_once(run_kernels, tmp_path, cache_path):
    run_kernels("first")
    shutil.rmtree(cache_path)
    processes = [
        subprocess.Popen([sys.executable, tmp_path / "script.py", "first"], stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    answers = [process.communicate(timeout=120)[0].splitlines() for process in processes]
    assert [lines[:-1] for lines in answers] == [expected_lines("first")] * 2
    assert run_kernels("first")[-1] == "0 compiled"
    assert [file.suffix for file in cache_path.iterdir()] == [".nbc"]  # no temporary file


def add_one(x):
    return x + 1


def compile_add_one(folder):
    kernel = njit(add_one)
    kernel._cache = KernelCache(add_one, folder)
    assert kernel(1) == 2
    return kernel


def test_files_of_earlier_sources_are_removed_except_the_newest(tmp_path, monkeypatch):
    old = [tmp_path / f"test_jit.add_one.{n:012}-0{jit.ENDING}" for n in range(jit.MAX_FILES + 3)]
    other = tmp_path / f"test_jit.add_two.0-0{jit.ENDING}"
    for n, file in enumerate([*old, other]):
        file.write_bytes(b"")
        os.utime(file, (n, n))
    kernel = compile_add_one(tmp_path)
    left = set(tmp_path.iterdir())
    assert other in left
    assert left & set(old) == set(old[3:])
    assert len(left) == jit.MAX_FILES + 2
    assert kernel._cache.has_any()
    monkeypatch.setattr(jit, "source_hash", lambda module: "newer")
    assert not kernel._cache.has_any()
    assert sum(compile_add_one(tmp_path).stats.cache_misses.values()) == 1


def test_full_disk_is_no_error(tmp_path, monkeypatch):
    def fail(*args, **kwargs):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(jit.tempfile, "mkstemp", fail)
    assert not compile_add_one(tmp_path)._cache.has_any()


def test_kernels_run_without_a_writable_folder_and_a_notice_says_so(tmp_path, monkeypatch, capsys):
    from napari_gsw.cli import main

    (tmp_path / "file").write_text("")
    monkeypatch.setattr(jit, "_candidate_folders", lambda: iter([tmp_path / "file" / "folder"]))
    folder = cache_folder.__wrapped__()
    assert folder.path is None
    assert "NUMBA_CACHE_DIR" in folder.notice
    monkeypatch.setattr(jit, "cache_folder", lambda: folder)
    assert njit(add_one)(1) == 2
    arguments = ["segment", str(tmp_path / "nowhere.png"), "-o", str(tmp_path / "out")]
    assert main(arguments) == 2
    assert f"napari-gsw: {folder.notice}\n" in capsys.readouterr().err
    assert main([*arguments, "-q"]) == 2
    assert folder.notice not in capsys.readouterr().err


def test_first_writable_folder_is_used(tmp_path, monkeypatch):
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    assert cache_folder.__wrapped__() == CacheFolder(tmp_path / "napari-gsw")


def test_hash_covers_what_is_compiled_into_a_kernel(tmp_path, monkeypatch):
    """Constants and records of imported files are compiled into kernels, too."""
    package = tmp_path / "napari_gsw"
    shutil.copytree(jit.PACKAGE, package, ignore=shutil.ignore_patterns("__pycache__", "*.npz"))
    monkeypatch.setattr(jit, "PACKAGE", package)
    kernels = package / "core" / "sampler" / "chain_kernels.py"
    before = jit.source_hash(kernels)
    changes = {"sites/superpixels.py": False} | dict.fromkeys(
        ("jit.py", "sampler/chain_kernels.py", "sampler/state.py", "model/priors.py"), True
    )
    for changed, is_other in changes.items():
        with open(package / "core" / changed, "a") as file:
            file.write("\nCONSTANT = 1\n")
        jit.read_module.cache_clear()
        jit.source_hash.cache_clear()
        changed_hash = jit.source_hash(kernels)
        assert (changed_hash != before) is is_other
        before = changed_hash


def make_arrays(n, m):
    return (
        zeros(n, np.int64),
        zeros((n, m), np.uint32),
        zeros((2, n, m), np.float32),
        full(n, -1, np.int32),
        full((n, m), np.inf, np.float32),
        full(n, 1, np.bool_),
        arange(n, np.int32),
    )


@pytest.mark.parametrize("function", [make_arrays, njit(make_arrays)], ids=["Python", "compiled"])
@pytest.mark.parametrize(("n", "m"), [(5, 3), (0, 4), (1, 1)])
def test_arrays_equal_those_of_numpy(function, n, m):
    expected = (
        np.zeros(n, np.int64),
        np.zeros((n, m), np.uint32),
        np.zeros((2, n, m), np.float32),
        np.full(n, -1, np.int32),
        np.full((n, m), np.inf, np.float32),
        np.ones(n, np.bool_),
        np.arange(n, dtype=np.int32),
    )
    for array, other in zip(function(n, m), expected, strict=True):
        np.testing.assert_array_equal(array, other, strict=True)
