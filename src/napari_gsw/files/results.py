"""All files of a segmentation, tables and reports as CSV and JSON; the provenance in any of these files."""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from napari_gsw.core.errors import InputError
from napari_gsw.core.image.lazy import is_lazy
from napari_gsw.core.posterior.region_table import Columns, measure_labels
from napari_gsw.core.posterior.result import MethodResult, Result, Trace, make_calibrated_boundary
from napari_gsw.files import plots
from napari_gsw.files.geometry import UNKNOWN, Geometry, label_geometry, scale_and_unit
from napari_gsw.files.images import TIFF_SUFFIXES, is_zarr, open_tiff, parse_xml
from napari_gsw.files.labels import find_writer, write_label_file, write_tiff, write_values
from napari_gsw.files.output_folder import (
    PROVENANCE,
    check_overwrite,
    check_sole_result,
    replace_atomically,
    sibling_name,
)
from napari_gsw.files.session_file import is_session, open_session

# Segmentations at the border of the credible ball.
BOUNDS = ("coarsest", "finest", "farthest")
# Everything that `_write_posterior` may write, for an image in memory and for a lazy one.
POSTERIOR_IMAGES = ("entropy", "boundary", "contour", "people", *BOUNDS)
POSTERIOR_FILES = (*(f"{name}.tif" for name in POSTERIOR_IMAGES), "posterior.json")
LAZY_POSTERIOR_FILES = (*(f"{name}.zarr" for name in POSTERIOR_IMAGES if name != "people"), "posterior.json")
REGION_TABLE = "regions.csv"
MAX_JSON_BYTES = 2**26  # a provenance with thousands of steps has a few million


@dataclass(frozen=True)
class OutputOptions:
    """Files to write besides labels, provenance and trace.

    Parameters
    ----------
    sites : bool
        The superpixels.
    plot : bool
        Figures: an overlay, the trace, the uncertainty.
    uncertainty : bool
        Images of the uncertainty, bounds of the credible ball, and convergence diagnostics.
    table : bool
        A table with a row for each label.
    """

    sites: bool = False
    plot: bool = False
    uncertainty: bool = False
    table: bool = False


