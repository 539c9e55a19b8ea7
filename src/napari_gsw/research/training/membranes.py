"""Learn the couplings of the preset ``membranes``: electron micrographs and the cells between their membranes.

    python -m napari_gsw.research.training.membranes FOLDER OUT

FOLDER has ``images/membrane*`` and ``labels/membrane*``, label images in which membranes are 0. Sections that follow
one another look alike, so that images whose names agree but for the last character are left out together. OUT gets a
model that has not seen each of these groups, ``fold0.json`` and so on, and ``boundaries.json``, learnt from all.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from napari_gsw.core.array_types import Float64Array, LabelImage
from napari_gsw.core.graph.boundary_model import BoundaryModel, DecisionForest
from napari_gsw.core.graph.membrane_cues import compute_context_membrane_cues, compute_local_membrane_cues
from napari_gsw.core.graph.region_graph import RegionGraph, build_region_graph
from napari_gsw.core.image.normalized_image import normalize_image
from napari_gsw.core.image.ridges import scale_intensity
from napari_gsw.core.settings.presets import preset
from napari_gsw.core.sites.superpixels import make_superpixels
from napari_gsw.research.evaluation.data_sets import Example, list_labelled_folder
from napari_gsw.research.training.boundaries import TREES, as_forest
from napari_gsw.scores.partitions import contingency_table

ROUNDS = 160


@dataclass(frozen=True, eq=False)
class MembraneLook:
    """What there is to learn from one image.

    Attributes
    ----------
    graph : of its superpixels.
    cues : (m, cues) the first cues of each edge.
    apart : (m,) 1 where the two sites of an edge lie in different cells.
    weight : (m,) length of the edges between sites that lie in cells, 0 of the others.
    """

    graph: RegionGraph
    cues: Float64Array
    apart: Float64Array
    weight: Float64Array


def look(example: Example) -> MembraneLook:
    """Read an image and compute its first cues."""
    scene = example.read()
    pixels = normalize_image(scene.image, scene.axes)
    sites = make_superpixels(pixels, preset("membranes"))
    graph = build_region_graph(pixels, sites)
    i, j = graph.edges.T
    cell = cells_of_sites(sites, scene.human_labels[0])
    known = (cell[i] > 0) & (cell[j] > 0)
    cues = compute_local_membrane_cues(scale_intensity(pixels), sites, graph)
    return MembraneLook(graph, cues, (cell[i] != cell[j]).astype(np.float64), graph.length * known)


def cells_of_sites(sites: NDArray[np.int32], truth: LabelImage) -> NDArray[np.int64]:
    """(n,) the cell that most pixels of a site lie in that lie in any; 0 if none does."""
    table = contingency_table(sites, truth).toarray()
    names = np.unique(truth)
    table[:, names == 0] = 0
    return np.where(table.any(axis=1), names[table.argmax(axis=1)], 0)


def fitted(rows: Sequence[Float64Array], looks: Sequence[MembraneLook]) -> DecisionForest:
    """Boosted trees for the log odds of a boundary, from rows (m, cues) of each image."""
    import lightgbm

    target, weight = (np.concatenate([getattr(one, name) for one in looks]) for name in ("apart", "weight"))
    data = lightgbm.Dataset(np.concatenate(rows), target, weight=weight)
    return as_forest(lightgbm.train(dict(TREES), data, ROUNDS).dump_model()["tree_info"])


def learn(looks: Sequence[MembraneLook], groups: Sequence[str]) -> BoundaryModel:
    """Both forests from some images; the second learns from what the first says of groups that it has not seen."""
    rows = []
    for one, group in zip(looks, groups, strict=True):
        others = [x for x, g in zip(looks, groups, strict=True) if g != group]
        odds = _first_without(group, others).scores(one.cues) if others else np.zeros(len(one.apart))
        rows.append(compute_context_membrane_cues(one.graph, one.cues, odds))
    _KNOWN.clear()
    return BoundaryModel(fitted([one.cues for one in looks], looks), fitted(rows, looks), cues="membranes")


_KNOWN: dict[str, DecisionForest] = {}


def _first_without(group: str, others: Sequence[MembraneLook]) -> DecisionForest:
    """The first forest of all images but a group, learnt once for it."""
    if group not in _KNOWN:
        _KNOWN[group] = fitted([one.cues for one in others], others)
    return _KNOWN[group]


def membrane_examples(folder: Path) -> list[Example]:
    """The sections of a folder, in which membranes are left out; a folder may have other pictures too."""
    return [example for example in list_labelled_folder(folder, True) if example.name.startswith("membrane")]


def fold_names(examples: Sequence[Example]) -> list[str]:
    """For each image the group that it is left out with: names that agree but for the last character."""
    return [example.name[:-1] for example in examples]


def learn_all(examples: Sequence[Example], out: Path) -> None:
    """Learn from all images, and without each group, and write the models."""
    looks, groups = [look(example) for example in examples], fold_names(examples)
    out.mkdir(parents=True, exist_ok=True)
    for number, left_out in enumerate(sorted(set(groups))):
        kept = [k for k, group in enumerate(groups) if group != left_out]
        learn([looks[k] for k in kept], [groups[k] for k in kept]).save(out / f"fold{number}.json")
    learn(looks, groups).save(out / "boundaries.json")


if __name__ == "__main__":
    learn_all(membrane_examples(Path(sys.argv[1])), Path(sys.argv[2]))
