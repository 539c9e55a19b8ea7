"""Reports and figures in a folder of many results, and the ledger that says which of them are ours to replace.

A run over many images writes tables beside one another, and several runs may share a folder. So the fingerprints of
what is written (:mod:`napari_gsw.files.ownership`) are kept in files of their own in ``.progress``, one for each
process, and a file is ours if any of them has it. A line is written before its file takes its place.
"""

from __future__ import annotations

import os
import re
import secrets
import socket
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path

from napari_gsw.core.errors import InputError
from napari_gsw.files.folders import ensure_folder, writing
from napari_gsw.files.ownership import fingerprint, foreign
from napari_gsw.files.scratch import scratch_folder

# The folder inside that of the results where runs keep what they need to go on.
JOURNALS = ".progress"


def run_name() -> str:
    """A name that no other process has, on whatever machine: for files that have one writer each."""
    return _run_name(os.getpid())


@lru_cache
def _run_name(process: int) -> str:
    host = re.sub(r"[^A-Za-z0-9-]", "_", socket.gethostname())[:40]
    return f"{host}-{process}-{secrets.token_hex(4)}"


def is_ours(path: Path) -> bool:
    """Whether a report that is there is as a run of ours has written it."""
    if path.is_symlink() or not path.is_file():
        return False
    line = f"{fingerprint(path)}  {path.name}"
    return any(line in _lines(ledger) for ledger in (path.parent / JOURNALS).glob("files-*.txt"))


def reserve(folder: Path, names: Iterable[str], overwrite: bool = False) -> None:
    """See before the work begins that reports can be written: a foreign file in the way is an error that names it.

    Parameters
    ----------
    folder : of the reports; need not be there.
    names : of the files.
    overwrite : a person's word: what is there now is ours to replace.
    """
    for name in names:
        path = folder / name
        if not os.path.lexists(path) or is_ours(path):
            continue
        if not overwrite or not os.path.isfile(path):
            raise InputError(foreign(path))
        _claim(path, fingerprint(path))


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A scratch file that takes the place of a report when it is complete, unless somebody else's is there."""
    with writing(repr(str(path))), scratch_folder(path.parent) as scratch:
        new = scratch / path.name
        yield new
        if os.path.lexists(path) and not is_ours(path):
            raise InputError(foreign(path))
        _claim(path, fingerprint(new))
        os.replace(new, path)


def _claim(path: Path, digest: str) -> None:
    ledger = ensure_folder(path.parent / JOURNALS) / f"files-{run_name()}.txt"
    with ledger.open("ab", buffering=0) as file:
        file.write(os.fsencode(f"{digest}  {path.name}\n"))


def _lines(ledger: Path) -> list[str]:
    try:
        return os.fsdecode(ledger.read_bytes()).splitlines()
    except OSError:
        return []
