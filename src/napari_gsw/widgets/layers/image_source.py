"""Image layers as arrays to segment, and where the labels of these arrays belong.

The axes of a layer are axes of space (the last two or three), channels (one axis, or several layers of one shape), RGB
samples (which napari does not count), or the stack: usually time or slices, along which each position is segmented on
its own. Labels have the shape of the layer without its channels.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from napari.layers import Image, Labels, Layer, Shapes
from numpy.typing import NDArray
from skimage.draw import polygon

from napari_gsw.core.errors import InputError
from napari_gsw.core.features.input_maps import (
    InputMap,
    format_map_notes,
    guess_value_range,
    open_input_map,
    parse_value_range,
)
from napari_gsw.core.image.lazy import MAX_WHOLE_BLOCKS, is_lazy, stack_channels, to_dask_pyramid
from napari_gsw.core.image.spacing import format_spacing, normalize_spacing
from napari_gsw.core.settings import Settings
from napari_gsw.files.geometry import Geometry, normalize_unit, scale_and_unit

AxisMeaning = Literal["channels", "time", "depth"]
Position = tuple[int, ...]
Where = Literal["image", "slice", "view"]
# How slices belong together: as a volume; with superpixels of their own and shared labels; or that, with superpixels
# coupled from slice to slice.
Slices = Literal["volume", "shared", "linked"]
CHANNEL_NAMES = ("c", "ch", "channel", "channels")
TIME_NAMES = ("t", "time", "frame", "frames")
# A short axis probably holds channels, or times, up to these lengths; an axis longer than MAX_PLANES is depth.
MAX_CHANNELS, MAX_TIMES, MAX_PLANES = 4, 8, 16
# Ratio of the other axes to a short one, at least.
MIN_LENGTH_RATIO = 4
# Corners of the polygon that stands for an ellipse.
ELLIPSE_CORNERS = 128
# A lazy image of more pixels is not read into memory.
MAX_PIXELS_IN_MEMORY = MAX_WHOLE_BLOCKS * Settings().block_pixels


class AxisGuess(NamedTuple):
    """An axis whose meaning is in question, its length, and its likeliest meaning."""

    axis: int
    planes: int
    guess: AxisMeaning


def guess_axis(layer: Image) -> AxisGuess | None:
    """Return the short axis of an image without names of axes and without a spacing, or None.

    >>> guess_axis(Image(np.zeros((3, 40, 50)), rgb=False))
    AxisGuess(axis=0, planes=3, guess='channels')
    """
    is_named = any(not name.lstrip("-").isdigit() for name in layer.axis_labels)
    shape = layer.data.shape
    if layer.rgb or is_named or len(set(layer.scale)) > 1:  # with a spacing of its planes it is a volume
        return None
    if layer.ndim == 4:
        short = [a for a in (1, 0) if 1 < shape[a] <= MAX_CHANNELS and min(shape[2:]) >= MIN_LENGTH_RATIO * shape[a]]
        return AxisGuess(short[0], shape[short[0]], "channels") if short else None
    if layer.ndim != 3:
        return None
    axis = 2 if shape[2] < shape[0] else 0
    planes, others = shape[axis], [size for a, size in enumerate(shape) if a != axis]
    if not 1 < planes <= MAX_PLANES or min(others) < MIN_LENGTH_RATIO * planes:
        return None
    is_channels = planes <= MAX_CHANNELS or axis == 2
    return AxisGuess(axis, planes, "channels" if is_channels else "time" if planes <= MAX_TIMES else "depth")


def guess_channel_axis(layer: Image) -> int | None:
    """Return the axis whose label says that it holds channels."""
    named = (axis for axis, name in enumerate(layer.axis_labels) if name.lower() in CHANNEL_NAMES)
    return next(named, None) if layer.ndim > 2 else None


def guess_depth(layer: Image, channel_axis: int | None) -> int:
    """Return 3 for a volume; 2 for a plane, and for a stack whose first axis is time."""
    axes = [a for a in range(layer.ndim) if a != channel_axis]
    is_plane = len(axes) < 3 or layer.axis_labels[axes[-3]].lower() in TIME_NAMES
    return 2 if is_plane else 3


def finest_level(layer: Layer) -> Any:
    """Return the array of a layer, or the finest level of a pyramid."""
    return layer.data[0] if layer.multiscale else layer.data


def make_shapes_mask(shapes: Shapes, image: Image, shape: tuple[int, ...]) -> NDArray[np.bool_]:
    """Make a mask, True inside any shape, of the last two axes of an image, whose lengths are `shape`.

    Lines and paths count as the area that they enclose. The image may have another scale and origin.
    """
    mask = np.zeros(shape, bool)
    image_scale, shapes_scale = (np.asarray(layer.scale, float)[-2:] for layer in (image, shapes))
    image_origin, shapes_origin = (np.asarray(layer.translate, float)[-2:] for layer in (image, shapes))
    for corners, kind in zip(shapes.data, shapes.shape_type, strict=True):
        points = np.asarray(corners, float)[:, -2:]
        if kind == "ellipse":
            across, down = (points[1] - points[0]) / 2, (points[3] - points[0]) / 2
            angle = np.linspace(0, 2 * np.pi, ELLIPSE_CORNERS, endpoint=False)[:, np.newaxis]
            points = points.mean(axis=0) + np.cos(angle) * across + np.sin(angle) * down
        points = (points * shapes_scale + shapes_origin - image_origin) / image_scale
        mask[polygon(points[:, 0], points[:, 1], shape)] = True
    return mask


@dataclass(eq=False)
class ImageSource:
    """The part of an image layer that is segmented, as it was when the source was made.

    A single image is a list of itself; :class:`ImageListSource` has several `members`.
    """

    layer: Image
    channels: tuple[Image, ...] = ()  # further layers of the same shape
    channel_axis: int | None = None
    depth: int = 2  # number of axes of space
    slices: Slices = "volume"  # how they belong together, where depth is 3
    where: Where = "image"
    mask: Layer | None = None  # Shapes or Labels, outside of which nothing is segmented
    step: Position = ()  # the viewer's position along every axis of the layer
    corners: tuple[Position, Position] = ((), ())  # first and last visible pixel along every axis

    is_image_list = False

    def __post_init__(self) -> None:
        layer, shape = self.layer, self.layer.data.shape
        self.image_layers: tuple[Image, ...] = (layer, *self.channels)
        self._axes_without_channels = [a for a in range(layer.ndim) if a != self.channel_axis]
        # Axes along which each position is segmented on its own, and the others.
        self.stack_axes = self._axes_without_channels[: -self.depth]
        self._space_axes = self._axes_without_channels[-self.depth :]
        self._letters: dict[int | None, str] = dict(zip(self._space_axes, "ZYX"[-self.depth :], strict=False))
        self.stack_shape = tuple(shape[a] for a in self.stack_axes)
        # Shape of one array, the part of it that is segmented, and the shape of that, all without channels.
        self.full_shape = tuple(shape[a] for a in self._space_axes)
        self.crop = tuple(map(slice, [0] * self.depth, self.full_shape))
        if self.where == "view" and len(self.corners[0]) == layer.ndim:  # else they are of a layer with other axes
            starts = [max(self.corners[0][axis], 0) for axis in self._space_axes]
            ends = [self.corners[1][axis] + 1 for axis in self._space_axes]
            stops = map(max, starts, map(min, ends, self.full_shape))
            self.crop = tuple(map(slice, starts, stops))
        self.space = tuple(part.stop - part.start for part in self.crop)
        self.pixels = int(np.prod(self.space))
        # Whether the pixels are read in blocks and not into memory.
        self.is_chunked = self.pixels > MAX_PIXELS_IN_MEMORY and all(
            is_lazy(finest_level(x)) for x in self.image_layers
        )
        # Whether the array consists of planes that share their labels.
        self.shares_labels = self.depth == 3 and self.slices != "volume"
        # Axes of the layer in the label array: all but leading channels. Channels further back stay as an axis of
        # length 1, since napari aligns layers by their last axes.
        self._label_axes = [a for a in range(layer.ndim) if not (a == self.channel_axis == 0)]
        self.stack_label_axes = tuple(self._label_axes.index(axis) for axis in self.stack_axes)
        lengths = dict(zip([*self.stack_axes, *self._space_axes], [*self.stack_shape, *self.space], strict=True))
        self.label_shape = tuple(lengths.get(a, 1) for a in self._label_axes)

    def check(self) -> None:
        """Raise an InputError that says why the source cannot be segmented."""
        layer, name = self.layer, f"{self.layer.name!r}"
        n_axes = len(self._axes_without_channels)
        if 0 in layer.data.shape:
            raise InputError(f"{name} has no pixel")
        if layer.ndim < 2:
            raise InputError(f"{name} has {layer.ndim} dimension; two or more are needed")
        if self.channel_axis is not None and not (0 <= self.channel_axis < layer.ndim and layer.ndim > 2):
            raise InputError(f"{name} has no axis {self.channel_axis} for channels")
        if n_axes > 4:
            raise InputError(f"{name} has {layer.ndim} dimensions; choose which of its axes holds channels")
        if n_axes < self.depth:
            raise InputError(f"{name} has only {n_axes} dimensions beside its channels")
        for other in self.channels:
            if other.data.shape != layer.data.shape:
                raise InputError(f"the channel {other.name!r} has another shape than {name}")
        if self.channels and (layer.rgb or self.channel_axis is not None):
            raise InputError(f"{name} has channels of its own; further layers cannot be added")
        if isinstance(self.mask, Labels) and self.mask.data.shape not in (self.label_shape, self.space):
            raise InputError(f"the region {self.mask.name!r} {self._describe_misfit(self.mask)}")
        if isinstance(self.mask, Shapes) and not len(self.mask.data):
            raise InputError(f"{self.mask.name!r} has no shape yet; draw one to say where to segment")
        if self.is_chunked and any(n > 1 for n in self.label_shape[: -self.depth]):
            count = np.prod(self.stack_shape)
            raise InputError(f"{name} is too large for memory and has {count} positions; extract one of them")
        if self.is_chunked and self.shares_labels:
            raise InputError(f"{name} is too large for memory: shared labels need all slices in it")
        if self.where == "view" and min(s.stop - s.start for s in self.crop) < 2:
            raise InputError(f"nothing of {name} is visible")

    @property
    def key(self) -> tuple[Any, ...]:
        """Equal for two sources of the same arrays."""
        crop = tuple((s.start, s.stop) for s in self.crop)
        channels = tuple(str(channel.unique_id) for channel in self.channels)
        mask = None if self.mask is None else str(self.mask.unique_id)
        return (str(self.layer.unique_id), channels, self.channel_axis, self.depth, self.slices, crop, mask)

    @property
    def members(self) -> tuple[ImageSource, ...]:
        return (self,)

    # ---- axes of the layer

    @property
    def positions(self) -> list[Position]:
        """Positions to segment: all, or the displayed one."""
        lengths = zip(self.stack_axes, self.stack_shape, strict=True)
        if self.where in ("slice", "view") and self.stack_shape:
            return [tuple(min(max(int(self.step[axis]), 0), length - 1) for axis, length in lengths)]
        return list(itertools.product(*(range(length) for _, length in lengths)))

    @property
    def _steps(self) -> list[float]:
        """Distance of pixels along each axis of space, in the layer's units."""
        return [abs(float(self.layer.scale[axis])) for axis in self._space_axes]

    @property
    def spacing(self) -> str:
        """The setting `spacing` by the scale of the layer; "auto" where the scale does not tell."""
        if self.shares_labels or len({normalize_unit(self.layer.units[a]) for a in self._space_axes}) > 1:
            return "auto"
        return "auto" if normalize_spacing(self._steps) is None else format_spacing(self._steps)

    @property
    def pixel_size(self) -> float:
        """Area or volume of a pixel in the layer's units."""
        return float(np.prod(self._steps))

    @property
    def ruler(self) -> dict[str, Any]:
        """Keywords `scale` (distance of pixels by axis) and `unit` (its symbol)."""
        axes = "ZYX"[-self.depth :]
        units = {axis: normalize_unit(self.layer.units[a]) for axis, a in zip(axes, self._space_axes, strict=True)}
        return scale_and_unit(Geometry(axes, dict(zip(axes, self._steps, strict=True)), units))

    # ---- arrays

    @property
    def axes(self) -> str:
        """Letters of the axes of :meth:`image`."""
        letters = {**self._letters, self.channel_axis: "C"}
        axes = "".join(letters.get(a, "") for a in range(self.layer.ndim))
        return axes + ("C" if self.channels else "") + ("S" if self.layer.rgb else "")

    def image(self, position: Position) -> Any:
        """Read the pixels at a position; those of a chunked image stay lazy. This is for a background thread."""
        indices: dict[int, Any] = dict(zip(self.stack_axes, position, strict=True))
        indices |= zip(self._space_axes, self.crop, strict=True)
        index = tuple(indices.get(axis, slice(None)) for axis in range(self.layer.ndim))
        levels = [finest_level(layer) for layer in self.image_layers]
        if self.is_chunked:
            lazy = [to_dask_pyramid([level])[index] for level in levels]
            return lazy[0] if len(lazy) == 1 else stack_channels(lazy)
        arrays = [np.asarray(level[index]) for level in levels]
        return arrays[0] if len(arrays) == 1 else np.stack(arrays, axis=-1)

    def planes(self, image: NDArray[Any]) -> list[NDArray[Any]]:
        """Return the planes of :meth:`image` that share labels."""
        return list(np.moveaxis(image, self.axes.index("Z"), 0))

    def plane(self, labels: NDArray[Any], number: int) -> NDArray[Any]:
        """Return the part of an array of the shape `space` that belongs to one of :meth:`planes`."""
        return np.asarray(labels[number])

    def split(self, position: Position, array: Any) -> Iterator[tuple[ImageSource, Position, Any]]:
        """Split an array at a position by images: the source of each, the position in it, and its array."""
        yield self, position, array

    def mask_at(self, position: Position) -> NDArray[np.bool_] | None:
        """Return where the array at a position is to be segmented; None for everywhere."""
        if isinstance(self.mask, Labels):
            return self._part(np.asarray(finest_level(self.mask)) != 0, position)
        if isinstance(self.mask, Shapes):
            plane = make_shapes_mask(self.mask, self.layer, self.full_shape[-2:])[self.crop[-2:]]
            if not plane.any():
                raise InputError(f"the shapes of {self.mask.name!r} do not lie on {self.layer.name!r}")
            return np.broadcast_to(plane, self.space)
        return None

    def mask_data(self) -> tuple[NDArray[Any], ...]:
        """Copy the content of the mask, to recognize a later edit."""
        if isinstance(self.mask, Labels):
            return (np.array(finest_level(self.mask)),)
        if isinstance(self.mask, Shapes):
            return (np.array(self.mask.shape_type), *map(np.array, self.mask.data))
        return ()

    def check_labels(self, labels: Labels) -> None:
        if labels.data.shape not in (self.label_shape, self.space, self.stack_shape + self.full_shape):
            raise InputError(f"{labels.name!r} {self._describe_misfit(labels)}")

    def check_sites(self, labels: Labels) -> None:
        self.check_labels(labels)

    def _describe_misfit(self, layer: Layer) -> str:
        return f"has shape {layer.data.shape}, not that of the image: {' x '.join(map(str, self.label_shape))}"

    def labels_at(self, labels: Labels, position: Position) -> NDArray[Any]:
        self.check_labels(labels)
        return self._part(np.asarray(finest_level(labels)), position)

    def _part(self, array: NDArray[Any], position: Position) -> NDArray[Any]:
        if array.shape == self.space:
            return array
        index: tuple[Any, ...] = self.index(position) if array.shape == self.label_shape else (*position, *self.crop)
        return np.asarray(array[index])

    # ---- labels

    @property
    def label_axes(self) -> str:
        """Letters of the axes of the label array, as files name them."""
        letters = dict(self._letters)
        unused = ["T", "Z"] if self.depth == 2 else ["T"]
        for axis in self.stack_axes:
            is_time = self.layer.axis_labels[axis].lower() in TIME_NAMES
            letters[axis] = "Z" if self.depth == 2 and len(self.stack_axes) == 1 and not is_time else unused.pop(0)
        return "".join(letters.get(a, "C") for a in self._label_axes)

    @property
    def stack_letters(self) -> list[str]:
        return [self.label_axes[axis].lower() for axis in self.stack_label_axes]

    def index(self, position: Position) -> tuple[Any, ...]:
        numbers: dict[int | None, Any] = {self.channel_axis: 0, **dict(zip(self.stack_axes, position, strict=True))}
        return tuple(numbers.get(a, slice(None)) for a in self._label_axes)

    def path_at(self, path: NDArray[np.float64], position: Position) -> NDArray[np.float64]:
        """Return the points of a path in the label array that lie at a position, (p, depth) in pixels."""
        if not len(path):
            return np.empty((0, self.depth))
        is_there = (np.round(path[:, list(self.stack_label_axes)]) == position).all(axis=1)
        points: NDArray[np.float64] = path[is_there][:, [self._label_axes.index(a) for a in self._space_axes]]
        return points

    def geometry(self) -> dict[str, Any]:
        """Return keywords that place a layer of `label_shape` where the image is."""
        layer, axes = self.layer, self._label_axes
        scale = np.array(layer.scale, dtype=float)
        start = np.zeros(layer.ndim)
        start[self._space_axes] = [part.start for part in self.crop]
        if self.channel_axis in axes:  # one voxel as thick as all channels, so that it shows beside each of them
            n_channels = layer.data.shape[self.channel_axis]
            start[self.channel_axis] = (n_channels - 1) / 2
            scale[self.channel_axis] *= n_channels
        linear = np.asarray(layer.affine.linear_matrix)
        shift = np.asarray(layer.data_to_world(start)) - np.asarray(layer.data_to_world(np.zeros(layer.ndim)))
        translate = np.asarray(layer.translate) + np.linalg.solve(linear, shift)
        # A leading channel axis goes with its row and its column; it is not mixed with the others of a matrix.
        block = np.ix_([*axes, layer.ndim], [*axes, layer.ndim])
        return {
            "scale": scale[axes],
            "translate": translate[axes],
            "rotate": np.asarray(layer.rotate)[np.ix_(axes, axes)],
            "affine": np.asarray(layer.affine.affine_matrix)[block],
            "units": tuple(layer.units[a] for a in axes),
            "axis_labels": tuple(layer.axis_labels[a] for a in axes),
            **({"shear": layer.shear} if len(axes) == layer.ndim else {}),
        }


