"""Compiled conversion of colours: linear light to CIE Lab."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from napari_gsw.core.array_types import BoolArray, ChannelImage
from napari_gsw.core.errors import InputError, to_array
from napari_gsw.core.image.denoise import Progress, denoise, estimate_noise, fill_zero_noise, ignore_progress
from napari_gsw.core.image.spacing import Spacing
from napari_gsw.core.jit import njit, njit_inner

# Of the curve from light to lightness: below the knee it is a line.
KNEE, SLOPE, FOOT = np.float32((6 / 29) ** 3), np.float32(29**2 / (3 * 6**2)), np.float32(4 / 29)
# First guesses of cube roots, at so many places from 0 to 1.
PLACES = 4096


@njit
def convert_to_lab(light: ChannelImage, matrix: ChannelImage, guesses: ChannelImage, out: ChannelImage) -> None:
    """CIE Lab of linear RGB.

    Parameters
    ----------
    light : (pixels, 3) float32 in 0..1.
    matrix : (3, 3) float32 from linear RGB to X, Y, Z in units of those of white.
    guesses : (4097,) float32 cube roots of 0, 1/4096, ... 1; one step of Halley's makes float32 of them.
    out : (pixels, 3) float32, written.
    """
    top = np.float32(PLACES)
    for p in range(light.shape[0]):
        r, g, b = light[p, 0], light[p, 1], light[p, 2]
        x = _curve(matrix[0, 0] * r + matrix[0, 1] * g + matrix[0, 2] * b, guesses, top)
        y = _curve(matrix[1, 0] * r + matrix[1, 1] * g + matrix[1, 2] * b, guesses, top)
        z = _curve(matrix[2, 0] * r + matrix[2, 1] * g + matrix[2, 2] * b, guesses, top)
        out[p, 0] = np.float32(116) * y - np.float32(16)
        out[p, 1] = np.float32(500) * (x - y)
        out[p, 2] = np.float32(200) * (y - z)


@njit_inner
def _curve(t: np.float32, guesses: ChannelImage, top: np.float32) -> np.float32:
    """Cube root of t in 0..1, or a line where t is small; guesses (4097,) float32, `top` their number less one."""
    if t <= KNEE:
        return SLOPE * t + FOOT
    root = guesses[min(np.uint32(t * top + np.float32(0.5)), np.uint32(PLACES))]
    cube = root * root * root
    better: np.float32 = root * np.divide(cube + t + t, cube + cube + t)
    return better


def find_nonfinite(values: NDArray[Any]) -> BoolArray | None:
    """(\\*shape,) where values (\\*shape, C) are NaN or infinite in a channel; None if that is nowhere."""
    if values.dtype.kind != "f":
        return None
    bad: BoolArray = ~np.isfinite(values).all(axis=-1)
    return bad if bad.any() else None


def fill_nonfinite(values: NDArray[Any], seen: BoolArray) -> NDArray[Any]:
    """The values with those outside `seen` finite too; an InputError if some inside are not.

    Parameters
    ----------
    values : (\\*shape, C). Where none of them is finite, all become 0.
    seen : (\\*shape,) the pixels that count.
    """
    from scipy import ndimage

    bad = find_nonfinite(values)
    if bad is None:
        return values
    refuse_nonfinite(int((bad & seen).sum()))
    if bad.all():
        return np.zeros_like(values)
    nearest = ndimage.distance_transform_edt(bad, return_distances=False, return_indices=True)
    whence = tuple(np.asarray(axis)[bad] for axis in nearest)
    copy = values.copy()
    copy[bad] = values[whence]
    return copy


def refuse_nonfinite(count: int) -> None:
    """Say that so many pixels cannot be used, if there are any."""
    if count:
        raise InputError(f"the image has {count} pixels that are NaN or infinite; replace them by finite values")


# Differences of larger values might not be finite.
MOST_VALUE = 1e100
# Noise that is taken off, and the contrast from which on colours are as they are: shares of the span.
LEAST_NOISE = 0.02
LEAST_CONTRAST = 0.25
# Samples of a part that its contrast is measured by, about.
SOME_SAMPLES = 1 << 19


@dataclass(frozen=True, eq=False)
class NormalizedImage:
    """An image that has been checked and converted.

    Attributes
    ----------
    channels : (\\*shape, C) float32, Lab for RGB, otherwise 0..100.
    rgb : whether the channels are Lab.
    spacing : distance between pixels along each axis of space, the smallest being 1; None for the same along all.
    pale : whether it is RGB of so little contrast that its colours have been stretched.
    rounding : by how much of L two values differ that are next to each other, if it is pale and has whole ones; else 0.
    """

    channels: ChannelImage
    rgb: bool
    spacing: Spacing = None
    pale: bool = False
    rounding: float = 0.0

    @property
    def shape(self) -> tuple[int, ...]:
        """The spatial shape, in the image's own order of axes."""
        return self.channels.shape[:-1]

    @property
    def luminance(self) -> ChannelImage:
        """(\\*shape,) float32 in 0..100: L of Lab, or the mean of the channels."""
        light: ChannelImage = self.channels[..., 0] if self.rgb else self.channels.mean(axis=-1)
        return light


