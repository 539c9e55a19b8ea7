"""What the experiments look at: the data sets that the user has, or, without any, pictures made on the spot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import numpy as np

from napari_gsw.files.output_folder import ensure_folder
from napari_gsw.research.evaluation.data_sets import Example, list_labelled_folder, list_scribbles
from napari_gsw.research.evaluation.simulated_annotator import SimulatedAnnotator
from napari_gsw.sample_data import photographs, random_mosaic

T = TypeVar("T")

BERKELEY, LABELME, MOSAICS = "Berkeley", "LabelMe", "mosaics"

# Side of a tile of a photograph, and how many mosaics are made.
TILE, MOSAIC_COUNT = 256, 12


@dataclass(frozen=True)
class ExperimentPlan:
    """What an experiment is to do.

    Attributes
    ----------
    data : examples of each data set that the user has, by its name.
    quick : few images and few sweeps: to see that all works, not to learn anything.
    seed : of everything that is drawn.
    limit : most images of each data set, or None.
    scribbles : examples with what people painted, where the user has any; only `steering` looks at them.
    nuclei : examples of objects on a background, for `steering` and `cells`.
    membranes : sections of cells between dark membranes, for `cells`.
    """

    data: Mapping[str, Sequence[Example]] = field(default_factory=dict)
    quick: bool = False
    seed: int = 0
    limit: int | None = None
    scribbles: Sequence[Example] = ()
    nuclei: Sequence[Example] = ()
    membranes: Sequence[Example] = ()

    def image_limit(self, quick_images: int) -> int | None:
        """Most images of a data set: the limit if there is one, otherwise `quick_images` of a quick run, or None."""
        return quick_images if self.quick and self.limit is None else self.limit


def spread(examples: Sequence[T], limit: int | None) -> list[T]:
    """At most `limit` examples, as evenly spread as can be: data sets are often sorted by kind."""
    count = len(examples) if limit is None else min(limit, len(examples))
    return [examples[i * len(examples) // count] for i in range(count)]


def photograph_tiles(folder: Path) -> list[Example]:
    """Square tiles of the photographs that come with scikit-image, as files in a folder; nobody has segmented them."""
    import imageio.v3 as iio

    tile_folder = ensure_folder(folder / "photographs")
    tiles = []
    for name, image in photographs().items():
        rows, columns = (max(1, side // TILE) for side in image.shape[:2])
        for r in range(rows):
            for c in range(columns):
                file = tile_folder / f"{name}_{r}{c}.png"
                if not file.exists():
                    iio.imwrite(file, image[r * TILE : (r + 1) * TILE, c * TILE : (c + 1) * TILE])
                tiles.append(Example(file.stem, file, file.with_suffix(".none"), "folder"))
    return tiles


def mosaics(folder: Path) -> list[Example]:
    """Random mosaics and their truth, as files in a folder."""
    import imageio.v3 as iio

    mosaic_folder = folder / "mosaics"
    ensure_folder(mosaic_folder / "images")
    ensure_folder(mosaic_folder / "labels")
    for k in range(MOSAIC_COUNT):
        file = mosaic_folder / "images" / f"mosaic_{k:02}.png"
        truth = mosaic_folder / "labels" / file.name
        if not (file.exists() and truth.exists()):
            image, labels = random_mosaic(np.random.default_rng(k))
            iio.imwrite(file, image)
            iio.imwrite(truth, labels)
    return list_labelled_folder(mosaic_folder)


def painted_mosaics(folder: Path) -> list[Example]:
    """The mosaics with the first strokes of a robot, as files in a folder."""
    import imageio.v3 as iio

    strokes = ensure_folder(folder / "mosaics" / "scribbles")
    for example in mosaics(folder):
        file = strokes / example.truth.name
        if not file.exists():
            iio.imwrite(file, SimulatedAnnotator(example.read().human_labels[0]).first_strokes().astype(np.uint8))
    return list_scribbles(folder / "mosaics")
