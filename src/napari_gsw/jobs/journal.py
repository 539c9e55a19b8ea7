"""The rows of a run in a file, one line each, so that a stopped run goes on where it was.

The journal's name holds a digest of everything the rows depend on, so that rows of other settings, or of another
version of the package, are never taken for these. Each line also holds the stamp of the files that its job has read.
"""

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

# The folder of the journals inside that of the results.
JOURNALS = ".progress"


class Journal:
    """The rows of a run in the file `path`, which must be there."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def of(cls, title: str, depends_on: Mapping[str, Any], options: JobOptions) -> Journal:
        """The journal of what the rows depend on: a new one, or that of an earlier run."""
        path = options.folder / JOURNALS / f"{title}-{digest(depends_on)}.jsonl"
        ensure_folder(path.parent)
        with writing(f"the output folder {str(options.folder)!r}"):
            if options.fresh:
                path.unlink(missing_ok=True)
            path.touch()
        return cls(path)

    def add(self, outcome: JobOutcome, stamp: Any) -> JobOutcome:
        """Write down the row of a job and the stamp of its files; it comes back as it will be read again."""
        entry = {
            "name": outcome.name, "stamp": stamp, "attempts": outcome.attempts, "row": outcome.row_or_failure,
        }  # fmt: skip
        line = json.dumps(entry)
        # In one go, so that nothing waits in a buffer when the disk is full or the program is killed.
        with writing(f"the journal {str(self.path)!r}"), self.path.open("ab", buffering=0) as file:
            content = (line + "\n").encode()
            if file.write(content) < len(content):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return outcome._replace(row_or_failure=json.loads(line)["row"])

    def read(self) -> dict[str, tuple[JobOutcome, Any]]:
        """Rows of an earlier run and the stamps of what they were made from, by the name of the job.

        A run that was killed while writing leaves a torn line. It is cut off, or the next one would be joined to it.
        """
        entries: dict[str, tuple[JobOutcome, Any]] = {}
        lines = self.path.read_text(encoding="utf-8", errors="replace").splitlines()
        intact = []
        for line in lines:
            try:
                entry = json.loads(line)
                outcome = JobOutcome(entry["name"], entry["row"], entry.get("attempts", 1))
                entries[outcome.name] = outcome, entry["stamp"]
                intact.append(line + "\n")
            except (ValueError, KeyError, TypeError, AttributeError):
                continue
        if len(intact) < len(lines):
            with writing(f"the journal {str(self.path)!r}"):
                self.path.write_text("".join(intact), encoding="utf-8")
        return entries


def digest(depends_on: Mapping[str, Any]) -> str:
    """A short name of what rows depend on, which is ready for JSON."""
    text = json.dumps({"version": own_version(), **depends_on}, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def stamp_of(*files: Path) -> list[Any]:
    """Where files (or folders, as zarr's are) are, how large and how old: enough to tell whether they have changed."""
    return [[str(file.resolve()), *_size_and_age(file)] for file in files]


def _size_and_age(file: Path) -> tuple[int | None, int | None]:
    """Bytes, and time of the last change in nanoseconds; of a folder those of all that is in it."""
    if not file.exists():
        return None, None
    inside = [Path(folder, name) for folder, _, names in os.walk(file) for name in names] if file.is_dir() else [file]
    stats = [path.stat() for path in inside if path.exists()]
    return sum(s.st_size for s in stats), max((s.st_mtime_ns for s in stats), default=0)
