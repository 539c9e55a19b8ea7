"""Writes figures into the pages of the documentation, from files that commands of the project have written.

    python tools/docs_figures.py            # rewrites the pages
    python tools/docs_figures.py --check    # exit code 1 if a page says something else than its files

A page has them between two lines,

    <!-- figures: NAME -->
    <!-- end of figures -->

NAME being one of `FIGURES`, functions here and in the other modules ``docs_*.py``, each of which reads files of
``docs/data`` or ``benchmarks`` and gives lines of Markdown. Which command has written a file stands beside the figures
on the page.
"""

from __future__ import annotations

import argparse
import csv
import json
import re
import sys
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import docs_cells
import docs_model
import docs_paper
import docs_scaling
import numpy as np
from docs_tables import DATA, ROOT, share, small, table
from scipy.stats import wilcoxon

from napari_gsw.research.benchmarks.report import cell_text

BLOCK = re.compile(r"(<!-- figures: ([a-z0-9 ]+) -->\n)(.*?)(<!-- end of figures -->)", re.DOTALL)


# ---- steering: steering.csv and steering.json of `napari-gsw reproduce steering`

OURS = {"general": "general", "photo": "photo"}
OTHERS = {"graph-cut": "graph cut", "watershed": "watershed", "forest": "forest", "random-walker": "random walker"}


def ahead_by_chance(ours: np.ndarray, theirs: np.ndarray) -> float:
    """Wilcoxon's signed-rank test, one-sided: how probable we would be so far ahead if we were not."""
    return float(wilcoxon(ours, theirs, alternative="greater").pvalue)


def scribbles() -> str:
    with (DATA / "steering" / "steering.csv").open(newline="") as file:
        lines = list(csv.DictReader(file))
    scores: dict[str, dict[str, float]] = {}
    for line in lines:
        scores.setdefault(line["method"], {})[line["pair"]] = float(line["dice"])
    halves = {line["pair"]: line["half"] for line in lines}
    pairs = sorted(set.intersection(*(set(rows) for rows in scores.values())))
    images = {pair.rpartition("_")[0] for pair in pairs}
    even = np.array([halves[pair] == "even" for pair in pairs])
    values = {name: np.array([rows[pair] for pair in pairs]) for name, rows in scores.items()}
    rows = []
    for name, title in {**OURS, **OTHERS}.items():
        of = values[name]
        ahead = ["", ""] if name in OURS else [small(ahead_by_chance(values[one], of)) for one in ("photo", "general")]
        means = [of.mean(), float(np.median(of)), of[even].mean(), of[~even].mean()]
        rows.append([title, *map(share, means), *ahead])
    head = [
        "method",
        "mean Dice, all",
        "median",
        "even images, tuned on",
        "odd images",
        "p of `photo`",
        "p of `general`",
    ]
    return f"{len(pairs)} pairs of {len(images)} images:\n\n" + table(head, rows)


def curves() -> str:
    content = json.loads((DATA / "steering" / "steering.json").read_text())["curves"]
    text = []
    for data_set, methods in content.items():
        images = next(iter(methods.values()))["images"]
        rows = [
            [name, chooser, *(share(curve["mean"][k]) for k in (0, 1, 2, 5, 10))]
            for name, method in methods.items()
            for chooser, curve in method["choosers"].items()
        ]
        head = ("method", "next stroke", "0", "1", "2", "5", "10")
        text.append(f"{data_set[0].upper()}{data_set[1:]}, {images} images:\n\n" + table(head, rows))
    return "\n".join(text)


# ---- photographs: quality.json of `napari-gsw reproduce quality`

PEERS = {"felzenszwalb": "Felzenszwalb", "mean-shift": "mean shift"}
SCORES = {
    "probabilistic_rand": "Rand, all humans",
    "variation_of_information": "VI (bits)",
    "covering": "covering",
    "adjusted_rand": "adjusted Rand",
    "boundary_f": "boundary F",
    "n_regions": "regions",
}
ABOVE_ONE = {"variation_of_information": "{:.3f}", "n_regions": "{:.1f}"}


def quality() -> Mapping[str, Any]:
    content: Mapping[str, Any] = json.loads((DATA / "quality" / "quality.json").read_text())["data"]
    return content


