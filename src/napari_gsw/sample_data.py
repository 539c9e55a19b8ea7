"""Sample images: photographs of scikit-image, and synthetic images with their ground truth.

Each function returns an image and its truth: uint8 labels from 1 (0 is background), or None. In napari each image opens
with the preset that suits it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import imageio.v3 as iio
import numpy as np
import skimage
from numpy.typing import NDArray
from scipy import ndimage

from napari_gsw.core.errors import InputError

Image = NDArray[Any]
Truth = NDArray[np.uint8] | None

# Keys of the metadata of a layer: the preset that suits an image, and whether labels are scribbles to begin with.
PRESET_KEY, SCRIBBLES_KEY = "napari-gsw preset", "napari-gsw strokes"
# Size of a voxel of the uneven volume along z, y, x, in micrometres.
UNEVEN = (2.0, 0.5, 0.5)


def _open_photograph(name: str, file: str) -> tuple[Image, Truth]:
    """Read an image of scikit-image from its file if it is installed, since `skimage.data` takes long to import."""
    path = Path(skimage.__file__).parent / "data" / file
    return iio.imread(path) if path.exists() else np.asarray(getattr(skimage.data, name)()), None


# 512 x 512 RGB (Eileen Collins, NASA, public domain); stained colon tissue under the microscope, 512 x 512 RGB
# (immunohistochemistry); a photograph of a cup, 400 x 600 RGB (Rachel Michetti, by permission).
astronaut = partial(_open_photograph, "astronaut", "astronaut.png")
tissue = partial(_open_photograph, "immunohistochemistry", "ihc.png")
coffee = partial(_open_photograph, "coffee", "coffee.png")


def mosaic() -> tuple[Image, Truth]:
    """Make six noisy colour patches with curved borders, 240 x 320 RGB."""
    rng = np.random.default_rng(6)
    truth = _patches((240, 320), 6, 40.0, rng)
    colours = np.array([[196, 78, 62], [72, 120, 180], [98, 160, 88], [222, 184, 84], [120, 84, 150], [200, 200, 196]])
    noise = rng.normal(0, 22, (*truth.shape, 3)) + ndimage.gaussian_filter(rng.normal(0, 40, truth.shape), 3)[..., None]
    return np.clip(colours[truth - 1] + noise, 0, 255).astype(np.uint8), truth


def mosaic_3d() -> tuple[Image, Truth]:
    """Make five noisy grey levels in a volume of 24 x 96 x 96 voxels, uint16."""
    rng = np.random.default_rng(3)
    truth = _patches((24, 96, 96), 5, 14.0, rng)
    return _add_noise(truth, (800, 1500, 2200, 2900, 3600), 220, rng), truth


def uneven_volume() -> tuple[Image, Truth]:
    """Make four noisy grey levels, 12 x 96 x 96 uint16, with voxels four times as deep as wide (see ``UNEVEN``)."""
    rng = np.random.default_rng(4)
    truth = _patches((48, 96, 96), 4, 13.0, rng)[::4]
    return _add_noise(truth, (900, 1700, 2500, 3300), 260, rng), truth


def _add_noise(truth: NDArray[np.uint8], levels: Sequence[int], sigma: float, rng: np.random.Generator) -> Image:
    return np.clip(np.array(levels)[truth - 1] + rng.normal(0, sigma, truth.shape), 0, 65535).astype(np.uint16)


def coffee_scribbles() -> NDArray[np.uint8]:
    """Make scribbles on the coffee, (400, 600): 1 table, 2 saucer, 3 cup, 4 coffee, 5 spoon, 0 elsewhere."""
    lines: dict[int, list[tuple[tuple[int, int], ...]]] = {
        1: [((240, 40), (340, 60), (380, 120)), ((80, 500), (200, 560), (320, 520)), ((60, 60), (40, 160))],
        2: [((180, 110), (290, 150), (350, 240), (352, 370)), ((220, 450), (260, 460))],
        3: [((60, 200), (28, 300), (80, 390)), ((200, 240), (212, 340)), ((268, 222), (282, 228))],
        4: [((140, 230), (130, 280), (150, 340))],
        5: [((280, 360), (296, 380))],
    }
    scribbles = np.zeros((400, 600), np.uint8)
    for number, polylines in lines.items():
        for points in polylines:
            for (y, x), (v, u) in pairwise(points):
                along = np.linspace(0, 1, 1 + 2 * max(abs(v - y), abs(u - x)))
                scribbles[np.rint(y + along * (v - y)).astype(int), np.rint(x + along * (u - x)).astype(int)] = number
    return np.asarray(ndimage.grey_dilation(scribbles, (5, 5)))


def nuclei() -> tuple[Image, Truth]:
    """Make fluorescent nuclei, many of which touch, 256 x 256 uint16."""
    rng = np.random.default_rng(11)
    cells = _scatter_cells(46, (256, 256), rng)
    return _draw_cells(cells, (256, 256), rng)


def nuclei_time() -> tuple[Image, Truth]:
    """Make fluorescent nuclei that move, 8 frames of 160 x 200 uint16; a nucleus keeps its label."""
    rng = np.random.default_rng(5)
    cells = _scatter_cells(22, (160, 200), rng)
    speed = np.zeros(cells.shape)
    speed[:, :2] = rng.normal(0, 1.6, (len(cells), 2))
    frames = [_draw_cells(cells + t * speed, (160, 200), rng) for t in range(8)]
    images, truths = zip(*frames, strict=True)
    return np.stack(images), np.stack(truths)


def membranes() -> tuple[Image, Truth]:
    """Make cells with dark membranes, 256 x 256 uint8, as an electron microscope shows them."""
    rng = np.random.default_rng(8)
    shape = (256, 256)
    centres = np.array([(y, x) for y in range(0, 290, 34) for x in range(0, 290, 34)]) + rng.normal(0, 8, (81, 2))
    warp = [ndimage.gaussian_filter(rng.normal(0, 60, shape), 9) for _ in range(2)]
    places = np.moveaxis(np.indices(shape) + np.stack(warp), 0, -1)
    from scipy.spatial import KDTree  # takes a tenth of a second, which most samples do not need

    near, which = map(np.asarray, KDTree(centres).query(places, k=2))
    wall = np.exp(-(((near[..., 1] - near[..., 0]) / 3.5) ** 2))
    inside = rng.normal(0, 6, len(centres))[which[..., 0]] + ndimage.gaussian_filter(rng.normal(0, 26, shape), 1.5)
    grey = 168 + inside - 105 * wall + rng.normal(0, 9, shape)
    numbers = np.unique(which[..., 0], return_inverse=True)[1].reshape(shape) + 1
    return np.clip(grey, 0, 255).astype(np.uint8), numbers.astype(np.uint8)


def random_mosaic(rng: np.random.Generator, shape: tuple[int, int] = (160, 200)) -> tuple[Image, NDArray[np.uint8]]:
    """Make four to eight noisy patches of random colours with curved borders."""
    truth = _patches(shape, int(rng.integers(4, 9)), 26.0, rng)
    colours = rng.uniform(40, 215, (8, 3))
    shade = ndimage.gaussian_filter(rng.normal(0, 60, shape), 3)[..., None]
    noisy = colours[truth - 1] + rng.normal(0, 24, (*shape, 3)) + shade
    return np.clip(noisy, 0, 255).astype(np.uint8), truth


SAMPLES: dict[str, Callable[[], tuple[Image, Truth]]] = {
    "astronaut": astronaut, "tissue": tissue, "mosaic": mosaic, "mosaic_3d": mosaic_3d, "nuclei": nuclei,
    "membranes": membranes, "uneven_volume": uneven_volume, "coffee": coffee,
}  # fmt: skip


def sample(name: str) -> tuple[Image, Truth]:
    """Return a sample image by name, with its truth if that is known."""
    if name not in SAMPLES:
        raise InputError(f"there is no sample {name!r}; the samples are {', '.join(SAMPLES)}")
    return SAMPLES[name]()


def _patches(shape: tuple[int, ...], count: int, smooth: float, rng: np.random.Generator) -> NDArray[np.uint8]:
    """Make regions 1..count with smooth borders: each where its smooth random field is the largest."""
    fields = [ndimage.gaussian_filter(rng.normal(size=shape), smooth) for _ in range(count)]
    fields = [field / field.std() for field in fields]
    return np.asarray(np.argmax(fields, axis=0) + 1, dtype=np.uint8)


def _scatter_cells(count: int, shape: tuple[int, int], rng: np.random.Generator) -> NDArray[np.float64]:
    """Place ellipses at random so that some touch and none overlap much: centre, radii, angle, intensity (count, 6)."""
    centres: list[NDArray[np.float64]] = []
    while len(centres) < count:
        place = rng.uniform(8, np.array(shape) - 8)
        if all(np.hypot(*(place - other)) > 21 for other in centres):
            centres.append(place)
    radii = rng.uniform((10, 8), (14, 12), (count, 2))
    return np.column_stack((centres, radii, rng.uniform(0, np.pi, count), rng.uniform(700, 2400, count)))


def _draw_cells(
    cells: NDArray[np.float64], shape: tuple[int, int], rng: np.random.Generator
) -> tuple[Image, NDArray[np.uint8]]:
    """Draw ellipses as a camera records them, uint16, and their labels."""
    y, x, long, short, angle, intensity = cells.T[..., np.newaxis, np.newaxis]
    down, right = np.indices(shape)[:, np.newaxis] - np.stack((y, x))  # (n, h, w)
    along, across = down * np.cos(angle) + right * np.sin(angle), right * np.cos(angle) - down * np.sin(angle)
    far = np.hypot(along / long, across / short)
    nearest = far.argmin(axis=0)
    truth = np.where(far.min(axis=0) < 1, nearest + 1, 0).astype(np.uint8)
    texture = 1 + ndimage.gaussian_filter(rng.normal(0, 0.9, shape), 2)
    light = np.where(truth > 0, intensity.ravel()[nearest] * texture * (1 - 0.35 * far.min(axis=0) ** 2), 0)
    blurred = 300 + ndimage.gaussian_filter(light, 1.3) + 60 * np.indices(shape)[1] / shape[1]
    return rng.poisson(blurred / 6).astype(np.uint16) * np.uint16(6), truth


# Layers as (data, options, type). napari's File > Open Sample calls the functions below.
Layers = list[tuple[Image, dict[str, Any], str]]


def _make_layers(name: str, make: Callable[[], tuple[Image, Truth]], preset: str, **options: Any) -> Layers:
    image, truth = make()
    layers: Layers = [(image, {"name": name, "metadata": {PRESET_KEY: preset}, **options}, "image")]
    if truth is not None:
        layers.append((truth, {"name": f"{name} truth", "visible": False, **options}, "labels"))
    return layers


_ZYX = {"axis_labels": ("z", "y", "x")}
astronaut_layers = partial(_make_layers, "astronaut", astronaut, "photo")
tissue_layers = partial(_make_layers, "tissue", tissue, "general")
mosaic_layers = partial(_make_layers, "mosaic", mosaic, "general")
mosaic_3d_layers = partial(_make_layers, "mosaic 3d", mosaic_3d, "general", **_ZYX)
nuclei_layers = partial(_make_layers, "nuclei", nuclei, "microscopy")
nuclei_time_layers = partial(_make_layers, "nuclei in time", nuclei_time, "microscopy", axis_labels=("t", "y", "x"))
membranes_layers = partial(_make_layers, "membranes", membranes, "membranes")
uneven_volume_layers = partial(
    _make_layers, "uneven volume", uneven_volume, "general", scale=UNEVEN, units=("um", "um", "um"), **_ZYX
)


def coffee_layers() -> Layers:
    """Make the layers of the coffee, with scribbles on it."""
    scribbles = {"name": "strokes", "metadata": {SCRIBBLES_KEY: True}}
    return [*_make_layers("coffee", coffee, "photo"), (coffee_scribbles(), scribbles, "labels")]
