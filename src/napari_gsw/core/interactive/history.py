"""States that were on the screen, kept to look back at, in bounded memory."""

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
    """Numbers of the sites at some sweeps; when they take more than `most` bytes, every second one is forgotten.

    Examples
    --------
    >>> history = History(most=100)
    >>> for sweep in range(40):
    ...     history.keep(sweep, np.full(5, sweep))
    >>> len(history.sweeps) <= 10, history.near(17)[0] in history.sweeps
    (True, True)
    """

    most: int = MAX_BYTES
    sweeps: list[int] = field(default_factory=list)
    _states: list[NDArray[np.uint16]] = field(default_factory=list, repr=False)
    _stride: int = 1
    _offered: int = 0
    # Kept by the thread that samples, read by the one that draws.
    _guard: Lock = field(default_factory=Lock, repr=False)

    def keep(self, sweep: int, numbers: NDArray[np.integer]) -> None:
        """Add a state; of several at the same sweep (a correction makes a second one) the last stays."""
        with self._guard:
            self._keep(sweep, numbers)

    def _keep(self, sweep: int, numbers: NDArray[np.integer]) -> None:
        if self.sweeps and self.sweeps[-1] == sweep:
            self._states[-1] = numbers.astype(np.uint16)
            return
        self._offered += 1
        if self._offered % self._stride:
            return
        self.sweeps.append(sweep)
        self._states.append(numbers.astype(np.uint16))
        if len(self._states) * self._states[0].nbytes > self.most and len(self._states) > 2:
            del self.sweeps[1::2], self._states[1::2]
            self._stride *= 2

    def refine(self, parents: NDArray[np.integer]) -> None:
        """Sites were cut; `parents` (n,) has the site of each piece, from 0."""
        with self._guard:
            self._states = [state[parents] for state in self._states]

    def copy(self) -> History:
        """What is kept now."""
        with self._guard:
            return History(self.most, list(self.sweeps), list(self._states), self._stride, self._offered)

    def fields(self) -> dict[str, Any]:
        """What is kept as plain data: the sweeps, (k, n) uint16 the states, and what is kept next."""
        states = np.stack(self._states) if self._states else np.zeros((0, 0), np.uint16)
        return {"sweeps": self.sweeps, "states": states, "stride": self._stride, "offered": self._offered}

    @classmethod
    def of(cls, sweeps: list[int], states: NDArray[np.uint16], stride: int, offered: int) -> History:
        """A history from plain data."""
        return cls(sweeps=list(sweeps), _states=list(states), _stride=int(stride), _offered=int(offered))

    def check(self, n: int) -> None:
        """Raise an InputError unless this is a history of n sites."""
        fits = all(state.shape == (n,) and state.dtype == np.uint16 for state in self._states)
        if not fits or len(self.sweeps) != len(self._states) or self._stride < 1 or self.sweeps != sorted(self.sweeps):
            raise InputError("what was on the screen before is damaged")

    def near(self, sweep: float) -> tuple[int, NDArray[np.int64]]:
        """The kept state nearest to a sweep: its sweep and its numbers."""
        with self._guard:
            right = min(bisect.bisect_left(self.sweeps, sweep), len(self.sweeps) - 1)
            left = max(right - 1, 0)
            nearest = min((left, right), key=lambda i: abs(self.sweeps[i] - sweep))
            return self.sweeps[nearest], self._states[nearest].astype(np.int64)