def photographs() -> str:
    text = []
    for data_set, summary in quality().items():
        rows = []
        for name, title in {**OURS, **PEERS}.items():
            of = summary["methods"][name]["mean"]
            rows.append([title, *(ABOVE_ONE[k].format(of[k]) if k in ABOVE_ONE else share(of[k]) for k in SCORES)])
        text.append(table((f"{data_set}, {summary['images']} images", *SCORES.values()), rows))
    return "\n".join(text)


def against_peers() -> str:
    rows = []
    for data_set, summary in quality().items():
        for name in OURS:
            for peer, title in PEERS.items():
                mean, theirs = summary["methods"][name]["mean"], summary["methods"][peer]["mean"]
                p = summary["methods"][name]["p_value"][peer]
                cells = []
                for score in p:
                    better = (mean[score] > theirs[score]) != (score == "variation_of_information")
                    cells.append(f"{'ahead' if better else 'behind'}, p {small(p[score])}")
                rows.append([data_set, name, title, *cells])
    return table(("data", "ours", "beside", *(SCORES[k] for k in list(SCORES)[:3])), rows)


def uncertainty() -> str:
    rows = []
    for data_set, summary in quality().items():
        for name in OURS:
            if (known := summary["methods"][name].get("uncertainty")) is None:
                continue
            errors = [known[key]["calibration_error"] for key in ("calibrated", "posterior")]
            areas = [known[f"{key}_detection_area"] for key in ("errors", "drawn")]
            rows.append([f"{name}, {data_set}", *map(share, errors), *map(share, areas)])
    head = (
        "preset",
        "calibration error of `human_boundary`",
        "of the posterior itself",
        "errors told, area",
        "of drawn boundaries alone",
    )
    return table(head, rows)


def three(of: Mapping[str, float]) -> str:
    """Rand index, variation of information and covering in one cell."""
    rand, vi, covering = (of[name] for name in list(SCORES)[:3])
    return f"{share(rand)} / {vi:.3f} / {share(covering)}"


def levels() -> str:
    """The hierarchy cut at one threshold for the data set, and at the best for each image."""
    rows = []
    for data_set, summary in quality().items():
        for name in OURS:
            method = summary["methods"][name]
            if (best := method.get("levels")) is not None:
                cuts = ({score: best[score][kind] for score in best} for kind in ("ods", "ois"))
                rows.append([f"{name}, {data_set}", *map(three, cuts), three(method["mean"])])
    head = (
        "Rand / VI / covering",
        "one threshold for the data set (ODS)",
        "the best for each image (OIS)",
        "the labels",
    )
    return table(head, rows)


RIVALS = {"mutex-watershed": "mutex watershed", "multicut": "multicut", "gasp": "GASP, mean linkage"}


def rivals() -> str:
    rows = []
    for data_set, summary in quality().items():
        for name, title in {"photo": "photo", **RIVALS}.items():
            if name in summary["methods"]:
                mean = summary["methods"][name]["mean"]
                rows.append([f"{title}, {data_set}", three(mean), f"{mean['n_regions']:.1f}"])
    return table(("", "Rand / VI / covering", "regions"), rows)


# ---- single samples: evaluation.json of `napari-gsw evaluate --folder`

SAMPLES = {"tissue": "nuclei in tissue, 2D fluorescence", "volume": "nuclei in 3D fluorescence"}
SAMPLE_SCORES = {
    "adjusted_rand": "adjusted Rand",
    "variation_of_information": "VI (bits)",
    "covering": "covering",
    "best_overlap": "best overlap",
    "ap_50": "AP at IoU .5",
}


def samples() -> str:
    rows = []
    for name, title in SAMPLES.items():
        mean = json.loads((DATA / "quality" / "samples" / f"{name}.json").read_text())["mean"]
        cells = (f"{mean[k]:.3f}" if k in ABOVE_ONE else share(mean[k]) for k in SAMPLE_SCORES)
        rows.append([title, *cells])
    return table(("", *SAMPLE_SCORES.values()), rows)


# ---- maps as evidence: maps.json of `napari-gsw reproduce maps`


def maps() -> str:
    content = json.loads((DATA / "evidence" / "maps.json").read_text())["rows"]
    count = next(iter(content.values()))["pictures"]
    rows = [[name, share(row["mean"]), share(row["least"])] for name, row in content.items()]
    return table((f"evidence, {count} pictures", "mean", "least"), rows)


