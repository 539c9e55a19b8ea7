"""Sections of the benchmark, and the two scales at which they run."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from napari_gsw.core.features.site_features import ImageFeatures
from napari_gsw.core.graph.couplings import compute_couplings
from napari_gsw.core.graph.region_graph import build_region_graph
from napari_gsw.core.image.normalized_image import normalize_image
from napari_gsw.core.model import priors
from napari_gsw.core.model.problem import Problem
from napari_gsw.core.pipeline.prepare import build_likelihoods
from napari_gsw.core.pipeline.sampling_run import CHECK_EVERY, make_ensemble
from napari_gsw.core.sampler import bonds
from napari_gsw.core.sampler.chain import Chain, start_chain, step
from napari_gsw.core.sampler.ensemble import Ensemble
from napari_gsw.core.sampler.options import SamplerOptions
from napari_gsw.core.settings import Settings
from napari_gsw.core.settings.presets import preset
from napari_gsw.core.sites.superpixels import make_superpixels
from napari_gsw.core.threads import count_cores
from napari_gsw.research.benchmarks import cpp
from napari_gsw.research.benchmarks.cases import Planted, make_photograph, make_planted
from napari_gsw.research.benchmarks.memory import CLUSTERS, LAM, measure_memory
from napari_gsw.research.benchmarks.numpy_sampler import NumpySampler
from napari_gsw.research.benchmarks.report import BenchReport, BenchSection, Cell, Ratio
from napari_gsw.research.benchmarks.slide import measure_slide
from napari_gsw.research.benchmarks.startup import measure_startup
from napari_gsw.research.benchmarks.timing import MIN_REPEATS, choose_clock, describe_machine, time_fastest

# Site visits in one timed repetition: some milliseconds, so that it is seldom interrupted. More for threads.
VISITS, THREAD_FACTOR = 10_000, 50
# Alternations with C++, which is a program of its own and starts anew each time.
CPP_ROUNDS = 5
PRESET = "general"
STAGES = ("colours", "superpixels", "graph", "features", "couplings", "arrays", "sampling")


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


class Case(NamedTuple):
    """A problem and how it is sampled."""

    sites: int = 1000
    clusters: int = CLUSTERS
    lam: float = LAM


class Runner:
    """A chain that has converged near the truth and continues with each repetition."""

    def __init__(self, case: Case, data: Planted | None = None) -> None:
        data = make_planted(case.sites, case.clusters) if data is None else data
        self.case, self.chain = case, start_near_truth(data, case.lam)
        self.sweeps = max(1, VISITS // case.sites)
        self.n_clusters = 0

    def run(self) -> None:
        """Run the sweeps of one repetition."""
        self.n_clusters = int(step(self.chain, self.sweeps)[-1, 1])

    def cost(self, seconds: float) -> float:
        """Return nanoseconds per site and sweep from the seconds of a repetition."""
        return seconds / self.sweeps / self.case.sites * 1e9


def start_near_truth(data: Planted, lam: float, seed: int = 0) -> Chain:
    """Start a chain of planted data from the truth, and run some sweeps."""
    problem = data.make_problem()
    chain = start_chain(problem, SamplerOptions(bonds.constant_bonds(problem, lam)), seed, data.truth)
    step(chain, max(2, 2 * VISITS // problem.n))
    return chain


def compare_cases(
    title: str, cases: Mapping[str, Case], heading: str, seconds: float, tolerance: float
) -> BenchSection:
    """Measure the cost of a site in each case, as a ratio to that in the first case."""
    runners = {name: Runner(case) for name, case in cases.items()}
    best = time_fastest({name: runner.run for name, runner in runners.items()}, seconds, clock=choose_clock())
    costs = {name: runner.cost(best[name]) for name, runner in runners.items()}
    first = next(iter(costs))
    rows: list[list[Cell]] = [
        [name, runner.sweeps / best[name], costs[name], runner.n_clusters, costs[name] / costs[first]]
        for name, runner in runners.items()
    ]
    ratios = {
        f"{heading}, {name}": Ratio(cost / costs[first], "low", tolerance)
        for name, cost in costs.items()
        if name != first
    }
    return BenchSection(title, ["", "sweeps/s", "ns/site/sweep", "clusters found", heading], rows, ratios)


def measure_sites(scale: Scale) -> BenchSection:
    """Measure the cost of a sweep by the number of sites."""
    cases = {f"{n:,} sites": Case(sites=n) for n in scale.sites}
    title = f"a sweep by the number of sites, {CLUSTERS} clusters, lambda {LAM:g}; growth of the cost of a site"
    # Caches differ more from machine to machine than anything else here.
    return compare_cases(title, cases, "growth", scale.seconds, 0.35)


def measure_clusters(scale: Scale) -> BenchSection:
    """Measure the cost of a sweep by the number of clusters."""
    cases = {f"{k} clusters": Case(scale.n, k) for k in scale.clusters}
    title = f"a sweep by the number of clusters, {scale.n:,} sites, lambda {LAM:g}; cost as a ratio to the first"
    return compare_cases(title, cases, "cost", scale.seconds, 0.3)


def measure_lambdas(scale: Scale) -> BenchSection:
    """Measure the cost of a sweep by lambda."""
    cases = {f"lambda {lam:g}": Case(scale.n, lam=lam) for lam in scale.lambdas}
    title = f"a sweep by lambda, {scale.n:,} sites, {CLUSTERS} clusters; cost as a ratio to the first"
    return compare_cases(title, cases, "cost", scale.seconds, 0.25)


def measure_threads(count: int, seconds: float, n: int = 10_000) -> BenchSection:
    """Measure one chain against `count` chains on threads, run as by :func:`napari_gsw.segment`."""
    data = make_planted(n, CLUSTERS)
    teams = {c: Ensemble([start_near_truth(data, LAM, seed) for seed in range(c)]) for c in (1, count)}
    # As many sweeps as in a real run: with a few, the start of the threads would be measured.
    sweeps = max(2, THREAD_FACTOR * VISITS // n)

    def drain(team: Ensemble) -> None:
        for _ in team.run(sweeps):
            pass

    best = time_fastest({str(c): lambda team=team: drain(team) for c, team in teams.items()}, seconds)  # type: ignore[misc]
    rate = {c: sweeps / best[str(c)] for c in teams}
    rows: list[list[Cell]] = [
        [f"{c} chain" if c == 1 else f"{c} chains", rate[c], c * rate[c], rate[c] / rate[1]] for c in teams
    ]
    title = f"one chain against one on every core, {n:,} sites; efficiency is the rate of a chain, all to one"
    columns = ["", "sweeps/s a chain", "sweeps/s in all", "efficiency"]
    return BenchSection(title, columns, rows, {"efficiency, all cores": Ratio(rate[count] / rate[1], "high", 0.25)})


def compare_with_numpy(lambdas: Sequence[float], seconds: float, n: int = 1000) -> BenchSection:
    """Measure the sweep against the same sweep in plain numpy."""
    rows: list[list[Cell]] = []
    ratios = {}
    data = make_planted(n, CLUSTERS)
    for lam in lambdas:
        runner = Runner(Case(n, CLUSTERS, lam), data)
        plain = NumpySampler(runner.chain.problem, runner.chain.labels, lam)
        calls = {"ours": runner.run, "plain": plain.sweep}
        best = time_fastest(calls, seconds / len(lambdas), clock=choose_clock())
        speed_up = best["plain"] * runner.sweeps / best["ours"]
        rows.append([f"lambda {lam:g}", runner.sweeps / best["ours"], 1 / best["plain"], speed_up])
        ratios[f"speed-up, lambda {lam:g}"] = Ratio(speed_up, "high", 0.3)
    title = f"against plain numpy, {n:,} sites, {CLUSTERS} clusters"
    return BenchSection(title, ["", "sweeps/s", "numpy sweeps/s", "speed-up"], rows, ratios)


def compare_with_cpp(
    cluster_counts: Sequence[int], lambdas: Sequence[float], seconds: float, n: int = 1000
) -> BenchSection:
    """Measure the sweep against the same sweep in C++, if there is a compiler."""
    title = f"against C++, {n:,} sites, both from the truth"
    columns = ["", "sweeps/s", "C++ sweeps/s", "ours / C++"]
    if cpp.find_compiler() is None:
        return BenchSection(title, columns, [["no compiler", None, None, None]])
    rows: list[list[Cell]] = []
    ratios = {}
    budget = seconds / len(cluster_counts) / len(lambdas) / CPP_ROUNDS
    with tempfile.TemporaryDirectory() as folder:
        program = cpp.build(folder)
        for n_clusters in cluster_counts:
            data = make_planted(n, n_clusters)
            for lam in lambdas:
                runner = Runner(Case(n, n_clusters, lam), data)
                elapsed, cpp_rate = float("inf"), 0.0
                for _ in range(CPP_ROUNDS):
                    elapsed = min(elapsed, time_fastest({"ours": runner.run}, budget / 2)["ours"])
                    # As many repetitions as ours, since the fastest of each counts.
                    repeats = max(MIN_REPEATS, int(budget / 2 / elapsed))
                    measurement = cpp.measure_speed(
                        runner.chain.problem, lam, runner.sweeps, init=data.truth, repeats=repeats, program=program
                    )
                    cpp_rate = max(cpp_rate, measurement.sweeps_per_second)
                name, rate = f"{n_clusters} clusters, lambda {lam:g}", runner.sweeps / elapsed
                rows.append([name, rate, cpp_rate, rate / cpp_rate])
                ratios[f"ours / C++, {name}"] = Ratio(rate / cpp_rate, "high", 0.25)
    return BenchSection(title, columns, rows, ratios)


class StageTimer:
    """Segments an image repeatedly and keeps the shortest seconds of each stage."""

    def __init__(self, image: NDArray[np.uint8], sweeps: int) -> None:
        self.image, self.settings = image, preset(PRESET, sweeps=sweeps)
        self.best = dict.fromkeys(STAGES, float("inf"))
        self.n_sites = 0

    def run(self) -> None:
        """Segment the image once."""
        clock = choose_clock()
        start = clock()
        for stage, problem in iter_stages(self.image, self.settings):
            self.best[stage] = min(self.best[stage], clock() - start)
            self.n_sites = 0 if problem is None else problem.n
            start = clock()

    @property
    def preparation_ratio(self) -> float:
        """Seconds of all stages before the sampling, as a ratio to it."""
        return sum(self.best[stage] for stage in STAGES[:-1]) / self.best["sampling"]


def iter_stages(image: NDArray[np.uint8], settings: Settings) -> Iterator[tuple[str, Problem | None]]:
    """Segment an image as :func:`napari_gsw.prepare` does, and yield after each stage."""
    normalized = normalize_image(image, settings.axes)
    yield "colours", None
    sites = make_superpixels(normalized, settings)
    yield "superpixels", None
    graph = build_region_graph(normalized, sites, settings.neighbourhood)
    yield "graph", None
    features = ImageFeatures([normalized], [sites], settings)
    blocks = build_likelihoods(features, graph)
    yield "features", None
    beta = compute_couplings(graph, settings, features)
    yield "couplings", None
    problem = Problem(graph.n, blocks, graph.edges, beta, priors.make_prior(settings), sites, graph, settings)
    ensemble = make_ensemble(problem, settings, 0)
    yield "arrays", problem
    for _ in ensemble.run(settings.sweeps, CHECK_EVERY):
        pass
    yield "sampling", problem


def measure_stages(shapes: Sequence[tuple[int, int]], seconds: float, sweeps: int) -> BenchSection:
    """Measure the stages of a segmentation of images (height, width); the ratio is that of the first."""
    timers = {shape: StageTimer(make_photograph(*shape), sweeps) for shape in shapes}
    StageTimer(np.ascontiguousarray(timers[min(shapes)].image[:48, :48]), 2).run()  # compiles the kernels
    time_fastest({str(shape): timer.run for shape, timer in timers.items()}, seconds, min_repeats=1)
    rows: list[list[Cell]] = []
    for (height, width), timer in timers.items():
        name = f"{width} x {height} ({height * width / 1e6:.2g} Mpixel)"
        rows.append([name, timer.n_sites, *timer.best.values(), timer.preparation_ratio])
    height, width = shapes[0]
    ratio = Ratio(timers[shapes[0]].preparation_ratio, "low", 0.3)
    title = (
        f"processor seconds of each stage, preset {PRESET}, sampling of {sweeps} sweeps; preparation as a ratio to it"
    )
    ratios = {f"preparation / sampling, {width} x {height}": ratio}
    return BenchSection(title, ["", "sites", *STAGES, "prep./sampling"], rows, ratios)


SECTIONS: Mapping[str, Callable[[Scale], BenchSection]] = {
    "sites": measure_sites,
    "clusters": measure_clusters,
    "lambda": measure_lambdas,
    "oracle": lambda s: compare_with_numpy(s.baseline_lambdas, s.seconds, s.n),
    "cpp": lambda s: compare_with_cpp(s.baseline_clusters, s.baseline_lambdas, s.seconds, s.n),
    "threads": lambda s: measure_threads(count_cores(), s.seconds, s.thread_sites),
    "memory": lambda s: measure_memory(s.memory),
    "stages": lambda s: measure_stages(s.images, s.seconds, s.sweeps),
    "startup": lambda s: measure_startup(s.cold, s.starts),
    "slide": lambda s: measure_slide(s.slide),
}


def measure(names: Iterable[str], scale: Scale) -> BenchReport:
    """Measure the named sections at a scale."""
    return BenchReport(describe_machine(), {name: SECTIONS[name](scale) for name in names})
