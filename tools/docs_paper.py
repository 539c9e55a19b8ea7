"""The paper's experiments made again: what `napari-gsw reproduce fig1 fig2 fig4 table1` has written."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping
from typing import Any

from docs_tables import DATA, share, table

from napari_gsw.research.paper.table1 import TABLE

FOLDER = DATA / "reproduction"
LAMBDAS = (1, 5, 10, 20)
STARTS = {"one": "from one cluster", "random": "from a random partition"}
# The beta of the paper.
BETA = 0.02


def content(name: str) -> Mapping[str, Any]:
    found: Mapping[str, Any] = json.loads((FOLDER / f"{name}.json").read_text())
    return found


def fig1() -> str:
    of = content("fig1")
    keys = ("exact_mean", "simulated_mean", "approximation_alpha_log_n")
    rows = [[f"{alpha}", *(f"{of[f'alpha {alpha}'][key]:.2f}" for key in keys)] for alpha in (3, 5)]
    head = ("α", "mean number of clusters, exact", f"{of['sweeps']:,} sweeps", "the paper's rule, α log n")
    return table(head, rows)


def fig2() -> str:
    of = content("fig2")
    with (FOLDER / "fig2.csv").open(newline="") as file:
        lines = list(csv.DictReader(file))
    error = {(float(line["alpha"]), float(line["beta"])): float(line["standard_error"]) for line in lines}
    mean = {(float(line["alpha"]), float(line["beta"]), line["start"]): float(line["mean_clusters"]) for line in lines}
    rows = []
    for alpha in (1, 3, 5):
        one = of["without_coupling"][f"alpha {alpha}"]
        simulated = ", ".join(f"{value:.2f}" for value in one["simulated"])
        coupled = " and ".join(f"{mean[alpha, BETA, start]:.2f}" for start in STARTS)
        rows.append(
            [
                f"{alpha}",
                f"{one['exact']:.2f}",
                f"{simulated} (± {share(error[alpha, 0.0], 2)})",
                f"{one['exact_for_1099_sites']:.2f}",
                f"{one['caption_of_the_paper']:.1f}",
                coupled,
            ]
        )
    head = (
        "α",
        f"β = 0: exact, n = {of['sites']:,}",
        "simulated, both starts",
        "exact, n = 1,099",
        "the paper's caption",
        f"β = {share(BETA, 2)}, both starts",
    )
    return f"Superpixels: {of['sites']:,}, edges: {of['edges']:,}.\n\n" + table(head, rows)


def fig4() -> str:
    """The increase over single-site Gibbs with the paper's beta, by lambda."""
    of = content("fig4")

    def cell(start: str, by: str, key: str) -> str:
        one = of[f"paper, from {start}"][by][key]
        return f"{share(one['median_increase_percent'], 2)} ({one['better_than_gibbs']})"

    rows = [
        [str(k), *(cell(start, by, str(k)) for start in STARTS for by in ("by_sweeps", "by_clock"))] for k in LAMBDAS
    ]
    head = ["λ", *(text for words in STARTS.values() for text in (words, "equal time"))]
    means = [share(of["paper, from one"]["by_sweeps"][str(k)]["mean_increase_percent"], 2) for k in (10, 20)]
    words = (
        f"Median increase in percent (in brackets: images on which it is above 0, of {of['images']}), "
        f"{of['sweeps']['paper']:,} sweeps:\n\n"
    )
    return words + table(head, rows) + f"\nMeans from one cluster: {means[0]} % for λ = 10, {means[1]} % for λ = 20.\n"


def strong() -> str:
    """The same under strong couplings that follow the contrast, beside classical Swendsen-Wang."""
    of = content("fig4")
    ways = [(of[f"strong, from {start}"], by) for start in STARTS for by in ("by_sweeps", "by_clock")]
    rows = [
        [f"{title}, median", *(share(one[by][name]["median_increase_per_site"], 2) for one, by in ways)]
        for name, title in (("swendsen-wang", "classical Swendsen-Wang"), ("gsw", "GSW"))
    ]
    rows += [
        [f"GSW ahead of {title}, of {of['images']}", *(str(one[f"gsw_wins_{by}"][name]) for one, by in ways)]
        for name, title in (("gibbs", "Gibbs"), ("swendsen-wang", "Swendsen-Wang"), ("both", "both"))
    ]
    head = ["", *(text for words in STARTS.values() for text in (words, "equal time"))]
    return table(head, rows)


def table1() -> str:
    """As the command writes it for a person."""
    return (FOLDER / "table1.md").read_text()


def mixing() -> str:
    """Mean number of clusters on Berkeley by T_min and by what the chain may do in one move."""
    methods = content("table1")["data"]["Berkeley"]["mixing"]["methods"]
    ways = ("whole-cluster moves", "the paper's moves", "the paper's moves, lambda 3")
    rows = [
        [size, *(f"{methods[f'T_min {size}, {way}']['mean']['n_regions']:.1f}" for way in ways), str(paper.clusters)]
        for name, paper in TABLE["Berkeley"].items()
        if (size := name.removeprefix("T_min ")) != name
    ]
    head = ("T_min", "whole-cluster moves", "the paper's moves, λ = 10", "the paper's moves, λ = 3", "the paper")
    return table(head, rows)


def humans() -> str:
    """The median Rand index of one and the same label images by which human is the truth."""
    median = content("table1")["data"]["Berkeley"]["table"]["methods"]["T_min 0"]["median"]
    of = {"probabilistic_rand": "the average over all of them", "rand_first_human": "the first in the file"}
    of["rand_one_human"] = "the typical one"
    rows = [[words, share(median[name], 4)] for name, words in of.items()]
    return table(("which human", "median Rand"), [*rows, ["the paper", share(TABLE["Berkeley"]["T_min 0"].rand, 4)]])
