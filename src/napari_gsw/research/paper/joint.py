"""Joint segmentation of several images, and the states of one run.

``shared``: how often scribbles in some images are understood in all of them. Scenes are a few synthetic images of two
colours, and slices of a volume, linked or not. Each label is painted once, where most of it is. Linked slices are one
image, in which a part without a scribble joins the scribbles around it, so they are also run with each part painted. A
run is right if nearly all pixels of all images get the painted label.

``shown``: the reported segmentation is not the state whose log posterior is traced. The states of one run are compared.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from napari_gsw.batch.jobs import Record
from napari_gsw.core.array_types import Int32Array
from napari_gsw.core.model.problem import log_posterior
from napari_gsw.core.pipeline.segment import segment
from napari_gsw.core.posterior.consensus import partition_distance
from napari_gsw.core.posterior.uncertainty import count_site_pixels
from napari_gsw.core.settings.presets import preset, with_shared_moves
from napari_gsw.research.paper.experiment import Study
from napari_gsw.sample_data import astronaut, mosaic_3d

# Fraction of pixels that must be right, and half the side of a scribble.
MIN_RIGHT, SCRIBBLE_RADIUS = 0.97, 2
SEEDS, QUICK_SEEDS = 6, 1
SHAPE, NOISE = (60, 80), 12.0
# Pixels of a part of a label that gets a scribble.
MIN_PART_PIXELS = 1000
# Slices in the middle of a volume, since links are between neighbours.
SLICES = np.s_[6:18]
SHARED = with_shared_moves(preset("general"))
# Moves of the sampler by their names in the table.
MOVES: Mapping[str, dict[str, Any]] = {
    "as the preset has them": {},
    "`regroups=1`, `hot=4`, as for several images": SHARED,
    "`splits=2`": {"splits": 2},
    "all three": {**SHARED, "splits": 2},
}
SHOWN_PRESETS, SHOWN_QUICK_SWEEPS = ("general", "photo"), 20


class Scene(NamedTuple):
    """Images, labels of their pixels from 1, whether slices are linked, and whether each part of a label is painted."""

    images: list[NDArray[Any]]
    truth: list[Int32Array]
    linked: bool = False
    paints_parts: bool = False


def make_two_colours(rng: np.random.Generator, colours: NDArray[np.integer]) -> Scene:
    """Make three images: one of the first colour, one of the second, one with both side by side."""
    rows = [np.ones(SHAPE, np.int32), np.full(SHAPE, 2, np.int32), np.where(np.arange(SHAPE[1]) < SHAPE[1] // 2, 1, 2)]
    truth = [np.broadcast_to(row, SHAPE).astype(np.int32) for row in rows]
    noisy = [colours[labels - 1] + rng.normal(0, NOISE, (*SHAPE, colours.shape[1])) for labels in truth]
    return Scene([np.clip(image.squeeze(), 0, 255).astype(np.uint8) for image in noisy], truth)


def make_slices(linked: bool, paints_parts: bool = False) -> Scene:
    """Make slices of the sample volume."""
    volume, truth = mosaic_3d()
    assert truth is not None
    return Scene(list(volume[SLICES]), [labels.astype(np.int32) for labels in truth[SLICES]], linked, paints_parts)


SCENES: Mapping[str, Callable[[np.random.Generator], Scene]] = {
    "two greys": lambda rng: make_two_colours(rng, np.array([[90], [160]])),
    "two colours": lambda rng: make_two_colours(rng, np.array([[170, 90, 80], [80, 120, 170]])),
    "slices": lambda rng: make_slices(False),
    "slices, linked": lambda rng: make_slices(True),
    "slices, linked, each part painted": lambda rng: make_slices(True, paints_parts=True),
}


def paint_labels(truth: list[Int32Array]) -> list[Int32Array]:
    """Paint each label once, in the image that has most of it, as deep inside as possible."""
    scribbles = [np.zeros_like(labels) for labels in truth]
    all_labels = np.unique(np.concatenate([labels.ravel() for labels in truth]))
    for label in all_labels[all_labels > 0]:
        image = int(np.argmax([np.count_nonzero(labels == label) for labels in truth]))
        mask = truth[image] == label
        depth = ndimage.distance_transform_edt(np.pad(mask, 1))[1:-1, 1:-1]
        y, x = np.unravel_index(int(depth.argmax()), mask.shape)
        r = SCRIBBLE_RADIUS
        square = np.s_[max(0, y - r) : y + r + 1, max(0, x - r) : x + r + 1]
        scribbles[image][square] = np.where(mask[square], label, 0)
    return scribbles


def paint_parts(truth: list[Int32Array]) -> list[Int32Array]:
    """Paint each large connected part of a label through the images once."""
    stack = np.stack(truth)
    parts, labels_of_parts = np.zeros_like(stack), [0]
    for label in np.unique(stack).tolist():
        pieces, count = ndimage.label(stack == label)
        sizes = np.bincount(pieces.ravel(), minlength=count + 1)
        for piece in np.flatnonzero(sizes[1:] >= MIN_PART_PIXELS) + 1:
            parts[pieces == piece] = len(labels_of_parts)
            labels_of_parts.append(label)
    return [np.array(labels_of_parts, np.int32)[scribbles] for scribbles in paint_labels(list(parts))]


def score_joint(scene_name: str, moves: dict[str, Any], seed: int) -> Record:
    """Compute the fraction of pixels that are right in one run."""
    scene = SCENES[scene_name](np.random.default_rng(seed))
    settings = preset("general", view="clusters", **moves)
    scribbles = paint_parts(scene.truth) if scene.paints_parts else paint_labels(scene.truth)
    result = segment(scene.images, settings, seeds=scribbles, linked=scene.linked, seed=seed)
    right = [np.count_nonzero(labels == truth) for labels, truth in zip(result.labels, scene.truth, strict=True)]
    return {"right": sum(right) / sum(truth.size for truth in scene.truth)}


def reproduce_shared(study: Study) -> None:
    """Run all scenes, and write ``shared.json``: the number of right runs by moves and scene."""
    seeds = range(study.seed, study.seed + (QUICK_SEEDS if study.quick else SEEDS))
    tasks = {
        f"{name}: {scene} {seed}": (scene, moves, seed)
        for name, moves in MOVES.items()
        for scene in SCENES
        for seed in seeds
    }
    records = study.run("shared", score_joint, tasks, {})
    content: dict[str, dict[str, Any]] = {name: {} for name in MOVES}
    for name in MOVES:
        for scene in SCENES:
            keys = [f"{name}: {scene} {seed}" for seed in seeds]
            right = [records[key]["right"] for key in keys if key in records]
            n_right = sum(share >= MIN_RIGHT for share in right)
            pixels = float(np.mean(right or [np.nan]))
            content[name][scene] = {"runs": len(right), "right": n_right, "pixels": pixels}
    study.write_json("shared", share=MIN_RIGHT, moves=content)


def compare_states(preset_name: str, sweeps: int, seed: int) -> Record:
    """Compute log posterior and clusters of the best state, the last, those after burn-in, consensus and regions."""
    result = segment(astronaut()[0], preset=preset_name, seed=seed, sweeps=sweeps)
    snapshot, (trace,), problem = result.snapshot, result.traces, result.problem
    burn_in = int(snapshot.state["burn_in"])
    late, k = trace.log_posterior[burn_in:], trace.n_clusters[burn_in:]
    partitions: dict[str, NDArray[np.integer]] = {
        "best": snapshot.best.labels, "last": snapshot.labels, "consensus": result.clusters, "regions": result.regions,
    }  # fmt: skip
    return {
        "sites": problem.n,
        "couplings": {
            "least": float(problem.beta.min()),
            "most": float(problem.beta.max()),
            "repel": float(np.mean(problem.beta < 0)),
        },
        "best_sweep": snapshot.best.sweep,
        "burn_in": burn_in,
        "late": {"mean": float(late.mean()), "deviation": float(late.std()), "clusters": [int(k.min()), int(k.max())]},
        "bits": partition_distance(snapshot.best.labels, result.clusters, "vi", count_site_pixels(problem)),
        **{
            name: {"log_posterior": log_posterior(problem, labels), "clusters": len(np.unique(labels))}
            for name, labels in partitions.items()
        },
    }


def reproduce_shown(study: Study) -> None:
    """Run each preset, and write ``shown.json``."""
    sweeps = {name: SHOWN_QUICK_SWEEPS if study.quick else preset(name).sweeps for name in SHOWN_PRESETS}
    tasks = {name: (name, count, study.seed) for name, count in sweeps.items()}
    study.write_json("shown", presets=study.run("shown", compare_states, tasks, {"sweeps": sweeps}))
