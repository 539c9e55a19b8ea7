"""Several chains of one problem, one thread each, and their pooled results."""

from __future__ import annotations

import dataclasses
import os
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor, wait

import numpy as np

from napari_gsw.core.sampler.chain import Chain, adapt_n_sweeps, step
from napari_gsw.core.sampler.snapshot import Snapshot, make_readonly, make_snapshot
from napari_gsw.core.sampler.state import N_TRACED
from napari_gsw.core.threads import run_in_thread

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

    def __init__(self, chains: Sequence[Chain]) -> None:
        self.chains = list(chains)
        self.executor: Executor | None = None  # None uses threads of its own, one for each chain of several
        self.interval = INTERVAL  # seconds that an advance takes
        self._size = 1
        self._pool: tuple[int, Executor] | None = None
        self.refresh()

    def advance(self, max_sweeps: int) -> tuple[Snapshot, ...]:
        """Make the sweeps of about one interval in every chain, or fewer after `interrupt`."""
        size = min(self._size, max_sweeps)
        began = time.perf_counter()
        if self.executor is None and len(self.chains) == 1:
            snapshots = [run_in_thread(self.chains[0].stop, _advance, self.chains[0], size)]
        else:
            snapshots = self._advance_all(self.executor or self._threads(), size)
        if any(chain.stop[0] for chain in self.chains):
            snapshots = self._catch_up(snapshots)
        else:
            self._size = adapt_n_sweeps(size, time.perf_counter() - began, self.interval)
        self.snapshots = tuple(snapshots)
        return self.snapshots

    def interrupt(self) -> None:
        """End the current advance, or else the next one, after a sweep; call it from another thread.

        The states of the chains do not depend on it.
        """
        for chain in self.chains:
            chain.stop[0] = True

    def _catch_up(self, snapshots: Sequence[Snapshot]) -> list[Snapshot]:
        """Advance chains that were interrupted to the sweep of the farthest."""
        for chain in self.chains:
            chain.stop[0] = False
        farthest = max(snapshot.sweep for snapshot in snapshots)
        result = []
        for chain, snapshot in zip(self.chains, snapshots, strict=True):
            if snapshot.sweep < farthest:
                rows = run_in_thread(chain.stop, step, chain, farthest - snapshot.sweep)
                snapshot = make_snapshot(chain, np.concatenate((snapshot.trace, rows)))
            result.append(snapshot)
        return result

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

    def _advance_all(self, threads: Executor, size: int) -> list[Snapshot]:
        futures: list[Future[Snapshot]] = []
        try:
            futures.extend(threads.submit(_advance, chain, size) for chain in self.chains)
            return [future.result() for future in futures]
        except BaseException:
            # No chain keeps running after an error or an interrupt of another: two threads must never meet.
            for chain in self.chains:
                chain.stop[0] = True
            for future in futures:
                future.cancel()
            wait(futures)
            for chain in self.chains:
                chain.stop[0] = len(futures) < len(self.chains)
            raise

    def _threads(self) -> Executor:
        """Return threads that live as long as the ensemble: new ones at every step would cost a few per cent of it."""
        if self._pool is None or self._pool[0] != os.getpid():  # a forked process has the pool, but not its threads
            self._pool = os.getpid(), ThreadPoolExecutor(len(self.chains), thread_name_prefix="napari-gsw")
        return self._pool[1]


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