class IntensityRange(NamedTuple):
    """What an image is converted by: the same all over it.

    Attributes
    ----------
    low, high : (C,) the values that become black and white, of each channel; of RGB samples (1,) if they are the same.
    noise : (C,) standard deviation of the noise that is taken off; None for none.
    """

    low: NDArray[np.float64]
    high: NDArray[np.float64]
    noise: NDArray[np.float64] | None = None


def normalize_image(
    image: ArrayLike,
    axes: str = "auto",
    span: IntensityRange | None = None,
    calm: bool = False,
    progress: Progress = ignore_progress,
    threads: int | None = None,
) -> NormalizedImage:
    """Check an image and convert it.

    Parameters
    ----------
    image : array, 2D or 3D with or without channels, of any integer, boolean or float type and range.
    axes : one letter an axis: Y, X and possibly Z in space, C for channels, S for RGB or RGBA samples; or ``auto``.
    span : of the whole image, where `image` is a part of it; None looks for it.
    calm : whether to look for noise and weak contrast too, and to convert the image such that neither matters.
    progress, threads : as for :func:`napari_gsw.core.image.denoise.denoise`.

    Examples
    --------
    >>> picture(np.zeros((4, 5, 3), np.uint8)).rgb
    True
    >>> picture(np.zeros((4, 5, 3), np.uint8), axes="ZYX").shape
    (4, 5, 3)
    """
    array = to_array("the image", image)
    letters = check_image(array, axes)
    values, rgb = select_channels(array, letters)
    if span is None:
        span, (values,) = (
            estimate_denoised_range([values], rgb, progress) if calm else (estimate_range([values], rgb), [values])
        )
    elif span.noise is not None:
        values = denoise(values, span.noise, progress, threads)
    pale = rgb and len(span.low) > 1  # as _contrasting has made it
    rounding = 100 / float((span.high - span.low).min()) if pale and array.dtype.kind in "iu" else 0.0
    return NormalizedImage(
        _lab(values, span) if rgb else scale_channels(values, span), rgb, pale=pale, rounding=rounding
    )


def check_image(array: NDArray[Any], axes: str = "auto") -> str:
    """The letters of an image's axes; an :class:`InputError` for an array that is none."""
    letters = parse_axes(array, axes)
    if array.dtype.kind == "f":
        refuse_nonfinite(int(array.size - np.isfinite(array).sum()))
        if array.dtype.itemsize > 4 and max(-array.min(), array.max()) > MOST_VALUE:
            raise InputError(f"the image must have values in [{-MOST_VALUE:g}, {MOST_VALUE:g}]; scale them down")
    return letters


def parse_axes(array: NDArray[Any], axes: str = "auto") -> str:
    """The letters of an image's axes, whatever its values are."""
    if array.dtype.kind not in "buif":
        raise InputError(f"the image must hold numbers, not {array.dtype}")
    if array.size == 0:
        raise InputError(f"the image is empty (shape {array.shape})")
    return guess_axes(array) if axes == "auto" else _check_axes(axes, array)


def find_nonfinite_pixels(image: ArrayLike, axes: str = "auto") -> BoolArray | None:
    """(\\*shape,) where an image is NaN or infinite in a channel; None if that is nowhere, or everywhere."""
    array = to_array("the image", image)
    bad = find_nonfinite(channels_last(array, parse_axes(array, axes)))
    return None if bad is None or bad.all() else bad


def fill_outside_mask(image: ArrayLike, axes: str, seen: Callable[[tuple[int, ...]], BoolArray | None]) -> NDArray[Any]:
    """The image with the pixels that nobody looks at finite too; an :class:`InputError` if others are not.

    Parameters
    ----------
    seen : from the shape of the space, (\\*shape,) the pixels that count; None for all.
    """
    array = to_array("the image", image)
    letters = parse_axes(array, axes)
    values = channels_last(array, letters)
    if find_nonfinite(values) is None:
        return array
    where = seen(values.shape[:-1])
    if where is None:
        return array  # whoever looks at it refuses it
    copy = np.array(array)
    channels_last(copy, letters)[:] = fill_nonfinite(values, where)
    return copy


