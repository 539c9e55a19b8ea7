"""Run a batch: images become jobs, jobs become records, and records become reports.

The reports are ``batch.csv``, a row for each image, and ``batch.json``, what made them and the totals. Runs that share
an output folder report what all of them have done, as their journals tell. Each looks again after it has written, so
that the last report is complete.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from typing import Any

from napari_gsw.batch.images import BatchSpec, ReferenceImage, Selection, has_all_files, segment_image, select_images
from napari_gsw.batch.jobs import BatchOptions, Engine, Failure, JobOutcome, Journal, Record, iter_jobs
from napari_gsw.core.errors import InputError
from napari_gsw.core.pipeline.warm_up import warm_up
from napari_gsw.core.settings.presets import DEFAULT_PRESET, shared_preset
from napari_gsw.core.versions import collect_versions
from napari_gsw.files.output_folder import JOURNALS, check_writable, ensure_folder, scratch_folder
from napari_gsw.files.results import OutputOptions, make_printable, write_csv, write_json
from napari_gsw.methods import METHODS, choose

TITLE = "batch"
TABLE, SUMMARY = "batch.csv", "batch.json"
DONE, FAILED, LEFT = "done", "failed", "left"
FIGURES = ("regions", "clusters", "sites", "best_log_posterior", "seconds")
COLUMNS = ("name", "status", *FIGURES, "attempts", "labels", "remarks", "reason")
# How often a report is written again while other runs go on.
MAX_ROUNDS = 5


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
    return run_batch_spec(
        spec, BatchOptions(Path(output), jobs, overwrite, True, retries, overwrite, resume, scheduler)
    )


def run_batch_spec(spec: BatchSpec, options: BatchOptions) -> list[Record]:
    """Run a batch, write its reports, and return the rows; see :func:`run_batch`.

    If the run is interrupted (:class:`KeyboardInterrupt`), it reports what was done.
    """
    output = options.folder
    images = select_images(spec.image_folder, output, spec.selection)
    journal = Journal(TITLE, spec.depends_on(), output)
    if not options.resume and not options.fresh:
        labels = {image.name: f"{image.stem}.{spec.format}" for image in images}
        _refuse_earlier_results(output, labels, journal)
    check_writable(output, (TABLE, SUMMARY), options.overwrite)
    began = time.perf_counter()
    tasks = {image.name: spec.make_task(image, output, options.overwrite) for image in images}
    outcomes: dict[str, JobOutcome | None] = dict.fromkeys(tasks)
    folders = {output / task.stem.parent for task in tasks.values()}
    with ExitStack() as stack:
        engine: Engine | None = None  # processes of this machine
        if options.scheduler is not None:
            from napari_gsw.batch.dask_cluster import cluster_engine

            engine = stack.enter_context(cluster_engine(options))
        elif options.jobs > 1 and METHODS[spec.choice.method].samples:
            warm_up()  # so that the processes find everything compiled
        for folder in folders:
            ensure_folder(folder)
        running = iter_jobs(
            TITLE,
            segment_image,
            tasks,
            spec.depends_on(),
            options,
            {image.name: spec.list_files(image) for image in images},
            engine=engine,
            is_valid=lambda record: has_all_files(output, record),
            before=lambda names: [tasks[name].check() for name in names],
        )
        try:
            with closing(running):
                for outcome in running:
                    outcomes[outcome.name] = outcome
        except BaseException as error:
            if any(outcomes.values()) or not isinstance(error, InputError):  # refused before any image was begun
                with suppress(InputError):  # of a full disk, say, which is the error that is raised below
                    _write_report(spec, output, outcomes, journal, time.perf_counter() - began)
            raise
        finally:
            for folder in folders:
                with suppress(OSError), scratch_folder(folder):  # removes those of workers that were killed
                    pass
    _write_report(spec, output, outcomes, journal, time.perf_counter() - began)
    return make_report(outcomes)


def _refuse_earlier_results(output: Path, labels: Mapping[str, str], journal: Journal) -> None:
    """Refuse to mix the results of two runs; `labels` are the files of the images by name.

    Runs with the same settings and different images are parts of one batch.
    """
    known = journal.read()
    found = [file for file in labels.values() if os.path.lexists(output / file)]
    found += [name for name in labels if name in known]
    if not found and not known:
        found += [name for name in (TABLE, SUMMARY) if os.path.lexists(output / name)]
        found += [f"{JOURNALS}/{path.name}" for path in (output / JOURNALS).glob(f"{TITLE}-*.jsonl")]
    if found:
        raise InputError(
            f"{str(output)!r} holds results already ({found[0]}): --resume keeps them, --overwrite begins anew, "
            "or choose another folder"
        )


def make_report(outcomes: Mapping[str, JobOutcome | None]) -> list[Record]:
    """Make the rows of ``batch.csv``, with None for what is unknown; images without an outcome are `left`."""
    rows = []
    for name, outcome in outcomes.items():
        row: Record = dict.fromkeys(COLUMNS) | {"name": name, "status": LEFT, "remarks": "", "reason": ""}
        if outcome is not None:
            answer = outcome.record_or_failure
            if isinstance(answer, Failure):
                row |= {"status": FAILED, "reason": answer.reason}
            else:
                row |= {column: value for column, value in answer.items() if column in COLUMNS} | {"status": DONE}
        row["attempts"] = 0 if outcome is None else outcome.attempts
        rows.append(row)
    return rows


def _write_report(
    spec: BatchSpec, output: Path, outcomes: Mapping[str, JobOutcome | None], journal: Journal, seconds: float
) -> None:
    """Write both reports: `outcomes` are those of this run, `journal` tells of all runs."""
    for _ in range(MAX_ROUNDS):
        before = journal.files()
        everything = {}
        for name, (outcome, _) in journal.read().items():
            record = None if outcome is None else outcome.record_or_failure
            is_gone = isinstance(record, dict) and not has_all_files(output, record)
            if not is_gone and os.path.exists(spec.image_folder / name):
                everything[name] = outcome
        everything |= outcomes
        _write_files(spec, output, make_report({name: everything[name] for name in sorted(everything)}), seconds)
        if journal.files() == before:
            return


def _write_files(spec: BatchSpec, output: Path, rows: Sequence[Record], seconds: float) -> None:
    write_csv(output / TABLE, COLUMNS, [["" if row[c] is None else row[c] for c in COLUMNS] for row in rows])
    count = Counter(row["status"] for row in rows)
    content = {
        "software": "napari-gsw",
        "versions": collect_versions(),
        "folder": make_printable(str(spec.image_folder)),
        "settings": spec.choice.to_dict(),
        "seed": spec.seed,
        "selection": vars(spec.selection),
        "format": spec.format,
        "extras": vars(spec.extras),
        "teachers": [{"image": t.image.name, "painted": t.painted.name} for t in spec.teachers],
        "images": len(rows),
        **{status: count[status] for status in (DONE, FAILED, LEFT)},
        "failures": {make_printable(r["name"]): make_printable(r["reason"]) for r in rows if r["status"] == FAILED},
        "regions": sum(row["regions"] or 0 for row in rows),
        "image_seconds": round(sum(row["seconds"] or 0.0 for row in rows), 3),
        "run_seconds": round(seconds, 3),
    }
    write_json(output / SUMMARY, content)
