"""Sections of the benchmark that measure processes of their own: memory, start, and an image larger than memory.

``python -m napari_gsw.research.benchmarks.processes memory FILE`` and ``... slide IMAGE LABELS [BOUNDARIES]`` are such
processes: they print what they have measured as JSON.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import zarr
from scipy.sparse import csr_array

from napari_gsw.core.pipeline.segment import segment
from napari_gsw.core.pipeline.stage import Stage
from napari_gsw.core.sampler.sample import run
from napari_gsw.core.sampler.snapshot import Snapshot
from napari_gsw.core.threads import count_cores
from napari_gsw.files.labels import write_labels
from napari_gsw.research.benchmarks.cases import WORDS, Planted, make_planted
from napari_gsw.research.benchmarks.report import BenchSection, Cell, Ratio

# ---- memory

CLUSTERS, LAM, SWEEPS = 12, 10.0, 3
# With fewer sites, memory that the process has freed before hides what a chain takes.
MIN_RESIDENT_SITES = 100_000


def measure_memory(counts: Sequence[int]) -> BenchSection:
    """Measure the memory of a chain by its number of sites, from the counts and edges to three sweeps."""
    rows: list[list[Cell]] = []
    ratios = {}
    for n in counts:
        data, name = make_planted(n, CLUSTERS), f"{n:,} sites"
        with tempfile.TemporaryDirectory() as folder:
            file, c = Path(folder, "planted.npz"), data.counts
            np.savez(file, data=c.data, indices=c.indices, indptr=c.indptr, edges=data.edges, truth=data.truth)
            traced, resident = run_process("memory", file)
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


def run_process(*arguments: str | Path) -> Any:
    """Run this module in a process of its own, and return what it prints."""
    command = [sys.executable, "-m", "napari_gsw.research.benchmarks.processes", *map(str, arguments)]
    process = subprocess.run(command, capture_output=True, text=True)
    if process.returncode:
        raise RuntimeError(f"{arguments[0]} was not measured: {process.stderr[-2000:]}")
    return json.loads(process.stdout.splitlines()[-1])


def process_peak() -> int | None:
    """Return the peak memory of this process in bytes, None where that is not known.

    On Linux getrusage is wrong: a process begins with the peak of the one that started it.
    """
    status = Path("/proc/self/status")
    if status.exists():
        peaks = [line.split()[1] for line in status.read_text("utf-8").splitlines() if line.startswith("VmHWM")]
        return 1024 * int(peaks[0]) if peaks else None
    try:
        import resource
    except ImportError:  # Windows
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak


def sample_file(file: str) -> tuple[int, int | None]:
    """Sample the planted data of a file; return the peak bytes of numpy's arrays and the growth of the process."""
    tiny = make_planted(24, 2)
    run(tiny.make_problem(), SWEEPS, lam=LAM, init=tiny.truth)  # compiles the kernels
    with np.load(file) as arrays:
        counts = csr_array((arrays["data"], arrays["indices"], arrays["indptr"]), shape=(len(arrays["truth"]), WORDS))
        data = Planted(counts, arrays["edges"], arrays["truth"])
    before = process_peak()
    run(data.make_problem(), SWEEPS, lam=LAM, init=data.truth)
    after = process_peak()
    tracemalloc.start()
    run(data.make_problem(), SWEEPS, lam=LAM, init=data.truth)
    return tracemalloc.get_traced_memory()[1], None if before is None or after is None else after - before


# ---- start: multiples of the import of numba, since Python keeps compiled bytecode on disk and numba keeps kernels

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
NOTE = (
    "*cold* compiles all kernels, and goes by the clock on the wall, as does the import of numba that it is a multiple"
    " of: two processes compile side by side"
)


def measure_startup(cold: bool, repeats: int = 6) -> BenchSection:
    """Run the scripts in turn, with bytecode and without; `cold` also compiles all kernels, twice."""
    cases = [(script, has_bytecode) for has_bytecode in (True, False) for script in SCRIPTS]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        times = [[time_process(SCRIPTS[s], folder, has_bytecode) for s, has_bytecode in cases] for _ in range(repeats)]
        kernels = [folder / f"kernels {k}" for k in range(COLD_REPEATS if cold else 0)]
        cold_times = [time_process(SCRIPTS[SEGMENT], folder, False, k)[1] for k in kernels]
    least = np.min(times, axis=0).T.tolist()
    processor, wall = (dict(zip(cases, seconds, strict=True)) for seconds in least)
    rows: list[list[Cell]] = [[script] for script in SCRIPTS]
    multiples: dict[str, float] = {}
    for row, (script, has_bytecode) in zip([*rows, *rows], cases, strict=True):
        multiple = processor[script, has_bytecode] / processor[NUMBA, has_bytecode]
        row += [processor[script, has_bytecode], multiple]
        multiples[f"{script}{'' if has_bytecode else ', without bytecode'}"] = multiple
    if cold_times:
        multiples[COLD] = min(cold_times) / wall[NUMBA, False]
        rows.append([COLD, None, None, min(cold_times), multiples[COLD]])
    title = "fresh processes, the least of several, in seconds of processor time and as multiples of importing numba"
    columns = ("", "seconds", "multiple", "without bytecode", "multiple")
    # Fresh processes vary more than loops do.
    ratios = {name: Ratio(value, "low", 0.3) for name, value in multiples.items() if not name.startswith(NUMBA)}
    return BenchSection(title, columns, rows, ratios, [NOTE] if cold else [])


