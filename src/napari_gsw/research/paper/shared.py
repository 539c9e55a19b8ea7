"""Several images that share their clusters: how often paint in some of them is understood in all, by the chain's moves.

Scenes are made on the spot: a few images of two colours, and slices of a volume, linked and not. Each label is painted
once, where most of it is; slices that are linked a second time in each part of a label by itself, since linked slices
are one picture, in which a part that has no paint of its own goes to the paint around it. A run is right if nearly all
pixels of all images get the label that was painted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from napari_gsw.batch.jobs import JobOptions, JobRecords, Record, run_jobs
from napari_gsw.core.array_types import Int32Array
from napari_gsw.core.pipeline.segment import segment
from napari_gsw.core.settings.presets import preset, with_shared_moves
from napari_gsw.files.results import write_json
from napari_gsw.research.paper.pictures import ExperimentPlan
from napari_gsw.sample_data import mosaic_3d

# Pixels that must be right, as a share, and pixels around the middle of a dab of paint.
RIGHT, DAB = 0.97, 2
SEEDS, QUICK_SEEDS = 6, 1
SHAPE, NOISE = (60, 80), 12.0
# Pixels of a part of a label that is worth a dab.
SMALLEST_PART = 1000
# Slices in the middle of a volume, next to one another: links are between neighbours.
SLICES = np.s_[6:18]
SHARED = with_shared_moves(preset("general"))
# Moves of the chain by what they are called, where they are others than those of the preset.
MOVES: Mapping[str, dict[str, Any]] = {
    "as the preset has them": {},
    "`regroups=1`, `hot=4`, as for several images": SHARED,
    "`splits=2`": {"splits": 2},
    "all three": {**SHARED, "splits": 2},
}


class Scene(NamedTuple):
    """Images, labels of their pixels from 1, whether slices are linked, and whether all parts of labels are painted."""

    images: list[NDArray[Any]]
    truth: list[Int32Array]
    linked: bool = False
    parts: bool = False


def two_colours(rng: np.random.Generator, colours: NDArray[np.integer]) -> Scene:
    """Three images: one of the first colour, one of the second, one with both side by side."""
    rows = [np.ones(SHAPE, np.int32), np.full(SHAPE, 2, np.int32), np.where(np.arange(SHAPE[1]) < SHAPE[1] // 2, 1, 2)]
    truth = [np.broadcast_to(row, SHAPE).astype(np.int32) for row in rows]
    noisy = [colours[labels - 1] + rng.normal(0, NOISE, (*SHAPE, colours.shape[1])) for labels in truth]
    return Scene([np.clip(image.squeeze(), 0, 255).astype(np.uint8) for image in noisy], truth)


def slices(linked: bool, parts: bool = False) -> Scene:
    """Slices of the sample volume."""
    volume, truth = mosaic_3d()
    assert truth is not None
    return Scene(list(volume[SLICES]), [labels.astype(np.int32) for labels in truth[SLICES]], linked, parts)


SCENES: Mapping[str, Callable[[np.random.Generator], Scene]] = {
    "two greys": lambda rng: two_colours(rng, np.array([[90], [160]])),
    "two colours": lambda rng: two_colours(rng, np.array([[170, 90, 80], [80, 120, 170]])),
    "slices": lambda rng: slices(False),
    "slices, linked": lambda rng: slices(True),
    "slices, linked, each part painted": lambda rng: slices(True, parts=True),
}


class SharedTask(NamedTuple):
    """One run: a scene, moves, and a seed."""

    scene: str
    moves: dict[str, Any]
    seed: int


def painted(truth: list[Int32Array]) -> list[Int32Array]:
    """Of each label a dab in the image that has most of it, as deep inside as can be; 0 elsewhere."""
    paint = [np.zeros_like(labels) for labels in truth]
    labels_of_all = np.unique(np.concatenate([labels.ravel() for labels in truth]))
    for label in labels_of_all[labels_of_all > 0]:
        image = int(np.argmax([np.count_nonzero(labels == label) for labels in truth]))
        inside = truth[image] == label
        depth = ndimage.distance_transform_edt(np.pad(inside, 1))[1:-1, 1:-1]
        y, x = np.unravel_index(int(depth.argmax()), inside.shape)
        dab = np.s_[max(0, y - DAB) : y + DAB + 1, max(0, x - DAB) : x + DAB + 1]
        paint[image][dab] = np.where(inside[dab], label, 0)
    return paint


def painted_parts(truth: list[Int32Array]) -> list[Int32Array]:
    """As :func:`painted`, a dab in each part of a label that hangs together through the images, if it is large."""
    stack = np.stack(truth)
    parts, names = np.zeros_like(stack), [0]
    for label in np.unique(stack).tolist():
        pieces, count = ndimage.label(stack == label)
        sizes = np.bincount(pieces.ravel(), minlength=count + 1)
        for piece in np.flatnonzero(sizes[1:] >= SMALLEST_PART) + 1:
            parts[pieces == piece] = len(names)
            names.append(label)
    return [np.array(names, np.int32)[paint] for paint in painted(list(parts))]


def understood(task: SharedTask) -> Record:
    """The share of pixels that are right in one run."""
    scene = SCENES[task.scene](np.random.default_rng(task.seed))
    settings = preset("general", view="clusters", **task.moves)
    paint = painted_parts(scene.truth) if scene.parts else painted(scene.truth)
    result = segment(scene.images, settings, seeds=paint, linked=scene.linked, seed=task.seed)
    right = [np.count_nonzero(labels == truth) for labels, truth in zip(result.labels, scene.truth, strict=True)]
    return {"right": sum(right) / sum(truth.size for truth in scene.truth)}


def reproduce(plan: ExperimentPlan, job_options: JobOptions) -> JobRecords:
    """Run all and write ``shared.json``: by moves and scene how many runs were right, of how many; returns the rows."""
    seeds = range(plan.seed, plan.seed + (QUICK_SEEDS if plan.quick else SEEDS))
    jobs = {
        f"{name}: {scene} {seed}": SharedTask(scene, moves, seed)
        for name, moves in MOVES.items()
        for scene in SCENES
        for seed in seeds
    }
    rows = run_jobs("shared", understood, jobs, {"seed": plan.seed}, job_options)
    content: dict[str, dict[str, Any]] = {name: {} for name in MOVES}
    for name in MOVES:
        for scene in SCENES:
            done = [rows.done.get(f"{name}: {scene} {seed}") for seed in seeds]
            shares = [row["right"] for row in done if row is not None]
            right = sum(share >= RIGHT for share in shares)
            content[name][scene] = {"runs": len(shares), "right": right, "pixels": float(np.mean(shares or [np.nan]))}
    write_json(job_options.folder / "shared.json", {"seed": plan.seed, "share": RIGHT, "moves": content})
    return rows
