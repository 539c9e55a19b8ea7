"""An image layer -> the arrays to segment, and where their labels belong.

The axes of a layer play four parts: space (the last two or three), channels (one axis, or several layers of one shape),
RGB samples (napari keeps them apart), and what is left, usually time or slices: each position along those is segmented
on its own. Labels have the layer's shape without its channels.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from napari.layers import Image, Labels, Layer, Shapes
from numpy.typing import NDArray

from napari_gsw.core.errors import InputError
from napari_gsw.core.image.lazy import is_lazy, pyramid, stacked
from napari_gsw.core.image.lazy_image import FEW
from napari_gsw.core.image.spacing import relative, spacing_text
from napari_gsw.core.settings import Settings
from napari_gsw.files.geometry import Geometry, ruler, unit_name
from napari_gsw.widgets.layers.shapes_mask import shapes_mask

Position = tuple[int, ...]
Where = Literal["image", "slice", "view"]
# How the slices of an array with three axes of space belong together: as a volume; or each a plane with sites of its
# own, all of one problem with shared labels; or that with sites coupled from slice to slice.
Slices = Literal["volume", "shared", "linked"]
CHANNEL_NAMES = ("c", "ch", "channel", "channels")
TIME_NAMES = ("t", "time", "frame", "frames")
# A lazy image of more pixels is not read into memory.
LARGE = FEW * Settings().block_pixels


def finest(layer: Layer) -> Any:
    """The array of a layer; of a pyramid its finest level."""
    return layer.data[0] if layer.multiscale else layer.data


def _is_lazy(layer: Layer) -> bool:
    return is_lazy(finest(layer))


def guess_channel_axis(layer: Image) -> int | None:
    """The axis whose label says that it holds channels."""
    for axis, name in enumerate(layer.axis_labels):
        if name.lower() in CHANNEL_NAMES and layer.ndim > 2:
            return axis
    return None


def guess_depth(layer: Image, channel_axis: int | None) -> int:
    """3 for a volume; 2 for a single plane, and for a stack whose first axis is time."""
    rest = [a for a in range(layer.ndim) if a != channel_axis]
    if len(rest) < 3 or layer.axis_labels[rest[-3]].lower() in TIME_NAMES:
        return 2
    return 3


@dataclass(frozen=True, eq=False)
class Source:
    """What of an image layer is segmented, and how.

    Attributes
    ----------
    layer : the image.
    channels : further layers of the same shape, taken as channels beside it.
    channel_axis : axis of the layer that holds channels, or None.
    depth : number of spatial axes, 2 or 3.
    slices : how the slices of a stack belong together, where `depth` is 3.
    where : the whole image, the slice that is shown, or the part of it that is visible.
    mask : a Shapes or Labels layer outside which nothing is segmented.
    step : the viewer's position along every axis of the layer, for `slice` and `view`.
    corners : (2, ndim) first and last visible pixel along every axis, for `view`.

    It does not change while the user moves on: what was visible when it was made is what is meant.
    """

    layer: Image
    channels: tuple[Image, ...] = ()
    channel_axis: int | None = None
    depth: int = 2
    slices: Slices = "volume"
    where: Where = "image"
    mask: Layer | None = None
    step: Position = ()
    corners: tuple[Position, Position] = ((), ())

    def check(self) -> None:
        """Raise an InputError that says why this cannot be segmented."""
        layer = self.layer
        if 0 in layer.data.shape:
            raise InputError(f"{layer.name!r} has no pixel")
        if layer.ndim < 2:
            raise InputError(f"{layer.name!r} has {layer.ndim} dimension; two or more are needed")
        if self.channel_axis is not None and not (0 <= self.channel_axis < layer.ndim and layer.ndim > 2):
            raise InputError(f"{layer.name!r} has no axis {self.channel_axis} for channels")
        if len(self._rest) > 4:
            raise InputError(f"{layer.name!r} has {layer.ndim} dimensions; choose which of its axes holds channels")
        if len(self._rest) < self.depth:
            raise InputError(f"{layer.name!r} has only {len(self._rest)} dimensions beside its channels")
        for other in self.channels:
            if other.data.shape != layer.data.shape:
                raise InputError(f"the channel {other.name!r} has another shape than {layer.name!r}")
        if self.channels and (layer.rgb or self.channel_axis is not None):
            raise InputError(f"{layer.name!r} has channels of its own; further layers cannot be added")
        if isinstance(self.mask, Labels) and self.mask.data.shape not in (self.label_shape, self.space):
            raise InputError(
                f"the region {self.mask.name!r} has shape {self.mask.data.shape}, not {_words(self.label_shape)}"
            )
        if isinstance(self.mask, Shapes) and not len(self.mask.data):
            raise InputError(f"{self.mask.name!r} has no shape yet; draw one to say where to segment")
        if self.large and any(n > 1 for n in self.label_shape[: -self.depth]):
            raise InputError(
                f"{layer.name!r} is too large for memory and has {np.prod(self.loop)} positions; extract one of them"
            )
        if self.large and self.shared:
            raise InputError(f"{layer.name!r} is too large for memory: shared labels need all slices in it")
        if self.where == "view" and min(s.stop - s.start for s in self.crop) < 2:
            raise InputError(f"nothing of {layer.name!r} is visible")

    @property
    def key(self) -> tuple[Any, ...]:
        """Equal for two sources that ask for the same arrays."""
        crop = tuple((s.start, s.stop) for s in self.crop)
        axes = (self.channel_axis, self.depth, self.slices)
        mask = None if self.mask is None else str(self.mask.unique_id)
        return (str(self.layer.unique_id), tuple(str(one.unique_id) for one in self.channels), *axes, crop, mask)

    @property
    def image_layers(self) -> tuple[Image, ...]:
        """Every image layer that is looked at."""
        return (self.layer, *self.channels)

    # ---- axes

    @property
    def several(self) -> bool:
        """Whether it is several images, of a layer each."""
        return False

    @property
    def shared(self) -> bool:
        """Whether the slices of a stack are planes that share their labels."""
        return self.depth == 3 and self.slices != "volume"

    @property
    def _rest(self) -> list[int]:
        return [a for a in range(self.layer.ndim) if a != self.channel_axis]

    @property
    def _space(self) -> list[int]:
        return self._rest[-self.depth :]

    @property
    def loop_axes(self) -> list[int]:
        """Axes of the layer along which everything is segmented on its own."""
        return self._loop

    @property
    def label_loop(self) -> tuple[int, ...]:
        """The same as axes of a label image."""
        return tuple(self._label_axes.index(axis) for axis in self.loop_axes)

    @property
    def _loop(self) -> list[int]:
        return self._rest[: -self.depth]

    @property
    def crop(self) -> tuple[slice, ...]:
        """The part of each spatial axis that is segmented."""
        shape = self.layer.data.shape
        slices = [slice(0, shape[a]) for a in self._space]
        if self.where != "view" or len(self.corners[0]) != self.layer.ndim:  # corners of a layer with other axes
            return tuple(slices)
        for i, axis in enumerate(self._space):
            low, high = max(self.corners[0][axis], 0), min(self.corners[1][axis] + 1, shape[axis])
            slices[i] = slice(low, max(low, high))
        return tuple(slices)

    @property
    def space(self) -> tuple[int, ...]:
        """Shape of one segmented array."""
        return tuple(s.stop - s.start for s in self.crop)

    @property
    def full_space(self) -> tuple[int, ...]:
        """Shape of one array, of which a part may be segmented."""
        return tuple(self.layer.data.shape[a] for a in self._space)

    @property
    def spacing(self) -> str:
        """The setting of that name: how far pixels are apart by the layer's scale, where that says anything."""
        if self.shared or len({unit_name(self.layer.units[a]) for a in self._space}) > 1:
            return "auto"
        steps = np.abs(np.asarray(self.layer.scale, dtype=float)[self._space]).tolist()
        return "auto" if relative(steps) is None else spacing_text(steps)

    @property
    def loop(self) -> tuple[int, ...]:
        """Lengths of the axes along which everything is segmented on its own."""
        return tuple(self.layer.data.shape[a] for a in self._loop)

    @property
    def positions(self) -> list[Position]:
        """Where there is something to segment: all positions, or the one that is shown."""
        if self.where in ("slice", "view") and self.loop:
            return [tuple(min(max(int(self.step[a]), 0), self.layer.data.shape[a] - 1) for a in self._loop)]
        return list(itertools.product(*(range(length) for length in self.loop)))

    @property
    def pixels(self) -> int:
        """Number of pixels of one segmented array."""
        return int(np.prod(self.space))

    @property
    def large(self) -> bool:
        """Whether the pixels stay where they are and are read in blocks."""
        return self.pixels > LARGE and all(_is_lazy(layer) for layer in (self.layer, *self.channels))

    # ---- arrays

    @property
    def axes(self) -> str:
        """Letters of the axes of :meth:`image`."""
        letters = ["C" if a == self.channel_axis else "ZYX"[-self.depth :][self._space.index(a)] for a in self._kept]
        return "".join(letters) + ("C" if self.channels else "") + ("S" if self.layer.rgb else "")

    @property
    def _kept(self) -> list[int]:
        return [a for a in range(self.layer.ndim) if a not in self._loop]

    def image(self, position: Position) -> Any:
        """The pixels at a position; a lazy array is computed here (off the GUI thread, please), a large one is not."""
        index: list[Any] = [slice(None)] * self.layer.ndim
        for axis, place in zip(self._loop, position, strict=True):
            index[axis] = place
        for axis, part in zip(self._space, self.crop, strict=True):
            index[axis] = part
        if self.large:
            lazily = [pyramid([finest(layer)])[tuple(index)] for layer in (self.layer, *self.channels)]
            return lazily[0] if len(lazily) == 1 else stacked(lazily)
        arrays = [np.asarray(finest(layer)[tuple(index)]) for layer in (self.layer, *self.channels)]
        return arrays[0] if len(arrays) == 1 else np.stack(arrays, axis=-1)

    def planes(self, image: NDArray[Any]) -> list[NDArray[Any]]:
        """The slices of :meth:`image` where these share their labels, or the several images that it is made of."""
        return list(np.moveaxis(image, self.axes.index("Z"), 0))

    def plane(self, labels: NDArray[Any], number: int) -> NDArray[Any]:
        """The part of an array of the shape of `space` that belongs to one of :meth:`planes`."""
        return np.asarray(labels[number])

    def mask_at(self, position: Position) -> NDArray[np.bool_] | None:
        """True where the array at a position is to be segmented; None for everywhere."""
        if isinstance(self.mask, Labels):
            return self._part(np.asarray(finest(self.mask)) != 0, position)
        if isinstance(self.mask, Shapes):
            plane = shapes_mask(self.mask, self.layer, tuple(self.layer.data.shape[a] for a in self._space[-2:]))
            plane = plane[self.crop[-2], self.crop[-1]]
            if not plane.any():
                raise InputError(f"the shapes of {self.mask.name!r} do not lie on {self.layer.name!r}")
            return np.broadcast_to(plane, self.space)
        return None

    def mask_data(self) -> tuple[NDArray[Any], ...]:
        """What the mask is now, so that a later edit shows: its array, or the corners and kinds of its shapes."""
        if isinstance(self.mask, Labels):
            return (np.array(finest(self.mask)),)
        if isinstance(self.mask, Shapes):
            return (np.array(self.mask.shape_type), *map(np.array, self.mask.data))
        return ()

    def check_labels(self, labels: Labels) -> None:
        """Raise an InputError if a Labels layer (superpixels, seeds) does not fit the image."""
        if labels.data.shape not in (self.label_shape, self.space, self._uncropped):
            raise InputError(f"{labels.name!r} has shape {labels.data.shape}, not {_words(self.label_shape)}")

    def check_sites(self, labels: Labels) -> None:
        """Raise an InputError if a Labels layer cannot be the superpixels of the image."""
        self.check_labels(labels)

    def labels_at(self, labels: Labels, position: Position) -> NDArray[Any]:
        """The part of another Labels layer (superpixels, seeds) that belongs to a position."""
        self.check_labels(labels)
        return self._part(np.asarray(finest(labels)), position)

    @property
    def _uncropped(self) -> tuple[int, ...]:
        return tuple(self.layer.data.shape[a] for a in self._label_axes if a != self.channel_axis)

    def _part(self, array: NDArray[Any], position: Position) -> NDArray[Any]:
        if array.shape == self.space:
            return array
        index: tuple[Any, ...] = self.index(position) if array.shape == self.label_shape else (*position, *self.crop)
        return np.asarray(array[index])

    # ---- labels

    @property
    def _label_axes(self) -> list[int]:
        """Axes of the label array: all but leading channels. Channels further back stay as an axis of length 1, since
        napari aligns layers by their last axes."""
        return [a for a in range(self.layer.ndim) if not (a == self.channel_axis == 0)]

    @property
    def label_shape(self) -> tuple[int, ...]:
        sizes = dict(zip(self._space, self.space, strict=True)) | dict(zip(self._loop, self.loop, strict=True))
        return tuple(sizes.get(a, 1) for a in self._label_axes)

    @property
    def label_axes(self) -> str:
        """A letter for each axis of the label array, as files name them."""
        letters = dict(zip(self._space, "ZYX"[-self.depth :], strict=True))
        free = ["T", "Z"] if self.depth == 2 else ["T"]
        for axis in self._loop:
            named = self.layer.axis_labels[axis].lower()
            slices = self.depth == 2 and len(self._loop) == 1 and named not in TIME_NAMES
            letters[axis] = "Z" if slices else free.pop(0)
        return "".join(letters.get(a, "C") for a in self._label_axes)

    def index(self, position: Position) -> tuple[Any, ...]:
        """Where the labels of a position lie in the label array."""
        places = dict(zip(self._loop, position, strict=True))
        return tuple(
            0 if a == self.channel_axis else places.get(a, slice(None)) for a in self._label_axes
        )  # fmt: skip

    def path_at(self, path: NDArray[np.float64], position: Position) -> NDArray[np.float64]:
        """The points of a path in the label layer that lie at a position, in pixels of its array: (p, depth)."""
        if not len(path):
            return np.empty((0, self.depth))
        place = {a: i for i, a in enumerate(self._label_axes)}
        here = np.ones(len(path), bool)
        for axis, value in zip(self._loop, position, strict=True):
            here &= np.round(path[:, place[axis]]) == value
        points: NDArray[np.float64] = path[here][:, [place[a] for a in self._space]]
        return points

    def geometry(self) -> dict[str, Any]:
        """Keywords that put a label or image layer of `label_shape` where the image is."""
        layer, keep = self.layer, self._label_axes
        scale = np.array(layer.scale, dtype=float)
        start = np.zeros(layer.ndim)
        for axis, part in zip(self._space, self.crop, strict=True):
            start[axis] = part.start
        if self.channel_axis in keep:  # one voxel as thick as all channels, so that it shows beside each of them
            thick = layer.data.shape[self.channel_axis]
            start[self.channel_axis] = (thick - 1) / 2
            scale[self.channel_axis] *= thick
        linear = np.asarray(layer.affine.linear_matrix)
        moved = np.asarray(layer.data_to_world(start)) - np.asarray(layer.data_to_world(np.zeros(layer.ndim)))
        translate = np.asarray(layer.translate) + np.linalg.solve(linear, moved)
        # A leading channel axis goes with its row and its column; the others of a matrix are not mixed with it.
        block = np.ix_([*keep, layer.ndim], [*keep, layer.ndim])
        keywords = dict(
            scale=scale[keep],
            translate=translate[keep],
            rotate=np.asarray(layer.rotate)[np.ix_(keep, keep)],
            affine=np.asarray(layer.affine.affine_matrix)[block],
            units=tuple(layer.units[a] for a in keep),
            axis_labels=tuple(layer.axis_labels[a] for a in keep),
        )
        if len(keep) == layer.ndim:
            keywords["shear"] = layer.shear
        return keywords

    @property
    def pixel_size(self) -> float:
        """Area or volume of a pixel in the layer's units."""
        return float(np.prod(np.abs(np.asarray(self.layer.scale, dtype=float)[self._space])))

    @property
    def ruler(self) -> dict[str, Any]:
        """`scale`, the distance from one pixel to the next along each axis of space, and the symbol of its `unit`."""
        letters = "ZYX"[-len(self._space) :]
        size = dict(zip(letters, np.asarray(self.layer.scale)[self._space].tolist(), strict=True))
        units = dict(zip(letters, [unit_name(self.layer.units[a]) for a in self._space], strict=True))
        return ruler(Geometry(letters, size, units))

    @property
    def loop_letters(self) -> list[str]:
        """A small letter for each axis along which everything is segmented on its own."""
        letters = dict(zip(self._label_axes, self.label_axes.lower(), strict=True))
        return [letters[a] for a in self.loop_axes]


def _words(shape: tuple[int, ...]) -> str:
    return "that of the image: " + " x ".join(map(str, shape))
