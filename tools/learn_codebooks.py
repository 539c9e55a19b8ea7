"""Learn the codebooks that ship with the package from folders of photographs.

    python tools/learn_codebooks.py FOLDER [FOLDER ...]

Every image has the same weight. The words are written to src/napari_gsw/data as numbers.
"""

from __future__ import annotations

import sys
from pathlib import Path

import imageio.v3 as iio
from tqdm import tqdm

from napari_gsw.core.codebook import Codebook
from napari_gsw.core.features import colours, texture
from napari_gsw.core.image import picture

PIXELS = 400_000
TARGET = Path(__file__).parents[1] / "src" / "napari_gsw" / "data"


def main() -> None:
    paths = sorted(path for folder in sys.argv[1:] for path in Path(folder).rglob("*.jpg"))
    pictures = [picture(iio.imread(path)) for path in tqdm(paths, desc="reading")]
    for space in ("lab", "hsv"):
        words = Codebook.learn([colours(p, space) for p in pictures], 120, space, pixels=PIXELS)
        words.save(TARGET / f"codebook_{space}.json")
    textures = Codebook.learn([texture(p.luminance) for p in tqdm(pictures)], 32, "texture", pixels=PIXELS)
    textures.save(TARGET / "codebook_texture.json")


if __name__ == "__main__":
    main()
