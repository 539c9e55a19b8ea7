"""Earlier states of a run, to look back at, in bounded memory."""

from __future__ import annotations

import bisect
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from napari_gsw.core.errors import InputError

MAX_BYTES = 64 * 2**20


@dataclass
class History:
    """Labels of the sites at some sweeps; when they take more than `max_bytes`, every second state is dropped.

    Examples
    --------
    >>> history = History(max_bytes=100)
    >>> for sweep in range(40):
    ...     history.keep(sweep, np.full(5, sweep))
    >>> len(history.sweeps) <= 10, history.nearest(17)[0] in history.sweeps
    (True, True)
    """

    max_bytes: int = MAX_BYTES
    sweeps: list[int] = field(default_factory=list)
    _states: list[NDArray[np.uint16]] = field(default_factory=list, repr=False)
    _stride: int = 1
    _n_offered: int = 0
    # The thread that samples keeps states; the one that draws reads them.
    _guard: Lock = field(default_factory=Lock, repr=False)

    def keep(self, sweep: int, labels: NDArray[np.integer]) -> None:
        """Add a state; it replaces an earlier one of the same sweep, before a correction."""
        with self._guard:
            if self.sweeps and self.sweeps[-1] == sweep:
                self._states[-1] = labels.astype(np.uint16)
                return
            self._n_offered += 1
            if self._n_offered % self._stride:
                return
            self.sweeps.append(sweep)
            self._states.append(labels.astype(np.uint16))
            if len(self._states) * self._states[0].nbytes > self.max_bytes and len(self._states) > 2:
                del self.sweeps[1::2], self._states[1::2]
                self._stride *= 2

    def split_sites(self, parents: NDArray[np.integer]) -> None:
        """Map the states to the pieces of split sites; `parents` (n,) has the site of each piece, from 0."""
        with self._guard:
            self._states = [state[parents] for state in self._states]

    def copy(self) -> History:
        """Copy what is kept now."""
        with self._guard:
            return History(self.max_bytes, list(self.sweeps), list(self._states), self._stride, self._n_offered)

    def fields(self) -> dict[str, Any]:
        """Return the stored form: sweeps, (k, n) uint16 states, and what decides which state is kept next."""
        states = np.stack(self._states) if self._states else np.zeros((0, 0), np.uint16)
        return {"sweeps": self.sweeps, "states": states, "stride": self._stride, "offered": self._n_offered}

    @classmethod
    def from_fields(cls, sweeps: list[int], states: NDArray[np.uint16], stride: int, offered: int) -> History:
        """Make a history from its stored form."""
        return cls(sweeps=list(sweeps), _states=list(states), _stride=int(stride), _n_offered=int(offered))

    def check(self, n: int) -> None:
        """Raise an InputError unless this is a history of n sites."""
        fits = all(state.shape == (n,) and state.dtype == np.uint16 for state in self._states)
        if not fits or len(self.sweeps) != len(self._states) or self._stride < 1 or self.sweeps != sorted(self.sweeps):
            raise InputError("the history of the run is damaged")

    def nearest(self, sweep: float) -> tuple[int, NDArray[np.int64]]:
        """Return sweep and labels of the kept state nearest to a sweep."""
        with self._guard:
            right = min(bisect.bisect_left(self.sweeps, sweep), len(self.sweeps) - 1)
            left = max(right - 1, 0)
            index = min((left, right), key=lambda i: abs(self.sweeps[i] - sweep))
            return self.sweeps[index], self._states[index].astype(np.int64)
