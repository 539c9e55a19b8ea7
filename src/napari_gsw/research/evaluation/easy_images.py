"""Pictures that any segmentation must get right: plain shapes of known contrast in known noise, drawn on the spot.

What is easy is what the signal-to-noise ratio says: contrast over noise, of one pixel. Above two a person sees the
shapes at once. :func:`easy_pictures` has them in many sizes, types and contrasts; :func:`empty_pictures` has nothing to
be found in them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage
from skimage.measure import label

from napari_gsw.core.array_types import Float64Array, Int32Array
from napari_gsw.core.errors import InputError
from napari_gsw.research.evaluation.data_sets import AnnotatedImage

# The grey level between the darkest and the lightest part, of 255.
MIDDLE = 128.0
# By how much each colour sample goes up where the shape is, in units of the contrast.
COLOUR = np.array([1.0, -0.6, 0.3])
# How much of the contrast a ramp goes up from one side of the picture to the other.
RAMP = 0.25
# What a grey level is in each type.
UNITS: Mapping[str, float] = {"uint8": 1.0, "uint16": 257.0, "float32": 1 / 255}


def _square(rows: Float64Array, columns: Float64Array) -> Int32Array:
    """(n, n) a square of half the picture's side, a little off its middle."""
    return ((np.abs(rows - 0.47) < 0.25) & (np.abs(columns - 0.53) < 0.25)).astype(np.int32)


def _disks(rows: Float64Array, columns: Float64Array) -> Int32Array:
    """(n, n) two disks that do not touch."""
    places = ((0.3, 0.32, 0.17), (0.67, 0.65, 0.2))
    return np.asarray(np.any([np.hypot(rows - y, columns - x) < r for y, x, r in places], axis=0), dtype=np.int32)


def _stripes(rows: Float64Array, columns: Float64Array) -> Int32Array:
    """(n, n) four slanting stripes, by turns dark and light."""
    return (np.floor(4 * (0.9 * columns + 0.1 * rows)) % 2).astype(np.int32)


SHAPES: Mapping[str, Callable[[Float64Array, Float64Array], Int32Array]] = {
    "square": _square,
    "disks": _disks,
    "stripes": _stripes,
    "ramp": _square,
}
# Those that are objects on a background.
OBJECTS = ("square", "disks", "ramp")


@dataclass(frozen=True)
class EasyImage:
    """A picture that is drawn when it is read.

    Attributes
    ----------
    shape : one of `SHAPES`; a ramp is a square on a background that grows lighter from left to right, as the square
        does.
    size : pixels along each side.
    colour : whether it is RGB and not grey.
    contrast, noise : of 255 grey levels; noise is the standard deviation of a Gaussian, independent in each sample.
    blur : width in pixels of the Gaussian by which it is out of focus; noise comes after it.
    dtype : one of `UNITS`.
    seed : of the noise.
    """

    shape: str
    size: int = 128
    colour: bool = False
    contrast: float = 100.0
    noise: float = 25.0
    blur: float = 0.0
    dtype: str = "uint8"
    seed: int = 0

    @property
    def name(self) -> str:
        """All that it is, in one word."""
        kind = "colour" if self.colour else "grey"
        blur = f"-b{self.blur:g}" if self.blur else ""
        seed = f"-s{self.seed}" if self.seed else ""
        return f"{self.shape}-{kind}-{self.size}-c{self.contrast:g}-n{self.noise:g}{blur}-{self.dtype}{seed}"

    @property
    def has_objects(self) -> bool:
        """Whether the truth is of objects on a background, 0."""
        return self.shape in OBJECTS

    @property
    def files(self) -> tuple[Path, ...]:
        """None: it is drawn."""
        return ()

    @property
    def painted(self) -> bool:
        """Nobody has said what is wanted."""
        return False

    @property
    def ratio(self) -> float:
        """Signal-to-noise ratio of a pixel."""
        return self.contrast / self.noise if self.noise else np.inf

    def read(self) -> AnnotatedImage:
        """The picture and its truth: the connected parts of the shapes, with a background of 0 if it has objects."""
        levels, truth = self._drawn()
        image = _stored(levels, self.dtype)
        return AnnotatedImage(image, "YXS" if self.colour else "YX", [truth], False)

    def _drawn(self) -> tuple[Float64Array, Int32Array]:
        """(size, size) or (size, size, 3) grey levels, and (size, size) the truth."""
        side = (np.arange(self.size) + 0.5) / self.size
        rows, columns = np.meshgrid(side, side, indexing="ij")
        inside = SHAPES[self.shape](rows, columns)
        light = inside - 0.5
        if self.shape == "ramp":
            light = light + RAMP * (columns - 0.5)
        if self.blur:
            light = ndimage.gaussian_filter(light, self.blur)
        levels = MIDDLE + self.contrast * (light[..., np.newaxis] * COLOUR if self.colour else light)
        levels = levels + np.random.default_rng(self.seed).normal(0, 1, levels.shape) * self.noise
        apart = label(inside + 1, connectivity=1)
        return levels, np.where(inside > 0, apart, 0 if self.has_objects else apart).astype(np.int32)


