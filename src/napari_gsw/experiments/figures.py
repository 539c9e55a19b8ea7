"""How the figures of the experiments look, and the files beside them."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from napari_gsw.core.errors import InputError
from napari_gsw.plots import DPI, GREY

# One ink for each of a few series that have an order (alpha, lambda): dark to light, told apart in grey print too.
INKS = ("#1b1f3b", "#2f5d8a", "#2a9d8f", "#e9a03b", "#c8553d")
PAPER = "#b0b0b0"


def figure(width: float, height: float) -> Any:
    """An empty figure without a screen."""
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


def save(made: Any, path: Path) -> None:
    scratch = path.with_name(path.stem + ".part" + path.suffix)
    made.savefig(scratch, dpi=DPI)
    scratch.replace(path)


def made_folder(folder: Path) -> Path:
    """A folder that is there, with those above it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as reason:
        raise InputError(f"the output folder {str(folder)!r} cannot be written: {reason.strerror or reason}") from None
    return folder


def write_csv(path: Path, head: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """A table; what was there before is replaced only when the new one is complete."""
    scratch = path.with_name(path.name + ".part")
    with scratch.open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        table.writerow(head)
        table.writerows(rows)
    scratch.replace(path)


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """As :func:`write_csv`, for JSON."""
    scratch = path.with_name(path.name + ".part")
    scratch.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    scratch.replace(path)
