"""Partitions that a chain keeps: evenly spread over its sweeps, and never more than fit into a bound."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int32]

# A consensus hardly changes with more draws than this, and they must fit into the memory beside the problem.
MOST_DRAWS = 200
LEAST_DRAWS = 8
MOST_BYTES = 64_000_000


class Draws:
    """Every `gap`-th partition after the burn-in; when there is no room, every second one goes and the gap doubles.

    Which sweeps are kept depends on their numbers alone, so that a chain that was stopped and continued has kept the
    same ones. A row is written once: whoever looks at :attr:`kept` may hold on to it while the chain runs on.

    Parameters
    ----------
    n : number of sites.
    kept : (d, n) draws so far.
    gap : sweeps from one draw to the next.
    """

    def __init__(self, n: int, kept: Ints | None = None, gap: int = 1) -> None:
        # An even number: the draw that finds no room is then the one that thinning would drop.
        self._room = max(LEAST_DRAWS, min(MOST_DRAWS, MOST_BYTES // (4 * n) // 2 * 2))
        self.gap = gap
        self._count = 0 if kept is None else len(kept)
        self._rows = np.empty((min(self._room, max(LEAST_DRAWS, self._count)), n), np.int32)
        if kept is not None:
            self._rows[: self._count] = kept

    @property
    def kept(self) -> Ints:
        """(d, n) the draws, read-only."""
        view = self._rows[: self._count]
        view.setflags(write=False)
        return view

    def due(self, sweep: int, burn_in: int) -> int:
        """Sweeps from `sweep` on until the next draw is to be kept, at least 1."""
        since = sweep - burn_in
        return self.gap - (since % self.gap if since >= 0 else since)

    def keep(self, labels: Ints) -> None:
        """Take over a partition."""
        if self._count == self._room:
            # The last of each pair stays, so that all kept sweeps are multiples of the new gap.
            thinned = self._rows[1 : self._count : 2]
            self._rows = np.empty_like(self._rows)
            self._count = len(thinned)
            self._rows[: self._count] = thinned
            self.gap *= 2
            return
        if self._count == len(self._rows):
            longer = np.empty((min(self._room, 2 * self._count), self._rows.shape[1]), np.int32)
            longer[: self._count] = self._rows
            self._rows = longer
        self._rows[self._count] = labels
        self._count += 1
