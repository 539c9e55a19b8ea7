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
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from napari_gsw.core.errors import InputError
from napari_gsw.core.features.network import hash_weights
from napari_gsw.core.threads import count_cores
from napari_gsw.files.output_folder import replace_atomically
from napari_gsw.files.plots import save_figure
from napari_gsw.research.evaluation.data_sets import list_bsds, list_labelled_folder
from napari_gsw.research.figures import INKS, PAPER_INK, make_axes, tidy_axes
from napari_gsw.research.training.pictures import Crops, draw_shapes, read_objects, read_photograph

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
    """Train the networks of the folds and the one of all images, and write them."""
    options = parse_arguments(words)
    import torch

    from napari_gsw.research.training.unet import train

    has_cuda = torch.cuda.is_available()
    device = ("cuda" if has_cuda else "cpu") if options.device == "auto" else options.device
    if device not in ("cpu", "cuda") or (device == "cuda" and not has_cuda):
        raise InputError(f"device must be auto, cpu or cuda where there is one, not {device!r}")
    has_bsds = Path(options.folder, "groundTruth").is_dir()
    examples = list_bsds(options.folder, options.split) if has_bsds else list_labelled_folder(options.folder)
    if options.folds > len(examples):
        raise InputError(f"folds must be at most the number of images, {len(examples)}, not {options.folds}")
    read = read_photograph if options.kind == "photo" else read_objects
    pictures = [read(example) for example in examples]
    others = list_labelled_folder(options.more) if options.more and options.kind == "objects" else []
    common = [picture for example in others for picture in read(example)]
    if options.kind == "objects":
        common += draw_shapes(np.random.default_rng(options.seed), N_DRAWN, options.side)
    out = Path(options.out)
    out.mkdir(parents=True, exist_ok=True)
    n_workers = count_cores() if device == "cuda" else 0
    curves = {}
    for left_out in [*range(options.folds), None]:
        name, number = ("network", ALL_IMAGES_SEED) if left_out is None else (f"fold{left_out}", left_out)
        fold_of = np.arange(len(pictures)) % max(options.folds, 1)
        unseen = [p for some, fold in zip(pictures, fold_of, strict=True) if fold == left_out for p in some]
        seen = [p for some, fold in zip(pictures, fold_of, strict=True) if fold != left_out for p in some] + common
        crops = Crops(options.kind, seen, options.side, options.steps * options.batch, options.seed + number)
        others_crops = replace(crops, pictures=unseen) if unseen else None

        def report(line: str, name: str = name) -> None:
            print(f"{name}, {line}", file=sys.stderr)

        module, *curves[name] = train(crops, others_crops, options.batch, torch.device(device), n_workers, report)
        about = {"seed": crops.seed, "steps": options.steps, "pictures": len(seen)}
        print(f"{name} {save_weights(out / f'{name}.npz', options.kind, module.export_weights(), **about)}")
    figure, ((axes,),) = make_axes(6.4, 4.0)
    for k, (name, (curve, test_curve)) in enumerate(curves.items()):
        axes.plot(*zip(*curve, strict=True), color=PAPER_INK, linewidth=1)
        if test_curve:
            axes.plot(*zip(*test_curve, strict=True), color=INKS[k % len(INKS)], label=f"{name}, images not seen")
    if len(curves) > 1:
        axes.legend(frameon=False, fontsize=8)
    tidy_axes(axes, "steps", "loss", "training (grey: training images)")
    with replace_atomically(out / "curves.png") as scratch:
        save_figure(figure, scratch)


def save_weights(path: str | PathLike[str], kind: str, arrays: Mapping[str, NDArray[np.float16]], **header: Any) -> str:
    """Write weights by their names in the graph, and what else there is to say of them; return their hash."""
    sha256 = hash_weights(arrays)
    content: dict[str, Any] = {"about": np.array(json.dumps({"kind": kind, "sha256": sha256, **header})), **arrays}
    with open(path, "wb") as file:  # savez would add .npz to a name without it
        np.savez(file, **content)
    return sha256


if __name__ == "__main__":
    try:
        main()
    except InputError as error:
        sys.exit(f"napari-gsw: {error}")
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        sys.exit(f"napari-gsw: {MISSING}")
