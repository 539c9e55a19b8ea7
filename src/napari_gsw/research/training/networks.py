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
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from napari_gsw.core.errors import InputError
from napari_gsw.core.image.normalized_image import check_image, estimate_range, scale_rgb, select_channels
from napari_gsw.files.output_folder import replace_atomically
from napari_gsw.files.plots import save_figure
from napari_gsw.research.evaluation.data_sets import AnnotatedImage, Example, list_bsds, list_labelled_folder
from napari_gsw.research.training.object_images import ObjectPicture, draw_shapes, make_pictures
from napari_gsw.research.training.onnx_export import PLANS, save_weights

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

    from napari_gsw.research.training.network_training import (
        LOSSES,
        NetworkModule,
        TrainingOptions,
        TrainingTask,
        number_labels,
        train,
    )

    has_bsds = Path(options.folder, "groundTruth").is_dir()
    examples = list_bsds(options.folder, options.split) if has_bsds else list_labelled_folder(options.folder)
    count = len(examples)
    if options.folds > count:
        raise InputError(f"folds must be at most the number of images, {count}, not {options.folds}")
    device = choose_device(options.device)
    make_store = make_photo_stores if options.kind == "photo" else make_object_stores
    store = make_store(options, examples, device, number_labels)
    fold = np.arange(count) % max(options.folds, 1)
    tasks: dict[str, TrainingTask] = {}
    for left_out in [*range(options.folds), None]:
        seed = options.seed + (ALL_IMAGES_SEED if left_out is None else left_out)
        torch.manual_seed(seed)
        seen = np.arange(count) if left_out is None else np.flatnonzero(fold != left_out)
        others = None if left_out is None else store(np.flatnonzero(fold == left_out), False)
        name = "network" if left_out is None else f"fold{left_out}"
        augmentation, loss = LOSSES[options.kind]
        module = NetworkModule(PLANS[options.kind])
        tasks[name] = TrainingTask(module, store(seen, True), others, augmentation, loss, seed)

    def report(step: int) -> None:
        losses = [
            f"{name} {task.curve[-1][1]:.4f}" + (f" ({task.other_curve[-1][1]:.4f})" if task.other_curve else "")
            for name, task in tasks.items()
        ]
        print(f"step {step}: {', '.join(losses)}", file=sys.stderr)

    torch.backends.cudnn.benchmark = True
    training = TrainingOptions(steps=options.steps, batch=options.batch, side=options.side)
    train(list(tasks.values()), training, device, report)
    out = Path(options.out)
    out.mkdir(parents=True, exist_ok=True)
    for name, task in tasks.items():
        about = {"seed": task.seed, "steps": options.steps, "pictures": len(task.images)}
        print(f"{name} {save_weights(out / f'{name}.npz', options.kind, task.module.fuse_weights(), **about)}")
    draw_curves(tasks, out / "curves.png")


# Makes the store of images by their numbers, with or without those that every network learns from.
MakeStore = Callable[[NDArray[np.integer], bool], Any]


def make_photo_stores(
    options: argparse.Namespace, examples: Sequence[Example], device: Any, number_labels: Callable[[Any], Any]
) -> MakeStore:
    """Read all photographs and the segmentations of all annotators."""
    from napari_gsw.research.training.network_training import ImageStore

    annotated = [example.read() for example in examples]
    images = [read_photograph(scene) for scene in annotated]
    labels = [[number_labels(human) for human in scene.human_labels] for scene in annotated]
    return lambda numbers, _: ImageStore([images[k] for k in numbers], [labels[k] for k in numbers], device)


def make_object_stores(
    options: argparse.Namespace, examples: Sequence[Example], device: Any, number_labels: Callable[[Any], Any]
) -> MakeStore:
    """Read all images of objects, and scale them."""
    from napari_gsw.research.training.network_training import ImageStore

    pictures = [read_objects(example) for example in examples]
    others = list_labelled_folder(options.more) if options.more else []
    common = [picture for example in others for picture in read_objects(example)]
    common += draw_shapes(np.random.default_rng(options.seed), N_DRAWN, options.side)

    def make_store(numbers: NDArray[np.integer], with_common: bool) -> ImageStore:
        chosen = [picture for k in numbers for picture in pictures[k]] + (common if with_common else [])
        images, labels, targets = zip(*chosen, strict=True)
        return ImageStore(images, [[number.astype(np.int16)] for number in labels], device, targets)

    return make_store


def read_photograph(scene: AnnotatedImage) -> NDArray[np.uint8]:
    """Return an image as (h, w, 3) uint8; one that is not RGB becomes grey."""
    values, is_rgb = select_channels(scene.image, check_image(scene.image, scene.axes))
    if is_rgb and values.dtype == np.uint8:
        return np.ascontiguousarray(values)
    values = values if is_rgb else values.astype(np.float64).mean(axis=-1, keepdims=True)
    scaled = np.rint(scale_rgb(values, estimate_range([values], True)) * 255).astype(np.uint8)
    return np.ascontiguousarray(np.broadcast_to(scaled, (*scaled.shape[:2], 3)))


def read_objects(example: Example) -> list[ObjectPicture]:
    """Read an image of objects, at one scale or two."""
    annotated = example.read()
    if annotated.human_labels[0].ndim != 2:
        raise InputError(f"{str(example.image)!r} is a volume; an object network learns from two dimensions")
    values, _ = select_channels(annotated.image, check_image(annotated.image, annotated.axes))
    return make_pictures(values, annotated.human_labels[0].astype(np.int64))


def choose_device(name: str) -> Any:
    """Choose the device: a GPU if there is one, unless another is named."""
    import torch

    chosen = ("cuda" if torch.cuda.is_available() else "cpu") if name == "auto" else name
    if chosen not in ("cpu", "cuda") or (chosen == "cuda" and not torch.cuda.is_available()):
        raise InputError(f"device must be auto, cpu or cuda where there is one, not {name!r}")
    return torch.device(chosen)


def draw_curves(tasks: dict[str, Any], path: Path) -> None:
    """Draw the losses on training images in grey, and those on images not seen in colour."""
    from napari_gsw.research.figures import INKS, PAPER_INK, make_figure, tidy_axes

    figure = make_figure(6.4, 4.0)
    axes = figure.subplots()
    for number, (name, task) in enumerate(tasks.items()):
        axes.plot(*zip(*task.curve, strict=True), color=PAPER_INK, linewidth=1)
        if task.other_curve:
            ink = INKS[number % len(INKS)]
            axes.plot(*zip(*task.other_curve, strict=True), color=ink, label=f"{name}, images not seen")
    if any(task.other_curve for task in tasks.values()):
        axes.legend(frameon=False, fontsize=8)
    tidy_axes(axes, "steps", "loss", "training (grey: training images)")
    with replace_atomically(path) as scratch:
        save_figure(figure, scratch)


def run() -> int:
    """Run the command, and print errors that the user can mend in one line."""
    try:
        main()
    except InputError as error:
        print(f"napari-gsw: {error}", file=sys.stderr)
        return 2
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        print(f"napari-gsw: {MISSING}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(run())
