"""Partitions that a chain keeps, evenly spread over its sweeps and bounded in memory."""

from __future__ import annotations

import numpy as np

from napari_gsw.core.array_types import Int32Array
from napari_gsw.core.sampler.state import GAP, WRITTEN, DrawBuffer

# A consensus hardly changes with more draws than this, and they must fit into the memory beside the problem.
MAX_DRAWS = 200
MIN_DRAWS = 8
MAX_BYTES = 64_000_000


def max_draws(n: int) -> int:
    """Return the largest number of draws of n sites.

    It is even: the draw that finds no room is then the one that thinning would drop.
    """
    return max(MIN_DRAWS, min(MAX_DRAWS, MAX_BYTES // (4 * n) // 2 * 2))


class Draws:
    """Every `gap`-th partition after the burn-in; without room, every second one goes and the gap doubles.

    Which sweeps are kept depends on their numbers alone, so that a resumed chain keeps the same ones. A row is written
    once, so that the view :attr:`kept` stays valid while the chain runs on. `kept` (d, n) are the draws so far.
    """

    def __init__(self, n: int, kept: Int32Array | None = None, gap: int = 1) -> None:
        self._room = max_draws(n)
        count = 0 if kept is None else len(kept)
        rows = np.empty((min(self._room, max(MIN_DRAWS, count)), n), np.int32)
        if kept is not None:
            rows[:count] = kept
        self.table = DrawBuffer(rows, np.array([count, gap], np.int64))

    @property
    def gap(self) -> int:
        """Sweeps from one draw to the next."""
        return int(self.table.taken[GAP])

    @property
    def kept(self) -> Int32Array:
        """(d, n) the draws, read-only."""
        view = self.table.rows[: self.table.taken[WRITTEN]]
        view.setflags(write=False)
        return view

    def ahead(self, sweep: int, burn_in: int, sweeps: int) -> int:
        """Make room, and return how many of the next `sweeps` sweeps can be made before there is none, at least 1.

        `sweep` of them are done. `record_draw` writes the rows.
        """
        if self._due(sweep - burn_in) > sweeps:
            return sweeps
        rows, taken = self.table
        if taken[WRITTEN] == self._room:
            # The last of each pair stays, so that all kept sweeps are multiples of the new gap.
            self._move(rows[1::2], len(rows), 2 * self.gap)
        elif taken[WRITTEN] == len(rows):
            self._move(rows, min(self._room, 2 * len(rows)), self.gap)
        rows, taken = self.table
        return min(sweeps, self._due(sweep - burn_in) + (len(rows) - int(taken[WRITTEN]) - 1) * self.gap)

    def _due(self, since: int) -> int:
        """Return the sweeps until the next draw, at least 1, from that many sweeps after the burn-in."""
        return self.gap - (since % self.gap if since >= 0 else since)

    def _move(self, kept: Int32Array, room: int, gap: int) -> None:
        rows = np.empty((room, kept.shape[1]), np.int32)
        rows[: len(kept)] = kept
        self.table = DrawBuffer(rows, np.array([len(kept), gap], np.int64))
