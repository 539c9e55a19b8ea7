"""How the figures of the experiments look."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

from napari_gsw.files.output_folder import replace_atomically
from napari_gsw.files.plots import GREY, save_figure

# One ink for each of a few series that have an order (alpha, lambda): dark to light, told apart in grey print too.
INKS = ("#1b1f3b", "#2f5d8a", "#2a9d8f", "#e9a03b", "#c8553d")
PAPER = "#b0b0b0"


def figure(width: float, height: float) -> Any:
    """An empty figure of matplotlib without a screen, its sides in inches."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def tidy(axes: Any, x: str = "", y: str = "", title: str = "") -> None:
    """Labels, a quiet grid, and no box around it."""
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    if title:
        axes.set_title(title, fontsize=10, color=GREY, loc="left")
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", color="#e5e5e5", linewidth=0.8)
    axes.set_axisbelow(True)


def save(drawing: Any, path: Path) -> None:
    """Write a figure, whole or not at all, and not over what is somebody else's."""
    with replace_atomically(path) as scratch, warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Creating legend with loc")  # that a busy machine takes a second for it
        save_figure(drawing, scratch)
