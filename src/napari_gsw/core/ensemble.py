"""Several chains of one problem, a thread each, and what they know together."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor

import numpy as np

from napari_gsw.core.arrays import TRACE
from napari_gsw.core.chain import Chain, Snapshot, next_size, snapshot, step
from napari_gsw.core.threads import aside

# How long a watcher waits for the next snapshot, in seconds.
INTERVAL = 0.05


def chain_seeds(seed: int, count: int) -> list[int]:
    """A seed for each chain; the first is the seed itself, so that one chain is the first of several.

    >>> chain_seeds(7, 1)
    [7]
    """
    rest = [np.random.SeedSequence(seed, spawn_key=(c,)).generate_state(1, np.uint64)[0] for c in range(1, count)]
    return [seed, *(int(r) for r in rest)]


class Ensemble:
    """Chains that go side by side, the same number of sweeps at a time.

    Attributes
    ----------
    chains : the running chains.
    snapshots : the newest snapshot of each.
    executor : threads to make the sweeps in; None takes one that is kept for one chain, and for several some that come
        and go.
    """

    def __init__(self, chains: Sequence[Chain]) -> None:
        self.chains = list(chains)
        self.snapshots = self._look([np.empty((0, TRACE))] * len(self.chains))
        self.executor: Executor | None = None
        self._size = 1

    def advance(self, most: int) -> tuple[Snapshot, ...]:
        """About an interval's worth of sweeps in every chain, `most` at most."""
        size = min(self._size, most)
        began = time.perf_counter()
        sizes = [size] * len(self.chains)
        if self.executor is not None:
            traces = list(self.executor.map(step, self.chains, sizes))
        elif len(self.chains) == 1:
            traces = [aside(step, self.chains[0], size)]
        else:
            with ThreadPoolExecutor(len(self.chains)) as pool:
                traces = list(pool.map(step, self.chains, sizes))
        self._size = next_size(size, time.perf_counter() - began, INTERVAL)
        self.snapshots = self._look(traces)
        return self.snapshots

    def run(self, sweeps: int, every: int | None = None) -> Iterator[tuple[Snapshot, ...]]:
        """Advance by so many sweeps; without any, the only snapshots are those of the start.

        None of the multiples of `every` is passed over.
        """
        if sweeps == 0:
            yield self.snapshots
        while sweeps > 0:
            next_stop = sweeps if every is None else every - self.snapshots[0].sweep % every
            yield self.advance(min(sweeps, next_stop))
            sweeps -= len(self.snapshots[0].trace)

    def refresh(self) -> None:
        """Look at the chains again, after one of them has been changed from outside."""
        self.snapshots = self._look([np.empty((0, TRACE))] * len(self.chains))

    def _look(self, traces: Sequence[np.ndarray[tuple[int, int], np.dtype[np.float64]]]) -> tuple[Snapshot, ...]:
        return tuple(snapshot(chain, trace) for chain, trace in zip(self.chains, traces, strict=True))


def pooled(snapshots: Sequence[Snapshot]) -> Snapshot:
    """The first chain's snapshot with the best state and the running sums of all chains."""
    first = snapshots[0]
    if len(snapshots) == 1:
        return first
    best = max((s.best for s in snapshots), key=lambda state: state.log_posterior)
    counted = sum(int(s.state["counted"][1]) for s in snapshots)
    total = np.sum([s.state["together"] for s in snapshots], axis=0)
    together = total / counted if counted else np.full(total.shape, np.nan)
    together.setflags(write=False)
    draws = tuple(d for s in snapshots for d in s.draws)
    return dataclasses.replace(first, best=best, together=together, draws=draws)
