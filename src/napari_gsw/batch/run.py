"""The batch itself: images --> jobs (processes or a cluster) --> rows, a journal to go on from, and a report."""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from itertools import chain
from pathlib import Path, PurePosixPath
from typing import Any

from napari_gsw.batch.images import check_place, has_all_files, segment_image
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
    """Nothing was begun, and there is nothing to report."""


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
    """Segment every image of a folder, each as :func:`napari_gsw.segment` does it alone, bit for bit.

    With more than one process, or a scheduler, call it below ``if __name__ == "__main__":`` in a script.

    Parameters
    ----------
    folder, output : where the images are, and where the results go.
    preset, method, \\*\\*changes : the settings, as for ``napari-gsw segment``.
    seed : of every image.
    selection : which images; all of the folder itself by default.
    format : of the labels: tif, png or zarr.
    extras : what is written beside labels, provenance and trace.
    jobs : processes at a time; 1 works in this one.
    retries : how often an image is tried again that failed for a reason that may pass.
    resume : go on where an earlier run was.
    overwrite : begin anew, whatever an earlier run has left, and write over files in the way that are not ours.
    scheduler : of a Dask cluster, see :class:`BatchOptions`.
    teachers : images on which somebody has painted: every image is segmented together with them, and labels mean in
        all of them what they mean in the paint; the preset is changed as :func:`napari_gsw.segment` does it for several
        images.
    maps : evidence beside each image: files by the name of a map, such as ``{"boundaries": "maps/{stem}.tif"}``.

    Returns
    -------
    rows : one dictionary an image, with the columns of ``batch.csv``; ``status`` is ``done`` or ``failed``.
    """
    choice = choose(method, preset, (shared_preset(preset) if teachers and method == "gsw" else {}) | changes)
    given = (selection or Selection(), format, extras or OutputOptions(), tuple(teachers), maps or {})
    order = BatchSpec(Path(folder), choice, seed, *given)
    options = BatchOptions(
        _folder(output), jobs, overwrite, True, retries, overwrite, resume=resume, scheduler=scheduler
    )
    return run_batch_spec(order, options)


def run_batch_spec(order: BatchSpec, options: BatchOptions) -> list[Record]:
    """The work of :func:`run_batch`: segment, write the report, and return its rows.

    A run that is interrupted (:class:`KeyboardInterrupt`) writes the report too, as far as it came.
    """
    output = options.folder
    images = select_images(order.image_folder, output, order.selection)
    journal = Journal.of(TITLE, order.depends_on(), options)
    _check_earlier(order, images, options, journal)
    check_writable(output, (TABLE, SUMMARY), options.overwrite)
    began = time.perf_counter()
    outcomes: dict[str, JobOutcome | None] = {image.name: None for image in images}
    with _engine(order, options) as engine:
        for parent in _parents(images):
            ensure_folder(output / parent)
        try:
            with closing(_each_image(order, images, options, engine)) as running:
                for outcome in running:
                    outcomes[outcome.name] = outcome
        except BatchNotStarted:
            raise
        except BaseException:
            with suppress(InputError):  # of a disk that is full, say, which is what we are about to hear anyway
                write_report(order, output, outcomes, journal, time.perf_counter() - began)
            raise
        finally:
            _remove_scratch(output, images)
    write_report(order, output, outcomes, journal, time.perf_counter() - began)
    return make_report(list(outcomes), {name: done for name, done in outcomes.items() if done is not None})


def _each_image(
    order: BatchSpec, images: Sequence[BatchImage], options: BatchOptions, engine: Engine | None
) -> Generator[JobOutcome]:
    """What becomes of each image, first of those that an earlier run has finished."""
    tasks = {image.name: order.task(image, options.folder, options.overwrite) for image in images}

    def check_places(names: Collection[str]) -> None:
        try:
            for name in names:
                check_place(tasks[name])
        except InputError as reason:
            raise BatchNotStarted(str(reason)) from None

    return iter_jobs(
        TITLE,
        segment_image,
        tasks,
        order.depends_on(),
        options,
        {image.name: order.files(image) for image in images},
        engine=engine,
        is_valid=lambda record: has_all_files(options.folder, record),
        before=check_places,
    )


@contextmanager
def _engine(order: BatchSpec, options: BatchOptions) -> Iterator[Engine | None]:
    """What does the jobs; None for processes of this machine."""
    if options.scheduler is not None:
        from napari_gsw.batch.dask_cluster import cluster_engine

        with cluster_engine(options) as engine:
            yield engine
        return
    if options.jobs > 1 and METHODS[order.choice.method].samples:
        warm_up()  # so that the processes find everything compiled
    yield None


def _check_earlier(order: BatchSpec, images: Sequence[BatchImage], options: BatchOptions, journal: Journal) -> None:
    """Results of two runs are not mixed unless somebody has said which are to stay.

    Runs with the same settings and different images are one batch in several parts, at the same time or one by one.
    """
    if options.resume or options.fresh:
        return
    output = options.folder
    files = (f"{image.stem}.{order.format}" for image in images)
    leftover = next((file for file in files if os.path.lexists(output / file)), None)
    known = journal.read()
    if leftover is None:
        leftover = next((image.name for image in images if image.name in known), None)
    if leftover is None and not known:
        reports = (file for file in (TABLE, SUMMARY) if os.path.lexists(output / file))
        others = (f"{JOURNALS}/{path.name}" for path in (output / JOURNALS).glob(f"{TITLE}-*.jsonl"))
        leftover = next(chain(reports, others), None)
    if leftover is not None:
        raise InputError(
            f"{str(output)!r} holds results already ({leftover}): --resume goes on with them, --overwrite begins anew, "
            "or choose another folder"
        )


def _remove_scratch(output: Path, images: Sequence[BatchImage]) -> None:
    """Remove what processes that were killed have left half written."""
    for parent in _parents(images):
        with suppress(OSError), scratch_folder(output / parent):
            pass


def _folder(output: str | os.PathLike[str]) -> Path:
    """The output folder; a name that is empty would be the current one."""
    if not os.fspath(output):
        raise InputError("the output folder must have a name")
    return Path(output)


def _parents(images: Sequence[BatchImage]) -> set[PurePosixPath]:
    """The folders within the output folder that results go into."""
    return {PurePosixPath(image.stem).parent for image in images}
