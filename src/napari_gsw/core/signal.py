"""How far a pixel stands out from the background: the channel in which objects of microscopy are told apart.

Fluorescence and stains differ in everything but this: there is a background, which is most of the image, and there are
objects on it. Raw intensities have a background whose noise asks for clusters of its own, objects of very different
brightness, and a glow around them. In the signal the background is about 0 and a typical object about 50, wherever it
is.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import ndimage
from skimage.filters import threshold_otsu

from napari_gsw.core.image import Picture, channels_last, guess_axes, picture

Values = NDArray[np.float64]

# Widths in pixels of the Gaussian filters: noise, a step around an object's border, and the surroundings of an object.
NOISE, FINE, COARSE = 0.5, 1.0, 4.0
SURROUNDINGS = 16.0
# Share of the image's own brightness in the gain of each place, so that an empty place is not all noise.
COMMON_GAIN = 0.5
OBJECT = 50.0
LOWEST, HIGHEST = -20.0, 150.0


def signal_picture(image: ArrayLike, axes: str = "auto") -> Picture:
    """The image as one channel: background about 0, objects about 50."""
    picture(image, axes)  # checks it
    array = np.asarray(image)
    letters = guess_axes(array) if axes == "auto" else axes.upper()
    found = signal(channels_last(array, letters).astype(np.float64), "S" in letters)
    return Picture(found.astype(np.float32)[..., np.newaxis], False)


def signal(values: Values, rgb: bool) -> Values:
    """(\\*shape,) signal of an image (\\*shape, C).

    The minority of Otsu's two classes are the objects. Bright ones shine, each place with its own gain: their
    brightness differs by staining and depth. Dark ones absorb, and most so in red light where most stains do; there the
    gain is one for the image, because a place without nuclei is not darker for it. The inverse hyperbolic sine keeps
    the brightest objects from having a cluster of their own, and a difference of Gaussians deepens the valleys between
    objects that touch.
    """
    light, dark = objects_bright(values, rgb)
    if light.max() == light.min():
        return np.zeros(light.shape)
    light = ndimage.gaussian_filter(light, NOISE)
    above = light - np.median(light[light <= threshold_otsu(light)])
    shine = np.maximum(above, 0)
    if dark:
        bend = 0.5
    else:
        above, bend = above / (_typical(shine, SURROUNDINGS) + COMMON_GAIN * _typical(shine)), 1.0
    above = above / max(float(_typical(np.maximum(above, 0))), 1e-12)
    above = above + ndimage.gaussian_filter(above, FINE) - ndimage.gaussian_filter(above, COARSE)
    bent: Values = np.clip(OBJECT * np.arcsinh(bend * above) / bend, LOWEST, HIGHEST)
    return bent


def objects_bright(values: Values, rgb: bool) -> tuple[Values, bool]:
    """The image as one channel in which the objects are bright, and whether they are dark in the image itself."""
    samples = values[..., :3] if rgb and values.shape[-1] >= 3 else values[..., :1] if rgb else values
    light = samples.mean(axis=-1)
    if light.max() == light.min() or (light > threshold_otsu(light)).mean() <= 0.5:
        return light, False
    if samples.shape[-1] == 3 and rgb:
        light = samples[..., 0]
    return light.max() - light, True


def _typical(shine: Values, width: float | None = None) -> Values:
    """Brightness of the objects, however few they are: the mean weighted by itself; of all, or around each pixel."""
    if width is None:
        return np.asarray(np.square(shine).sum() / max(float(shine.sum()), 1e-12))
    least = 1e-6 * max(float(_typical(shine)), 1e-12)
    near: Values = ndimage.gaussian_filter(np.square(shine), width) / (ndimage.gaussian_filter(shine, width) + least)
    return near
