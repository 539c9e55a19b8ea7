"""The frame of all experiments: a plan, jobs that can be resumed, data, statistics, and figures."""

from __future__ import annotations

import importlib.util
import sys
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import imageio.v3 as iio
import numpy as np
from matplotlib.figure import Figure
from scipy.stats import wilcoxon

from napari_gsw.batch.jobs import JobOptions, Record, run_jobs
from napari_gsw.core.array_types import Float64Array
from napari_gsw.core.settings.presets import PRESETS
from napari_gsw.files.output_folder import ensure_folder, replace_atomically
from napari_gsw.files.plots import save_figure
from napari_gsw.files.results import write_csv, write_json, write_text
from napari_gsw.methods import Choice, choose
from napari_gsw.research.evaluation.data_sets import Example, list_files, list_labelled_folder, list_scribbles
from napari_gsw.research.evaluation.simulated_annotator import SimulatedAnnotator
from napari_gsw.sample_data import photographs, random_mosaic

BERKELEY, LABELME, MOSAICS = "Berkeley", "LabelMe", "mosaics"
# Side of a tile of a photograph, and the number of mosaics.
TILE, N_MOSAICS = 256, 12
# Optional packages of methods, and the extra that has them.
NEEDS: Mapping[str, tuple[tuple[str, ...], str]] = {
    "mean-shift": (("cv2",), "peers"),
    "mutex-watershed": (("mwatershed",), "peers"),
    "multicut": (("bioimage_cpp",), "peers"),
    "gasp": (("bioimage_cpp",), "peers"),
    "forest": (("sklearn",), "interactive"),
    "graph-cut": (("sklearn", "ortools"), "interactive"),
}


@dataclass
class Study:
    """What an experiment works on, where it writes, and the records of its jobs.

    Parameters
    ----------
    options : JobOptions
        The output folder, and how jobs are run.
    data : mapping
        Examples of each data set of the user, by name.
    quick : bool
        Few images and sweeps, to check that everything works.
    seed : int
        Random seed.
    limit : int, optional
        Maximum number of images of each data set.
    scribbles, nuclei, membranes : sequence of Example
        Images with scribbles, with objects on a background, and of cells between dark membranes.
    """

    options: JobOptions
    data: Mapping[str, Sequence[Example]] = field(default_factory=dict)
    quick: bool = False
    seed: int = 0
    limit: int | None = None
    scribbles: Sequence[Example] = ()
    nuclei: Sequence[Example] = ()
    membranes: Sequence[Example] = ()
    done: dict[str, Record] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)

    @property
    def folder(self) -> Path:
        """The output folder."""
        return self.options.folder

    def image_limit(self, quick_images: int) -> int | None:
        """Return the limit or, of a quick run without one, `quick_images`."""
        return quick_images if self.quick and self.limit is None else self.limit

    def compared_data(self) -> dict[str, Sequence[Example]]:
        """Return the data sets of the user by name, or else mosaics."""
        return dict(self.data) or {MOSAICS: make_mosaics(self.folder)}

    def run(
        self,
        title: str,
        function: Callable[..., Record],
        tasks: Mapping[str, tuple[Any, ...]],
        depends_on: Mapping[str, Any],
        examples: Iterable[Example] = (),
        prefix: str = "",
    ) -> dict[str, Record]:
        """Call a function with the arguments of each task, and return the records by task.

        Records of an earlier run are used again unless the files of an example or `depends_on` have changed.
        """
        jobs = {name: (function, arguments) for name, arguments in tasks.items()}
        records = run_jobs(title, _call, jobs, {**depends_on, "seed": self.seed}, self.options, list_files([*examples]))
        self.done |= {f"{prefix}{name}": record for name, record in records.done.items()}
        self.failed |= {f"{prefix}{name}": reason for name, reason in records.failed.items()}
        return dict(records.done)

    def write_json(self, name: str, **content: Any) -> None:
        """Write ``NAME.json`` with the seed."""
        write_json(self.folder / f"{name}.json", {"seed": self.seed, **content})

    def write_csv(self, name: str, head: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        """Write ``NAME.csv``."""
        write_csv(self.folder / f"{name}.csv", head, rows)

    def write_markdown(self, name: str, text: str) -> None:
        """Write ``NAME.md``."""
        write_text(self.folder / f"{name}.md", text)

    def save_figure(self, name: str, figure: Figure) -> None:
        """Write ``NAME.png``."""
        with replace_atomically(self.folder / f"{name}.png") as scratch, warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Creating legend with loc")  # that it takes a second on a busy machine
            save_figure(figure, scratch)


def _call(job: tuple[Callable[..., Record], tuple[Any, ...]]) -> Record:
    function, arguments = job
    return function(*arguments)


def available_methods(names: Sequence[str]) -> tuple[str, ...]:
    """Select the methods whose packages are installed, and tell the user about the others."""
    available = []
    for name in names:
        packages, extra = NEEDS.get(name, ((), ""))
        if all(importlib.util.find_spec(package) is not None for package in packages):
            available.append(name)
        else:
            print(f'napari-gsw: {name} is left out; it needs: pip install "napari-gsw[{extra}]"', file=sys.stderr)
    return tuple(available)


def can_learn(quick: bool) -> bool:
    """Return whether couplings are learnt, and tell the user if lightgbm is missing."""
    has_lightgbm = importlib.util.find_spec("lightgbm") is not None
    if not quick and not has_lightgbm:
        print('napari-gsw: no lightgbm: pip install "napari-gsw[learning]"', file=sys.stderr)
    return has_lightgbm and not quick


def choose_by_name(name: str, changes: Mapping[str, Any] | None = None) -> Choice:
    """Choose the preset of that name, or the baseline method."""
    return choose("gsw", name, changes) if name in PRESETS else choose(name, changes=changes)


# ---- images that are made in the output folder


def make_photograph_tiles(folder: Path) -> list[Example]:
    """Write square tiles of the photographs that come with scikit-image; they have no annotations."""
    tile_folder = ensure_folder(folder / "photographs")
    tiles = []
    for name, image in photographs().items():
        for r, c in np.ndindex(*(max(1, side // TILE) for side in image.shape[:2])):
            file = tile_folder / f"{name}_{r}{c}.png"
            if not file.exists():
                iio.imwrite(file, image[r * TILE : (r + 1) * TILE, c * TILE : (c + 1) * TILE])
            tiles.append(Example(file.stem, file, file.with_suffix(".none"), "folder"))
    return tiles


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


def p_value(a: Float64Array, b: Float64Array) -> float:
    """Compute the p-value of Wilcoxon's signed-rank test of two paired samples; 1 if they are equal."""
    return 1.0 if np.array_equal(a, b) else float(wilcoxon(a, b).pvalue)


def gather(records: Iterable[Record], method: str, measures: Iterable[str]) -> dict[str, Float64Array]:
    """Gather measures of a method over the records of all images."""
    rows = [record[method] for record in records]
    return {measure: np.array([row[measure] for row in rows]) for measure in measures}


def mean_and_median(values: Mapping[str, Float64Array]) -> dict[str, dict[str, float]]:
    """Compute mean and median of each measure."""
    return {
        "mean": {name: float(np.mean(value)) for name, value in values.items()},
        "median": {name: float(np.median(value)) for name, value in values.items()},
    }


def mean_and_least(values: Sequence[float]) -> dict[str, float]:
    """Compute mean and minimum."""
    return {"mean": float(np.mean(values)), "least": float(np.min(values))}


def markdown_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Format a Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "".join("| " + " | ".join(line) + " |\n" for line in lines)
