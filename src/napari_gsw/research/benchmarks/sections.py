"""Sections of the benchmark, and the two scales at which they run.

Memory, the start, and an image larger than memory are measured in fresh processes. Two of them are this module, called
with ``memory FILE`` or ``slide IMAGE LABELS [BOUNDARIES]``: they print JSON.
"""

from __future__ import annotations

import json
import math
import os
import pickle
import re
import subprocess
import sys
import tempfile
import time
import tracemalloc
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import numpy as np
import zarr
from numpy.typing import NDArray

from napari_gsw.core.pipeline.prepare import Stage, prepare
from napari_gsw.core.pipeline.segment import CHECK_EVERY, make_ensemble, segment
from napari_gsw.core.sampler import bonds
from napari_gsw.core.sampler.chain import start_chain, step
from napari_gsw.core.sampler.ensemble import Ensemble
from napari_gsw.core.sampler.options import SamplerOptions
from napari_gsw.core.sampler.sample import run
from napari_gsw.core.sampler.snapshot import Snapshot
from napari_gsw.core.settings.presets import preset
from napari_gsw.core.threads import count_cores
from napari_gsw.files.labels import write_labels
from napari_gsw.research.benchmarks import cpp
from napari_gsw.research.benchmarks.cases import Planted, make_photograph, make_planted, write_slide
from napari_gsw.research.benchmarks.numpy_sampler import NumpySampler
from napari_gsw.research.benchmarks.report import BenchReport, BenchSection, Cell, Ratio, describe_machine

CLUSTERS, LAM, PRESET = 12, 10.0, "general"
# Site visits in one timed repetition: some milliseconds, so that it is seldom interrupted. More for threads.
VISITS, THREAD_FACTOR = 10_000, 50
# Repetitions that even the slowest call gets; alternations with C++, which starts anew each time; cold starts, each of
# half a minute.
MIN_REPEATS, CPP_ROUNDS, COLD_REPEATS = 3, 5, 2
# Clock for work on one core: processor time, or time on the wall where that is too coarse for milliseconds (Windows).
CLOCK = time.process_time if time.get_clock_info("process_time").resolution < 1e-4 else time.perf_counter
# Sweeps while memory is measured; with fewer sites, memory that was freed before hides what a chain takes.
MEMORY_SWEEPS, MIN_RESIDENT_SITES = 3, 100_000
STAGES = ("colours", "superpixels", "graph", "features", "arrays", "sampling")
SLIDE_STAGES = {
    "blocks": "blocks: sites, words, faces",
    "assembly": "putting them together, couplings",
    "sampling": "sampling",
    "result": "consensus, regions",
    "labels": "labels as OME-Zarr with its levels",
}
# Scripts of the start. Their times are multiples of the import of numba, since Python keeps compiled bytecode on disk
# and numba keeps kernels.
NUMBA, SEGMENT, COLD = "import numba", "segment", "segment, cold, on the wall"
COMMAND = "from napari_gsw.cli import main\ntry: main({})\nexcept SystemExit: pass"
SCRIPTS = {
    NUMBA: NUMBA,
    "import napari_gsw": "import napari_gsw",
    "napari-gsw --help": COMMAND.format(["--help"]),
    SEGMENT: COMMAND.format(["segment", "sample:astronaut", "-q", "--overwrite", "-o", "labels"]),
}
NOTE = (
    "*cold* compiles all kernels, and goes by the clock on the wall, as does the import of numba that it is a multiple"
    " of: two processes compile side by side"
)


@dataclass(frozen=True)
class Scale:
    """Sizes of the cases: sites, clusters, lambdas, images (height, width), sweeps, fresh processes, seconds."""

    sites: tuple[int, ...] = (1_000, 10_000, 100_000, 1_000_000)
    clusters: tuple[int, ...] = (12, 50, 200)
    lambdas: tuple[float, ...] = (0.0, 1.0, 10.0)
    baseline_clusters: tuple[int, ...] = (12, 170)
    baseline_lambdas: tuple[float, ...] = (0.0, 10.0)
    n: int = 1_000
    thread_sites: int = 10_000
    memory: tuple[int, ...] = (10_000, 100_000, 1_000_000)
    images: tuple[tuple[int, int], ...] = ((321, 481), (1000, 1000), (4000, 4000))
    sweeps: int = 300
    slide: int = 20_000
    cold: bool = True
    starts: int = 3
    seconds: float = 8.0


