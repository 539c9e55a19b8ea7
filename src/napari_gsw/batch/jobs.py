"""Resumable jobs in several processes.

A job is a name, a value, and a function of a module that turns the value into a record. Every run appends what it has
done to a journal of its own, and reads the journals of all runs with the same settings: so a run resumes another one,
and several runs may share a folder.
"""

from __future__ import annotations

import errno
import hashlib
import json
import multiprocessing
import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from napari_gsw.batch import interruption
from napari_gsw.core.errors import InputError
from napari_gsw.core.versions import package_version
from napari_gsw.files.output_folder import JOURNALS, PROCESS, ensure_folder, report_write_errors
from napari_gsw.files.results import make_printable

# What a job returns, ready for JSON.
Record = dict[str, Any]
Work = Callable[[Any], Record]

SPAWN = multiprocessing.get_context("spawn")
WORKER_DIED = "its process ended without a message (out of memory?)"
# Errors of the system that are the same at the next attempt.
LASTING = {
    errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES, errno.EPERM, errno.ENOENT, errno.ENOTDIR,
    errno.EISDIR, errno.EEXIST, errno.ENAMETOOLONG, errno.EINVAL,
}  # fmt: skip
THREAD_LIMITS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")


@dataclass(frozen=True)
class JobOptions:
    """Options of a run of jobs."""

    folder: Path  # where the results go; the journals are in a folder inside it
    jobs: int = 1  # number of processes; 1 works in this one
    fresh: bool = False  # ignore what an earlier run has done
    quiet: bool = False  # show no progress bar; failed jobs are named all the same
    retries: int = 1  # of a job that failed for a transient reason
    overwrite: bool = False  # replace foreign files


@dataclass(frozen=True)
class BatchOptions(JobOptions):
    """Options of the run of a batch, on which the labels do not depend."""

    resume: bool = False  # keep what an earlier run has made of the same images with the same settings
    # Address of a Dask scheduler, or its file, or `local` for a cluster of `jobs` processes on this machine. On an
    # existing cluster its workers count, and not `jobs`. None uses plain processes.
    scheduler: str | None = None
    dashboard: bool = False  # print the address of the cluster's dashboard

    def __post_init__(self) -> None:
        if self.jobs < 1 or self.retries < 0:
            raise InputError(f"jobs must be >= 1 and retries >= 0, not {self.jobs!r} and {self.retries!r}")
        if self.resume and self.fresh:
            raise InputError("--resume keeps what an earlier run has made and --overwrite does not; choose one of them")


class Failure(NamedTuple):
    """Why a job has no record, in one line, and whether another attempt may succeed."""

    reason: str
    again: bool = False


# Runs the work on jobs by name; yields their names with what came of them, in any order.
Answers = Generator[tuple[str, Record | Failure]]
Engine = Callable[[Work, Mapping[str, Any]], Answers]


class JobOutcome(NamedTuple):
    """Record of a job or why it failed, and the number of attempts."""

    name: str
    record_or_failure: Record | Failure
    attempts: int


class JobRecords(NamedTuple):
    """Records of the jobs that were done, and reasons of those that failed, by name."""

    done: Mapping[str, Record]
    failed: Mapping[str, str]


def run_jobs(
    title: str,
    work: Work,
    jobs: Mapping[str, Any],
    depends_on: Mapping[str, Any],
    options: JobOptions,
    files: Mapping[str, Sequence[Path]] | None = None,
) -> JobRecords:
    """Run the jobs that the journals do not hold yet, and collect all records; see :func:`iter_jobs`."""
    answers = {o.name: o.record_or_failure for o in iter_jobs(title, work, jobs, depends_on, options, files)}
    done = {name: record for name in jobs if not isinstance(record := answers[name], Failure)}
    return JobRecords(done, {name: answer.reason for name in jobs if isinstance(answer := answers[name], Failure)})


