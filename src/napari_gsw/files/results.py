"""All files of one segmentation: the labels, what made them, and what else was asked for beside them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from napari_gsw.files import plots
from napari_gsw.files.labels import COMPANIONS, companion, write_chain, write_found
from napari_gsw.files.posterior import FILES, write_posterior
from napari_gsw.methods.registry import Outcome

# Everything that may stand beside the labels.
BESIDE = COMPANIONS + FILES


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
