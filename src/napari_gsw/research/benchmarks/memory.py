"""Memory of a chain per site, from the counts and edges to three sweeps, in a process of its own.

``python -m napari_gsw.research.benchmarks.memory FILE`` is that process: it reads planted data and prints two numbers
of bytes.
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
from napari_gsw.research.benchmarks.cases import Planted, make_planted
from napari_gsw.research.benchmarks.report import BenchSection, Cell, Ratio

CLUSTERS, LAM, SWEEPS = 12, 10.0, 3
# With fewer sites, memory that the process has freed before hides what a chain takes.
MIN_RESIDENT_SITES = 100_000


def measure_memory(counts: Sequence[int]) -> BenchSection:
    """Measure the memory of problems by their number of sites."""
    rows: list[list[Cell]] = []
    ratios = {}
    for n in counts:
        traced, resident = peak_bytes(make_planted(n, CLUSTERS))
        name = f"{n:,} sites"
        rows.append([name, traced / n, None if resident is None else resident / n, traced / 1e6])
        ratios[f"bytes per site, {name}"] = Ratio(traced / n, "low", 0.2)
        if resident is not None and n >= MIN_RESIDENT_SITES:
            ratios[f"resident bytes per site, {name}"] = Ratio(resident / n, "low", 0.3)
    title = f"peak memory of making a problem's arrays and {SWEEPS} sweeps, beside the counts and edges themselves"
    notes = [
        "bytes/site: numpy's arrays as tracemalloc sees them; resident: growth of the process's peak,",
        f"which means little below {MIN_RESIDENT_SITES:,} sites",
    ]
    return BenchSection(title, ["", "bytes/site", "resident/site", "MB in all"], rows, ratios, notes)


def peak_bytes(data: Planted) -> tuple[int, int | None]:
    """Return the peak bytes of numpy's arrays, and the growth of the peak of a fresh process if it is known."""
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
    """Return the peak memory of this process in bytes, None where that is not known.

    On Linux getrusage is wrong: a process begins with the peak of the one that started it.
    """
    status = Path("/proc/self/status")
    if status.exists():
        lines = dict(line.split(":", 1) for line in status.read_text(encoding="utf-8").splitlines() if ":" in line)
        return 1024 * int(lines["VmHWM"].split()[0]) if "VmHWM" in lines else None
    try:
        import resource
    except ImportError:  # Windows
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak


def main(file: str) -> None:
    """Sample the planted data of a file, and print both numbers of bytes as JSON."""
    tiny = make_planted(24, 2)
    run(tiny.make_problem(), SWEEPS, lam=LAM, init=tiny.truth)  # compiles the kernels
    with np.load(file) as arrays:
        counts = csr_array((arrays["data"], arrays["indices"], arrays["indptr"]), shape=tuple(arrays["shape"]))
        data = Planted(counts, arrays["edges"], arrays["truth"])
    before = process_peak()
    run(data.make_problem(), SWEEPS, lam=LAM, init=data.truth)
    after = process_peak()
    tracemalloc.start()
    run(data.make_problem(), SWEEPS, lam=LAM, init=data.truth)
    traced = tracemalloc.get_traced_memory()[1]
    print(json.dumps([traced, None if before is None or after is None else after - before]))


if __name__ == "__main__":
    main(sys.argv[1])
