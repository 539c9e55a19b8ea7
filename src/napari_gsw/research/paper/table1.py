"""Table 1: mean shift, rdd-CRP and the (truncated) Potts-DP on both data sets, beside the values of the paper.

All samplers get the same superpixels, counts and likelihood of an image. Beside the paper's scores stand scores that
penalize over-segmentation, and two more methods. A second part separates mixing from the effect of T_min: the same
chains without whole-cluster moves (the paper's sampler), at its lambda and at a smaller one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from napari_gsw.batch.jobs import Record
from napari_gsw.core.settings.presets import preset
from napari_gsw.methods import Choice, choose
from napari_gsw.research.evaluation.data_sets import spread
from napari_gsw.research.evaluation.evaluate import MEASURES
from napari_gsw.research.figures import INKS, make_axes, tidy_axes
from napari_gsw.research.paper import experiment
from napari_gsw.research.paper.experiment import Study


class PaperValue(NamedTuple):
    """Median Rand index and number of clusters in the paper's table."""

    rand: float
    clusters: int


# The columns of the paper's table, and further methods.
POTTS: Mapping[str, Mapping[str, Any]] = {f"T_min {size}": {"min_size": size} for size in (0, 3, 6, 9)}
METHODS = ("mean-shift", "rdd-crp", *POTTS, "dd-crp", "felzenszwalb", "normalized-cut")
PRINTED = {
    "LabelMe": ((0.7623, 12), (0.7759, 6), (0.7712, 9), (0.7692, 6), (0.7483, 4), (0.7235, 3)),
    "Berkeley": ((0.7988, 23), (0.7748, 9), (0.7882, 12), (0.7797, 8), (0.7291, 4), (0.6881, 3)),
}
TABLE = {name: dict(zip(METHODS, map(PaperValue._make, row), strict=False)) for name, row in PRINTED.items()}
# The same posterior, with a whole-cluster move in each sweep, with the paper's moves, and with a smaller lambda.
MOVES: Mapping[str, Mapping[str, Any]] = {
    "whole-cluster moves": {"regroups": 1},
    "the paper's moves": {"regroups": 0},
    "the paper's moves, lambda 3": {"regroups": 0, "lam": 3.0},
}
MIXING = {f"{name}, {moves}": {**size, **MOVES[moves]} for moves in MOVES for name, size in POTTS.items()}
MIXING_IMAGES = 24
# Scores that the paper does not have.
FURTHER_MEASURES = (
    "probabilistic_rand", "adjusted_rand", "variation_of_information", "covering", "boundary_f", "seconds",
)  # fmt: skip
RAND = "rand_one_human"
QUICK_IMAGES, QUICK_SWEEPS = 4, 60


def choose_methods(names: Iterable[str], sweeps: int) -> dict[str, Choice]:
    """Choose methods by their names; all chains are of the same superpixels, counts and likelihood."""
    chains = {**POTTS, **MIXING}
    choices = {}
    for name in names:
        changes = {"sweeps": sweeps, **chains.get(name, {})} if name in chains or name.endswith("crp") else {}
        choices[name] = choose("gsw" if name in chains else name, "paper", changes)
    return choices


def reproduce(study: Study) -> None:
    """Segment and score, and write ``table1.json``, ``.csv``, ``.md`` and ``.png``."""
    sweeps = QUICK_SWEEPS if study.quick else preset("paper").sweeps
    parts = {"table": (experiment.available_methods(METHODS), None), "mixing": (tuple(MIXING), MIXING_IMAGES)}
    data: dict[str, Any] = {}
    for data_set, examples in study.compared_data().items():
        data[data_set] = {}
        for part, (names, count) in parts.items():
            chosen = spread(spread(examples, study.count(None, QUICK_IMAGES)), count)
            records = study.score(f"table1-{data_set.lower()}-{part}", chosen, [choose_methods(names, sweeps)])
            data[data_set][part] = summarize(list(records.values()))
    text, table = _tabulate(data)
    # Median Rand index and number of clusters of each method, ours in another colour, the paper's hollow.
    figure, grid = make_axes(5.2 * len(data) + 1, 4.2, columns=len(data))
    for axes, (data_set, tables) in zip(grid[0], data.items(), strict=True):
        medians = {name: method["median"] for name, method in tables["table"]["methods"].items()}
        for y, (name, median) in enumerate(medians.items()):
            ink = INKS[4] if name in POTTS else INKS[1]
            axes.plot(median[RAND], y, "o", color=ink, markersize=8)
            if paper := TABLE.get(data_set, {}).get(name):
                axes.plot(paper.rand, y, "o", color=ink, markersize=8, fillstyle="none")
        axes.set_yticks(range(len(medians)), [f"{name}, {m['n_regions']:g} clusters" for name, m in medians.items()])
        axes.invert_yaxis()
        title = f"{data_set}, {tables['table']['images']} images; hollow: the paper"
        tidy_axes(axes, "median Rand index, one human", "", title)
        axes.grid(axis="x", color="#e5e5e5", linewidth=0.8)
        axes.margins(x=0.15, y=0.08)
    settings = preset("paper", sweeps=sweeps).to_dict()
    study.write("table1", {"settings": settings, "failed": list(study.failed), "data": data}, table, text, figure)


def summarize(records: Sequence[Record]) -> dict[str, Any]:
    """Compute medians and means of each method, and its p-value against the one with the highest median Rand index."""
    methods = experiment.summarize_methods(records, MEASURES)
    best = max(methods, key=lambda name: methods[name]["median"][RAND], default="")
    p_values = experiment.summarize_methods(records, [RAND], [best], methods, [RAND])
    for name, method in methods.items():
        method["p_value"] = None if name == best else p_values[best]["p_value"][name][RAND]
    return {"images": len(records), "best": best, "methods": methods}


def _tabulate(data: Mapping[str, Any]) -> tuple[str, tuple[Sequence[str], list[list[Any]]]]:
    """Make the Markdown, with the paper's values in brackets, and head and rows of the CSV file."""
    text = "Medians over the images; in brackets those that the paper prints, in bold the best.\n\n"
    csv_rows = []
    for data_set, part, suffix in [(d, *p) for d in data for p in (("table", ""), ("mixing", ", mixing"))]:
        images, rows = data[data_set][part]["images"], []
        for name, method in data[data_set][part]["methods"].items():
            m, p = method["median"], method["p_value"]
            paper = TABLE.get(data_set, {}).get(name)
            rand = f"{m[RAND]:.4f}"
            rand = (f"**{rand}**" if p is None else rand) + (f" ({paper.rand:.4f})" if paper else "")
            clusters = f"{m['n_regions']:g}" + (f" ({paper.clusters})" if paper else "")
            further = (f"{m[key]:.{MEASURES[key][1]}f}" for key in FURTHER_MEASURES)
            rows.append([name, rand, "–" if p is None else f"{p:.3f}", clusters, *further])
            values = (*m.values(), *method["mean"].values(), p, paper and paper.rand, paper and paper.clusters)
            csv_rows.append([data_set, part, name, images, *values])
        head = ("method", "Rand, one human", "p", "clusters", *(MEASURES[key][0] for key in FURTHER_MEASURES))
        text += experiment.markdown_table(f"{data_set}{suffix} ({images} images)", head, rows)
    head = ("data", "part", "method", "images", *(f"{s}_{m}" for s in ("median", "mean") for m in MEASURES))
    return text, ((*head, "p_value", "paper_median_rand", "paper_median_clusters"), csv_rows)
