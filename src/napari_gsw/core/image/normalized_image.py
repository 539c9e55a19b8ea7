"""Normalization of images: any numeric array becomes Lab, or channels from 0 to 100."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from napari_gsw.core.array_types import BoolArray, ChannelImage, Float64Array
from napari_gsw.core.errors import InputError, to_array
from napari_gsw.core.image.denoise import Progress, denoise, estimate_noise, fill_zero_noise
from napari_gsw.core.image.spacing import Spacing
from napari_gsw.core.settings import check_axes

# Differences of larger values might not be finite.
MAX_VALUE = 1e100
# Less noise than this stays, and RGB of more contrast is not stretched: fractions of the intensity range.
MIN_NOISE, MIN_CONTRAST = 0.02, 0.25
# Percentiles of a channel that become 0 and 100: a few hot pixels do not matter.
PERCENTILES = 0.1, 99.9
# About how many values of a sample its contrast is measured by.
MAX_CONTRAST_VALUES = 1 << 19
# Pixels that are converted to Lab at a time.
LAB_PIXELS = 1 << 14
# CIE lightness is a line below the knee and a cube root above it.
KNEE, SLOPE, OFFSET = np.float32((6 / 29) ** 3), np.float32(29**2 / (3 * 6**2)), np.float32(4 / 29)
# First guesses of cube roots, at so many steps from 0 to 1.
STEPS = 4096
CUBE_ROOTS = np.cbrt(np.arange(STEPS + 1) / STEPS).astype(np.float32)
# From linear sRGB to X, Y and Z by row, in units of white (D65, 2 degree observer).
TO_XYZ = (
    np.array([[0.412453, 0.357580, 0.180423], [0.212671, 0.715160, 0.072169], [0.019334, 0.119193, 0.950227]])
    / np.array([[0.95047], [1.0], [1.08883]])
).astype(np.float32)


@dataclass(frozen=True, eq=False)
class NormalizedImage:
    """An image that has been checked and converted."""

    channels: ChannelImage  # (*shape, C) float32: Lab for RGB, otherwise 0..100
    rgb: bool
    spacing: Spacing = None
    pale: bool = False  # RGB of low contrast, whose colours have been stretched
    rounding: float = 0.0  # difference in L of adjacent values, for a pale image of integers; else 0

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the space, in the image's order of axes."""
        return self.channels.shape[:-1]

    @property
    def luminance(self) -> ChannelImage:
        """(*shape,) float32 in 0..100: L of Lab, or the mean of the channels."""
        luminance: ChannelImage = self.channels[..., 0] if self.rgb else self.channels.mean(axis=-1)
        return luminance


class IntensityRange(NamedTuple):
    """Values of an image that become black and white (C,), or (1,) for all samples of RGB, and the noise to remove."""

    low: Float64Array
    high: Float64Array
    noise: Float64Array | None = None


def normalize_image(
    image: ArrayLike,
    axes: str = "auto",
    value_range: IntensityRange | None = None,
    reduce_noise: bool = False,
    threads: int | None = None,
) -> NormalizedImage:
    """Check an image and convert it.

    It is 2D or 3D with or without channels, of any integer, boolean or float type. `axes` has a letter for each axis:
    Y, X and possibly Z in space, C for channels, S for RGB or RGBA samples; or is ``auto``. Without the range of the
    image of which this is a part, `reduce_noise` removes noise and stretches RGB of low contrast.

    >>> normalize_image(np.zeros((4, 5, 3), np.uint8)).rgb
    True
    >>> normalize_image(np.zeros((4, 5, 3), np.uint8), axes="ZYX").shape
    (4, 5, 3)
    """
    values, rgb = read_channels(image, axes)
    clean = values
    if value_range is None:
        value_range, (clean,) = estimate_range([values], rgb, reduce_noise)
    elif value_range.noise is not None:
        clean = denoise(values, value_range.noise, threads=threads)
    return scale_image(clean, rgb, value_range, values.dtype.kind in "iu")