FULL = Scale()
QUICK = Scale(
    sites=FULL.sites[:3], memory=FULL.memory[:2], images=FULL.images[:2], slide=5_000, cold=False, starts=2,
    seconds=1.5,
)  # fmt: skip


def time_fastest(
    calls: Mapping[str, Callable[[], object]],
    seconds: float,
    min_repeats: int = MIN_REPEATS,
    clock: Callable[[], float] = CLOCK,
) -> dict[str, float]:
    """Measure the shortest time of each call, in seconds.

    The calls alternate, so that other work of the machine disturbs all of them alike. Each is repeated until it has run
    `min_repeats` times and for its share of `seconds`.
    """
    times: dict[str, list[float]] = {name: [] for name in calls}
    while pending := [c for c, t in times.items() if len(t) < min_repeats or sum(t) < seconds / len(calls)]:
        for name in pending:
            start = clock()
            calls[name]()
            times[name].append(clock() - start)
    return {name: min(durations) for name, durations in times.items()}


def make_section(
    title: str, columns: Sequence[str], rows: Sequence[Sequence[Cell]], better: Literal["low", "high"], tolerance: float
) -> BenchSection:
    """Make a section whose last column is a ratio, unless it is the one to compare with, 1."""
    values = {str(name): value for name, *_, value in rows if isinstance(value, float) and value != 1}
    ratios = {f"{columns[-1]}, {name}": Ratio(value, better, tolerance) for name, value in values.items()}
    return BenchSection(title, columns, rows, ratios)


# ---- the sampler


