"""Teach a network where people draw boundaries in photographs, and what they put together.

    python -m napari_gsw.research.training.boundary_network BSDS500 --seed 0 --folds 5 -o OUT

writes OUT/network.npz, the network that the package ships, OUT/fold0.npz and so on, each of which has not seen the
pictures of its fold (couplings are learnt with these: :mod:`napari_gsw.research.training.boundaries`), and OUT/curves.png. It
takes BSDS500 or a folder with images/ and labels/ of your own. It needs
``pip install "napari-gsw[learning]"``, and a GPU if it is not to take days; docs/training.md has more.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from napari_gsw.core.array_types import Int64Array
from napari_gsw.core.image.normalized_image import check_image, estimate_range, scale_rgb, select_channels
from napari_gsw.research.evaluation.data_sets import AnnotatedImage
from napari_gsw.research.training.network_command import arguments, device_of, pictures_in, run_command, teach


def main(words: Sequence[str] | None = None) -> None:
    """Read the pictures, and teach."""
    options = arguments(words, "Teach a boundary network.", steps=8000, batch=16, side=320, folds=0)
    from napari_gsw.research.training.network_crops import PHOTOGRAPHS, PictureStore, numbered
    from napari_gsw.research.training.network_losses import boundary_loss

    scenes = [example.read() for example in pictures_in(options.folder, options.split)]
    images = [photograph(scene) for scene in scenes]
    labels = [[numbered(person) for person in scene.human_labels] for scene in scenes]
    device = device_of(options)

    def store(numbers: Int64Array, alone: bool) -> Any:
        return PictureStore([images[k] for k in numbers], [labels[k] for k in numbers], device)

    teach(options, "photo", store, len(scenes), PHOTOGRAPHS, boundary_loss)


def photograph(scene: AnnotatedImage) -> Any:
    """(h, w, 3) uint8 of a scene; one that is not RGB is grey."""
    values, rgb = select_channels(scene.image, check_image(scene.image, scene.axes))
    if rgb and values.dtype == np.uint8:
        return np.ascontiguousarray(values)
    light = values if rgb else values.astype(np.float64).mean(axis=-1, keepdims=True)
    bytes_of = np.rint(scale_rgb(light, estimate_range([light], True)) * 255).astype(np.uint8)
    return np.ascontiguousarray(np.broadcast_to(bytes_of, (*bytes_of.shape[:2], 3)))


if __name__ == "__main__":
    sys.exit(run_command(main))
