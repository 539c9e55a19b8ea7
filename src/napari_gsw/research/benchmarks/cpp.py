"""The sampler in plain C++, built and run where there is a compiler, to measure the compiled Python against."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import gammaln

from napari_gsw.core.array_types import Float64Array
from napari_gsw.core.errors import InputError
from napari_gsw.core.likelihood.tables import LikelihoodTables
from napari_gsw.core.model.problem import Problem
from napari_gsw.core.sampler import bonds
from napari_gsw.core.sampler.chain import start_chain
from napari_gsw.core.sampler.options import SamplerOptions

SOURCE = Path(__file__).with_name("reference.cpp")
FLAGS = ("-O3", "-march=native", "-std=c++17")


@dataclass(frozen=True)
class CppMeasurement:
    """Output of the C++ program."""

    sweeps_per_second: float  # of the fastest repetition, wall time
    sweeps_per_cpu_second: float
    mean_clusters: float  # over all sweeps after the burn-in
    mean_log_posterior: float
    clusters: int  # of the last state
    log_posterior: float  # of the last state, updated step by step
    recounted: float  # the same, computed from the labels
    best: float  # highest log posterior of all states
    together: float  # number of edges within clusters, summed over all sweeps


def find_compiler() -> str | None:
    """Find a C++ compiler: that of the variable CXX, or c++, g++ or clang++."""
    names = [name for name in (os.environ.get("CXX"), "c++", "g++", "clang++") if name]
    return next((path for name in names if (path := shutil.which(name))), None)


def build(folder: str | Path) -> Path:
    """Compile the sampler into a folder, and return the path of the program."""
    compiler = find_compiler()
    if compiler is None:
        raise InputError("there is no C++ compiler; install one, or name it in the environment variable CXX")
    program = Path(folder) / "reference"
    process = subprocess.run([compiler, *FLAGS, str(SOURCE), "-o", str(program)], capture_output=True, text=True)
    if process.returncode:
        raise InputError(f"{compiler} could not compile {SOURCE.name}: {process.stderr.strip()[-500:]}")
    return program


def write_problem(path: str | Path, problem: Problem, lam: ArrayLike, init: ArrayLike | None = None) -> None:
    """Write a problem of words alone, its bonds and the initial labels in the format of the C++ program.

    Eight 64-bit integers (sites, edges, words, words of all sites, entries of the tables, and three zeros), then the
    arrays one after the other in the byte order of this machine.
    """
    e, g = problem.evidence, problem.adjacency
    if e.moments.shape[1]:
        raise InputError("the C++ reference knows words only; take a problem without continuous channels")
    if np.isneginf(problem.tables.log_w[1:]).any():
        raise InputError("the C++ reference knows no size limits; take a prior without min_size and max_size")
    bond_options = bonds.constant_bonds(problem, lam)
    labels = start_chain(problem, SamplerOptions(bond_options), 0, init).labels
    table, table_start = _complete_tables(e)
    head = np.array([problem.n, len(g.left), len(table_start), len(e.word), len(table), 0, 0, 0], np.int64)
    with open(path, "wb") as file:
        for array in (
            head, e.site_start, g.start, table_start, table, g.beta, bond_options.strength, problem.tables.log_v,
            problem.tables.log_w, e.word, e.times, g.neighbour, g.edge, g.left, g.right, labels,
        ):  # fmt: skip
            np.ascontiguousarray(array).tofile(file)


def measure_speed(
    problem: Problem,
    lam: ArrayLike,
    sweeps: int = 1000,
    init: ArrayLike | None = None,
    burn_in: int = 50,
    repeats: int = 1,
    seed: int = 0,
    program: Path | None = None,
) -> CppMeasurement:
    """Run the C++ sampler on a problem `repeats` times; without a `program` of :func:`build` it is built first."""
    with tempfile.TemporaryDirectory() as folder:
        program = build(folder) if program is None else program
        path = Path(folder) / "problem"
        write_problem(path, problem, lam, init)
        command = [str(program), str(path), str(burn_in), str(sweeps), str(repeats), str(seed)]
        process = subprocess.run(command, capture_output=True, text=True)
        if process.returncode:
            raise InputError(f"the C++ sampler failed: {process.stderr.strip()[-500:]}")
        return CppMeasurement(**json.loads(process.stdout))


def _complete_tables(evidence: LikelihoodTables) -> tuple[Float64Array, NDArray[np.uint64]]:
    """Extend the tables to every count that can occur, since the C++ program has no formula for what is beyond."""
    if not evidence.tail.any():
        return evidence.table, evidence.table_start
    totals = np.bincount(evidence.word, evidence.times, len(evidence.table_start)).astype(np.int64)
    tables: list[Float64Array] = []
    for d, (total, (sign, base, unit, shift, *_)) in enumerate(zip(totals, evidence.tail, strict=True)):
        first, end = int(evidence.table_start[d]), int(evidence.table_end[d])
        more = sign * gammaln(base + unit * np.arange(end, total + 1)) + shift if sign else np.zeros(0)
        tables.append(np.concatenate((evidence.table[first : first + end], more)))
    return np.concatenate(tables), np.cumsum([0, *map(len, tables[:-1])]).astype(np.uint64)
