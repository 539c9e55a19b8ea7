"""The rows of a run in a file, one line each, so that a stopped run goes on where it was.

The journal's name holds a digest of everything the rows depend on, so that rows of other settings, or of another
version of the package, are never taken for these. Each line also holds the stamp of the files that its job has read.

Several runs may work at once into one folder, on machines that share nothing but that folder: so each run writes a
file of its own, and reads those of all. Of two entries of a job the later counts.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import time
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from napari_gsw.core.versions import own_version
from napari_gsw.files.folders import ensure_folder, writing
from napari_gsw.files.ledger import JOURNALS, run_name
from napari_gsw.jobs.records import Failure, JobOptions, JobOutcome

__all__ = ["JOURNALS", "Journal", "JournalEntry", "digest", "stamp_of"]


class JournalEntry(NamedTuple):
    """What the journals know of a job.

    Attributes
    ----------
    outcome : what became of it; None if a run has begun and not come to it.
    stamp : of the files that it has read.
    """

    outcome: JobOutcome | None
    stamp: Any = None


class Journal:
    """The rows of all runs with one title and one digest in a folder.

    Attributes
    ----------
    folder : of the journals.
    stem : how the names of their files begin.
    path : the file of this run; made by its first line.
    """

    def __init__(self, folder: Path, stem: str) -> None:
        self.folder, self.stem = folder, stem
        self.path = folder / f"{stem}.{run_name()}.jsonl"

    @classmethod
    def of(cls, title: str, depends_on: Mapping[str, Any], options: JobOptions) -> Journal:
        """The journal of what the rows depend on."""
        return cls(options.folder / JOURNALS, f"{title}-{digest(depends_on)}")

    def begin(self, names: Collection[str], forget: bool = False) -> None:
        """Write down which jobs this run is to do; `forget` what earlier runs have made of them."""
        ensure_folder(self.folder)
        self._write({"time": time.time(), "jobs": list(names), "forget": forget})

    def add(self, outcome: JobOutcome, stamp: Any) -> JobOutcome:
        """Write down what became of a job and the stamp of its files; it comes back as it will be read again."""
        row = outcome.row_or_failure
        entry = {"time": time.time(), "name": outcome.name, "stamp": stamp, "attempts": outcome.attempts}
        if isinstance(row, Failure):
            self._write(entry | {"failure": row.reason})
            return outcome
        return outcome._replace(row_or_failure=json.loads(self._write(entry | {"row": row}))["row"])

    def files(self) -> dict[str, int]:
        """The journals that there are, and how long each is: what has changed when another run has written."""
        paths = sorted(self.folder.glob(f"{self.stem}.*"))
        return {path.name: path.stat().st_size for path in paths if path.suffix == ".jsonl"}

    def read(self) -> dict[str, JournalEntry]:
        """What is known of each job, by name, of all runs. A line that a killed run has torn is passed over."""
        lines: list[tuple[float, int, dict[str, Any]]] = []
        for file in self.files():
            for line in (self.folder / file).read_text(encoding="utf-8", errors="replace").splitlines():
                try:
                    content = json.loads(line)
                    lines.append((float(content["time"]), len(lines), content))
                except (ValueError, KeyError, TypeError, RecursionError):
                    continue
        entries: dict[str, JournalEntry] = {}
        for _, _, content in sorted(lines, key=lambda line: line[:2]):
            try:
                entries |= _entries(content, entries)
            except (KeyError, TypeError, AttributeError):
                continue
        return entries

    def _write(self, content: Mapping[str, Any]) -> str:
        """Add a line; returns its text."""
        line = json.dumps(content)
        # In one go, so that nothing waits in a buffer when the disk is full or the program is killed.
        with writing(f"the journal {str(self.path)!r}"), self.path.open("ab", buffering=0) as file:
            text = (line + "\n").encode()
            if file.write(text) < len(text):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return line


def _entries(content: Mapping[str, Any], earlier: Mapping[str, JournalEntry]) -> dict[str, JournalEntry]:
    """What a line says, beside what earlier ones have said."""
    if "jobs" in content:
        names = (name for name in content["jobs"] if content["forget"] or name not in earlier)
        return {str(name): JournalEntry(None) for name in names}
    row = content["row"] if "row" in content else Failure(content["failure"])
    outcome = JobOutcome(content["name"], row, content.get("attempts", 1))
    return {outcome.name: JournalEntry(outcome, content["stamp"])}


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
