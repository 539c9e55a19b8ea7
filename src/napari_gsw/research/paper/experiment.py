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
        examples = {name: [value for value in case if isinstance(value, Example)] for name, case in cases.items()}
        files = {name: [file for example in group for file in example.files] for name, group in examples.items()}
        depends_on = json.loads(json.dumps(shared, default=Choice.to_dict))
        records = run_jobs(title, partial(_call, function, shared), cases, depends_on, self.options, files)
        self.failed |= {f"{title}/{name}": reason for name, reason in records.failed.items()}
        return dict(records.done)

    def write(
        self,
        name: str,
        content: Mapping[str, Any] | None = None,
        table: tuple[Sequence[str], Sequence[Sequence[Any]]] | None = None,
        text: str | None = None,
        figure: Figure | None = None,
    ) -> None:
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


def score_methods(example: Example, fold: int, seed: int, choices: Sequence[Mapping[str, Choice]]) -> Record:
    """Score every method of the example's fold on it, by name."""
    annotated = example.read()
    has_objects = example.has_objects
    return {name: score_image(annotated, choice, seed, has_objects)[0] for name, choice in choices[fold].items()}


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


def has_models(models: Sequence[Path], learn: Callable[[], object], quick: bool, images: str) -> bool:
    """Return whether there is a model for each fold of some images; they are learnt if that is possible."""
    if quick or not available_methods(["learning"]):
        print(f"napari-gsw: the models of the package may have learnt from these very {images}", file=sys.stderr)
        return False
    if not all(model.exists() for model in models):
        print(f"napari-gsw: learning models for the folds of the {images} (minutes)", file=sys.stderr)
        learn()
    return True


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


def p_value(a: Sequence[Record], b: Sequence[Record], measure: str) -> float:
    """Compute the p-value of Wilcoxon's signed-rank test of two methods on the same images; 1 if they are equal."""
    x, y = ([row[measure] for row in rows] for rows in (a, b))
    return 1.0 if x == y else float(wilcoxon(x, y).pvalue)


def summarize_methods(
    records: Sequence[Record],
    measures: Collection[str],
    ours: Iterable[str] = (),
    peers: Iterable[str] = (),
    tested: Iterable[str] = (),
) -> dict[str, Any]:
    """Summarize the measures of each method, with p-values of ours against each peer.

    Each record is of an image, with a row for each method by its name.
    """
    rows = {name: [record[name] for record in records] for name in (records[0] if records else ())}
    summary = {name: summarize(rows[name], measures) for name in rows}
    for name in set(ours) & set(rows):
        summary[name]["p_value"] = {
            peer: {m: p_value(rows[name], rows[peer], m) for m in tested} for peer in peers if peer in rows
        }
    return summary


def markdown_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Format a Markdown table."""
    return "".join("| " + " | ".join(line) + " |\n" for line in (head, ["---"] * len(head), *rows))


def format_methods(title: str, methods: Mapping[str, Any], headings: Mapping[str, tuple[str, int]]) -> str:
    """Format the means of each method as a Markdown table; `headings` are as :data:`evaluate.MEASURES`."""
    rows = [
        [name, *(f"{method['mean'][m]:.{digits}f}" for m, (_, digits) in headings.items())]
        for name, method in methods.items()
    ]
    return f"### {title}\n\n{markdown_table(['method', *(heading for heading, _ in headings.values())], rows)}\n"
