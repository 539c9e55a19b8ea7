"""What is under the mouse: a region's size, colour, stability and neighbours, in a sentence."""

from __future__ import annotations

from typing import Any

import numpy as np

from napari_gsw.core.posterior.region_table import Columns

# Columns of the table that have words of their own; the others are means of channels.
KNOWN = ("index", "pixels", "area", "share", "sites", "stability", "neighbours", "locked")


def number_under(layer: Any, position: Any) -> int:
    """The label at a position of the world, 0 where there is none."""
    value = layer.get_value(position, world=True)
    if layer.multiscale and value is not None:
        _, value = value  # (level that is shown, label)
    return int(value or 0)


def describe(table: Columns, number: int, unit: str = "") -> str:
    """A sentence about one region, or nothing if there is no such number."""
    rows = np.flatnonzero(table["index"] == number)
    if not rows.size:
        return ""
    row = int(rows[0])
    words = [f"Region {number}: {table['pixels'][row]:,} pixels ({table['share'][row]:.1f} %)"]
    if unit and table["area"][row] != table["pixels"][row]:
        words.append(f"{table['area'][row]:,.4g} {unit}")
    means = [f"{table[name][row]:,.3g}" for name in table if name not in KNOWN]
    if means:
        words.append(f"mean {' / '.join(means)}")
    if np.isfinite(table["stability"][row]):
        words.append(f"stability {table['stability'][row]:.0%}")
    if table["neighbours"][row]:
        words.append(f"next to {table['neighbours'][row].replace(' ', ', ')}")
    if table["locked"][row]:
        words.append(f"{table['locked'][row]} of {table['sites'][row]} sites locked")
    return ", ".join(words)


def hovered(layer: Any, place: Any, table: Columns, depth: int) -> str:
    """What there is to say about the region under a place of the world; nothing if there is none.

    Parameters
    ----------
    table : columns of the regions' table. depth : axes of the image's space.
    """
    number = number_under(layer, place)
    unit = f"{layer.units[-1]:~}" if str(layer.units[-1]) != "pixel" else ""
    power = "²" if depth == 2 else "³"
    return describe(table, number, f"{unit}{power}" if unit else "") if number else ""
