"""Images that any segmentation must get right: plain shapes of known contrast in known noise.

The signal-to-noise ratio is contrast over noise of one pixel. Above two a person sees the shapes at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from scipy import ndimage
from skimage.measure import label

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
# A ramp is a square on a background that, like the square, grows lighter from left to right.
SHAPES = ("square", "disks", "stripes", "ramp")
# The shapes that are objects on a background.
OBJECTS = ("square", "disks", "ramp")


@dataclass(frozen=True)
class EasyImage:
    """An image that is drawn when it is read."""

    shape: str  # one of `SHAPES`
    size: int = 128  # pixels along each side
    colour: bool = False  # RGB instead of grey
    contrast: float = 100.0  # of 255 grey levels
    noise: float = 25.0  # standard deviation of a Gaussian, independent in each channel
    blur: float = 0.0  # width in pixels of a Gaussian blur, before the noise
    dtype: str = "uint8"  # one of `UNITS`
    seed: int = 0  # of the noise
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
        """True if the truth is objects on a background, 0."""
        return self.shape in OBJECTS

    def read(self) -> AnnotatedImage:
        """Draw the image and its truth: the connected parts of the shapes."""
        side = (np.arange(self.size) + 0.5) / self.size
        rows, columns = np.meshgrid(side, side, indexing="ij")
        if self.shape == "stripes":
            is_inside = np.floor(4 * (0.9 * columns + 0.1 * rows)) % 2 == 1
        elif self.shape == "disks":
            is_inside = (np.hypot(rows - 0.3, columns - 0.32) < 0.17) | (np.hypot(rows - 0.67, columns - 0.65) < 0.2)
        else:
            is_inside = (np.abs(rows - 0.47) < 0.25) & (np.abs(columns - 0.53) < 0.25)
        signal = is_inside - 0.5
        if self.shape == "ramp":
            signal = signal + RAMP * (columns - 0.5)
        if self.blur:
            signal = ndimage.gaussian_filter(signal, self.blur)
        levels = MIDDLE + self.contrast * (signal[..., np.newaxis] * COLOUR if self.colour else signal)
        levels = levels + np.random.default_rng(self.seed).normal(0, 1, levels.shape) * self.noise
        values = levels * UNITS[self.dtype]
        if self.dtype != "float32":
            values = np.clip(np.rint(values), 0, np.iinfo(self.dtype).max)
        parts = label(is_inside + 1, connectivity=1)
        truth = np.where(is_inside, parts, 0 if self.has_objects else parts).astype(np.int32)
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
    if preset not in ("general", "photo", "microscopy"):
        raise InputError(f"the easy images are for the presets general, photo, microscopy, not {preset}")
    return [
        image for image in images if preset == "general" or (image.colour if preset == "photo" else image.has_objects)
    ]
