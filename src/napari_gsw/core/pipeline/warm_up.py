"""Compilation of all kernels before they are needed: in this process, or in another one beside an open window."""

from __future__ import annotations

import gc
import importlib
import os
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

import numpy as np

from napari_gsw.core.jit import PROGRESS, cache_folder
from napari_gsw.core.model.problem import Problem
from napari_gsw.core.pipeline.prepare import Stage, prepare
from napari_gsw.core.pipeline.segment import segment
from napari_gsw.core.posterior.consensus import find_consensus
from napari_gsw.core.sampler.chain_kernels import advance
from napari_gsw.core.sampler.sample import run
from napari_gsw.core.threads import count_cores

# Kernels that a segmentation with the usual settings compiles where nothing is in the cache, about; a test counts them.
N_KERNELS = 66
# What scribbles, objects and tables need, and a segmentation with the usual settings does not.
LATE_IMPORTS = ("scipy.ndimage", "scipy.optimize", "scipy.sparse.csgraph", "scipy.sparse.linalg", "scipy.special")
# New objects after which Python looks for garbage: numba makes millions, and a 15th of the time goes into looking.
GC_THRESHOLD = 400_000
_SMALL_IMAGE = np.stack([*20 * np.indices((12, 12)), np.full((12, 12), 99)], axis=-1).astype(np.uint8)


def warm_up() -> None:
    """Compile every kernel (or load it from the cache), so that the first segmentation does not have to."""
    process = start_compiler(compile_sampler.__name__) if is_cold() else None  # half of the work, in parallel
    thresholds = gc.get_threshold()
    gc.set_threshold(GC_THRESHOLD, *thresholds[1:])
    try:
        if process is not None:
            prepare(_SMALL_IMAGE, site_size=4)
            find_consensus([[0, 0, 1, 2], [0, 1, 1, 2]], "vi", np.ones(4))
            process.wait()
        segment(_SMALL_IMAGE, site_size=4, sweeps=1, seed=0, regroups=1)
    finally:
        gc.set_threshold(*thresholds)
        if process is not None:
            process.terminate()


def compile_sampler() -> None:
    """Compile the kernels of the sampler, in a process of its own."""
    gc.set_threshold(GC_THRESHOLD)
    run(Problem.from_counts([[9, 0], [8, 1], [0, 9]], [(0, 1), (1, 2)]), 1)


def is_cold() -> bool:
    """Return whether the sampler would have to be compiled."""
    return not (advance.signatures or (cache_folder().path and advance._cache.has_any()))  # type: ignore[attr-defined]


def compiling_stage() -> Stage | None:
    """Return how far compilation is, here or in a process that was started for it; None if nothing is compiled."""
    return Stage("compiling", PROGRESS.count, max(N_KERNELS, PROGRESS.count + 1)) if PROGRESS.depth else None


def start_compiler(function: str) -> subprocess.Popen[bytes] | None:
    """Start a process that calls a function of this module to fill the cache, and count its kernels here.

    Returns None where nothing can be cached, where there is one core, or where the executable is not Python.
    """
    is_python = Path(sys.executable or "").stem.lower().startswith("python")  # a bundle would open its window again
    if cache_folder().path is None or count_cores() == 1 or not is_python:
        return None
    script = (
        f"from {__name__} import *; PROGRESS.watchers.append(lambda: print(PROGRESS.count, flush=True)); {function}()"
    )
    try:
        process = subprocess.Popen(
            [sys.executable, "-c", script],
            env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),
        )  # fmt: skip
    except OSError:
        return None
    threading.Thread(target=_count_kernels, args=(process,), name="napari-gsw counts kernels", daemon=True).start()
    return process


def _count_kernels(process: subprocess.Popen[bytes]) -> None:
    counted = 0
    PROGRESS.add(depth=1)
    assert process.stdout is not None
    with suppress(ValueError), process.stdout:  # half of a line
        for line in process.stdout:
            PROGRESS.add(count=int(line) - counted)
            counted = int(line)
    PROGRESS.add(depth=-1)


class BackgroundWarmUp:
    """Warm-up of a process with windows: compiles in another process, since compiling holds the GIL."""

    def __init__(self) -> None:
        self.is_warm = False  # everything is loaded into this process
        self._process: subprocess.Popen[bytes] | None = None
        self._thread: threading.Thread | None = None
        self._n_windows = 0

    @property
    def is_running(self) -> bool:
        """True if something is still compiled or loaded."""
        return self._thread is not None and self._thread.is_alive()

    @property
    def is_compiling(self) -> bool:
        """True if the other process is at work, which a run does well to wait for."""
        return self._process is not None and self._process.poll() is None

    def begin(self) -> None:
        """Warm up for one window more."""
        self._n_windows += 1
        if not self.is_warm and not self.is_running:
            self._process = start_compiler(warm_up.__name__) if is_cold() else None
            self._thread = threading.Thread(target=self._work, name="napari-gsw warms up")
            self._thread.start()

    def end(self) -> None:
        """Stop if there is no other window; returns at once."""
        self._n_windows -= 1
        if not self._n_windows and self._process is not None:
            self._process.terminate()

    def _work(self) -> None:
        if self._process is not None:
            self._process.wait()
        if self._n_windows:
            warm_up()
            self.is_warm = True
        for name in LATE_IMPORTS:
            if self._n_windows:
                importlib.import_module(name)


BACKGROUND = BackgroundWarmUp()
