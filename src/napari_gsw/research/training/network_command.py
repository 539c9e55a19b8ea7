"""What the two commands that teach networks have in common: arguments, folds, files and curves."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from napari_gsw.core.array_types import Int64Array
from napari_gsw.core.errors import InputError
from napari_gsw.files.output_folder import replace_atomically
from napari_gsw.files.plots import save_figure
from napari_gsw.research.evaluation.data_sets import Example, list_bsds, list_labelled_folder
from napari_gsw.research.figures import INKS, PAPER_INK, make_figure, tidy_axes
from napari_gsw.research.training.onnx_export import PLANS, save_weights

# A network of all pictures draws from another seed than those of the folds, which take theirs in order.
ALL_PICTURES = 100
MISSING = 'learning a network needs PyTorch, which is missing; try: pip install "napari-gsw[learning]"'


def arguments(words: Sequence[str] | None, what: str, **defaults: int) -> argparse.Namespace:
    """The arguments of a command that teaches a network.

    Parameters
    ----------
    words : of the command line; None for those of this process.
    what : one sentence about the command.
    defaults : of ``steps``, ``batch``, ``side`` and ``folds``.
    """
    parser = argparse.ArgumentParser(description=what)
    parser.add_argument("folder", help="BSDS500, or a folder with images/ and labels/")
    parser.add_argument("-o", "--out", required=True, help="folder for network.npz, fold0.npz ... and curves.png")
    parser.add_argument("--split", default="train", help="of BSDS500 (default train)")
    parser.add_argument("--seed", type=int, default=0)
    for name, text in (
        ("folds", "also learn a network for each of so many folds, without its pictures; 0 for none"),
        ("steps", "steps of learning"),
        ("batch", "crops in a step"),
        ("side", "pixels of a crop along each axis, a multiple of 16"),
    ):
        parser.add_argument(f"--{name}", type=int, default=defaults[name], help=f"{text} (default {defaults[name]})")
    parser.add_argument("--more", help="another folder, whose pictures are learnt from in every fold (objects)")
    parser.add_argument("--device", default="auto", help="auto, cpu or cuda")
    options = parser.parse_args(words)
    if options.side < 16 or options.side % 16:
        raise InputError(f"side must be a multiple of 16, not {options.side}")
    for name, least in (("steps", 1), ("batch", 1), ("folds", 0), ("seed", 0)):
        if getattr(options, name) < least:
            raise InputError(f"{name} must be a whole number >= {least}, not {getattr(options, name)}")
    return options


def pictures_in(folder: str, split: str) -> list[Example]:
    """The examples of a folder: BSDS500 if it has human segmentations of its kind, else images and labels."""
    return list_bsds(folder, split) if Path(folder, "groundTruth").is_dir() else list_labelled_folder(folder)


def teach(
    options: argparse.Namespace, kind: str, store: Callable[[Int64Array, bool], Any], count: int, how: Any, loss: Any
) -> None:
    """Learn the network of all pictures, and of the folds that are asked for, and write them.

    Parameters
    ----------
    kind : of network.
    store : gives the pictures of these numbers on the device, as a
        :class:`napari_gsw.research.training.network_crops.PictureStore`; alone, or with what every network sees.
    count : how many pictures there are.
    how, loss : as a :class:`napari_gsw.research.training.network_training.Lesson` takes them.
    """
    import torch

    from napari_gsw.research.training.network_module import NetworkModule
    from napari_gsw.research.training.network_training import Lesson, TrainingOptions, learn

    if options.folds > count:
        raise InputError(f"folds must be at most the number of pictures, {count}, not {options.folds}")
    fold = np.arange(count) % max(options.folds, 1)
    lessons: dict[str, Lesson] = {}
    for left_out in [*range(options.folds), None]:
        seed = options.seed + (ALL_PICTURES if left_out is None else left_out)
        torch.manual_seed(seed)
        seen = np.flatnonzero(fold != left_out) if left_out is not None else np.arange(count)
        others = None if left_out is None else store(np.flatnonzero(fold == left_out), True)
        name = "network" if left_out is None else f"fold{left_out}"
        lessons[name] = Lesson(NetworkModule(PLANS[kind]), store(seen, False), others, how, loss, seed)
    training = TrainingOptions(steps=options.steps, batch=options.batch, side=options.side)
    torch.backends.cudnn.benchmark = True
    learn(list(lessons.values()), training, device_of(options), lambda step: _report(step, lessons))
    out = Path(options.out)
    out.mkdir(parents=True, exist_ok=True)
    for name, lesson in lessons.items():
        about = {"seed": lesson.seed, "steps": options.steps, "pictures": len(lesson.pictures)}
        print(f"{name} {save_weights(out / f'{name}.npz', kind, lesson.module.numbers(), **about)}")
    draw_curves(lessons, out / "curves.png")


def device_of(options: argparse.Namespace) -> Any:
    """The device to learn on: a GPU where there is one, unless another is asked for."""
    import torch

    name = ("cuda" if torch.cuda.is_available() else "cpu") if options.device == "auto" else options.device
    if name not in ("cpu", "cuda") or (name == "cuda" and not torch.cuda.is_available()):
        raise InputError(f"device must be auto, cpu or cuda where there is one, not {options.device!r}")
    return torch.device(name)


def draw_curves(lessons: dict[str, Any], path: Path) -> None:
    """Draw the losses: of what is learnt from in grey, of what a network has not seen in ink."""
    drawing = make_figure(6.4, 4.0)
    axes = drawing.subplots()
    for number, (name, lesson) in enumerate(lessons.items()):
        axes.plot(*zip(*lesson.curve, strict=True), color=PAPER_INK, linewidth=1)
        if lesson.other_curve:
            ink = INKS[number % len(INKS)]
            axes.plot(*zip(*lesson.other_curve, strict=True), color=ink, label=f"{name}, pictures not seen")
    if any(lesson.other_curve for lesson in lessons.values()):
        axes.legend(frameon=False, fontsize=8)
    tidy_axes(axes, "steps", "loss", "learning (grey: pictures that are learnt from)")
    with replace_atomically(path) as scratch:
        save_figure(drawing, scratch)


def run_command(command: Callable[[], None]) -> int:
    """Run a command; what a user can mend is one line, and 2 as the exit status."""
    try:
        command()
    except InputError as reason:
        print(f"napari-gsw: {reason}", file=sys.stderr)
        return 2
    except ModuleNotFoundError as reason:
        if reason.name != "torch":
            raise
        print(f"napari-gsw: {MISSING}", file=sys.stderr)
        return 2
    return 0


def _report(step: int, lessons: dict[str, Any]) -> None:
    words = [
        f"{name} {lesson.curve[-1][1]:.4f}" + (f" ({lesson.other_curve[-1][1]:.4f})" if lesson.other_curve else "")
        for name, lesson in lessons.items()
    ]
    print(f"step {step}: {', '.join(words)}", file=sys.stderr)
