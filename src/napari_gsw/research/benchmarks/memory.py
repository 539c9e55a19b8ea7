"""Memory of a chain for each site: from the counts and edges to three sweeps, in a process of its own.

``python -m napari_gsw.research.benchmarks.memory FILE`` is that process: it reads planted data and prints two numbers of bytes.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import tracemalloc
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from scipy.sparse import csr_array

from napari_gsw.core.sampler.sample import run
from napari_gsw.research.benchmarks.problems import Planted, make_planted
from napari_gsw.research.benchmarks.report import BenchSection, Cell, Ratio
from napari_gsw.research.benchmarks.sampling import CLUSTERS, LAM

SWEEPS = 3
# Below so many sites what the process has freed before hides what a chain takes.
LEAST_RESIDENT = 100_000


def memory(counts: Sequence[int]) -> BenchSection:
    """The section of the memory that problems of so many sites take."""
    rows: list[list[Cell]] = []
    ratios = {}
    for n in counts:
        traced, resident = peak_bytes(make_planted(n, CLUSTERS))
        name = f"{n:,} sites"
        rows.append([name, traced / n, None if resident is None else resident / n, traced / 1e6])
        ratios[f"bytes per site, {name}"] = Ratio(traced / n, "low", 0.2)
        if resident is not None and n >= LEAST_RESIDENT:
            ratios[f"resident bytes per site, {name}"] = Ratio(resident / n, "low", 0.3)
    title = f"peak memory of making a problem's arrays and {SWEEPS} sweeps, beside the counts and edges themselves"
    notes = [
        "bytes/site: numpy's arrays as tracemalloc sees them; resident: growth of the process's peak,",
        f"which means little below {LEAST_RESIDENT:,} sites",
    ]
    return BenchSection(title, ["", "bytes/site", "resident/site", "MB in all"], rows, ratios, notes)


def peak_bytes(data: Planted) -> tuple[int, int | None]:
    """Peak bytes of numpy's arrays, and growth of the peak of a fresh process (None where that is not told)."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "planted.npz")
        c = data.counts
        np.savez(file, data=c.data, indices=c.indices, indptr=c.indptr, shape=c.shape, edges=data.edges,
                 truth=data.truth)  # fmt: skip
        command = [sys.executable, "-m", "napari_gsw.research.benchmarks.memory", str(file)]
        process = subprocess.run(command, capture_output=True, text=True, check=True)
    traced, resident = json.loads(process.stdout)
    return traced, resident


def process_peak() -> int | None:
    """Most bytes that this process has had in memory so far; None where that is not told.

    On Linux getrusage will not do: a process begins with the peak of the one that started it, which hides its own.
    """
    status = Path("/proc/self/status")
    if status.exists():
        lines = dict(line.split(":", 1) for line in status.read_text(encoding="utf-8").splitlines() if ":" in line)
        return 1024 * int(lines["VmHWM"].split()[0]) if "VmHWM" in lines else None
    try:
        import resource
    except ImportError:  # not on Windows
        return None
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else 1024 * most


def main(file: str) -> None:
    """Sample the planted data of a file, and print both numbers of bytes as JSON."""
    tiny = make_planted(24, 2)
    run(tiny.problem, SWEEPS, lam=LAM, init=tiny.truth)  # what is compiled or read from the cache counts for nobody
    with np.load(file) as arrays:
        counts = csr_array((arrays["data"], arrays["indices"], arrays["indptr"]), shape=tuple(arrays["shape"]))
        data = Planted(counts, arrays["edges"], arrays["truth"])
    before = process_peak()
    run(data.problem, SWEEPS, lam=LAM, init=data.truth)
    after = process_peak()
    tracemalloc.start()
    run(data.problem, SWEEPS, lam=LAM, init=data.truth)
    traced = tracemalloc.get_traced_memory()[1]
    print(json.dumps([traced, None if before is None or after is None else after - before]))


if __name__ == "__main__":
    main(sys.argv[1])