def list_output_files(labels_name: str, extras: OutputOptions, samples: bool, lazily: bool = False) -> list[str]:
    """List all files that :func:`write_results` may write, the labels first.

    `samples` tells whether the method samples and so has a trace, `lazily` whether the image is read in blocks.
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


# Everything that may stand beside the labels.
_ALL = OutputOptions(True, True, True, True)
SIBLING_FILES = tuple(
    dict.fromkeys(name for lazily in (False, True) for name in list_output_files("labels", _ALL, True, lazily)[1:])
)


def check_outputs(
    labels: Path, extras: OutputOptions, samples: bool, lazily: bool = False, overwrite: bool = False
) -> None:
    """Refuse, before the work begins, what :func:`write_results` could not put in its place."""
    find_writer(labels.name)
    names, manifest = list_output_files(labels.name, extras, samples, lazily), sibling_name(labels.name, PROVENANCE)
    check_overwrite(labels.parent, names, manifest, overwrite)
    if not overwrite:
        check_sole_result(labels.parent, names, manifest)


def write_results(
    image: NDArray[Any],
    axes: str,
    outcome: MethodResult,
    folder: Path,
    labels_name: str,
    extras: OutputOptions,
    image_geometry: Geometry = UNKNOWN,
) -> list[str]:
    """Write the result of a method into a scratch folder, and return remarks for the user.

    Unless the stem of `labels_name` is ``labels``, the names of the other files begin with the stem, so that results
    can share a folder.
    """
    labels, result = outcome.labels, outcome.result
    geometry, lazily = label_geometry(image_geometry, axes, labels.ndim), is_lazy(labels)

    def sibling(name: str) -> Path:
        return folder / sibling_name(labels_name, name)

    remarks = []
    if labels.dtype == np.uint32 and not lazily:
        remarks.append(f"labels go up to {labels.max()}, more than uint16 holds: written as uint32")
    file = write_label_file(labels, folder / labels_name, geometry, provenance=outcome.provenance)
    if file.name != labels_name:
        content = "a volume" if labels.ndim > 2 else "32-bit labels"
        remarks.append(f"PNG cannot hold {content}: written as {file.name}")
    if result is not None:
        n_sites = result.problem.n
        if extras.sites and result.problem.sites is not None:
            dtype = np.min_scalar_type(max(n_sites, 256))  # uint16 at least
            if dtype == np.uint32:
                remarks.append(f"{n_sites} sites are more than uint16 holds: the sites are written as uint32")
            sites = result.problem.paint(np.arange(1, n_sites + 1, dtype=dtype))
            write_label_file(sites, sibling("sites.zarr" if is_lazy(sites) else "sites.tif"), geometry, name="sites")
        write_trace(result.traces, sibling("trace.csv"))
        if np.isnan(result.snapshot.together).any():
            remarks.append("the chain ended before its burn-in was over: there is no uncertainty")
        if extras.uncertainty:
            _write_posterior(image, result, sibling, geometry)
    if extras.table:
        summary = None if result is None else result.summary
        write_columns(measure_labels(labels, image, axes, summary, **scale_and_unit(geometry)), sibling(REGION_TABLE))
        if lazily:
            remarks.append("the image is read in blocks: medians, perimeter and solidity are left out of the table")
    if extras.plot:
        plots.save_overlay(image, labels, sibling("overlay.png"), axes)
        if result is not None:
            plots.save_trace(result.traces, sibling("trace.png"))
            plots.save_uncertainty(result, sibling("uncertainty.png"))
    return remarks


def _write_posterior(image: NDArray[Any], result: Result, sibling: Callable[[str], Path], geometry: Geometry) -> None:
    """Write images of the uncertainty and ``posterior.json``; before the end of the burn-in the latter alone.

    entropy: uncertainty of each superpixel, in bits. boundary: probability of a boundary through each pixel. contour:
    the same as a hierarchy, of which each threshold gives closed boundaries. people: probability that an annotator
    draws a boundary (2D images in memory). coarsest, finest, farthest: clusters at the border of the 95 % ball.
    """

    def finite(value: float) -> float | None:
        return value if np.isfinite(value) else None

    diagnosis = result.diagnosis
    content: dict[str, Any] = {
        "verdict": diagnosis.summary,
        "agree": diagnosis.agree,
        "known": result.summary.is_estimated,
        "chains": diagnosis.chains,
        "sweeps": diagnosis.sweeps,
        "mixing": {name: {"r_hat": finite(m.r_hat), "ess": finite(m.ess)} for name, m in diagnosis.mixing.items()},
        "edge_deviation": finite(diagnosis.edge_deviation),
        "clusters": result.n_clusters,
        "regions": result.n_regions,
    }
    if result.summary.counted:
        lazily = is_lazy(result.labels)
        ending = "zarr" if lazily else "tif"
        images = {"entropy": result.uncertainty, "boundary": result.boundary, "contour": result.contour}
        has_faces_only = result.problem.graph is not None and (result.problem.graph.order == 1).all()
        if result.labels.ndim == 2 and has_faces_only and result.summary.image_sites is None and not lazily:
            images["people"] = make_calibrated_boundary(image, result)
        for name, values in images.items():
            if lazily:
                write_values(values, sibling(f"{name}.zarr"), geometry, name)
            else:
                write_tiff(values, sibling(f"{name}.tif"), geometry, name, None)
        for name in BOUNDS:
            clusters = result.problem.paint((result.summary.credible_bounds[name] + 1).astype(np.uint32))
            write_label_file(clusters, sibling(f"{name}.{ending}"), geometry, name)
        ball = result.credible_ball()
        counts = {name: int(result.draws[getattr(ball, name)].max()) + 1 for name in BOUNDS}
        content["credible_ball"] = {"level": ball.level, "radius_bits": ball.radius, **counts}
        content["mean_uncertainty_bits"] = float(result.uncertainty.mean())
    sibling("posterior.json").write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


def write_trace(traces: Sequence[Trace], path: Path) -> None:
    """Write traces as CSV, a row for each sweep; for several chains the number of the chain is the first column."""
    numbered = len(traces) > 1
    with path.open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow((*(["chain"] if numbered else []), *Trace._fields))
        for chain, trace in enumerate(traces):
            rows = zip(*(column.tolist() for column in trace), strict=True)
            table.writerows(([chain, *row] if numbered else row) for row in rows)


def write_columns(columns: Columns, path: Path) -> None:
    """Write a table of columns into a scratch folder as CSV."""
    path.write_text(columns_to_csv(columns, ","), encoding="utf-8", newline="")


def columns_to_csv(columns: Columns, delimiter: str) -> str:
    """Format a table of columns with every digit; cells of unknown values are empty."""
    text = io.StringIO(newline="")
    table = csv.writer(text, delimiter=delimiter, lineterminator="\n")
    table.writerow(columns)
    cells = (["" if cell != cell else cell for cell in column.tolist()] for column in columns.values())
    table.writerows(zip(*cells, strict=True))
    return text.getvalue()


def write_csv(path: Path, head: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """Write a report as CSV; see :func:`write_text`."""
    text = io.StringIO(newline="")
    table = csv.writer(text)
    table.writerow(head)
    table.writerows(rows)
    write_text(path, make_printable(text.getvalue()))


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Write a report as JSON; see :func:`write_text`."""
    write_text(path, json.dumps(content, indent=2) + "\n")


