"""Any image -> channels in perceptual units, with the channel axis last.

Everything later (superpixels, words, contrast) measures colour differences as Euclidean distances between these
channels, so that one unit means about the same in a photograph, a fluorescence image and a multispectral scene: RGB
becomes CIE Lab, everything else is stretched from its own range to 0..100.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from napari_gsw.core.arrays import Mask, Pixels
from napari_gsw.core.errors import InputError
from napari_gsw.core.image.colour_kernels import PLACES, lab_of
from napari_gsw.core.image.noise import Progress, calmed, noise_of, noise_scales, unwatched
from napari_gsw.core.image.spacing import Spacing
from napari_gsw.core.image.unseen import bad_pixels, filled_outside, refuse
from napari_gsw.core.inputs import plain_array

# Differences of larger values might not be finite.
MOST_VALUE = 1e100
# Noise that is taken off, and the contrast from which on colours are as they are: shares of the span.
LEAST_NOISE = 0.02
LEAST_CONTRAST = 0.25
# Samples of a part that its contrast is measured by, about.
SOME_SAMPLES = 1 << 19


@dataclass(frozen=True, eq=False)
class Picture:
    """An image that has been checked and converted.

    Attributes
    ----------
    channels : (\\*shape, C) float32, Lab for RGB, otherwise 0..100.
    rgb : whether the channels are Lab.
    spacing : distance between pixels along each axis of space, the smallest being 1; None for the same along all.
    pale : whether it is RGB of so little contrast that its colours have been stretched.
    rounding : by how much of L two values differ that are next to each other, if it is pale and has whole ones; else 0.
    """

    channels: Pixels
    rgb: bool
    spacing: Spacing = None
    pale: bool = False
    rounding: float = 0.0

    @property
    def shape(self) -> tuple[int, ...]:
        """The spatial shape, in the image's own order of axes."""
        return self.channels.shape[:-1]

    @property
    def luminance(self) -> Pixels:
        """(\\*shape,) float32 in 0..100: L of Lab, or the mean of the channels."""
        light: Pixels = self.channels[..., 0] if self.rgb else self.channels.mean(axis=-1)
        return light


class Span(NamedTuple):
    """What an image is converted by: the same all over it.

    Attributes
    ----------
    low, high : (C,) the values that become black and white, of each channel; of RGB samples (1,) if they are the same.
    noise : (C,) standard deviation of the noise that is taken off; None for none.
    """

    low: NDArray[np.float64]
    high: NDArray[np.float64]
    noise: NDArray[np.float64] | None = None


def picture(
    image: ArrayLike,
    axes: str = "auto",
    span: Span | None = None,
    calm: bool = False,
    progress: Progress = unwatched,
    threads: int | None = None,
) -> Picture:
    """Check an image and convert it.

    Parameters
    ----------
    image : array, 2D or 3D with or without channels, of any integer, boolean or float type and range.
    axes : one letter an axis: Y, X and possibly Z in space, C for channels, S for RGB or RGBA samples; or ``auto``.
    span : of the whole image, where `image` is a part of it; None looks for it.
    calm : whether to look for noise and weak contrast too, and to convert the image such that neither matters.
    progress, threads : as for :func:`napari_gsw.core.image.noise.calmed`.

    Examples
    --------
    >>> picture(np.zeros((4, 5, 3), np.uint8)).rgb
    True
    >>> picture(np.zeros((4, 5, 3), np.uint8), axes="ZYX").shape
    (4, 5, 3)
    """
    array = plain_array("the image", image)
    letters = check_image(array, axes)
    values, rgb = samples(array, letters)
    if span is None:
        span, (values,) = calm_span([values], rgb, progress) if calm else (span_of([values], rgb), [values])
    elif span.noise is not None:
        values = calmed(values, span.noise, progress, threads)
    pale = rgb and len(span.low) > 1  # as _contrasting has made it
    rounding = 100 / float((span.high - span.low).min()) if pale and array.dtype.kind in "iu" else 0.0
    return Picture(_lab(values, span) if rgb else stretched(values, span), rgb, pale=pale, rounding=rounding)


def check_image(array: NDArray[Any], axes: str = "auto") -> str:
    """The letters of an image's axes; an :class:`InputError` for an array that is none."""
    letters = letters_of(array, axes)
    if array.dtype.kind == "f":
        refuse(int(array.size - np.isfinite(array).sum()))
        if array.dtype.itemsize > 4 and max(-array.min(), array.max()) > MOST_VALUE:
            raise InputError(f"the image must have values in [{-MOST_VALUE:g}, {MOST_VALUE:g}]; scale them down")
    return letters


def letters_of(array: NDArray[Any], axes: str = "auto") -> str:
    """The letters of an image's axes, whatever its values are."""
    if array.dtype.kind not in "buif":
        raise InputError(f"the image must hold numbers, not {array.dtype}")
    if array.size == 0:
        raise InputError(f"the image is empty (shape {array.shape})")
    return guess_axes(array) if axes == "auto" else _check_axes(axes, array)


def unusable_pixels(image: ArrayLike, axes: str = "auto") -> Mask | None:
    """(\\*shape,) where an image is NaN or infinite in a channel; None if that is nowhere, or everywhere."""
    array = plain_array("the image", image)
    bad = bad_pixels(channels_last(array, letters_of(array, axes)))
    return None if bad is None or bad.all() else bad


