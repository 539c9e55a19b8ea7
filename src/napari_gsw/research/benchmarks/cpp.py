"""The sampler in plain C++, built and run where there is a compiler, to measure the compiled Python against."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from napari_gsw.core.errors import InputError
from napari_gsw.core.model.problem import Problem
from napari_gsw.core.sampler import bonds
from napari_gsw.core.sampler.chain import start_chain
from napari_gsw.core.sampler.options import SamplerOptions

SOURCE = Path(__file__).with_name("reference.cpp")
FLAGS = ("-O3", "-march=native", "-std=c++17")


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
    if e.moments.shape[1] or e.tail.any():
        raise InputError("the C++ reference knows words only, and as many as its tables have")
    if np.isneginf(problem.tables.log_w[1:]).any():
        raise InputError("the C++ reference knows no size limits; take a prior without min_size and max_size")
    bond_options = bonds.constant_bonds(problem, lam)
    labels = start_chain(problem, SamplerOptions(bond_options), 0, init).labels
    head = np.array([problem.n, len(g.left), len(e.table_start), len(e.word), len(e.table), 0, 0, 0], np.int64)
    with open(path, "wb") as file:
        for array in (
            head, e.site_start, g.start, e.table_start, e.table, g.beta, bond_options.strength, problem.tables.log_v,
            problem.tables.log_w, e.word, e.times, g.neighbour, g.edge, g.left, g.right, labels,
        ):  # fmt: skip
            np.ascontiguousarray(array).tofile(file)


def measure_speed(
    program: Path, problem: Problem, lam: ArrayLike, sweeps: int, init: ArrayLike | None = None, repeats: int = 1
) -> dict[str, float]:
    """Run the program of :func:`build` on a problem `repeats` times, with a burn-in of 50 sweeps.

    Returns the speed of the fastest repetition by the clock on the wall (``sweeps_per_second``) and by processor time;
    means over all sweeps; and the last state, whose ``log_posterior`` is also ``recounted`` from the labels.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "problem"
        write_problem(path, problem, lam, init)
        command = [str(program), str(path), "50", str(sweeps), str(repeats), "0"]
        process = subprocess.run(command, capture_output=True, text=True)
    if process.returncode:
        raise InputError(f"the C++ sampler failed: {process.stderr.strip()[-500:]}")
    content: dict[str, float] = json.loads(process.stdout)
    return content
