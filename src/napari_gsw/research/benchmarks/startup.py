"""Time until a fresh process is ready, has shown its help and has segmented, as multiples of the import of numba.

Python keeps compiled bytecode on disk, and numba keeps kernels. So each is measured for a process that finds everything
compiled, and for one in an environment where nothing has run yet. numba is imported under the same conditions.
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

NUMBA, SEGMENT, COLD = "import numba", "segment", "segment, cold, on the wall"
# Processor time of the whole process, which other work on the machine hardly changes.
CLOCK = "\nimport time; print(time.process_time())"
COMMAND = "from napari_gsw.cli import main\ntry: main({})\nexcept SystemExit: pass"
SCRIPTS = {
    NUMBA: NUMBA,
    "import napari_gsw": "import napari_gsw",
    "napari-gsw --help": COMMAND.format(["--help"]),
    SEGMENT: COMMAND.format(["segment", "sample:astronaut", "-q", "--overwrite", "-o", "labels"]),
}
# How often all kernels are compiled, half a minute each.
COLD_REPEATS = 2
# Fresh processes vary more than loops do.
TOLERANCE = 0.3
NOTE = (
    "*cold* compiles all kernels, and goes by the clock on the wall, as does the import of numba that it is a multiple"
    " of: two processes compile side by side"
)


class ProcessTime(NamedTuple):
    """Seconds of a process."""

    processor: float
    wall: float


def measure_startup(cold: bool, repeats: int = 6) -> BenchSection:
    """Run the scripts in turn, with bytecode and without; `cold` also compiles all kernels, twice."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        times: dict[tuple[str, bool], list[ProcessTime]] = {
            (script, has_bytecode): [] for has_bytecode in (True, False) for script in SCRIPTS
        }
        for _ in range(repeats):
            for (script, has_bytecode), case_times in times.items():
                case_times.append(time_process(SCRIPTS[script], folder, has_bytecode))
        cold_times = [
            time_process(SCRIPTS[SEGMENT], folder, False, folder / f"kernels {k}").wall
            for k in range(COLD_REPEATS if cold else 0)
        ]
    best = {case: min(case_times).processor for case, case_times in times.items()}
    rows: list[list[Cell]] = []
    ratios: dict[str, Ratio] = {}
    for script in SCRIPTS:
        row: list[Cell] = [script]
        for has_bytecode in (True, False):
            multiple = best[script, has_bytecode] / best[NUMBA, has_bytecode]
            row += [best[script, has_bytecode], multiple]
            if script != NUMBA:
                ratios[f"{script}{'' if has_bytecode else ', without bytecode'}"] = Ratio(multiple, "low", TOLERANCE)
        rows.append(row)
    if cold_times:
        multiple = min(cold_times) / min(case_time.wall for case_time in times[NUMBA, False])
        rows.append([COLD, None, None, min(cold_times), multiple])
        ratios[COLD] = Ratio(multiple, "low", TOLERANCE)
    title = "fresh processes, the least of several, in seconds of processor time and as multiples of importing numba"
    columns = ("", "seconds", "multiple", "without bytecode", "multiple")
    return BenchSection(title, columns, rows, ratios, [NOTE] if cold else [])


def time_process(script: str, folder: Path, has_bytecode: bool = True, kernels: Path | None = None) -> ProcessTime:
    """Time a fresh process that runs a script in a folder.

    Parameters
    ----------
    script : str
        Python code.
    folder : Path
        Working directory, which also keeps the bytecode.
    has_bytecode : bool
        Whether bytecode is read from the folder and written there.
    kernels : Path, optional
        Folder of compiled kernels. None is the usual one.
    """
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    env |= {"PYTHONPYCACHEPREFIX": str(folder / ("bytecode" if has_bytecode else "none"))}
    env |= {} if has_bytecode else {"PYTHONDONTWRITEBYTECODE": "1"}
    env |= {} if kernels is None else {"NUMBA_CACHE_DIR": str(kernels)}
    start = time.perf_counter()
    command = [sys.executable, "-c", script + CLOCK]
    process = subprocess.run(command, capture_output=True, text=True, check=True, env=env, cwd=folder)
    return ProcessTime(float(process.stdout.splitlines()[-1]), time.perf_counter() - start)
