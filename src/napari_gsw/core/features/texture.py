"""Texture features: gradient magnitude and Laplacian of an image at several scales.

The filters are derivatives of Gaussians, separable, and share their passes: along each axis the image is smoothed, or
differentiated once (gradient) or twice (Laplacian). Only rows are kept in memory, and three slices for a volume.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from napari_gsw.core.array_types import ChannelImage
from napari_gsw.core.jit import njit, njit_inner, njit_merged, zeros

Whole = int | np.int64

# Widths of the Gaussians in pixels.
TEXTURE_SCALES = (1.0, 2.0, 4.0)
LOG_2 = np.float32(np.log(2.0))
# The bits of the square root of 1/2; from there the fraction of a number is between sqrt(1/2) and sqrt(2).
ROOT_HALF = np.int32(0x3F3504F3)
MANTISSA = np.int32(23)

# How often each of five rows is differentiated along the first and the second axis; a 2D image has the first three.
PLANE, ORDER = np.array([0, 0, 0, 1, 2]), np.array([0, 1, 2, 0, 0])
# Which row is then differentiated how often along the last axis: in all once for the gradient, twice for the Laplacian.
ROW, LAST = np.array([0, 1, 0, 2, 3, 4]), np.array([1, 0, 2, 0, 0, 0])


def compute_texture(image: ChannelImage) -> ChannelImage:
    """Compute the responses of a rotation-invariant filter bank, (*shape,) -> (*shape, 2 * scales).

    They are normalised for scale, and logarithms, so that a strong edge does not outweigh every weak texture.
    """
    volume = np.ascontiguousarray(image, dtype=np.float32).reshape((1,) * (3 - image.ndim) + image.shape)
    out = np.empty((*volume.shape, 2 * len(TEXTURE_SCALES)), np.float32)
    for number, scale in enumerate(TEXTURE_SCALES):
        _filter(volume, image.ndim == 3, make_derivatives(scale), scale, out, 2 * number)
    return out.reshape(*image.shape, out.shape[-1])


@cache
def make_derivatives(scale: float) -> ChannelImage:
    """Make a Gaussian of unit sum and its first two derivatives at offsets up to four widths, (3, k) with an odd k."""
    radius = int(4 * scale + 0.5)
    x = np.arange(radius + 1 + radius % 2)
    bell = np.where(x <= radius, np.exp(-0.5 * (x / scale) ** 2), 0)
    bell /= 2 * bell.sum() - 1
    return np.stack((bell, x / scale**2 * bell, (x**2 / scale**4 - 1 / scale**2) * bell)).astype(np.float32)


@njit
def _filter(
    volume: ChannelImage, deep: bool, weights: ChannelImage, scale: float, out: ChannelImage, column: int
) -> None:
    """Write log(1 + gradient) to a column of out (Z, Y, X, ...), and log(1 + |Laplacian|) with its sign to the next.

    `deep` says whether there are derivatives along Z; the weights are those of :func:`make_derivatives`.
    """
    depth, height, width = volume.shape
    radius = weights.shape[1] - 1
    none, once = np.int64(0), np.int64(1)  # not literals, for which numba would compile a function of its own
    image = volume.reshape(depth * height, width)
    planes = np.empty((3, height if deep else 0, width), np.float32)
    # Rows with room for the reflection at both ends.
    rows = zeros((5, width + 2 * radius), np.float32)
    lines = np.empty((4, width), np.float32)
    part, gradient, laplace, exponent = lines[0], lines[1], lines[2], lines[3]
    for z in range(depth):
        if deep:
            for y in range(height):
                for order in range(3):
                    _across(image, y, height, depth, z, weights, order, planes[order, y])
        for y in range(height):
            for row in range(5 if deep else 3):
                source = planes[PLANE[row]] if deep else image
                _across(source, none, once, height, y, weights, ORDER[row], part)
                _pad(part, rows[row])
            for x in range(width):
                gradient[x] = laplace[x] = np.float32(0)
            for number in range(6 if deep else 4):
                row, order = ROW[number], LAST[number]
                _along(rows[row], weights, order, part)
                if order == 1 or row % 2 == 1:
                    for x in range(width):
                        gradient[x] += part[x] * part[x]
                else:
                    for x in range(width):
                        laplace[x] += part[x]
            for x in range(width):
                gradient[x] = np.sqrt(gradient[x]) * np.float32(scale)
                laplace[x] *= np.float32(scale * scale)
                part[x] = np.abs(laplace[x])
            _log1p(gradient, exponent)
            _log1p(part, exponent)
            for x in range(width):
                out[z, y, x, column] = gradient[x]
                out[z, y, x, column + 1] = part[x] if laplace[x] >= 0 else -part[x]


@njit_inner
def _across(
    image: ChannelImage, first: Whole, stride: Whole, length: int, at: int, weights: ChannelImage, order: int,
    out: ChannelImage,
) -> None:  # fmt: skip
    """Filter across the rows of a mirrored axis, `length` ones that are `stride` apart from `first`, at row `at`."""
    sign, row = np.float32(-1 if order == 1 else 1), first + at * stride
    middle = weights[order, 0]
    for x in range(out.size):
        out[x] = middle * image[row, x]
    for j in range(1, weights.shape[1], 2):
        a, b = first + _mirror(at - j, length) * stride, first + _mirror(at + j, length) * stride
        c, d = first + _mirror(at - j - 1, length) * stride, first + _mirror(at + j + 1, length) * stride
        near, far = weights[order, j], weights[order, j + 1]
        for x in range(out.size):
            out[x] += near * (image[b, x] + sign * image[a, x]) + far * (image[d, x] + sign * image[c, x])


@njit_merged
def _along(row: ChannelImage, weights: ChannelImage, order: int, out: ChannelImage) -> None:
    """Filter along a padded row (X + 2 radius,) into out (X,)."""
    radius, sign = weights.shape[1] - 1, np.float32(-1 if order == 1 else 1)
    middle, centre = weights[order, 0], row[radius:]
    for x in range(out.size):
        out[x] = middle * centre[x]
    for j in range(1, radius + 1, 2):
        a, b, c, d = row[radius - j :], row[radius + j :], row[radius - j - 1 :], row[radius + j + 1 :]
        near, far = weights[order, j], weights[order, j + 1]
        for x in range(out.size):
            out[x] += near * (b[x] + sign * a[x]) + far * (d[x] + sign * c[x])


@njit_merged
def _pad(line: ChannelImage, row: ChannelImage) -> None:
    """Copy a line (X,) to the middle of a row (X + 2 radius,) and mirror it at both ends."""
    radius = (row.size - line.size) // 2
    for x in range(line.size):  # as a slice it would take numba three seconds to compile
        row[radius + x] = line[x]
    for j in range(1, radius + 1):
        row[radius - j] = line[_mirror(-j, line.size)]
        row[radius + line.size - 1 + j] = line[_mirror(line.size - 1 + j, line.size)]


@njit_inner
def _mirror(i: int, length: int) -> int:
    """Mirror an index beyond the ends of an axis, however far it is."""
    i %= 2 * length
    return i if i < length else 2 * length - 1 - i


@njit_inner
def _log1p(row: ChannelImage, exponent: ChannelImage) -> None:
    """Replace each x >= 0 of a row by log(1 + x), to about 1e-7, in steps that the vector unit takes.

    1 + x = 2^e m with m near 1, and log m = 2 artanh s for s = (m - 1) / (m + 1), at most 0.172.
    """
    bits = row.view(np.int32)
    for x in range(row.size):
        row[x] += np.float32(1)
    for x in range(row.size):
        power = np.int32((bits[x] - ROOT_HALF) >> MANTISSA)
        exponent[x] = np.float32(power)
        bits[x] -= np.int32(power << MANTISSA)
    for x in range(row.size):
        # np.divide, unlike the operator, does not look for a divisor of 0.
        s = np.divide(row[x] - np.float32(1), row[x] + np.float32(1))
        t = s * s
        series = np.float32(1 / 5) + t * (np.float32(1 / 7) + t * np.float32(1 / 9))
        row[x] = exponent[x] * LOG_2 + np.float32(2) * s * (np.float32(1) + t * (np.float32(1 / 3) + t * series))