def write_text(path: Path, text: str) -> None:
    """Write a report; an earlier one of ours is replaced when the new one is complete."""
    with replace_atomically(path) as scratch:
        scratch.write_text(text, encoding="utf-8", newline="")


def make_printable(text: str) -> str:
    r"""Escape bytes that are not UTF-8, as names of files may have, as ``\xe9``."""
    try:
        return text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    except UnicodeEncodeError:  # half a character, as names on Windows may have
        return text.encode("utf-8", "backslashreplace").decode("utf-8")


def read_provenance(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read the provenance in a JSON file, in our labels as TIFF, OME-TIFF or OME-Zarr, or in a session.

    It is any JSON object, which the caller has to check.
    """
    file = Path(path)
    try:
        if is_session(file):
            first, *others = open_session(file).runs.values()  # axes and spacing belong to an image
            if any(run.settings != first.settings or run.seed != first.seed for run in others):
                raise InputError(f"{str(file)!r} has runs with different settings; none of them is that of all")
            settings = {n: v for n, v in first.settings.to_dict().items() if n not in ("axes", "spacing")}
            content: Any = {"software": "napari-gsw", "settings": settings, "seed": first.seed}
        elif not is_zarr(file) and file.suffix.lower() in TIFF_SUFFIXES and os.path.isfile(file):
            with open_tiff(file) as tiff:
                text = str(tiff.pages.first.description)
                if tiff.imagej_metadata is not None:
                    text = str(tiff.imagej_metadata["Info"])
                elif tiff.is_ome:
                    element = parse_xml(text).find("{*}Image/{*}Description")
                    text = "" if element is None else str(element.text)
            content = json.loads(text)
            content = content.get("provenance", content)  # in a plain TIFF it stands beside the shape
        else:
            node = file / "zarr.json" if is_zarr(file) else file
            if not os.path.isfile(node):
                raise InputError(f"{str(path)!r} is not a file")
            if node.stat().st_size > MAX_JSON_BYTES:
                raise InputError(f"{str(node)!r} is too large for a file of settings")
            content = json.loads(node.read_text(encoding="utf-8"))
            content = content["attributes"]["napari-gsw"] if is_zarr(file) else content
    except InputError:
        raise
    except Exception:  # decoders raise whatever they like, and JSON may be nested without end
        raise InputError(
            f"{str(path)!r} carries no settings; give a provenance.json, or labels as .tif or .zarr"
        ) from None
    if not isinstance(content, dict):
        raise InputError(f"{str(path)!r} carries no settings: it is JSON, but no object with names")
    return content
