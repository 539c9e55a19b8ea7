"""Everything compiled, or read from the cache, before it is needed."""

from __future__ import annotations

import importlib
import threading
from contextlib import suppress
from typing import Any

import numpy as np

from napari_gsw.core.compiler.compilation import COMPILATION
from napari_gsw.core.compiler.kernel import is_kept
from napari_gsw.core.compiler.side_compiler import SideCompiler, seldom_collected
from napari_gsw.core.model.problem import Problem
from napari_gsw.core.pipeline.head_start import SIDE
from napari_gsw.core.pipeline.prepare import prepare
from napari_gsw.core.pipeline.segment import segment
from napari_gsw.core.pipeline.stage import Stage
from napari_gsw.core.posterior.consensus import consensus
from napari_gsw.core.sampler.chain_kernels import advance
from napari_gsw.core.sampler.sample import run
from napari_gsw.core.sampler.snapshot import Snapshot

# How many kernels a segmentation with the usual settings compiles where nothing is in the cache; a test counts them.
KERNELS = 112

# What colours that stay, strokes, objects and tables need: the usual way from an image to labels goes without.
FIRST_DEEDS = ("scipy.ndimage", "scipy.optimize", "scipy.sparse.csgraph", "scipy.sparse.linalg", "scipy.special")


def warm_up() -> None:
    """Compile every kernel (or load it from the cache), so that the first segmentation does not have to."""
    BACKGROUND.warm_up()


def is_cold() -> bool:
    """Whether the sampler would have to be compiled."""
    return not advance.signatures and not is_kept(advance)  # type: ignore[attr-defined]


def compiling_stage() -> Stage | None:
    """How far it is with compiling, if that is what goes on at this moment, in whatever thread; None otherwise."""
    if not COMPILATION.depth and not (BACKGROUND.going and COMPILATION.count):
        return None
    return Stage("compiling", COMPILATION.count, max(KERNELS, COMPILATION.count + 1))


class _Enough(Exception):
    """Nobody needs what is being compiled."""


class Background:
    """The warming up of this process, in a thread, once; and who compiles as long as there is a window.

    A window wants to stay lively: from the first `begin` to the last `end` other processes compile for this one.
    Whoever waits for it without a window compiles, too: all but the sampler's loop, which another process does.

    Parameters
    ----------
    side : starts the other processes.
    """

    def __init__(self, side: SideCompiler | None = None) -> None:
        self.warm = self.ending = False
        self.side = SideCompiler() if side is None else side
        self._thread: threading.Thread | None = None
        self._sampler: threading.Thread | None = None
        self._ordered = threading.Event()
        self._here = False
        self._users = 0

    @property
    def going(self) -> bool:
        """Whether the thread is at work."""
        return self._thread is not None and self._thread.is_alive()

    def begin(self) -> None:
        """There is a window more: warm up, unless that is done or under way."""
        self._leave_compiling_to_others()
        if not self.warm and not self.going:
            self.ending = False
            self._thread = threading.Thread(target=self._prepare_window, name="napari-gsw compiles")
            self._thread.start()

    def end(self) -> None:
        """There is a window less. After the last one come to an end, without waiting for that."""
        self._users -= 1
        if not self._users:
            self.ending = True
            self.side.end()

    def warm_up(self) -> None:
        """Warm up, and wait for it."""
        if self._thread is not None:
            self._thread.join()
        if not self.warm:
            self.ending = False
            self._here = not self._users
            self._leave_compiling_to_others()
            try:
                with seldom_collected():
                    self._work()
            finally:
                self._here = False
                self.end()

    def _leave_compiling_to_others(self) -> None:
        self._users += 1
        COMPILATION.beside = self._compile_beside

    def _prepare_window(self) -> None:
        """Warm up, and import what a person's first deeds need, which a window would else wait for."""
        self._work()
        for name in FIRST_DEEDS:
            if self.ending:
                return
            importlib.import_module(name)

    def _work(self) -> None:
        """All stages of a segmentation of a small picture; the sampler is compiled beside all the rest."""
        rows, columns = np.indices((12, 12), np.uint8)
        picture = np.stack((20 * rows, 20 * columns, 9 * (rows + columns)), axis=-1)
        with suppress(_Enough):
            if is_cold():
                self._ordered.clear()
                self._sampler = threading.Thread(target=self._sample, name="napari-gsw compiles the sampler")
                self._sampler.start()
                try:
                    if self._here:
                        self._ordered.wait()  # what is compiled here would keep it from what comes before the order
                    prepare(picture, site_size=4, report=self._report)
                    self._report(Stage("compiling"), None)
                    consensus([[0, 0, 1, 2], [0, 1, 1, 2]], "vi", np.ones(4))
                except BaseException:  # Ctrl+C
                    self.ending = True
                    self.side.end()
                    raise
                finally:
                    self._sampler.join()  # as long as it compiles this is not over, whoever has ended it
            segment(picture, site_size=4, sweeps=1, seed=0, regroups=1, report=self._report)
            self.warm = True

    def _report(self, stage: Stage, snapshot: Snapshot | None) -> None:
        if self.ending and threading.current_thread() in (self._thread, self._sampler):
            raise _Enough

    def _compile_beside(self, kernel: Any, types: tuple[Any, ...]) -> None:
        if kernel is advance:
            self._ordered.set()
        if self._users and (kernel is advance or not self._here):
            self.side.compile(kernel, types)
        self._report(Stage("compiling"), None)

    def _sample(self) -> None:
        with suppress(Exception):  # the segmentation that follows meets the same, and tells it
            run(Problem.from_counts([[9, 0], [8, 1], [0, 9]], [(0, 1), (1, 2)]), 1)
        self._ordered.set()


BACKGROUND = Background(SIDE)