class Runner:
    """A chain that has converged near the truth and continues with each repetition."""

    def __init__(self, data: Planted, lam: float, seed: int = 0) -> None:
        problem = data.make_problem()
        self.chain = start_chain(problem, SamplerOptions(bonds.constant_bonds(problem, lam)), seed, data.truth)
        step(self.chain, max(2, 2 * VISITS // problem.n))
        self.sweeps, self.n_clusters = max(1, VISITS // problem.n), 0

    def run(self) -> None:
        """Run the sweeps of one repetition."""
        self.n_clusters = int(step(self.chain, self.sweeps)[-1, 1])


def compare_cases(
    what: str, seconds: float, tolerance: float, cases: Mapping[str, tuple[int, int, float]], heading: str = "cost"
) -> BenchSection:
    """Measure the cost of a site in each case (sites, clusters, lambda), as a ratio to that in the first case."""
    runners = {name: Runner(make_planted(n, n_clusters), lam) for name, (n, n_clusters, lam) in cases.items()}
    best = time_fastest({name: runner.run for name, runner in runners.items()}, seconds)
    costs = {name: best[name] / runner.sweeps / cases[name][0] * 1e9 for name, runner in runners.items()}
    first = next(iter(costs.values()))
    rows: list[list[Cell]] = [
        [name, runner.sweeps / best[name], costs[name], runner.n_clusters, costs[name] / first]
        for name, runner in runners.items()
    ]
    title = f"a sweep by {what}; {heading} of a site as a ratio to the first"
    return make_section(title, ["", "sweeps/s", "ns/site/sweep", "clusters found", heading], rows, "low", tolerance)


def measure_threads(s: Scale) -> BenchSection:
    """Measure one chain against one on every core, run as by :func:`napari_gsw.segment`."""
    n, count, data = s.thread_sites, count_cores(), make_planted(s.thread_sites, CLUSTERS)
    # As many sweeps as in a real run: with a few, the start of the threads would be measured.
    sweeps = max(2, THREAD_FACTOR * VISITS // n)
    teams = {c: Ensemble([Runner(data, LAM, seed).chain for seed in range(c)]) for c in (1, count)}
    calls = {str(c): lambda team=team: deque(team.run(sweeps), 0) for c, team in teams.items()}
    rate = {int(c): sweeps / best for c, best in time_fastest(calls, s.seconds, clock=time.perf_counter).items()}
    rows: list[list[Cell]] = [
        [f"{c} chain" if c == 1 else f"{c} chains", rate[c], c * rate[c], rate[c] / rate[1]] for c in teams
    ]
    title = f"one chain against one on every core, {n:,} sites; efficiency is the rate of a chain, all to one"
    columns = ["", "sweeps/s a chain", "sweeps/s in all", "efficiency"]
    return BenchSection(title, columns, rows, {"efficiency, all cores": Ratio(rate[count] / rate[1], "high", 0.25)})


def compare_with_numpy(s: Scale) -> BenchSection:
    """Measure the sweep against the same sweep in plain numpy."""
    rows: list[list[Cell]] = []
    for lam in s.baseline_lambdas:
        runner = Runner(make_planted(s.n, CLUSTERS), lam)
        plain = NumpySampler(runner.chain.problem, runner.chain.labels, lam)
        best = time_fastest({"ours": runner.run, "plain": plain.sweep}, s.seconds / len(s.baseline_lambdas))
        rate = runner.sweeps / best["ours"]
        rows.append([f"lambda {lam:g}", rate, 1 / best["plain"], rate * best["plain"]])
    title = f"against plain numpy, {s.n:,} sites, {CLUSTERS} clusters"
    return make_section(title, ["", "sweeps/s", "numpy sweeps/s", "speed-up"], rows, "high", 0.3)


def compare_with_cpp(s: Scale) -> BenchSection:
    """Measure the sweep against the same sweep in C++, if there is a compiler."""
    title = f"against C++, {s.n:,} sites, both from the truth"
    columns = ["", "sweeps/s", "C++ sweeps/s", "ours / C++"]
    if cpp.find_compiler() is None:
        return BenchSection(title, columns, [["no compiler", None, None, None]])
    rows: list[list[Cell]] = []
    cases = [(n_clusters, lam) for n_clusters in s.baseline_clusters for lam in s.baseline_lambdas]
    budget = s.seconds / len(cases) / CPP_ROUNDS / 2
    with tempfile.TemporaryDirectory() as folder:
        program = cpp.build(folder)
        for n_clusters, lam in cases:
            data = make_planted(s.n, n_clusters)
            runner = Runner(data, lam)
            elapsed, cpp_rate = math.inf, 0.0
            for _ in range(CPP_ROUNDS):
                elapsed = min(elapsed, time_fastest({"ours": runner.run}, budget, clock=time.perf_counter)["ours"])
                # As many repetitions as ours, since the fastest of each counts.
                repeats = max(MIN_REPEATS, int(budget / elapsed))
                measured = cpp.measure_speed(program, runner.chain.problem, lam, runner.sweeps, data.truth, repeats)
                cpp_rate = max(cpp_rate, measured["sweeps_per_second"])
            rate = runner.sweeps / elapsed
            rows.append([f"{n_clusters} clusters, lambda {lam:g}", rate, cpp_rate, rate / cpp_rate])
    return make_section(title, columns, rows, "high", 0.25)


# ---- stages of a segmentation


def time_stages(image: NDArray[np.uint8], sweeps: int) -> list[float]:
    """Segment an image; return the number of its sites and the seconds of each of `STAGES`."""
    settings = preset(PRESET, sweeps=sweeps)
    begun = [CLOCK()]

    def report(stage: Stage, snapshot: Snapshot | None) -> None:
        if stage.name in STAGES:
            begun.append(CLOCK())

    problem = prepare(image, settings, report=report)
    begun.append(CLOCK())
    ensemble = make_ensemble(problem, settings, 0)
    begun.append(CLOCK())
    deque(ensemble.run(sweeps, CHECK_EVERY), 0)
    return [problem.n, *np.diff([*begun, CLOCK()])]


def measure_stages(s: Scale) -> BenchSection:
    """Measure the stages of a segmentation of images (height, width); the ratio is that of the first."""
    images = {f"{w} x {h}": make_photograph(h, w) for h, w in s.images}
    time_stages(min(images.values(), key=np.size)[:48, :48], 2)  # compiles the kernels
    times: dict[str, list[list[float]]] = {name: [] for name in images}
    calls = {name: lambda name=name: times[name].append(time_stages(images[name], s.sweeps)) for name in images}
    time_fastest(calls, s.seconds, min_repeats=1, clock=time.perf_counter)
    rows: list[list[Any]] = []
    for name, image in images.items():
        n_sites, *best = np.min(times[name], axis=0).tolist()
        heading = f"{name} ({image[..., 0].size / 1e6:.2g} Mpixel)"
        rows.append([heading, int(n_sites), *best, sum(best[:-1]) / best[-1]])
    title = (
        f"processor seconds of each stage, preset {PRESET}, sampling of {s.sweeps} sweeps; preparation as a ratio to it"
    )
    ratios = {f"preparation / sampling, {next(iter(images))}": Ratio(rows[0][-1], "low", 0.3)}
    return BenchSection(title, ["", "sites", *STAGES, "prep./sampling"], rows, ratios)


# ---- fresh processes


def run_process(*arguments: str | Path) -> Any:
    """Run this module in a process of its own, and return what it prints."""
    command = [sys.executable, "-m", "napari_gsw.research.benchmarks.sections", *map(str, arguments)]
    process = subprocess.run(command, capture_output=True, text=True)
    if process.returncode:
        raise RuntimeError(f"{arguments[0]} was not measured: {process.stderr[-2000:]}")
    return json.loads(process.stdout.splitlines()[-1])


def process_peak() -> float:
    """Return the peak memory of this process in bytes, NaN where that is not known.

    On Linux getrusage is wrong: a process begins with the peak of the one that started it.
    """
    status = Path("/proc/self/status")
    if status.exists():
        peak = re.search(r"^VmHWM:\s*(\d+)", status.read_text("utf-8"), re.MULTILINE)
        return 1024 * int(peak[1]) if peak else math.nan
    try:
        import resource
    except ImportError:  # Windows
        return math.nan
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def measure_memory(counts: Sequence[int]) -> BenchSection:
    """Measure the memory of a chain by its number of sites, from the counts and edges to three sweeps."""
    rows: list[list[Cell]] = []
    ratios = {}
    for n in counts:
        name = f"{n:,} sites"
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder, "planted")
            file.write_bytes(pickle.dumps(make_planted(n, CLUSTERS)))
            traced, resident = run_process("memory", file)
        rows.append([name, traced / n, resident / n, traced / 1e6])
        ratios[f"bytes per site, {name}"] = Ratio(traced / n, "low", 0.2)
        if resident > 0 and n >= MIN_RESIDENT_SITES:  # NaN where it is not known
            ratios[f"resident bytes per site, {name}"] = Ratio(resident / n, "low", 0.3)
    title = (
        f"peak memory of making a problem's arrays and {MEMORY_SWEEPS} sweeps, beside the counts and edges themselves"
    )
    notes = [
        "bytes/site: numpy's arrays as tracemalloc sees them; resident: growth of the process's peak,",
        f"which means little below {MIN_RESIDENT_SITES:,} sites",
    ]
    return BenchSection(title, ["", "bytes/site", "resident/site", "MB in all"], rows, ratios, notes)


def sample_file(file: str) -> tuple[int, float]:
    """Sample the planted data of a file; return the peak bytes of numpy's arrays and the growth of the process."""

    def sample(data: Planted) -> None:
        run(data.make_problem(), MEMORY_SWEEPS, lam=LAM, init=data.truth)

    sample(make_planted(24, 2))  # compiles the kernels
    with open(file, "rb") as content:
        data = pickle.load(content)
    before = process_peak()
    sample(data)
    growth = process_peak() - before
    tracemalloc.start()
    sample(data)
    return tracemalloc.get_traced_memory()[1], growth


def measure_startup(cold: bool, repeats: int = 6) -> BenchSection:
    """Run the scripts in turn, with bytecode and without; `cold` also compiles all kernels, twice."""
    cases = [(script, has_bytecode) for has_bytecode in (True, False) for script in SCRIPTS.values()]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        times = [[time_process(script, folder, has_bytecode) for script, has_bytecode in cases] for _ in range(repeats)]
        kernels = [folder / f"kernels {k}" for k in range(COLD_REPEATS if cold else 0)]
        cold_times = [time_process(SCRIPTS[SEGMENT], folder, False, k)[1] for k in kernels]
    # (with and without bytecode, scripts); numba comes first
    processor, wall = np.min(times, axis=0).T.reshape(2, 2, len(SCRIPTS)).tolist()
    rows: list[list[Cell]] = [[script] for script in SCRIPTS]
    multiples: dict[str, float] = {}
    for suffix, seconds in zip(("", ", without bytecode"), processor, strict=True):
        for row, script, value in zip(rows, SCRIPTS, seconds, strict=True):
            multiples[f"{script}{suffix}"] = value / seconds[0]
            row += [value, value / seconds[0]]
    if cold_times:
        multiples[COLD] = min(cold_times) / wall[1][0]
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
    env = os.environ | {
        "PYTHONPYCACHEPREFIX": str(folder / ("bytecode" if has_bytecode else "none")),
        "PYTHONDONTWRITEBYTECODE": "" if has_bytecode else "1",
        **({} if kernels is None else {"NUMBA_CACHE_DIR": str(kernels)}),
    }
    start = time.perf_counter()
    command = [sys.executable, "-c", script + "\nimport time; print(time.process_time())"]
    process = subprocess.run(command, capture_output=True, text=True, check=True, env=env, cwd=folder)
    return float(process.stdout.splitlines()[-1]), time.perf_counter() - start


def measure_slide(side: int) -> BenchSection:
    """Measure a slide of side x side pixels, which needs about 5 bytes of disk per pixel."""
    with tempfile.TemporaryDirectory() as folder:
        image, labels, boundaries = (Path(folder, f"{name}.zarr") for name in ("slide", "labels", "boundaries"))
        write_slide(image, boundaries, side)
        measured = run_process("slide", image, labels)
    rows: list[list[Cell]] = [[SLIDE_STAGES[name], *values] for name, values in measured["stages"].items()]
    title = f"{side:,} x {side:,} pixels from zarr to zarr on {count_cores()} cores, preset {PRESET}"
    peak = measured["stages"]["labels"][2]  # NaN where it is not known
    ratios = {f"peak MB, {side:,} x {side:,}": Ratio(peak, "low", 0.3)} if peak > 0 else {}
    columns = ["", "seconds", "processor seconds", "peak MB so far"]
    return BenchSection(title, columns, rows, ratios, facts={"pixels": side**2, **measured["facts"]})


def segment_slide(image: str, labels: str, *boundaries: str) -> dict[str, Any]:
    """Segment a zarr array, write the labels; return seconds, processor seconds and peak MB by stage, and counts."""
    marks: dict[str, tuple[float, float, float]] = {}

    def begin_stage(name: str) -> None:
        marks.setdefault(name, (time.perf_counter(), time.process_time(), process_peak() / 1e6))

    def report(stage: Stage, snapshot: Snapshot | None) -> None:
        if stage.name in ("assembly", "sampling"):
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
    stages = {name: [b - a, d - c, peak] for (name, (a, c, _)), (_, (b, d, peak)) in pairwise(marks.items())}
    return {"facts": facts, "stages": stages}


SECTIONS: Mapping[str, Callable[[Scale], BenchSection]] = {
    "sites": lambda s: compare_cases(
        f"the number of sites, {CLUSTERS} clusters, lambda {LAM:g}", s.seconds,
        0.35,  # caches differ more from machine to machine than anything else here
        {f"{n:,} sites": (n, CLUSTERS, LAM) for n in s.sites}, "growth",
    ),
    "clusters": lambda s: compare_cases(
        f"the number of clusters, {s.n:,} sites, lambda {LAM:g}", s.seconds, 0.3,
        {f"{k} clusters": (s.n, k, LAM) for k in s.clusters},
    ),
    "lambda": lambda s: compare_cases(
        f"lambda, {s.n:,} sites, {CLUSTERS} clusters", s.seconds, 0.25,
        {f"lambda {lam:g}": (s.n, CLUSTERS, lam) for lam in s.lambdas},
    ),
    "oracle": compare_with_numpy,
    "cpp": compare_with_cpp,
    "threads": measure_threads,
    "memory": lambda s: measure_memory(s.memory),
    "stages": measure_stages,
    "startup": lambda s: measure_startup(s.cold, s.starts),
    "slide": lambda s: measure_slide(s.slide),
}  # fmt: skip


def measure(names: Iterable[str], scale: Scale) -> BenchReport:
    """Measure the named sections at a scale."""
    return BenchReport(describe_machine(), {name: SECTIONS[name](scale) for name in names})


if __name__ == "__main__":
    kind, *arguments = sys.argv[1:]
    print(json.dumps(sample_file(*arguments) if kind == "memory" else segment_slide(*arguments)))
