"""Figures of a result: the overlay, the trace and the uncertainty, drawn without a screen."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import imageio.v3 as iio
import numpy as np
from numpy.typing import NDArray
from skimage import color

from napari_gsw.core.array_types import Float64Array
from napari_gsw.core.image.lazy import is_lazy, open_lazy_image, read
from napari_gsw.core.image.normalized_image import fill_outside_mask, normalize_image
from napari_gsw.core.posterior.result import Result, Trace

DPI, MAX_DRAWN = 150, 2000  # pixels of a lazy image along an axis
INK, MARK, GREY = "#1f77b4", "#d62728", "#666666"


def middle_slice(volume: NDArray[Any]) -> NDArray[Any]:
    """Return a 2D image as it is, and the middle slice of a volume."""
    return volume if volume.ndim == 2 else volume[len(volume) // 2]


def to_rgb(image: NDArray[Any], axes: str = "auto") -> Float64Array:
    """Convert an image, or the middle slice of a volume, to RGB in 0..1, (y, x, 3); other channels become grey."""
    image = fill_outside_mask(image, axes, lambda shape: np.zeros(shape, bool))  # a figure shows all pixels
    normalized = normalize_image(image, axes)
    if normalized.rgb:
        rgb: Float64Array = np.asarray(color.lab2rgb(normalized.channels), dtype=np.float64)
    else:
        rgb = np.repeat(normalized.luminance[..., np.newaxis] / 100.0, 3, axis=-1).astype(np.float64)
    return rgb if rgb.ndim == 3 else rgb[len(rgb) // 2]


def make_palette(count: int) -> Float64Array:
    """Make RGB colours of similar lightness, (count, 3), whose hues differ by the golden angle."""
    angle = 2.399963 * np.arange(count) + 0.6
    lightness = 62 + 14 * (np.arange(count) % 3 - 1)
    lab = np.stack((lightness, 55 * np.cos(angle), 55 * np.sin(angle)), axis=-1)
    return np.asarray(color.lab2rgb(lab[np.newaxis])[0], dtype=np.float64)


def draw_overlay(image: NDArray[Any], labels: NDArray[Any], axes: str = "auto") -> NDArray[np.uint8]:
    """Tint an image, or the middle slice of a volume, by label, with white boundaries; (y, x, 3).

    Label 0 is not tinted. Lazy images are subsampled.
    """
    if is_lazy(image):
        lazy_image = open_lazy_image(image, axes)
        step = -(-max(lazy_image.shape) // MAX_DRAWN)
        image, axes, labels = lazy_image.read(step), lazy_image.axes, subsample(labels, step)
    labels = middle_slice(labels)
    numbers, flat = np.unique(labels, return_inverse=True)
    base = to_rgb(image, axes)
    colours = make_palette(len(numbers))[flat.reshape(base.shape[:2])]
    tinted = np.where(labels[..., np.newaxis] > 0, 0.6 * base + 0.4 * colours, base)
    edge = np.zeros(base.shape[:2], bool)
    edge[:-1] |= labels[:-1] != labels[1:]
    edge[:, :-1] |= labels[:, :-1] != labels[:, 1:]
    tinted[edge] = 0.25 * tinted[edge] + 0.75
    return (np.clip(tinted, 0, 1) * 255).round().astype(np.uint8)


def subsample(values: NDArray[Any], step: int | None = None) -> NDArray[Any]:
    """Read every `step`-th pixel of a lazy image; return an image in memory unchanged."""
    if not is_lazy(values):
        return values
    step = step or -(-max(values.shape) // MAX_DRAWN)
    return read(values, (slice(None, None, step),) * values.ndim)


def save_figure(figure: Any, path: Path) -> None:
    """Write a figure of matplotlib as PNG, by way of memory: image libraries do not report a full disk as such."""
    content = io.BytesIO()
    figure.savefig(content, dpi=DPI, format="png")
    path.write_bytes(content.getvalue())


def save_overlay(image: NDArray[Any], labels: NDArray[Any], path: Path, axes: str = "auto") -> None:
    """Write the overlay as PNG."""
    path.write_bytes(iio.imwrite("<bytes>", draw_overlay(image, labels, axes), extension=".png"))


def save_trace(traces: Sequence[Trace], path: Path) -> None:
    """Plot log posterior and number of clusters by sweep, a line for each chain, with the best sample marked."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4), layout="constrained")
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=(2, 1))
    inks = [INK] if len(traces) == 1 else [tuple(c) for c in make_palette(len(traces))]
    for trace, ink in zip(traces, inks, strict=True):
        upper.plot(trace.sweep, trace.log_posterior, color=ink, linewidth=1)
        lower.step(trace.sweep, trace.n_clusters, color=ink, linewidth=1, where="post")
    highest = max(traces, key=lambda t: t.log_posterior.max(initial=-np.inf))
    if len(highest.sweep):
        best = int(np.argmax(highest.log_posterior))
        sweep, height = highest.sweep[best], highest.log_posterior[best]
        upper.plot(sweep, height, "o", color=MARK, markersize=5)
        text = f"best {height:,.1f} at sweep {sweep:,}"
        upper.text(0.98, 0.06, text, color=MARK, ha="right", va="bottom", transform=upper.transAxes)
        # The increase of the first sweeps would flatten everything after it.
        late = np.concatenate([t.log_posterior[len(t.sweep) // 20 :] for t in traces])
        margin = 0.1 * (np.ptp(late) or 1.0)
        upper.set_ylim(late.min() - margin, late.max() + margin)
    upper.set_ylabel("log posterior")
    lower.set(xlabel="sweep", ylabel="clusters")
    lower.yaxis.get_major_locator().set_params(integer=True)
    for axes in (upper, lower):
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(axis="y", color="#e5e5e5", linewidth=0.8)
        axes.ticklabel_format(useOffset=False, style="plain")
    save_figure(figure, path)


def save_uncertainty(result: Result, path: Path) -> None:
    """Plot the boundary probability beside the uncertainty of the superpixels."""
    from matplotlib.figure import Figure

    boundary, uncertainty = (middle_slice(subsample(values)) for values in (result.boundary, result.uncertainty))
    is_known = not np.isnan(result.snapshot.together).any()
    figure = Figure(figsize=(9, 0.4 + 4.0 * boundary.shape[0] / boundary.shape[1]), layout="constrained")
    left, right = figure.subplots(1, 2)
    for axes, values, title in (
        (left, boundary, "probability of a boundary"),
        (right, uncertainty, "uncertainty of a site (bits)"),
    ):
        heat_map = axes.imshow(values, cmap="magma", vmin=0, vmax=1, interpolation="nearest")
        axes.set_title(title if is_known else "not known: the chain ended in its burn-in", fontsize=10, color=GREY)
        axes.set_axis_off()
        figure.colorbar(heat_map, ax=axes, shrink=0.8)
    save_figure(figure, path)
