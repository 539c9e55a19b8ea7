"""Everything compiled, or read from the cache, before it is needed."""

from __future__ import annotations

import threading

import numpy as np

from napari_gsw.core.jit import COMPILATION
from napari_gsw.core.pipeline.prepare import prepare
from napari_gsw.core.pipeline.segment import segment
from napari_gsw.core.pipeline.side_compiler import SideCompiler, is_cold
from napari_gsw.core.pipeline.stage import Stage
from napari_gsw.core.posterior.consensus import consensus
from napari_gsw.core.sampler.snapshot import Snapshot

# How many kernels a segmentation with the usual settings compiles where nothing is in the cache; a test counts them.
KERNELS = 87


def warm_up() -> None:
    """Compile every kernel (or load it from the cache), so that the first segmentation does not have to."""
    BACKGROUND.end()
    _segment_a_little(BACKGROUND)


def compiling_stage() -> Stage | None:
    """How far it is with compiling, if that is what goes on at this moment, in whatever thread; None otherwise."""
    if not COMPILATION.depth and not (BACKGROUND.going and COMPILATION.count):
        return None
    return Stage("compiling", COMPILATION.count, max(KERNELS, COMPILATION.count + 1))


class Background:
    """The warming up of this process, in a thread, once."""

    def __init__(self) -> None:
        self._thread: threading.Thread | None = None
        self.warm = self.ending = False
        self.side = SideCompiler()

    @property
    def going(self) -> bool:
        """Whether the thread is at work."""
        return self._thread is not None and self._thread.is_alive()

    def begin(self) -> None:
        """Warm up, unless that is done or under way."""
        if not self.warm and not self.going:
            self.ending = False
            self._thread = threading.Thread(target=_segment_a_little, args=(self,), name="napari-gsw compiles")
            self._thread.start()

    def end(self) -> None:
        """Let it come to an end after the kernel that it is at, or a few, without waiting for that."""
        self.ending = True
        self.side.end()


class _Enough(Exception):
    """Nobody needs what is being compiled."""


def _segment_a_little(background: Background) -> None:
    """All stages of a segmentation of a small picture; the sampler is compiled beside all the rest."""

    def report(stage: Stage, snapshot: Snapshot | None) -> None:
        if background.ending and threading.current_thread() is background._thread:
            raise _Enough

    rows, columns = np.indices((12, 12), np.uint8)
    picture = np.stack((20 * rows, 20 * columns, 9 * (rows + columns)), axis=-1)
    side = background.side = SideCompiler()
    try:
        if is_cold():
            side.begin()
            prepare(picture, site_size=4, report=report)
            report(Stage("compiling"), None)
            consensus([[0, 0, 1, 2], [0, 1, 1, 2]], "vi", np.ones(4))
            side.wait()
        segment(picture, site_size=4, sweeps=1, seed=0, regroups=1, report=report)
        background.warm = True
    except _Enough:
        side.end()


BACKGROUND = Background()
