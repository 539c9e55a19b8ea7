"""One image of a batch: read, segmented, written, and summed up in a row.

:func:`segment_image` does it all. For a cluster the same is offered in three steps, so that the chains of an image can
run in different places: :func:`prepare_image` -> :func:`run_chain` for each chain -> :func:`conclude_image`.
"""

from __future__ import annotations

import os
import socket
import time
from dataclasses import dataclass
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from napari_gsw.batch.teaching import Teacher, taught
from napari_gsw.core.errors import InputError
from napari_gsw.core.image.lazy import is_lazy
from napari_gsw.core.model.problem import Problem
from napari_gsw.core.pipeline.chain_runs import ChainRun, can_be_parted, gathered, sampled
from napari_gsw.core.pipeline.prepare import named_codebook, prepare
from napari_gsw.core.pipeline.provenance import looks_of, provenance
from napari_gsw.core.pipeline.sampling import own_words
from napari_gsw.core.pipeline.warm_up import warm_up
from napari_gsw.core.posterior.result import Outcome, result
from napari_gsw.core.versions import own_version
from napari_gsw.files.folders import output_folder
from napari_gsw.files.label_formats import companion
from napari_gsw.files.maps import open_map_file
from napari_gsw.files.ownership import PROVENANCE, origin_digest
from napari_gsw.files.results import Extras, check_results, planned_files, write_outcome
from napari_gsw.files.scratch import OWNER
from napari_gsw.files.zarr_files import is_zarr
from napari_gsw.jobs import interruption
from napari_gsw.jobs.records import Row
from napari_gsw.methods.registry import METHODS, Choice, image_of, segment


@dataclass(frozen=True)
class ImageTask:
    """All that it takes to segment one image.

    Attributes
    ----------
    image : the file.
    output : the folder of all results, which must be there already.
    stem : path of the labels within it, with slashes and without an ending.
    format : the ending.
    choice, seed : how it is segmented.
    extras : what is written beside labels, provenance and trace.
    teachers : images on which somebody has painted; the image is segmented together with them.
    version : of the package that hands out the task; another would give other labels.
    overwrite : whether files in the way that are not ours may be written over.
    maps : names and files of the maps that are evidence beside the image.
    """

    image: Path
    output: Path
    stem: str
    format: str
    choice: Choice
    seed: int
    extras: Extras
    version: str
    teachers: tuple[Teacher, ...] = ()
    overwrite: bool = False
    maps: tuple[tuple[str, Path], ...] = ()


class PreparedImage(NamedTuple):
    """A problem, the settings with the axes of the image, and how long it took to prepare them."""

    problem: Problem
    choice: Choice
    seconds: float


class TimedRun(NamedTuple):
    """A chain that has run, and how long it took."""

    run: ChainRun
    seconds: float


def segment_image(task: ImageTask) -> Row:
    """Read, segment and write one image."""
    _check_worker(task)
    _warm(METHODS[task.choice.method].samples)
    began = time.perf_counter()
    image, choice = _open_image(task)
    if task.teachers:
        outcome = taught(task.image, image, choice.settings, task.seed, task.teachers, interruption.check)
    else:
        maps = {name: open_map_file(file, is_lazy(image)) for name, file in task.maps}
        outcome = segment(image, choice, task.seed, report=interruption.check, **maps)
    return _write_image(task, image, choice, outcome, began)


def prepare_image(task: ImageTask) -> PreparedImage:
    """Read an image and make what its chains are to sample."""
    _check_worker(task)
    _warm(True)
    began = time.perf_counter()
    image, choice = _open_image(task)
    problem = prepare(image, choice.settings, codebook=named_codebook(choice.settings))
    return PreparedImage(problem, choice, time.perf_counter() - began)


def run_chain(task: ImageTask, prepared: PreparedImage, number: int) -> TimedRun:
    """Run one of the chains."""
    _warm(True)
    began = time.perf_counter()
    run = sampled(prepared.problem, prepared.choice.settings, task.seed, number)
    return TimedRun(run, time.perf_counter() - began)