def iter_jobs(
    title: str,
    work: Work,
    jobs: Mapping[str, Any],
    depends_on: Mapping[str, Any],
    options: JobOptions,
    files: Mapping[str, Sequence[Path]] | None = None,
    *,
    engine: Engine | None = None,
    is_valid: Callable[[Record], bool] = lambda record: True,
    before: Callable[[Collection[str]], object] = lambda names: None,
) -> Generator[JobOutcome]:
    """Yield the outcome of each job: first of those in the journals, then of the others when they are done.

    `title` names the journals and the progress bar. `work` is a function of a module, which is called in another
    process, and `jobs` has its argument for each job by name. The records depend on `depends_on`, which is ready for
    JSON, and on `files`, those that each job reads: a job is run again when one of them has changed, or if its record
    is not valid any more. `before` is called with the names of the jobs to run, before the first of them; it may raise.
    By default the processes of `options` are the engine.
    """
    from tqdm import tqdm

    journal = Journal(title, depends_on, options.folder)
    stamps = {name: stamp_files(*files[name]) for name in jobs} if files else dict.fromkeys(jobs)
    kept: dict[str, JobOutcome] = {}
    for name, (outcome, stamp) in ({} if options.fresh else journal.read()).items():
        if name in jobs and outcome is not None and stamp == stamps[name]:
            record = outcome.record_or_failure
            if not isinstance(record, Failure) and is_valid(record):
                kept[name] = outcome
    left = {name: value for name, value in jobs.items() if name not in kept}
    if left:
        before(left)
        journal.begin(jobs, forget=options.fresh)
    run_engine = engine or partial(_run_on_this_machine, workers=options.jobs)
    attempts = dict.fromkeys(left, 0)
    done, failed = len(kept), 0
    with tqdm(total=len(jobs), initial=done, desc=title, disable=options.quiet, dynamic_ncols=True) as bar:
        yield from kept.values()
        while left:
            again: dict[str, Any] = {}
            with closing(run_engine(work, left)) as answers:
                for name, answer in answers:
                    attempts[name] += 1
                    if not isinstance(answer, Failure):
                        done += 1
                    elif answer.again and attempts[name] <= options.retries:
                        again[name] = left[name]
                        continue
                    else:
                        failed += 1
                        bar.write(make_printable(f"napari-gsw: {name} skipped: {answer.reason}"), file=sys.stderr)
                    outcome = journal.add(JobOutcome(name, answer, attempts[name]), stamps[name])
                    bar.set_postfix_str(f"{done} done, {failed} failed", refresh=False)
                    bar.update()
                    yield outcome
            left = again


def catch_errors(work: Callable[..., Any], *values: Any) -> Any | Failure:
    """Call `work`, or return a failure; a failure among the values is passed on."""
    for value in values:
        if isinstance(value, Failure):
            return value
    try:
        return work(*values)
    except Exception as error:
        return make_failure(error)


def make_failure(error: Exception) -> Failure:
    """Return the failure of a job by an exception.

    An error of the system that does not last may not occur at the next attempt. Decoders also raise OSError for broken
    files, but without a number.
    """
    text = " ".join(str(error).split())
    if isinstance(error, MemoryError):  # there may be more memory when the other jobs are done
        return Failure(f"out of memory: {text}", True)
    if isinstance(error, (InputError, OSError)):
        cause = error.__context__ if isinstance(error, InputError) else error
        return Failure(text, isinstance(cause, OSError) and cause.errno is not None and cause.errno not in LASTING)
    return Failure(f"a defect of the program: {type(error).__name__}: {text}")


def _run_on_this_machine(work: Work, jobs: Mapping[str, Any], workers: int) -> Answers:
    """Run jobs in this process, or in a pool of processes of one thread each.

    A worker that dies breaks its pool, and any of the jobs in flight may be the cause: those are run again one at a
    time, each in a pool of its own.
    """
    if workers == 1:
        with interruption.defer_signals():
            for name, value in jobs.items():
                yield name, catch_errors(work, value)
                interruption.raise_if_interrupted()
        return
    started = SPAWN.Event()
    names = deque(jobs)
    limited = [name for name in THREAD_LIMITS if name not in os.environ]
    os.environ.update(dict.fromkeys(limited, "1"))
    try:
        while names:
            lost = yield from _run_pool(work, jobs, names, workers, started)
            if lost and not started.is_set():
                raise InputError(
                    "cannot start worker processes. In a script, call this under if __name__ == '__main__':, "
                    "or use one job, which needs no process"
                )
            for name in lost:
                if len(lost) == 1 or (yield from _run_pool(work, jobs, deque([name]), 1, started)):
                    yield name, Failure(WORKER_DIED, True)
    finally:
        for name in limited:
            os.environ.pop(name, None)


