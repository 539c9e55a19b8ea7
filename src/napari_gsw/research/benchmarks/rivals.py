"""The compiled sweep against the same sweep in plain numpy, and against one in C++."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence

from napari_gsw.research.benchmarks import cpp
from napari_gsw.research.benchmarks.clock import LEAST_TURNS, time_fastest, working_clock
from napari_gsw.research.benchmarks.numpy_sampler import NumpySampler
from napari_gsw.research.benchmarks.problems import make_planted
from napari_gsw.research.benchmarks.report import BenchSection, Cell, Ratio
from napari_gsw.research.benchmarks.sampling import CLUSTERS, Case, Runner

# Turns of ours and of C++, which is a program of its own and starts anew each time.
ROUNDS = 5


def oracle(lambdas: Sequence[float], seconds: float, n: int = 1000) -> BenchSection:
    """The section of sweeps per second of ours and of plain numpy, a row a lambda."""
    rows: list[list[Cell]] = []
    ratios = {}
    data = make_planted(n, CLUSTERS)
    for lam in lambdas:
        ours = Runner(Case(n, CLUSTERS, lam), data)
        plain = NumpySampler(ours.chain.problem, ours.chain.labels, lam)
        turns = {"ours": ours.turn, "plain": plain.sweep}
        best = time_fastest(turns, seconds / len(lambdas), clock=working_clock())
        factor = best["plain"] * ours.sweeps / best["ours"]
        rows.append([f"lambda {lam:g}", ours.sweeps / best["ours"], 1 / best["plain"], factor])
        ratios[f"speed-up, lambda {lam:g}"] = Ratio(factor, "high", 0.3)
    title = f"against plain numpy, {n:,} sites, {CLUSTERS} clusters"
    return BenchSection(title, ["", "sweeps/s", "numpy sweeps/s", "speed-up"], rows, ratios)


def compare_with_cpp(
    cluster_numbers: Sequence[int], lambdas: Sequence[float], seconds: float, n: int = 1000
) -> BenchSection:
    """Sweeps per second of both; without a compiler a line that says so."""
    title = f"against C++, {n:,} sites, both from the truth"
    columns = ["", "sweeps/s", "C++ sweeps/s", "ours / C++"]
    if cpp.compiler() is None:
        return BenchSection(title, columns, [["no compiler", None, None, None]])
    rows: list[list[Cell]] = []
    ratios = {}
    share = seconds / len(cluster_numbers) / len(lambdas) / ROUNDS
    with tempfile.TemporaryDirectory() as folder:
        program = cpp.build(folder)
        for clusters in cluster_numbers:
            data = make_planted(n, clusters)
            for lam in lambdas:
                ours = Runner(Case(n, clusters, lam), data)
                took, theirs = float("inf"), 0.0
                for _ in range(ROUNDS):
                    took = min(took, time_fastest({"ours": ours.turn}, share / 2)["ours"])
                    # In as many repetitions as we have turns: the shortest of them counts, as it does of ours.
                    repeats = max(LEAST_TURNS, int(share / 2 / took))
                    measurement = cpp.measure_speed(
                        ours.chain.problem, lam, ours.sweeps, init=data.truth, repeats=repeats, program=program
                    )
                    theirs = max(theirs, measurement.sweeps_per_second)
                name, rate = f"{clusters} clusters, lambda {lam:g}", ours.sweeps / took
                rows.append([name, rate, theirs, rate / theirs])
                ratios[f"ours / C++, {name}"] = Ratio(rate / theirs, "high", 0.25)
    return BenchSection(title, columns, rows, ratios)