def finite_outside(image: ArrayLike, axes: str, seen: Callable[[tuple[int, ...]], Mask | None]) -> NDArray[Any]:
    """The image with the pixels that nobody looks at finite too; an :class:`InputError` if others are not.

    Parameters
    ----------
    seen : from the shape of the space, (\\*shape,) the pixels that count; None for all.
    """
    array = plain_array("the image", image)
    letters = letters_of(array, axes)
    values = channels_last(array, letters)
    if bad_pixels(values) is None:
        return array
    where = seen(values.shape[:-1])
    if where is None:
        return array  # whoever looks at it refuses it
    copy = np.array(array)
    channels_last(copy, letters)[:] = filled_outside(values, where)
    return copy


def samples(array: NDArray[Any], letters: str) -> tuple[NDArray[Any], bool]:
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


def span_of(parts: Sequence[NDArray[np.generic]], rgb: bool, calm: bool = False) -> Span:
    """The span of an image, from parts (..., C) that stand for the whole.

    RGB of 8 bits has that of its type, others at most their own range. Any other channel goes from its 0.1 to its 99.9
    percentile, so that a few hot pixels do not decide. With `calm`, noise that would be seen in the channels is to be
    taken off, and RGB of little contrast, as it is then, is stretched to `LEAST_CONTRAST`.
    """
    return calm_span(parts, rgb)[0] if calm else _plain_span(parts, rgb)


def calm_span(
    parts: Sequence[NDArray[Any]], rgb: bool, progress: Progress = unwatched
) -> tuple[Span, list[NDArray[Any]]]:
    """The span of an image whose noise is taken off, if that would be seen, and its parts without it."""
    span = _plain_span(parts, rgb)
    span = _contrasting(span, parts) if rgb else span
    noise = noise_of(parts)
    width = np.where(span.high > span.low, span.high - span.low, np.inf)
    if (noise / width).max() < LEAST_NOISE:
        return span, list(parts)
    noise = noise_scales(noise, parts)
    quiet: list[NDArray[Any]] = [calmed(part, noise, progress) for part in parts]
    span = _contrasting(_plain_span(parts, rgb), quiet) if rgb else _plain_span(quiet, rgb)
    return span._replace(noise=noise), quiet


def _contrasting(span: Span, parts: Sequence[NDArray[np.generic]]) -> Span:
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
    return Span(middle - narrow * place, middle + narrow * (1 - place))


def _plain_span(parts: Sequence[NDArray[np.generic]], rgb: bool) -> Span:
    """As :func:`span_of`, of an image as it is."""
    if rgb:
        if all(part.dtype == np.uint8 for part in parts):
            return Span(np.zeros(1), np.full(1, 255.0))
        low, high = min(float(p.min()) for p in parts), max(float(p.max()) for p in parts)
        return Span(np.array([min(low, 0.0)]), np.array([max(high, 1.0)]))
    channels = parts[0].shape[-1]
    ends = np.zeros((2, channels))
    for c in range(channels):
        values = np.concatenate([part[..., c].ravel() for part in parts]).astype(np.float64)
        low, high = np.percentile(values, (0.1, 99.9))
        ends[:, c] = (low, high) if high > low else (values.min(), values.max())
    return Span(*ends)


def unit_rgb(rgb: NDArray[np.generic], span: Span | None = None) -> Pixels:
    """Samples of any type and range from 0 to 1."""
    if rgb.dtype == np.uint8:
        return rgb.astype(np.float32) / np.float32(255)
    return _unit(rgb, span or span_of([rgb], True))


def _unit(rgb: NDArray[np.generic], span: Span) -> Pixels:
    """Samples from 0 to 1, as a span says."""
    return np.asarray(np.clip((rgb.astype(np.float64) - span.low) / (span.high - span.low), 0, 1), dtype=np.float32)


def linear_light(unit: Pixels) -> Pixels:
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
LIGHT_OF_BYTES = linear_light((np.arange(256) / 255).astype(np.float32))
# Pixels whose colours are converted at one time.
SOME = 1 << 16


def _lab(rgb: NDArray[np.generic], span: Span) -> Pixels:
    """CIE Lab of sRGB samples of any type and range."""
    rows = rgb.reshape(-1, 3)
    out = np.empty(rows.shape, np.float32)
    as_bytes = rgb.dtype == np.uint8 and span.low.tolist() == [0.0] and span.high.tolist() == [255.0]
    for first in range(0, len(rows), SOME):
        part = rows[first : first + SOME]
        light = LIGHT_OF_BYTES[part] if as_bytes else linear_light(_unit(part, span))
        lab_of(light, TO_XYZ, CUBE_ROOTS, out[first : first + SOME])
    return out.reshape(rgb.shape)


def stretched(array: NDArray[np.generic], span: Span) -> Pixels:
    """Each channel from its span to 0..100."""
    channels = np.empty(array.shape, np.float32)
    for c, (low, high) in enumerate(zip(span.low, span.high, strict=True)):
        values = array[..., c].astype(np.float64)
        channels[..., c] = np.clip((values - low) / (high - low), 0, 1) * 100 if high > low else 0
    return channels
