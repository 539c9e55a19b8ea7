"""Tables and summaries as files: CSV and JSON, whole or not at all, in folders that are there."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from napari_gsw.core.array_types import Float32Array, LabelImage
from napari_gsw.core.image.lazy import is_lazy
from napari_gsw.core.posterior.calibrated_boundary import make_calibrated_boundary
from napari_gsw.core.posterior.label_table import Columns, measure_labels
from napari_gsw.core.posterior.result import MethodResult, Result, Trace
from napari_gsw.files import plots
from napari_gsw.files.geometry import UNKNOWN, Geometry, label_geometry, scale_and_unit
from napari_gsw.files.labels import check_target, find_writer, write_label_file, write_tiff
from napari_gsw.files.output_folder import (
    PROVENANCE,
    check_overwrite,
    check_sole_result,
    replace_atomically,
    sibling_name,
)
from napari_gsw.files.zarr_io import write_values, write_zarr, zarr_package


def write_csv(path: Path, head: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """A table; what was there before is replaced only when the new one is complete, and only if it was ours."""
    text = io.StringIO(newline="")
    table = csv.writer(text)
    table.writerow(head)
    table.writerows(rows)
    write_text(path, make_printable(text.getvalue()))


def write_columns(columns: Columns, path: Path) -> None:
    """A table of columns (k,) by name as CSV, straight into a folder that is scratch; what is not known is empty."""
    with path.open("w", newline="", encoding="utf-8") as file:
        file.write(columns_to_csv(columns, ","))


def columns_to_csv(columns: Columns, delimiter: str) -> str:
    """A table of columns (k,) by name as text, with every digit; what is not known is empty.

    >>> import numpy as np
    >>> print(columns_to_csv({"index": np.array([1, 2]), "sd": np.array([0.5, np.nan])}, ","))
    index,sd
    1,0.5
    2,
    <BLANKLINE>
    """
    text = io.StringIO(newline="")
    table = csv.writer(text, delimiter=delimiter, lineterminator="\n")
    table.writerow(columns)
    cells = (["" if cell != cell else cell for cell in column.tolist()] for column in columns.values())
    table.writerows(zip(*cells, strict=True))
    return text.getvalue()


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """As :func:`write_csv`, for JSON."""
    write_text(path, json.dumps(content, indent=2) + "\n")


def write_text(path: Path, text: str) -> None:
    """As :func:`write_csv`, for any text."""
    with replace_atomically(path) as scratch, scratch.open("w", newline="", encoding="utf-8") as file:
        file.write(text)


def make_printable(text: str) -> str:
    r"""Text that can be written and printed: of a file's name that is not UTF-8, the strange bytes as ``\xe9``.

    Examples
    --------
    >>> print(make_printable("caf\udce9.png"))
    caf\xe9.png
    """
    try:
        return text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    except UnicodeEncodeError:  # half a character, as names on Windows may have
        return text.encode("utf-8", "backslashreplace").decode("utf-8")


RANGE = ("coarsest", "finest", "farthest")
# All that `write_posterior` may write: of an image in memory, and of a lazy one.
POSTERIOR_FILES = (
    *(f"{name}.tif" for name in ("entropy", "boundary", "contour", "people", *RANGE)),
    "posterior.json",
)
LAZY_POSTERIOR_FILES = (*(f"{name}.zarr" for name in ("entropy", "boundary", "contour", *RANGE)), "posterior.json")


def write_posterior(image: NDArray[Any], result: Result, folder: Path, labels_name: str, where: Geometry) -> None:
    """Write what is known beside the labels; before the burn-in is over that is the verdict alone.

    entropy.tif : how unsure the model is of each site, in bits. boundary.tif : its probability of a boundary through
    each pixel. contour.tif : the same as a hierarchy; what is above a threshold are closed boundaries. people.tif : the
    probability that a person draws a boundary there (colour or grey images of two dimensions). coarsest.tif,
    finest.tif, farthest.tif : clusters of the segmentations at the edge of the 95 % ball. posterior.json : R-hat,
    effective samples, the ball's radius, in figures and in a sentence; `known` in it is false if so few sweeps were
    counted that the images mean little. Beside lazy labels the images are .zarr instead of .tif.

    Parameters
    ----------
    image : that was segmented.
    result : what was found of it.
    folder : where the files go; it is there already.
    labels_name : of the file of the labels, which all other names follow (:func:`~napari_gsw.files.output_folder.sibling_name`).
    where : the labels lie.
    """
    lazily = is_lazy(result.labels)

    def image_file(name: str) -> Path:
        return folder / sibling_name(labels_name, f"{name}.zarr" if lazily else f"{name}.tif")

    def put(name: str, values: Float32Array) -> None:
        if lazily:
            write_values(values, image_file(name), where, name)
        else:
            write_tiff(values, image_file(name), where, name, None)

    if result.summary.counted:
        put("entropy", result.uncertainty)
        put("boundary", result.boundary)
        put("contour", result.contour)
        touching = result.problem.graph is not None and (result.problem.graph.order == 1).all()
        alone = result.summary.image_sites is None
        if result.labels.ndim == 2 and touching and alone and not lazily:
            put("people", make_calibrated_boundary(image, result))
        for name in RANGE:
            clusters = result.problem.paint((result.summary.credible_bounds[name] + 1).astype(np.uint32))
            write_label_file(clusters, image_file(name), where, name)
    content = json.dumps(posterior_summary(result), indent=2)
    (folder / sibling_name(labels_name, "posterior.json")).write_text(content + "\n", encoding="utf-8")


def posterior_summary(result: Result) -> dict[str, Any]:
    """The posterior in figures, ready for JSON; what is infinite or not known is null."""
    diagnosis = result.diagnosis
    content: dict[str, Any] = {
        "verdict": diagnosis.summary,
        "agree": diagnosis.agree,
        "known": result.summary.is_estimated,
        "chains": diagnosis.chains,
        "sweeps": diagnosis.sweeps,
        "mixing": {name: {"r_hat": _number(m.r_hat), "ess": _number(m.ess)} for name, m in diagnosis.mixing.items()},
        "edge_deviation": _number(diagnosis.edge_deviation),
        "clusters": result.n_clusters,
        "regions": result.n_regions,
    }
    if result.summary.counted:
        ball = result.credible_ball()
        content["credible_ball"] = {
            "level": ball.level,
            "radius_bits": ball.radius,
            **{name: int(result.draws[getattr(ball, name)].max()) + 1 for name in RANGE},
        }
        content["mean_uncertainty_bits"] = float(result.uncertainty.mean())
    return content


def _number(value: float) -> float | None:
    return value if np.isfinite(value) else None


# Everything that may stand beside the labels, some of it on demand.
SIBLING_FILES = (
    "sites.tif", "sites.zarr", "provenance.json", "trace.csv", "regions.csv",
    "overlay.png", "trace.png", "uncertainty.png",
    *dict.fromkeys((*POSTERIOR_FILES, *LAZY_POSTERIOR_FILES)),
)  # fmt: skip
REGION_TABLE = "regions.csv"
MAX_UINT16 = np.iinfo(np.uint16).max


@dataclass(frozen=True)
class OutputOptions:
    """What is written beside labels, provenance and trace.

    Attributes
    ----------
    sites : the superpixels.
    plot : pictures: an overlay, the trace, the uncertainty.
    uncertainty : images of uncertainty, the range of plausible segmentations, the agreement of the chains.
    table : the table of labels, a row each.
    """

    sites: bool = False
    plot: bool = False
    uncertainty: bool = False
    table: bool = False


def list_output_files(labels_name: str, extras: OutputOptions, samples: bool, lazily: bool = False) -> list[str]:
    """Names of all that :func:`write_outcome` may write.

    Parameters
    ----------
    labels_name, extras : as for it.
    samples : whether the method is a chain, with a trace.
    lazily : whether the image is read in blocks.
    """
    names = [PROVENANCE]
    if samples:
        names.append("trace.csv")
    if extras.table:
        names.append(REGION_TABLE)
    if samples and extras.sites:
        names.append("sites.zarr" if lazily else "sites.tif")
    if extras.plot:
        names += ["overlay.png", *(("trace.png", "uncertainty.png") if samples else ())]
    if samples and extras.uncertainty:
        names += LAZY_POSTERIOR_FILES if lazily else POSTERIOR_FILES
    return [labels_name, *(sibling_name(labels_name, name) for name in names)]


def check_outputs(folder: Path, names: Sequence[str], overwrite: bool) -> None:
    """Refuse, before any work is done, what :func:`write_outcome` could not put in its place.

    Parameters
    ----------
    folder : where the results are to go.
    names : as :func:`planned_files` gives them, the labels first.
    overwrite : whether what is not ours may be written over.
    """
    labels_name = names[0]
    mark = sibling_name(labels_name, PROVENANCE)
    if find_writer(Path(labels_name)) is write_zarr:
        zarr_package()
    standing = check_overwrite(folder, names, mark, overwrite)
    if not standing.get(labels_name, False):
        check_target(folder / labels_name)
    if not overwrite:
        check_sole_result(folder, names, mark)


def write_results(
    image: NDArray[Any],
    axes: str,
    outcome: MethodResult,
    folder: Path,
    labels_name: str,
    extras: OutputOptions,
    place: Geometry = UNKNOWN,
) -> list[str]:
    """Write what a method has made of an image.

    Parameters
    ----------
    image, axes : what was segmented.
    outcome : labels, provenance and, of a method that samples, the result.
    folder : scratch, to write into.
    labels_name : as for :func:`write_labels_and_provenance`.
    extras : what is written beside labels, provenance and trace.
    place : what is known of where the pixels of the image lie.

    Returns
    -------
    Remarks for the user, a sentence each.
    """
    where = label_geometry(place, axes, outcome.labels.ndim)
    remarks = write_labels_and_provenance(outcome.labels, outcome.provenance, folder, labels_name, where)
    if outcome.result is not None:
        remarks += write_chain(outcome.result, folder, labels_name, extras.sites, where)
        if extras.uncertainty:
            write_posterior(image, outcome.result, folder, labels_name, where)
    if extras.table:
        remarks += write_table(image, axes, outcome, folder / sibling_name(labels_name, REGION_TABLE), where)
    if extras.plot:
        plots.save_overlay(image, outcome.labels, folder / sibling_name(labels_name, "overlay.png"), axes)
        if outcome.result is not None:
            plots.save_trace(outcome.result.traces, folder / sibling_name(labels_name, "trace.png"))
            plots.save_uncertainty(outcome.result, folder / sibling_name(labels_name, "uncertainty.png"))
    return remarks


def write_table(image: Any, axes: str, outcome: MethodResult, path: Path, where: Geometry) -> list[str]:
    """The table of an outcome's labels, in the units of where they lie; returns remarks."""
    summary = None if outcome.result is None else outcome.result.summary
    write_columns(measure_labels(outcome.labels, image, axes, summary, **scale_and_unit(where)), path)
    lazily = "the image is read in blocks: medians, perimeter and solidity are left out of the table"
    return [lazily] if is_lazy(outcome.labels) else []