def scale_image(values: NDArray[Any], rgb: bool, value_range: IntensityRange, has_integers: bool) -> NormalizedImage:
    """Convert channels (*shape, C) in a range, from which noise was removed; the image may have been of integers."""
    pale = rgb and len(value_range.low) > 1  # as _stretch_contrast has made it
    rounding = 100 / float((value_range.high - value_range.low).min()) if pale and has_integers else 0.0
    channels = _convert_to_lab(values, value_range) if rgb else scale_channels(values, value_range)
    return NormalizedImage(channels, rgb, pale=pale, rounding=rounding)


def read_channels(image: ArrayLike, axes: str = "auto") -> tuple[NDArray[Any], bool]:
    """Check an image; return its channels (*shape, C) without alpha, and whether they are RGB."""
    array = to_array("the image", image)
    return select_channels(array, check_image(array, axes))


def check_image(array: NDArray[Any], axes: str = "auto") -> str:
    """Check an image, and return the letters of its axes."""
    letters = parse_axes(array, axes)
    if array.dtype.kind == "f":
        refuse_nonfinite(int(array.size - np.isfinite(array).sum()))
        if array.dtype.itemsize > 4 and max(-array.min(), array.max()) > MAX_VALUE:
            raise InputError(f"the image must have values in [{-MAX_VALUE:g}, {MAX_VALUE:g}]; scale them down")
    return letters


def parse_axes(array: NDArray[Any], axes: str = "auto") -> str:
    """Return the letters of the axes of an image in capitals."""
    if array.dtype.kind not in "buif":
        raise InputError(f"the image must hold numbers, not {array.dtype}")
    if array.size == 0:
        raise InputError(f"the image is empty (shape {array.shape})")
    if (letters := check_axes(axes)) == "auto":
        return guess_axes(array)
    if len(letters) != array.ndim:
        raise InputError(f"axes must have {array.ndim} letters for an image of shape {array.shape}, not {axes!r}")
    return letters


def guess_axes(array: NDArray[np.generic]) -> str:
    """Guess the axes of an image: the last axis is RGB(A) if it has 3 or 4 entries."""
    if array.ndim == 2:
        return "YX"
    if array.ndim == 3:
        if array.shape[-1] in (3, 4):
            return "YXS"
        return "YXC" if array.shape[-1] <= 2 else "ZYX"
    if array.ndim == 4 and array.shape[-1] in (3, 4):
        return "ZYXS"
    example = "CZYX" if array.ndim == 4 else "YX for two dimensions"
    raise InputError(f"axes must be given for an image of shape {array.shape}, for example {example}")


def channels_last(array: NDArray[Any], letters: str) -> NDArray[Any]:
    """Transpose an array to (*shape, C), with one channel if it has no axis of channels."""
    channel = max(letters.find("S"), letters.find("C"))
    order = [i for i, letter in enumerate(letters) if letter in "ZYX"]
    return array.transpose([*order, channel]) if channel >= 0 else array.transpose(order)[..., np.newaxis]


def select_channels(array: NDArray[Any], letters: str) -> tuple[NDArray[Any], bool]:
    """Select the channels (*shape, C) without alpha, and return whether they are RGB."""
    values = channels_last(array, letters)
    n_colours = {2: 1, 3: 3, 4: 3}.get(values.shape[-1]) if "S" in letters else None
    return values[..., :n_colours], n_colours == 3


def find_nonfinite_pixels(image: ArrayLike, axes: str = "auto") -> BoolArray | None:
    """Find the pixels (*shape,) of an image that are NaN or infinite; None without any, or if all are."""
    array = to_array("the image", image)
    bad = find_nonfinite(channels_last(array, parse_axes(array, axes)))
    return None if bad is None or bad.all() else bad


def find_nonfinite(values: NDArray[Any]) -> BoolArray | None:
    """Find the pixels (*shape,) that are NaN or infinite in a channel of (*shape, C); None without any."""
    if values.dtype.kind != "f":
        return None
    bad: BoolArray = ~np.isfinite(values).all(axis=-1)
    return bad if bad.any() else None


