"""Pictures to try the package on: two real ones that come with scikit-image, and two mosaics whose truth is known.

A function of one picture returns it and its truth, an image of uint8 labels from 1 or None.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from napari_gsw.core.errors import InputError

Image = NDArray[Any]
Truth = NDArray[np.uint8] | None


def astronaut() -> tuple[Image, Truth]:
    """A photograph, 512 x 512 RGB (Eileen Collins, NASA, public domain)."""
    from skimage import data

    return data.astronaut(), None


def tissue() -> tuple[Image, Truth]:
    """Stained colon tissue under the microscope, 512 x 512 RGB (immunohistochemistry)."""
    from skimage import data

    return data.immunohistochemistry(), None


def mosaic() -> tuple[Image, Truth]:
    """Six noisy colour patches with curved borders, 240 x 320 RGB, and which is which."""
    rng = np.random.default_rng(6)
    truth = _patches((240, 320), 6, 40.0, rng)
    colours = np.array([[196, 78, 62], [72, 120, 180], [98, 160, 88], [222, 184, 84], [120, 84, 150], [200, 200, 196]])
    noise = rng.normal(0, 22, (*truth.shape, 3)) + ndimage.gaussian_filter(rng.normal(0, 40, truth.shape), 3)[..., None]
    return np.clip(colours[truth - 1] + noise, 0, 255).astype(np.uint8), truth


def mosaic_3d() -> tuple[Image, Truth]:
    """Five noisy grey levels in a volume of 24 x 96 x 96 voxels, uint16, and which is which."""
    rng = np.random.default_rng(3)
    truth = _patches((24, 96, 96), 5, 14.0, rng)
    levels = np.array([800, 1500, 2200, 2900, 3600])
    return np.clip(levels[truth - 1] + rng.normal(0, 220, truth.shape), 0, 65535).astype(np.uint16), truth


def photographs() -> dict[str, Image]:
    """All colour photographs that come with scikit-image, by name."""
    from skimage import data

    return {name: getattr(data, name)() for name in ("astronaut", "chelsea", "coffee", "rocket")}


def random_mosaic(rng: np.random.Generator, shape: tuple[int, int] = (160, 200)) -> tuple[Image, NDArray[np.uint8]]:
    """Four to eight noisy patches of random colours with curved borders, and which is which."""
    truth = _patches(shape, int(rng.integers(4, 9)), 26.0, rng)
    colours = rng.uniform(40, 215, (8, 3))
    shade = ndimage.gaussian_filter(rng.normal(0, 60, shape), 3)[..., None]
    noisy = colours[truth - 1] + rng.normal(0, 24, (*shape, 3)) + shade
    return np.clip(noisy, 0, 255).astype(np.uint8), truth


SAMPLES = {"astronaut": astronaut, "tissue": tissue, "mosaic": mosaic, "mosaic_3d": mosaic_3d}


def sample(name: str) -> tuple[Image, Truth]:
    """A sample picture by name, with its truth where that is known."""
    if name not in SAMPLES:
        raise InputError(f"there is no sample {name!r}; the samples are {', '.join(SAMPLES)}")
    return SAMPLES[name]()


def _patches(shape: tuple[int, ...], count: int, smooth: float, rng: np.random.Generator) -> NDArray[np.uint8]:
    """Random regions 1..count with smooth borders: where a smooth random field of each is the largest."""
    fields = [ndimage.gaussian_filter(rng.normal(size=shape), smooth) for _ in range(count)]
    fields = [field / field.std() for field in fields]
    return np.asarray(np.argmax(fields, axis=0) + 1, dtype=np.uint8)


# What napari's File > Open Sample calls: layers as (data, options, type).
Layers = list[tuple[Image, dict[str, Any], str]]


def _layers(name: str) -> Layers:
    image, truth = sample(name)
    layers: Layers = [(image, {"name": name.replace("_", " ")}, "image")]
    if truth is not None:
        layers.append((truth, {"name": f"{name.replace('_', ' ')} truth", "visible": False}, "labels"))
    return layers


def astronaut_layers() -> Layers:
    """The astronaut for napari."""
    return _layers("astronaut")


def tissue_layers() -> Layers:
    """The tissue for napari."""
    return _layers("tissue")


def mosaic_layers() -> Layers:
    """The mosaic for napari, its truth hidden."""
    return _layers("mosaic")


def mosaic_3d_layers() -> Layers:
    """The 3D mosaic for napari, its truth hidden."""
    return _layers("mosaic_3d")
