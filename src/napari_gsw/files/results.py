"""All files of one segmentation: the labels, what made them, and what else was asked for beside them."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from napari_gsw.core.arrays import LabelImage
from napari_gsw.core.image.lazy import is_lazy
from napari_gsw.core.posterior.label_table import measured
from napari_gsw.core.posterior.result import Outcome, Result, Trace
from napari_gsw.files import plots
from napari_gsw.files.geometry import UNKNOWN, Geometry, of_labels, ruler
from napari_gsw.files.label_formats import check_target, companion, writer
from napari_gsw.files.labels import put_labels
from napari_gsw.files.ownership import PROVENANCE, check_alone, check_free
from napari_gsw.files.posterior import LAZY_POSTERIOR_FILES, POSTERIOR_FILES, write_posterior
from napari_gsw.files.tables import put_columns
from napari_gsw.files.zarr_files import write_zarr, zarr_package

# Everything that may stand beside the labels, some of it on demand.
COMPANIONS = (
    "sites.tif", "sites.zarr", "provenance.json", "trace.csv", "regions.csv",
    "overlay.png", "trace.png", "uncertainty.png",
    *dict.fromkeys((*POSTERIOR_FILES, *LAZY_POSTERIOR_FILES)),
)  # fmt: skip
TABLE = "regions.csv"
UINT16_MOST = np.iinfo(np.uint16).max


@dataclass(frozen=True)
class Extras:
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


def planned_files(labels_name: str, extras: Extras, samples: bool, lazily: bool = False) -> list[str]:
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
        names.append(TABLE)
    if samples and extras.sites:
        names.append("sites.zarr" if lazily else "sites.tif")
    if extras.plot:
        names += ["overlay.png", *(("trace.png", "uncertainty.png") if samples else ())]
    if samples and extras.uncertainty:
        names += LAZY_POSTERIOR_FILES if lazily else POSTERIOR_FILES
    return [labels_name, *(companion(labels_name, name) for name in names)]


def check_results(folder: Path, names: Sequence[str], overwrite: bool) -> None:
    """Refuse, before any work is done, what :func:`write_outcome` could not put in its place.

    Parameters
    ----------
    folder : where the results are to go.
    names : as :func:`planned_files` gives them, the labels first.
    overwrite : whether what is not ours may be written over.
    """
    labels_name = names[0]
    mark = companion(labels_name, PROVENANCE)
    if writer(Path(labels_name)) is write_zarr:
        zarr_package()
    standing = check_free(folder, names, mark, overwrite)
    if not standing.get(labels_name, False):
        check_target(folder / labels_name)
    if not overwrite:
        check_alone(folder, names, mark)


def write_outcome(
    image: NDArray[Any],
    axes: str,
    outcome: Outcome,
    folder: Path,
    labels_name: str,
    extras: Extras,
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
    where = of_labels(place, axes, outcome.labels.ndim)
    remarks = write_labels_and_provenance(outcome.labels, outcome.provenance, folder, labels_name, where)
    if outcome.result is not None:
        remarks += write_chain(outcome.result, folder, labels_name, extras.sites, where)
        if extras.uncertainty:
            write_posterior(image, outcome.result, folder, labels_name, where)
    if extras.table:
        remarks += write_table(image, axes, outcome, folder / companion(labels_name, TABLE), where)
    if extras.plot:
        plots.save_overlay(image, outcome.labels, folder / companion(labels_name, "overlay.png"), axes)
        if outcome.result is not None:
            plots.save_trace(outcome.result.traces, folder / companion(labels_name, "trace.png"))
            plots.save_uncertainty(outcome.result, folder / companion(labels_name, "uncertainty.png"))
    return remarks


def write_table(image: Any, axes: str, outcome: Outcome, path: Path, where: Geometry) -> list[str]:
    """The table of an outcome's labels, in the units of where they lie; returns remarks."""
    summary = None if outcome.result is None else outcome.result.summary
    put_columns(measured(outcome.labels, image, axes, summary, **ruler(where)), path)
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
    file = put_labels(labels, folder / labels_name, where, provenance=provenance)
    if file.name != labels_name:
        content = "a volume" if labels.ndim > 2 else "32-bit labels"
        remarks.append(f"PNG cannot hold {content}: written as {file.name}")
    return remarks


def write_chain(result: Result, folder: Path, labels_name: str, sites: bool, where: Geometry) -> list[str]:
    """Write what stands beside the labels of a chain: its trace and, if asked for, its superpixels; returns remarks."""
    remarks = []
    if sites and result.problem.sites is not None:
        wide = result.problem.n > UINT16_MOST
        if wide:
            remarks.append(f"{result.problem.n} sites are more than uint16 holds: the sites are written as uint32")
        numbers = np.arange(1, result.problem.n + 1, dtype=np.uint32 if wide else np.uint16)
        site_image = result.problem.paint(numbers)
        file = folder / companion(labels_name, "sites.zarr" if is_lazy(site_image) else "sites.tif")
        put_labels(site_image, file, where, name="sites")
    write_trace(result.traces, folder / companion(labels_name, "trace.csv"))
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