def _run_pool(
    work: Work, jobs: Mapping[str, Any], names: deque[str], workers: int, started: Any
) -> Generator[tuple[str, Record | Failure], None, list[str]]:
    """Run the jobs of `names` until a worker dies; returns the jobs that were lost with the pool."""
    pool = ProcessPoolExecutor(min(workers, len(names)), SPAWN, _initialize_worker, (started,))
    running: dict[Future[Any], str] = {}
    lost: list[str] = []
    try:
        while (names or running) and not lost:
            try:
                while names and len(running) < workers:
                    running[pool.submit(catch_errors, work, jobs[names[0]])] = names[0]
                    names.popleft()
            except BrokenProcessPool:
                lost.append(names.popleft())
            # With a limit, since Windows does not interrupt a wait by Ctrl+C.
            for future in wait(running, timeout=0.5, return_when=FIRST_COMPLETED).done:
                name = running.pop(future)
                if isinstance(future.exception(), BrokenProcessPool):
                    lost.append(name)
                else:
                    yield name, future.result()
        lost += running.values()
    finally:
        if running or lost:  # workers ignore SIGTERM, by which a broken pool ends them
            for process in list((pool._processes or {}).values()):
                process.kill()
        pool.shutdown(cancel_futures=True)
    return lost


def _initialize_worker(started: Any) -> None:
    def exit_with_parent() -> None:
        parent = multiprocessing.parent_process()
        assert parent is not None
        parent.join()
        os._exit(1)

    started.set()
    interruption.ignore_signals()
    threading.Thread(target=exit_with_parent, daemon=True).start()


class Journal:
    """Outcomes of all runs with one title and the same dependencies; each run writes a file of its own."""

    def __init__(self, title: str, depends_on: Mapping[str, Any], output: Path) -> None:
        text = json.dumps({"version": package_version(), **depends_on}, sort_keys=True)
        self.folder = output / JOURNALS
        self._stem = f"{title}-{hashlib.sha256(text.encode()).hexdigest()[:12]}"
        self._path = self.folder / f"{self._stem}.{PROCESS}.jsonl"

    def begin(self, names: Collection[str], forget: bool = False) -> None:
        """List the jobs of this run; `forget` what earlier runs have made of them."""
        ensure_folder(self.folder)
        self._write({"jobs": list(names), "forget": forget})

    def add(self, outcome: JobOutcome, stamp: Any) -> JobOutcome:
        """Add an outcome with the stamp of its files; returns it as it will be read."""
        answer = outcome.record_or_failure
        entry = {"name": outcome.name, "stamp": stamp, "attempts": outcome.attempts}
        if isinstance(answer, Failure):
            self._write(entry | {"failure": answer.reason})
            return outcome
        return outcome._replace(record_or_failure=json.loads(self._write(entry | {"row": answer}))["row"])

    def files(self) -> dict[str, int]:
        """Return the sizes of the journals by name, which tell whether another run has written."""
        return {path.name: path.stat().st_size for path in sorted(self.folder.glob(f"{self._stem}.*.jsonl"))}

    def read(self) -> dict[str, tuple[JobOutcome | None, Any]]:
        """Read the outcome of each job of any run (None if it has none yet) and the stamp of its files, by name.

        Lines that a killed run has torn are skipped.
        """
        lines: list[tuple[float, dict[str, Any]]] = []
        for file in self.files():
            for line in (self.folder / file).read_text(encoding="utf-8", errors="replace").splitlines():
                with suppress(ValueError, KeyError, TypeError, RecursionError):
                    content = json.loads(line)
                    lines.append((float(content["time"]), content))
        entries: dict[str, tuple[JobOutcome | None, Any]] = {}
        for _, content in sorted(lines, key=lambda line: line[0]):
            with suppress(KeyError, TypeError, AttributeError):
                if "jobs" in content:
                    names = map(str, content["jobs"])
                    entries |= {name: (None, None) for name in names if content["forget"] or name not in entries}
                else:
                    answer = content["row"] if "row" in content else Failure(content["failure"])
                    outcome = JobOutcome(content["name"], answer, content.get("attempts", 1))
                    entries[outcome.name] = (outcome, content["stamp"])
        return entries

    def _write(self, content: Mapping[str, Any]) -> str:
        line = json.dumps({"time": time.time(), **content})
        # In one piece, so that nothing waits in a buffer when the disk is full or the program is killed.
        with report_write_errors(f"the journal {str(self._path)!r}"), self._path.open("ab", buffering=0) as file:
            text = (line + "\n").encode()
            if file.write(text) < len(text):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return line


def stamp_files(*files: Path) -> list[Any]:
    """Return path, size and time of change of files and folders, which tell whether they have changed."""
    stamps = []
    for file in files:
        stats = [path.stat() for path in (file, *file.rglob("*")) if path.is_file()]
        size, changed = sum(stat.st_size for stat in stats), max((stat.st_mtime_ns for stat in stats), default=0)
        stamps.append([str(file.resolve()), *((size, changed) if file.exists() else (None, None))])
    return stamps
