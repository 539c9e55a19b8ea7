"""The batch itself: images --> jobs (processes or a cluster) --> rows, a journal to go on from, and a report."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import Any

from napari_gsw.batch.images import segmented, still_there
from napari_gsw.batch.order import Order, Way
from napari_gsw.batch.report import SUMMARY, TABLE, table, write_report
from napari_gsw.batch.selection import Item, Selection, selected
from napari_gsw.core.errors import InputError
from napari_gsw.core.pipeline.segment import warm_up
from napari_gsw.core.presets import DEFAULT_PRESET
from napari_gsw.files.folders import ensure_folder
from napari_gsw.files.results import Extras
from napari_gsw.jobs.journal import JOURNALS
from napari_gsw.jobs.records import Engine, JobOptions, JobOutcome, Row
from napari_gsw.jobs.run import each_job
from napari_gsw.methods.registry import METHODS, choose

TITLE = "batch"


def run_batch(
    folder: str | os.PathLike[str],
    output: str | os.PathLike[str],
    *,
    preset: str = DEFAULT_PRESET,
    method: str = "gsw",
    seed: int = 0,
    selection: Selection | None = None,
    format: str = "tif",
    extras: Extras | None = None,
    jobs: int = 1,
    retries: int = 1,
    resume: bool = False,
    overwrite: bool = False,
    scheduler: str | None = None,
    **changes: Any,
) -> list[Row]:
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
    jobs, retries, resume, overwrite, scheduler : see :class:`Way`.

    Returns
    -------
    rows : one dictionary an image, with the columns of ``batch.csv``; ``status`` is ``done`` or ``failed``.
    """
    choice = choose(method, preset, changes)
    order = Order(Path(folder), Path(output), choice, seed, selection or Selection(), format, extras or Extras())
    return run_order(order, Way(jobs, retries, resume, overwrite, scheduler, quiet=True))


def run_order(order: Order, way: Way) -> list[Row]:
    """The work of :func:`run_batch`: segment, write the report, and return its rows.

    A run that is interrupted (:class:`KeyboardInterrupt`) writes the report too, as far as it came.
    """
    items = selected(order.folder, order.output, order.selection)
    _check_earlier(order, items, way)
    began = time.perf_counter()
    names = [item.name for item in items]
    told: dict[str, JobOutcome] = {}
    with _engine(order, way) as engine:
        for parent in {PurePosixPath(item.place).parent for item in items}:
            ensure_folder(order.output / parent)
        try:
            with closing(_each(order, items, way, engine)) as outcomes:
                for one in outcomes:
                    told[one.name] = one
        except BaseException:
            with suppress(InputError):  # of a disk that is full, say, which is what we are about to hear anyway
                write_report(order, table(names, told), time.perf_counter() - began)
            raise
        finally:
            _clear(order.output, items)
    rows = table(names, told)
    write_report(order, rows, time.perf_counter() - began)
    return rows


def _each(order: Order, items: list[Item], way: Way, engine: Engine | None) -> Generator[JobOutcome]:
    places = {item.name: item.place for item in items}
    return each_job(
        TITLE,
        segmented,
        {item.name: order.task(item) for item in items},
        order.depends(),
        JobOptions(order.output, way.jobs, way.overwrite, way.quiet, way.retries),
        {item.name: order.files(item) for item in items},
        engine=engine,
        holds=lambda name, row: still_there(order.output, places[name], row),
    )


@contextmanager
def _engine(order: Order, way: Way) -> Iterator[Engine | None]:
    """What does the jobs; None for processes of this machine."""
    if way.scheduler is not None:
        from napari_gsw.batch.cluster import cluster_engine

        with cluster_engine(way) as engine:
            yield engine
        return
    if way.jobs > 1 and METHODS[order.choice.method].samples:
        warm_up()  # so that the processes find everything compiled
    yield None


def _check_earlier(order: Order, items: list[Item], way: Way) -> None:
    """Results of two runs are not mixed unless somebody has said which are to stay."""
    if way.resume or way.overwrite:
        return
    out = order.output
    files = (TABLE, SUMMARY, *(str(PurePosixPath(i.place).with_name(i.labels(order.format))) for i in items))
    there = next((file for file in files if os.path.lexists(out / file)), None)
    if there is None and any((out / JOURNALS).glob(f"{TITLE}-*.jsonl")):
        there = JOURNALS
    if there is not None:
        raise InputError(
            f"{str(out)!r} holds results already ({there}): --resume goes on with them, --overwrite begins anew, or "
            "choose another folder"
        )


def _clear(output: Path, items: list[Item]) -> None:
    """Remove what processes that were killed have left half written."""
    for parent in {PurePosixPath(item.place).parent for item in items}:
        for scratch in (output / parent).glob(".unfinished-*"):
            shutil.rmtree(scratch, ignore_errors=True)
