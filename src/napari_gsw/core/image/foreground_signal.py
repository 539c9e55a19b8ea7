"""Foreground signal: how far a pixel stands out from the background, for fluorescence and stains.

Raw intensities have a background whose noise asks for clusters of its own, objects of very different brightness, and a
glow around them. In the signal the background is about 0 and a typical object about 50, wherever it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from skimage import filters

from napari_gsw.core.array_types import Float64Array
from napari_gsw.core.errors import InputError
from napari_gsw.core.image.denoise import Progress, denoise, estimate_noise, fill_zero_noise
from napari_gsw.core.image.focus import dequantize
from napari_gsw.core.image.normalized_image import NormalizedImage, estimate_range, read_channels, scale_image
from napari_gsw.core.image.spacing import Spacing, pixel_widths

# Widths of Gaussians, in units of the smallest distance between pixels: against noise; of the difference that deepens
# valleys; and of the surroundings of a pixel.
NOISE, FINE, COARSE = 0.5, 1.0, 4.0
SURROUNDINGS = 16.0
# Noise that is removed, in units of a typical object's brightness.
MIN_NOISE = 0.1
# Most stains absorb red light.
RED: Float64Array = np.array([1.0, 0.0, 0.0])
# The mean of the channels is used if it has this fraction of the largest variance that a weighted sum can have, in
# about so many values of each sample.
MIN_VARIANCE, MAX_VALUES = 0.25, 1 << 19
# Weight of the image's own brightness in the gain of each pixel, so that an empty region is not all noise.
COMMON_GAIN = 0.5
# An image of at most so many levels has steps that look like borders of objects.
FEW_LEVELS = 11
# Signal of a typical object, and the range of all.
OBJECT_SIGNAL = 50.0
MIN_SIGNAL, MAX_SIGNAL = -20.0, 150.0


class SignalScale(NamedTuple):
    """Scale of the signal, the same all over an image."""

    dark: bool  # objects are darker than the background
    weights: Float64Array | None  # (C,) of the channels; None for their mean
    top: float  # largest intensity, from which dark ones are subtracted
    background: float  # intensity of the background, and of a typical object above it
    brightness: float
    unit: float  # brightness of a typical object when each pixel has its own gain
    noise: Float64Array | None = None  # (C,) standard deviation of the noise that is removed


def normalize_images(
    images: Sequence[NDArray[Any]],
    axes: str = "auto",
    has_objects: bool = False,
    reduce_noise: bool = False,
    spacing: Spacing = None,
    progress: Progress = None,
) -> list[NormalizedImage]:
    """Normalize images in common units: by one intensity range, or one scale of the foreground signal (`has_objects`).

    The images have one type, one number of dimensions and the same channels; their sizes may differ. With
    `reduce_noise`, visible noise is removed, and few grey levels of a single image are smoothed for the signal.
    """
    selected = [read_channels(image, axes) for image in images]
    values, rgb = [v for v, _ in selected], selected[0][1]
    for name, found in (
        ("type", [v.dtype for v in values]),
        ("number of dimensions", [v.ndim - 1 for v in values]),
        ("channels", ["RGB" if is_rgb else v.shape[-1] for v, is_rgb in selected]),
    ):
        different = list(dict.fromkeys(found))
        if len(different) > 1:
            text = f"{different[0]} and {different[1]}"
            raise InputError(f"images with shared labels must have the same {name}, not {text}")
    if has_objects:
        if reduce_noise and len(values) == 1 and values[0].ndim == 3:
            values = [dequantize(values[0], FEW_LEVELS)]
        scale = estimate_signal_scale(values, rgb, reduce_noise, spacing)
        return [compute_signal(v, scale, spacing) for v in values]
    has_integers = values[0].dtype.kind in "iu"
    value_range, values = estimate_range(values, rgb, reduce_noise, progress)
    return [replace(scale_image(v, rgb, value_range, has_integers), spacing=spacing) for v in values]


def estimate_signal_scale(
    samples: Sequence[NDArray[np.generic]], rgb: bool, reduce_noise: bool = False, spacing: Spacing = None
) -> SignalScale | None:
    """Estimate the scale of an image from samples (*shape, C), in which objects are the minority of Otsu's classes.

    With `reduce_noise`, noise is removed unless it is small beside them. None if nothing differs.
    """
    values = [sample.astype(np.float64) for sample in samples]
    scale = _estimate_plain_scale(values, rgb, spacing)
    if scale is None or not reduce_noise:
        return scale
    noise = estimate_noise(values)
    if noise.max() < MIN_NOISE * scale.brightness:
        return scale
    noise = fill_zero_noise(noise, values)
    scale = _estimate_plain_scale([denoise(v, noise).astype(np.float64) for v in values], rgb, spacing)
    return None if scale is None else scale._replace(noise=noise)


def _estimate_plain_scale(samples: Sequence[Float64Array], rgb: bool, spacing: Spacing) -> SignalScale | None:
    weights = discriminant_weights(samples)
    intensities = [_weigh_channels(sample, weights) for sample in samples]
    pooled = _pool(intensities)
    if pooled.max() == pooled.min():
        return None
    dark = bool((pooled > filters.threshold_otsu(pooled)).mean() > 0.5)
    if dark and rgb and weights is None:
        weights = RED
        intensities = [_weigh_channels(sample, weights) for sample in samples]
    top = max(float(intensity.max()) for intensity in intensities) if dark else 0.0
    smooth = [_blur(top - intensity if dark else intensity, NOISE, spacing) for intensity in intensities]
    pooled = _pool(smooth)
    if pooled.max() == pooled.min():
        return None
    background = float(np.median(pooled[pooled <= filters.threshold_otsu(pooled)]))
    brightness = _typical_brightness(np.maximum(pooled - background, 0))
    scale = SignalScale(dark, weights, top, background, brightness, 1.0)
    bright = [np.maximum(_subtract_background(intensity, scale, spacing), 0) for intensity in smooth]
    return scale._replace(unit=max(_typical_brightness(_pool(bright)), 1e-12))


def compute_signal(
    values: NDArray[Any], scale: SignalScale | None, spacing: Spacing = None, threads: int | None = None
) -> NormalizedImage:
    """Compute the signal of an image, or of a part of one, from (*shape, C) without alpha: an image of one channel.

    Bright objects have a gain at each pixel, since their brightness differs by staining and depth. Dark ones have one
    gain, because a region without nuclei is not darker for it. The inverse hyperbolic sine keeps the brightest objects
    from having a cluster of their own. A difference of Gaussians deepens the valleys between objects that touch.
    """
    signal = np.zeros(values.shape[:-1])
    if scale is not None:
        values = values.astype(np.float64)
        if scale.noise is not None:
            values = denoise(values, scale.noise, threads=threads).astype(np.float64)
        intensity = _weigh_channels(values, scale.weights)
        smooth = _blur(scale.top - intensity if scale.dark else intensity, NOISE, spacing)
        above = _subtract_background(smooth, scale, spacing) / scale.unit
        above = above + _blur(above, FINE, spacing) - _blur(above, COARSE, spacing)
        bend = 0.5 if scale.dark else 1.0
        signal = np.clip(OBJECT_SIGNAL * np.arcsinh(bend * above) / bend, MIN_SIGNAL, MAX_SIGNAL)
    return NormalizedImage(signal.astype(np.float32)[..., np.newaxis], False, spacing)


def _weigh_channels(values: Float64Array, weights: Float64Array | None) -> Float64Array:
    return np.asarray(values.mean(axis=-1) if weights is None else values @ weights)


def discriminant_weights(samples: Sequence[Float64Array]) -> Float64Array | None:
    """Compute weights (C,) of the channels if their mean varies much less than another sum, as red on green may."""
    channels = samples[0].shape[-1]
    rows = np.concatenate([sample.reshape(-1, channels)[:: 1 + sample.size // MAX_VALUES] for sample in samples])
    if channels == 1 or len(rows) == 1:
        return None
    covariance = np.atleast_2d(np.cov(rows.T))
    variances, axes = np.linalg.eigh(covariance)
    if covariance.mean() * channels >= MIN_VARIANCE * variances[-1]:
        return None
    first = axes[:, -1]
    return np.asarray(first * (1.0 if first.sum() >= 0 else -1.0))


def _blur(intensity: Float64Array, width: float, spacing: Spacing) -> Float64Array:
    from scipy import ndimage

    return np.asarray(ndimage.gaussian_filter(intensity, pixel_widths(width, intensity.ndim, spacing)))


def _subtract_background(smooth: Float64Array, scale: SignalScale, spacing: Spacing) -> Float64Array:
    """Subtract the background; bright objects are divided by the typical brightness of their surroundings."""
    above: Float64Array = smooth - scale.background
    if scale.dark:
        return above
    bright = np.maximum(above, 0)
    epsilon = 1e-6 * max(scale.brightness, 1e-12)
    local = _blur(np.square(bright), SURROUNDINGS, spacing) / (_blur(bright, SURROUNDINGS, spacing) + epsilon)
    return np.asarray(above / (local + COMMON_GAIN * scale.brightness))


def _typical_brightness(bright: Float64Array) -> float:
    """Compute the mean weighted by itself: the brightness of the objects, however few they are."""
    return float(np.square(bright).sum() / max(float(bright.sum()), 1e-12))


def _pool(samples: Sequence[Float64Array]) -> Float64Array:
    return np.concatenate([sample.ravel() for sample in samples])
