"""Many independent jobs: in parallel, with a bar, and such that a stopped run goes on where it was.

A job is a name and whatever its work needs; its row is a dictionary that JSON can hold. Rows go into a journal, one
line each, as they come. The journal's name holds a digest of everything the rows depend on, so that rows of other
settings, or of another version of the package, are never taken for these.
"""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import os
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from napari_gsw.core.errors import InputError
from napari_gsw.core.versions import own_version

Row = dict[str, Any]
Work = Callable[[Any], Row]

JOURNALS = ".progress"
DIED = "its process ended without a word (out of memory?)"


@dataclass(frozen=True)
class Manner:
    """How jobs are run.

    Attributes
    ----------
    folder : where the results go; journals are kept in a folder inside it.
    jobs : processes at a time; 1 works in this one.
    fresh : forget what an earlier run has left.
    quiet : no bar; what is skipped is named all the same.
    """

    folder: Path
    jobs: int = 1
    fresh: bool = False
    quiet: bool = False


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
    """Do the jobs that the journal does not hold yet.

    Parameters
    ----------
    title : names the journal and the bar; a word.
    work : called with each job's value, in another process; so it is a function of a module.
    jobs : name -> what the work needs.
    depends : all that the rows depend on besides, ready for JSON.
    files : name -> the files that a job reads; a row is made again when they have changed.
    """
    journal = _journal(title, depends, manner)
    stamps = {name: stamp(*files[name]) for name in jobs} if files else dict.fromkeys(jobs)
    done = {name: row for name, (row, made_of) in _read(journal).items() if name in jobs and made_of == stamps[name]}
    failed: dict[str, str] = {}
    left = {name: value for name, value in jobs.items() if name not in done}
    with _bar(title, len(jobs), len(done), manner) as bar, journal.open("a", encoding="utf-8") as file:
        for name, row, reason in _results(work, left, manner.jobs):
            if row is None:
                failed[name] = reason
                bar.write(f"napari-gsw: {name} skipped: {reason}", file=sys.stderr)
            else:
                # Through text, so that a row is the same whether it was just made or is read again.
                line = json.dumps({"name": name, "stamp": stamps[name], "row": row})
                done[name] = json.loads(line)["row"]
                file.write(line + "\n")
                file.flush()
            bar.update()
    order = list(jobs)
    return Rows({n: done[n] for n in order if n in done}, {n: failed[n] for n in order if n in failed})


def digest(depends: Mapping[str, Any]) -> str:
    """A short name of what rows depend on."""
    text = json.dumps({"version": own_version(), **depends}, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _journal(title: str, depends: Mapping[str, Any], manner: Manner) -> Path:
    path = manner.folder / JOURNALS / f"{title}-{digest(depends)}.jsonl"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if manner.fresh:
            path.unlink(missing_ok=True)
        path.touch()
    except OSError as reason:
        raise InputError(
            f"the output folder {str(manner.folder)!r} cannot be written: {reason.strerror or reason}"
        ) from None
    return path


def stamp(*files: Path) -> list[Any]:
    """Where files are and how old: enough to tell whether they have changed."""
    found = [(file, file.stat() if file.exists() else None) for file in files]
    return [[str(file.resolve()), s and s.st_size, s and s.st_mtime_ns] for file, s in found]


def _read(journal: Path) -> dict[str, tuple[Row, Any]]:
    """Rows of an earlier run and the stamps of what they were made from.

    A run that was killed while writing leaves a torn line. It is cut off, or the next one would be joined to it.
    """
    rows: dict[str, tuple[Row, Any]] = {}
    lines = journal.read_text(encoding="utf-8").splitlines()
    good = []
    for line in lines:
        try:
            entry = json.loads(line)
            rows[entry["name"]] = entry["row"], entry["stamp"]
            good.append(line + "\n")
        except (ValueError, KeyError, TypeError):
            continue
    if len(good) < len(lines):
        journal.write_text("".join(good), encoding="utf-8")
    return rows


@contextmanager
def _bar(title: str, total: int, initial: int, manner: Manner) -> Iterator[Any]:
    from tqdm import tqdm

    with tqdm(total=total, initial=initial, desc=title, disable=manner.quiet, dynamic_ncols=True) as bar:
        yield bar


def _results(work: Work, jobs: Mapping[str, Any], workers: int) -> Iterator[tuple[str, Row | None, str]]:
    """(name, row, "") or (name, None, reason) for each job, as they come."""
    if workers == 1 or len(jobs) < 2:
        for name, value in jobs.items():
            yield name, *guarded(work, value)
        return
    left = dict(jobs)
    for name, row, reason in _parallel(work, jobs, min(workers, len(jobs))):
        if reason != DIED:
            del left[name]
            yield name, row, reason
    # A process that dies takes the others' jobs with it. One by one, only the culprit fails.
    for name, value in left.items():
        yield from _parallel(work, {name: value}, 1)


def _parallel(work: Work, jobs: Mapping[str, Any], workers: int) -> Iterator[tuple[str, Row | None, str]]:
    with (
        _one_thread_each(),
        ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn"), initializer=_deaf) as pool,
    ):
        waiting: dict[Future[tuple[Row | None, str]], str] = {}
        queue = iter(jobs.items())
        try:
            while True:
                # A few ahead, so that no worker waits and Ctrl+C finds little to cancel.
                for name, value in queue:
                    try:
                        waiting[pool.submit(guarded, work, value)] = name
                    except BrokenProcessPool:
                        yield name, None, DIED
                    if len(waiting) >= 2 * workers:
                        break
                if not waiting:
                    return
                for future in wait(waiting, return_when=FIRST_COMPLETED).done:
                    name = waiting.pop(future)
                    try:
                        yield name, *future.result()
                    except BrokenProcessPool:
                        yield name, None, DIED
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def guarded(work: Work, value: Any) -> tuple[Row | None, str]:
    """A row, or the reason why there is none: one image must not end the run of hundreds."""
    try:
        return work(value), ""
    except InputError as reason:
        return None, str(reason)
    except Exception as reason:
        return None, f"a defect of the program: {type(reason).__name__}: {reason}"


def _deaf() -> None:
    """Ctrl+C is for the process that hands out the work."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


@contextmanager
def _one_thread_each() -> Iterator[None]:
    """Processes started meanwhile calculate on one core each: there are as many of them as there are cores."""
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
    before = {name: os.environ.get(name) for name in names}
    os.environ.update({name: "1" for name, value in before.items() if value is None})
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
