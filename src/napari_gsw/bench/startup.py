"""How long a fresh process takes to be ready, to help and to segment, as multiples of importing numba."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile

from napari_gsw.bench.report import BenchSection, Cell, Ratio

NUMBA = "import numba"
# Processor time of all of the process, which a busy machine leaves alone.
CLOCK = "\nimport time; print(time.process_time())"
COMMAND = "from napari_gsw.cli import main\ntry: main({})\nexcept SystemExit: pass"
SEGMENT = ["segment", "sample:astronaut", "-q", "--overwrite", "-o"]
SCRIPTS = {
    NUMBA: NUMBA,
    "import napari_gsw": "import napari_gsw",
    "napari-gsw --help": COMMAND.format(["--help"]),
}
# What a ratio may become, as a share of what was recorded: fresh processes differ more than loops do.
TOLERANCE = 0.3


def startup(cold: bool, turns: int = 3) -> BenchSection:
    """Scripts in turn with their baseline; `cold` also compiles everything once, into an empty cache."""
    best = dict.fromkeys(SCRIPTS, float("inf"))
    for _ in range(turns):
        for name, script in SCRIPTS.items():
            best[name] = min(best[name], seconds_of(script))
    with tempfile.TemporaryDirectory() as folder:
        script = COMMAND.format([*SEGMENT, folder])
        cache = os.path.join(folder, "cache") if cold else None
        first = seconds_of(script, cache)
        later = [seconds_of(script, cache) for _ in range(turns - 1)]
    best |= {"segment, compiled": min(later if cold else [first, *later])} | ({"segment, cold": first} if cold else {})
    base = best[NUMBA]
    rows: list[list[Cell]] = [[name, took, took / base] for name, took in best.items()]
    title = "processor seconds of fresh processes, the least of several, and as multiples of importing numba"
    ratios = {name: Ratio(took / base, "low", TOLERANCE) for name, took in best.items() if name != NUMBA}
    return BenchSection(title, ["", "seconds", "multiple"], rows, ratios)


def seconds_of(script: str, cache: str | None = None) -> float:
    """Processor time of a fresh process that runs a script; compiled code is in the folder `cache`, if one is named."""
    env = os.environ | ({} if cache is None else {"NUMBA_CACHE_DIR": cache})
    command = [sys.executable, "-c", script + CLOCK]
    process = subprocess.run(command, capture_output=True, text=True, check=True, env=env)
    return float(process.stdout.splitlines()[-1])
