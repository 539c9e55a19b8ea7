"""How long a fresh process takes to import the package, and to the end of its first sweep."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile

from napari_gsw.bench.report import BenchSection, Cell, Ratio

BASELINE = "numpy, scipy, numba, skimage"
OURS, THEIRS = "import napari_gsw", "import its libraries"
# Processor time, which a busy machine leaves alone.
IMPORT = "import time; began = time.process_time(); import {}; print(time.process_time() - began)"
FIRST = """
import time
import napari_gsw as gsw
problem = gsw.Problem.from_counts([[9, 0], [8, 1], [0, 9]], [(0, 1), (1, 2)])
began = time.process_time()
gsw.run(problem, 1)
print(time.process_time() - began)
"""


def startup(cold: bool, turns: int = 3) -> BenchSection:
    """Imports in turn with their baseline; `cold` also compiles everything once, into an empty cache."""
    scripts = {OURS: IMPORT.format("napari_gsw"), THEIRS: IMPORT.format(BASELINE)}
    best = dict.fromkeys(scripts, float("inf"))
    for _ in range(turns):
        for name, script in scripts.items():
            best[name] = min(best[name], seconds_of(script))
    base = best[THEIRS]
    rows: list[list[Cell]] = [[name, took, took / base] for name, took in best.items()]
    with tempfile.TemporaryDirectory() as folder:
        first = seconds_of(FIRST, folder if cold else None)
        if cold:
            rows.append(["first sweep, cold", first, first / base])
        later = [seconds_of(FIRST, folder if cold else None) for _ in range(turns - 1)]
    warm = min(later if cold else [first, *later])
    rows.append(["first sweep, compiled", warm, warm / base])
    title = f"processor seconds in fresh processes, the least of several, and as ratios to the import of {BASELINE}"
    ratios = {"import": Ratio(best[OURS] / base, "low", 0.3)}
    return BenchSection(title, ["", "seconds", "ratio"], rows, ratios)


def seconds_of(script: str, cache: str | None = None) -> float:
    """What a script prints in a fresh process, with compiled code in the folder `cache` if one is named."""
    env = os.environ | ({} if cache is None else {"NUMBA_CACHE_DIR": cache})
    process = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, env=env)
    return float(process.stdout)
