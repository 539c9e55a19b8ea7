"""Scratch folders of the living and of the dead."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

from napari_gsw.files import output_folder
from napari_gsw.files.output_folder import OWNER, SCRATCH, scratch_folder

HOLDS = """
import sys, time
from pathlib import Path
from napari_gsw.files.output_folder import scratch_folder
with scratch_folder(Path(sys.argv[1])) as folder:
    (folder / "half").write_text("written")
    print("ready", flush=True)
    time.sleep(600)
"""


def scratches(folder):
    return sorted(p.name for p in folder.iterdir() if p.name.startswith(SCRATCH))


def cleared(folder):
    """What is left after another run has come by."""
    with scratch_folder(folder):
        pass
    return scratches(folder)


def test_it_vanishes_whatever_happens(tmp_path):
    with pytest.raises(ZeroDivisionError), scratch_folder(tmp_path) as folder:
        (folder / "half").write_text(str(1 / 0))
    assert scratches(tmp_path) == []


def test_those_of_one_process_leave_each_other_alone(tmp_path):
    with scratch_folder(tmp_path) as first, scratch_folder(tmp_path) as second:
        assert first != second
        assert len(scratches(tmp_path)) == 2


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_that_of_a_living_process_stays_and_that_of_a_dead_one_goes(tmp_path):
    process = subprocess.Popen([sys.executable, "-c", HOLDS, str(tmp_path)], stdout=subprocess.PIPE)
    try:
        assert process.stdout.readline() == b"ready\n"
        assert len(cleared(tmp_path)) == 1
    finally:
        process.send_signal(signal.SIGKILL)
        process.communicate()
    assert len(scratches(tmp_path)) == 1  # nobody has cleared it yet
    assert cleared(tmp_path) == []


def test_that_of_another_machine_goes_after_a_day(tmp_path, monkeypatch):
    """Its lock may not reach this one: only time tells."""
    left = tmp_path / f"{SCRATCH}other"
    left.mkdir()
    (left / OWNER).write_text("another machine")
    (left / "half").write_text("written")
    assert cleared(tmp_path) == [left.name]
    yesterday = time.time() - output_folder.DAY - 60
    for path in (left / OWNER, left):
        os.utime(path, (yesterday, yesterday))
    assert cleared(tmp_path) == [left.name]  # one file in it is younger
    os.utime(left / "half", (yesterday, yesterday))
    assert cleared(tmp_path) == []


def test_an_empty_one_goes_and_who_was_about_to_use_it_takes_another(tmp_path, monkeypatch):
    """It was left by somebody who was killed as he made or removed it, or belongs to somebody who has just made it."""
    (tmp_path / f"{SCRATCH}new").mkdir()
    assert cleared(tmp_path) == []
    make, made = output_folder.tempfile.mkdtemp, []

    def taken_at_once(**given):
        made.append(make(**given))
        if len(made) == 1:
            os.rmdir(made[0])
        return made[-1]

    monkeypatch.setattr(output_folder.tempfile, "mkdtemp", taken_at_once)
    with scratch_folder(tmp_path) as folder:
        assert [str(folder)] == made[1:]
        (folder / "half").write_text("written")
    assert scratches(tmp_path) == []


def test_one_with_files_but_without_an_owner_is_left_alone(tmp_path):
    left = tmp_path / f"{SCRATCH}new"
    left.mkdir()
    (left / "half").write_text("written")
    assert cleared(tmp_path) == [left.name]


def test_whoever_is_killed_while_it_is_removed_leaves_what_tells_whose_it_was(tmp_path, monkeypatch):
    removed = []
    unlink = os.unlink
    monkeypatch.setattr(output_folder.os, "unlink", lambda path, **more: (removed.append(path), unlink(path, **more)))
    with scratch_folder(tmp_path) as folder:
        for name in ("aaa", "half", "zzz"):
            (folder / name).write_text("written")
    assert sorted(os.path.basename(path) for path in removed[:3]) == ["aaa", "half", "zzz"]


def test_without_locks_only_time_tells(tmp_path, monkeypatch):
    def no_locks(file):
        raise OSError(37, "No locks available")

    left = tmp_path / f"{SCRATCH}here"
    left.mkdir()
    (left / OWNER).write_text(output_folder.machine())
    monkeypatch.setattr(output_folder, "_take_lock", no_locks)
    assert cleared(tmp_path) == [left.name]
    monkeypatch.undo()
    assert cleared(tmp_path) == []