# ---- speed: benchmarks/recorded.json of `napari-gsw bench --record`


def ratios() -> str:
    content: Mapping[str, Any] = json.loads((ROOT / "benchmarks" / "recorded.json").read_text())
    machine = content["machine"]
    rows = [
        [f"`{name.partition(': ')[0]}`", name.partition(": ")[2], f"{one['value']:,.4g}", one["better"]]
        for name, one in content["ratios"].items()
    ]
    versions = (
        f"napari-gsw {machine['napari-gsw'].partition('+')[0]}, Python {machine['python']}, numba {machine['numba']}"
    )
    words = f"Recorded on {machine['cores']} cores ({machine['cpu']}) with {versions}:\n\n"
    return words + table(("section", "ratio", "recorded", "better"), rows)


# ---- speed and memory on one machine: docs/data/performance/bench.json of `napari-gsw bench -o`; the start, which was
# measured later, on another one, by itself


def measured(section: str) -> str:
    folder = DATA / "performance" / ("start" if section == "startup" else "")
    content: Mapping[str, Any] = json.loads((folder / "bench.json").read_text())
    one = content["sections"][section]
    rows = [[str(row[0]), *(cell_text(cell) for cell in row[1:])] for row in one["rows"]]
    title = one["title"][0].upper() + one["title"][1:]
    return f"{title}:\n\n" + table((head or " " for head in one["columns"]), rows)


# ---- a live view: docs/data/performance/live.json of tools/live_view.py


def live() -> str:
    content: Mapping[str, Any] = json.loads((DATA / "performance" / "live.json").read_text())
    rows = [
        [
            f"{one['side']:,} x {one['side']:,}",
            f"{one['sites']:,}",
            f"{one['shown']['alone']:,.0f}",
            *(text for of in (one["shown"], one["hidden"]) for text in (f"{of['cost']:.0%}", f"{of['pictures']:.1f}")),
        ]
        for one in content["images"]
    ]
    heads = ("pixels", "sites", "sweeps/s alone", "the view costs", "pictures/s", "hidden", "pictures/s")
    return f"{content['cores']} cores, no graphics card:\n\n" + table(heads, rows)


MEASURED = ("sites", "memory", "cpp", "threads", "stages", "startup")
FIGURES: Mapping[str, Callable[[], str]] = {
    **{f"measured {section}": partial(measured, section) for section in MEASURED},
    "scribbles": scribbles,
    "curves": curves,
    "photographs": photographs,
    "against peers": against_peers,
    "uncertainty": uncertainty,
    "levels": levels,
    "maps": maps,
    "samples": samples,
    "rivals": rivals,
    "ratios": ratios,
    "live": live,
    **{one.__name__: one for one in (docs_cells.nuclei, docs_cells.membranes, docs_cells.easy, docs_cells.volumes)},
    "limits law": docs_model.limits_law,
    "limits photograph": docs_model.limits_photograph,
    "shown": docs_model.shown,
    "couplings": docs_model.couplings,
    "shared": docs_model.shared,
    **{one.__name__: one for one in (docs_scaling.costs, docs_scaling.slide, docs_scaling.forecast)},
    **{one.__name__: one for one in (docs_paper.fig1, docs_paper.fig2, docs_paper.fig4, docs_paper.strong)},
    **{one.__name__: one for one in (docs_paper.table1, docs_paper.mixing, docs_paper.humans)},
}


def written(page: str) -> str:
    """A page with its figures as the files have them."""
    return BLOCK.sub(lambda block: f"{block[1]}\n{FIGURES[block[2]]()}\n{block[4]}", page)


def main() -> None:
    parser = argparse.ArgumentParser(description="Figures of the documentation, from the files that they come from.")
    parser.add_argument("--check", action="store_true", help="change nothing, and say which pages are behind")
    check = parser.parse_args().check
    behind = []
    for page in sorted((ROOT / "docs").glob("*.md")):
        before = page.read_text(encoding="utf-8")
        after = written(before)
        if after != before:
            behind.append(page.name)
            if not check:
                page.write_text(after, encoding="utf-8")
    if check and behind:
        print(f"figures of {', '.join(behind)} are not those of their files: python tools/docs_figures.py")
        sys.exit(1)


if __name__ == "__main__":
    main()
