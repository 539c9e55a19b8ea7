"""How good a hierarchy is: its cuts at every threshold, scored against people.

A hierarchy is no one segmentation but one for each threshold. Two figures say how good the best of them are: with one
threshold for the whole data set (optimal data-set scale, ODS), and with the best one for each image (optimal image
scale, OIS). Each measure has a best threshold of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy import sparse

from napari_gsw.core.array_types import Float64Array, Int32Array, LabelImage
from napari_gsw.core.graph.merge_tree import MergeTree
from napari_gsw.scores.partitions import contingency_table, score_table

# Heights at which a hierarchy is cut, as probabilities.
THRESHOLDS = tuple(round(percent / 100, 2) for percent in range(100))
# What is measured at each: a heading for a table, the digits worth printing, and whether more is better.
LEVEL_MEASURES: Mapping[str, tuple[str, int, bool]] = {
    "probabilistic_rand": ("Rand, all humans", 4, True),
    "variation_of_information": ("VI (bits)", 3, False),
    "covering": ("covering", 4, True),
}


def score_levels(
    sites: Int32Array, tree: MergeTree, human_labels: Sequence[LabelImage], ignore_background: bool = False
) -> dict[str, list[float]]:
    """Each of `LEVEL_MEASURES` at each of `THRESHOLDS`, averaged over the humans; and how many regions there are.

    Parameters
    ----------
    sites : label image of the sites of the hierarchy, 1..n, 0 where there is none.
    tree : of these sites.
    humans : label images of the same shape.
    ignore_background : leave out of each comparison the pixels that are 0 for that human.
    """
    cuts = np.stack([np.concatenate(([0], tree.labels(threshold) + 1)) for threshold in THRESHOLDS])
    figures = np.mean([_of_cuts(sites, cuts, human, ignore_background) for human in human_labels], axis=0)
    columns = {name: column.tolist() for name, column in zip(LEVEL_MEASURES, figures.T, strict=True)}
    return {**columns, "n_regions": [float(cut.max()) for cut in cuts]}


def _of_cuts(sites: Int32Array, cuts: Int32Array, human: LabelImage, ignore_background: bool) -> Float64Array:
    """(thresholds, measures) of cuts (thresholds, n + 1), the label of each site after that of what is no site.

    The pixels that sites share with the regions of a human are counted once: a cut only adds up rows of that table.
    """
    where = human != 0 if ignore_background else None
    table = contingency_table(sites, human, where)
    names = np.unique(sites if where is None else sites[where])
    rows = []
    for cut in cuts:
        labels = np.unique(cut[names], return_inverse=True)[1]
        sums = sparse.csr_array((np.ones(len(names), np.int64), (labels, np.arange(len(names)))))
        rows.append(score_table(sparse.csr_array(sums @ table)))
    return np.array(rows)


def find_best_levels(rows: Sequence[Mapping[str, Sequence[float]]]) -> dict[str, Any]:
    """ODS and OIS of each measure over images, ready for JSON.

    Parameters
    ----------
    rows : of each image, as :func:`level_scores` gives them.

    Returns
    -------
    By measure: ``ods``, the mean over images at the one ``threshold`` that is best for it, and how many ``regions``
    there are then; ``ois``, the mean over images of the best of each.

    Examples
    --------
    >>> rows = [{name: [0.5] * 100 for name in (*LEVEL_MEASURES, "n_regions")} for _ in range(2)]
    >>> rows[0]["covering"][30], rows[1]["covering"][70] = 0.9, 1.0
    >>> best_levels(rows)["covering"]
    {'ods': 0.75, 'threshold': 0.7, 'regions': 0.5, 'ois': 0.95}
    """
    regions = np.mean([row["n_regions"] for row in rows], axis=0)
    best: dict[str, Any] = {}
    for name, (_, _, more) in LEVEL_MEASURES.items():
        figures = np.array([row[name] for row in rows])
        place = int(figures.mean(axis=0).argmax() if more else figures.mean(axis=0).argmin())
        best[name] = {
            "ods": float(figures.mean(axis=0)[place]),
            "threshold": THRESHOLDS[place],
            "regions": float(regions[place]),
            "ois": float((figures.max(axis=1) if more else figures.min(axis=1)).mean()),
        }
    return best


def format_levels(best: Mapping[str, Any]) -> str:
    """What :func:`best_levels` says, for a terminal."""
    lines = [f"{'levels of the hierarchy':>24}{'ODS':>10}{'at':>10}{'regions':>10}{'OIS':>10}"]
    for name, (heading, digits, _) in LEVEL_MEASURES.items():
        row = best[name]
        lines.append(
            f"{heading:>24}{row['ods']:>10.{digits}f}{row['threshold']:>10.2f}{row['regions']:>10.1f}"
            f"{row['ois']:>10.{digits}f}"
        )
    return "\n".join(lines)
