"""A map of features with any number of channels -> a few channels that a Gaussian block can look at.

Few channels stay what they are, converted as the channels of an image are. Many, such as those of a deep network,
become their first principal components, each of variance 1: channels of a network repeat each other, and what all of
them say would count many times over.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from napari_gsw.core.arrays import Floats, Pixels
from napari_gsw.core.image.picture import Span, span_of, stretched

# Pixels from which components are learnt, and those that are converted at one time.
LEARNT_PIXELS, SOME = 1 << 17, 1 << 14
# Components with less than this share of the variance of the first say nothing.
LEAST_SHARE = 1e-6


class Reduction(NamedTuple):
    """How channels become few.

    Attributes
    ----------
    span : what few channels are stretched from; None where there are components.
    mean, basis : (C,) mean of the channels, and (C, components) what a channel adds to each.
    share : of the variance of all channels, each scaled to variance 1, that the components hold.
    """

    span: Span | None
    mean: Floats
    basis: Floats
    share: float = 1.0


def reduction_of(parts: Sequence[NDArray[Any]], components: int) -> Reduction:
    """The reduction of a map, from parts (..., C) of it that stand for all.

    Parameters
    ----------
    components : channels at most; more become so many components.
    """
    channels = parts[0].shape[-1]
    if channels <= components:
        return Reduction(span_of(parts, False), np.zeros(0), np.zeros((0, 0)))
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
    return Reduction(None, mean, axes / scale / unit[:, np.newaxis], float(kept.sum() / total) if total > 0 else 1.0)


def reduced(values: NDArray[Any], reduction: Reduction) -> Pixels:
    """Values (..., C) as (..., channels) float32."""
    if reduction.span is not None:
        return stretched(values, reduction.span)
    rows = values.reshape(-1, values.shape[-1])
    out = np.empty((len(rows), reduction.basis.shape[1]), np.float32)
    for first in range(0, len(rows), SOME):
        some = rows[first : first + SOME].astype(np.float64)
        out[first : first + SOME] = (some - reduction.mean) @ reduction.basis
    return out.reshape(*values.shape[:-1], -1)
