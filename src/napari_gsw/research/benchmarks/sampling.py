"""How the cost of a sweep grows with sites, clusters and lambda, and what several chains at once cost."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from napari_gsw.core.sampler import bonds
from napari_gsw.core.sampler.chain import Chain, start_chain, step
from napari_gsw.core.sampler.ensemble import Ensemble
from napari_gsw.core.sampler.options import SamplerOptions
from napari_gsw.research.benchmarks.clock import time_fastest, working_clock
from napari_gsw.research.benchmarks.problems import Planted, make_planted
from napari_gsw.research.benchmarks.report import BenchSection, Cell, Ratio

# Sites that are visited in one turn on the clock: some milliseconds, so that a turn is seldom interrupted.
VISITS = 10_000
# For threads, how often as many.
LEGS = 50
CLUSTERS, LAM = 12, 10.0


class Case(NamedTuple):
    """A problem and how it is sampled."""

    sites: int = 1000
    clusters: int = CLUSTERS
    lam: float = LAM


class Runner:
    """A chain that has settled near the truth, and goes on turn by turn; of one problem if none is given."""

    def __init__(self, case: Case, data: Planted | None = None) -> None:
        data = make_planted(case.sites, case.clusters) if data is None else data
        self.case, self.chain = case, settled(data, case.lam)
        self.sweeps = max(1, VISITS // case.sites)
        self.clusters = 0

    def turn(self) -> None:
        """So many sweeps as one turn on the clock takes."""
        self.clusters = int(step(self.chain, self.sweeps)[-1, 1])

    def cost(self, seconds: float) -> float:
        """Nanoseconds for each site and sweep, from the seconds of a turn."""
        return seconds / self.sweeps / self.case.sites * 1e9


def settled(data: Planted, lam: float, seed: int = 0) -> Chain:
    """A chain of planted data, from the truth and some sweeps on."""
    problem = data.problem
    chain = start_chain(problem, SamplerOptions(bonds.constant_bonds(problem, lam)), seed, data.truth)
    step(chain, max(2, 2 * VISITS // problem.n))
    return chain


def compared(title: str, cases: Mapping[str, Case], heading: str, seconds: float, tolerance: float) -> BenchSection:
    """A row a case, with the cost of a site as a ratio to that of the first case."""
    runners = {name: Runner(case) for name, case in cases.items()}
    best = time_fastest({name: runner.turn for name, runner in runners.items()}, seconds, clock=working_clock())
    rows: list[list[Cell]] = []
    ratios = {}
    first = next(iter(runners.values())).cost(next(iter(best.values())))
    for name, runner in runners.items():
        cost = runner.cost(best[name])
        rows.append([name, runner.sweeps / best[name], cost, runner.clusters, cost / first])
        if runner is not next(iter(runners.values())):
            ratios[f"{heading}, {name}"] = Ratio(cost / first, "low", tolerance)
    return BenchSection(title, ["", "sweeps/s", "ns/site/sweep", "clusters found", heading], rows, ratios)


def sites(counts: Sequence[int], seconds: float) -> BenchSection:
    """The section of the cost of a sweep by the number of sites."""
    cases = {f"{n:,} sites": Case(sites=n) for n in counts}
    title = f"a sweep by the number of sites, {CLUSTERS} clusters, lambda {LAM:g}; growth of the cost of a site"
    # Caches differ more from machine to machine than anything else here.
    return compared(title, cases, "growth", seconds, 0.35)


def clusters(numbers: Sequence[int], seconds: float, n: int = 1000) -> BenchSection:
    """The section of the cost of a sweep by the number of clusters, on n sites."""
    cases = {f"{k} clusters": Case(n, k) for k in numbers}
    title = f"a sweep by the number of clusters, {n:,} sites, lambda {LAM:g}; cost as a ratio to the first"
    return compared(title, cases, "cost", seconds, 0.3)


def lambdas(values: Sequence[float], seconds: float, n: int = 1000) -> BenchSection:
    """The section of the cost of a sweep by lambda, on n sites."""
    cases = {f"lambda {lam:g}": Case(n, lam=lam) for lam in values}
    title = f"a sweep by lambda, {n:,} sites, {CLUSTERS} clusters; cost as a ratio to the first"
    return compared(title, cases, "cost", seconds, 0.25)


def threads(count: int, seconds: float, n: int = 10_000) -> BenchSection:
    """One chain against `count` of them on threads, by the class that runs them in the product."""
    data = make_planted(n, CLUSTERS)
    teams = {c: Ensemble([settled(data, LAM, seed) for seed in range(c)]) for c in (1, count)}
    # Several legs of the product's own length: a leg of a few sweeps would measure how threads are woken up.
    sweeps = max(2, LEGS * VISITS // n)
    runs = {str(c): _draining(team, sweeps) for c, team in teams.items()}
    best = time_fastest({name: lambda run=run: next(run) for name, run in runs.items()}, seconds)  # type: ignore[misc]
    rate = {c: sweeps / best[str(c)] for c in teams}
    efficiency = rate[count] / rate[1]
    rows: list[list[Cell]] = [
        [f"{c} chain" if c == 1 else f"{c} chains", rate[c], c * rate[c], rate[c] / rate[1]] for c in teams
    ]
    title = f"one chain against one on every core, {n:,} sites; efficiency is the rate of a chain, all to one"
    columns = ["", "sweeps/s a chain", "sweeps/s in all", "efficiency"]
    return BenchSection(title, columns, rows, {"efficiency, all cores": Ratio(efficiency, "high", 0.25)})


def _draining(team: Ensemble, sweeps: int) -> Iterator[None]:
    """So many sweeps of every chain each time it is asked, with the snapshots that the product takes on the way."""
    while True:
        for _ in team.run(sweeps):
            pass
        yield
