"""Many independent jobs: in parallel, with a bar, and such that a stopped run goes on where it was.

A job is a name and whatever its work needs; its row is a dictionary that JSON can hold. Rows go into a journal
(:mod:`napari_gsw.jobs.journal`) as they come, and what it holds already is not done again.

What has failed for a reason that may pass (a file server that hiccups, a process that was killed) is tried again when
all the others are through; what the user has to mend is not.
"""

from __future__ import annotations

import errno
import sys
from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from napari_gsw.core.errors import InputError
from napari_gsw.files.tables import printable
from napari_gsw.jobs import interruption
from napari_gsw.jobs.journal import Journal, stamp_of
from napari_gsw.jobs.processes import parallel
from napari_gsw.jobs.records import Engine, Failure, JobOptions, JobOutcome, Row, Rows, Work

DIED = "its process ended without a word (out of memory?)"
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
) -> Rows:
    """Do the jobs that the journal does not hold yet.

    Parameters
    ----------
    title, work, jobs, depends_on, options, files : as for :func:`each_job`.

    Returns
    -------
    The rows of all jobs and the reasons of those that failed, in the order of the jobs.
    """
    done: dict[str, Row] = {}
    failed: dict[str, str] = {}
    for name, row_or_failure, _ in each_job(title, work, jobs, depends_on, options, files):
        if isinstance(row_or_failure, Failure):
            failed[name] = row_or_failure.reason
        else:
            done[name] = row_or_failure
    return Rows({n: done[n] for n in jobs if n in done}, {n: failed[n] for n in jobs if n in failed})


def each_job(
    title: str,
    work: Work,
    jobs: Mapping[str, Any],
    depends_on: Mapping[str, Any],
    options: JobOptions,
    files: Mapping[str, Sequence[Path]] | None = None,
    *,
    engine: Engine | None = None,
    holds: Callable[[str, Row], bool] | None = None,
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
    stamps = {name: stamp_of(*files[name]) for name in jobs} if files else dict.fromkeys(jobs)
    kept: dict[str, JobOutcome] = {}
    for name, (outcome, stamp) in ({} if options.fresh else journal.read()).items():
        if name not in jobs or outcome is None or stamp != stamps[name]:
            continue
        row = outcome.row_or_failure
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
                for name, row_or_failure in answers:
                    attempts[name] += 1
                    outcome = JobOutcome(name, row_or_failure, attempts[name])
                    if isinstance(row_or_failure, Failure):
                        if row_or_failure.again and attempts[name] <= options.retries:
                            again[name] = left[name]
                            continue
                        failed += 1
                        bar.write(printable(f"napari-gsw: {name} skipped: {row_or_failure.reason}"), file=sys.stderr)
                    else:
                        done += 1
                    outcome = journal.add(outcome, stamps[name])
                    bar.set_postfix_str(f"{done} done, {failed} failed", refresh=False)
                    bar.update()
                    yield outcome
            left = again


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
        return defect(reason)


def defect(reason: BaseException) -> Failure:
    """The failure of a job by an exception that no user can cause."""
    return Failure(f"a defect of the program: {type(reason).__name__}: {_line(reason)}")


def may_pass(reason: BaseException | None) -> bool:
    """Whether what went wrong may go right the next time: the system complains, and not of what lasts.

    Decoders that find a file broken also raise OSError, but without a number.
    """
    return isinstance(reason, OSError) and reason.errno is not None and reason.errno not in LASTING


def _run_on_this_machine(work: Work, jobs: Mapping[str, Any], workers: int) -> Generator[tuple[str, Row | Failure]]:
    """The engine without a cluster: the jobs one by one in this process, or in several others."""
    if workers == 1:
        with interruption.deferred():
            for name, value in jobs.items():
                yield name, guarded(work, value)
                interruption.check()
    else:
        yield from parallel(partial(guarded, work), jobs, workers, partial(Failure, DIED, True))


@contextmanager
def _progress_bar(title: str, total: int, initial: int, options: JobOptions) -> Iterator[Any]:
    from tqdm import tqdm

    with tqdm(total=total, initial=initial, desc=title, disable=options.quiet, dynamic_ncols=True) as bar:
        yield bar


def _line(reason: BaseException) -> str:
    """The message of an exception as one line."""
    return " ".join(str(reason).split())
