"""How long a fresh process takes to import the package, and to the end of its first sweep."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile

from napari_gsw.bench.report import Cell, Ratio, Section

BASELINE = "numpy, scipy, numba, skimage"
IMPORT = "import time; began = time.perf_counter(); import {}; print(time.perf_counter() - began)"
FIRST = """
import time
import napari_gsw as gsw
problem = gsw.Problem.from_counts([[9, 0], [8, 1], [0, 9]], [(0, 1), (1, 2)])
began = time.perf_counter()
gsw.run(problem, 1)
print(time.perf_counter() - began)
"""


def startup(cold: bool, turns: int = 3) -> Section:
    """Imports in turn with their baseline; `cold` also compiles everything once, into an empty cache."""
    scripts = {"import napari_gsw": IMPORT.format("napari_gsw"), f"import {BASELINE}": IMPORT.format(BASELINE)}
    best = dict.fromkeys(scripts, float("inf"))
    for _ in range(turns):
        for name, script in scripts.items():
            best[name] = min(best[name], seconds_of(script))
    ours, base = best.values()
    rows: list[list[Cell]] = [[name, took, took / base] for name, took in best.items()]
    with tempfile.TemporaryDirectory() as folder:
        cache = folder if cold else None
        first = seconds_of(FIRST, cache)
        if cold:
            rows.append(["first sweep, nothing compiled", first, first / base])
        warm = min(seconds_of(FIRST, cache) for _ in range(turns))
    rows.append(["first sweep, compiled before", warm, warm / base])
    title = "seconds of fresh processes, the least of several; all as ratios to the import of what we build on"
    return Section(title, ["", "seconds", "ratio"], rows, {"import": Ratio(ours / base, "low", 0.3)})


def seconds_of(script: str, cache: str | None = None) -> float:
    """What a script prints in a fresh process, with compiled code in the folder `cache` if one is named."""
    env = os.environ | ({} if cache is None else {"NUMBA_CACHE_DIR": cache})
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, env=env)
    return float(done.stdout)