def time_process(
    script: str, folder: Path, has_bytecode: bool = True, kernels: Path | None = None
) -> tuple[float, float]:
    """Time a fresh process that runs Python code in a folder; return its processor seconds and those on the wall.

    The folder also keeps the bytecode, if that is to be read and written; `kernels` is that of compiled kernels, None
    the usual one.
    """
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    env |= {"PYTHONPYCACHEPREFIX": str(folder / ("bytecode" if has_bytecode else "none"))}
    env |= {} if has_bytecode else {"PYTHONDONTWRITEBYTECODE": "1"}
    env |= {} if kernels is None else {"NUMBA_CACHE_DIR": str(kernels)}
    start = time.perf_counter()
    command = [sys.executable, "-c", script + CLOCK]
    process = subprocess.run(command, capture_output=True, text=True, check=True, env=env, cwd=folder)
    return float(process.stdout.splitlines()[-1]), time.perf_counter() - start


# ---- an image that does not fit into memory, from zarr to zarr

CHUNK = 1024
# Kinds of regions, amplitude of the stripes that a third of them have, and noise, which is too weak to be removed.
KINDS, STRIPES, NOISE = 12, 20.0, 4.0
STAGES = {
    "blocks": "blocks: sites, words, faces",
    "assembly": "putting them together, couplings",
    "sampling": "sampling",
    "result": "consensus, regions",
    "labels": "labels as OME-Zarr with its levels",
}


def measure_slide(side: int) -> BenchSection:
    """Measure a slide of side x side pixels, which needs about 5 bytes of disk per pixel."""
    with tempfile.TemporaryDirectory() as folder:
        image, labels, boundaries = (Path(folder, f"{name}.zarr") for name in ("slide", "labels", "boundaries"))
        write_slide(image, boundaries, side)
        measured = run_process("slide", image, labels)
    rows: list[list[Cell]] = [[STAGES[name], *values] for name, values in measured["stages"].items()]
    title = f"{side:,} x {side:,} pixels from zarr to zarr on {count_cores()} cores, preset general"
    peak = measured["stages"]["labels"][2]  # NaN where it is not known
    ratios = {f"peak MB, {side:,} x {side:,}": Ratio(peak, "low", 0.3)} if peak > 0 else {}
    columns = ["", "seconds", "processor seconds", "peak MB so far"]
    return BenchSection(title, columns, rows, ratios, facts={"pixels": side**2, **measured["facts"]})


def write_slide(image: Path, boundaries: Path, side: int, noise: float = NOISE) -> None:
    """Write regions of twelve kinds, some striped, with noise, and a map of their boundaries, chunk by chunk."""
    pixels = zarr.create_array(str(image), shape=(side, side, 3), chunks=(CHUNK, CHUNK, 3), dtype="u1")
    lines = zarr.create_array(str(boundaries), shape=(side, side), chunks=(CHUNK, CHUNK), dtype="f4")
    colours = np.random.default_rng(0).integers(30, 225, (KINDS, 3))

    def write_chunk(corner: tuple[int, int]) -> None:
        y, x = (np.arange(c, min(c + CHUNK, side)) for c in corner)
        a = np.sin(y / 211)[:, np.newaxis] + np.sin((y[:, np.newaxis] + x) / 317)
        b = np.sin(x / 263)[np.newaxis] + np.sin((y[:, np.newaxis] - x) / 389)
        kind = np.digitize(a, [-0.8, 0, 0.8]) * 3 + np.digitize(b, [-0.5, 0.5])
        stripes = (kind % 3 == 0) * STRIPES * np.sin(x / 3)
        grain = np.random.default_rng(corner).normal(0, noise, (len(y), len(x), 3))
        chunk = slice(int(y[0]), int(y[-1]) + 1), slice(int(x[0]), int(x[-1]) + 1)
        pixels[chunk] = np.clip(colours[kind] + stripes[..., np.newaxis] + grain, 0, 255).astype(np.uint8)
        edge = np.zeros(kind.shape, bool)
        edge[1:] |= kind[1:] != kind[:-1]
        edge[:, 1:] |= kind[:, 1:] != kind[:, :-1]
        lines[chunk] = np.where(edge, 0.9, 0.05)

    with ThreadPoolExecutor(count_cores()) as pool:
        list(pool.map(write_chunk, [(y, x) for y in range(0, side, CHUNK) for x in range(0, side, CHUNK)]))


def segment_slide(image: str, labels: str, *boundaries: str) -> dict[str, Any]:
    """Segment a zarr array, write the labels; return seconds, processor seconds and peak MB by stage, and counts."""
    marks: list[tuple[str, float, float, float]] = []

    def begin_stage(name: str) -> None:
        marks.append((name, time.perf_counter(), time.process_time(), (process_peak() or math.nan) / 1e6))

    def report(stage: Stage, snapshot: Snapshot | None) -> None:
        if stage.name in ("assembly", "sampling") and stage.name not in [name for name, *_ in marks]:
            begin_stage(stage.name)
        if stage.name == "sampling" and stage.done == stage.total:
            begin_stage("result")

    begin_stage("blocks")
    lines = zarr.open(boundaries[0], mode="r") if boundaries else None
    result = segment(zarr.open(image, mode="r"), seed=0, report=report, boundaries=lines)
    begin_stage("labels")
    write_labels(result.labels, labels, provenance=result.provenance)
    begin_stage("")
    facts = {
        "sites": result.problem.n, "clusters": result.n_clusters, "regions": result.n_regions,
        "sweeps": result.snapshot.sweep,
        "bytes of compressed sites": sum(len(piece.data) for piece in result.problem.sites.pieces),
    }  # fmt: skip
    stages = {name: [b - a, d - c, peak] for (name, a, c, _), (_, b, d, peak) in pairwise(marks)}
    return {"facts": facts, "stages": stages}


if __name__ == "__main__":
    kind, *arguments = sys.argv[1:]
    print(json.dumps(sample_file(*arguments) if kind == "memory" else segment_slide(*arguments)))
