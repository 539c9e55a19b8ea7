"""Colours and layout of the figures of experiments and training."""

from __future__ import annotations

from typing import Any

from matplotlib.figure import Figure

from napari_gsw.files.plots import GREY

# Colours of a few ordered series, dark to light, which differ in grey print too; and of the paper's values.
INKS = ("#1b1f3b", "#2f5d8a", "#2a9d8f", "#e9a03b", "#c8553d")
PAPER_INK = "#b0b0b0"


def make_axes(width: float, height: float, rows: int = 1, columns: int = 1, **options: Any) -> tuple[Figure, Any]:
    """Make a figure with sides in inches; return it and an array (rows, columns) of its axes."""
    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False, **options)


def tidy_axes(axes: Any, x: str = "", y: str = "", title: str = "") -> None:
    """Set labels and title, and replace the box by a light grid."""
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    if title:
        axes.set_title(title, fontsize=10, color=GREY, loc="left")
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", color="#e5e5e5", linewidth=0.8)
    axes.set_axisbelow(True)