def select_channels(array: NDArray[Any], letters: str) -> tuple[NDArray[Any], bool]:
    """(\\*shape, C) what of an array is looked at, without alpha, and whether that is RGB."""
    values = channels_last(array, letters)
    if "S" in letters and values.shape[-1] in (3, 4):
        return values[..., :3], True
    if "S" in letters and values.shape[-1] == 2:
        return values[..., :1], False
    return values, False


def channels_last(array: NDArray[Any], letters: str) -> NDArray[Any]:
    """The array with its space first and its channels (one, if it has no axis for them) last."""
    samples = letters.find("S") if "S" in letters else letters.find("C")
    order = [i for i, letter in enumerate(letters) if letter in "ZYX"]
    return array.transpose([*order, samples]) if samples >= 0 else array.transpose(order)[..., np.newaxis]


def guess_axes(array: NDArray[np.generic]) -> str:
    """The axes of an image that comes without any: the last axis is RGB(A) if it has 3 or 4 entries."""
    if array.ndim == 2:
        return "YX"
    if array.ndim == 3:
        if array.shape[-1] in (3, 4):
            return "YXS"
        return "YXC" if array.shape[-1] <= 2 else "ZYX"
    if array.ndim == 4 and array.shape[-1] in (3, 4):
        return "ZYXS"
    raise InputError(
        f"axes must be given for an image of shape {array.shape}, for example "
        f"{'CZYX' if array.ndim == 4 else 'YX for two dimensions'}"
    )


def _check_axes(axes: str, array: NDArray[np.generic]) -> str:
    """The letters of an image's axes in capitals; a sentence for those that cannot be."""
    letters = axes.upper()
    known = set(letters) <= set("ZYXCS") and len(set(letters)) == len(letters)
    if not known or not {"Y", "X"} <= set(letters) or {"C", "S"} <= set(letters):
        raise InputError(
            f"axes must be auto or Y, X and possibly Z with at most one of C and S, such as ZYXC, not {axes!r}"
        )
    if len(letters) != array.ndim:
        raise InputError(f"axes must have {array.ndim} letters for an image of shape {array.shape}, not {axes!r}")
    return letters


def estimate_range(parts: Sequence[NDArray[np.generic]], rgb: bool, calm: bool = False) -> IntensityRange:
    """The span of an image, from parts (..., C) that stand for the whole.

    RGB of 8 bits has that of its type, others at most their own range. Any other channel goes from its 0.1 to its 99.9
    percentile, so that a few hot pixels do not decide. With `calm`, noise that would be seen in the channels is to be
    taken off, and RGB of little contrast, as it is then, is stretched to `LEAST_CONTRAST`.
    """
    return estimate_denoised_range(parts, rgb)[0] if calm else _plain_span(parts, rgb)


def estimate_denoised_range(
    parts: Sequence[NDArray[Any]], rgb: bool, progress: Progress = ignore_progress
) -> tuple[IntensityRange, list[NDArray[Any]]]:
    """The span of an image whose noise is taken off, if that would be seen, and its parts without it."""
    span = _plain_span(parts, rgb)
    span = _contrasting(span, parts) if rgb else span
    noise = estimate_noise(parts)
    width = np.where(span.high > span.low, span.high - span.low, np.inf)
    if (noise / width).max() < LEAST_NOISE:
        return span, list(parts)
    noise = fill_zero_noise(noise, parts)
    quiet: list[NDArray[Any]] = [denoise(part, noise, progress) for part in parts]
    span = _contrasting(_plain_span(parts, rgb), quiet) if rgb else _plain_span(quiet, rgb)
    return span._replace(noise=noise), quiet


