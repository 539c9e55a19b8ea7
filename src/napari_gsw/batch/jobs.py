"""What jobs are given and what becomes of them."""

from __future__ import annotations

import errno
import hashlib
import json
import multiprocessing
import os
import sys
import time
from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from itertools import islice
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, NamedTuple

from napari_gsw.batch import interruption
from napari_gsw.batch.interruption import ignore_signals
from napari_gsw.core.errors import InputError
from napari_gsw.core.versions import package_version
from napari_gsw.files.output_folder import JOURNALS, ensure_folder, process_name, report_write_errors
from napari_gsw.files.results import make_printable

# What a job gives back: a dictionary that JSON can hold.
Record = dict[str, Any]
# What does a job: a function of whatever the job needs.
Work = Callable[[Any], Record]


@dataclass(frozen=True)
class JobOptions:
    """How jobs are run.

    Attributes
    ----------
    folder : where the results go; journals are kept in a folder inside it.
    jobs : processes at a time; 1 works in this one.
    fresh : forget what an earlier run has left.
    quiet : no bar; what is skipped is named all the same.
    retries : how often a job is tried again that failed for a reason that may pass.
    overwrite : write over files that no run of ours has left, too.
    """

    folder: Path
    jobs: int = 1
    fresh: bool = False
    quiet: bool = False
    retries: int = 1
    overwrite: bool = False


class Failure(NamedTuple):
    """Why a job has no row, in a line, and whether it is worth another try."""

    reason: str
    again: bool = False


# Whatever does the jobs: the work and the jobs by name in; the name of each and what it gave out, as they come.
Engine = Callable[[Work, Mapping[str, Any]], Generator[tuple[str, Record | Failure]]]


class JobOutcome(NamedTuple):
    """What became of a job.

    Attributes
    ----------
    name : of the job.
    row_or_failure : what it gave back, or why it gave nothing.
    attempts : how many tries it took.
    """

    name: str
    record_or_failure: Record | Failure
    attempts: int


@dataclass(frozen=True)
class JobRecords:
    """What became of all jobs.

    Attributes
    ----------
    done : a row for each job that was done, by its name.
    failed : why the others were not, by name.
    """

    done: Mapping[str, Record]
    failed: Mapping[str, str]


