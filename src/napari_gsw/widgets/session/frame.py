"""What there is to see of a run, and what of it is wanted: plain records between the run and whoever draws."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from napari_gsw.core.pipeline.watched_chain import Show
from napari_gsw.core.posterior.held_pixels import HeldPixels
from napari_gsw.widgets.layers.large_labels import Outlined
from napari_gsw.widgets.session.array_run import ArrayRun, HeldPicture, LabelPicture


@dataclass(frozen=True, eq=False)
class Frame:
    """What there is to see of one array.

    Attributes
    ----------
    obeyed : number of orders that have been carried out on its chain.
    labels : label image with numbers that stay with their regions.
    numbers : (n,) the same for the sites.
    traces : (sweeps, 3) log posterior, number of clusters and entropy of their sizes, of each chain.
    boundary, entropy : images, or None where they were not asked for or are not known.
    regions : label image of regions or objects (`kind`), likewise; `n_regions` their number, 0 if it is not known.
    region_outlines : their outlines, where they are large.
    held : what is locked or fixed; None if nothing has been so far.
    table : columns of the regions' table, or None if it is not new.
    verdict : what there is to say about the agreement of the chains; `settled` whether several of them agree.
    edits : objects or regions that a person has fixed, or None.
    corrections : how many corrections stand: what was undone does not.
    known : whether the burn-in is over, and with it a consensus to be had.
    provenance : what made it, at the end of a run.
    rate : sweeps a second so far.
    """

    array_run: ArrayRun
    obeyed: int
    sweep: int
    target: int
    show: Show
    labels: LabelPicture
    numbers: NDArray[np.int64]
    locks: NDArray[np.bool_]
    n_clusters: int
    best: float
    best_sweep: int
    traces: list[NDArray[np.float64]]
    marks: tuple[int, ...]
    corrections: int
    rate: float
    boundary: NDArray[np.float32] | None = None
    entropy: NDArray[np.float32] | None = None
    regions: LabelPicture | None = None
    region_outlines: Outlined | None = None
    held: HeldPicture | None = None
    n_regions: int = 0
    kind: str = "region"
    verdict: str = ""
    settled: bool = False
    edits: HeldPixels | None = None
    known: bool = False
    table: dict[str, NDArray[Any]] | None = None
    provenance: dict[str, Any] | None = None
