"""The frame of all experiments: jobs that can be resumed, statistics, files, and images that are made on the spot.

An experiment is its cases, a function that makes a record of a case, and what is tabulated and drawn of the records.
"""

from __future__ import annotations

import importlib.util
import json
import sys
import warnings
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import imageio.v3 as iio
import numpy as np
from matplotlib.figure import Figure
from scipy.stats import wilcoxon

from napari_gsw.batch.jobs import JobOptions, Record, run_jobs
from napari_gsw.files.output_folder import ensure_folder, replace_atomically
from napari_gsw.files.plots import save_figure
from napari_gsw.files.results import write_csv, write_json, write_text
from napari_gsw.methods import Choice
from napari_gsw.research.evaluation.data_sets import Example, list_labelled_folder, list_scribbles
from napari_gsw.research.evaluation.evaluate import score_image, summarize
from napari_gsw.research.evaluation.simulated_annotator import SimulatedAnnotator
from napari_gsw.sample_data import random_mosaic

BERKELEY, LABELME, MOSAICS = "Berkeley", "LabelMe", "mosaics"
N_MOSAICS = 12
# Optional packages of methods, and the extra that has them.
NEEDS: Mapping[str, tuple[tuple[str, ...], str]] = {
    "mean-shift": (("cv2",), "peers"),
    "mutex-watershed": (("mwatershed",), "peers"),
    "multicut": (("bioimage_cpp",), "peers"),
    "gasp": (("bioimage_cpp",), "peers"),
    "forest": (("sklearn",), "interactive"),
    "graph-cut": (("sklearn", "ortools"), "interactive"),
    "learning": (("lightgbm",), "learning"),
}


def score_methods(example: Example, fold: int, seed: int, choices: Sequence[Mapping[str, Choice]]) -> Record:
    """Score every method of the example's fold on it, by name."""
    annotated = example.read()
    return {
        name: score_image(annotated, choice, seed, example.has_objects)[0] for name, choice in choices[fold].items()
    }


@dataclass
class Study:
    """Data, options and output folder of an experiment."""

    options: JobOptions
    data: Mapping[str, Sequence[Example]] = field(default_factory=dict)  # data sets of the user by name
    quick: bool = False  # few images and sweeps, to check that everything works
    seed: int = 0
    limit: int | None = None  # maximum number of images of each data set
    scribbles: Sequence[Example] = ()
    nuclei: Sequence[Example] = ()  # objects on a background
    membranes: Sequence[Example] = ()  # cells between dark membranes
    failed: dict[str, str] = field(default_factory=dict)  # reasons of the jobs without a record

    @property
    def folder(self) -> Path:
        """The output folder."""
        return self.options.folder

    def count(self, full: int | None, quick: int) -> int | None:
        """Return how many images or runs to take; None is all."""
        counts = [n for n in (quick if self.quick else full, self.limit) if n is not None]
        return min(counts, default=None)

    def compared_data(self) -> Mapping[str, Sequence[Example]]:
        """Return the user's data sets by name, or else mosaics."""
        return self.data or {MOSAICS: make_mosaics(self.folder)}

    def run(
        self, title: str, function: Callable[..., Record], cases: Mapping[str, tuple[Any, ...]], **shared: Any
    ) -> dict[str, Record]:
        """Call `function(*case, seed=..., **shared)` for each case, and return the records by case.

        Records of an earlier run are used again unless `shared`, the seed, or a file of an example has changed.
        """
        shared = {"seed": self.seed, **shared}
        files = {name: [f for v in case if isinstance(v, Example) for f in v.files] for name, case in cases.items()}
        depends_on = json.loads(json.dumps(shared, default=Choice.to_dict))
        records = run_jobs(title, partial(_call, function, shared), cases, depends_on, self.options, files)
        self.failed |= {f"{title}/{name}": reason for name, reason in records.failed.items()}
        return dict(records.done)

    def score(
        self, title: str, examples: Sequence[Example], choices: Sequence[Mapping[str, Choice]],
        folds: Mapping[Example, int] | None = None, function: Callable[..., Record] = score_methods,
    ) -> dict[str, Record]:  # fmt: skip
        """Score the methods of its fold, by default the first, on each example, and return the records by image."""
        cases = {example.name: (example, 0 if folds is None else folds[example]) for example in examples}
        return self.run(title, function, cases, choices=choices)

    def write(
        self, name: str, content: Mapping[str, Any] | None = None,
        table: tuple[Sequence[str], Sequence[Sequence[Any]]] | None = None, text: str | None = None,
        figure: Figure | None = None,
    ) -> None:  # fmt: skip
        """Write what is given: ``NAME.json``, ``.csv`` (head and rows), ``.md`` and ``.png``."""
        path = self.folder / name
        if content is not None:
            write_json(path.with_suffix(".json"), {"seed": self.seed, **content})
        if table is not None:
            write_csv(path.with_suffix(".csv"), *table)
        if text is not None:
            write_text(path.with_suffix(".md"), text)
        if figure is not None:
            with replace_atomically(path.with_suffix(".png")) as scratch, warnings.catch_warnings():
                warnings.filterwarnings("ignore", "Creating legend with loc")  # that it takes a second
                save_figure(figure, scratch)


