"""Labels from scribbles: our presets beside methods that only spread scribbles, and the effect of further scribbles.

Every method gets the same scribbles. Settings are tuned on the images with an even number in the order of their names.
Then a simulated annotator paints more: at random positions, in the middle of the largest error, or where the posterior
suggests.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from napari_gsw.batch.jobs import Record
from napari_gsw.core.array_types import LabelImage
from napari_gsw.core.settings.presets import PRESETS
from napari_gsw.methods import METHODS, Choice, choose
from napari_gsw.research.evaluation import simulated_annotator
from napari_gsw.research.evaluation.data_sets import Example, spread
from napari_gsw.research.evaluation.evaluate import SCRIBBLE_MEASURES
from napari_gsw.research.evaluation.simulated_annotator import Chooser, SimulatedAnnotator, simulate_scribbles
from napari_gsw.research.figures import INKS, make_axes, tidy_axes
from napari_gsw.research.paper import experiment
from napari_gsw.research.paper.experiment import BERKELEY, Study

OURS = ("general", "photo")
PEERS = ("random-walker", "watershed", "forest", "graph-cut")
# The parts of the pairs that have a table: all, the half that settings are tuned on, and the other.
PARTS = {"all": "all pairs", "even": "even images, tuned on", "odd": "odd images, not looked at"}
QUICK_PAIRS = 4
SCRIBBLES, NUCLEI = "scribbles", "nuclei"
# The methods that get further scribbles, on each data set.
CORRECTED = {
    SCRIBBLES: ("general", "photo", "graph-cut"), BERKELEY: ("photo", "graph-cut"), NUCLEI: ("microscopy",),
}  # fmt: skip
# Of nuclei, the foreground as one cluster: its objects have labels of their own.
CHANGES: Mapping[str, Mapping[str, Any]] = {"microscopy": {"view": "clusters"}}
# Where the annotator paints next; only a method that samples has queries.
QUERY = "ask me"
CHOOSERS: Mapping[str, Chooser] = {
    "random": simulated_annotator.choose_random,
    "largest error": simulated_annotator.choose_largest_error,
    QUERY: simulated_annotator.choose_query,
}
IMAGES, QUICK_IMAGES = 10, 1
N_SCRIBBLES, QUICK_SCRIBBLES = 10, 2
# Segments of an annotator that are wanted of a photograph; the rest is left out.
MAX_SEGMENTS = 8


def choose_by_name(name: str) -> Choice:
    """Choose the preset of that name, or the baseline method."""
    return choose("gsw", name, CHANGES.get(name)) if name in PRESETS else choose(name)


def simulate(example: Example, data_set: str, choice: Choice, seed: int, n_scribbles: int) -> Record:
    """Compute Dice and seconds after each scribble, by the name of the chooser."""
    annotated = example.read()
    annotator = SimulatedAnnotator(select_wanted(annotated.human_labels[0], data_set))
    choice = choice.with_axes(annotated.axes)
    return {
        name: simulate_scribbles(annotated.image, annotator, choice, chooser, n_scribbles, seed)._asdict()
        for name, chooser in CHOOSERS.items()
        if name != QUERY or METHODS[choice.method].samples
    }


def select_wanted(human: LabelImage, data_set: str) -> LabelImage:
    """Select the labels that are wanted, from 1; 0 where nothing is.

    Of nuclei, objects (2) and background (1) are wanted; of Berkeley, the largest segments.
    """
    if data_set == NUCLEI:
        return np.where(human > 0, 2, 1).astype(np.int32)
    if data_set != BERKELEY:
        return human
    numbers, pixels = np.unique(human, return_counts=True)
    wanted = np.zeros(human.shape, np.int32)
    for rank, k in enumerate(np.argsort(-pixels, kind="stable")[:MAX_SEGMENTS], 1):
        wanted[human == numbers[k]] = rank
    return wanted


def reproduce(study: Study) -> None:
    """Score and simulate, and write ``steering.json``, ``.md``, ``.csv``, ``.png`` and ``steering_curves.csv``."""
    pairs = study.scribbles or experiment.make_mosaics(study.folder, with_scribbles=True)
    choices = {name: choose_by_name(name) for name in experiment.available_methods((*OURS, *PEERS))}
    scores = study.score("steering", spread(pairs, study.count(None, QUICK_PAIRS)), [choices])
    halves = assign_halves(pairs)
    courses = run_simulations(study, pairs)
    table, curves = summarize_scores(scores, halves), summarize_curves(courses)
    rows = [
        [pair, halves[pair], name, *(row[m] for m in SCRIBBLE_MEASURES)]
        for pair, record in scores.items()
        for name, row in record.items()
    ]
    text = [
        experiment.format_methods(
            f"Labels from scribbles, {title} ({of['pairs']} pairs)", of["methods"], SCRIBBLE_MEASURES
        )
        for of, title in zip(table.values(), PARTS.values(), strict=True)
    ]
    # Mean Dice against scribbles: a panel per data set, a colour per method, a dash per chooser.
    figure, grid = make_axes(4.4 * max(len(curves), 1), 5.0, columns=max(len(curves), 1))
    styles = dict(zip(CHOOSERS, ("--", "-", ":"), strict=False))
    inks = dict(zip(dict.fromkeys(name for methods in curves.values() for name in methods), INKS[1:], strict=False))
    for axes, (data_set, methods) in zip(grid[0], curves.items(), strict=False):
        lines = []
        for name, method in methods.items():
            for chooser, curve in method["choosers"].items():
                lines.append([name, chooser, *(f"{value:.4f}" for value in curve["mean"])])
                axes.plot(curve["mean"], styles[chooser], color=inks[name], linewidth=1.4, label=f"{name}, {chooser}")
        head = ["method", "next stroke", *map(str, range(len(lines[0]) - 2))]
        text.append(experiment.markdown_table(f"A robot on {data_set}, mean Dice after so many strokes", head, lines))
        # Below the axes, since curves go everywhere within them.
        axes.legend(frameon=False, fontsize=8, loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=2)
        axes.xaxis.get_major_locator().set_params(integer=True)
        tidy_axes(axes, "strokes after the first of each label", "mean Dice", data_set)
    content = {"failed": list(study.failed), "table": table, "curves": curves}
    head = ["pair", "half", "method", *SCRIBBLE_MEASURES]
    study.write("steering", content, (head, rows), "".join(text), figure if curves else None)
    curve_rows = [
        [*key.split("/", 2), chooser, count, dice]
        for key, record in courses.items()
        for chooser, course in record.items()
        for count, dice in enumerate(course["dice"])
    ]
    study.write("steering_curves", table=(("data", "method", "image", "chooser", "strokes", "dice"), curve_rows))


def run_simulations(study: Study, pairs: Sequence[Example]) -> dict[str, Record]:
    """Simulate all methods on all data sets: a record for each ``data/method/image``."""
    by_image = {pair.image: pair for pair in reversed(pairs)}
    # Of a folder with other images beside them, those that are named so.
    nuclei = [e for e in study.nuclei if e.name.startswith(NUCLEI)] or study.nuclei
    data = {SCRIBBLES: list(by_image.values())[::-1], BERKELEY: study.data.get(BERKELEY, ()), NUCLEI: nuclei}
    cases = {
        f"{data_set}/{name}/{example.name}": (example, data_set, choose_by_name(name))
        for data_set, examples in data.items()
        for name in experiment.available_methods(CORRECTED[data_set] if examples else ())
        for example in spread(examples, study.count(IMAGES, QUICK_IMAGES))
    }
    n_scribbles = QUICK_SCRIBBLES if study.quick else N_SCRIBBLES
    return study.run("steering-curves", simulate, cases, n_scribbles=n_scribbles)


def assign_halves(pairs: Sequence[Example]) -> dict[str, str]:
    """Assign pairs to halves: every other image in the order of the names."""
    number = {image: k for k, image in enumerate(sorted({pair.image.name for pair in pairs}))}
    return {pair.name: ("even", "odd")[number[pair.image.name] % 2] for pair in pairs}


def summarize_scores(scores: Mapping[str, Record], halves: Mapping[str, str]) -> dict[str, Any]:
    """Summarize each method over the pairs of each part."""
    content: dict[str, Any] = {}
    for part in PARTS:
        chosen = [record for pair, record in scores.items() if part in ("all", halves[pair])]
        methods = experiment.summarize_methods(chosen, SCRIBBLE_MEASURES, OURS, PEERS, ["dice"])
        content[part] = {"pairs": len(chosen), "methods": methods}
    return content


def summarize_curves(records: Mapping[str, Record]) -> dict[str, Any]:
    """Compute mean and median Dice after 0, 1, 2 ... scribbles, by data set, method and chooser."""
    content: dict[str, Any] = {}
    for data_set, name in dict.fromkeys(tuple(key.split("/")[:2]) for key in records):
        chosen = [record for key, record in records.items() if key.startswith(f"{data_set}/{name}/")]
        choosers = {}
        for chooser in chosen[0]:
            dice = np.array([record[chooser]["dice"] for record in chosen])
            seconds = float(np.mean([record[chooser]["seconds"] for record in chosen]))
            mean, median = dice.mean(axis=0).tolist(), np.median(dice, axis=0).tolist()
            choosers[chooser] = {"mean": mean, "median": median, "seconds": seconds}
        content.setdefault(data_set, {})[name] = {"images": len(chosen), "choosers": choosers}
    return content
