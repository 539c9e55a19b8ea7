"""Made-up nuclei in volumes: what `microscopy` makes of them, beside Otsu's threshold and a watershed of the distance.

Ellipsoids of random sizes and places, with texture, seen through a Gaussian that is wider in depth, in haze, as counts
of photons. No volume was looked at when settings were chosen.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage
from skimage.feature import peak_local_max
from skimage.filters import threshold_otsu
from skimage.measure import label
from skimage.segmentation import watershed

from napari_gsw.batch.jobs import JobOptions, JobRecords, Record, run_jobs
from napari_gsw.core.array_types import Float64Array, Int32Array
from napari_gsw.core.pipeline.segment import segment
from napari_gsw.files.results import write_json
from napari_gsw.research.paper.pictures import ExperimentPlan
from napari_gsw.scores.partitions import adjusted_rand

FIRST, COUNT, QUICK_COUNT = 1, 2, 1
# Voxels that a nucleus has at least, and how often a place for the next is looked for.
LEAST_VOXELS, TRIES = 60, 5000
# Light that is everywhere, and the standard deviation of what the camera adds.
DARK, CAMERA = 10.0, 2.0
# Of the rivals: width of the blur before the threshold, and voxels between the middles of two objects, at least.
SMOOTH, APART = 1.0, 4


class Scene(NamedTuple):
    """What a volume is of.

    Attributes
    ----------
    shape : (z, y, x).
    radius, light : least and most of a nucleus.
    number, gap : how many, and how near they may be, in units of their radii.
    blur : widths of the Gaussian along the axes. haze : light of what is out of focus, about.
    photons : for a unit of light. texture : how much light varies in a nucleus.
    depth : distance of two planes in units of that of two pixels.
    """

    shape: tuple[int, int, int] = (40, 128, 128)
    radius: tuple[float, float] = (6.0, 9.0)
    light: tuple[float, float] = (60.0, 140.0)
    number: int = 60
    gap: float = 0.9
    blur: tuple[float, float, float] = (1.6, 0.9, 0.9)
    haze: float = 20.0
    photons: float = 1.0
    texture: float = 0.25
    depth: float = 1.0


PLAIN = Scene()
SCENES: Mapping[str, Scene] = {
    "plain": PLAIN,
    "crowded": PLAIN._replace(number=110, gap=0.8),
    "dim": PLAIN._replace(light=(20.0, 50.0), photons=0.6),
    "in haze": PLAIN._replace(haze=60.0),
    "small": PLAIN._replace(radius=(4.0, 6.0), number=120),
    "large": PLAIN._replace(radius=(9.0, 14.0), number=25),
    "of uneven light": PLAIN._replace(light=(20.0, 160.0)),
    "in coarse planes": PLAIN._replace(shape=(16, 128, 128), depth=2.5, blur=(0.7, 0.9, 0.9)),
    "with texture": PLAIN._replace(texture=0.5),
    "of few photons": PLAIN._replace(photons=0.15),
    "few": PLAIN._replace(number=15),
    "in a thin volume": PLAIN._replace(shape=(12, 160, 160), number=40),
}


class MadeUpVolume(NamedTuple):
    """One volume of a scene."""

    scene: Scene
    seed: int


def drawn(scene: Scene, seed: int) -> tuple[NDArray[np.uint16], Int32Array]:
    """A volume and its nuclei, 1, 2, ... and 0 for the background, both (z, y, x)."""
    rng = np.random.default_rng(seed)
    truth, light = nuclei(scene, rng)
    texture, cloud = (ndimage.gaussian_filter(rng.normal(size=scene.shape), width) for width in ((1.2, 1.5, 1.5), 12))
    light *= np.clip(1 + scene.texture * texture / texture.std(), 0.2, None)
    light = ndimage.gaussian_filter(light, scene.blur) + DARK + scene.haze * (1 + cloud / np.abs(cloud).max())
    counted = rng.poisson(light * scene.photons) / scene.photons + rng.normal(0, CAMERA, scene.shape)
    return np.clip(counted, 0, np.iinfo(np.uint16).max).astype(np.uint16), truth


def nuclei(scene: Scene, rng: np.random.Generator) -> tuple[Int32Array, Float64Array]:
    """Numbers of the nuclei and the light of each, (z, y, x) both."""
    shape, unit = np.array(scene.shape), np.array((scene.depth, 1.0, 1.0))
    truth, light = np.zeros(scene.shape, np.int32), np.zeros(scene.shape)
    places = np.indices(scene.shape).astype(np.float64)
    there: list[tuple[Float64Array, float]] = []
    for _ in range(TRIES):
        if len(there) == scene.number:
            break
        centre, radius = rng.uniform((2, 4, 4), shape - (2, 4, 4)), rng.uniform(*scene.radius, 3) / unit
        size, turn = float(radius[1:].mean()), rng.uniform(0, np.pi)
        if any(np.linalg.norm((centre - other) * unit) < scene.gap * (size + its) for other, its in there):
            continue
        reach = 1.3 * radius.max() + 2
        low, high = np.maximum(centre - reach, 0).astype(int), np.minimum(centre + reach + 1, shape).astype(int)
        box = tuple(slice(a, b) for a, b in zip(low, high, strict=True))
        z, y, x = (place[box] - middle for place, middle in zip(places, centre, strict=True))
        along, across = np.cos(turn) * y + np.sin(turn) * x, np.cos(turn) * x - np.sin(turn) * y
        inside = (z / radius[0]) ** 2 + (along / radius[1]) ** 2 + (across / radius[2]) ** 2 < 1
        inside &= truth[box] == 0
        if np.count_nonzero(inside) >= LEAST_VOXELS:
            there.append((centre, size))
            truth[box][inside] = len(there)
            light[box][inside] = rng.uniform(*scene.light)
    return truth, light


def scored(task: MadeUpVolume) -> Record:
    """Adjusted Rand index of `microscopy` and of the rivals on one volume."""
    volume, truth = drawn(*task)
    spacing: Any = "auto" if task.scene.depth == 1 else (task.scene.depth, 1, 1)
    ours = segment(volume, preset="microscopy", axes="ZYX", spacing=spacing, seed=0).labels
    smooth = ndimage.gaussian_filter(volume.astype(np.float64), SMOOTH)
    bright = smooth > threshold_otsu(smooth)
    parts = label(bright, connectivity=1)
    distance = ndimage.distance_transform_edt(bright)
    middles = peak_local_max(ndimage.gaussian_filter(distance, SMOOTH), min_distance=APART, labels=parts)
    markers = np.zeros(parts.shape, np.int32)
    markers[tuple(middles.T)] = np.arange(1, len(middles) + 1)
    cut = watershed(-distance, markers, mask=bright)
    labels = {"microscopy": ours, "otsu": parts, "otsu-watershed": cut}
    return {name: adjusted_rand(one, truth) for name, one in labels.items()}


def reproduce(plan: ExperimentPlan, job_options: JobOptions) -> JobRecords:
    """Score all volumes and write ``volumes.json``, mean and least of each kind and of all; returns the rows."""
    count = plan.image_limit(QUICK_COUNT) or COUNT
    jobs = {
        f"{name} {k}": MadeUpVolume(scene, FIRST + plan.seed + k)
        for name, scene in SCENES.items()
        for k in range(count)
    }
    rows = run_jobs("volumes", scored, jobs, {"seed": plan.seed}, job_options)
    kinds = {name: [row for job, row in rows.done.items() if job.rpartition(" ")[0] == name] for name in SCENES}
    content = {name: summarised(of) for name, of in {**kinds, "all": list(rows.done.values())}.items() if of}
    write_json(job_options.folder / "volumes.json", {"seed": plan.seed, "rows": content})
    return rows


def summarised(rows: list[Record]) -> dict[str, Any]:
    """Mean and least of each method, and the number of volumes."""
    values = {name: [row[name] for row in rows] for name in rows[0]}
    methods = {name: {"mean": float(np.mean(of)), "least": float(np.min(of))} for name, of in values.items()}
    return {"volumes": len(rows), "methods": methods}
