"""The sampler is compiled in a process of its own beside this one: in one process numba compiles kernel after kernel.

What it has compiled is kept on disk, where this process finds it.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

from napari_gsw.core.jit import COMPILATION
from napari_gsw.core.kernel_cache import cache_folder, is_kept
from napari_gsw.core.model.problem import Problem
from napari_gsw.core.sampler import chain_kernels
from napari_gsw.core.sampler.sample import run
from napari_gsw.core.threads import cores

SCRIPT = f"from {__name__} import compile_sampler; compile_sampler()"


def is_cold() -> bool:
    """Whether the sampler would have to be compiled."""
    return not chain_kernels.advance.signatures and not is_kept(chain_kernels.advance)  # type: ignore[attr-defined]


def compile_sampler() -> None:
    """In the other process: compile what a chain needs, and print a line for each kernel that is compiled."""
    COMPILATION.watchers.append(lambda: print(COMPILATION.count, flush=True))
    run(Problem.from_counts([[9, 0], [8, 1], [0, 9]], [(0, 1), (1, 2)]), 1)


class SideCompiler:
    """One process that compiles, and counts here what it does."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None
        self._reader: threading.Thread | None = None

    def begin(self) -> None:
        """Start it, if there is a core for it, a place to keep what it compiles, and a Python to run."""
        is_python = Path(sys.executable or "").stem.lower().startswith("python")  # a bundle would open its window again
        if self._process is not None or cores() < 2 or cache_folder().path is None or not is_python:
            return
        env = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        with suppress(OSError):
            self._process = subprocess.Popen(
                [sys.executable, "-c", SCRIPT], env=env, text=True,
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            )  # fmt: skip
            self._reader = threading.Thread(target=self._count, args=(self._process,), daemon=True)
            self._reader.start()

    def _count(self, process: subprocess.Popen[str]) -> None:
        """Add what the other process has compiled to what this one has."""
        counted = 0
        assert process.stdout is not None
        COMPILATION.add(depth=1)
        with process.stdout as lines:
            for line in lines:
                COMPILATION.add(count=int(line) - counted)
                counted = int(line)
        COMPILATION.add(depth=-1)

    def wait(self) -> None:
        """Until it is done; at once if there is none. If it has failed, this process compiles for itself."""
        if self._process is not None and self._reader is not None:
            self._process.wait()
            self._reader.join()

    def end(self) -> None:
        """Nobody needs it any more."""
        if self._process is not None:
            self._process.terminate()
