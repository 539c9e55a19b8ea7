"""One run of the chain in a thread. This file alone knows threads.

The worker never hands snapshots over one by one: it leaves the newest frame in a slot, and whoever watches takes it
from there when it has time. So a slow screen never makes the chain wait, nor the other way round.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from napari.qt.threading import create_worker
from numpy.typing import NDArray

from napari_gsw.core import kernels
from napari_gsw.core.chain import Snapshot
from napari_gsw.core.jit import is_compiled
from napari_gsw.core.matching import matched
from napari_gsw.core.model import Problem
from napari_gsw.core.pipeline import chain, prepare
from napari_gsw.core.settings import Settings


class RunFailed(Exception):
    """What went wrong in a run. napari swallows a RuntimeError in a worker, so none may leave it."""


@dataclass(frozen=True)
class Frame:
    """What there is to see: the stage and, once the chain runs, its newest state.

    Attributes
    ----------
    labels : label image with numbers that stay with their regions, or None before the first state.
    rate : sweeps a second so far.
    """

    stage: str
    snapshot: Snapshot | None = None
    labels: NDArray[np.uint16] | None = None
    rate: float = 0.0


class Run:
    """A segmentation in the background.

    Attributes
    ----------
    newest : the newest :class:`Frame`.
    trace : (sweeps, 2) log posterior and number of clusters; rows up to the newest snapshot's sweep are filled.
    worker : napari's worker, with its signals.
    """

    def __init__(self, image: NDArray[Any], settings: Settings, seed: int) -> None:
        self.settings = settings
        self.seed = seed
        self.newest = Frame("preparing")
        self.trace = np.empty((settings.sweeps, 2))
        self.problem: Problem | None = None
        self._image = image
        self.worker = create_worker(self._guarded, _start_thread=False)

    def _guarded(self) -> Iterator[None]:
        try:
            yield from self._work()
        except RuntimeError as reason:
            raise RunFailed(str(reason)) from reason

    def _work(self) -> Iterator[None]:
        def report(stage: str, _: Snapshot | None) -> None:
            self.newest = Frame(stage)

        problem = self.problem = prepare(self._image, self.settings, report=report)
        yield
        if not is_compiled(kernels.advance):
            self.newest = Frame("compiling")
        pixels = np.bincount(np.asarray(problem.sites).ravel(), minlength=problem.n + 1)[1:].astype(np.float64)
        shown: NDArray[np.int64] | None = None
        spent, timed, began = 0.0, 0, 0.0
        for snapshot in chain(problem, self.settings, self.seed):
            if began > 0:  # the first step may have compiled
                spent += time.perf_counter() - began
                timed += len(snapshot.trace)
            first = snapshot.sweep - len(snapshot.trace)
            self.trace[first : snapshot.sweep] = snapshot.trace
            shown = snapshot.labels.astype(np.int64) + 1 if shown is None else matched(snapshot.labels, shown, pixels)
            image = np.asarray(problem.paint(shown.astype(np.uint16)), dtype=np.uint16)
            self.newest = Frame("sampling", snapshot, image, timed / spent if spent else 0.0)
            yield  # a pause waits here and is not counted
            began = time.perf_counter()
        # The best state is what a segmentation returns, so it is what stays on the screen.
        if shown is not None and (last := self.newest.snapshot) is not None:
            final = matched(last.best.labels, shown, pixels).astype(np.uint16)
            self.newest = Frame("done", last, np.asarray(problem.paint(final), dtype=np.uint16), self.newest.rate)
        yield
