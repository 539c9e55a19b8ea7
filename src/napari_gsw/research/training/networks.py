"""Train the networks of the presets ``photo`` and ``microscopy``.

    python -m napari_gsw.research.training.networks photo BSDS500 --seed 0 --folds 5 -o OUT
    python -m napari_gsw.research.training.networks objects FOLDER --seed 0 --folds 3 --more OTHERS -o OUT

``photo`` learns where annotators draw boundaries in photographs and which pixels they put into one segment, from
BSDS500 or a folder with images/ and labels/. ``objects`` learns pixels, borders, centres, contacts and widths of
objects from such a folder, with 0 for the background; the images of OTHERS are learnt from in every fold.

Writes OUT/network.npz, learnt from all images, OUT/fold0.npz and so on, which have not seen the images of their folds
(couplings are learnt with these), and OUT/curves.png. Training needs ``pip install "napari-gsw[learning]"`` and takes
days without a GPU; see docs/training.md.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from napari_gsw.core.errors import InputError
from napari_gsw.files.output_folder import replace_atomically
from napari_gsw.files.plots import save_figure
from napari_gsw.research.evaluation.data_sets import list_bsds, list_labelled_folder
from napari_gsw.research.training.onnx_export import save_weights
from napari_gsw.research.training.pictures import Picture, draw_shapes, read_objects, read_photograph

# The network of all images has another seed than those of the folds, which are numbered from 0.
ALL_IMAGES_SEED = 100
# Synthetic images that every object network learns from.
N_DRAWN = 64
MISSING = 'training a network needs PyTorch. Run: pip install "napari-gsw[learning]"'
DEFAULTS = {"photo": {"steps": 8000, "batch": 16, "side": 320}, "objects": {"steps": 14000, "batch": 24, "side": 256}}


def parse_arguments(words: Sequence[str] | None) -> argparse.Namespace:
    """Parse and check the command line."""
    parser = argparse.ArgumentParser(description="Train a network.")
    kinds = parser.add_subparsers(dest="kind", required=True)
    for kind, defaults in DEFAULTS.items():
        command = kinds.add_parser(kind)
        command.add_argument("folder", help="BSDS500, or a folder with images/ and labels/")
        command.add_argument("-o", "--out", required=True, help="folder for network.npz, fold0.npz ... and curves.png")
        command.add_argument("--split", default="train", help="of BSDS500 (default train)")
        command.add_argument("--seed", type=int, default=0)
        command.add_argument("--folds", type=int, default=0, help="also train a network without each of so many folds")
        command.add_argument("--steps", type=int, default=defaults["steps"], help="training steps")
        command.add_argument("--batch", type=int, default=defaults["batch"], help="crops in a step")
        command.add_argument("--side", type=int, default=defaults["side"], help="side of a crop, a multiple of 16")
        command.add_argument("--more", help="another folder, whose images are learnt from in every fold (objects)")
        command.add_argument("--device", default="auto", help="auto, cpu or cuda")
    options = parser.parse_args(words)
    if options.side < 16 or options.side % 16:
        raise InputError(f"side must be a multiple of 16, not {options.side}")
    for name, minimum in (("steps", 1), ("batch", 1), ("folds", 0), ("seed", 0)):
        if getattr(options, name) < minimum:
            raise InputError(f"{name} must be a whole number >= {minimum}, not {getattr(options, name)}")
    return options


def main(words: Sequence[str] | None = None) -> None:
    """Train the network of all images and those of the folds, and write them."""
    options = parse_arguments(words)
    import torch

    from napari_gsw.research.training.network_training import ImageStore, Trainer, TrainingOptions, train

    has_bsds = Path(options.folder, "groundTruth").is_dir()
    examples = list_bsds(options.folder, options.split) if has_bsds else list_labelled_folder(options.folder)
    if options.folds > len(examples):
        raise InputError(f"folds must be at most the number of images, {len(examples)}, not {options.folds}")
    device = choose_device(options.device)
    read = read_photograph if options.kind == "photo" else read_objects
    pictures = [read(example) for example in examples]
    others = list_labelled_folder(options.more) if options.more and options.kind == "objects" else []
    common = [picture for example in others for picture in read(example)]
    if options.kind == "objects":
        common += draw_shapes(np.random.default_rng(options.seed), N_DRAWN, options.side)
    training = TrainingOptions(options.steps, options.batch, options.side)
    trainers: dict[str, Trainer] = {}
    for left_out in [*range(options.folds), None]:
        seen: list[Picture] = []
        unseen: list[Picture] = []
        for number, some in enumerate(pictures):
            (unseen if left_out is not None and number % options.folds == left_out else seen).extend(some)
        trainers["network" if left_out is None else f"fold{left_out}"] = Trainer(
            options.kind,
            ImageStore([*seen, *common], device),
            ImageStore(unseen, device) if unseen else None,
            training,
            options.seed + (ALL_IMAGES_SEED if left_out is None else left_out),
        )

    def report(step: int) -> None:
        losses = [
            f"{name} {trainer.curve[-1][1]:.4f}" + (f" ({trainer.test_curve[-1][1]:.4f})" if trainer.test_curve else "")
            for name, trainer in trainers.items()
        ]
        print(f"step {step}: {', '.join(losses)}", file=sys.stderr)

    torch.backends.cudnn.benchmark = True
    train(list(trainers.values()), report)
    out = Path(options.out)
    out.mkdir(parents=True, exist_ok=True)
    for name, trainer in trainers.items():
        about = {"seed": trainer.seed, "steps": options.steps, "pictures": len(trainer.images)}
        print(f"{name} {save_weights(out / f'{name}.npz', options.kind, trainer.module.fuse_weights(), **about)}")
    draw_curves(trainers, out / "curves.png")


def choose_device(name: str) -> Any:
    """Choose the device: a GPU if there is one, unless another is named."""
    import torch

    chosen = ("cuda" if torch.cuda.is_available() else "cpu") if name == "auto" else name
    if chosen not in ("cpu", "cuda") or (chosen == "cuda" and not torch.cuda.is_available()):
        raise InputError(f"device must be auto, cpu or cuda where there is one, not {name!r}")
    return torch.device(chosen)


def draw_curves(trainers: dict[str, Any], path: Path) -> None:
    """Draw the losses on training images in grey, and those on images not seen in colour."""
    from napari_gsw.research.figures import INKS, PAPER_INK, make_figure, tidy_axes

    figure = make_figure(6.4, 4.0)
    axes = figure.subplots()
    for number, (name, trainer) in enumerate(trainers.items()):
        axes.plot(*zip(*trainer.curve, strict=True), color=PAPER_INK, linewidth=1)
        if trainer.test_curve:
            ink = INKS[number % len(INKS)]
            axes.plot(*zip(*trainer.test_curve, strict=True), color=ink, label=f"{name}, images not seen")
    if len(trainers) > 1:
        axes.legend(frameon=False, fontsize=8)
    tidy_axes(axes, "steps", "loss", "training (grey: training images)")
    with replace_atomically(path) as scratch:
        save_figure(figure, scratch)


if __name__ == "__main__":
    try:
        main()
    except InputError as error:
        sys.exit(f"napari-gsw: {error}")
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        sys.exit(f"napari-gsw: {MISSING}")
