"""Many independent jobs: in parallel, with a bar, and such that a stopped run goes on where it was.

A job is a name and whatever its work needs; its row is a dictionary that JSON can hold. Rows go into a journal, one
line each, as they come. The journal's name holds a digest of everything the rows depend on, so that rows of other
settings, or of another version of the package, are never taken for these.

What has failed for a reason that may pass (a file server that hiccups, a process that was killed) is tried again when
all the others are through; what the user has to mend is not.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import sys
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from napari_gsw.core.errors import InputError
from napari_gsw.core.versions import own_version
from napari_gsw.files.tables import made_folder, writing
from napari_gsw.jobs import interruption
from napari_gsw.jobs.processes import parallel

Row = dict[str, Any]
Work = Callable[[Any], Row]

JOURNALS = ".progress"
DIED = "its process ended without a word (out of memory?)"
# Complaints of the system that will be the same the next time.
LASTING = {
    errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES, errno.EPERM, errno.ENOENT, errno.ENOTDIR,
    errno.EISDIR, errno.EEXIST, errno.ENAMETOOLONG, errno.EINVAL,
}  # fmt: skip


@dataclass(frozen=True)
class Manner:
    """How jobs are run.

    Attributes
    ----------
    folder : where the results go; journals are kept in a folder inside it.
    jobs : processes at a time; 1 works in this one.
    fresh : forget what an earlier run has left.
    quiet : no bar; what is skipped is named all the same.
    retries : how often a job is tried again that failed for a reason that may pass.
    """

    folder: Path
    jobs: int = 1
    fresh: bool = False
    quiet: bool = False
    retries: int = 1


class Failure(NamedTuple):
    """Why a job has no row, in a line, and whether it is worth another try."""

    reason: str
    again: bool = False


class Told(NamedTuple):
    """What became of a job, and how many tries it took."""

    name: str
    outcome: Row | Failure
    attempts: int


# Whatever does the jobs: the work and the jobs in, the outcome of each job out, as they come.
Engine = Callable[[Work, Mapping[str, Any]], Generator[tuple[str, Row | Failure]]]


@dataclass(frozen=True)
class Rows:
    """What became of the jobs: a row for each that was done, and why the others were not, by name."""

    done: Mapping[str, Row]
    failed: Mapping[str, str]


def run_jobs(
    title: str,
    work: Work,
    jobs: Mapping[str, Any],
    depends: Mapping[str, Any],
    manner: Manner,
    files: Mapping[str, Sequence[Path]] | None = None,
) -> Rows:
    """Do the jobs that the journal does not hold yet; the parameters are those of :func:`each_job`."""
    done: dict[str, Row] = {}
    failed: dict[str, str] = {}
    for name, outcome, _ in each_job(title, work, jobs, depends, manner, files):
        if isinstance(outcome, Failure):
            failed[name] = outcome.reason
        else:
            done[name] = outcome
    return Rows({n: done[n] for n in jobs if n in done}, {n: failed[n] for n in jobs if n in failed})


def each_job(
    title: str,
    work: Work,
    jobs: Mapping[str, Any],
    depends: Mapping[str, Any],
    manner: Manner,
    files: Mapping[str, Sequence[Path]] | None = None,
    *,
    engine: Engine | None = None,
    holds: Callable[[str, Row], bool] | None = None,
) -> Generator[Told]:
    """What becomes of each job: first of those that the journal holds, then of the others as they come.

    Parameters
    ----------
    title : names the journal and the bar; a word.
    work : called with each job's value, in another process; so it is a function of a module.
    jobs : name -> what the work needs.
    depends : all that the rows depend on besides, ready for JSON.
    files : name -> the files that a job reads; a row is made again when they have changed.
    engine : what does the jobs; by default as many processes as the manner says.
    holds : whether a row of the journal still holds, beyond that: that what it tells of is still there, say.
    """
    journal = Journal.of(title, depends, manner)
    stamps = {name: stamp(*files[name]) for name in jobs} if files else dict.fromkeys(jobs)
    failed = 0
    kept = []
    for name, (told, made_of) in journal.read().items():
        current = name in jobs and made_of == stamps[name]
        if current and not isinstance(told.outcome, Failure) and (holds is None or holds(name, told.outcome)):
            kept.append(told)
    done = len(kept)
    with _bar(title, len(jobs), done, manner) as bar:
        yield from kept
        names = {told.name for told in kept}
        left = {name: value for name, value in jobs.items() if name not in names}
        attempts = dict.fromkeys(left, 0)
        while left:
            again: dict[str, Any] = {}
            with closing((engine or partial(_results, workers=manner.jobs))(work, left)) as results:
                for name, outcome in results:
                    attempts[name] += 1
                    if isinstance(outcome, Failure):
                        if outcome.again and attempts[name] <= manner.retries:
                            again[name] = left[name]
                            continue
                        failed += 1
                        bar.write(f"napari-gsw: {name} skipped: {outcome.reason}", file=sys.stderr)
                        told = Told(name, outcome, attempts[name])
                    else:
                        told = journal.add(Told(name, outcome, attempts[name]), stamps[name])
                        done += 1
                    bar.set_postfix_str(f"{done} done, {failed} failed", refresh=False)
                    bar.update()
                    yield told
            left = again


def digest(depends: Mapping[str, Any]) -> str:
    """A short name of what rows depend on."""
    text = json.dumps({"version": own_version(), **depends}, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


class Journal:
    """The rows of a run in a file, one line each."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def of(cls, title: str, depends: Mapping[str, Any], manner: Manner) -> Journal:
        """The journal of what the rows depend on: a new one, or that of an earlier run."""
        path = manner.folder / JOURNALS / f"{title}-{digest(depends)}.jsonl"
        made_folder(path.parent)
        with writing(f"the output folder {str(manner.folder)!r}"):
            if manner.fresh:
                path.unlink(missing_ok=True)
            path.touch()
        return cls(path)

    def add(self, told: Told, made_of: Any) -> Told:
        """Note a row; it comes back as it will be read again, whatever JSON makes of it."""
        line = json.dumps({"name": told.name, "stamp": made_of, "attempts": told.attempts, "row": told.outcome})
        # In one go, so that nothing waits in a buffer when the disk is full or the program is killed.
        with writing(f"the journal {str(self.path)!r}"), self.path.open("ab", buffering=0) as file:
            whole = (line + "\n").encode()
            if file.write(whole) < len(whole):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return told._replace(outcome=json.loads(line)["row"])

    def read(self) -> dict[str, tuple[Told, Any]]:
        """Rows of an earlier run and the stamps of what they were made from.

        A run that was killed while writing leaves a torn line. It is cut off, or the next one would be joined to it.
        """
        rows: dict[str, tuple[Told, Any]] = {}
        lines = self.path.read_text(encoding="utf-8", errors="replace").splitlines()
        good = []
        for line in lines:
            try:
                entry = json.loads(line)
                told = Told(entry["name"], entry["row"], entry.get("attempts", 1))
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


