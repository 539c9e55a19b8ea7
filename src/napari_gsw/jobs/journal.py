"""The rows of a run in a file, so that a stopped run goes on where it was."""

from __future__ import annotations

import errno
import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from napari_gsw.core.versions import own_version
from napari_gsw.files.folders import ensure_folder, writing
from napari_gsw.jobs.records import JobOptions, JobOutcome

JOURNALS = ".progress"


def digest(depends: Mapping[str, Any]) -> str:
    """A short name of what rows depend on."""
    text = json.dumps({"version": own_version(), **depends}, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


class Journal:
    """The rows of a run in a file, one line each."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def of(cls, title: str, depends: Mapping[str, Any], manner: JobOptions) -> Journal:
        """The journal of what the rows depend on: a new one, or that of an earlier run."""
        path = manner.folder / JOURNALS / f"{title}-{digest(depends)}.jsonl"
        ensure_folder(path.parent)
        with writing(f"the output folder {str(manner.folder)!r}"):
            if manner.fresh:
                path.unlink(missing_ok=True)
            path.touch()
        return cls(path)

    def add(self, told: JobOutcome, made_of: Any) -> JobOutcome:
        """Note a row; it comes back as it will be read again, whatever JSON makes of it."""
        line = json.dumps({"name": told.name, "stamp": made_of, "attempts": told.attempts, "row": told.outcome})
        # In one go, so that nothing waits in a buffer when the disk is full or the program is killed.
        with writing(f"the journal {str(self.path)!r}"), self.path.open("ab", buffering=0) as file:
            whole = (line + "\n").encode()
            if file.write(whole) < len(whole):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return told._replace(outcome=json.loads(line)["row"])

    def read(self) -> dict[str, tuple[JobOutcome, Any]]:
        """Rows of an earlier run and the stamps of what they were made from.

        A run that was killed while writing leaves a torn line. It is cut off, or the next one would be joined to it.
        """
        rows: dict[str, tuple[JobOutcome, Any]] = {}
        lines = self.path.read_text(encoding="utf-8", errors="replace").splitlines()
        good = []
        for line in lines:
            try:
                entry = json.loads(line)
                told = JobOutcome(entry["name"], entry["row"], entry.get("attempts", 1))
                rows[told.name] = told, entry["stamp"]
                good.append(line + "\n")
            except (ValueError, KeyError, TypeError, AttributeError):
                continue
        if len(good) < len(lines):
            with writing(f"the journal {str(self.path)!r}"):
                self.path.write_text("".join(good), encoding="utf-8")
        return rows


def stamp(*files: Path) -> list[Any]:
    """Where files (or folders, as zarr's are) are, how large and how old: enough to tell whether they have changed."""
    return [[str(file.resolve()), *_size_and_age(file)] for file in files]


def _size_and_age(file: Path) -> tuple[int | None, int | None]:
    if not file.exists():
        return None, None
    inside = [Path(folder, name) for folder, _, names in os.walk(file) for name in names] if file.is_dir() else [file]
    found = [path.stat() for path in inside if path.exists()]
    return sum(s.st_size for s in found), max((s.st_mtime_ns for s in found), default=0)
