"""Learn the couplings of the preset ``membranes``, from electron micrographs and the cells between the membranes.

    python -m napari_gsw.research.training.membranes FOLDER OUT

FOLDER has ``images/membrane*`` and ``labels/membrane*``, label images in which membranes are 0. Consecutive sections
look alike, so images whose names agree except for the last character are left out together. OUT gets a model that has
not seen each of these groups, ``fold0.json`` and so on, and ``boundaries.json``, learnt from all.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from napari_gsw.core.graph.boundary_cues import compute_context_membrane_cues, compute_local_membrane_cues
from napari_gsw.core.graph.region_graph import build_region_graph
from napari_gsw.core.image.normalized_image import normalize_image
from napari_gsw.core.image.ridges import scale_intensity
from napari_gsw.core.settings.presets import preset
from napari_gsw.core.sites.superpixels import make_superpixels
from napari_gsw.research.evaluation.data_sets import Example, list_labelled_folder
from napari_gsw.research.training.boundaries import TrainingImage, learn_folds
from napari_gsw.scores.partitions import contingency_table

ROUNDS = 160


def extract_cues(example: Example) -> TrainingImage:
    """Read an image and compute its cues; only edges between superpixels in cells have a weight."""
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
    return TrainingImage(
        cues,
        (cell[i] != cell[j]).astype(np.float64),
        graph.length * ((cell[i] > 0) & (cell[j] > 0)),
        lambda odds: compute_context_membrane_cues(graph, cues, odds),
    )


def membrane_examples(folder: Path) -> list[Example]:
    """List the sections of a folder; pixels of membranes are not labelled."""
    return [example for example in list_labelled_folder(folder, True) if example.name.startswith("membrane")]


def fold_names(examples: Sequence[Example]) -> list[str]:
    """Return the group of each image: its name without the last character."""
    return [example.name[:-1] for example in examples]


def learn_all(examples: Sequence[Example], out: Path) -> None:
    """Learn from all images, and without each group, and write the models."""
    images = [extract_cues(example) for example in examples]
    learn_folds(images, fold_names(examples), out, ROUNDS, cues="membranes")


if __name__ == "__main__":
    learn_all(membrane_examples(Path(sys.argv[1])), Path(sys.argv[2]))
