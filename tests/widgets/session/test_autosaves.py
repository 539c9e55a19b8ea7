"""Which files of the folder of autosaves are ours: they go when they are old, and nothing else does."""

from __future__ import annotations

import os
import time

import numpy as np
import pytest

pytest.importorskip("napari")
pytest.importorskip("pytestqt")
pytestmark = pytest.mark.gui

OWN = ("my cells.zarr.zip", "1-2.zarr.zip", "work-of-monday-3.zarr.zip", "notes.txt", "1-2-3.zarr.zip.part")


def test_what_another_machine_saves_is_left_to_it(tmp_path, monkeypatch):
    """Machines may share a home; what runs on the other one cannot be asked."""
    import napari_gsw as gsw
    from napari_gsw.widgets.session import autosave

    monkeypatch.setattr(autosave, "autosave_folder", lambda: tmp_path)
    result = gsw.segment(np.kron(np.eye(2), np.ones((20, 20))), sweeps=5)
    theirs = gsw.save_session(tmp_path / "0123abcd-7-7-0.zarr.zip", result)
    assert list(autosave.list_restorable()) == []
    silent = time.time() - autosave.SILENCE - 1
    os.utime(theirs, (silent, silent))
    assert [path for path, _ in autosave.list_restorable()] == [theirs]
    for number in range(2 * autosave.MAX_KEPT):
        (tmp_path / f"{2**22 + 1}-1-{number}.zarr.zip").write_bytes(b"")
    autosave.discard_autosave(autosave.new_autosave())
    assert theirs.exists()
    os.utime(theirs, (1e9, 1e9))
    autosave.discard_autosave(autosave.new_autosave())
    assert not theirs.exists()


def test_an_old_autosave_that_cannot_be_removed_keeps_nobody_from_saving(tmp_path, monkeypatch):
    from napari_gsw.widgets.session import autosave

    monkeypatch.setattr(autosave, "autosave_folder", lambda: tmp_path)
    for number in range(autosave.MAX_KEPT + 2):
        (tmp_path / f"{2**22 + 1}-1-{number}.zarr.zip").write_bytes(b"")

    def refuse(*_, **__):
        raise PermissionError("open elsewhere")

    with monkeypatch.context() as patch:
        patch.setattr(type(tmp_path), "unlink", refuse)
        new = autosave.new_autosave()
    assert new.parent == tmp_path
    autosave.discard_autosave(new)


def test_only_old_autosaves_go_when_a_new_one_is_begun(tmp_path, monkeypatch):
    import psutil

    from napari_gsw.widgets.session import autosave

    monkeypatch.setattr(autosave, "autosave_folder", lambda: tmp_path)
    gone = 2**22 + 1  # no process has it
    old = [tmp_path / f"{gone}-1-{number}.zarr.zip" for number in range(autosave.MAX_KEPT + 2)]
    parent = psutil.Process(os.getppid())
    written = tmp_path / f"{parent.pid}-{int(parent.create_time())}-0.zarr.zip"
    for age, path in enumerate([*old, written, *(tmp_path / name for name in OWN)]):
        path.write_bytes(b"")
        os.utime(path, (1e9 - age, 1e9 - age))
    assert list(autosave.list_restorable()) == []  # nothing of it can be read
    new = autosave.new_autosave()
    autosave.discard_autosave(new)
    assert {path.name for path in tmp_path.iterdir()} == {
        *(path.name for path in old[: autosave.MAX_KEPT - 1]),
        written.name,
        *OWN,
    }