def conclude_image(task: ImageTask, prepared: PreparedImage, *runs: TimedRun) -> Row:
    """Write what the chains say together. The slowest chain is the time that they took."""
    _check_worker(task)
    began = time.perf_counter() - prepared.seconds - max(run.seconds for run in runs)
    settings = prepared.choice.settings
    image, _ = _open_image(task)
    summary = gathered(prepared.problem, settings, [run.run for run in runs])
    words = own_words(named_codebook(settings))
    outcome = result(summary, provenance(looks_of(image), summary, task.seed, words))
    return _write_image(task, image, prepared.choice, Outcome(outcome.labels, outcome.provenance, outcome), began)


def chains_can_part(task: ImageTask) -> bool:
    """Whether the chains of an image can run in different places; one that may be read in blocks stays where it is."""
    alone = not task.teachers and not task.maps and not is_zarr(task.image)
    return task.choice.method == "gsw" and can_be_parted(task.choice.settings) and alone


def still_there(output: Path, row: Row) -> bool:
    """Whether the files of a row are all in their place and still those that it was written for.

    Parameters
    ----------
    output : the folder of all results.
    row : what :func:`segment_image` returned of an image.
    """
    try:
        (provenance,) = (file for file in row["files"] if file.endswith(PROVENANCE))
        complete = all(os.path.exists(output / file) for file in row["files"])
        return complete and origin_digest(output / provenance) == row["provenance"]
    except (KeyError, TypeError, ValueError, OSError):
        return False


def check_place(task: ImageTask) -> None:
    """Refuse what could not be put in its place, as far as that can be known without opening the image."""
    stem = PurePosixPath(task.stem)
    samples = METHODS[task.choice.method].samples
    names = planned_files(f"{stem.name}.{task.format}", task.extras, samples)
    check_results(task.output / stem.parent, names, task.overwrite)


def _open_image(task: ImageTask) -> tuple[Any, Choice]:
    """The image, and the choice with the axes that its file tells."""
    image, axes = image_of(task.image, task.choice)
    return image, task.choice.with_axes(axes).with_spacing(task.image)


def _check_worker(task: ImageTask) -> None:
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


def _write_image(task: ImageTask, image: Any, choice: Choice, outcome: Outcome, began: float) -> Row:
    """Write all files of an image, whole or not at all, and sum them up in a row."""
    stem = PurePosixPath(task.stem)
    folder, blocks = task.output / stem.parent, is_lazy(image)  # what is read in blocks is written in chunks
    name = f"{stem.name}.{'zarr' if blocks else task.format}"
    mark = companion(name, PROVENANCE)
    where = choice.place(task.image)
    with output_folder(folder, mark, task.overwrite) as scratch:
        remarks = write_outcome(image, choice.settings.axes, outcome, scratch, name, task.extras, where)
        if blocks and task.format != "zarr":
            remarks.append(f"read in blocks: written as {name}")
        files = sorted(file.name for file in scratch.iterdir() if file.name != OWNER)
    result = outcome.result
    return {
        "regions": int(outcome.provenance["regions"]) if result is None else result.n_regions,
        "clusters": None if result is None else result.n_clusters,
        "sites": None if result is None else result.n_sites,
        "best_log_posterior": None if result is None else result.snapshot.best.log_posterior,
        "seconds": round(time.perf_counter() - began, 3),
        "labels": str(stem.with_name(name if name in files else f"{stem.name}.tif")),  # PNG does not hold all
        "remarks": "; ".join(remarks),
        "files": [str(stem.with_name(file)) for file in files],
        "provenance": origin_digest(folder / mark),
    }


@cache
def _warm(samples: bool) -> None:
    """Once in a process: compile the kernels or read them, so that no image's time includes it."""
    if samples:
        warm_up()
