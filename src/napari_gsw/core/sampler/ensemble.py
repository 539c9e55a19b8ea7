"""Several chains of one problem, a thread each, and what they know together."""

from __future__ import annotations

import dataclasses
import os
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor, wait

import numpy as np

from napari_gsw.core.sampler.chain import Chain, adapt_n_sweeps, step
from napari_gsw.core.sampler.snapshot import Snapshot, make_snapshot
from napari_gsw.core.sampler.state import N_TRACED
from napari_gsw.core.threads import run_in_thread

# How long a watcher waits for the next snapshot, in seconds.
INTERVAL = 0.05


def spawn_seeds(seed: int, count: int) -> list[int]:
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
    executor : threads to make the sweeps in; None takes the ensemble's own, one for each chain of several.
    interval : how long an advance takes, in seconds, unless somebody interrupts it.
    """

    def __init__(self, chains: Sequence[Chain]) -> None:
        self.chains = list(chains)
        self.executor: Executor | None = None
        self.interval = INTERVAL
        self._size = 1
        self._pool: tuple[int, Executor] | None = None
        self.refresh()

    def advance(self, most: int) -> tuple[Snapshot, ...]:
        """About an interval's worth of sweeps in every chain, `most` at most; fewer after :meth:`interrupt`."""
        size = min(self._size, most)
        began = time.perf_counter()
        if self.executor is None and len(self.chains) == 1:
            snapshots = [run_in_thread(self.chains[0].stop, _advance, self.chains[0], size)]
        else:
            snapshots = self._side_by_side(self.executor or self._threads(), size)
        if any(chain.stop[0] for chain in self.chains):
            snapshots = self._evened(snapshots)
        else:
            self._size = adapt_n_sweeps(size, time.perf_counter() - began, self.interval)
        self.snapshots = tuple(snapshots)
        return self.snapshots

    def interrupt(self) -> None:
        """From another thread: let the advance that is under way, or else the next one, end after a sweep.

        What the chains come to does not depend on it; only when somebody can have a look, or a say.
        """
        for chain in self.chains:
            chain.stop[0] = True

    def _evened(self, snapshots: Sequence[Snapshot]) -> list[Snapshot]:
        """Snapshots of chains that were interrupted, each at its own sweep: all go to where the farthest is."""
        for chain in self.chains:
            chain.stop[0] = False
        farthest = max(one.sweep for one in snapshots)
        evened = []
        for chain, one in zip(self.chains, snapshots, strict=True):
            if one.sweep < farthest:
                rows = run_in_thread(chain.stop, step, chain, farthest - one.sweep)
                one = make_snapshot(chain, np.concatenate((one.trace, rows)))
            evened.append(one)
        return evened

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
        self.snapshots = tuple(make_snapshot(chain, np.empty((0, N_TRACED))) for chain in self.chains)

    def _side_by_side(self, threads: Executor, size: int) -> list[Snapshot]:
        futures: list[Future[Snapshot]] = []
        try:
            futures.extend(threads.submit(_advance, chain, size) for chain in self.chains)
            return [future.result() for future in futures]
        except BaseException:
            # No chain is left running when another fails or the user loses patience: two threads must never meet.
            for chain in self.chains:
                chain.stop[0] = True
            for future in futures:
                future.cancel()
            wait(futures)
            for chain in self.chains:
                chain.stop[0] = len(futures) < len(self.chains)
            raise

    def _threads(self) -> Executor:
        """Threads that end when the ensemble is let go. New ones at every step would cost a few per cent of it."""
        if self._pool is None or self._pool[0] != os.getpid():  # a forked process has the pool, but not its threads
            self._pool = os.getpid(), ThreadPoolExecutor(len(self.chains), thread_name_prefix="napari-gsw")
        return self._pool[1]


def _advance(chain: Chain, sweeps: int) -> Snapshot:
    """The snapshot is taken where the sweeps are made, so that no chain waits for that of another."""
    return make_snapshot(chain, step(chain, sweeps))


def pool_snapshots(snapshots: Sequence[Snapshot]) -> Snapshot:
    """The first chain's snapshot with the best state and the running sums of all chains."""
    first = snapshots[0]
    if len(snapshots) == 1:
        return first
    best = max((s.best for s in snapshots), key=lambda state: state.log_posterior)
    counted = sum(int(s.state["counted"]) for s in snapshots)
    total = np.sum([s.state["together"] for s in snapshots], axis=0)
    together = total / counted if counted else np.full(total.shape, np.nan)
    together.setflags(write=False)
    draws = tuple(d for s in snapshots for d in s.draws)
    return dataclasses.replace(first, best=best, together=together, draws=draws)
