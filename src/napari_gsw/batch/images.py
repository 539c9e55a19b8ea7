"""One image of a batch: read, segmented, written, and told of in a row.

:func:`segmented` does it all. For a cluster the same is offered in three steps, so that the chains of an image can run
in different places: :func:`prepared` -> :func:`chain_run` for each chain -> :func:`gathered_up`.
"""

from __future__ import annotations

import hashlib
import os
import socket
import time
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from napari_gsw.core.errors import InputError
from napari_gsw.core.image.lazy import is_lazy
from napari_gsw.core.model.problem import Problem
from napari_gsw.core.pipeline.chain_runs import ChainRun, can_be_parted, gathered, sampled
from napari_gsw.core.pipeline.prepare import named_codebook, prepare
from napari_gsw.core.pipeline.segment import concluded, warm_up
from napari_gsw.core.posterior.result import Outcome
from napari_gsw.core.versions import own_version
from napari_gsw.files.folders import output_folder
from napari_gsw.files.labels import companion
from napari_gsw.files.results import COMPANIONS, Extras, write_outcome
from napari_gsw.files.zarr_files import is_zarr
from napari_gsw.jobs.interruption import check
from napari_gsw.jobs.records import Row
from napari_gsw.methods.registry import METHODS, Choice, image_of, segment


@dataclass(frozen=True)
class Task:
    """All that it takes to segment one image.

    Attributes
    ----------
    image : the file.
    output : the folder of all results, which must be there already.
    place : path of the labels within it, with slashes and without an ending.
    format : the ending.
    version : of the package that hands out the task; another would give other labels.
    """

    image: Path
    output: Path
    place: str
    format: str
    choice: Choice
    seed: int
    extras: Extras
    version: str


class Prepared(NamedTuple):
    """A problem, the settings with the axes of the image, and how long it took."""

    problem: Problem
    choice: Choice
    seconds: float


class TimedRun(NamedTuple):
    run: ChainRun
    seconds: float


def segmented(task: Task) -> Row:
    """Read, segment and write one image."""
    _check_place(task)
    _warm(METHODS[task.choice.method].samples)
    began = time.perf_counter()
    image, choice = _opened(task)
    return _written(task, image, choice, segment(image, choice, task.seed, report=check), began)


def prepared(task: Task) -> Prepared:
    """Read an image and make what its chains are to sample."""
    _check_place(task)
    _warm(True)
    began = time.perf_counter()
    image, choice = _opened(task)
    problem = prepare(image, choice.settings, codebook=named_codebook(choice.settings))
    return Prepared(problem, choice, time.perf_counter() - began)


def chain_run(task: Task, begun: Prepared, number: int) -> TimedRun:
    """Run one of the chains."""
    _warm(True)
    began = time.perf_counter()
    run = sampled(begun.problem, begun.choice.settings, task.seed, number)
    return TimedRun(run, time.perf_counter() - began)


def gathered_up(task: Task, begun: Prepared, *runs: TimedRun) -> Row:
    """Write what the chains have found together. The slowest chain is the time that they took."""
    _check_place(task)
    began = time.perf_counter() - begun.seconds - max(run.seconds for run in runs)
    settings = begun.choice.settings
    image, _ = _opened(task)
    summary = gathered(begun.problem, settings, [run.run for run in runs])
    result = concluded(image, summary, task.seed, named_codebook(settings), {})
    return _written(task, image, begun.choice, Outcome(result.labels, result.provenance, result), began)


def in_parts(task: Task) -> bool:
    """Whether the chains of an image can run in different places; one that may be read in blocks stays where it is."""
    return task.choice.method == "gsw" and can_be_parted(task.choice.settings) and not is_zarr(task.image)


def _opened(task: Task) -> tuple[Any, Choice]:
    image, axes = image_of(task.image, task.choice)
    settings = task.choice.settings
    return image, replace(task.choice, settings=settings.replace(axes=axes)) if settings.axes == "auto" else task.choice


def _check_place(task: Task) -> None:
    """On another machine the files may not be there, or the package may be another."""
    if own_version() != task.version:
        raise InputError(
            f"the worker on {socket.gethostname()} has napari-gsw {own_version()}, not {task.version}; "
            'install the same everywhere: pip install "napari-gsw[batch]"'
        )
    if not os.path.isdir(task.output):
        raise InputError(
            f"the worker on {socket.gethostname()} does not see the output folder {str(task.output)!r}; "
            "all workers need the same file system"
        )


def _written(task: Task, image: Any, choice: Choice, found: Outcome, began: float) -> Row:
    """Write all files of an image, whole or not at all, and tell of them."""
    place = PurePosixPath(task.place)
    folder, blocks = task.output / place.parent, is_lazy(image)  # what is read in blocks is written in chunks
    name = f"{place.name}.{'zarr' if blocks else task.format}"
    with output_folder(folder, [companion(name, other) for other in COMPANIONS]) as scratch:
        remarks = write_outcome(image, choice.settings.axes, found, scratch, name, task.extras)
        if blocks and task.format != "zarr":
            remarks.append(f"read in blocks: written as {name}")
        files = sorted(file.name for file in scratch.iterdir())
        print_of = fingerprint(scratch / companion(name, "provenance.json"))
    result = found.result
    return {
        "regions": int(found.provenance["regions"]) if result is None else result.n_regions,
        "clusters": None if result is None else result.n_clusters,
        "sites": None if result is None else result.problem.n,
        "best_log_posterior": None if result is None else result.snapshot.best.log_posterior,
        "seconds": round(time.perf_counter() - began, 3),
        "labels": str(place.with_name(name if name in files else f"{place.name}.tif")),  # PNG does not hold all
        "remarks": "; ".join(remarks),
        "files": [str(place.with_name(file)) for file in files],
        "provenance": print_of,
    }


def still_there(output: Path, place: str, row: Row) -> bool:
    """Whether the files that a row tells of are all in their place and still those that it tells of."""
    beside = companion(f"{PurePosixPath(place).name}.tif", "provenance.json")
    named = str(PurePosixPath(place).with_name(beside))
    try:
        whole = named in row["files"] and all(os.path.exists(output / file) for file in row["files"])
        return whole and fingerprint(output / named) == row["provenance"]
    except (KeyError, TypeError, OSError):
        return False


def fingerprint(provenance: Path) -> str:
    """Of what made a result (image, settings, seed, versions), and so of the result."""
    return hashlib.sha256(provenance.read_bytes()).hexdigest()


@cache
def _warm(samples: bool) -> None:
    """Once in a process: compile the kernels or read them, so that no image's time includes it."""
    if samples:
        warm_up()
