"""Maps beside an image: feature channels, and probabilities of boundaries or of the foreground.

A map may be coarser than the image, lie in memory or be lazy, and have its channels on the first or the last axis.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from napari_gsw.core.array_types import ChannelImage, Float32Array, Float64Array, Sites
from napari_gsw.core.errors import InputError, to_array
from napari_gsw.core.image.block_grid import Slices, make_grid
from napari_gsw.core.image.lazy import is_lazy, list_levels, read
from napari_gsw.core.image.normalized_image import IntensityRange, NormalizedImage, estimate_range, scale_channels
from napari_gsw.core.settings import Settings
from napari_gsw.core.sites.superpixels import check_mask, find_basins, make_superpixels

# The names of the arguments.
MAP_NAMES = ("features", "boundaries", "foreground")
# Probabilities are clipped to [MIN_DOUBT, 1 - MIN_DOUBT]; small values on both sides of 0..1 are taken for log odds.
MIN_DOUBT, MAX_LOGIT = 0.01, 50.0
# More channels would need a large covariance matrix; squares of larger values might not be finite.
MAX_CHANNELS, MAX_VALUE = 4096, 1e100
# Pixels of a lazy map that are checked together; pixels that a reduction is learnt from, and converted at a time.
CHECKED_PIXELS, LEARNT_PIXELS, CONVERTED_PIXELS = 1 << 20, 1 << 17, 1 << 14
# Components with a smaller share of the variance of the first are dropped.
MIN_VARIANCE_SHARE = 1e-6
# Units of Lab that a component of variance 1, and a certain boundary, are worth.
COMPONENT_LAB, BOUNDARY_LAB = 20.0, 100.0


class ValueRange(NamedTuple):
    """Values of a map that mean probability 0 and 1; or log odds."""

    low: float = 0.0
    high: float = 1.0
    logits: bool = False
    guessed: bool = False

    @property
    def text(self) -> str:
        """The range as text."""
        text = "log odds" if self.logits else f"{self.low:g} to {self.high:g}"
        return f"{text} (guessed)" if self.guessed else text

    @property
    def notes(self) -> dict[str, Any]:
        """The range, for JSON."""
        return {"range": self.text}

    def apply(self, values: NDArray[Any]) -> Float32Array:
        """Convert values of any shape and type to log odds, clipped by `MIN_DOUBT`."""
        wide = values.astype(np.float64)
        if self.logits:
            limit = np.log((1 - MIN_DOUBT) / MIN_DOUBT)
            return np.clip(wide, -limit, limit).astype(np.float32)
        probability = np.clip((wide - self.low) / (self.high - self.low), MIN_DOUBT, 1 - MIN_DOUBT)
        return np.asarray(np.log(probability / (1 - probability)), np.float32)


def parse_value_range(setting: str, text: str) -> ValueRange | None:
    """Parse the range that a setting declares; None for auto.

    >>> parse_value_range("boundaries_range", "0, 255")
    ValueRange(low=0.0, high=255.0, logits=False, guessed=False)
    """
    stripped = text.strip().lower()
    if stripped == "auto":
        return None
    if stripped == "logits":
        return ValueRange(logits=True)
    try:
        low, high = (float(number) for number in stripped.split(","))
        if not np.isfinite([low, high]).all() or low == high:
            raise ValueError
    except ValueError:
        raise InputError(f"{setting} must be auto, logits, or two different numbers LOW,HIGH, not {text!r}") from None
    return ValueRange(low, high)


def guess_value_range(samples: Sequence[NDArray[Any]]) -> ValueRange:
    """Guess the range of a map of probabilities from samples of any shape.

    Values within 0..1 are probabilities. Integers of 8 bits reach to 255. Floats on both sides of 0..1 are log odds if
    they are small. Anything else extends from its minimum to its maximum.
    """
    low, high = min(float(p.min()) for p in samples), max(float(p.max()) for p in samples)
    if low >= 0 and high <= 1:
        return ValueRange(guessed=True)
    if samples[0].dtype == np.uint8:
        return ValueRange(0.0, 255.0, guessed=True)
    if samples[0].dtype.kind == "f" and low < 0 and high > 1 and max(-low, high) <= MAX_LOGIT:
        return ValueRange(logits=True, guessed=True)
    return ValueRange(low, high if low < high else low + 1, guessed=True)


class ChannelReduction(NamedTuple):
    """Principal components of many channels, or the intensity range of a few."""

    range: IntensityRange | None
    mean: Float64Array  # (C,)
    basis: Float64Array  # (C, components)
    share: float = 1.0  # of the variance of all channels, each scaled to variance 1, in the components

    @property
    def notes(self) -> dict[str, Any]:
        """The number of components and their share of the variance, for JSON."""
        return {} if self.range else {"components": self.basis.shape[1], "variance": round(self.share, 4)}

    def apply(self, values: NDArray[Any]) -> ChannelImage:
        """Convert values (..., C) to (..., channels) float32."""
        if self.range is not None:
            return scale_channels(values, self.range)
        rows = values.reshape(-1, values.shape[-1])
        out = np.empty((len(rows), self.basis.shape[1]), np.float32)
        for first in range(0, len(rows), CONVERTED_PIXELS):
            some = slice(first, first + CONVERTED_PIXELS)
            out[some] = (rows[some].astype(np.float64) - self.mean) @ self.basis
        return out.reshape(*values.shape[:-1], -1)


def fit_reduction(samples: Sequence[NDArray[Any]], components: int) -> ChannelReduction:
    """Fit the reduction of a map to a number of components, from samples (..., C) of it."""
    channels = samples[0].shape[-1]
    if channels <= components:
        return ChannelReduction(estimate_range(samples, False)[0], np.zeros(0), np.zeros((0, 0)))
    every = max(1, sum(sample.size // channels for sample in samples) // LEARNT_PIXELS)
    rows = np.concatenate([sample.reshape(-1, channels)[::every] for sample in samples]).astype(np.float64)
    mean, spread = rows.mean(axis=0), rows.std(axis=0)
    unit = np.where(spread > 0, spread, np.inf)  # a constant channel adds nothing
    rows = (rows - mean) / unit
    variance, axes = np.linalg.eigh(rows.T @ rows / len(rows))
    variance, axes = variance[::-1], axes[:, ::-1]
    count = max(1, int((variance[:components] > MIN_VARIANCE_SHARE * variance[0]).sum()))
    axes, kept = axes[:, :count], variance[:count]
    # The sign of an axis depends on the library, so its largest entry is made positive.
    axes = axes * np.sign(axes[np.abs(axes).argmax(axis=0), np.arange(count)])
    scale = np.sqrt(np.where(kept > 0, kept, 1.0))
    total = float(variance.sum())
    share = float(kept.sum() / total) if total > 0 else 1.0
    return ChannelReduction(None, mean, axes / scale / unit[:, np.newaxis], share)


@dataclass(frozen=True, eq=False)
class InputMap:
    """A map, in memory or lazy, whose axes are known."""

    name: str
    array: Any
    channel_axis: int | None  # None: one channel
    space_axes: tuple[int, ...]  # in the order of the image's; other axes have length 1
    shape: tuple[int, ...]  # of the image's space
    steps: tuple[int, ...]  # pixels of the image along each axis that one pixel of the map covers
    units: ValueRange | ChannelReduction | None = None  # what values mean, once it is known

    @property
    def channels(self) -> int:
        """Number of channels."""
        return 1 if self.channel_axis is None else int(self.array.shape[self.channel_axis])

    def read(self, slices: Slices | None = None) -> NDArray[Any]:
        """Read the values (..., C) of a part of the image, or of all of it."""
        slices = slices or tuple(slice(0, n) for n in self.shape)
        index: list[Any] = [0] * self.array.ndim
        for axis, s, step in zip(self.space_axes, slices, self.steps, strict=True):
            last = self.array.shape[axis] - 1
            index[axis] = slice(min(s.start // step, last), min((s.stop - 1) // step, last) + 1)
        axes = self.space_axes
        if self.channel_axis is not None:
            index[self.channel_axis] = slice(None)
            axes = (*axes, self.channel_axis)
        values = read(self.array, tuple(index)).transpose(np.argsort(np.argsort(axes)))
        if self.channel_axis is None:
            values = values[..., np.newaxis]
        for a, (axis, s, step) in enumerate(zip(self.space_axes, slices, self.steps, strict=True)):
            if step > 1:
                rows = np.minimum(np.arange(s.start, s.stop) // step, self.array.shape[axis] - 1) - index[axis].start
                values = values.take(rows, axis=a)
        if values.dtype.kind == "f" and not np.isfinite(values).all():
            raise InputError(f"{self.name} must be finite, not NaN or infinite: fill them before")
        if values.dtype.kind == "f" and values.dtype.itemsize > 4 and np.abs(values).max(initial=0.0) > MAX_VALUE:
            raise InputError(f"{self.name} must have values in [{-MAX_VALUE:g}, {MAX_VALUE:g}]; scale them down")
        return values

    def convert(self, slices: Slices | None = None) -> Float32Array:
        """Compute the log odds (...,), or the reduced channels (..., k), of a part of the image, or of all of it."""
        assert self.units is not None
        return self.units.apply(self.read(slices) if self.name == "features" else self.read(slices)[..., 0])

    @property
    def lab_per_unit(self) -> float:
        """Units of Lab that a unit of a reduced channel is worth."""
        return COMPONENT_LAB if isinstance(self.units, ChannelReduction) and self.units.range is None else 1.0

    @property
    def notes(self) -> dict[str, Any]:
        """Describe the recognised axes, the reduction of channels and the range, for JSON."""
        first = self.channel_axis is not None and self.channel_axis < min(self.space_axes)
        axis = "none" if self.channel_axis is None else "first" if first else "last"
        coarser = {"coarser": list(self.steps)} if max(self.steps) > 1 else {}
        return {"channels": self.channels, "channel_axis": axis, **coarser, **(self.units.notes if self.units else {})}


def open_input_map(name: str, given: Any, shape: tuple[int, ...], channel_axis: str = "auto") -> InputMap:
    """Recognise the axes of a map beside an image of this shape, or raise an InputError.

    An array (*shape,), (C, *shape) or (*shape, C) fits, also if it is coarser by an integer factor or has more axes of
    length 1. `channel_axis` decides between first and last for features where the shape leaves it open.
    """
    array: Any = list_levels(given)[0] if is_lazy(given) else to_array(name, given)
    if array.dtype.kind not in "buif":
        raise InputError(f"{name} must hold numbers, not {array.dtype}")
    sizes = tuple(int(n) for n in array.shape)
    ends = ("first", "last") if channel_axis == "auto" or name != "features" else (channel_axis,)
    by_axes: list[list[InputMap]] = []
    for axes in (range(len(sizes)), [a for a, n in enumerate(sizes) if n > 1]):
        splits: list[tuple[int | None, tuple[int, ...]]] = []
        if len(axes) == len(shape):
            splits = [(None, tuple(axes))]
        elif len(axes) == len(shape) + 1:
            splits = [(axes[0], tuple(axes[1:])) if end == "first" else (axes[-1], tuple(axes[:-1])) for end in ends]
        layouts = []
        for channels, space in splits:
            steps = tuple(_find_step(n, sizes[a]) for n, a in zip(shape, space, strict=True))
            # A coarser map is as coarse along both axes of a slice.
            if min(steps) > 0 and steps[-1] == steps[-2] and steps[0] in (1, steps[-1]):
                layouts.append(InputMap(name, array, channels, space, shape, steps))
        by_axes.append(layouts)
    exact = [[layout for layout in layouts if max(layout.steps) == 1] for layouts in by_axes]
    layouts = next((found for found in (*exact, *by_axes) if found), [])
    if not layouts:
        place = "or one axis more" if len(ends) > 1 else f"{'after' if ends[0] == 'first' else 'before'} the channels"
        raise InputError(f"{name} must have the image's shape {shape} {place}, or a whole fraction of it, not {sizes}")
    if len(layouts) > 1:
        raise InputError(
            f"{name} of shape {sizes} may have its channels first or last beside an image of {shape}; say which "
            "(channel_axis first or last)"
        )
    n_channels = layouts[0].channels
    if name != "features" and n_channels != 1:
        raise InputError(f"{name} must be one map, not {n_channels} channels: give the channel that holds it")
    if n_channels > MAX_CHANNELS:
        raise InputError(
            f"{name} must have at most {MAX_CHANNELS:,} channels, not {n_channels:,}; check their axis (channel_axis)"
        )
    return layouts[0]


def _find_step(fine: int, coarse: int) -> int:
    """Find how many of `fine` pixels one of `coarse` pixels covers; 0 if no integer explains it.

    >>> _find_step(100, 100), _find_step(100, 34), _find_step(100, 33), _find_step(100, 60), _find_step(100, 200)
    (1, 3, 3, 0, 0)
    """
    step = round(fine / coarse) if 0 < coarse <= fine else 0
    return step if step and coarse in (fine // step, -(-fine // step)) else 0


class InputMaps(dict[str, InputMap]):
    """All maps beside an image, by the names of the arguments."""

    @property
    def notes(self) -> dict[str, Any]:
        """Describe each recognised map by name, for JSON."""
        return {name: opened.notes for name, opened in self.items()}


def open_input_maps(
    given: Mapping[str, Any], shape: tuple[int, ...], settings: Settings, tiles: Sequence[Slices] | None = None
) -> InputMaps:
    """Open the maps that the user gives by ``MAP_NAMES`` beside an image of this shape.

    Ranges and reductions are estimated from `tiles` of maps too large to be read at once, by default from all pixels.
    """
    absent = {name for name in MAP_NAMES if given.get(name) is None}
    if settings.coupling == "boundaries" and "boundaries" in absent:
        raise InputError("coupling boundaries needs a map of boundaries: give boundaries=, or choose another coupling")
    if settings.sites_from in absent:
        raise InputError(
            f"sites_from {settings.sites_from} needs that map: give {settings.sites_from}=, or choose auto"
        )
    if settings.likelihood == "none" and settings.texture_words == 0 and len(absent) == len(MAP_NAMES):
        raise InputError("likelihood none needs a map beside the image: give features=, boundaries= or foreground=")
    maps = InputMaps()
    for name in MAP_NAMES:
        if name in absent:
            continue
        opened = open_input_map(name, given[name], shape, settings.channel_axis)
        declared = name != "features" and parse_value_range(f"{name}_range", getattr(settings, f"{name}_range"))
        samples = [opened.read(tile) for tile in tiles or (None,)]
        blocks = make_grid(shape, (1,) * len(shape), CHECKED_PIXELS) if tiles and is_lazy(opened.array) else None
        # Tiles may be constant where the map is not. No more is read than needed.
        rest = () if blocks is None else (opened.read(blocks.slices(index)) for index in blocks)
        first = samples[0].flat[0]
        if all((values == first).all() for values in chain(samples, rest)):
            raise InputError(f"{name} is {first:g} everywhere, so it has no effect; leave it out")
        units = fit_reduction(samples, settings.components) if name == "features" else guess_value_range(samples)
        maps[name] = replace(opened, units=declared or units)
    return maps


def format_map_notes(notes: Mapping[str, Any]) -> list[str]:
    """Format what was recognised of each map, one line each.

    >>> format_map_notes({"boundaries": {"channels": 1, "channel_axis": "none", "range": "0 to 255 (guessed)"}})
    ['boundaries: values 0 to 255 (guessed)']
    """
    lines = []
    for name in filter(notes.__contains__, MAP_NAMES):
        note, items = notes[name], []
        if note["channel_axis"] != "none":
            items.append(f"{note['channels']} channels on the {note['channel_axis']} axis")
        if "reduced" in note:
            items.append(f"to be reduced to {note['reduced']} components")
        if "components" in note:
            items.append(f"{note['components']} components with {note['variance']:.0%} of the variance")
        if "range" in note:
            items.append(f"values {note['range']}")
        if "coarser" in note:
            items.append(f"{max(note['coarser'])} times coarser than the image")
        lines.append(f"{name}: {', '.join(items) or 'one channel'}")
    return lines


def sites_source(settings: Settings, given: Mapping[str, Any]) -> str:
    """Return what superpixels follow: image, features or boundaries, which those of the image would cross."""
    if settings.sites_from != "auto":
        return settings.sites_from
    return "image" if given.get("boundaries") is None or not settings.boundaries_weight else "boundaries"


def select_site_image(
    image: NormalizedImage, maps: InputMaps, settings: Settings, slices: Slices | None = None
) -> NormalizedImage:
    """Return the image that superpixels follow and contrast is measured on: `image` (at `slices`), or features."""
    if "features" not in maps or sites_source(settings, maps) != "features":
        return image
    channels = maps["features"].convert(slices) * np.float32(maps["features"].lab_per_unit)
    return NormalizedImage(np.ascontiguousarray(channels), False, image.spacing)


def make_sites(
    image: NormalizedImage, maps: InputMaps, settings: Settings, mask: ArrayLike | None, slices: Slices | None = None
) -> Sites:
    """Make superpixels in a mask of an image (at `slices`), a map of boundaries or features, as settings choose."""
    if "boundaries" in maps and sites_source(settings, maps) == "boundaries":
        height = BOUNDARY_LAB / (1 + np.exp(-maps["boundaries"].convert(slices)))
        return find_basins(height.astype(np.float32), settings, check_mask(mask, image.shape), image.spacing)
    return make_superpixels(select_site_image(image, maps, settings, slices), settings, mask)