@dataclass(eq=False)
class ImageListSource(ImageSource):
    """Several images with shared labels, as one stack with a slice for each image.

    A slice is as large as the largest image, without superpixels where there is no image. `layer` is the first image.
    """

    members: tuple[ImageSource, ...] = ()

    is_image_list = True
    label_axes = "ZYX"

    def __post_init__(self) -> None:
        super().__post_init__()
        self.image_layers = tuple(member.layer for member in self.members)
        largest = np.max([member.space for member in self.members], axis=0)
        self.space = self.label_shape = (len(self.members), *largest.tolist())
        self.pixels = sum(member.pixels for member in self.members)
        self.stack_axes, self.stack_shape, self.stack_label_axes = [], (), ()
        self.shares_labels, self.is_chunked = True, False

    def check(self) -> None:
        if self.where != "image" or self.mask is not None:
            raise InputError("images together are segmented as a whole: choose Where: Whole image")
        if self.channels:
            raise InputError("choose layers as channels or images together, not both")
        first = self.members[0]
        for member in self.members:
            member.check()
            misfit = f"{member.layer.name!r} cannot go with {first.layer.name!r}"
            if member.stack_shape or member.depth != 2:
                raise InputError(f"{member.layer.name!r} is a stack; only planes can be segmented together")
            if member.layer.dtype != first.layer.dtype:
                raise InputError(f"{misfit}: their types are {member.layer.dtype} and {first.layer.dtype}")
            channels = {1 if x.channel_axis is None else x.layer.data.shape[x.channel_axis] for x in (member, first)}
            if member.axes != first.axes or len(channels) > 1:
                raise InputError(f"{misfit}: they have different channels")
            if member.is_chunked:
                raise InputError(f"{member.layer.name!r} is too large for memory: shared labels need all images in it")

    @property
    def key(self) -> tuple[Any, ...]:
        return tuple(member.key for member in self.members)

    @property
    def axes(self) -> str:
        return "Z" + self.members[0].axes

    def image(self, position: Position) -> NDArray[Any]:
        images = [member.image(()) for member in self.members]
        stack = np.zeros((len(images), *np.max([image.shape for image in images], axis=0).tolist()), images[0].dtype)
        for number, image in enumerate(images):
            stack[number][_corner(image.shape)] = image
        return stack

    def planes(self, image: NDArray[Any]) -> list[NDArray[Any]]:
        planes = []
        for number, member in enumerate(self.members):
            lengths = dict(zip("YX", member.space, strict=True))
            planes.append(np.ascontiguousarray(image[number][tuple(slice(lengths.get(a)) for a in member.axes)]))
        return planes

    def plane(self, labels: NDArray[Any], number: int) -> NDArray[Any]:
        return np.asarray(labels[number][_corner(self.members[number].space)])

    def split(self, position: Position, array: Any) -> Iterator[tuple[ImageSource, Position, Any]]:
        for number, member in enumerate(self.members):
            yield member, (), self.plane(array, number)

    def check_labels(self, labels: Labels) -> None:
        self.members[0].check_labels(labels)

    def check_sites(self, labels: Labels) -> None:
        raise InputError("superpixels of a layer are for one image; choose Superpixels > Layer: Make them")

    def labels_at(self, labels: Labels, position: Position) -> NDArray[Any]:
        first = self.members[0].labels_at(labels, ())
        stack = np.zeros(self.space, first.dtype)
        stack[0][_corner(first.shape)] = first
        return stack

    def index(self, position: Position) -> tuple[Any, ...]:
        return (slice(None),) * 3

    def geometry(self) -> dict[str, Any]:
        return self.members[0].geometry()


