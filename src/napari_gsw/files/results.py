"""All files of one segmentation: the labels, what made them, and what else was asked for beside them."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from napari_gsw.core.image.lazy import is_lazy
from napari_gsw.core.posterior.result import Outcome, Result, Trace
from napari_gsw.files import plots
from napari_gsw.files.labels import companion, put_labels
from napari_gsw.files.posterior import FILES, write_posterior


@dataclass(frozen=True)
class Extras:
    """What is written beside labels, provenance and trace.

    Attributes
    ----------
    sites : the superpixels.
    plot : pictures: an overlay, the trace, the uncertainty.
    uncertainty : images of uncertainty, the range of plausible segmentations, the agreement of the chains.
    """

    sites: bool = False
    plot: bool = False
    uncertainty: bool = False


def write_outcome(
    image: NDArray[Any], axes: str, found: Outcome, folder: Path, labels_name: str, extras: Extras
) -> list[str]:
    """Write what a method has found of an image into a folder that is scratch; returns remarks for the user."""
    remarks = write_found(found.labels, found.provenance, folder, labels_name)
    if found.result is not None:
        remarks += write_chain(found.result, folder, labels_name, extras.sites)
        if extras.uncertainty:
            write_posterior(image, found.result, folder, labels_name)
    if extras.plot:
        plots.save_overlay(image, found.labels, folder / companion(labels_name, "overlay.png"), axes)
        if found.result is not None:
            plots.save_trace(found.result.traces, folder / companion(labels_name, "trace.png"))
            plots.save_uncertainty(found.result, folder / companion(labels_name, "uncertainty.png"))
    return remarks


PNG_MOST = np.iinfo(np.uint16).max


def write_found(
    labels: NDArray[Any], provenance: Mapping[str, Any], folder: Path, labels_name: str = "labels.tif"
) -> list[str]:
    """Write labels and what made them into a folder; returns remarks for the user.

    Parameters
    ----------
    labels_name : ends in .tif or .png; PNG holds two dimensions of at most 16 bits. Unless its stem is ``labels``, the
        other files' names begin with it, so that several results can share a folder.
    """
    remarks = []
    if labels.dtype == np.uint32 and not is_lazy(labels):
        remarks.append(f"labels go up to {labels.max()}, more than uint16 holds: written as uint32")
    written = put_labels(labels, folder / labels_name, provenance=provenance)
    if written.name != labels_name:
        what = "a volume" if labels.ndim > 2 else "32-bit labels"
        remarks.append(f"PNG cannot hold {what}: written as {written.name}")
    return remarks


def write_chain(result: Result, folder: Path, labels_name: str = "labels.tif", sites: bool = False) -> list[str]:
    """Write what stands beside the labels of a chain: its trace and, if asked for, its superpixels; returns remarks."""
    remarks = []
    if sites and result.problem.sites is not None:
        wide = result.problem.n > PNG_MOST
        if wide:
            remarks.append(f"{result.problem.n} sites are more than uint16 holds: the sites are written as uint32")
        numbers = np.arange(1, result.problem.n + 1, dtype=np.uint32 if wide else np.uint16)
        image = result.problem.paint(numbers)
        put_labels(
            image, folder / companion(labels_name, "sites.zarr" if is_lazy(image) else "sites.tif"), name="sites"
        )
    write_trace(result.traces, folder / companion(labels_name, "trace.csv"))
    if np.isnan(result.snapshot.together).any():
        remarks.append("the chain ended before its burn-in was over: there is no uncertainty")
    return remarks


# What stands beside the labels, some of it on demand.
COMPANIONS = ("sites.tif", "sites.zarr", "provenance.json", "trace.csv", "overlay.png", "trace.png", "uncertainty.png")


def write_trace(traces: Sequence[Trace], path: Path) -> None:
    """Write traces as CSV, one row a sweep, with every digit; of several chains with the chain's number first."""
    many = len(traces) > 1
    with path.open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow((*(["chain"] if many else []), *Trace._fields))
        for chain, trace in enumerate(traces):
            rows = zip(*(column.tolist() for column in trace), strict=True)
            table.writerows(([chain, *row] if many else row) for row in rows)


# Everything that may stand beside the labels.
BESIDE = COMPANIONS + FILES
