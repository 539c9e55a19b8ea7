"""Joint segmentation of several images, and the states of one run.

``shared``: how often scribbles in some images are understood in all of them. Each label is painted once, or each part
of it. A run is right if nearly all pixels of all images get the painted label. ``shown``: the reported segmentation is
not the state whose log posterior is traced; the states of one run are compared.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from napari_gsw.batch.jobs import Record
from napari_gsw.core.array_types import Int32Array
from napari_gsw.core.model.problem import log_posterior, site_pixels
from napari_gsw.core.pipeline.segment import segment
from napari_gsw.core.posterior.consensus import partition_distance
from napari_gsw.core.settings.presets import preset, with_shared_moves
from napari_gsw.research.evaluation.simulated_annotator import find_centre
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

# Images, and labels of their pixels from 1.
Images = tuple[list[NDArray[Any]], list[Int32Array]]


def make_two_colours(colours: Sequence[Sequence[int]], rng: np.random.Generator) -> Images:
    """Make three images: one of the first colour, one of the second, one with both side by side."""
    rows = [np.ones(SHAPE, np.int32), np.full(SHAPE, 2, np.int32), np.where(np.arange(SHAPE[1]) < SHAPE[1] // 2, 1, 2)]
    truth = [np.broadcast_to(row, SHAPE).astype(np.int32) for row in rows]
    noisy = [np.array(colours)[labels - 1] + rng.normal(0, NOISE, (*SHAPE, len(colours[0]))) for labels in truth]
    return [np.clip(image.squeeze(), 0, 255).astype(np.uint8) for image in noisy], truth


def make_slices(rng: np.random.Generator) -> Images:
    """Make slices of the sample volume."""
    volume, truth = mosaic_3d()
    assert truth is not None
    return list(volume[SLICES]), [labels.astype(np.int32) for labels in truth[SLICES]]


def paint_labels(truth: list[Int32Array]) -> list[Int32Array]:
    """Paint each label once, in the image that has most of it, as deep inside as possible."""
    scribbles = [np.zeros_like(labels) for labels in truth]
    for label in np.unique(truth)[np.unique(truth) > 0]:
        image = int(np.argmax([np.count_nonzero(labels == label) for labels in truth]))
        mask = truth[image] == label
        square = tuple(slice(max(0, p - SCRIBBLE_RADIUS), p + SCRIBBLE_RADIUS + 1) for p in find_centre(mask))
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


# What makes the images, whether they are linked, and what paints them.
SCENES: Mapping[str, tuple[Callable[[np.random.Generator], Images], bool, Callable[..., list[Int32Array]]]] = {
    "two greys": (partial(make_two_colours, ((90,), (160,))), False, paint_labels),
    "two colours": (partial(make_two_colours, ((170, 90, 80), (80, 120, 170))), False, paint_labels),
    "slices": (make_slices, False, paint_labels),
    "slices, linked": (make_slices, True, paint_labels),
    "slices, linked, each part painted": (make_slices, True, paint_parts),
}


def score_joint(scene: str, moves: dict[str, Any], number: int, seed: int) -> Record:
    """Compute the fraction of pixels that are right in one run."""
    make_images, linked, paint = SCENES[scene]
    images, truth = make_images(np.random.default_rng(seed + number))
    settings = preset("general", view="clusters", **moves)
    result = segment(images, settings, seeds=paint(truth), linked=linked, seed=seed + number)
    return {"right": float(np.mean(np.concatenate(result.labels) == np.concatenate(truth)))}


def reproduce_shared(study: Study) -> None:
    """Run all scenes, and write ``shared.json``: the number of right runs by moves and scene."""
    numbers = range(QUICK_SEEDS if study.quick else SEEDS)
    cases = {f"{m}: {s} {k}": (s, moves, k) for m, moves in MOVES.items() for s in SCENES for k in numbers}
    records = study.run("shared", score_joint, cases)
    content: dict[str, dict[str, Any]] = {name: {} for name in MOVES}
    for name in MOVES:
        for scene in SCENES:
            right = [row["right"] for case, row in records.items() if case.rpartition(" ")[0] == f"{name}: {scene}"]
            n_right = sum(share >= MIN_RIGHT for share in right)
            content[name][scene] = {"runs": len(right), "right": n_right, "pixels": float(np.mean(right or [np.nan]))}
    study.write("shared", {"share": MIN_RIGHT, "moves": content})


def compare_states(preset_name: str, seed: int, sweeps: Mapping[str, int]) -> Record:
    """Compute log posterior and clusters of the best state, the last, those after burn-in, consensus and regions."""
    result = segment(astronaut()[0], preset=preset_name, seed=seed, sweeps=sweeps[preset_name])
    snapshot, (trace,), problem = result.snapshot, result.traces, result.problem
    burn_in, beta = int(snapshot.state["burn_in"]), problem.beta
    late, k = trace.log_posterior[burn_in:], trace.n_clusters[burn_in:]
    partitions: dict[str, NDArray[np.integer]] = {
        "best": snapshot.best.labels, "last": snapshot.labels, "consensus": result.clusters, "regions": result.regions,
    }  # fmt: skip
    return {
        "sites": problem.n,
        "couplings": {"least": float(beta.min()), "most": float(beta.max()), "repel": float(np.mean(beta < 0))},
        "best_sweep": snapshot.best.sweep,
        "burn_in": burn_in,
        "late": {"mean": float(late.mean()), "deviation": float(late.std()), "clusters": [int(k.min()), int(k.max())]},
        "bits": partition_distance(snapshot.best.labels, result.clusters, "vi", site_pixels(problem)),
        **{
            name: {"log_posterior": log_posterior(problem, labels), "clusters": len(np.unique(labels))}
            for name, labels in partitions.items()
        },
    }


def reproduce_shown(study: Study) -> None:
    """Run each preset, and write ``shown.json``."""
    sweeps = {name: SHOWN_QUICK_SWEEPS if study.quick else preset(name).sweeps for name in SHOWN_PRESETS}
    records = study.run("shown", compare_states, {name: (name,) for name in SHOWN_PRESETS}, sweeps=sweeps)
    study.write("shown", {"presets": records})
