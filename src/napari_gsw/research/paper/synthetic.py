"""Images that are drawn on the spot: maps beside an image, stacks of coarse z-slices, and nuclei in volumes.

Maps of random mosaics are given beside the image and instead of it. Of random volumes every fifth slice is segmented
and compared with the segmentation of all slices. Nuclei are ellipsoids with texture, blurred more in depth, in haze, as
counts of photons; none of them was used to choose settings.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage
from skimage.filters import threshold_otsu
from skimage.measure import label
from skimage.segmentation import find_boundaries

from napari_gsw.batch.jobs import Record
from napari_gsw.core.array_types import Float64Array, Int32Array
from napari_gsw.core.pipeline.segment import segment
from napari_gsw.research.baselines.watersheds import split_at_peaks
from napari_gsw.research.paper.experiment import Study
from napari_gsw.sample_data import random_mosaic
from napari_gsw.scores.partitions import adjusted_rand


def summarize_scores(records: Sequence[Record]) -> dict[str, dict[str, float]]:
    """Compute mean and minimum of each score."""
    columns = {name: [record[name] for record in records] for name in records[0]}
    return {name: {"mean": float(np.mean(column)), "least": min(column)} for name, column in columns.items()}


# ---- maps

# Number of images and volumes, and the first seed; those before it were used to choose weights.
MAPS, QUICK_MAPS, FIRST_SEED = 8, 1, 1000
# Mosaics and volumes in pixels, and the step between slices.
SHAPE, SIDE, STEP = (160, 200), 40, 5
# A map and nothing else; boundaries alone do not prefer any size.
NO_IMAGE: Mapping[str, Any] = {"likelihood": "none", "texture_words": 0}
ONLY_BOUNDARIES: Mapping[str, Any] = {**NO_IMAGE, "coupling": "boundaries", "prior": "potts"}
ONLY_FEATURES: Mapping[str, Any] = {**NO_IMAGE, "coupling": "constant", "beta": 0.5, "sites_from": "features"}


def score_maps(number: int, seed: int) -> Record:
    """Score maps beside a random mosaic and instead of it, against its connected parts, and slices of a volume."""
    seed += FIRST_SEED + number
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
    scores = {name: adjusted_rand(parts, segment(image, seed=0, **case).labels) for name, case in cases.items()}
    return scores | score_slices(seed)


def make_channels(truth: NDArray[Any], count: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """Make (count, \\*shape) channels with a value for each patch, and noise."""
    return rng.normal(size=(count, int(truth.max()) + 1))[:, truth] + rng.normal(0, 0.3, (count, *truth.shape))


def score_slices(seed: int) -> Record:
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


def reproduce_maps(study: Study) -> None:
    """Score all images, and write ``maps.json``: mean and minimum of each case."""
    cases = {f"picture {k}": (k,) for k in range(study.count(MAPS, QUICK_MAPS) or 0)}
    records = list(study.run("maps", score_maps, cases).values())
    rows = summarize_scores(records) if records else {}
    study.write("maps", {"rows": {name: row | {"pictures": len(records)} for name, row in rows.items()}})


# ---- nuclei in volumes

FIRST_VOLUME, VOLUMES, QUICK_VOLUMES = 1, 2, 1
# Minimum voxels of a nucleus, and the number of positions that are tried.
MIN_VOXELS, TRIES = 60, 5000
# Background light, and the standard deviation of the camera noise.
BACKGROUND, CAMERA_NOISE = 10.0, 2.0
# Of the baselines: width of the blur before the threshold, and minimum distance of two objects, in voxels.
BLUR, MIN_DISTANCE = 1.0, 4


class VolumeScene(NamedTuple):
    """Parameters of a volume."""

    shape: tuple[int, int, int] = (40, 128, 128)
    radius: tuple[float, float] = (6.0, 9.0)
    intensity: tuple[float, float] = (60.0, 140.0)
    number: int = 60
    gap: float = 0.9  # minimum distance, in units of the radii
    blur: tuple[float, float, float] = (1.6, 0.9, 0.9)
    haze: float = 20.0  # mean light that is out of focus
    photons: float = 1.0  # per unit of light
    texture: float = 0.25  # variation of the light within a nucleus
    depth: float = 1.0  # distance of two slices in pixels


SCENES: Mapping[str, VolumeScene] = {
    "plain": VolumeScene(),
    "crowded": VolumeScene(number=110, gap=0.8),
    "dim": VolumeScene(intensity=(20.0, 50.0), photons=0.6),
    "in haze": VolumeScene(haze=60.0),
    "small": VolumeScene(radius=(4.0, 6.0), number=120),
    "large": VolumeScene(radius=(9.0, 14.0), number=25),
    "of uneven light": VolumeScene(intensity=(20.0, 160.0)),
    "in coarse planes": VolumeScene(shape=(16, 128, 128), depth=2.5, blur=(0.7, 0.9, 0.9)),
    "with texture": VolumeScene(texture=0.5),
    "of few photons": VolumeScene(photons=0.15),
    "few": VolumeScene(number=15),
    "in a thin volume": VolumeScene(shape=(12, 160, 160), number=40),
}


def draw_volume(scene: VolumeScene, seed: int) -> tuple[NDArray[np.uint16], Int32Array]:
    """Draw a volume (z, y, x) and its nuclei, 1, 2, ... and 0 for the background."""
    rng = np.random.default_rng(seed)
    shape, unit = np.array(scene.shape), np.array((scene.depth, 1.0, 1.0))
    truth, light = np.zeros(scene.shape, np.int32), np.zeros(scene.shape)
    coordinates = np.ogrid[tuple(slice(side) for side in scene.shape)]
    placed: list[tuple[Float64Array, float]] = []
    for _ in range(TRIES):
        centre, radius = rng.uniform((2, 4, 4), shape - (2, 4, 4)), rng.uniform(*scene.radius, 3) / unit
        size, angle = float(radius[1:].mean()), rng.uniform(0, np.pi)
        if any(np.linalg.norm((centre - c) * unit) < scene.gap * (size + s) for c, s in placed):
            continue
        z, y, x = (values - c for values, c in zip(coordinates, centre, strict=True))
        along, across = np.cos(angle) * y + np.sin(angle) * x, np.cos(angle) * x - np.sin(angle) * y
        mask = (z / radius[0]) ** 2 + (along / radius[1]) ** 2 + (across / radius[2]) ** 2 < 1
        mask &= truth == 0
        if np.count_nonzero(mask) >= MIN_VOXELS:
            placed.append((centre, size))
            truth[mask] = len(placed)
            light[mask] = rng.uniform(*scene.intensity)
            if len(placed) == scene.number:
                break
    texture, cloud = (ndimage.gaussian_filter(rng.normal(size=scene.shape), width) for width in ((1.2, 1.5, 1.5), 12))
    light *= np.clip(1 + scene.texture * texture / texture.std(), 0.2, None)
    haze = scene.haze * (1 + cloud / np.abs(cloud).max())
    light = ndimage.gaussian_filter(light, scene.blur) + BACKGROUND + haze
    counts = rng.poisson(light * scene.photons) / scene.photons + rng.normal(0, CAMERA_NOISE, scene.shape)
    return np.clip(counts, 0, np.iinfo(np.uint16).max).astype(np.uint16), truth


def score_volume(scene: VolumeScene, number: int, seed: int) -> Record:
    """Compute the adjusted Rand index of `microscopy` and of the baselines on a volume."""
    volume, truth = draw_volume(scene, FIRST_VOLUME + seed + number)
    spacing: Any = "auto" if scene.depth == 1 else (scene.depth, 1, 1)
    ours = segment(volume, preset="microscopy", axes="ZYX", spacing=spacing, seed=0).labels
    smooth = ndimage.gaussian_filter(volume.astype(np.float64), BLUR)
    bright = smooth > threshold_otsu(smooth)
    components = label(bright, connectivity=1)
    distance = ndimage.distance_transform_edt(bright)
    split = split_at_peaks(distance, bright, components, MIN_DISTANCE, ndimage.gaussian_filter(distance, BLUR))
    labels = {"microscopy": ours, "otsu": components, "otsu-watershed": split}
    return {name: adjusted_rand(found, truth) for name, found in labels.items()}


def reproduce_volumes(study: Study) -> None:
    """Score all volumes, and write ``volumes.json``: mean and minimum of each scene and of all."""
    numbers = range(study.count(VOLUMES, QUICK_VOLUMES) or 0)
    cases = {f"{name} {k}": (scene, k) for name, scene in SCENES.items() for k in numbers}
    records = study.run("volumes", score_volume, cases)
    scenes = {name: [row for case, row in records.items() if case.rpartition(" ")[0] == name] for name in SCENES}
    content = {
        name: {"volumes": len(rows), "methods": summarize_scores(rows)}
        for name, rows in {**scenes, "all": list(records.values())}.items()
        if rows
    }
    study.write("volumes", {"rows": content})