def refuse_nonfinite(count: int) -> None:
    """Raise an error if there are NaN or infinite pixels."""
    if count:
        raise InputError(f"the image has {count} pixels that are NaN or infinite; replace them by finite values")


def fill_nonfinite(values: NDArray[Any], is_used: BoolArray) -> NDArray[Any]:
    """Fill NaN and infinite pixels of (*shape, C) with the nearest finite ones; refuse them where pixels are used."""
    from scipy import ndimage

    bad = find_nonfinite(values)
    if bad is None:
        return values
    refuse_nonfinite(int((bad & is_used).sum()))
    if bad.all():
        return np.zeros_like(values)
    nearest = ndimage.distance_transform_edt(bad, return_distances=False, return_indices=True)
    return np.asarray(values[tuple(nearest)])


def fill_outside_mask(
    image: ArrayLike, axes: str, find_used: Callable[[tuple[int, ...]], BoolArray | None]
) -> NDArray[Any]:
    """Fill the NaN and infinite pixels of an image that are not used.

    `find_used` returns the pixels (*shape,) that are used, or None for all.
    """
    array = to_array("the image", image)
    letters = parse_axes(array, axes)
    values = channels_last(array, letters)
    if find_nonfinite(values) is None or (is_used := find_used(values.shape[:-1])) is None or is_used.all():
        return array
    copy = np.array(array)
    channels_last(copy, letters)[:] = fill_nonfinite(values, is_used)
    return copy


def estimate_range(
    samples: Sequence[NDArray[Any]], rgb: bool, reduce_noise: bool = False, progress: Progress = None
) -> tuple[IntensityRange, list[NDArray[Any]]]:
    """Estimate the intensity range of an image from samples (..., C); also return these without the noise.

    RGB of 8 bits has the range of its type, other RGB at least 0..1. Any other channel goes from its 0.1 to its 99.9
    percentile. With `reduce_noise` the range holds the noise if it is visible, and RGB of low contrast is stretched.
    """
    plain = _measure_range(samples, rgb)
    if not reduce_noise:
        return plain, list(samples)
    value_range = _stretch_contrast(plain, samples) if rgb else plain
    noise = estimate_noise(samples)
    width = np.where(value_range.high > value_range.low, value_range.high - value_range.low, np.inf)
    if (noise / width).max() < MIN_NOISE:
        return value_range, list(samples)
    noise = fill_zero_noise(noise, samples)
    denoised: list[NDArray[Any]] = [denoise(sample, noise, progress) for sample in samples]
    value_range = _stretch_contrast(plain, denoised) if rgb else _measure_range(denoised, rgb)
    return value_range._replace(noise=noise), denoised


def _measure_range(samples: Sequence[NDArray[Any]], rgb: bool) -> IntensityRange:
    if rgb and all(sample.dtype == np.uint8 for sample in samples):
        return IntensityRange(np.zeros(1), np.full(1, 255.0))
    if rgb:
        low, high = min(float(s.min()) for s in samples), max(float(s.max()) for s in samples)
        return IntensityRange(np.array([min(low, 0.0)]), np.array([max(high, 1.0)]))
    ends = []
    for c in range(samples[0].shape[-1]):
        values = np.concatenate([sample[..., c].ravel() for sample in samples]).astype(np.float64)
        low, high = np.percentile(values, PERCENTILES)
        ends.append((low, high) if high > low else (values.min(), values.max()))
    return IntensityRange(*np.transpose(ends))


