"""Nuclei and membranes beside other methods, by cross-validation, and synthetic nuclei in volumes.

Every third image of nuclei is left out of one of the networks in ``OUT/networks`` (``fold0.npz`` and so on, of
:mod:`napari_gsw.research.training.networks`) and of one of the models in ``OUT/couplings``, which are learnt first if
they are missing. Membranes have a model in ``OUT/membranes`` for each group of neighbouring sections.

The synthetic volumes are ellipsoids of random sizes and positions with texture, blurred more in depth, in haze, as
counts of photons. No volume was used to choose settings.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage
from skimage.filters import threshold_otsu
from skimage.measure import label

from napari_gsw.batch.jobs import Record
from napari_gsw.core.array_types import Float64Array, Int32Array
from napari_gsw.core.pipeline.segment import segment
from napari_gsw.core.settings.presets import preset
from napari_gsw.methods import Choice, choose
from napari_gsw.research.baselines.watersheds import split_at_peaks
from napari_gsw.research.evaluation.data_sets import Example, spread
from napari_gsw.research.evaluation.evaluate import Evaluation, ScoringTask, choose_headings, score_example
from napari_gsw.research.paper.experiment import Study, available_methods, can_learn, choose_by_name, mean_and_least
from napari_gsw.research.training.membranes import fold_names
from napari_gsw.research.training.membranes import learn_all as learn_membranes
from napari_gsw.research.training.objects import learn_folds as learn_objects
from napari_gsw.scores.partitions import adjusted_rand

NUCLEI, MEMBRANES = "nuclei", "membranes"
QUICK_IMAGES = 2
FOLDS = 3
# The best of 33 settings on the twelve sections of the documentation.
DISTANCE = {"threshold": 0.9, "smoothing": 8.0}


def score(example: Example, choices: Mapping[str, Choice], seed: int) -> Record:
    """Score every method on an image."""
    return {name: score_example(ScoringTask(example, choice, seed)) for name, choice in choices.items()}


def reproduce(study: Study) -> None:
    """Score both data sets, as far as they are given, and write ``cells.json``."""
    if not study.nuclei and not study.membranes:
        print("napari-gsw: cells: nothing to look at without --nuclei or --membranes", file=sys.stderr)
    data = {}
    for data_set, examples, choose_methods in (
        (NUCLEI, study.nuclei, choose_for_nuclei),
        (MEMBRANES, study.membranes, choose_for_membranes),
    ):
        if examples:
            choices = dict(zip(examples, choose_methods(examples, study.folder, study.quick), strict=True))
            chosen = spread(examples, study.image_limit(QUICK_IMAGES))
            tasks = {e.name: (e, choices[e], study.seed) for e in chosen}
            depends_on = {"methods": [{k: c.to_dict() for k, c in choices[e].items()} for e in chosen]}
            records = study.run(f"cells-{data_set}", score, tasks, depends_on, chosen, prefix=f"{data_set}/")
            data[data_set] = summarize(chosen, choices[chosen[0]], records)
    study.write_json("cells", data=data)


def choose_for_nuclei(examples: Sequence[Example], folder: Path, quick: bool) -> list[dict[str, Choice]]:
    """Choose the methods for each example, with a network and couplings that have not seen it if possible."""
    networks = [folder / "networks" / f"fold{k}.npz" for k in range(FOLDS)]
    models = [folder / "couplings" / f"objects_fold{k}.json" for k in range(FOLDS)]
    learnt: list[dict[str, str]] = [{} for _ in examples]
    if not all(network.exists() for network in networks) or not can_learn(quick):
        print("napari-gsw: microscopy, as shipped, may have learnt from these very nuclei", file=sys.stderr)
    else:
        if not all(model.exists() for model in models):
            print("napari-gsw: learning couplings for three folds of the nuclei (minutes)", file=sys.stderr)
            learn_objects(str(examples[0].image.parents[1]), str(folder / "couplings"), str(folder / "networks"))
        learnt = [
            {"network": str(networks[k % FOLDS]), "boundary_model": str(models[k % FOLDS])}
            for k in range(len(examples))
        ]
    return [
        {
            "microscopy": choose_by_name("microscopy", changes),
            "microscopy, classical": choose_by_name("microscopy", {"objects": "classical"}),
            "network-watershed": choose(
                "network-watershed", changes={k: changes[k] for k in changes if k == "network"}
            ),
            "otsu-watershed": choose("otsu-watershed"),
        }
        for changes in learnt
    ]


def choose_for_membranes(examples: Sequence[Example], folder: Path, quick: bool) -> list[dict[str, Choice]]:
    """Choose the methods for each example, with couplings that have not seen it if possible."""
    learnt: list[dict[str, str]] = [{} for _ in examples]
    groups = fold_names(examples)
    if len(set(groups)) < 2 or not can_learn(quick):
        print("napari-gsw: membranes, as shipped, may have learnt from these very sections", file=sys.stderr)
    else:
        models = {group: folder / "membranes" / f"fold{k}.json" for k, group in enumerate(sorted(set(groups)))}
        if not all(model.exists() for model in models.values()):
            print("napari-gsw: learning couplings for the folds of the membranes (minutes)", file=sys.stderr)
            learn_membranes(examples, folder / "membranes")
        learnt = [{"boundary_model": str(models[group])} for group in groups]
    signed_graphs = available_methods(("multicut", "gasp", "mutex-watershed"))
    return [
        {
            "membranes": choose_by_name("membranes", changes),
            **{name: choose(name, "membranes", changes) for name in signed_graphs},
            "distance-watershed": choose("distance-watershed", changes=DISTANCE),
        }
        for changes in learnt
    ]


def summarize(
    examples: Sequence[Example], choices: Mapping[str, Choice], records: Mapping[str, Record]
) -> dict[str, Any]:
    """Compute for each method the means over all images, over every other one, and pooled over all objects."""
    methods = {}
    for name, choice in choices.items():
        headings = choose_headings(examples, choice)
        rows = [(image, record[name]) for image, record in records.items()]
        halves = {"all": rows, "even": rows[::2], "odd": rows[1::2]}
        evaluations = {half: Evaluation(choice.to_dict(), dict(part), {}, headings) for half, part in halves.items()}
        methods[name] = {half: {"mean": e.summary(), "pooled": e.pooled()} for half, e in evaluations.items() if e.rows}
    ours, choice = next(iter(choices.items()))
    held_out = choice.settings.boundary_model != preset(ours).boundary_model
    return {"pictures": len(records), "held_out": held_out, "methods": methods}


# ---- synthetic volumes

FIRST_SEED, COUNT, QUICK_COUNT = 1, 2, 1
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
    truth, light = draw_nuclei(scene, rng)
    texture, cloud = (ndimage.gaussian_filter(rng.normal(size=scene.shape), width) for width in ((1.2, 1.5, 1.5), 12))
    light *= np.clip(1 + scene.texture * texture / texture.std(), 0.2, None)
    haze = scene.haze * (1 + cloud / np.abs(cloud).max())
    light = ndimage.gaussian_filter(light, scene.blur) + BACKGROUND + haze
    counts = rng.poisson(light * scene.photons) / scene.photons + rng.normal(0, CAMERA_NOISE, scene.shape)
    return np.clip(counts, 0, np.iinfo(np.uint16).max).astype(np.uint16), truth


def draw_nuclei(scene: VolumeScene, rng: np.random.Generator) -> tuple[Int32Array, Float64Array]:
    """Draw labels and light of the nuclei, both (z, y, x)."""
    shape, unit = np.array(scene.shape), np.array((scene.depth, 1.0, 1.0))
    truth, light = np.zeros(scene.shape, np.int32), np.zeros(scene.shape)
    coordinates = np.indices(scene.shape).astype(np.float64)
    placed: list[tuple[Float64Array, float]] = []
    for _ in range(TRIES):
        if len(placed) == scene.number:
            break
        centre, radius = rng.uniform((2, 4, 4), shape - (2, 4, 4)), rng.uniform(*scene.radius, 3) / unit
        size, angle = float(radius[1:].mean()), rng.uniform(0, np.pi)
        if any(np.linalg.norm((centre - c) * unit) < scene.gap * (size + s) for c, s in placed):
            continue
        reach = 1.3 * radius.max() + 2
        low, high = np.maximum(centre - reach, 0).astype(int), np.minimum(centre + reach + 1, shape).astype(int)
        box = tuple(slice(a, b) for a, b in zip(low, high, strict=True))
        z, y, x = (values[box] - c for values, c in zip(coordinates, centre, strict=True))
        along, across = np.cos(angle) * y + np.sin(angle) * x, np.cos(angle) * x - np.sin(angle) * y
        mask = (z / radius[0]) ** 2 + (along / radius[1]) ** 2 + (across / radius[2]) ** 2 < 1
        mask &= truth[box] == 0
        if np.count_nonzero(mask) >= MIN_VOXELS:
            placed.append((centre, size))
            truth[box][mask] = len(placed)
            light[box][mask] = rng.uniform(*scene.intensity)
    return truth, light


def score_volume(scene: VolumeScene, seed: int) -> Record:
    """Compute the adjusted Rand index of `microscopy` and of the baselines on a volume."""
    volume, truth = draw_volume(scene, seed)
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
    count = study.image_limit(QUICK_COUNT) or COUNT
    tasks = {
        f"{name} {k}": (scene, FIRST_SEED + study.seed + k) for name, scene in SCENES.items() for k in range(count)
    }
    records = study.run("volumes", score_volume, tasks, {})
    scenes = {name: [row for job, row in records.items() if job.rpartition(" ")[0] == name] for name in SCENES}
    content = {
        name: {
            "volumes": len(rows),
            "methods": {method: mean_and_least([row[method] for row in rows]) for method in rows[0]},
        }
        for name, rows in {**scenes, "all": list(records.values())}.items()
        if rows
    }
    study.write_json("volumes", rows=content)