def _call(function: Callable[..., Record], shared: Mapping[str, Any], case: tuple[Any, ...]) -> Record:
    return function(*case, **shared)


def available_methods(names: Iterable[str]) -> tuple[str, ...]:
    """Select the methods whose packages are installed, and tell the user about the others."""
    available = []
    for name in names:
        packages, extra = NEEDS.get(name, ((), ""))
        if all(importlib.util.find_spec(package) is not None for package in packages):
            available.append(name)
        else:
            print(f'napari-gsw: {name} is left out; it needs: pip install "napari-gsw[{extra}]"', file=sys.stderr)
    return tuple(available)


# ---- images that are made in the output folder


def make_mosaics(folder: Path, with_scribbles: bool = False) -> list[Example]:
    """Write random mosaics and their truth, optionally with the first scribbles of a simulated annotator."""
    mosaic_folder = folder / "mosaics"
    images, truths, scribbles = (ensure_folder(mosaic_folder / kind) for kind in ("images", "labels", "scribbles"))
    for k in range(N_MOSAICS):
        name = f"mosaic_{k:02}.png"
        if not ((images / name).exists() and (truths / name).exists()):
            image, labels = random_mosaic(np.random.default_rng(k))
            iio.imwrite(images / name, image)
            iio.imwrite(truths / name, labels)
        if with_scribbles and not (scribbles / name).exists():
            wanted = iio.imread(truths / name).astype(np.int32)
            iio.imwrite(scribbles / name, SimulatedAnnotator(wanted).paint_first().astype(np.uint8))
    return list_scribbles(mosaic_folder) if with_scribbles else list_labelled_folder(mosaic_folder)


# ---- statistics and tables


def summarize_methods(
    records: Sequence[Record], measures: Collection[str], ours: Iterable[str] = (), peers: Iterable[str] = (),
    tested: Iterable[str] = (),
) -> dict[str, Any]:  # fmt: skip
    """Summarize the measures of each method, with p-values of ours against each peer for those that are tested.

    Each record is of an image, with a row for each method by its name. The test is Wilcoxon's signed-rank test; its
    p-value is 1 if two methods are equal.
    """
    rows = {name: [record[name] for record in records] for name in (records[0] if records else ())}
    summary = {name: summarize(rows[name], measures) for name in rows}
    for name in set(ours) & set(rows):
        summary[name]["p_value"] = p_values = {}
        for peer in [peer for peer in peers if peer in rows]:
            pairs = {m: [[row[m] for row in rows[method]] for method in (name, peer)] for m in tested}
            p_values[peer] = {m: 1.0 if x == y else float(wilcoxon(x, y).pvalue) for m, (x, y) in pairs.items()}
    return summary


def markdown_table(title: str, head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Format a Markdown table below a title."""
    lines = "".join("| " + " | ".join(line) + " |\n" for line in (head, ["---"] * len(head), *rows))
    return f"### {title}\n\n{lines}\n"


def format_methods(title: str, methods: Mapping[str, Any], headings: Mapping[str, tuple[str, int]]) -> str:
    """Format the means of each method as a Markdown table; `headings` are as :data:`evaluate.MEASURES`."""
    rows = [
        [name, *(f"{method['mean'][m]:.{digits}f}" for m, (_, digits) in headings.items())]
        for name, method in methods.items()
    ]
    return markdown_table(title, ["method", *(heading for heading, _ in headings.values())], rows)
