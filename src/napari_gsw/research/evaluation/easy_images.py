"""Images that any segmentation must get right: plain shapes of known contrast in known noise.

Difficulty is measured by the signal-to-noise ratio, contrast over noise of one pixel. Above two a person sees the
shapes at once. :func:`make_easy_images` has them in many sizes, types and contrasts; :func:`make_empty_images` has
images without any object.
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

# The mean grey level, of 255.
MIDDLE = 128.0
# The step of each colour channel at the shape, in units of the contrast.
COLOUR = np.array([1.0, -0.6, 0.3])
# The increase of a ramp from one side of the image to the other, in units of the contrast.
RAMP = 0.25
# The value of a grey level in each type.
UNITS: Mapping[str, float] = {"uint8": 1.0, "uint16": 257.0, "float32": 1 / 255}


def _square(rows: Float64Array, columns: Float64Array) -> Int32Array:
    return ((np.abs(rows - 0.47) < 0.25) & (np.abs(columns - 0.53) < 0.25)).astype(np.int32)


def _disks(rows: Float64Array, columns: Float64Array) -> Int32Array:
    discs = ((0.3, 0.32, 0.17), (0.67, 0.65, 0.2))
    return np.asarray(np.any([np.hypot(rows - y, columns - x) < r for y, x, r in discs], axis=0), dtype=np.int32)


def _stripes(rows: Float64Array, columns: Float64Array) -> Int32Array:
    return (np.floor(4 * (0.9 * columns + 0.1 * rows)) % 2).astype(np.int32)


# A ramp is a square on a background that, like the square, grows lighter from left to right.
SHAPES: Mapping[str, Callable[[Float64Array, Float64Array], Int32Array]] = {
    "square": _square, "disks": _disks, "stripes": _stripes, "ramp": _square,
}  # fmt: skip
# The shapes that are objects on a background.
OBJECTS = ("square", "disks", "ramp")


@dataclass(frozen=True)
class EasyImage:
    """An image that is drawn when it is read.

    Parameters
    ----------
    shape : str
        One of `SHAPES`.
    size : int
        Pixels along each side.
    colour : bool
        RGB instead of grey.
    contrast, noise : float
        Of 255 grey levels; noise is the standard deviation of a Gaussian, independent in each channel.
    blur : float
        Width in pixels of a Gaussian blur, before the noise.
    dtype : str
        One of `UNITS`.
    seed : int
        Random seed of the noise.
    """

    shape: str
    size: int = 128
    colour: bool = False
    contrast: float = 100.0
    noise: float = 25.0
    blur: float = 0.0
    dtype: str = "uint8"
    seed: int = 0

    files: tuple[Path, ...] = ()
    painted: bool = False

    @property
    def name(self) -> str:
        """All parameters in one word."""
        kind = "colour" if self.colour else "grey"
        blur = f"-b{self.blur:g}" if self.blur else ""
        seed = f"-s{self.seed}" if self.seed else ""
        return f"{self.shape}-{kind}-{self.size}-c{self.contrast:g}-n{self.noise:g}{blur}-{self.dtype}{seed}"

    @property
    def has_objects(self) -> bool:
        """Whether the truth is objects on a background, 0."""
        return self.shape in OBJECTS

    @property
    def ratio(self) -> float:
        """Signal-to-noise ratio of a pixel."""
        return self.contrast / self.noise if self.noise else np.inf

    def read(self) -> AnnotatedImage:
        """Draw the image and its truth: the connected parts of the shapes."""
        side = (np.arange(self.size) + 0.5) / self.size
        rows, columns = np.meshgrid(side, side, indexing="ij")
        shape = SHAPES[self.shape](rows, columns)
        signal = shape - 0.5
        if self.shape == "ramp":
            signal = signal + RAMP * (columns - 0.5)
        if self.blur:
            signal = ndimage.gaussian_filter(signal, self.blur)
        levels = MIDDLE + self.contrast * (signal[..., np.newaxis] * COLOUR if self.colour else signal)
        levels = levels + np.random.default_rng(self.seed).normal(0, 1, levels.shape) * self.noise
        values = levels * UNITS[self.dtype]
        if self.dtype != "float32":
            values = np.clip(np.rint(values), 0, np.iinfo(self.dtype).max)
        parts = label(shape + 1, connectivity=1)
        truth = np.where(shape > 0, parts, 0 if self.has_objects else parts).astype(np.int32)
        return AnnotatedImage(values.astype(self.dtype), "YXS" if self.colour else "YX", [truth], False)


def make_easy_images() -> list[EasyImage]:
    """List all images of the suite; in each the signal-to-noise ratio is above two."""
    levels = [(5, 0), (5, 2), (20, 0), (20, 8), (50, 20), (100, 25), (100, 45), (140, 60), (200, 0), (200, 60)]
    images = []
    for shape in SHAPES:
        for colour in (False, True):
            plain = EasyImage(shape, colour=colour)
            images += [replace(plain, contrast=c, noise=n) for c, n in levels]
            images += [replace(plain, blur=blur) for blur in (1.0, 2.0)]
            images += [replace(plain, dtype=dtype) for dtype in ("uint16", "float32")]
            images += [replace(plain, size=size) for size in (64, 512)]
            images += [replace(plain, size=256, contrast=c, noise=n) for c, n in ((5, 0), (20, 2), (140, 4))]
    images += [EasyImage("square", size=2000, colour=colour) for colour in (False, True)]
    return list(dict.fromkeys(images))


def select_for_preset(preset: str, images: list[EasyImage]) -> list[EasyImage]:
    """Select the images that a preset is for.

    `general` is for any, `photo` for those in colour, `microscopy` for objects on a background.
    """
    kinds: Mapping[str, Callable[[EasyImage], bool]] = {
        "general": lambda image: True,
        "photo": lambda image: image.colour,
        "microscopy": lambda image: image.has_objects,
    }
    if preset not in kinds:
        raise InputError(f"the easy images are for the presets {', '.join(kinds)}, not {preset}")
    return [image for image in images if kinds[preset](image)]


def make_empty_images(size: int = 256) -> dict[str, NDArray[Any]]:
    """Make 20 images (size, size) uint8 without an object, by name: noise, gradients, and blurred spots."""
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
        ramp = contrast * (0.8 * columns + 0.6 * rows)
        fields[f"ramp-{contrast}-{noise}"] = ramp + noise * rng.normal(size=rows.shape)
    for noise in (0, 10):
        fields[f"corners-{noise}"] = -150 * (rows**2 + columns**2) + noise * rng.normal(size=rows.shape)
    spots = np.zeros(rows.shape)
    spots[tuple(rng.integers(0, size, (2, 30)))] = 1.0
    for width, noise in ((20, 0), (20, 10), (30, 5)):
        haze = ndimage.gaussian_filter(spots, width, mode="wrap")
        fields[f"haze-{width}-{noise}"] = 80 * (haze / haze.max() - 0.5) + noise * rng.normal(size=rows.shape)
    fields["constant"] = np.zeros(rows.shape)
    fields["nearly-constant"] = (rng.random(rows.shape) < 0.5).astype(np.float64)
    return {name: np.clip(np.rint(MIDDLE + field), 0, 255).astype(np.uint8) for name, field in fields.items()}
