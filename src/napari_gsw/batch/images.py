"""One image of a batch: read, segment and write it, and summarize it in a record.

:func:`segment_image` does all of it. A cluster runs it in steps, so that the chains of an image can run in different
places: :func:`prepare_image`, :func:`run_chain` for each chain, :func:`conclude_image`.
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
    """Everything that a process needs to segment one image."""

    image: Path
    output: Path  # folder of all results, which exists
    stem: str  # path of the labels within it, with slashes and without an ending
    format: str
    choice: Choice
    seed: int
    extras: OutputOptions
    version: str  # of the package; another one could give other labels
    teachers: tuple[ReferenceImage, ...] = ()
    overwrite: bool = False
    maps: tuple[tuple[str, Path], ...] = ()

    def open(self) -> tuple[Any, Choice]:
        """Open the image, and complete the settings with its axes and spacing."""
        image, axes = open_image_for(self.image, self.choice)
        return image, self.choice.with_axes(axes).with_spacing(self.image)


class PreparedImage(NamedTuple):
    """A prepared image, the settings with its axes, and the time that it took."""

    problem: Problem
    choice: Choice
    seconds: float


class TimedRun(NamedTuple):
    """A chain that has run, and the time that it took."""

    run: ChainRun
    seconds: float


def segment_image(task: ImageTask) -> Record:
    """Read, segment and write one image."""
    _check_worker(task)
    _warm_up_once(METHODS[task.choice.method].samples)
    began = time.perf_counter()
    image, choice = task.open()
    report = interruption.raise_if_interrupted
    if task.teachers:
        outcome = segment_with_references(task.image, image, choice.settings, task.seed, task.teachers, report)
    else:
        maps = {name: open_map_file(file, is_lazy(image)) for name, file in task.maps}
        outcome = segment(image, choice, task.seed, report=report, **maps)
    return _write_image(task, image, choice, outcome, began)


def prepare_image(task: ImageTask) -> PreparedImage:
    """Read an image and prepare the problem that its chains sample."""
    _check_worker(task)
    _warm_up_once(True)
    began = time.perf_counter()
    image, choice = task.open()
    problem = prepare(image, choice.settings, codebook=load_codebook(choice.settings))
    return PreparedImage(problem, choice, time.perf_counter() - began)


def run_chain(task: ImageTask, prepared: PreparedImage, number: int) -> TimedRun:
    """Run one of the chains."""
    _warm_up_once(True)
    began = time.perf_counter()
    run = sample_chain(prepared.problem, prepared.choice.settings, task.seed, number)
    return TimedRun(run, time.perf_counter() - began)


def conclude_image(task: ImageTask, prepared: PreparedImage, *runs: TimedRun) -> Record:
    """Combine the chains and write the result; the time is that of the slowest chain."""
    _check_worker(task)
    began = time.perf_counter() - prepared.seconds - max(run.seconds for run in runs)
    settings = prepared.choice.settings
    image, _ = task.open()
    summary = combine_chains(prepared.problem, settings, [run.run for run in runs])
    codebook = list_codebook_arrays(load_codebook(settings))
    result = make_result(summary, make_provenance(describe_image(image), summary, task.seed, codebook))
    return _write_image(task, image, prepared.choice, MethodResult(result.labels, result.provenance, result), began)


def has_separable_chains(task: ImageTask) -> bool:
    """Return whether the chains can run in different places; images that may be read in blocks stay in one."""
    is_plain = not task.teachers and not task.maps and not is_zarr(task.image)
    return task.choice.method == "gsw" and chains_are_independent(task.choice.settings) and is_plain


def has_all_files(output: Path, record: Record) -> bool:
    """Return whether all files of a record are in the output folder and still belong to it."""
    try:
        (provenance,) = (file for file in record["files"] if file.endswith(PROVENANCE))
        is_complete = all(os.path.exists(output / file) for file in record["files"])
        return is_complete and provenance_digest(output / provenance) == record["provenance"]
    except (KeyError, TypeError, ValueError, OSError):
        return False


def check_task(task: ImageTask) -> None:
    """Refuse a task whose results could not be written, as far as that shows without opening the image."""
    stem = PurePosixPath(task.stem)
    names = list_output_files(f"{stem.name}.{task.format}", task.extras, METHODS[task.choice.method].samples)
    check_outputs(task.output / stem.parent, names, task.overwrite)


def _check_worker(task: ImageTask) -> None:
    """Refuse a worker of another version, or of a machine that does not have the files."""
    host = socket.gethostname()
    if package_version() != task.version:
        raise InputError(
            f"the worker on {host} has napari-gsw {package_version()}, not {task.version}; "
            'install the same everywhere: pip install "napari-gsw[batch]"'
        )
    if not os.path.isdir(task.output):
        raise InputError(
            f"the worker on {host} does not see the output folder {str(task.output)!r}; "
            "all workers need the same file system"
        )


def _write_image(task: ImageTask, image: Any, choice: Choice, outcome: MethodResult, began: float) -> Record:
    """Write all files of an image, or none, and return its record."""
    stem = PurePosixPath(task.stem)
    folder = task.output / stem.parent
    in_blocks = is_lazy(image)
    name = f"{stem.name}.{'zarr' if in_blocks else task.format}"
    manifest = sibling_name(name, PROVENANCE)
    geometry = choice.place(task.image)
    with output_folder(folder, manifest, task.overwrite) as scratch:
        remarks = write_results(image, choice.settings.axes, outcome, scratch, name, task.extras, geometry)
        if in_blocks and task.format != "zarr":
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
        "provenance": provenance_digest(folder / manifest),
    }


@cache
def _warm_up_once(samples: bool) -> None:
    """Compile or load the kernels once in a process, so that no image's time includes it."""
    if samples:
        warm_up()
