"""What maps beside an image are worth, and whether a stack of coarse planes is segmented as its isotropic self is.

Made-up maps of random mosaics, exact and noisy, are given beside the picture and instead of it; the labels are compared
with the connected parts of the truth. Of random volumes every fifth plane is segmented, with and without the distance
of the planes, and compared with the segmentation of all planes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage
from skimage.measure import label
from skimage.segmentation import find_boundaries

from napari_gsw.batch.jobs import JobOptions, JobRecords, Record, run_jobs
from napari_gsw.core.pipeline.segment import segment
from napari_gsw.files.results import write_json
from napari_gsw.research.paper.pictures import ExperimentPlan
from napari_gsw.sample_data import random_mosaic
from napari_gsw.scores.partitions import adjusted_rand

# Pictures and volumes, and the first seed: those before it were used to choose weights.
COUNT, QUICK_COUNT, FIRST = 8, 1, 1000
# Mosaics and volumes in pixels, planes that are left out between two, and grey levels.
SHAPE, SIDE, STEP = (160, 200), 40, 5
# A map and nothing else; boundaries alone have no size that they like better than another.
ALONE: Mapping[str, Any] = {"likelihood": "none", "texture_words": 0}
ONLY_BOUNDARIES: Mapping[str, Any] = {**ALONE, "coupling": "boundaries", "prior": "potts"}
ONLY_FEATURES: Mapping[str, Any] = {**ALONE, "coupling": "constant", "beta": 0.5, "sites_from": "features"}


class MapPicture(NamedTuple):
    """One random mosaic and one random volume."""

    seed: int


def scored(task: MapPicture) -> Record:
    """Adjusted Rand indices of one picture and one volume, by what they are of."""
    return of_mosaic(task.seed) | of_volume(task.seed)


def of_mosaic(seed: int) -> dict[str, float]:
    """Maps beside a mosaic and instead of it, against the connected parts of the truth."""
    rng = np.random.default_rng(seed)
    image, truth = random_mosaic(rng, SHAPE)
    parts = label(truth, connectivity=1)
    exact = find_boundaries(truth, mode="thick").astype(np.float32)
    noisy = np.clip(ndimage.gaussian_filter(exact, 1.0) + rng.normal(0, 0.15, SHAPE), 0, 1)
    few, many = (channels(truth, count, rng) for count in (3, 100))
    ways: dict[str, dict[str, Any]] = {
        "mosaic alone": {},
        "exact boundaries beside it": {"boundaries": exact},
        "the same, regions of any size": {"boundaries": exact, "min_region": 0},
        "noisy boundaries beside it": {"boundaries": noisy},
        "3 channels beside it": {"features": few},
        "100 channels beside it": {"features": many},
        "nothing but exact boundaries": {"boundaries": exact, **ONLY_BOUNDARIES},
        "nothing but noisy boundaries": {"boundaries": noisy, **ONLY_BOUNDARIES},
        "nothing but 3 channels": {"features": few, **ONLY_FEATURES},
        "nothing but 100 channels": {"features": many, **ONLY_FEATURES},
    }
    return {name: adjusted_rand(parts, segment(image, seed=0, **way).labels) for name, way in ways.items()}


def channels(truth: NDArray[Any], count: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """(count, \\*shape) channels in which every patch has a value of its own, and noise."""
    return rng.normal(size=(count, int(truth.max()) + 1))[:, truth] + rng.normal(0, 0.3, (count, *truth.shape))


def of_volume(seed: int) -> dict[str, float]:
    """Every fifth plane against all planes: patches with `general`, balls with `microscopy`."""
    rng = np.random.default_rng(seed)
    fields = np.stack([ndimage.gaussian_filter(rng.normal(size=(SIDE,) * 3), 6) for _ in range(4)])
    patches = np.argmax(fields / fields.std(axis=(1, 2, 3), keepdims=True), axis=0)
    centres = rng.uniform(6, SIDE - 6, (6, 3, 1, 1, 1))
    balls = (((np.indices((SIDE,) * 3) - centres) ** 2).sum(axis=1) < 30).any(axis=0)
    row = {}
    for name, truth in (("general", patches), ("microscopy", balls)):
        volume = truth * 2000.0 + rng.normal(0, 300, truth.shape)
        every, some = slice(None), slice(STEP // 2, None, STEP)
        fine = segment(volume[every], preset=name, axes="ZYX", seed=0).labels[some]
        for words, spacing in (("without", "auto"), ("with", (STEP, 1, 1))):
            coarse = segment(volume[some], preset=name, axes="ZYX", spacing=spacing, seed=0).labels
            row[f"every fifth plane, {name}, {words} spacing"] = adjusted_rand(fine, coarse)
        if name == "general":  # what falls apart between planes that are far apart
            parts = label(truth, connectivity=1, background=-1)[some]
            row["the parts of the truth in every fifth plane"] = adjusted_rand(
                parts, label(truth[some], connectivity=1, background=-1)
            )
    return row


def reproduce(plan: ExperimentPlan, job_options: JobOptions) -> JobRecords:
    """Score all pictures and write ``maps.json``, mean and least of each row; returns the rows."""
    count = plan.image_limit(QUICK_COUNT) or COUNT
    jobs = {f"picture {k}": MapPicture(FIRST + plan.seed + k) for k in range(count)}
    rows = run_jobs("maps", scored, jobs, {"seed": plan.seed}, job_options)
    content = {
        name: {"mean": float(np.mean(values)), "least": float(np.min(values)), "pictures": len(values)}
        for name in next(iter(rows.done.values()), {})
        if (values := [row[name] for row in rows.done.values()])
    }
    write_json(job_options.folder / "maps.json", {"seed": plan.seed, "rows": content})
    return rows
