"""How far a pixel stands out from the background: the channel in which objects of microscopy are told apart.

Fluorescence and stains differ in everything but this: there is a background, which is most of the image, and there are
objects on it. Raw intensities have a background whose noise asks for clusters of its own, objects of very different
brightness, and a glow around them. In the signal the background is about 0 and a typical object about 50, wherever it
is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from skimage import filters

from napari_gsw.core.array_types import Float64Array
from napari_gsw.core.errors import InputError
from napari_gsw.core.image.denoise import denoise, estimate_noise, fill_zero_noise
from napari_gsw.core.image.focus import dequantize
from napari_gsw.core.image.normalized_image import (
    NormalizedImage,
    check_image,
    estimate_range,
    guess_axes,
    normalize_image,
    select_channels,
)
from napari_gsw.core.image.spacing import Spacing, pixel_widths

# Widths of Gaussians, in units of the smallest distance between pixels: against noise; of the difference that deepens
# valleys; and of what is around a place.
NOISE, FINE, COARSE = 0.5, 1.0, 4.0
SURROUNDINGS = 16.0
# Noise that is taken off, in units of a typical object's brightness.
LEAST_NOISE = 0.1
# Most stains absorb red light.
RED: Float64Array = np.array([1.0, 0.0, 0.0])
# The mean of the channels is looked at if it has this share of the most variance that a sum of them can have; and about
# how many samples of a part say so.
LEAST_SHARE, SOME_SAMPLES = 0.25, 1 << 19
# Share of the image's own brightness in the gain of each place, so that an empty place is not all noise.
COMMON_GAIN = 0.5
# A picture of at most so many levels has steps that look like borders of objects.
FEW_LEVELS = 11
# The signal of a typical object, and the range of all.
OBJECT_SIGNAL = 50.0
LOWEST, HIGHEST = -20.0, 150.0


class SignalScale(NamedTuple):
    """What of a signal is the same all over an image.

    Attributes
    ----------
    dark : whether objects are darker than the background.
    weights : (C,) of the channels in the light in which objects are looked at; None for their mean.
    top : the largest value, from which dark ones are measured.
    background : of the light in which objects are bright.
    brightness : of a typical object above the background.
    unit : of a typical object when each place has its own gain.
    noise : (C,) standard deviation of the noise that is taken off; None for none.
    """

    dark: bool
    weights: Float64Array | None
    top: float
    background: float
    brightness: float
    unit: float
    noise: Float64Array | None = None


def make_signal_image(
    image: ArrayLike, axes: str = "auto", calm: bool = False, spacing: Spacing = None
) -> NormalizedImage:
    """The image as one channel: background about 0, objects about 50; `calm` looks for noise and roundings, too."""
    normalize_image(image, axes)  # checks it
    array = np.asarray(image)
    values, rgb = select_channels(array, guess_axes(array) if axes == "auto" else axes.upper())
    if calm and values.ndim == 3:
        values = dequantize(values, FEW_LEVELS)
    levels = estimate_signal_scale([values], rgb, calm, spacing)
    return signal_to_image(compute_signal(values.astype(np.float64), levels, spacing), spacing)


def signal_to_image(light: Float64Array, spacing: Spacing = None) -> NormalizedImage:
    """A signal (\\*shape,) as a picture of one channel."""
    return NormalizedImage(light.astype(np.float32)[..., np.newaxis], False, spacing)


def estimate_signal_scale(
    parts: Sequence[NDArray[np.generic]], rgb: bool, calm: bool = False, spacing: Spacing = None
) -> SignalScale | None:
    """The levels of an image, from parts (\\*shape, C) that stand for the whole; None if nothing differs.

    The minority of Otsu's two classes are the objects. With `calm`, noise is taken off that is not small beside them.
    """
    many = [part.astype(np.float64) for part in parts]
    levels = _levels(many, rgb, spacing)
    if levels is None or not calm:
        return levels
    noise = estimate_noise(many)
    if noise.max() < LEAST_NOISE * levels.brightness:
        return levels
    noise = fill_zero_noise(noise, many)
    quiet = _levels([denoise(part, noise).astype(np.float64) for part in many], rgb, spacing)
    return None if quiet is None else quiet._replace(noise=noise)


def _levels(parts: Sequence[Float64Array], rgb: bool, spacing: Spacing) -> SignalScale | None:
    """As :func:`signal_levels`, of an image as it is."""
    weights = discriminant_weights(parts)
    lights = [_light(part, weights) for part in parts]
    every = _all(lights)
    if every.max() == every.min():
        return None
    dark = bool((every > filters.threshold_otsu(every.ravel())).mean() > 0.5)
    if dark and rgb and weights is None:
        weights = RED
        lights = [_light(part, weights) for part in parts]
    top = max(float(light.max()) for light in lights) if dark else 0.0
    smooth = [_blurred(top - light if dark else light, NOISE, spacing) for light in lights]
    every = _all(smooth)
    if every.max() == every.min():
        return None
    background = float(np.median(every[every <= filters.threshold_otsu(every.ravel())]))
    brightness = _typical(np.maximum(every - background, 0))
    levels = SignalScale(dark, weights, top, background, brightness, 1.0)
    shine = [np.maximum(_above(light, levels, spacing), 0) for light in smooth]
    return levels._replace(unit=max(_typical(_all(shine)), 1e-12))


def compute_signal(
    values: Float64Array, levels: SignalScale | None, spacing: Spacing = None, threads: int | None = None
) -> Float64Array:
    """(\\*shape,) signal of an image, or of a part of one, (\\*shape, C) without alpha.

    Bright objects shine, each place with its own gain: their brightness differs by staining and depth. Dark ones
    absorb, and most so in red light where most stains do; there the gain is one for the image, because a place without
    nuclei is not darker for it. The inverse hyperbolic sine keeps the brightest objects from having a cluster of their
    own, and a difference of Gaussians deepens the valleys between objects that touch.
    """
    if levels is None:
        return np.zeros(values.shape[:-1])
    if levels.noise is not None:
        values = denoise(values, levels.noise, threads=threads).astype(np.float64)
    light = _light(values, levels.weights)
    smooth = _blurred(levels.top - light if levels.dark else light, NOISE, spacing)
    above = _above(smooth, levels, spacing) / levels.unit
    above = above + _blurred(above, FINE, spacing) - _blurred(above, COARSE, spacing)
    bend = 0.5 if levels.dark else 1.0
    bent: Float64Array = np.clip(OBJECT_SIGNAL * np.arcsinh(bend * above) / bend, LOWEST, HIGHEST)
    return bent


def _light(values: Float64Array, weights: Float64Array | None) -> Float64Array:
    """(\\*shape,) weighted sum of the channels of (\\*shape, C), or their mean."""
    if weights is None:
        return np.asarray(values.mean(axis=-1))
    return np.asarray(values @ weights)


def discriminant_weights(parts: Sequence[Float64Array]) -> Float64Array | None:
    """(C,) weights of the channels where their mean hardly varies beside another sum of them; None for the mean.

    What is red on green of the same lightness does not stand out in the mean.
    """
    channels = parts[0].shape[-1]
    if channels == 1:
        return None
    rows = np.concatenate([part.reshape(-1, channels)[:: 1 + part.size // SOME_SAMPLES] for part in parts])
    if len(rows) == 1:
        return None
    spread = np.atleast_2d(np.cov(rows.T))
    values, axes = np.linalg.eigh(spread)
    if spread.mean() * channels >= LEAST_SHARE * values[-1]:
        return None
    first = axes[:, -1]
    return np.asarray(first * (1.0 if first.sum() >= 0 else -1.0))


def _blurred(light: Float64Array, width: float, spacing: Spacing) -> Float64Array:
    """(\\*shape,) light blurred by so many of the smallest distances between pixels."""
    from scipy import ndimage

    return np.asarray(ndimage.gaussian_filter(light, pixel_widths(width, light.ndim, spacing)))


def _above(smooth: Float64Array, levels: SignalScale, spacing: Spacing) -> Float64Array:
    """How far light is above the background, where objects shine in units of what is usual around them."""
    above: Float64Array = smooth - levels.background
    if levels.dark:
        return above
    shine = np.maximum(above, 0)
    least = 1e-6 * max(levels.brightness, 1e-12)
    near = _blurred(np.square(shine), SURROUNDINGS, spacing) / (_blurred(shine, SURROUNDINGS, spacing) + least)
    return np.asarray(above / (near + COMMON_GAIN * levels.brightness))


def _typical(shine: Float64Array) -> float:
    """Brightness of the objects, however few they are: the mean weighted by itself."""
    return float(np.square(shine).sum() / max(float(shine.sum()), 1e-12))


def _all(parts: Sequence[Float64Array]) -> Float64Array:
    """The pixels of all parts; of one part as they are."""
    return parts[0] if len(parts) == 1 else np.concatenate([part.ravel() for part in parts])


def normalize_images(
    images: Sequence[NDArray[Any]], axes: str = "auto", objects: bool = False, calm: bool = False
) -> list[NormalizedImage]:
    """The images in common units: one span of each channel for all, or one set of levels of the signal of objects.

    Parameters
    ----------
    images : each as :func:`~napari_gsw.core.image.normalized_image.normalize_image` takes it, all of one type, of one number of
        dimensions and of the same channels; their sizes may differ.
    axes : of all of them.
    objects : whether to look at how far pixels stand out from the background.
    calm : whether to look for noise and weak contrast too.
    """
    seen = [select_channels(image, check_image(image, axes)) for image in images]
    values, rgb = [one for one, _ in seen], seen[0][1]
    _must_agree("type", [str(one.dtype) for one in values])
    _must_agree("number of dimensions", [one.ndim - 1 for one in values])
    _must_agree("channels", ["RGB" if is_rgb else one.shape[-1] for one, is_rgb in seen])
    if objects:
        levels = estimate_signal_scale(values, rgb, calm)
        return [signal_to_image(compute_signal(one.astype(np.float64), levels)) for one in values]
    span = estimate_range(values, rgb, calm)
    return [normalize_image(image, axes, span) for image in images]


def _must_agree(what: str, values: Sequence[Any]) -> None:
    different = list(dict.fromkeys(values))
    if len(different) > 1:
        raise InputError(f"images with shared labels must have the same {what}, not {different[0]} and {different[1]}")
