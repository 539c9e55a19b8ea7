"""Which files of the folder of autosaves are ours: they go when they are old, and nothing else does."""

from __future__ import annotations

import os

import pytest

pytest.importorskip("napari")
pytest.importorskip("pytestqt")
pytestmark = pytest.mark.gui

OWN = ("my cells.zarr.zip", "1-2.zarr.zip", "work-of-monday-3.zarr.zip", "notes.txt", "1-2-3.zarr.zip.part")


def test_only_old_autosaves_go_when_a_new_one_is_begun(tmp_path, monkeypatch):
    import psutil

    from napari_gsw.widgets.session import autosaves

    monkeypatch.setattr(autosaves, "autosave_folder", lambda: tmp_path)
    gone = 2**22 + 1  # no process has it
    old = [tmp_path / f"{gone}-1-{number}.zarr.zip" for number in range(autosaves.MOST_KEPT + 2)]
    parent = psutil.Process(os.getppid())
    written = tmp_path / f"{parent.pid}-{int(parent.create_time())}-0.zarr.zip"
    for age, path in enumerate([*old, written, *(tmp_path / name for name in OWN)]):
        path.write_bytes(b"")
        os.utime(path, (1e9 - age, 1e9 - age))
    assert list(autosaves.restorable()) == []  # nothing of it can be read
    new = autosaves.new_autosave()
    autosaves.discard(new)
    assert {path.name for path in tmp_path.iterdir()} == {
        *(path.name for path in old[: autosaves.MOST_KEPT - 1]),
        written.name,
        *OWN,
    }
