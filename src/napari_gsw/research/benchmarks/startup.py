"""How long a fresh process takes to be ready, to help and to segment, as multiples of importing numba.

Python compiles modules to bytecode and keeps it, if it may; numba does the same with kernels. So there are two answers:
of a process that finds everything compiled, and of one in an environment where nothing has run yet. In each, numba is
imported under the same conditions.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from napari_gsw.research.benchmarks.report import BenchSection, Cell, Ratio

NUMBA = "import numba"
# Processor time of all of the process, which a busy machine leaves alone.
CLOCK = "\nimport time; print(time.process_time())"
COMMAND = "from napari_gsw.cli import main\ntry: main({})\nexcept SystemExit: pass"
SEGMENT, COLD = "segment", "segment, cold, on the wall"
SCRIPTS = {
    NUMBA: NUMBA,
    "import napari_gsw": "import napari_gsw",
    "napari-gsw --help": COMMAND.format(["--help"]),
    SEGMENT: COMMAND.format(["segment", "sample:astronaut", "-q", "--overwrite", "-o", "labels"]),
}
# How often all kernels are compiled: half a minute each.
COLD_TURNS = 2
# What a ratio may become, as a share of what was recorded: fresh processes differ more than loops do.
TOLERANCE = 0.3
TITLE = "fresh processes, the least of several, in seconds of processor time and as multiples of importing numba"
COLUMNS = ("", "seconds", "multiple", "without bytecode", "multiple")
NOTE = (
    "*cold* compiles all kernels, and goes by the clock on the wall, as does the import of numba that it is a multiple"
    " of: two processes compile side by side"
)


class Spent(NamedTuple):
    """Seconds of a process: of the processor, and on the wall."""

    processor: float
    wall: float


def startup(cold: bool, turns: int = 6) -> BenchSection:
    """Scripts in turn with their baseline, with bytecode and without; `cold` also compiles all kernels, twice."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        spent: dict[tuple[str, bool], list[Spent]] = {
            (script, kept): [] for kept in (True, False) for script in SCRIPTS
        }
        for _ in range(turns):
            for (script, kept), times in spent.items():
                times.append(seconds_of(SCRIPTS[script], folder, kept))
        firsts = [
            seconds_of(SCRIPTS[SEGMENT], folder, False, folder / f"kernels {turn}").wall
            for turn in range(COLD_TURNS if cold else 0)
        ]
    best = {case: min(times).processor for case, times in spent.items()}
    rows: list[list[Cell]] = []
    ratios: dict[str, Ratio] = {}
    for script in SCRIPTS:
        row: list[Cell] = [script]
        for kept in (True, False):
            multiple = best[script, kept] / best[NUMBA, kept]
            row += [best[script, kept], multiple]
            if script != NUMBA:
                ratios[f"{script}{'' if kept else ', without bytecode'}"] = Ratio(multiple, "low", TOLERANCE)
        rows.append(row)
    if firsts:
        multiple = min(firsts) / min(one.wall for one in spent[NUMBA, False])
        rows.append([COLD, None, None, min(firsts), multiple])
        ratios[COLD] = Ratio(multiple, "low", TOLERANCE)
    return BenchSection(TITLE, COLUMNS, rows, ratios, [NOTE] if cold else [])


def seconds_of(script: str, folder: Path, keeps_bytecode: bool = True, kernels: Path | None = None) -> Spent:
    """What a fresh process takes that runs a script in a folder.

    Parameters
    ----------
    keeps_bytecode : whether bytecode is in that folder, or is put there; otherwise there is none.
    kernels : folder of compiled kernels; None for the one that everybody has.
    """
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    env |= {"PYTHONPYCACHEPREFIX": str(folder / ("bytecode" if keeps_bytecode else "none"))}
    env |= {} if keeps_bytecode else {"PYTHONDONTWRITEBYTECODE": "1"}
    env |= {} if kernels is None else {"NUMBA_CACHE_DIR": str(kernels)}
    began = time.perf_counter()
    command = [sys.executable, "-c", script + CLOCK]
    process = subprocess.run(command, capture_output=True, text=True, check=True, env=env, cwd=folder)
    return Spent(float(process.stdout.splitlines()[-1]), time.perf_counter() - began)
