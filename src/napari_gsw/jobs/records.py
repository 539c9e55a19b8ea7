"""What jobs are given and what becomes of them."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

# What a job gives back: a dictionary that JSON can hold.
Row = dict[str, Any]
# What does a job: a function of whatever the job needs.
Work = Callable[[Any], Row]


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
Engine = Callable[[Work, Mapping[str, Any]], Generator[tuple[str, Row | Failure]]]


class JobOutcome(NamedTuple):
    """What became of a job.

    Attributes
    ----------
    name : of the job.
    row_or_failure : what it gave back, or why it gave nothing.
    attempts : how many tries it took.
    """

    name: str
    row_or_failure: Row | Failure
    attempts: int


@dataclass(frozen=True)
class Rows:
    """What became of all jobs.

    Attributes
    ----------
    done : a row for each job that was done, by its name.
    failed : why the others were not, by name.
    """

    done: Mapping[str, Row]
    failed: Mapping[str, str]
