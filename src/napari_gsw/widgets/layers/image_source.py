"""What the odd axis of an image probably means that nobody has named: channels, time, or depth."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from napari.layers import Image, Labels, Layer, Shapes
from numpy.typing import NDArray

from napari_gsw.core.errors import InputError
from napari_gsw.core.image.lazy import MAX_WHOLE_BLOCKS, is_lazy, stack_channels, to_dask_pyramid
from napari_gsw.core.image.spacing import format_spacing, normalize_spacing
from napari_gsw.core.settings import Settings
from napari_gsw.files.geometry import Geometry, normalize_unit, scale_and_unit
from napari_gsw.widgets.layers.shapes_mask import make_shapes_mask

AxisMeaning = Literal["channels", "time", "depth"]
# Up to so many planes are channels, probably, and up to so many times; up to so many there is a question at all: more
# are a volume.
MAX_CHANNELS, MAX_TIMES, MAX_PLANES = 4, 8, 16
# How many times longer the other axes are at least.
MIN_LENGTH_RATIO = 4


class AxisGuess(NamedTuple):
    """A question about an image.

    Attributes
    ----------
    axis : the axis that it is about. planes : how many there are along it. guess : the likeliest answer.
    """

    axis: int
    planes: int
    guess: AxisMeaning


def guess_axis(layer: Image) -> AxisGuess | None:
    """The question that an image raises that has no names of axes, and no spacing. None if it raises none.

    Of three axes one is short; of four, one of the first two is as short as channels are.

    >>> import numpy as np
    >>> axis_guess(Image(np.zeros((3, 40, 50)), rgb=False))
    AxisGuess(axis=0, planes=3, guess='channels')
    >>> axis_guess(Image(np.zeros((8, 40, 50))))
    AxisGuess(axis=0, planes=8, guess='time')
    >>> axis_guess(Image(np.zeros((5, 3, 40, 50))))
    AxisGuess(axis=1, planes=3, guess='channels')
    >>> axis_guess(Image(np.zeros((30, 40, 50)))) is None
    True
    """
    named = any(not name.lstrip("-").isdigit() for name in layer.axis_labels)
    shape = layer.data.shape
    if layer.rgb or named or len(set(layer.scale)) > 1:
        return None  # who has given a spacing of planes has a volume
    if layer.ndim == 4:
        few = [a for a in (1, 0) if 1 < shape[a] <= MAX_CHANNELS and min(shape[2:]) >= MIN_LENGTH_RATIO * shape[a]]
        return AxisGuess(few[0], shape[few[0]], "channels") if few else None
    if layer.ndim != 3:
        return None
    axis = 2 if shape[2] < shape[0] else 0
    planes, others = shape[axis], [size for a, size in enumerate(shape) if a != axis]
    if not 1 < planes <= MAX_PLANES or min(others) < MIN_LENGTH_RATIO * planes:
        return None
    if planes <= MAX_CHANNELS or axis == 2:
        return AxisGuess(axis, planes, "channels")
    return AxisGuess(axis, planes, "time" if planes <= MAX_TIMES else "depth")


Position = tuple[int, ...]
Where = Literal["image", "slice", "view"]
# How the slices of an array with three axes of space belong together: as a volume; or each a plane with sites of its
# own, all of one problem with shared labels; or that with sites coupled from slice to slice.
Slices = Literal["volume", "shared", "linked"]
CHANNEL_NAMES = ("c", "ch", "channel", "channels")
TIME_NAMES = ("t", "time", "frame", "frames")
# A lazy image of more pixels is not read into memory.
MAX_PIXELS_IN_MEMORY = MAX_WHOLE_BLOCKS * Settings().block_pixels


def finest_level(layer: Layer) -> Any:
    """The array of a layer; of a pyramid its finest level."""
    return layer.data[0] if layer.multiscale else layer.data


def _is_lazy(layer: Layer) -> bool:
    return is_lazy(finest_level(layer))


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
class ImageSource:
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
        if self.is_chunked and any(n > 1 for n in self.label_shape[: -self.depth]):
            raise InputError(
                f"{layer.name!r} is too large for memory and has {np.prod(self.stack_shape)} positions; extract one of them"
            )
        if self.is_chunked and self.shares_labels:
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
    def is_image_list(self) -> bool:
        """Whether it is several images, of a layer each."""
        return False

    @property
    def shares_labels(self) -> bool:
        """Whether the slices of a stack are planes that share their labels."""
        return self.depth == 3 and self.slices != "volume"

    @property
    def _rest(self) -> list[int]:
        return [a for a in range(self.layer.ndim) if a != self.channel_axis]

    @property
    def _space(self) -> list[int]:
        return self._rest[-self.depth :]

    @property
    def stack_axes(self) -> list[int]:
        """Axes of the layer along which everything is segmented on its own."""
        return self._loop

    @property
    def stack_label_axes(self) -> tuple[int, ...]:
        """The same as axes of a label image."""
        return tuple(self._label_axes.index(axis) for axis in self.stack_axes)

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
    def full_shape(self) -> tuple[int, ...]:
        """Shape of one array, of which a part may be segmented."""
        return tuple(self.layer.data.shape[a] for a in self._space)

    @property
    def spacing(self) -> str:
        """The setting of that name: how far pixels are apart by the layer's scale, where that says anything."""
        if self.shares_labels or len({normalize_unit(self.layer.units[a]) for a in self._space}) > 1:
            return "auto"
        steps = np.abs(np.asarray(self.layer.scale, dtype=float)[self._space]).tolist()
        return "auto" if normalize_spacing(steps) is None else format_spacing(steps)

    @property
    def stack_shape(self) -> tuple[int, ...]:
        """Lengths of the axes along which everything is segmented on its own."""
        return tuple(self.layer.data.shape[a] for a in self._loop)

    @property
    def positions(self) -> list[Position]:
        """Where there is something to segment: all positions, or the one that is shown."""
        if self.where in ("slice", "view") and self.stack_shape:
            return [tuple(min(max(int(self.step[a]), 0), self.layer.data.shape[a] - 1) for a in self._loop)]
        return list(itertools.product(*(range(length) for length in self.stack_shape)))

    @property
    def pixels(self) -> int:
        """Number of pixels of one segmented array."""
        return int(np.prod(self.space))

    @property
    def is_chunked(self) -> bool:
        """Whether the pixels stay where they are and are read in blocks."""
        return self.pixels > MAX_PIXELS_IN_MEMORY and all(_is_lazy(layer) for layer in (self.layer, *self.channels))

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
        if self.is_chunked:
            lazily = [to_dask_pyramid([finest_level(layer)])[tuple(index)] for layer in (self.layer, *self.channels)]
            return lazily[0] if len(lazily) == 1 else stack_channels(lazily)
        arrays = [np.asarray(finest_level(layer)[tuple(index)]) for layer in (self.layer, *self.channels)]
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
            return self._part(np.asarray(finest_level(self.mask)) != 0, position)
        if isinstance(self.mask, Shapes):
            plane = make_shapes_mask(self.mask, self.layer, tuple(self.layer.data.shape[a] for a in self._space[-2:]))
            plane = plane[self.crop[-2], self.crop[-1]]
            if not plane.any():
                raise InputError(f"the shapes of {self.mask.name!r} do not lie on {self.layer.name!r}")
            return np.broadcast_to(plane, self.space)
        return None

    def mask_data(self) -> tuple[NDArray[Any], ...]:
        """What the mask is now, so that a later edit shows: its array, or the corners and kinds of its shapes."""
        if isinstance(self.mask, Labels):
            return (np.array(finest_level(self.mask)),)
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
        return self._part(np.asarray(finest_level(labels)), position)

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
        sizes = dict(zip(self._space, self.space, strict=True)) | dict(zip(self._loop, self.stack_shape, strict=True))
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
        units = dict(zip(letters, [normalize_unit(self.layer.units[a]) for a in self._space], strict=True))
        return scale_and_unit(Geometry(letters, size, units))

    @property
    def stack_letters(self) -> list[str]:
        """A small letter for each axis along which everything is segmented on its own."""
        letters = dict(zip(self._label_axes, self.label_axes.lower(), strict=True))
        return [letters[a] for a in self.stack_axes]


