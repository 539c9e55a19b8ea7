"""Run a batch: images become jobs, jobs become records, and records become a report."""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import Any

from napari_gsw.batch.images import check_task, has_all_files, segment_image
from napari_gsw.batch.jobs import Engine, JobOutcome, Journal, Record, iter_jobs
from napari_gsw.batch.report import SUMMARY, TABLE, make_report, write_report
from napari_gsw.batch.selection import BatchImage, Selection, select_images
from napari_gsw.batch.spec import BatchOptions, BatchSpec
from napari_gsw.batch.teaching import ReferenceImage
from napari_gsw.core.errors import InputError
from napari_gsw.core.pipeline.warm_up import warm_up
from napari_gsw.core.settings.presets import DEFAULT_PRESET, shared_preset
from napari_gsw.files.output_folder import JOURNALS, check_writable, ensure_folder, scratch_folder
from napari_gsw.files.results import OutputOptions
from napari_gsw.methods import METHODS, choose

TITLE = "batch"


class BatchNotStarted(InputError):
    """Refused before any image was begun, so that there is nothing to report."""


def run_batch(
    folder: str | os.PathLike[str],
    output: str | os.PathLike[str],
    *,
    preset: str = DEFAULT_PRESET,
    method: str = "gsw",
    seed: int = 0,
    selection: Selection | None = None,
    format: str = "tif",
    extras: OutputOptions | None = None,
    jobs: int = 1,
    retries: int = 1,
    resume: bool = False,
    overwrite: bool = False,
    scheduler: str | None = None,
    teachers: Sequence[ReferenceImage] = (),
    maps: Mapping[str, str] | None = None,
    **changes: Any,
) -> list[Record]:
    """Segment every image of a folder, with the same labels as :func:`napari_gsw.segment` gives.

    With more than one process, or a scheduler, call it under ``if __name__ == "__main__":`` in a script.

    Parameters
    ----------
    folder, output : path-like
        Folder of the images, and folder of the results.
    preset, method : str
        Preset and method, as for ``napari-gsw segment``.
    seed : int
        Random seed of every image.
    selection : Selection, optional
        Which images are taken; by default all of the folder itself.
    format : {"tif", "png", "zarr"}
        Format of the labels.
    extras : OutputOptions, optional
        What is written besides labels, provenance and trace.
    jobs : int
        Number of processes; 1 works in this one.
    retries : int
        How often an image is tried again that failed for a transient reason.
    resume : bool
        Keep what an earlier run has made.
    overwrite : bool
        Begin anew, whatever an earlier run has left, and replace foreign files.
    scheduler : str, optional
        Address of a Dask scheduler, or its file, or ``local`` for a cluster of `jobs` processes on this machine.
    teachers : sequence of ReferenceImage
        Painted images. Every image is segmented together with them, so that labels mean the same; the preset is
        changed as :func:`napari_gsw.segment` does it for several images.
    maps : mapping of str to str, optional
        Files of input maps by name, such as ``{"boundaries": "maps/{stem}.tif"}``.
    **changes
        Settings, as for ``napari-gsw segment``.

    Returns
    -------
    list of dict
        One record for each image, with the columns of ``batch.csv``; ``status`` is ``done`` or ``failed``.
    """
    if not os.fspath(output):
        raise InputError("the output folder must have a name")
    choice = choose(method, preset, (shared_preset(preset) if teachers and method == "gsw" else {}) | changes)
    outputs = (selection or Selection(), format, extras or OutputOptions())
    spec = BatchSpec(Path(folder), choice, seed, *outputs, tuple(teachers), maps or {})
    options = BatchOptions(Path(output), jobs, overwrite, True, retries, overwrite, resume=resume, scheduler=scheduler)
    return run_batch_spec(spec, options)


def run_batch_spec(spec: BatchSpec, options: BatchOptions) -> list[Record]:
    """Run a batch, write its report, and return the rows; see :func:`run_batch`.

    If the run is interrupted (:class:`KeyboardInterrupt`), it reports what was done.
    """
    output = options.folder
    images = select_images(spec.image_folder, output, spec.selection)
    journal = Journal.of(TITLE, spec.depends_on(), options)
    _check_earlier_results(spec, images, options, journal)
    check_writable(output, (TABLE, SUMMARY), options.overwrite)
    began = time.perf_counter()
    outcomes: dict[str, JobOutcome | None] = {image.name: None for image in images}
    folders = {output / PurePosixPath(image.stem).parent for image in images}
    with _open_engine(spec, options) as engine:
        for folder in folders:
            ensure_folder(folder)
        try:
            with closing(_iter_images(spec, images, options, engine)) as running:
                for outcome in running:
                    outcomes[outcome.name] = outcome
        except BatchNotStarted:
            raise
        except BaseException:
            with suppress(InputError):  # of a full disk, say, which is the error that is raised below
                write_report(spec, output, outcomes, journal, time.perf_counter() - began)
            raise
        finally:
            for folder in folders:
                with suppress(OSError), scratch_folder(folder):  # removes those of workers that were killed
                    pass
    write_report(spec, output, outcomes, journal, time.perf_counter() - began)
    return make_report(list(outcomes), {name: outcome for name, outcome in outcomes.items() if outcome is not None})


def _iter_images(
    spec: BatchSpec, images: Sequence[BatchImage], options: BatchOptions, engine: Engine | None
) -> Generator[JobOutcome]:
    tasks = {image.name: spec.make_task(image, options.folder, options.overwrite) for image in images}

    def check_tasks(names: Collection[str]) -> None:
        try:
            for name in names:
                check_task(tasks[name])
        except InputError as error:
            raise BatchNotStarted(str(error)) from None

    return iter_jobs(
        TITLE,
        segment_image,
        tasks,
        spec.depends_on(),
        options,
        {image.name: spec.list_files(image) for image in images},
        engine=engine,
        is_valid=lambda record: has_all_files(options.folder, record),
        before=check_tasks,
    )


@contextmanager
def _open_engine(spec: BatchSpec, options: BatchOptions) -> Iterator[Engine | None]:
    """Open the engine that runs the jobs; None for processes of this machine."""
    if options.scheduler is not None:
        from napari_gsw.batch.dask_cluster import cluster_engine

        with cluster_engine(options) as engine:
            yield engine
        return
    if options.jobs > 1 and METHODS[spec.choice.method].samples:
        warm_up()  # so that the processes find everything compiled
    yield None


def _check_earlier_results(
    spec: BatchSpec, images: Sequence[BatchImage], options: BatchOptions, journal: Journal
) -> None:
    """Refuse to mix the results of two runs, unless the options say which are kept.

    Runs with the same settings and different images are parts of one batch.
    """
    if options.resume or options.fresh:
        return
    output = options.folder
    known = journal.read()
    labels = [f"{image.stem}.{spec.format}" for image in images]
    found = [name for name in labels if os.path.lexists(output / name)]
    found += [image.name for image in images if image.name in known]
    if not found and not known:
        found += [name for name in (TABLE, SUMMARY) if os.path.lexists(output / name)]
        found += [f"{JOURNALS}/{path.name}" for path in (output / JOURNALS).glob(f"{TITLE}-*.jsonl")]
    if found:
        raise InputError(
            f"{str(output)!r} holds results already ({found[0]}): --resume keeps them, --overwrite begins anew, "
            "or choose another folder"
        )
