"""Learn a codebook that ships with the package from folders of photographs.

    python tools/learn_codebooks.py lab|hsv|texture FOLDER [FOLDER ...]

Every image has the same weight. The words are written to src/napari_gsw/data as numbers. Those of lab and texture were
learnt from the 180 photographs of BSDS500 (train) and LabelMe, those of hsv, which the paper preset uses, from the 100
of BSDS500 alone: the paper learns its words over the data set.
"""

from __future__ import annotations

import sys
from pathlib import Path

import imageio.v3 as iio
from tqdm import tqdm

from napari_gsw.core.features.codebook import Codebook, to_codebook_space
from napari_gsw.core.features.texture import compute_texture
from napari_gsw.core.image.normalized_image import normalize_image

PIXELS = 400_000
WORDS = {"lab": 120, "hsv": 120, "texture": 32}
TARGET = Path(__file__).parents[1] / "src" / "napari_gsw" / "data"


def main(space: str, *folders: str) -> None:
    paths = sorted(path for folder in folders for path in Path(folder).rglob("*.jpg"))
    pictures = (normalize_image(iio.imread(path)) for path in tqdm(paths))
    values = [compute_texture(p.luminance) if space == "texture" else to_codebook_space(p, space) for p in pictures]
    Codebook.learn(values, WORDS[space], space, pixels=PIXELS).save(TARGET / f"codebook_{space}.json")


if __name__ == "__main__":
    main(*sys.argv[1:])
