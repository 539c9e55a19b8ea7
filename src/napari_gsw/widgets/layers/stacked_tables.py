"""Tables of the arrays of a stack as one, with the place of each along the stack."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from napari_gsw.core.posterior.region_table import Columns
from napari_gsw.widgets.layers.source import Position


def stacked_tables(letters: Sequence[str], tables: Sequence[tuple[Position, Columns]]) -> Columns:
    """All rows of the tables of some positions, one after the other.

    What the table of one position lacks, as where a network saw the objects of the others alone, is 0 there if it is a
    whole number, empty if it is a word, and NaN otherwise.

    Parameters
    ----------
    letters : of the axes along which positions are counted: each becomes a column before the others.

    Examples
    --------
    >>> stacked_tables(["t"], [((0,), {"index": np.array([1, 2])}), ((5,), {"index": np.array([1])})])
    {'t': array([0, 0, 5]), 'index': array([1, 2, 1])}
    """
    if not tables:
        return {}
    counts = [len(columns["index"]) for _, columns in tables]
    table: Columns = {
        letter: np.repeat([position[axis] for position, _ in tables], counts) for axis, letter in enumerate(letters)
    }
    names = dict.fromkeys(name for _, columns in tables for name in columns)
    for name in names:
        kind = next(columns[name].dtype for _, columns in tables if name in columns)
        nothing = 0 if kind.kind in "iub" else "" if kind.kind in "UO" else np.nan
        table[name] = np.concatenate(
            [
                columns[name] if name in columns else np.full(n, nothing, kind)
                for (_, columns), n in zip(tables, counts, strict=True)
            ]
        )
    return table
