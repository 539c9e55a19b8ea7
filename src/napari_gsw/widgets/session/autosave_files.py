"""Where the window saves by itself, and which of these files nobody works on any more."""

from __future__ import annotations

import hashlib
import itertools
import os
import platform
import re
import time
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import NamedTuple

import platformdirs
import psutil

from napari_gsw.files.autosave import Autosave
from napari_gsw.files.session_file import SUFFIX, read_title

# So many of them are kept; older ones go when a new one is begun.
MAX_KEPT = 8
# Its machine, its process, when that began, and which of its files it is. What else is in the folder is somebody's own.
NAME = re.compile(rf"(?:([0-9a-f]{{8}})-)?(\d+)-(\d+)-\d+{re.escape(SUFFIX)}")
# Machines may share a home, and another one cannot be asked what runs there. Seconds after which nobody is taken to
# write any more, since a run is saved twice a minute; and after which a file may go, since a window may wait for long.
SILENCE, FORGOTTEN = 600.0, 30 * 86_400.0
_counter = itertools.count()
# Those that this process writes to.
_mine: set[Path] = set()
# Of these, those that nobody works on any more and that are still being written.
_left_behind: set[Autosave] = set()


class Restorable(NamedTuple):
    """A session that can be restored: its file, and what it is in a few words."""

    path: Path
    title: str


def autosave_folder() -> Path:
    """The folder of the autosaves, the user's own."""
    return Path(platformdirs.user_data_dir("napari-gsw", appauthor=False)) / "autosaves"


def new_autosave() -> Path:
    """A file of our own to save to, named after the process that writes it; old ones that nobody writes go."""
    me = psutil.Process()
    path = autosave_folder() / f"{_machine()}-{me.pid}-{int(me.create_time())}-{next(_counter)}{SUFFIX}"
    _mine.add(path)
    for old in [old for old in _left() if not _is_written(old, FORGOTTEN)][MAX_KEPT - 1 :]:
        with suppress(OSError):  # it is open elsewhere, or not ours to remove
            old.unlink(missing_ok=True)
    return path


def release_autosave(path: Path, autosave: Autosave) -> None:
    """Nobody works on it any more: it may be restored once it is on the disk, which nobody waits for."""

    def over() -> None:
        _mine.discard(path)
        _left_behind.discard(autosave)

    _left_behind.add(autosave)
    autosave.leave(over)


def all_written() -> bool:
    """Whether all that was left is on the disk."""
    return not _left_behind


def wait_for_released() -> None:
    """Until all that was left is on the disk."""
    for autosave in list(_left_behind):
        autosave.close()


def discard_autosave(path: Path) -> None:
    """It is not wanted any more."""
    _mine.discard(path)
    path.unlink(missing_ok=True)


def list_restorable() -> Iterator[Restorable]:
    """Sessions that nobody works on, the newest first; a file is only opened when it is asked for."""
    titles = ((path, read_title(path)) for path in _left())
    return (Restorable(path, title) for path, title in titles if title is not None)


def _left() -> list[Path]:
    """Files of processes that are gone, or of windows that are closed, the newest first."""
    try:
        ours = [path for path in autosave_folder().iterdir() if NAME.fullmatch(path.name) and path not in _mine]
        files = [path for path in ours if not _is_written(path)]
        return sorted(files, key=lambda path: -path.stat().st_mtime)
    except OSError:  # a home that cannot be read, or another process that cleans up
        return []


@cache
def _machine() -> str:
    """A short name of this machine."""
    return hashlib.sha256(platform.node().encode()).hexdigest()[:8]


def _is_written(path: Path, silence: float = SILENCE) -> bool:
    """Whether the process that has named the file is still there, and is not this one.

    One of another machine is there until nothing was written for so many seconds.
    """
    name = NAME.fullmatch(path.name)
    assert name is not None
    machine, pid, began = name[1] or _machine(), int(name[2]), int(name[3])
    if machine != _machine():
        return time.time() - path.stat().st_mtime < silence
    if pid == os.getpid():
        return False
    try:
        return int(psutil.Process(pid).create_time()) == began
    except psutil.Error:
        return False
