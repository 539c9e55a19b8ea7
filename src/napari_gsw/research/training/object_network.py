"""Teach a network what is an object, where its border and its middle are, where two touch, and how wide it is.

    python -m napari_gsw.research.training.object_network FOLDER --seed 0 --folds 3 --more OTHERS -o OUT

FOLDER has images/ and labels/, 0 for the background. It writes OUT/network.npz, OUT/fold0.npz and so on, and
OUT/curves.png, as :mod:`napari_gsw.research.training.boundary_network` does. The pictures of OTHERS, a folder of the same
kind, are learnt from in every fold.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from napari_gsw.core.array_types import Int64Array
from napari_gsw.core.errors import InputError
from napari_gsw.core.image.normalized_image import check_image, select_channels
from napari_gsw.research.evaluation.data_sets import Example, list_labelled_folder
from napari_gsw.research.training.network_command import arguments, device_of, pictures_in, run_command, teach
from napari_gsw.research.training.network_objects import ObjectPicture, drawn_pictures, object_pictures

# Pictures of plain shapes, and of noise alone, that every network sees too.
DRAWN = 64


def main(words: Sequence[str] | None = None) -> None:
    """Read the pictures, bring their objects to usual sizes, and teach."""
    options = arguments(words, "Teach an object network.", steps=14000, batch=24, side=256, folds=0)
    from napari_gsw.research.training.network_crops import MICROGRAPHS, PictureStore
    from napari_gsw.research.training.network_losses import object_loss

    own = [_pictures(example) for example in pictures_in(options.folder, options.split)]
    more = [
        one for example in (list_labelled_folder(options.more) if options.more else []) for one in _pictures(example)
    ]
    more += drawn_pictures(np.random.default_rng(options.seed), DRAWN, options.side)
    device = device_of(options)

    def store(numbers: Int64Array, alone: bool) -> Any:
        pictures = [one for k in numbers for one in own[k]] + ([] if alone else more)
        images, labels, extra = zip(*pictures, strict=True)
        return PictureStore(images, [[one.astype(np.int16)] for one in labels], device, extra)

    teach(options, "objects", store, len(own), MICROGRAPHS, object_loss)


def _pictures(example: Example) -> list[ObjectPicture]:
    """A picture as it is learnt from, at one scale or two."""
    scene = example.read()
    if scene.human_labels[0].ndim != 2:
        raise InputError(f"{str(example.image)!r} is a volume; an object network learns from two dimensions")
    values, _ = select_channels(scene.image, check_image(scene.image, scene.axes))
    return object_pictures(values, scene.human_labels[0].astype(np.int64))


if __name__ == "__main__":
    sys.exit(run_command(main))