def make_easy_images() -> list[EasyImage]:
    """All pictures of the suite; in each the signal-to-noise ratio is above two."""
    levels = [(5, 0), (5, 2), (20, 0), (20, 8), (50, 20), (100, 25), (100, 45), (140, 60), (200, 0), (200, 60)]
    pictures = []
    for shape in SHAPES:
        for colour in (False, True):
            plain = EasyImage(shape, colour=colour)
            pictures += [replace(plain, contrast=c, noise=n) for c, n in levels]
            pictures += [replace(plain, blur=blur) for blur in (1.0, 2.0)]
            pictures += [replace(plain, dtype=dtype) for dtype in ("uint16", "float32")]
            pictures += [replace(plain, size=size) for size in (64, 512)]
            pictures += [replace(plain, size=256, contrast=c, noise=n) for c, n in ((5, 0), (20, 2), (140, 4))]
    pictures += [EasyImage("square", size=2000, colour=colour) for colour in (False, True)]
    return list(dict.fromkeys(pictures))


def select_for_preset(preset: str, pictures: list[EasyImage]) -> list[EasyImage]:
    """The pictures that are of the kind which a preset is for.

    `general` is for any, `photo` for those in colour, `microscopy` for objects on a background; `membranes` claims
    nothing here, and neither does `paper`, which is as it was published.
    """
    kinds: Mapping[str, Callable[[EasyImage], bool]] = {
        "general": lambda picture: True,
        "photo": lambda picture: picture.colour,
        "microscopy": lambda picture: picture.has_objects,
    }
    if preset not in kinds:
        raise InputError(f"the easy pictures are for the presets {', '.join(kinds)}, not {preset}")
    return [picture for picture in pictures if kinds[preset](picture)]


def make_empty_images(size: int = 256) -> dict[str, NDArray[Any]]:
    """20 pictures (size, size) uint8 without an object, by name: noise, gradients, and what is out of focus."""
    rng = np.random.default_rng(14)
    side = np.linspace(-0.5, 0.5, size)
    rows, columns = np.meshgrid(side, side, indexing="ij")
    fields: dict[str, Float64Array] = {}
    for sigma in (2, 10, 25, 60):
        fields[f"noise-{sigma}"] = sigma * rng.normal(size=rows.shape)
    for width in (1, 2, 4, 8):
        smooth = ndimage.gaussian_filter(rng.normal(size=rows.shape), width)
        fields[f"soft-noise-{width}"] = 25 * smooth / smooth.std()
    counts = rng.poisson(np.full(rows.shape, 4.0))
    fields["photons"] = 12.0 * (counts - counts.mean())
    fields["even-noise"] = 80.0 * (rng.random(rows.shape) - 0.5)
    for contrast, noise in ((100, 0), (100, 10), (40, 25)):
        fields[f"ramp-{contrast}-{noise}"] = contrast * (0.8 * columns + 0.6 * rows) + noise * rng.normal(
            size=rows.shape
        )
    dark = -150 * (rows**2 + columns**2)
    for noise in (0, 10):
        fields[f"corners-{noise}"] = dark + noise * rng.normal(size=rows.shape)
    spots = np.zeros(rows.shape)
    spots[tuple(rng.integers(0, size, (2, 30)))] = 1.0
    for width, noise in ((20, 0), (20, 10), (30, 5)):
        haze = ndimage.gaussian_filter(spots, width, mode="wrap")
        fields[f"haze-{width}-{noise}"] = 80 * (haze / haze.max() - 0.5) + noise * rng.normal(size=rows.shape)
    fields["constant"] = np.zeros(rows.shape)
    fields["nearly-constant"] = (rng.random(rows.shape) < 0.5).astype(np.float64)
    return {name: np.clip(np.rint(MIDDLE + field), 0, 255).astype(np.uint8) for name, field in fields.items()}


def _stored(levels: Float64Array, dtype: str) -> NDArray[Any]:
    """Grey levels of 255 in one of `UNITS`; whole numbers are rounded, and end where their type ends."""
    values = levels * UNITS[dtype]
    if dtype == "float32":
        return values.astype(np.float32)
    return np.clip(np.rint(values), 0, np.iinfo(dtype).max).astype(dtype)
