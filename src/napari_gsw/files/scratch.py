"""Scratch folders: each belongs to a living process, or was left by one that was killed and is cleared by the next.

A process keeps a file of its scratch folder locked for as long as it lives, however it ends: a lock that can be taken
tells of a death. A lock of another machine may not reach this one (some shared file systems keep locks to themselves),
so what another machine has left goes only when nothing in it has changed for a day, by the clock of the file system.
"""

from __future__ import annotations

import os
import shutil
import socket
import sys
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import IO, Any

# How the name of a scratch folder begins.
SCRATCH = ".unfinished-"
# The file in it that its process keeps locked; it holds the name of the machine.
OWNER = ".owner"
DAY = 86_400.0  # seconds

# The scratch folders of this process: a lock does not keep out the process that holds it.
_own: set[Path] = set()


@contextmanager
def scratch_folder(folder: Path) -> Iterator[Path]:
    """A new folder inside `folder` for what is not finished; it vanishes with all that is still in it.

    What dead processes have left in `folder` is cleared first.
    """
    owner = _owned(folder)
    scratch = Path(owner.name).parent
    try:
        with owner:
            owner.write(machine())
            owner.flush()
            with suppress(OSError):  # a file system without locks
                _take_lock(owner)
            clear_leftovers(folder, os.stat(scratch / OWNER).st_mtime)
            yield scratch
    finally:
        _remove(scratch)
        _own.discard(scratch)


def _owned(folder: Path) -> IO[str]:
    """The open file in a new scratch folder that tells whose it is."""
    while True:
        scratch = Path(tempfile.mkdtemp(prefix=SCRATCH, dir=folder)).absolute()
        _own.add(scratch)
        try:
            return (scratch / OWNER).open("w", encoding="utf-8")
        except FileNotFoundError:  # another process has taken it for a leftover
            _own.discard(scratch)
        except BaseException:
            _remove(scratch)
            _own.discard(scratch)
            raise


def _remove(scratch: Path) -> None:
    """Remove a scratch folder, what tells whose it is last: whoever is killed meanwhile leaves what can be known."""
    with suppress(OSError), os.scandir(scratch) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                shutil.rmtree(entry.path, ignore_errors=True)
            elif entry.name != OWNER:
                os.unlink(entry.path)
    shutil.rmtree(scratch, ignore_errors=True)


def clear_leftovers(folder: Path, now: float) -> None:
    """Remove the scratch folders of dead processes from a folder; `now` by the clock of its file system."""
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.startswith(SCRATCH) and entry.is_dir(follow_symlinks=False):
                scratch = Path(entry.path).absolute()
                if scratch in _own:
                    continue
                with suppress(OSError):  # an empty one is of no use to a dead process, and a living one makes another
                    os.rmdir(scratch)
                if _is_dead(scratch, now):
                    _remove(scratch)


@cache
def machine() -> str:
    """A name of this machine since it was started, which no other has."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return f"{socket.gethostname()} {uuid.getnode():x}"


def _is_dead(scratch: Path, now: float) -> bool:
    """Whether nobody will finish what is in a scratch folder of another process."""
    free_lock = here = False
    try:
        with (scratch / OWNER).open("r+", encoding="utf-8") as owner:
            here = owner.read() == machine()
            try:
                _take_lock(owner)
                free_lock = True
            except (BlockingIOError, PermissionError):
                return False
    except FileNotFoundError:
        pass  # removed meanwhile, or with files of ours in it that somebody has taken the owner's from
    except OSError:
        pass  # a file system without locks
    return (free_lock and here) or now - _last_change(scratch) > DAY


def _last_change(folder: Path) -> float:
    """Time of the last change of anything in a folder."""
    times = [os.stat(folder).st_mtime] if os.path.exists(folder) else [0.0]
    for parent, below, files in os.walk(folder):
        for name in (*below, *files):
            with suppress(OSError):
                times.append(os.lstat(os.path.join(parent, name)).st_mtime)
    return max(times)


def _take_lock(file: IO[Any]) -> None:
    """Lock a file until it is closed; BlockingIOError or PermissionError if another process has done so."""
    if sys.platform == "win32":
        import msvcrt

        file.seek(2**20)  # beyond its end, so that others can read it
        msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
    else:
        import fcntl

        fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