__all__ = ["JOURNALS", "Journal", "JournalEntry", "digest", "stamp_files"]


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
        self.path = folder / f"{stem}.{process_name()}.jsonl"

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
        row = outcome.record_or_failure
        entry = {"time": time.time(), "name": outcome.name, "stamp": stamp, "attempts": outcome.attempts}
        if isinstance(row, Failure):
            self._write(entry | {"failure": row.reason})
            return outcome
        return outcome._replace(record_or_failure=json.loads(self._write(entry | {"row": row}))["row"])

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
        with report_write_errors(f"the journal {str(self.path)!r}"), self.path.open("ab", buffering=0) as file:
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
    text = json.dumps({"version": package_version(), **depends_on}, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def stamp_files(*files: Path) -> list[Any]:
    """Where files (or folders, as zarr's are) are, how large and how old: enough to tell whether they have changed."""
    return [[str(file.resolve()), *_size_and_age(file)] for file in files]


def _size_and_age(file: Path) -> tuple[int | None, int | None]:
    """Bytes, and time of the last change in nanoseconds; of a folder those of all that is in it."""
    if not file.exists():
        return None, None
    inside = [Path(folder, name) for folder, _, names in os.walk(file) for name in names] if file.is_dir() else [file]
    stats = [path.stat() for path in inside if path.exists()]
    return sum(s.st_size for s in stats), max((s.st_mtime_ns for s in stats), default=0)


# Seconds that a process has to end when it is told to.
GRACE = 5.0
SPAWN = multiprocessing.get_context("spawn")


class WorkerDied(Exception):
    """The process of a worker has ended without a word."""


class Worker:
    """A process that calls `work` with one value after another.

    Attributes
    ----------
    pipe : our end of it; readable when there is a message.
    job : name of the job at hand; None if there is none.
    ready : whether it has begun: until then it is importing.
    process : the process itself.
    """

    def __init__(self, work: Callable[[Any], Any]) -> None:
        self.pipe, far_end = SPAWN.Pipe()
        self.job: str | None = None
        self.ready = False
        # A daemon, so that a program that ends in a hurry does not wait for it.
        self.process = SPAWN.Process(target=_serve, args=(far_end, work), daemon=True)
        self.process.start()
        far_end.close()  # or the pipe would not end with the process

    def send(self, job: str, value: Any) -> None:
        """Let it work on a job: its name, and the value that the work needs."""
        self.job = job
        with suppress(OSError):  # it is dead already, which its pipe will tell to whoever listens
            self.pipe.send(value)

    def receive(self) -> Any:
        """The next message; :class:`WorkerDied` if there will be none."""
        try:
            return self.pipe.recv()
        except (EOFError, OSError):
            raise WorkerDied from None

    def dismiss(self) -> None:
        """Tell the process to end; a job at hand stays unfinished."""
        if self.job is not None:
            self.process.kill()  # it ignores what asks it to end, see `_serve`
        self.pipe.close()

    def await_end(self) -> None:
        """Wait until the process has ended; one that does not end by itself is killed."""
        self.process.join(GRACE)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()
        self.process.close()


def parallel(
    work: Callable[[Any], Any], jobs: Mapping[str, Any], count: int, answer_if_died: Callable[[], Any]
) -> Iterator[tuple[str, Any]]:
    """The name of each job and what `work` returned of it, as they come.

    Parameters
    ----------
    work : a function of a module, which does not raise.
    jobs : name -> what the work needs.
    count : processes at a time, at most.
    answer_if_died : makes the answer of a job whose process has died; another process takes its place.
    """
    queue = iter(jobs.items())
    workers: list[Worker] = []
    any_ready = False
    with _one_thread_each():
        try:
            for name, value in islice(queue, count):
                workers.append(Worker(work))
                workers[-1].send(name, value)
            while busy := {w.pipe: w for w in workers if w.job is not None}:
                for pipe in wait(list(busy)):
                    worker = busy[pipe]  # type: ignore[index]
                    try:
                        answer = worker.receive()
                    except WorkerDied:
                        if not any_ready:
                            raise InputError(
                                "no process could be started; in a script, what calls this must stand below "
                                "if __name__ == '__main__':, and jobs=1 needs no process"
                            ) from None
                        answer = answer_if_died()
                        workers.remove(worker)
                        worker.dismiss()
                        worker.await_end()
                    else:
                        any_ready = True
                        if not worker.ready:
                            worker.ready = True
                            continue
                    name = str(worker.job)
                    worker.job = None
                    for next_name, value in islice(queue, 1):
                        if worker not in workers:
                            worker = Worker(work)
                            workers.append(worker)
                        worker.send(next_name, value)
                    yield name, answer
        finally:
            for worker in workers:
                worker.dismiss()
            for worker in workers:
                worker.await_end()


def _serve(pipe: Connection, work: Callable[[Any], Any]) -> None:
    """The life of a worker."""
    ignore_signals()
    try:
        pipe.send(None)
        while True:
            pipe.send(work(pipe.recv()))
    except (EOFError, OSError):
        return  # whoever handed out the work is gone


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


WORKER_DIED = "its process ended without a word (out of memory?)"
# Complaints of the system that will be the same the next time.
LASTING = {
    errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES, errno.EPERM, errno.ENOENT, errno.ENOTDIR,
    errno.EISDIR, errno.EEXIST, errno.ENAMETOOLONG, errno.EINVAL,
}  # fmt: skip


def run_jobs(
    title: str,
    work: Work,
    jobs: Mapping[str, Any],
    depends_on: Mapping[str, Any],
    options: JobOptions,
    files: Mapping[str, Sequence[Path]] | None = None,
) -> JobRecords:
    """Do the jobs that the journal does not hold yet.

    Parameters
    ----------
    title, work, jobs, depends_on, options, files : as for :func:`each_job`.

    Returns
    -------
    The rows of all jobs and the reasons of those that failed, in the order of the jobs.
    """
    done: dict[str, Record] = {}
    failed: dict[str, str] = {}
    for name, record_or_failure, _ in iter_jobs(title, work, jobs, depends_on, options, files):
        if isinstance(record_or_failure, Failure):
            failed[name] = record_or_failure.reason
        else:
            done[name] = record_or_failure
    return JobRecords({n: done[n] for n in jobs if n in done}, {n: failed[n] for n in jobs if n in failed})


def iter_jobs(
    title: str,
    work: Work,
    jobs: Mapping[str, Any],
    depends_on: Mapping[str, Any],
    options: JobOptions,
    files: Mapping[str, Sequence[Path]] | None = None,
    *,
    engine: Engine | None = None,
    holds: Callable[[str, Record], bool] | None = None,
    before: Callable[[Collection[str]], None] | None = None,
) -> Generator[JobOutcome]:
    """What becomes of each job: first of those that the journal holds, then of the others as they come.

    Parameters
    ----------
    title : names the journal and the bar; a word.
    work : called with each job's value, in another process; so it is a function of a module.
    jobs : name -> what the work needs.
    depends_on : all that the rows depend on besides, ready for JSON.
    options : where the results go, and how the jobs are run.
    files : name -> the files that a job reads; a row is made again when they have changed.
    engine : what does the jobs; by default as many processes as the options say.
    holds : whether a row of the journal still holds, beyond that: that what it tells of is still there, say.
    before : called with the names of the jobs that are left, before the first of them is begun; may refuse.
    """
    journal = Journal.of(title, depends_on, options)
    stamps = {name: stamp_files(*files[name]) for name in jobs} if files else dict.fromkeys(jobs)
    kept: dict[str, JobOutcome] = {}
    for name, (outcome, stamp) in ({} if options.fresh else journal.read()).items():
        if name not in jobs or outcome is None or stamp != stamps[name]:
            continue
        row = outcome.record_or_failure
        if not isinstance(row, Failure) and (holds is None or holds(name, row)):
            kept[name] = outcome
    left = {name: value for name, value in jobs.items() if name not in kept}
    if left:
        if before is not None:
            before(left)
        journal.begin(jobs, forget=options.fresh)
    done, failed = len(kept), 0
    with _progress_bar(title, len(jobs), done, options) as bar:
        yield from kept.values()
        attempts = dict.fromkeys(left, 0)
        while left:
            again: dict[str, Any] = {}
            with closing((engine or partial(_run_on_this_machine, workers=options.jobs))(work, left)) as answers:
                for name, record_or_failure in answers:
                    attempts[name] += 1
                    outcome = JobOutcome(name, record_or_failure, attempts[name])
                    if isinstance(record_or_failure, Failure):
                        if record_or_failure.again and attempts[name] <= options.retries:
                            again[name] = left[name]
                            continue
                        failed += 1
                        bar.write(
                            make_printable(f"napari-gsw: {name} skipped: {record_or_failure.reason}"), file=sys.stderr
                        )
                    else:
                        done += 1
                    outcome = journal.add(outcome, stamps[name])
                    bar.set_postfix_str(f"{done} done, {failed} failed", refresh=False)
                    bar.update()
                    yield outcome
            left = again


def catch_errors(work: Callable[..., Any], *values: Any) -> Any | Failure:
    """What the work returns, or the reason why it returns nothing: one image must not end the run of hundreds.

    A failure among the values is the outcome, so that works can follow one another.
    """
    for value in values:
        if isinstance(value, Failure):
            return value
    try:
        return work(*values)
    except InputError as reason:
        return Failure(_line(reason), is_transient(reason.__context__))
    except OSError as reason:
        return Failure(_line(reason), is_transient(reason))
    except MemoryError as reason:
        return Failure(f"out of memory: {_line(reason)}", True)  # when the others are through there may be more
    except Exception as reason:
        return program_error(reason)


def program_error(reason: BaseException) -> Failure:
    """The failure of a job by an exception that no user can cause."""
    return Failure(f"a defect of the program: {type(reason).__name__}: {_line(reason)}")


def is_transient(reason: BaseException | None) -> bool:
    """Whether what went wrong may go right the next time: the system complains, and not of what lasts.

    Decoders that find a file broken also raise OSError, but without a number.
    """
    return isinstance(reason, OSError) and reason.errno is not None and reason.errno not in LASTING


def _run_on_this_machine(work: Work, jobs: Mapping[str, Any], workers: int) -> Generator[tuple[str, Record | Failure]]:
    """The engine without a cluster: the jobs one by one in this process, or in several others."""
    if workers == 1:
        with interruption.defer_signals():
            for name, value in jobs.items():
                yield name, catch_errors(work, value)
                interruption.raise_if_interrupted()
    else:
        yield from parallel(partial(catch_errors, work), jobs, workers, partial(Failure, WORKER_DIED, True))


@contextmanager
def _progress_bar(title: str, total: int, initial: int, options: JobOptions) -> Iterator[Any]:
    from tqdm import tqdm

    with tqdm(total=total, initial=initial, desc=title, disable=options.quiet, dynamic_ncols=True) as bar:
        yield bar


def _line(reason: BaseException) -> str:
    """The message of an exception as one line."""
    return " ".join(str(reason).split())