def write_labels_and_provenance(
    labels: LabelImage, provenance: Mapping[str, Any], folder: Path, labels_name: str, where: Geometry
) -> list[str]:
    """Write labels and what made them into a folder; returns remarks for the user.

    Parameters
    ----------
    labels : label image, as :func:`napari_gsw.files.labels.write_labels` takes it; may be lazy.
    provenance : what made the labels, ready for JSON.
    folder : scratch, to write into.
    labels_name : ends in .tif or .png; PNG holds two dimensions of at most 16 bits. Unless its stem is ``labels``, the
        other files' names begin with it, so that several results can share a folder.
    where : the labels lie.
    """
    remarks = []
    if labels.dtype == np.uint32 and not is_lazy(labels):
        remarks.append(f"labels go up to {labels.max()}, more than uint16 holds: written as uint32")
    file = write_label_file(labels, folder / labels_name, where, provenance=provenance)
    if file.name != labels_name:
        content = "a volume" if labels.ndim > 2 else "32-bit labels"
        remarks.append(f"PNG cannot hold {content}: written as {file.name}")
    return remarks


def write_chain(result: Result, folder: Path, labels_name: str, sites: bool, where: Geometry) -> list[str]:
    """Write what stands beside the labels of a chain: its trace and, if asked for, its superpixels; returns remarks."""
    remarks = []
    if sites and result.problem.sites is not None:
        wide = result.problem.n > MAX_UINT16
        if wide:
            remarks.append(f"{result.problem.n} sites are more than uint16 holds: the sites are written as uint32")
        numbers = np.arange(1, result.problem.n + 1, dtype=np.uint32 if wide else np.uint16)
        site_image = result.problem.paint(numbers)
        file = folder / sibling_name(labels_name, "sites.zarr" if is_lazy(site_image) else "sites.tif")
        write_label_file(site_image, file, where, name="sites")
    write_trace(result.traces, folder / sibling_name(labels_name, "trace.csv"))
    if np.isnan(result.snapshot.together).any():
        remarks.append("the chain ended before its burn-in was over: there is no uncertainty")
    return remarks


def write_trace(traces: Sequence[Trace], path: Path) -> None:
    """Write traces as CSV, one row a sweep, with every digit; of several chains with the chain's number first."""
    several = len(traces) > 1
    with path.open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow((*(["chain"] if several else []), *Trace._fields))
        for chain, trace in enumerate(traces):
            rows = zip(*(column.tolist() for column in trace), strict=True)
            table.writerows(([chain, *row] if several else row) for row in rows)
