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

from napari_gsw.batch import interruption
from napari_gsw.batch.jobs import Record
from napari_gsw.batch.teaching import ReferenceImage, segment_with_references
from napari_gsw.core.errors import InputError
from napari_gsw.core.image.lazy import is_lazy
from napari_gsw.core.model.problem import Problem
from napari_gsw.core.pipeline.prepare import load_codebook, prepare
from napari_gsw.core.pipeline.provenance import describe_image, make_provenance
from napari_gsw.core.pipeline.sampling_run import (
    ChainRun,
    chains_are_independent,
    combine_chains,
    list_codebook_arrays,
    sample_chain,
)
from napari_gsw.core.pipeline.warm_up import warm_up
from napari_gsw.core.posterior.result import MethodResult, make_result
from napari_gsw.core.versions import package_version
from napari_gsw.files.maps import open_map_file
from napari_gsw.files.output_folder import PROVENANCE, output_folder, provenance_digest, sibling_name
from napari_gsw.files.results import OutputOptions, check_outputs, list_output_files, write_results
from napari_gsw.files.zarr_io import is_zarr
from napari_gsw.methods import METHODS, Choice, open_image_for, segment


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
    extras: OutputOptions
    version: str
    teachers: tuple[ReferenceImage, ...] = ()
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


def segment_image(task: ImageTask) -> Record:
    """Read, segment and write one image."""
    _check_worker(task)
    _warm(METHODS[task.choice.method].samples)
    began = time.perf_counter()
    image, choice = _open_image(task)
    if task.teachers:
        outcome = segment_with_references(
            task.image, image, choice.settings, task.seed, task.teachers, interruption.raise_if_interrupted
        )
    else:
        maps = {name: open_map_file(file, is_lazy(image)) for name, file in task.maps}
        outcome = segment(image, choice, task.seed, report=interruption.raise_if_interrupted, **maps)
    return _write_image(task, image, choice, outcome, began)


def prepare_image(task: ImageTask) -> PreparedImage:
    """Read an image and make what its chains are to sample."""
    _check_worker(task)
    _warm(True)
    began = time.perf_counter()
    image, choice = _open_image(task)
    problem = prepare(image, choice.settings, codebook=load_codebook(choice.settings))
    return PreparedImage(problem, choice, time.perf_counter() - began)


def run_chain(task: ImageTask, prepared: PreparedImage, number: int) -> TimedRun:
    """Run one of the chains."""
    _warm(True)
    began = time.perf_counter()
    run = sample_chain(prepared.problem, prepared.choice.settings, task.seed, number)
    return TimedRun(run, time.perf_counter() - began)


def conclude_image(task: ImageTask, prepared: PreparedImage, *runs: TimedRun) -> Record:
    """Write what the chains say together. The slowest chain is the time that they took."""
    _check_worker(task)
    began = time.perf_counter() - prepared.seconds - max(run.seconds for run in runs)
    settings = prepared.choice.settings
    image, _ = _open_image(task)
    summary = combine_chains(prepared.problem, settings, [run.run for run in runs])
    words = list_codebook_arrays(load_codebook(settings))
    outcome = make_result(summary, make_provenance(describe_image(image), summary, task.seed, words))
    return _write_image(task, image, prepared.choice, MethodResult(outcome.labels, outcome.provenance, outcome), began)


def has_separable_chains(task: ImageTask) -> bool:
    """Whether the chains of an image can run in different places; one that may be read in blocks stays where it is."""
    alone = not task.teachers and not task.maps and not is_zarr(task.image)
    return task.choice.method == "gsw" and chains_are_independent(task.choice.settings) and alone


def has_all_files(output: Path, row: Record) -> bool:
    """Whether the files of a row are all in their place and still those that it was written for.

    Parameters
    ----------
    output : the folder of all results.
    row : what :func:`segment_image` returned of an image.
    """
    try:
        (provenance,) = (file for file in row["files"] if file.endswith(PROVENANCE))
        complete = all(os.path.exists(output / file) for file in row["files"])
        return complete and provenance_digest(output / provenance) == row["provenance"]
    except (KeyError, TypeError, ValueError, OSError):
        return False


def check_place(task: ImageTask) -> None:
    """Refuse what could not be put in its place, as far as that can be known without opening the image."""
    stem = PurePosixPath(task.stem)
    samples = METHODS[task.choice.method].samples
    names = list_output_files(f"{stem.name}.{task.format}", task.extras, samples)
    check_outputs(task.output / stem.parent, names, task.overwrite)


def _open_image(task: ImageTask) -> tuple[Any, Choice]:
    """The image, and the choice with the axes that its file tells."""
    image, axes = open_image_for(task.image, task.choice)
    return image, task.choice.with_axes(axes).with_spacing(task.image)


def _check_worker(task: ImageTask) -> None:
    """On another machine the files may not be there, or the package may be another."""
    if package_version() != task.version:
        raise InputError(
            f"the worker on {socket.gethostname()} has napari-gsw {package_version()}, not {task.version}; "
            'install the same everywhere: pip install "napari-gsw[batch]"'
        )
    if not os.path.isdir(task.output):
        raise InputError(
            f"the worker on {socket.gethostname()} does not see the output folder {str(task.output)!r}; "
            "all workers need the same file system"
        )


def _write_image(task: ImageTask, image: Any, choice: Choice, outcome: MethodResult, began: float) -> Record:
    """Write all files of an image, whole or not at all, and sum them up in a row."""
    stem = PurePosixPath(task.stem)
    folder, blocks = task.output / stem.parent, is_lazy(image)  # what is read in blocks is written in chunks
    name = f"{stem.name}.{'zarr' if blocks else task.format}"
    mark = sibling_name(name, PROVENANCE)
    where = choice.place(task.image)
    with output_folder(folder, mark, task.overwrite) as scratch:
        remarks = write_results(image, choice.settings.axes, outcome, scratch, name, task.extras, where)
        if blocks and task.format != "zarr":
            remarks.append(f"read in blocks: written as {name}")
        files = sorted(file.name for file in scratch.iterdir())
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
        "provenance": provenance_digest(folder / mark),
    }


@cache
def _warm(samples: bool) -> None:
    """Once in a process: compile the kernels or read them, so that no image's time includes it."""
    if samples:
        warm_up()