def _contrasting(span: IntensityRange, parts: Sequence[NDArray[np.generic]]) -> IntensityRange:
    """A narrower span where RGB samples use less than `LEAST_CONTRAST` of it.

    All samples are stretched by the same factor, each about its own middle: the hue stays about the same.
    """
    width = float(span.high[0] - span.low[0])
    rows = np.concatenate([part.reshape(-1, 3)[:: 1 + part.size // SOME_SAMPLES] for part in parts])
    bottom, top = np.percentile(rows.astype(np.float64), (0.1, 99.9), axis=0)
    used = float((top - bottom).max()) / width
    if used >= LEAST_CONTRAST or used == 0:
        return span
    middle, narrow = (bottom + top) / 2, width * used / LEAST_CONTRAST
    place = np.clip((middle - span.low) / width, LEAST_CONTRAST / 2, 1 - LEAST_CONTRAST / 2)
    return IntensityRange(middle - narrow * place, middle + narrow * (1 - place))


def _plain_span(parts: Sequence[NDArray[np.generic]], rgb: bool) -> IntensityRange:
    """As :func:`span_of`, of an image as it is."""
    if rgb:
        if all(part.dtype == np.uint8 for part in parts):
            return IntensityRange(np.zeros(1), np.full(1, 255.0))
        low, high = min(float(p.min()) for p in parts), max(float(p.max()) for p in parts)
        return IntensityRange(np.array([min(low, 0.0)]), np.array([max(high, 1.0)]))
    channels = parts[0].shape[-1]
    ends = np.zeros((2, channels))
    for c in range(channels):
        values = np.concatenate([part[..., c].ravel() for part in parts]).astype(np.float64)
        low, high = np.percentile(values, (0.1, 99.9))
        ends[:, c] = (low, high) if high > low else (values.min(), values.max())
    return IntensityRange(*ends)


def scale_rgb(rgb: NDArray[np.generic], span: IntensityRange | None = None) -> ChannelImage:
    """Samples of any type and range from 0 to 1."""
    if rgb.dtype == np.uint8:
        return rgb.astype(np.float32) / np.float32(255)
    return _unit(rgb, span or estimate_range([rgb], True))


def _unit(rgb: NDArray[np.generic], span: IntensityRange) -> ChannelImage:
    """Samples from 0 to 1, as a span says."""
    return np.asarray(np.clip((rgb.astype(np.float64) - span.low) / (span.high - span.low), 0, 1), dtype=np.float32)


def linearize_rgb(unit: ChannelImage) -> ChannelImage:
    """Samples of sRGB, 0..1, as amounts of light, 0..1."""
    return np.where(
        unit > 0.04045, ((unit + np.float32(0.055)) / np.float32(1.055)) ** np.float32(2.4), unit / np.float32(12.92)
    )


# From linear sRGB to X, Y and Z, by row in units of those of white (D65, 2 degree observer).
TO_XYZ = (
    np.array([[0.412453, 0.357580, 0.180423], [0.212671, 0.715160, 0.072169], [0.019334, 0.119193, 0.950227]])
    / np.array([[0.95047], [1.0], [1.08883]])
).astype(np.float32)
CUBE_ROOTS = np.cbrt(np.arange(PLACES + 1) / PLACES).astype(np.float32)
LIGHT_OF_BYTES = linearize_rgb((np.arange(256) / 255).astype(np.float32))
# Pixels whose colours are converted at one time.
SOME = 1 << 16


def _lab(rgb: NDArray[np.generic], span: IntensityRange) -> ChannelImage:
    """CIE Lab of sRGB samples of any type and range."""
    rows = rgb.reshape(-1, 3)
    out = np.empty(rows.shape, np.float32)
    as_bytes = rgb.dtype == np.uint8 and span.low.tolist() == [0.0] and span.high.tolist() == [255.0]
    for first in range(0, len(rows), SOME):
        part = rows[first : first + SOME]
        light = LIGHT_OF_BYTES[part] if as_bytes else linearize_rgb(_unit(part, span))
        convert_to_lab(light, TO_XYZ, CUBE_ROOTS, out[first : first + SOME])
    return out.reshape(rgb.shape)


def scale_channels(array: NDArray[np.generic], span: IntensityRange) -> ChannelImage:
    """Each channel from its span to 0..100."""
    channels = np.empty(array.shape, np.float32)
    for c, (low, high) in enumerate(zip(span.low, span.high, strict=True)):
        values = array[..., c].astype(np.float64)
        channels[..., c] = np.clip((values - low) / (high - low), 0, 1) * 100 if high > low else 0
    return channels


T = TypeVar("T")


def per_image(values: Any, count: int, name: str) -> list[Any]:
    """What was given beside `count` images, one entry an image, None where there is none; `name` it."""
    if values is None:
        return [None] * count
    if not isinstance(values, (list, tuple)) or len(values) != count:
        size = f"{len(values)} entries" if isinstance(values, (list, tuple)) else type(values).__name__
        raise InputError(f"{name} must be a list with an entry (or None) for each of {count} images, not {size}")
    return list(values)
