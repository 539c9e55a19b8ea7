"""Scores of a hierarchy: its cuts at every threshold, compared with annotators.

Two numbers say how good the best cuts are: with one threshold for the whole data set (optimal data-set scale, ODS), and
with the best one for each image (optimal image scale, OIS). Each score has a best threshold of its own.
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
# A heading for a table, the digits worth printing, and whether more is better.
LEVEL_MEASURES: Mapping[str, tuple[str, int, bool]] = {
    "probabilistic_rand": ("Rand, all humans", 4, True),
    "variation_of_information": ("VI (bits)", 3, False),
    "covering": ("covering", 4, True),
}


def score_levels(
    sites: Int32Array, tree: MergeTree, human_labels: Sequence[LabelImage], ignore_background: bool = False
) -> dict[str, list[float]]:
    """Compute each of `LEVEL_MEASURES` at each of `THRESHOLDS`, averaged over annotators, and the number of regions.

    Parameters
    ----------
    sites : label image
        The superpixels of the hierarchy, 1..n, 0 where there is none.
    tree : MergeTree
        The hierarchy.
    human_labels : sequence of label images
        Of the same shape.
    ignore_background : bool
        Leave out of each comparison the pixels that are 0 for that annotator.
    """
    cuts = np.stack([np.concatenate(([0], tree.labels(threshold) + 1)) for threshold in THRESHOLDS])
    scores = np.mean([_score_cuts(sites, cuts, human, ignore_background) for human in human_labels], axis=0)
    columns = {name: column.tolist() for name, column in zip(LEVEL_MEASURES, scores.T, strict=True)}
    return {**columns, "n_regions": [float(cut.max()) for cut in cuts]}


def _score_cuts(sites: Int32Array, cuts: Int32Array, human: LabelImage, ignore_background: bool) -> Float64Array:
    """Score cuts (thresholds, n + 1): pixels are counted once per site, and a cut adds up rows of that table."""
    mask = human != 0 if ignore_background else None
    table = contingency_table(sites, human, mask)
    numbers = np.unique(sites if mask is None else sites[mask])
    rows = []
    for cut in cuts:
        labels = np.unique(cut[numbers], return_inverse=True)[1]
        sums = sparse.csr_array((np.ones(len(numbers), np.int64), (labels, np.arange(len(numbers)))))
        rows.append(score_table(sparse.csr_array(sums @ table)))
    return np.array(rows)


def find_best_levels(rows: Sequence[Mapping[str, Sequence[float]]]) -> dict[str, Any]:
    """Find ODS and OIS of each measure over images, from the scores of :func:`score_levels` of each.

    Returns
    -------
    dict
        By measure: ``ods``, the mean over images at the best common ``threshold``, with the mean number of ``regions``
        there; and ``ois``, the mean over images of the best of each.

    Examples
    --------
    >>> rows = [{name: [0.5] * 100 for name in (*LEVEL_MEASURES, "n_regions")} for _ in range(2)]
    >>> rows[0]["covering"][30], rows[1]["covering"][70] = 0.9, 1.0
    >>> find_best_levels(rows)["covering"]
    {'ods': 0.75, 'threshold': 0.7, 'regions': 0.5, 'ois': 0.95}
    """
    regions = np.mean([row["n_regions"] for row in rows], axis=0)
    best: dict[str, Any] = {}
    for name, (_, _, more_is_better) in LEVEL_MEASURES.items():
        scores = np.array([row[name] for row in rows])
        mean = scores.mean(axis=0)
        index = int(mean.argmax() if more_is_better else mean.argmin())
        best[name] = {
            "ods": float(mean[index]),
            "threshold": THRESHOLDS[index],
            "regions": float(regions[index]),
            "ois": float((scores.max(axis=1) if more_is_better else scores.min(axis=1)).mean()),
        }
    return best


def format_levels(best: Mapping[str, Any]) -> str:
    """Format the best levels as a table for the terminal."""
    lines = [f"{'levels of the hierarchy':>24}{'ODS':>10}{'at':>10}{'regions':>10}{'OIS':>10}"]
    for name, (heading, digits, _) in LEVEL_MEASURES.items():
        row = best[name]
        lines.append(
            f"{heading:>24}{row['ods']:>10.{digits}f}{row['threshold']:>10.2f}{row['regions']:>10.1f}"
            f"{row['ois']:>10.{digits}f}"
        )
    return "\n".join(lines)
