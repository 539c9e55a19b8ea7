"""Maps beside an image, and stacks of coarse z-slices.

Synthetic maps of random mosaics, exact and noisy, are given beside the image and instead of it; labels are compared
with the connected components of the truth. Of random volumes every fifth slice is segmented, with and without the
spacing of the slices, and compared with the segmentation of all slices.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage
from skimage.measure import label
from skimage.segmentation import find_boundaries

from napari_gsw.batch.jobs import Record
from napari_gsw.core.pipeline.segment import segment
from napari_gsw.research.paper.experiment import Study, mean_and_least
from napari_gsw.sample_data import random_mosaic
from napari_gsw.scores.partitions import adjusted_rand

# Number of images and volumes, and the first seed; those before it were used to choose weights.
COUNT, QUICK_COUNT, FIRST_SEED = 8, 1, 1000
# Mosaics and volumes in pixels, and the step between slices.
SHAPE, SIDE, STEP = (160, 200), 40, 5
# A map and nothing else; boundaries alone do not prefer any size.
NO_IMAGE: Mapping[str, Any] = {"likelihood": "none", "texture_words": 0}
ONLY_BOUNDARIES: Mapping[str, Any] = {**NO_IMAGE, "coupling": "boundaries", "prior": "potts"}
ONLY_FEATURES: Mapping[str, Any] = {**NO_IMAGE, "coupling": "constant", "beta": 0.5, "sites_from": "features"}


def score_mosaic(seed: int) -> Record:
    """Score maps beside a mosaic and instead of it, against the connected components of the truth."""
    rng = np.random.default_rng(seed)
    image, truth = random_mosaic(rng, SHAPE)
    parts = label(truth, connectivity=1)
    exact = find_boundaries(truth, mode="thick").astype(np.float32)
    noisy = np.clip(ndimage.gaussian_filter(exact, 1.0) + rng.normal(0, 0.15, SHAPE), 0, 1)
    few, many = (make_channels(truth, count, rng) for count in (3, 100))
    cases: dict[str, dict[str, Any]] = {
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
    return {name: adjusted_rand(parts, segment(image, seed=0, **case).labels) for name, case in cases.items()}


def make_channels(truth: NDArray[Any], count: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """Make (count, \\*shape) channels with a value for each patch, and noise."""
    return rng.normal(size=(count, int(truth.max()) + 1))[:, truth] + rng.normal(0, 0.3, (count, *truth.shape))


def score_volume(seed: int) -> Record:
    """Score every fifth slice against all slices: patches with `general`, balls with `microscopy`."""
    rng = np.random.default_rng(seed)
    fields = np.stack([ndimage.gaussian_filter(rng.normal(size=(SIDE,) * 3), 6) for _ in range(4)])
    patches = np.argmax(fields / fields.std(axis=(1, 2, 3), keepdims=True), axis=0)
    centres = rng.uniform(6, SIDE - 6, (6, 3, 1, 1, 1))
    balls = (((np.indices((SIDE,) * 3) - centres) ** 2).sum(axis=1) < 30).any(axis=0)
    coarse = slice(STEP // 2, None, STEP)
    record = {}
    for name, truth in (("general", patches), ("microscopy", balls)):
        volume = truth * 2000.0 + rng.normal(0, 300, truth.shape)
        reference = segment(volume, preset=name, axes="ZYX", seed=0).labels[coarse]
        for case, spacing in (("without", "auto"), ("with", (STEP, 1, 1))):
            labels = segment(volume[coarse], preset=name, axes="ZYX", spacing=spacing, seed=0).labels
            record[f"every fifth plane, {name}, {case} spacing"] = adjusted_rand(reference, labels)
        if name == "general":  # what is separated because the slices are far apart
            parts = label(truth, connectivity=1, background=-1)[coarse]
            coarse_parts = label(truth[coarse], connectivity=1, background=-1)
            record["the parts of the truth in every fifth plane"] = adjusted_rand(parts, coarse_parts)
    return record


def score(seed: int) -> Record:
    """Score a random mosaic and a random volume."""
    return score_mosaic(seed) | score_volume(seed)


def reproduce(study: Study) -> None:
    """Score all images, and write ``maps.json``: mean and minimum of each case."""
    count = study.image_limit(QUICK_COUNT) or COUNT
    tasks = {f"picture {k}": (FIRST_SEED + study.seed + k,) for k in range(count)}
    records = list(study.run("maps", score, tasks, {}).values())
    rows = {
        name: mean_and_least([record[name] for record in records]) | {"pictures": len(records)}
        for name in (records[0] if records else ())
    }
    study.write_json("maps", rows=rows)
