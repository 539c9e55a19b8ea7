"""Labels from scribbles: our presets beside methods that only spread scribbles, and the effect of further scribbles.

Every method gets the same scribbles, and its labels are compared with those that the person wanted. Settings are tuned
on the images with an even number in the order of their names. Then a simulated annotator paints more, beginning with a
disc for each label: at random positions, in the middle of the largest error, or where the posterior suggests.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from napari_gsw.batch.jobs import Record
from napari_gsw.core.array_types import LabelImage
from napari_gsw.methods import METHODS, Choice
from napari_gsw.research.evaluation.data_sets import Example, spread
from napari_gsw.research.evaluation.evaluate import SCRIBBLE_MEASURES, ScoringTask, score_example
from napari_gsw.research.evaluation.simulated_annotator import (
    Chooser,
    SimulatedAnnotator,
    choose_largest_error,
    choose_query,
    choose_random,
    simulate_scribbles,
)
from napari_gsw.research.figures import INKS, make_figure, tidy_axes
from napari_gsw.research.paper.experiment import (
    BERKELEY,
    Study,
    available_methods,
    choose_by_name,
    gather,
    make_mosaics,
    markdown_table,
    mean_and_median,
    p_value,
)

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
CHOOSERS: Mapping[str, Chooser] = {"random": choose_random, "largest error": choose_largest_error, QUERY: choose_query}
IMAGES, QUICK_IMAGES = 10, 1
N_SCRIBBLES, QUICK_SCRIBBLES = 10, 2
# Segments of an annotator that are wanted of a photograph; the rest is left out.
MAX_SEGMENTS = 8


def score(example: Example, choice: Choice, seed: int) -> Record:
    """Score the labels that a method makes of scribbles."""
    return score_example(ScoringTask(example, choice, seed))


def simulate(example: Example, data_set: str, choice: Choice, n_scribbles: int, seed: int) -> Record:
    """Compute Dice and seconds after each scribble, by the name of the chooser."""
    annotated = example.read()
    annotator = SimulatedAnnotator(select_wanted(annotated.human_labels[0], data_set))
    choice = choice.with_axes(annotated.axes)
    return {
        name: simulate_scribbles(annotated.image, annotator, choice, chooser, n_scribbles, seed)._asdict()
        for name, chooser in select_choosers(choice).items()
    }


def select_choosers(choice: Choice) -> dict[str, Chooser]:
    """Select the choosers that a method can be used with."""
    return {name: chooser for name, chooser in CHOOSERS.items() if name != QUERY or METHODS[choice.method].samples}


def select_wanted(human: LabelImage, data_set: str) -> LabelImage:
    """Select the labels that are wanted, from 1; 0 where nothing is.

    Of nuclei, objects (2) and background (1) are wanted; of Berkeley, the largest segments.
    """
    if data_set == NUCLEI:
        return np.where(human > 0, 2, 1).astype(np.int32)
    if data_set != BERKELEY:
        return human
    numbers, index, pixels = np.unique(human, return_inverse=True, return_counts=True)
    rank = np.empty(len(numbers), np.int32)
    rank[np.argsort(-pixels, kind="stable")] = np.arange(1, len(numbers) + 1)
    return np.where(rank <= MAX_SEGMENTS, rank, 0)[index].reshape(human.shape)


def reproduce(study: Study) -> None:
    """Score and simulate, and write ``steering.json``, ``.md``, ``.csv``, ``.png`` and ``steering_curves.csv``."""
    pairs = study.scribbles or make_mosaics(study.folder, with_scribbles=True)
    chosen = spread(pairs, study.image_limit(QUICK_PAIRS))
    scores: dict[str, Mapping[str, Record]] = {}
    for name in available_methods((*OURS, *PEERS)):  # a journal each, so that a change of one costs only that one
        choice = choose_by_name(name)
        tasks = {pair.name: (pair, choice, study.seed) for pair in chosen}
        depends_on = {"settings": choice.to_dict()}
        scores[name] = study.run(f"steering-{name}", score, tasks, depends_on, chosen, prefix=f"{name}/")
    halves = assign_halves(pairs)
    courses = run_simulations(study, pairs)
    table = {part: summarize_scores(scores, select_pairs(part, scores, halves)) for part in PARTS}
    curves = summarize_curves(courses)
    study.write_json("steering", failed=list(study.failed), table=table, curves=curves)
    rows = [
        [pair, halves[pair], name, *(record[m] for m in SCRIBBLE_MEASURES)]
        for name, records in scores.items()
        for pair, record in records.items()
    ]
    study.write_csv("steering", ("pair", "half", "method", *SCRIBBLE_MEASURES), rows)
    study.write_markdown("steering", format_scores(table) + format_curves(curves))
    curve_rows = [
        [*key.split("/", 2), chooser, count, dice]
        for key, record in courses.items()
        for chooser, course in record.items()
        for count, dice in enumerate(course["dice"])
    ]
    study.write_csv("steering_curves", ("data", "method", "image", "chooser", "strokes", "dice"), curve_rows)
    if courses:
        _draw(curves, study)


def run_simulations(study: Study, pairs: Sequence[Example]) -> dict[str, Record]:
    """Simulate all methods on all data sets: a record for each ``data/method/image``."""
    by_image = {pair.image: pair for pair in reversed(pairs)}
    # Of a folder with other images beside them, those that are named so.
    nuclei = [e for e in study.nuclei if e.name.startswith(NUCLEI)] or study.nuclei
    data = {SCRIBBLES: list(by_image.values())[::-1], BERKELEY: study.data.get(BERKELEY, ()), NUCLEI: nuclei}
    n_scribbles = QUICK_SCRIBBLES if study.quick else N_SCRIBBLES
    limit = study.image_limit(QUICK_IMAGES)
    records: dict[str, Record] = {}
    for data_set, examples in data.items():
        chosen = spread(examples, IMAGES if limit is None else min(limit, IMAGES))
        for name in available_methods(CORRECTED[data_set]) if chosen else ():
            choice = choose_by_name(name, CHANGES.get(name))
            tasks = {e.name: (e, data_set, choice, n_scribbles, study.seed) for e in chosen}
            depends_on = {"settings": choice.to_dict(), "strokes": n_scribbles, "choosers": [*select_choosers(choice)]}
            title, prefix = f"steering-{data_set.lower()}-{name}", f"{data_set}/{name}/"
            done = study.run(title, simulate, tasks, depends_on, chosen, prefix)
            records |= {f"{prefix}{image}": record for image, record in done.items()}
    return records


def assign_halves(pairs: Sequence[Example]) -> dict[str, str]:
    """Assign pairs to halves: every other image in the order of the names."""
    number = {image: k for k, image in enumerate(sorted({pair.image.name for pair in pairs}))}
    return {pair.name: ("even", "odd")[number[pair.image.name] % 2] for pair in pairs}


def select_pairs(part: str, scores: Mapping[str, Mapping[str, Record]], halves: Mapping[str, str]) -> list[str]:
    """Select the pairs of a part that every method has labelled."""
    common = [pair for pair in halves if all(pair in records for records in scores.values())]
    return [pair for pair in common if part in ("all", halves[pair])]


def summarize_scores(scores: Mapping[str, Mapping[str, Record]], pairs: Sequence[str]) -> dict[str, Any]:
    """Compute mean and median of each method over some pairs, and p-values of ours against each peer."""
    content: dict[str, Any] = {"pairs": len(pairs), "methods": {}}
    if not pairs:
        return content
    by_pair = [{name: records[pair] for name, records in scores.items()} for pair in pairs]
    values = {name: gather(by_pair, name, SCRIBBLE_MEASURES) for name in scores}
    for name in scores:
        content["methods"][name] = mean_and_median(values[name])
        if name in OURS:
            p_values = {peer: p_value(values[name]["dice"], values[peer]["dice"]) for peer in PEERS if peer in values}
            content["methods"][name]["p_value"] = p_values
    return content


def summarize_curves(records: Mapping[str, Record]) -> dict[str, Any]:
    """Compute mean and median Dice after 0, 1, 2 ... scribbles, by data set, method and chooser."""
    content: dict[str, Any] = {}
    for data_set, name in dict.fromkeys(tuple(key.split("/")[:2]) for key in records):
        chosen = [record for key, record in records.items() if key.startswith(f"{data_set}/{name}/")]
        by_chooser = {}
        for chooser in chosen[0]:
            dice = np.array([record[chooser]["dice"] for record in chosen])
            by_chooser[chooser] = {
                "mean": dice.mean(axis=0).tolist(),
                "median": np.median(dice, axis=0).tolist(),
                "seconds": float(np.mean([record[chooser]["seconds"] for record in chosen])),
            }
        content.setdefault(data_set, {})[name] = {"images": len(chosen), "choosers": by_chooser}
    return content


def format_scores(table: Mapping[str, Any]) -> str:
    """Format the tables of the parts."""
    text = []
    for part, title in PARTS.items():
        methods = table[part]["methods"]
        if methods:
            rows = [
                [name, f"{m['mean']['dice']:.4f}", f"{m['median']['dice']:.4f}", f"{m['mean']['seconds']:.2f}"]
                for name, m in methods.items()
            ]
            text.append(f"### Labels from scribbles, {title} ({table[part]['pairs']} pairs)\n")
            text.append(markdown_table(("method", "mean Dice", "median Dice", "seconds"), rows))
            for name, method in methods.items():
                if method.get("p_value"):
                    p_values = ", ".join(f"{peer} {p:.2g}" for peer, p in method["p_value"].items())
                    text.append(f"- {name}, Wilcoxon's p against: {p_values}")
            text.append("")
    return "\n".join([*text, ""])


def format_curves(curves: Mapping[str, Any]) -> str:
    """Format the mean Dice after some numbers of scribbles."""
    text = []
    for data_set, methods in curves.items():
        first = next(iter(methods.values()))
        length = len(next(iter(first["choosers"].values()))["mean"])
        counts = [k for k in (0, 1, 2, 5, 10) if k < length]
        rows = [
            [name, chooser, *(f"{curve['mean'][k]:.4f}" for k in counts), f"{curve['seconds']:.2f}"]
            for name, method in methods.items()
            for chooser, curve in method["choosers"].items()
        ]
        title = (
            f"### A robot on {data_set} ({first['images']} images), mean Dice after so many strokes beyond the first\n"
        )
        text += [title, markdown_table(("method", "next stroke", *map(str, counts), "seconds each"), rows)]
    return "\n".join(text)


def _draw(curves: Mapping[str, Any], study: Study) -> None:
    """Draw mean Dice against scribbles: a panel per data set, a colour per method, a dash per chooser."""
    figure = make_figure(4.4 * len(curves), 5.0)
    styles = dict(zip(CHOOSERS, ("--", "-", ":"), strict=False))
    names = dict.fromkeys(name for methods in curves.values() for name in methods)
    inks = dict(zip(names, INKS[1:], strict=False))
    panels = figure.subplots(1, len(curves), squeeze=False)[0]
    for axes, (data_set, methods) in zip(panels, curves.items(), strict=True):
        for name, method in methods.items():
            for chooser, curve in method["choosers"].items():
                axes.plot(curve["mean"], styles[chooser], color=inks[name], linewidth=1.4, label=f"{name}, {chooser}")
        # Below the axes, since curves go everywhere within them.
        axes.legend(frameon=False, fontsize=8, loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=2)
        axes.xaxis.get_major_locator().set_params(integer=True)
        tidy_axes(axes, "strokes after the first of each label", "mean Dice", data_set)
    study.save_figure("steering", figure)
