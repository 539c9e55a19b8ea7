"""Several chains of one problem, one thread each, and their pooled results."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor
from functools import partial

import numpy as np

from napari_gsw.core.sampler.chain import Chain, step
from napari_gsw.core.sampler.snapshot import Snapshot, make_readonly, make_snapshot
from napari_gsw.core.sampler.state import N_TRACED
from napari_gsw.core.threads import run_in_threads

# Seconds from one snapshot to the next.
INTERVAL = 0.05


def spawn_seeds(seed: int, count: int) -> list[int]:
    """Return a seed for each chain; the first is the seed itself, so that one chain is the first of several.

    >>> spawn_seeds(7, 1)
    [7]
    """
    rest = [np.random.SeedSequence(seed, spawn_key=(c,)).generate_state(1, np.uint64)[0] for c in range(1, count)]
    return [seed, *(int(r) for r in rest)]


class Ensemble:
    """Chains that advance side by side, the same number of sweeps at a time."""

    def __init__(self, chains: Sequence[Chain], interval: float | None = INTERVAL, size: int = 1) -> None:
        self.chains = list(chains)
        self.executor: Executor | None = None  # None uses threads of its own
        self.interval = interval  # seconds that an advance takes; None for advances of `size` sweeps
        self._size = size
        self.refresh()

    def advance(self, max_sweeps: int) -> tuple[Snapshot, ...]:
        """Make the sweeps of about one interval in every chain, or fewer after `interrupt`."""
        size, began = min(self._size, max_sweeps), time.perf_counter()
        snapshots = self._advance(self.chains, [size] * len(self.chains))
        seconds = time.perf_counter() - began
        if any(chain.stop[0] for chain in self.chains):  # all go to the sweep of the farthest
            for chain in self.chains:
                chain.stop[0] = False
            farthest = max(snapshot.sweep for snapshot in snapshots)
            behind = [k for k, snapshot in enumerate(snapshots) if snapshot.sweep < farthest]
            missing = [farthest - snapshots[k].sweep for k in behind]
            for k, rest in zip(behind, self._advance([self.chains[k] for k in behind], missing), strict=True):
                trace = make_readonly(np.concatenate((snapshots[k].trace, rest.trace)))
                snapshots[k] = dataclasses.replace(rest, trace=trace)
        elif self.interval is not None:  # by a factor of at most two, in case of one slow sweep
            self._size = max(1, int(size * min(2.0, max(0.5, self.interval / max(seconds, 1e-9)))))
        self.snapshots = tuple(snapshots)
        return self.snapshots

    def _advance(self, chains: Sequence[Chain], sweeps: Sequence[int]) -> list[Snapshot]:
        calls = [partial(_advance, chain, size) for chain, size in zip(chains, sweeps, strict=True)]
        return run_in_threads([chain.stop for chain in chains], calls, self.executor)

    def interrupt(self) -> None:
        """End the current advance, or else the next one, after a sweep; call it from another thread.

        The states of the chains do not depend on it.
        """
        for chain in self.chains:
            chain.stop[0] = True

    def run(self, sweeps: int, every: int | None = None) -> Iterator[tuple[Snapshot, ...]]:
        """Advance by that many sweeps and yield snapshots, among them those at all multiples of `every`.

        Without any sweep the only snapshots are those of the start.
        """
        if sweeps == 0:
            yield self.snapshots
        while sweeps > 0:
            next_stop = sweeps if every is None else every - self.snapshots[0].sweep % every
            yield self.advance(min(sweeps, next_stop))
            sweeps -= len(self.snapshots[0].trace)

    def refresh(self) -> None:
        """Take new snapshots, after a chain has been changed from outside."""
        self.snapshots = tuple(make_snapshot(chain, np.empty((0, N_TRACED))) for chain in self.chains)


def _advance(chain: Chain, sweeps: int) -> Snapshot:
    """Make sweeps and a snapshot in the same thread, so that no chain waits for that of another."""
    return make_snapshot(chain, step(chain, sweeps))


def pool_snapshots(snapshots: Sequence[Snapshot]) -> Snapshot:
    """Return the first chain's snapshot with the best state and the running sums of all chains."""
    first = snapshots[0]
    if len(snapshots) == 1:
        return first
    best = max((s.best for s in snapshots), key=lambda state: state.log_posterior)
    counted = sum(int(s.state["counted"]) for s in snapshots)
    total = np.sum([s.state["together"] for s in snapshots], axis=0)
    together = make_readonly(total / counted if counted else np.full(total.shape, np.nan))
    draws = tuple(d for s in snapshots for d in s.draws)
    return dataclasses.replace(first, best=best, together=together, draws=draws)
