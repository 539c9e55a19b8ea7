"""Sections of the benchmark, and the two scales at which they run."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from time import get_clock_info, perf_counter, process_time
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from napari_gsw.core.pipeline.prepare import prepare
from napari_gsw.core.pipeline.sampling_run import CHECK_EVERY, make_ensemble
from napari_gsw.core.pipeline.stage import Stage
from napari_gsw.core.sampler import bonds
from napari_gsw.core.sampler.chain import Chain, start_chain, step
from napari_gsw.core.sampler.ensemble import Ensemble
from napari_gsw.core.sampler.options import SamplerOptions
from napari_gsw.core.sampler.snapshot import Snapshot
from napari_gsw.core.settings.presets import preset
from napari_gsw.core.threads import count_cores
from napari_gsw.research.benchmarks import cpp
from napari_gsw.research.benchmarks.cases import Planted, make_photograph, make_planted
from napari_gsw.research.benchmarks.numpy_sampler import NumpySampler
from napari_gsw.research.benchmarks.processes import CLUSTERS, LAM, measure_memory, measure_slide, measure_startup
from napari_gsw.research.benchmarks.report import BenchReport, BenchSection, Cell, Ratio, describe_machine

# Site visits in one timed repetition: some milliseconds, so that it is seldom interrupted. More for threads.
VISITS, THREAD_FACTOR = 10_000, 50
# Repetitions that even the slowest call gets.
MIN_REPEATS = 3
# Resolution of a clock that is good enough for some milliseconds.
FINE_RESOLUTION = 1e-4
# Alternations with C++, which is a program of its own and starts anew each time.
CPP_ROUNDS = 5
PRESET = "general"
Clock = Callable[[], float]
STAGES = ("colours", "superpixels", "graph", "features", "arrays", "sampling")


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


def choose_clock() -> Clock:
    """Choose the clock for work on one core: processor time, or wall time where that is too coarse (Windows)."""
    return process_time if get_clock_info("process_time").resolution < FINE_RESOLUTION else perf_counter


def time_fastest(
    calls: Mapping[str, Callable[[], object]],
    seconds: float,
    min_repeats: int = MIN_REPEATS,
    clock: Clock = perf_counter,
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


def start_near_truth(data: Planted, lam: float, seed: int = 0) -> Chain:
    """Start a chain of planted data from the truth, and run some sweeps."""
    problem = data.make_problem()
    chain = start_chain(problem, SamplerOptions(bonds.constant_bonds(problem, lam)), seed, data.truth)
    step(chain, max(2, 2 * VISITS // problem.n))
    return chain


class Runner:
    """A chain that has converged near the truth and continues with each repetition."""

    def __init__(self, data: Planted, lam: float) -> None:
        self.chain = start_near_truth(data, lam)
        self.sweeps = max(1, VISITS // self.chain.problem.n)
        self.n_clusters = 0

    def run(self) -> None:
        """Run the sweeps of one repetition."""
        self.n_clusters = int(step(self.chain, self.sweeps)[-1, 1])


def make_section(
    title: str, columns: Sequence[str], rows: Sequence[Sequence[Cell]], better: Literal["low", "high"], tolerance: float
) -> BenchSection:
    """Make a section whose last column is a ratio, unless it is the one to compare with, 1."""
    values = {str(name): value for name, *_, value in rows if isinstance(value, float) and value != 1}
    ratios = {f"{columns[-1]}, {name}": Ratio(value, better, tolerance) for name, value in values.items()}
    return BenchSection(title, columns, rows, ratios)


def compare_cases(
    what: str, seconds: float, tolerance: float, cases: Mapping[str, tuple[int, int, float]], heading: str = "cost"
) -> BenchSection:
    """Measure the cost of a site in each case (sites, clusters, lambda), as a ratio to that in the first case."""
    title = f"a sweep by {what}; {heading} of a site as a ratio to the first"
    runners = {name: Runner(make_planted(n, n_clusters), lam) for name, (n, n_clusters, lam) in cases.items()}
    best = time_fastest({name: runner.run for name, runner in runners.items()}, seconds, clock=choose_clock())
    costs = {name: best[name] / runner.sweeps / cases[name][0] * 1e9 for name, runner in runners.items()}
    first = next(iter(costs))
    rows: list[list[Cell]] = [
        [name, runner.sweeps / best[name], costs[name], runner.n_clusters, costs[name] / costs[first]]
        for name, runner in runners.items()
    ]
    return make_section(title, ["", "sweeps/s", "ns/site/sweep", "clusters found", heading], rows, "low", tolerance)


def measure_threads(s: Scale) -> BenchSection:
    """Measure one chain against one on every core, run as by :func:`napari_gsw.segment`."""
    n, count = s.thread_sites, count_cores()
    data = make_planted(n, CLUSTERS)
    teams = {c: Ensemble([start_near_truth(data, LAM, seed) for seed in range(c)]) for c in (1, count)}
    # As many sweeps as in a real run: with a few, the start of the threads would be measured.
    sweeps = max(2, THREAD_FACTOR * VISITS // n)

    def run(team: Ensemble) -> None:
        for _ in team.run(sweeps):
            pass

    best = time_fastest({str(c): partial(run, team) for c, team in teams.items()}, s.seconds)
    rate = {c: sweeps / best[str(c)] for c in teams}
    rows: list[list[Cell]] = [
        [f"{c} chain" if c == 1 else f"{c} chains", rate[c], c * rate[c], rate[c] / rate[1]] for c in teams
    ]
    title = f"one chain against one on every core, {n:,} sites; efficiency is the rate of a chain, all to one"
    columns = ["", "sweeps/s a chain", "sweeps/s in all", "efficiency"]
    return BenchSection(title, columns, rows, {"efficiency, all cores": Ratio(rate[count] / rate[1], "high", 0.25)})


def compare_with_numpy(s: Scale) -> BenchSection:
    """Measure the sweep against the same sweep in plain numpy."""
    rows: list[list[Cell]] = []
    data = make_planted(s.n, CLUSTERS)
    for lam in s.baseline_lambdas:
        runner = Runner(data, lam)
        plain = NumpySampler(runner.chain.problem, runner.chain.labels, lam)
        calls = {"ours": runner.run, "plain": plain.sweep}
        best = time_fastest(calls, s.seconds / len(s.baseline_lambdas), clock=choose_clock())
        speed_up = best["plain"] * runner.sweeps / best["ours"]
        rows.append([f"lambda {lam:g}", runner.sweeps / best["ours"], 1 / best["plain"], speed_up])
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
            elapsed, cpp_rate = float("inf"), 0.0
            for _ in range(CPP_ROUNDS):
                elapsed = min(elapsed, time_fastest({"ours": runner.run}, budget)["ours"])
                # As many repetitions as ours, since the fastest of each counts.
                repeats = max(MIN_REPEATS, int(budget / elapsed))
                measured = cpp.measure_speed(program, runner.chain.problem, lam, runner.sweeps, data.truth, repeats)
                cpp_rate = max(cpp_rate, measured["sweeps_per_second"])
            name, rate = f"{n_clusters} clusters, lambda {lam:g}", runner.sweeps / elapsed
            rows.append([name, rate, cpp_rate, rate / cpp_rate])
    return make_section(title, columns, rows, "high", 0.25)


def time_stages(image: NDArray[np.uint8], sweeps: int) -> list[float]:
    """Segment an image; return the number of its sites and the seconds of each of `STAGES`."""
    clock, settings = choose_clock(), preset(PRESET, sweeps=sweeps)
    begun = [clock()]

    def report(stage: Stage, snapshot: Snapshot | None) -> None:
        if stage.name in STAGES:
            begun.append(clock())

    problem = prepare(image, settings, report=report)
    begun.append(clock())
    ensemble = make_ensemble(problem, settings, 0)
    begun.append(clock())
    for _ in ensemble.run(sweeps, CHECK_EVERY):
        pass
    return [problem.n, *np.diff([*begun, clock()])]


def measure_stages(s: Scale) -> BenchSection:
    """Measure the stages of a segmentation of images (height, width); the ratio is that of the first."""
    images = {f"{w} x {h}": make_photograph(h, w) for h, w in s.images}
    time_stages(min(images.values(), key=np.size)[:48, :48], 2)  # compiles the kernels
    times: dict[str, list[list[float]]] = {name: [] for name in images}

    def run(name: str) -> None:
        times[name].append(time_stages(images[name], s.sweeps))

    time_fastest({name: partial(run, name) for name in images}, s.seconds, min_repeats=1)
    rows: list[list[Cell]] = []
    for name, image in images.items():
        n_sites, *best = np.min(times[name], axis=0).tolist()
        heading = f"{name} ({image[..., 0].size / 1e6:.2g} Mpixel)"
        rows.append([heading, int(n_sites), *best, sum(best[:-1]) / best[-1]])
    title = (
        f"processor seconds of each stage, preset {PRESET}, sampling of {s.sweeps} sweeps; preparation as a ratio to it"
    )
    ratio = Ratio(rows[0][-1], "low", 0.3)  # type: ignore[arg-type]
    ratios = {f"preparation / sampling, {next(iter(images))}": ratio}
    return BenchSection(title, ["", "sites", *STAGES, "prep./sampling"], rows, ratios)


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