def _corner(shape: tuple[int, ...]) -> tuple[slice, ...]:
    return tuple(map(slice, shape))


# Number of values by which the range of a map is guessed for the form; a run reads all of them.
N_GUESSED = 1 << 18


def read_maps(source: ImageSource, maps: Mapping[str, Image], position: Position, settings: Settings) -> dict[str, Any]:
    """Read the maps at a position, as :func:`napari_gsw.prepare` takes them; those of a chunked image stay lazy."""
    arrays: dict[str, Any] = {}
    for input_map in _open_maps(source, maps, position, settings):
        if source.where == "view":
            array = input_map.read(source.crop)
            arrays[input_map.name] = array[..., 0] if input_map.channel_axis is None else array
        else:
            arrays[input_map.name] = input_map.array if source.is_chunked else np.asarray(input_map.array)
    return arrays


def describe_maps(source: ImageSource, maps: Mapping[str, Image], settings: Settings) -> str:
    """Describe what is recognized of the maps, one line for each."""
    notes: dict[str, Any] = {}
    for input_map in _open_maps(source, maps, source.positions[0], settings):
        note = dict(input_map.notes)
        if input_map.name == "features":
            if input_map.channels > settings.components:
                note["reduced"] = settings.components
        else:
            name, array = f"{input_map.name}_range", input_map.array
            value_range = parse_value_range(name, getattr(settings, name))
            if value_range is None and not is_lazy(array):
                value_range = guess_value_range([np.ravel(array)[:: max(1, array.size // N_GUESSED)]])
            if value_range is not None:
                note["range"] = value_range.text
        notes[input_map.name] = note
    lines = []
    for line in format_map_notes(notes):
        layer = maps.get(line.split(":")[0])
        lines.append(line if layer is None or _lies_on(source.layer, layer) else f"{line}; the layer lies elsewhere")
    return "\n".join(lines)


def _open_maps(
    source: ImageSource, maps: Mapping[str, Image], position: Position, settings: Settings
) -> list[InputMap]:
    """Open the maps at a position; an InputError says what does not fit."""
    if maps and source.shares_labels:
        raise InputError("maps are for one image at a time, not for slices or images that share their labels")
    opened = []
    for name, layer in maps.items():
        array, n_axes = finest_level(layer), len(position)
        if n_axes and tuple(array.shape[:n_axes]) == source.stack_shape:
            array = array[position]
        elif n_axes and tuple(array.shape[1 : 1 + n_axes]) == source.stack_shape:
            array = array[(slice(None), *position)]
        try:
            opened.append(open_input_map(name, array, source.full_shape, settings.channel_axis))
        except InputError as reason:
            raise InputError(f"{layer.name!r}: {reason}") from None
    return opened


def _lies_on(image: Image, layer: Image) -> bool:
    """Return whether a layer covers an image along the last two axes, but for a pixel of the coarser one."""
    extents = [np.asarray(x.extent.world)[:, -2:] for x in (image, layer)]
    pixel = np.maximum(np.abs(image.scale[-2:]), np.abs(layer.scale[-2:]))
    return bool((np.abs(extents[0] - extents[1]) <= pixel).all())