def _words(shape: tuple[int, ...]) -> str:
    return "that of the image: " + " x ".join(map(str, shape))


@dataclass(frozen=True, eq=False)
class ImageListSource(ImageSource):
    """Planes of several layers.

    Attributes
    ----------
    members : the source of each layer, that of `layer` first.
    """

    members: tuple[ImageSource, ...] = ()

    def check(self) -> None:
        first = self.members[0]
        if self.where != "image" or self.mask is not None:
            raise InputError("images together are segmented as a whole: choose Where: Whole image")
        if self.channels:
            raise InputError("choose layers as channels or images together, not both")
        for one in self.members:
            one.check()
            name = f"{one.layer.name!r} cannot go with {first.layer.name!r}"
            if one.stack_shape or one.depth != 2:
                raise InputError(f"{one.layer.name!r} is a stack; only planes can be segmented together")
            if one.layer.dtype != first.layer.dtype:
                raise InputError(f"{name}: one has values of type {one.layer.dtype}, the other {first.layer.dtype}")
            if one.axes != first.axes or self._channels(one) != self._channels(first):
                raise InputError(f"{name}: they have different channels")
            if one.is_chunked:
                raise InputError(f"{one.layer.name!r} is too large for memory: shared labels need all images in it")

    @staticmethod
    def _channels(one: ImageSource) -> int:
        return 1 if one.channel_axis is None else int(one.layer.data.shape[one.channel_axis])

    @property
    def key(self) -> tuple[Any, ...]:
        return tuple(one.key for one in self.members)

    @property
    def image_layers(self) -> tuple[Image, ...]:
        return tuple(one.layer for one in self.members)

    # ---- axes

    @property
    def is_image_list(self) -> bool:
        return True

    @property
    def shares_labels(self) -> bool:
        return True

    @property
    def is_chunked(self) -> bool:
        return False

    @property
    def stack_axes(self) -> list[int]:
        return []

    @property
    def stack_shape(self) -> tuple[int, ...]:
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
    def stack_letters(self) -> list[str]:
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