@contextmanager
def _bar(title: str, total: int, initial: int, manner: Manner) -> Iterator[Any]:
    from tqdm import tqdm

    with tqdm(total=total, initial=initial, desc=title, disable=manner.quiet, dynamic_ncols=True) as bar:
        yield bar


def _results(work: Work, jobs: Mapping[str, Any], workers: int) -> Generator[tuple[str, Row | Failure]]:
    """The outcome of each job, as they come: from this process, or from several others."""
    if workers == 1:
        with interruption.deferred():
            for name, value in jobs.items():
                yield name, guarded(work, value)
                interruption.check()
    else:
        yield from parallel(partial(guarded, work), jobs, workers, partial(Failure, DIED, True))


def guarded(work: Callable[..., Any], *values: Any) -> Any | Failure:
    """What the work returns, or the reason why it returns nothing: one image must not end the run of hundreds.

    A failure among the values is the outcome, so that works can follow one another.
    """
    for value in values:
        if isinstance(value, Failure):
            return value
    try:
        return work(*values)
    except InputError as reason:
        return Failure(_line(reason), may_pass(reason.__context__))
    except OSError as reason:
        return Failure(_line(reason), may_pass(reason))
    except MemoryError as reason:
        return Failure(f"out of memory: {_line(reason)}", True)  # when the others are through there may be more
    except Exception as reason:
        return Failure(f"a defect of the program: {type(reason).__name__}: {_line(reason)}")


def may_pass(reason: BaseException | None) -> bool:
    """Whether what went wrong may go right the next time: the system complains, and not of what lasts.

    Decoders that find a file broken also raise OSError, but without a number.
    """
    return isinstance(reason, OSError) and reason.errno is not None and reason.errno not in LASTING


def _line(reason: BaseException) -> str:
    return " ".join(str(reason).split())
