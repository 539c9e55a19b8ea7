"""What a posterior says, as files: images of uncertainty, the range of segmentations, and whether to trust them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from napari_gsw.core.arrays import Floats32
from napari_gsw.core.image.lazy import is_lazy
from napari_gsw.core.posterior.human_boundary import human_boundary
from napari_gsw.core.posterior.result import Result
from napari_gsw.files.geometry import Geometry
from napari_gsw.files.label_formats import companion, write_tiff
from napari_gsw.files.labels import put_labels
from napari_gsw.files.zarr_files import write_values

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
    labels_name : of the file of the labels, which all other names follow (:func:`~napari_gsw.files.labels.companion`).
    where : the labels lie.
    """
    lazily = is_lazy(result.labels)

    def image_file(name: str) -> Path:
        return folder / companion(labels_name, f"{name}.zarr" if lazily else f"{name}.tif")

    def put(name: str, values: Floats32) -> None:
        if lazily:
            write_values(values, image_file(name), where, name)
        else:
            write_tiff(values, image_file(name), where, name, None)

    if result.summary.counted:
        put("entropy", result.uncertainty)
        put("boundary", result.boundary)
        put("contour", result.contour)
        touching = result.problem.graph is not None and (result.problem.graph.order == 1).all()
        alone = result.summary.within is None
        if result.labels.ndim == 2 and touching and alone and not lazily:
            put("people", human_boundary(image, result))
        for name in RANGE:
            clusters = result.problem.paint((result.summary.extremes[name] + 1).astype(np.uint32))
            put_labels(clusters, image_file(name), where, name)
    content = json.dumps(posterior_figures(result), indent=2)
    (folder / companion(labels_name, "posterior.json")).write_text(content + "\n", encoding="utf-8")


def posterior_figures(result: Result) -> dict[str, Any]:
    """The posterior in figures, ready for JSON; what is infinite or not known is null."""
    diagnosis = result.diagnosis
    content: dict[str, Any] = {
        "verdict": diagnosis.sentence,
        "agree": diagnosis.agree,
        "known": result.summary.known,
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
