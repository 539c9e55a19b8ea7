"""Several image layers as one problem with shared labels.

To a session they are one stack: a slice for each image, as large as the largest, without sites where there is no image.
Each layer has result layers of its own (:mod:`napari_gsw.widgets.layers.several_layers`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from napari.layers import Image, Labels
from numpy.typing import NDArray

from napari_gsw.core.errors import InputError
from napari_gsw.widgets.layers.source import Position, Source


@dataclass(frozen=True, eq=False)
class SeveralImages(Source):
    """Planes of several layers.

    Attributes
    ----------
    members : the source of each layer, that of `layer` first.
    """

    members: tuple[Source, ...] = ()

    def check(self) -> None:
        first = self.members[0]
        if self.where != "image" or self.mask is not None:
            raise InputError("images together are segmented as a whole: choose Where: Whole image")
        if self.channels:
            raise InputError("choose layers as channels or images together, not both")
        for one in self.members:
            one.check()
            name = f"{one.layer.name!r} cannot go with {first.layer.name!r}"
            if one.loop or one.depth != 2:
                raise InputError(f"{one.layer.name!r} is a stack; only planes can be segmented together")
            if one.layer.dtype != first.layer.dtype:
                raise InputError(f"{name}: one has values of type {one.layer.dtype}, the other {first.layer.dtype}")
            if one.axes != first.axes or self._channels(one) != self._channels(first):
                raise InputError(f"{name}: they have different channels")
            if one.large:
                raise InputError(f"{one.layer.name!r} is too large for memory: shared labels need all images in it")

    @staticmethod
    def _channels(one: Source) -> int:
        return 1 if one.channel_axis is None else int(one.layer.data.shape[one.channel_axis])

    @property
    def key(self) -> tuple[Any, ...]:
        return tuple(one.key for one in self.members)

    @property
    def image_layers(self) -> tuple[Image, ...]:
        return tuple(one.layer for one in self.members)

    # ---- axes

    @property
    def several(self) -> bool:
        return True

    @property
    def shared(self) -> bool:
        return True

    @property
    def large(self) -> bool:
        return False

    @property
    def loop_axes(self) -> list[int]:
        return []

    @property
    def loop(self) -> tuple[int, ...]:
        return ()

    @property
    def positions(self) -> list[Position]:
        return [()]

    @property
    def crop(self) -> tuple[slice, ...]:
        return tuple(slice(0, n) for n in self.space)

    @property
    def space(self) -> tuple[int, ...]:
        largest = np.max([one.space for one in self.members], axis=0)
        return (len(self.members), *largest.tolist())

    @property
    def pixels(self) -> int:
        return sum(one.pixels for one in self.members)

    @property
    def pixel_size(self) -> float:
        return self.members[0].pixel_size

    @property
    def ruler(self) -> dict[str, Any]:
        return self.members[0].ruler

    @property
    def loop_letters(self) -> list[str]:
        return []

    # ---- arrays

    @property
    def axes(self) -> str:
        return "Z" + self.members[0].axes

    def image(self, position: Position) -> NDArray[Any]:
        images = [one.image(()) for one in self.members]
        stack = np.zeros((len(images), *np.max([image.shape for image in images], axis=0).tolist()), images[0].dtype)
        for number, image in enumerate(images):
            stack[number][_corner(image.shape)] = image
        return stack

    def planes(self, image: NDArray[Any]) -> list[NDArray[Any]]:
        letters = self.members[0].axes
        planes = []
        for number, one in enumerate(self.members):
            lengths = dict(zip("YX", one.space, strict=True))
            planes.append(np.ascontiguousarray(image[number][tuple(slice(lengths.get(a)) for a in letters)]))
        return planes

    def plane(self, labels: NDArray[Any], number: int) -> NDArray[Any]:
        return np.asarray(labels[number][_corner(self.members[number].space)])

    def mask_at(self, position: Position) -> None:
        return None

    def check_labels(self, labels: Labels) -> None:
        self.members[0].check_labels(labels)

    def check_sites(self, labels: Labels) -> None:
        raise InputError("superpixels of a layer are for one image; choose Superpixels > Layer: Make them")

    def labels_at(self, labels: Labels, position: Position) -> NDArray[Any]:
        """Seeds are those of the first image."""
        first = self.members[0].labels_at(labels, ())
        stack = np.zeros(self.space, first.dtype)
        stack[0][_corner(first.shape)] = first
        return stack

    # ---- labels

    @property
    def label_shape(self) -> tuple[int, ...]:
        return self.space

    @property
    def label_axes(self) -> str:
        return "ZYX"

    def index(self, position: Position) -> tuple[Any, ...]:
        return (slice(None),) * 3

    def geometry(self) -> dict[str, Any]:
        """That of the first image; each layer has its own."""
        return self.members[0].geometry()


def _corner(shape: tuple[int, ...]) -> tuple[slice, ...]:
    """Where an array of a shape lies in a larger one that begins with it."""
    return tuple(slice(n) for n in shape)
