"""Where compiled kernels are kept, and what two processes do to each other there."""

from __future__ import annotations

import ast
import os

import numba
import pytest

from napari_gsw.core.compiler import kernel_files
from napari_gsw.core.compiler.kernel import Kernel, Use, is_kept
from napari_gsw.core.compiler.kernel_files import (
    ENDING,
    CacheFolder,
    KernelFiles,
    cache_folder,
    compiled_files,
    kernel_name,
)


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


def test_code_with_a_bit_that_has_turned_is_not_run(tmp_path):
    files = KernelFiles(tmp_path, "kernel")
    files.save(key("int32"), {"code": b"machine code " * 100})
    path = files.path(key("int32"))
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    assert files.load(key("int32")) is None
    path.write_bytes(b"")
    assert files.load(key("int32")) is None


def test_all_that_kernels_import_from_us_is_in_the_stamp():
    """A constant or a record of another file is compiled into a kernel, and must not outlive a change of that file."""
    package = kernel_files.PACKAGE
    stamped = set(compiled_files())
    types_only = package / "core" / "arrays.py"  # which are not compiled
    kernels = [*package.rglob("*kernels.py"), package / "core" / "sampler" / "records.py"]
    assert len(kernels) > 20
    for file in kernels:
        for node in ast.parse(file.read_text()).body:
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("napari_gsw."):
                place = package.parent.joinpath(*node.module.split(".")).with_suffix(".py")
                assert place in {*stamped, types_only}, f"{file.name} imports {node.module}"


def test_what_an_earlier_version_has_left_goes_and_other_kernels_stay(tmp_path, monkeypatch):
    files, other = KernelFiles(tmp_path, "kernel"), KernelFiles(tmp_path, "kernel_2")
    files.save(key("int32"), "old")
    other.save(key("int32"), "other")
    monkeypatch.setattr(kernel_files, "source_stamp", lambda: "newer")
    assert files.load(key("int32")) is None
    files.save(key("int64"), "new")
    assert [file.name.split(".")[0] for file in sorted(tmp_path.glob(f"*{ENDING}"))] == ["kernel", "kernel_2"]


def test_a_full_disk_is_no_reason_to_fail(tmp_path, monkeypatch):
    def full(*args, **kwargs):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(kernel_files.tempfile, "mkstemp", full)
    KernelFiles(tmp_path, "kernel").save(key("int32"), "code")


@pytest.fixture
def read_only(tmp_path, monkeypatch):
    """Neither the package nor the home can be written; what is temporary is in a folder of the test."""
    monkeypatch.setattr(kernel_files, "_lasting_folders", lambda: iter(()))
    monkeypatch.setattr(kernel_files.tempfile, "gettempdir", lambda: str(tmp_path))
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

    monkeypatch.setattr(kernel_files, "cache_folder", lambda: CacheFolder(tmp_path, "only for now"))
    words = ["segment", str(tmp_path / "nowhere.png"), "-o", str(tmp_path / "out")]
    assert main(words) == 2
    assert "napari-gsw: only for now\n" in capsys.readouterr().err
    assert main([*words, "-q"]) == 2
    assert "only for now" not in capsys.readouterr().err


def test_what_is_kept_is_known_without_loading_it(tmp_path, monkeypatch):
    monkeypatch.setattr("napari_gsw.core.compiler.kernel.cache_folder", lambda: CacheFolder(tmp_path))
    kernel = Kernel(key, Use(), numba.njit)
    assert not is_kept(kernel)
    KernelFiles(tmp_path, kernel_name(key)).save(key("int32"), "code")
    assert is_kept(kernel)
    monkeypatch.setattr("napari_gsw.core.compiler.kernel.cache_folder", lambda: CacheFolder(None))
    assert not is_kept(kernel)