def _stretch_contrast(value_range: IntensityRange, samples: Sequence[NDArray[np.generic]]) -> IntensityRange:
    """Narrow the range of RGB that uses little of it, by one factor about the middle of each sample: hues stay."""
    width = float(value_range.high[0] - value_range.low[0])
    rows = np.concatenate([s.reshape(-1, 3)[:: 1 + s.size // MAX_CONTRAST_VALUES] for s in samples])
    bottom, top = np.percentile(rows.astype(np.float64), PERCENTILES, axis=0)
    used = float((top - bottom).max()) / width
    if used >= MIN_CONTRAST or used == 0:
        return value_range
    middle, narrow = (bottom + top) / 2, width * used / MIN_CONTRAST
    position = np.clip((middle - value_range.low) / width, MIN_CONTRAST / 2, 1 - MIN_CONTRAST / 2)
    return IntensityRange(middle - narrow * position, middle + narrow * (1 - position))


def scale_rgb(rgb: NDArray[np.generic], value_range: IntensityRange | None = None) -> ChannelImage:
    """Scale samples of any type and range to 0..1."""
    low, high, _ = value_range or _measure_range([rgb], True)
    return np.asarray(np.clip((rgb.astype(np.float64) - low) / (high - low), 0, 1), dtype=np.float32)


def _linearize(samples: ChannelImage) -> ChannelImage:
    """Convert sRGB samples to amounts of light, both 0..1."""
    power = ((samples + np.float32(0.055)) / np.float32(1.055)) ** np.float32(2.4)
    return np.where(samples > 0.04045, power, samples / np.float32(12.92))


LIGHT_OF_BYTES = _linearize((np.arange(256) / 255).astype(np.float32))


def _convert_to_lab(rgb: NDArray[np.generic], value_range: IntensityRange) -> ChannelImage:
    """Convert sRGB samples of any type and range to CIE Lab, a few pixels at a time, which stay in the cache."""
    rows = rgb.reshape(-1, 3)
    out = np.empty(rows.shape, np.float32)
    is_full = rgb.dtype == np.uint8 and value_range.low.tolist() == [0.0] and value_range.high.tolist() == [255.0]
    for first in range(0, len(rows), LAB_PIXELS):
        part = rows[first : first + LAB_PIXELS]
        r, g, b = (LIGHT_OF_BYTES[part] if is_full else _linearize(scale_rgb(part, value_range))).T
        x, y, z = (_compute_lightness(row[0] * r + row[1] * g + row[2] * b) for row in TO_XYZ)
        lab = np.float32(116) * y - np.float32(16), np.float32(500) * (x - y), np.float32(200) * (y - z)
        np.stack(lab, axis=-1, out=out[first : first + LAB_PIXELS])
    return out.reshape(rgb.shape)


def _compute_lightness(light: ChannelImage) -> ChannelImage:
    """Compute the cube root of light in 0..1 by one step of Halley's method, or a line where there is little light."""
    root = CUBE_ROOTS[np.minimum(light * np.float32(STEPS) + np.float32(0.5), np.float32(STEPS)).astype(np.int32)]
    cube = root * root * root
    with np.errstate(invalid="ignore"):  # 0 / 0
        curve = root * ((cube + light + light) / (cube + cube + light))
    return np.where(light <= KNEE, SLOPE * light + OFFSET, curve)


def scale_channels(array: NDArray[np.generic], value_range: IntensityRange) -> ChannelImage:
    """Scale each channel from its range to 0..100."""
    channels = np.empty(array.shape, np.float32)
    for c, (low, high) in enumerate(zip(value_range.low, value_range.high, strict=True)):
        values = array[..., c].astype(np.float64)
        channels[..., c] = np.clip((values - low) / (high - low), 0, 1) * 100 if high > low else 0
    return channels


def per_image(values: Any, count: int, name: str) -> list[Any]:
    """Return a list with an entry for each of `count` images, None where there is none; `name` is for errors."""
    entries = [None] * count if values is None else list(values) if isinstance(values, (list, tuple)) else []
    if len(entries) != count:
        size = f"{len(values)} entries" if isinstance(values, (list, tuple)) else type(values).__name__
        raise InputError(f"{name} must be a list with an entry (or None) for each of {count} images, not {size}")
    return entries
