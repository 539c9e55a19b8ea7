"""What is under the mouse, in a sentence: size, colour, stability, neighbours of a cluster, a region or an object."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from napari_gsw.core.posterior.region_table import Columns

# Columns of the table of clusters that have words of their own; the others are means of channels.
KNOWN = ("index", "pixels", "area", "share", "sites", "stability", "neighbours", "locked")

# Of the table of labels: what a sentence cannot do without, what has a unit in its name, and how sure things are.
NEEDED = ("index", "pixels", "share (%)", "neighbours")
SIZES = ("area (", "volume (")
SURE = {"stability": "stability", "one_object": "one object"}


def number_under(layer: Any, position: Any) -> int:
    """The label at a position of the world, 0 where there is none."""
    value = layer.get_value(position, world=True)
    if layer.multiscale and value is not None:
        _, value = value  # (level that is shown, label)
    return int(value or 0)


def describe(table: Columns, number: int, unit: str = "") -> str:
    """A sentence about one cluster, or nothing if there is no such number."""
    rows = np.flatnonzero(table["index"] == number)
    if not rows.size:
        return ""
    row = int(rows[0])
    words = [f"Cluster {number}: {table['pixels'][row]:,} pixels ({table['share'][row]:.1f}%)"]
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
    """What there is to say about the cluster under a place of the world; nothing if there is none.

    Parameters
    ----------
    table : columns of the clusters' table. depth : axes of the image's space.
    """
    number = number_under(layer, place)
    unit = f"{layer.units[-1]:~}" if str(layer.units[-1]) != "pixel" else ""
    power = "²" if depth == 2 else "³"
    return describe(table, number, f"{unit}{power}" if unit else "") if number else ""


def describe_label(row: Mapping[str, Any], kind: str) -> str:
    """A sentence about a row of the table of labels; `kind` is ``region`` or ``object``.

    >>> describe_label({"index": 3, "pixels": 1200, "share (%)": 4.2, "mean": 0.5, "neighbours": "1 2"}, "region")
    'Region 3: 1,200 pixels (4.2%), mean 0.5, next to 1, 2'
    """
    words = [f"{kind.capitalize()} {row['index']}: {row['pixels']:,} pixels ({row['share (%)']:.1f}%)"]
    words += [f"{row[name]:,.4g} {name[name.index('(') + 1 : -1]}" for name in row if name.startswith(SIZES)]
    means = [f"{row[name]:,.3g}" for name in row if name == "mean" or name.startswith("mean_")]
    words += [f"mean {' / '.join(means)}"] if means else []
    words += [f"{said} {row[name]:.0%}" for name, said in SURE.items() if name in row and np.isfinite(row[name])]
    words += [f"next to {row['neighbours'].replace(' ', ', ')}"] if row["neighbours"] else []
    return ", ".join(words)
