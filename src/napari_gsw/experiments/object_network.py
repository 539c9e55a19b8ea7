"""Teach a network what is an object, where its border is, and where its middle.

    python -m napari_gsw.experiments.object_network FOLDER --seed 0 --folds 3 -o OUT

FOLDER has images/ and labels/, 0 for the background. It writes OUT/network.npz, OUT/fold0.npz and so on, and
OUT/curves.png, as :mod:`napari_gsw.experiments.boundary_network` does.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from napari_gsw.core.arrays import Longs
from napari_gsw.core.errors import InputError
from napari_gsw.core.image.picture import check_image, samples
from napari_gsw.experiments.network_command import arguments, device_of, pictures_in, run_command, teach
from napari_gsw.experiments.network_objects import as_bytes, middles, scaled


def main(words: Sequence[str] | None = None) -> None:
    """Read the pictures, bring their objects to one size, and teach."""
    options = arguments(words, "Teach an object network.", steps=5000, batch=24, side=256, folds=0)
    from napari_gsw.experiments.network_crops import MICROGRAPHS, PictureStore, numbered
    from napari_gsw.experiments.network_losses import object_loss

    pictures = []
    for example in pictures_in(options.folder, options.split):
        scene = example.read()
        if scene.humans[0].ndim != 2:
            raise InputError(f"{str(example.image)!r} is a volume; an object network learns from two dimensions")
        values, _ = samples(scene.image, check_image(scene.image, scene.axes))
        image, labels = scaled(as_bytes(values), scene.humans[0].astype(np.int64))
        # A background of one pixel at least, so that 0 is the background after they are numbered.
        labels[0, 0] = 0
        pictures.append((image, numbered(labels), middles(labels)))
    device = device_of(options)

    def store(numbers: Longs) -> Any:
        images, labels, extra = zip(*(pictures[k] for k in numbers), strict=True)
        return PictureStore(images, [[one] for one in labels], device, extra)

    teach(options, "objects", store, len(pictures), MICROGRAPHS, object_loss)


if __name__ == "__main__":
    sys.exit(run_command(main))
