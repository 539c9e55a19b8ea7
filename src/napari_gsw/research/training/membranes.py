"""Learn the couplings of the preset ``membranes``, from electron micrographs and the cells between the membranes.

    python -m napari_gsw.research.training.membranes FOLDER OUT

FOLDER has ``images/membrane*`` and ``labels/membrane*``, label images in which membranes are 0. Consecutive sections
look alike, so images whose names agree except for the last character are left out together. OUT gets a model that has
not seen each of these groups, ``fold0.json`` and so on, and ``boundaries.json``, learnt from all.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from napari_gsw.core.array_types import Float64Array
from napari_gsw.core.graph.boundary_model import BoundaryModel, DecisionForest
from napari_gsw.core.graph.membrane_cues import compute_context_membrane_cues, compute_local_membrane_cues
from napari_gsw.core.graph.region_graph import RegionGraph, build_region_graph
from napari_gsw.core.image.normalized_image import normalize_image
from napari_gsw.core.image.ridges import scale_intensity
from napari_gsw.core.settings.presets import preset
from napari_gsw.core.sites.superpixels import make_superpixels
from napari_gsw.research.evaluation.data_sets import Example, list_labelled_folder
from napari_gsw.research.training.boundaries import fit_trees
from napari_gsw.scores.partitions import contingency_table

ROUNDS = 160


@dataclass(frozen=True, eq=False)
class MembraneImage:
    """The cues of an image and their target."""

    graph: RegionGraph
    cues: Float64Array  # (m, cues) local cues of each edge
    target: Float64Array  # (m,) 1 where the two superpixels lie in different cells
    weight: Float64Array  # (m,) boundary length between superpixels in cells, 0 of the other edges


def extract_cues(example: Example) -> MembraneImage:
    """Read an image and compute its local cues."""
    annotated = example.read()
    image = normalize_image(annotated.image, annotated.axes)
    sites = make_superpixels(image, preset("membranes"))
    graph = build_region_graph(image, sites)
    # The cell that most pixels of a superpixel lie in, 0 if they lie in none.
    truth = annotated.human_labels[0]
    table, numbers = contingency_table(sites, truth).toarray(), np.unique(truth)
    table[:, numbers == 0] = 0
    cell = np.where(table.any(axis=1), numbers[table.argmax(axis=1)], 0)
    i, j = graph.edges.T
    cues = compute_local_membrane_cues(scale_intensity(image), sites, graph)
    in_cells = (cell[i] > 0) & (cell[j] > 0)
    return MembraneImage(graph, cues, (cell[i] != cell[j]).astype(np.float64), graph.length * in_cells)


def fit(rows: Sequence[Float64Array], images: Sequence[MembraneImage]) -> DecisionForest:
    """Fit boosted trees to the (m, cues) rows of each image."""
    return fit_trees(rows, [image.target for image in images], [image.weight for image in images], rounds=ROUNDS)


def learn(images: Sequence[MembraneImage], groups: Sequence[str]) -> BoundaryModel:
    """Learn both forests; the second learns from the first one's predictions for groups that it has not seen."""
    first: dict[str, DecisionForest] = {}
    rows = []
    for image, group in zip(images, groups, strict=True):
        others = [x for x, g in zip(images, groups, strict=True) if g != group]
        if others and group not in first:
            first[group] = fit([x.cues for x in others], others)
        odds = first[group].scores(image.cues) if others else np.zeros(len(image.target))
        rows.append(compute_context_membrane_cues(image.graph, image.cues, odds))
    return BoundaryModel(fit([image.cues for image in images], images), fit(rows, images), cues="membranes")


def membrane_examples(folder: Path) -> list[Example]:
    """List the sections of a folder; pixels of membranes are not labelled."""
    return [example for example in list_labelled_folder(folder, True) if example.name.startswith("membrane")]


def fold_names(examples: Sequence[Example]) -> list[str]:
    """Return the group of each image: its name without the last character."""
    return [example.name[:-1] for example in examples]


def learn_all(examples: Sequence[Example], out: Path) -> None:
    """Learn from all images, and without each group, and write the models."""
    images, groups = [extract_cues(example) for example in examples], fold_names(examples)
    out.mkdir(parents=True, exist_ok=True)
    for number, left_out in enumerate(sorted(set(groups))):
        kept = [k for k, group in enumerate(groups) if group != left_out]
        learn([images[k] for k in kept], [groups[k] for k in kept]).save(out / f"fold{number}.json")
    learn(images, groups).save(out / "boundaries.json")


if __name__ == "__main__":
    learn_all(membrane_examples(Path(sys.argv[1])), Path(sys.argv[2]))
