"""The values of a map of probabilities, in whatever range they come -> log odds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
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

# No pixel of a map is ever surer than this.
MIN_DOUBT = 0.01
# Values on both sides of 0..1 and within this are taken for log odds.
MAX_LOGIT = 50.0


class ValueRange(NamedTuple):
    """What the values of a map mean.

    Attributes
    ----------
    low, high : values that mean certainly not and certainly.
    logits : whether values are log odds already; `low` and `high` mean nothing then.
    guessed : whether nobody has said so.
    """

    low: float = 0.0
    high: float = 1.0
    logits: bool = False
    guessed: bool = False

    @property
    def words(self) -> str:
        """The range for a person.

        >>> ValueRange(0.0, 255.0, guessed=True).words
        '0 to 255 (guessed)'
        """
        text = "log odds" if self.logits else f"{self.low:g} to {self.high:g}"
        return f"{text} (guessed)" if self.guessed else text

    def log_odds(self, values: NDArray[Any]) -> Float32Array:
        """Log odds of values of any shape and type, float32, never surer than `LEAST_DOUBT`."""
        most = np.log((1 - MIN_DOUBT) / MIN_DOUBT)
        if self.logits:
            return np.clip(values.astype(np.float64), -most, most).astype(np.float32)
        share = (values.astype(np.float64) - self.low) / (self.high - self.low)
        share = np.clip(share, MIN_DOUBT, 1 - MIN_DOUBT)
        return np.log(share / (1 - share)).astype(np.float32)


def parse_value_range(setting: str, text: str) -> ValueRange | None:
    """The range that a setting declares; None for auto.

    >>> range_named("boundaries_range", "0, 255")
    ValueRange(low=0.0, high=255.0, logits=False, guessed=False)
    """
    word = text.strip().lower()
    if word == "auto":
        return None
    if word == "logits":
        return ValueRange(logits=True)
    try:
        low, high = (float(part) for part in word.split(","))
        if not np.isfinite([low, high]).all() or low == high:
            raise ValueError
    except ValueError:
        raise InputError(f"{setting} must be auto, logits, or two different numbers LOW,HIGH, not {text!r}") from None
    return ValueRange(low, high)


def guess_value_range(parts: Sequence[NDArray[Any]]) -> ValueRange:
    """The range of a map of probabilities, from parts of any shape that stand for all of it.

    What lies in 0..1 is a probability. Whole numbers of 8 bits go to 255. Floats on both sides of 0..1 are log odds, if
    they are not large. Anything else goes from its smallest value to its largest.
    """
    low, high = min(float(p.min()) for p in parts), max(float(p.max()) for p in parts)
    if low >= 0 and high <= 1:
        return ValueRange(guessed=True)
    if parts[0].dtype == np.uint8:
        return ValueRange(0.0, 255.0, guessed=True)
    if parts[0].dtype.kind == "f" and low < 0 and high > 1 and max(-low, high) <= MAX_LOGIT:
        return ValueRange(logits=True, guessed=True)
    return ValueRange(low, high, guessed=True) if low < high else ValueRange(low, low + 1, guessed=True)


def refuse_constant(name: str, parts: Iterable[NDArray[Any]]) -> None:
    """Raise an InputError if all values are the same; no more parts are looked at than it takes to know."""
    rest = iter(parts)
    start = next(rest)
    first = start.flat[0]
    if (start == first).all() and all((part == first).all() for part in rest):
        raise InputError(f"{name} is {first:g} everywhere and says nothing; leave it out")


# Channels of a map at most: a matrix of their covariances is to be small.
MAX_CHANNELS = 4096
# Squares of larger values might not be finite.
MAX_VALUE = 1e100


@dataclass(frozen=True, eq=False)
class InputMap:
    """A map whose axes are known.

    Attributes
    ----------
    name : what it is to the user: features, boundaries or foreground.
    array : in memory or lazy.
    axis : of its channels; None if it has one channel and no axis for it.
    space : its axes of space, in the order of the image's; axes that are named nowhere have length 1.
    shape : of the image's space.
    steps : along each of these, how many pixels of the image one of the map covers.
    """

    name: str
    array: Any
    axis: int | None
    space: tuple[int, ...]
    shape: tuple[int, ...]
    steps: tuple[int, ...]

    @property
    def channels(self) -> int:
        """Number of channels."""
        return 1 if self.axis is None else int(self.array.shape[self.axis])

    def read(self, part: Slices | None = None) -> NDArray[Any]:
        """(\\*part, C) the values at a part of the image, or at all of it; an InputError if some are not finite."""
        where = part or tuple(slice(0, n) for n in self.shape)
        index: list[Any] = [0] * self.array.ndim
        for axis, s, step in zip(self.space, where, self.steps, strict=True):
            last = self.array.shape[axis] - 1
            index[axis] = slice(min(s.start // step, last), min((s.stop - 1) // step, last) + 1)
        if self.axis is not None:
            index[self.axis] = slice(None)
        values = read(self.array, tuple(index))
        kept = [axis for axis in range(self.array.ndim) if axis in self.space or axis == self.axis]
        order = [kept.index(axis) for axis in self.space]
        values = values.transpose(order if self.axis is None else [*order, kept.index(self.axis)])
        if self.axis is None:
            values = values[..., np.newaxis]
        for a, (axis, s, step) in enumerate(zip(self.space, where, self.steps, strict=True)):
            if step > 1:
                rows = np.minimum(np.arange(s.start, s.stop) // step, self.array.shape[axis] - 1) - index[axis].start
                values = values.take(rows, axis=a)
        return self._checked(values)

    def _checked(self, values: NDArray[Any]) -> NDArray[Any]:
        if values.dtype.kind == "f":
            if not np.isfinite(values).all():
                raise InputError(f"{self.name} must be finite, not NaN or infinite: fill them before")
            if values.dtype.itemsize > 4 and np.abs(values).max(initial=0.0) > MAX_VALUE:
                raise InputError(f"{self.name} must have values in [{-MAX_VALUE:g}, {MAX_VALUE:g}]; scale them down")
        return values

    @property
    def recognised(self) -> dict[str, Any]:
        """What was recognised of its shape, ready for JSON."""
        axis = "none" if self.axis is None else "first" if self.axis < min(self.space) else "last"
        coarse = {} if max(self.steps) == 1 else {"coarser": list(self.steps)}
        return {"channels": self.channels, "channel_axis": axis, **coarse}


def open_input_map(name: str, given: Any, shape: tuple[int, ...], channel_axis: str = "auto") -> InputMap:
    """A map beside an image of this shape of space, or an InputError that says what is wrong with it.

    Parameters
    ----------
    given : array in memory or lazy, (\\*shape,), (C, \\*shape) or (\\*shape, C); coarser by a whole factor if need be.
        Axes of length 1 beside these are left out.
    channel_axis : first or last, where the shape leaves it open; auto guesses.
    """
    array: Any = list_levels(given)[0] if is_lazy(given) else to_array(name, given)
    if array.dtype.kind not in "buif":
        raise InputError(f"{name} must hold numbers, not {array.dtype}")
    sizes = tuple(int(n) for n in array.shape)
    long = [a for a, n in enumerate(sizes) if n > 1]
    ways: list[InputMap] = []
    for axes in ([*range(len(sizes))], long):
        ways = ways or [way for way in _ways(name, array, axes, shape, channel_axis) if max(way.steps) == 1]
    for axes in ([*range(len(sizes))], long):
        ways = ways or _ways(name, array, axes, shape, channel_axis)
    if not ways:
        where = {"auto": "or one axis more", "first": "after the channels", "last": "before the channels"}[channel_axis]
        raise InputError(f"{name} must have the image's shape {shape} {where}, or a whole fraction of it, not {sizes}")
    if len(ways) > 1:
        raise InputError(
            f"{name} of shape {sizes} may have its channels first or last beside an image of {shape}; say which "
            "(channel_axis first or last)"
        )
    if ways[0].channels > MAX_CHANNELS:
        raise InputError(
            f"{name} must have at most {MAX_CHANNELS:,} channels, not {ways[0].channels:,}; is {channel_axis} the "
            "right axis for them?"
        )
    return ways[0]


def require_one_channel(one: InputMap) -> InputMap:
    """The map, which must have one channel."""
    if one.channels != 1:
        raise InputError(f"{one.name} must be one map, not {one.channels} channels: give the channel that holds it")
    return one


def _ways(name: str, array: Any, axes: list[int], shape: tuple[int, ...], channel_axis: str) -> list[InputMap]:
    """How some axes of an array can be the image's space, with channels first, last or none."""
    splits: list[tuple[int | None, tuple[int, ...]]] = []
    if len(axes) == len(shape):
        splits.append((None, tuple(axes)))
    elif len(axes) == len(shape) + 1:
        splits += [(axes[0], tuple(axes[1:]))] if channel_axis != "last" else []
        splits += [(axes[-1], tuple(axes[:-1]))] if channel_axis != "first" else []
    ways = []
    for axis, space in splits:
        steps = [_step(n, int(array.shape[a])) for n, a in zip(shape, space, strict=True)]
        # A coarser map is as coarse along one axis of a plane as along the other.
        if None not in steps and steps[-1] == steps[-2] and steps[0] in (1, steps[-1]):
            ways.append(InputMap(name, array, axis, space, shape, tuple(steps)))  # type: ignore[arg-type]
    return ways


