"""Pictures and labels -> crops to learn from: turned, scaled, mirrored and recoloured by chance.

All pixels of all pictures lie in one array on the device that learns, and a crop is looked up in it, so that nothing
but a row of random numbers for each crop has to be sent there. What is random is drawn beforehand on the processor:
the same seed gives the same crops.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from napari_gsw.core.array_types import Float32Array


class Recolouring(NamedTuple):
    """How far crops are changed by chance.

    Attributes
    ----------
    zoom : crops are magnified by up to this, or made smaller by as much.
    turn : share of the crops that are turned by any angle; the others by at most ten degrees.
    gamma, gain, contrast : the natural logarithm of each is drawn from a normal law of this width.
    grey : share of crops without colour.
    invert, shuffle : shares of crops with light and dark exchanged, and with their channels in another order.
    noise : width of the noise that is added at most, of values from 0 to 1.
    """

    zoom: float
    turn: float
    gamma: float
    gain: float
    contrast: float
    grey: float
    invert: float = 0.0
    shuffle: float = 0.0
    noise: float = 0.0


PHOTOGRAPHS = Recolouring(zoom=1.7, turn=0.5, gamma=0.25, gain=0.08, contrast=0.15, grey=0.1, noise=0.02)
MICROGRAPHS = Recolouring(
    zoom=2.0, turn=1.0, gamma=0.4, gain=0.2, contrast=0.3, grey=0.3, invert=0.3, shuffle=0.3, noise=0.06
)
# Columns of a row of random numbers.
PICTURE, PLACE_Y, PLACE_X, ZOOM, ANGLE, MIRROR, GAMMA, GAIN, CONTRAST, GREY, INVERT, ORDER, NOISE, SHIFT = (
    0, 1, 2, 3, 4, 5, 6, 7, 10, 11, 12, 13, 16, 17,
)  # fmt: skip
COLUMNS = 19
# Pixels of the noise that is looked up, along each axis.
NOISE_SIDE = 1024


def draws(rng: np.random.Generator, shape: tuple[int, ...], pictures: int, how: Recolouring) -> Float32Array:
    """(\\*shape, columns) float32 random numbers, a row for each crop."""
    rows = np.zeros((*shape, COLUMNS), np.float32)
    rows[..., PICTURE] = rng.integers(0, pictures, shape)
    rows[..., [PLACE_Y, PLACE_X]] = rng.random((*shape, 2))
    rows[..., ZOOM] = np.exp(rng.uniform(-1, 1, shape) * math.log(how.zoom))
    any_angle = rng.uniform(-math.pi, math.pi, shape)
    rows[..., ANGLE] = np.where(rng.random(shape) < how.turn, any_angle, any_angle / 18)
    rows[..., MIRROR] = np.where(rng.random(shape) < 0.5, -1, 1)
    rows[..., GAMMA] = np.exp(how.gamma * rng.normal(size=shape))
    rows[..., GAIN : GAIN + 3] = np.exp(how.gain * rng.normal(size=(*shape, 3)))
    rows[..., CONTRAST] = np.exp(how.contrast * rng.normal(size=shape))
    rows[..., GREY] = rng.random(shape) < how.grey
    rows[..., INVERT] = rng.random(shape) < how.invert
    mixed = rng.permuted(np.broadcast_to(np.arange(3), (*shape, 3)), axis=-1)
    rows[..., ORDER : ORDER + 3] = np.where((rng.random(shape) < how.shuffle)[..., None], mixed, np.arange(3))
    rows[..., NOISE] = how.noise * rng.random(shape)
    rows[..., SHIFT : SHIFT + 2] = rng.integers(0, NOISE_SIDE, (*shape, 2))
    return rows


def numbered(labels: NDArray[np.integer[Any]]) -> NDArray[np.int16]:
    """Labels (h, w) as 0, 1, 2, ... in the order of their numbers."""
    numbers: NDArray[np.int16] = np.unique(labels, return_inverse=True)[1].reshape(labels.shape).astype(np.int16)
    return numbers


class PictureStore:
    """Pictures of any sizes with the labels that several people gave them, pixel after pixel on a device.

    Attributes
    ----------
    people : (pictures, most people) float32 weight of each person's labels, which sum to 1 for a picture.
    """

    def __init__(
        self,
        images: Sequence[NDArray[np.uint8]],
        labels: Sequence[Sequence[NDArray[np.int16]]],
        device: torch.device,
        extra: Sequence[NDArray[np.uint8]] | None = None,
    ) -> None:
        """Images (h, w, 3); of each the labels (h, w) of one person or more, as :func:`numbered` gives them; `extra`
        (h, w, values) for each pixel.
        """
        most = max(len(one) for one in labels)
        self.start = torch.tensor(np.cumsum([0, *(i.shape[0] * i.shape[1] for i in images)])[:-1], device=device)
        self.shape = torch.tensor([i.shape[:2] for i in images], device=device)
        self.pixels = torch.tensor(np.concatenate([i.reshape(-1, 3) for i in images]), device=device)
        rows, weights = [], np.zeros((len(images), most), np.float32)
        for number, one in enumerate(labels):
            flat = np.stack([person.ravel() for person in one], axis=1)
            rows.append(np.pad(flat, ((0, 0), (0, most - len(one))), mode="edge"))
            weights[number, : len(one)] = 1 / len(one)
        self.labels = torch.tensor(np.concatenate(rows), device=device)
        self.people = torch.tensor(weights, device=device)
        self.extra = None
        if extra is not None:
            self.extra = torch.tensor(np.concatenate([e.reshape(-1, e.shape[-1]) for e in extra]), device=device)
        noise = np.random.default_rng(0).normal(size=(NOISE_SIDE, NOISE_SIDE)).astype(np.float32)
        self.noise = torch.tensor(noise, device=device)

    def __len__(self) -> int:
        return len(self.start)

    def crops(self, rows: torch.Tensor, side: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]:
        """Crops of random numbers (b, columns).

        Returns
        -------
        images : (b, 3, side, side) float32 sRGB from 0 to 1.
        labels : (b, side, side, people) int16.
        extra : (b, side, side, values) float32 from 0 to 1, or None.
        """
        number = rows[:, PICTURE].long()
        shape, start = self.shape[number].float(), self.start[number]
        steps = torch.arange(side, device=rows.device) - (side - 1) / 2
        dy, dx = torch.meshgrid(steps, steps, indexing="ij")
        zoom, angle, mirror = (rows[:, column, None, None] for column in (ZOOM, ANGLE, MIRROR))
        cos, sin = torch.cos(angle) / zoom, torch.sin(angle) / zoom
        # The middle of a crop keeps away from the frame as far as the crop reaches, if there is room.
        margin = torch.clamp(0.4 * side / (rows[:, ZOOM, None] * shape), max=0.5)
        middle = (margin + rows[:, PLACE_Y : PLACE_X + 1] * (1 - 2 * margin)) * (shape - 1)
        y = middle[:, 0, None, None] + cos * dy - sin * dx * mirror
        x = middle[:, 1, None, None] + sin * dy + cos * dx * mirror
        y, x = _reflected(y, shape[:, 0, None, None]), _reflected(x, shape[:, 1, None, None])
        width, first = self.shape[number][:, 1, None, None], start[:, None, None]
        nearest = first + torch.round(y).long() * width + torch.round(x).long()
        top, left = torch.floor(y).long(), torch.floor(x).long()
        down = torch.minimum(top + 1, self.shape[number][:, 0, None, None] - 1)
        right = torch.minimum(left + 1, width - 1)
        share_y, share_x = (y - top)[..., None], (x - left)[..., None]

        def at(row: torch.Tensor, column: torch.Tensor) -> torch.Tensor:
            return self.pixels[first + row * width + column].float()

        upper = at(top, left) * (1 - share_x) + at(top, right) * share_x
        lower = at(down, left) * (1 - share_x) + at(down, right) * share_x
        images = (upper * (1 - share_y) + lower * share_y).permute(0, 3, 1, 2) / 255
        extra = None if self.extra is None else self.extra[nearest].float() / 255
        return self._recoloured(images, rows, side), self.labels[nearest], extra

    def _recoloured(self, images: torch.Tensor, rows: torch.Tensor, side: int) -> torch.Tensor:
        """Images (b, 3, side, side) with other colours."""

        def column(first: int, count: int = 1) -> torch.Tensor:
            return rows[:, first : first + count, None, None]

        images = torch.gather(images, 1, column(ORDER, 3).long().expand_as(images))
        images = torch.where(column(INVERT) > 0, 1 - images, images)
        images = torch.where(column(GREY) > 0, images.mean(1, keepdim=True), images)
        images = images.clamp(min=1e-4) ** column(GAMMA) * column(GAIN, 3)
        mean = images.mean((1, 2, 3), keepdim=True)
        images = mean + (images - mean) * column(CONTRAST)
        steps = torch.arange(side, device=rows.device)
        y = (rows[:, SHIFT].long()[:, None] + steps) % NOISE_SIDE
        x = (rows[:, SHIFT + 1].long()[:, None] + steps) % NOISE_SIDE
        noise = self.noise[y[:, :, None], x[:, None, :]]
        return (images + column(NOISE) * noise[:, None]).clamp(0, 1)


def _reflected(place: torch.Tensor, length: torch.Tensor) -> torch.Tensor:
    """Places beyond the ends of an axis, mirrored back into 0..length - 1."""
    turn = torch.remainder(place, 2 * (length - 1).clamp(min=1))
    return torch.minimum(torch.where(turn > length - 1, 2 * (length - 1) - turn, turn), length - 1)


# From linear sRGB to X, Y and Z in units of those of white (D65), as in core/image/normalized_image.py.
TO_XYZ = (
    (0.412453 / 0.95047, 0.357580 / 0.95047, 0.180423 / 0.95047),
    (0.212671, 0.715160, 0.072169),
    (0.019334 / 1.08883, 0.119193 / 1.08883, 0.950227 / 1.08883),
)


def lab(images: torch.Tensor) -> torch.Tensor:
    """(b, 3, h, w) CIE Lab of sRGB images from 0 to 1."""
    light = torch.where(images > 0.04045, ((images + 0.055) / 1.055).clamp(min=0) ** 2.4, images / 12.92)
    r, g, b = light.unbind(1)
    xyz = torch.stack([u * r + v * g + w * b for u, v, w in TO_XYZ], dim=1)
    knee = (6 / 29) ** 3
    bent = torch.where(xyz > knee, xyz.clamp(min=knee) ** (1 / 3), xyz * (29**2 / (3 * 6**2)) + 4 / 29)
    x, y, z = bent.unbind(1)
    return torch.stack((116 * y - 16, 500 * (x - y), 200 * (y - z)), dim=1)