def _step(fine: int, coarse: int) -> int | None:
    """How many of `fine` pixels one of `coarse` pixels covers; None if no whole number explains it.

    >>> _step(100, 100), _step(100, 34), _step(100, 33), _step(100, 60), _step(100, 200)
    (1, 3, 3, None, None)
    """
    if not 0 < coarse <= fine:
        return None
    step = round(fine / coarse)
    return step if coarse in (fine // step, -(-fine // step)) else None


# Pixels from which components are learnt, and those that are converted at one time.
LEARNT_PIXELS, SOME = 1 << 17, 1 << 14
# Components with less than this share of the variance of the first say nothing.
LEAST_SHARE = 1e-6


class ChannelReduction(NamedTuple):
    """How channels become few.

    Attributes
    ----------
    span : what few channels are stretched from; None where there are components.
    mean, basis : (C,) mean of the channels, and (C, components) what a channel adds to each.
    share : of the variance of all channels, each scaled to variance 1, that the components hold.
    """

    span: IntensityRange | None
    mean: Float64Array
    basis: Float64Array
    share: float = 1.0


def fit_reduction(parts: Sequence[NDArray[Any]], components: int) -> ChannelReduction:
    """The reduction of a map, from parts (..., C) of it that stand for all.

    Parameters
    ----------
    components : channels at most; more become so many components.
    """
    channels = parts[0].shape[-1]
    if channels <= components:
        return ChannelReduction(estimate_range(parts, False), np.zeros(0), np.zeros((0, 0)))
    pixels = sum(part.size // channels for part in parts)
    every = max(1, pixels // LEARNT_PIXELS)
    rows = np.concatenate([part.reshape(-1, channels)[::every] for part in parts]).astype(np.float64)
    mean, spread = rows.mean(axis=0), rows.std(axis=0)
    unit = np.where(spread > 0, spread, np.inf)  # a constant channel adds nothing
    rows = (rows - mean) / unit
    variance, axes = np.linalg.eigh(rows.T @ rows / len(rows))
    variance, axes = variance[::-1], axes[:, ::-1]
    count = max(1, int((variance[:components] > LEAST_SHARE * variance[0]).sum()))
    axes, kept = axes[:, :count], variance[:count]
    # The sign of an axis is a matter of the library; its largest entry is to be positive.
    axes = axes * np.sign(axes[np.abs(axes).argmax(axis=0), np.arange(count)])
    scale = np.sqrt(np.where(kept > 0, kept, 1.0))
    total = float(variance.sum())
    return ChannelReduction(
        None, mean, axes / scale / unit[:, np.newaxis], float(kept.sum() / total) if total > 0 else 1.0
    )


def apply_reduction(values: NDArray[Any], reduction: ChannelReduction) -> ChannelImage:
    """Values (..., C) as (..., channels) float32."""
    if reduction.span is not None:
        return scale_channels(values, reduction.span)
    rows = values.reshape(-1, values.shape[-1])
    out = np.empty((len(rows), reduction.basis.shape[1]), np.float32)
    for first in range(0, len(rows), SOME):
        some = rows[first : first + SOME].astype(np.float64)
        out[first : first + SOME] = (some - reduction.mean) @ reduction.basis
    return out.reshape(*values.shape[:-1], -1)


# The maps by the names of their arguments.
MAP_NAMES = ("features", "boundaries", "foreground")
# Pixels of a large map that are looked at together.
BLOCK = 2**20


class ProbabilityMap(NamedTuple):
    """A map of probabilities, and what its values mean."""

    map: InputMap
    range: ValueRange

    def log_odds(self, part: Slices | None = None) -> Float32Array:
        """(\\*part,) log odds at a part of the image, or at all of it."""
        return self.range.log_odds(self.map.read(part)[..., 0])

    @property
    def notes(self) -> dict[str, Any]:
        """What was recognised, ready for JSON."""
        return {**self.map.recognised, "range": self.range.words}


class FeatureMap(NamedTuple):
    """A map of features, and how its channels become few."""

    map: InputMap
    reduction: ChannelReduction

    def channels(self, part: Slices | None = None) -> ChannelImage:
        """(\\*part, k) float32 at a part of the image, or at all of it."""
        return apply_reduction(self.map.read(part), self.reduction)

    @property
    def notes(self) -> dict[str, Any]:
        """What was recognised and made of it, ready for JSON."""
        if self.reduction.span is not None:
            return self.map.recognised
        count, share = self.reduction.basis.shape[1], round(self.reduction.share, 4)
        return {**self.map.recognised, "components": count, "variance": share}


@dataclass(frozen=True, eq=False)
class InputMaps:
    """All maps of an image; None for those that were not given."""

    features: FeatureMap | None = None
    boundaries: ProbabilityMap | None = None
    foreground: ProbabilityMap | None = None

    def __bool__(self) -> bool:
        return any(one is not None for one in (self.features, self.boundaries, self.foreground))

    @property
    def notes(self) -> dict[str, Any]:
        """What was recognised of each, by name, ready for JSON."""
        return {name: one.notes for name in MAP_NAMES if (one := getattr(self, name)) is not None}


NO_MAPS = InputMaps()


def open_input_maps(
    given: Mapping[str, Any], shape: tuple[int, ...], settings: Settings, parts: Sequence[Slices] | None = None
) -> InputMaps:
    """The maps that a user gives beside an image, or an InputError that says what is wrong with one.

    Parameters
    ----------
    given : arrays by the names `MAPS`, in memory or lazy; None for none.
    shape : of the image's space.
    parts : of the image, that stand for all of it where maps are too large to be read at once; None reads them.
    """
    maps = InputMaps()
    check_required_maps(given, settings)
    if (features := given.get("features")) is not None:
        opened = open_input_map("features", features, shape, settings.channel_axis)
        values = [opened.read(part) for part in parts or (None,)]
        refuse_constant("features", chain(values, _rest(opened, shape, parts)))
        maps = replace(maps, features=FeatureMap(opened, fit_reduction(values, settings.components)))
    for name, text in (("boundaries", settings.boundaries_range), ("foreground", settings.foreground_range)):
        if given.get(name) is None:
            continue
        opened, declared = (
            require_one_channel(open_input_map(name, given[name], shape)),
            parse_value_range(f"{name}_range", text),
        )
        values = [opened.read(part) for part in parts or (None,)]
        refuse_constant(name, chain(values, _rest(opened, shape, parts)))
        one = ProbabilityMap(opened, declared or guess_value_range(values))
        maps = replace(maps, boundaries=one) if name == "boundaries" else replace(maps, foreground=one)
    return maps


def _rest(opened: InputMap, shape: tuple[int, ...], parts: Sequence[Slices] | None) -> Iterator[NDArray[Any]]:
    """All of a map that only parts have been read of, block by block: they may be the same where the map is not."""
    if parts is not None and is_lazy(opened.array):
        blocks = make_grid(shape, (1,) * len(shape), BLOCK)
        for index in blocks:
            yield opened.read(blocks.inside(index))


def check_required_maps(given: Mapping[str, Any], settings: Settings) -> None:
    """Refuse settings that need a map which is not there."""
    absent = {name for name in MAP_NAMES if given.get(name) is None}
    if settings.coupling == "boundaries" and "boundaries" in absent:
        raise InputError("coupling boundaries needs a map of boundaries: give boundaries=, or choose another coupling")
    if settings.sites_from in absent:
        raise InputError(
            f"sites_from {settings.sites_from} needs that map: give {settings.sites_from}=, or choose auto"
        )
    if settings.likelihood == "none" and settings.texture_words == 0 and len(absent) == len(MAP_NAMES):
        raise InputError("likelihood none needs a map beside the image: give features=, boundaries= or foreground=")


def format_map_notes(notes: Mapping[str, Any]) -> list[str]:
    """What was recognised of each map, a line each for a person.

    >>> note_lines({"boundaries": {"channels": 1, "channel_axis": "none", "range": "0 to 255 (guessed)"}})
    ['boundaries: values 0 to 255 (guessed)']
    """
    lines = []
    for name, note in ((name, notes[name]) for name in MAP_NAMES if name in notes):
        words = []
        if note["channel_axis"] != "none":
            words.append(f"{note['channels']} channels on the {note['channel_axis']} axis")
        if "reduced" in note:
            words.append(f"to be reduced to {note['reduced']} components")
        if "components" in note:
            words.append(f"{note['components']} components with {note['variance']:.0%} of the variance")
        if "range" in note:
            words.append(f"values {note['range']}")
        if "coarser" in note:
            words.append(f"{max(note['coarser'])} times coarser than the image")
        lines.append(f"{name}: {', '.join(words) or 'one channel'}")
    return lines


# What a component of variance 1, and a certain boundary, are worth in units of Lab.
COMPONENT, BOUNDARY = 20.0, 100.0


def sites_source(settings: Settings, given: InputMaps | Mapping[str, Any]) -> str:
    """What sites follow, image, features or boundaries, if these maps are given (by name: None for none).

    A map of boundaries is followed unless it has no weight: sites of the image would lie across what it parts.

    >>> followed(Settings(), {"boundaries": np.zeros((2, 2))}), followed(Settings(), {"features": np.zeros((2, 2))})
    ('boundaries', 'image')
    """
    if settings.sites_from != "auto":
        return settings.sites_from
    boundaries = given.boundaries if isinstance(given, InputMaps) else given.get("boundaries")
    return "image" if boundaries is None or not settings.boundaries_weight else "boundaries"


def select_site_image(
    picture: NormalizedImage, maps: InputMaps, settings: Settings, part: Slices | None = None
) -> NormalizedImage:
    """What sites follow and the contrast between them is measured on: the image, or features in its place.

    Parameters
    ----------
    picture : the converted image, or the `part` of it.
    """
    if maps.features is None or sites_source(settings, maps) != "features":
        return picture
    channels = maps.features.channels(part) * np.float32(lab_per_unit(maps.features))
    return NormalizedImage(np.ascontiguousarray(channels), False, picture.spacing)


def lab_per_unit(features: FeatureMap) -> float:
    """What a unit of the channels of features is worth in units of Lab."""
    return COMPONENT if features.reduction.span is None else 1.0


def make_sites(
    picture: NormalizedImage, maps: InputMaps, settings: Settings, mask: ArrayLike | None, part: Slices | None = None
) -> Sites:
    """Superpixels of what is followed.

    Parameters
    ----------
    picture : the converted image, or a part of it.
    mask : (\\*shape,) true where sites are wanted; None for everywhere.
    part : where in the image the picture lies; None for all of it.
    """
    follows = sites_source(settings, maps)
    if follows == "features":
        return make_superpixels(select_site_image(picture, maps, settings, part), settings, mask)
    if follows == "boundaries" and maps.boundaries is not None:
        inside = check_mask(mask, picture.shape)
        height = BOUNDARY / (1 + np.exp(-maps.boundaries.log_odds(part)))
        return find_basins(height.astype(np.float32), settings, inside, picture.spacing)
    return make_superpixels(picture, settings, mask)
