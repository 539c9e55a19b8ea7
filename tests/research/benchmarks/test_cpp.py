"""The sampler in C++ samples what ours does, so that its speed can be compared with ours."""

from __future__ import annotations

import numpy as np
import pytest

import napari_gsw as gsw
from exact_posterior import posterior
from napari_gsw.research.benchmarks import cpp
from problems import planar

needs_compiler = pytest.mark.skipif(cpp.find_compiler() is None, reason="no C++ compiler")


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    return cpp.build(tmp_path_factory.mktemp("reference"))


def small():
    rng = np.random.default_rng(2)
    edges = [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (0, 3), (1, 4)]
    return gsw.Problem.from_counts(rng.integers(0, 4, (6, 4)), edges, 0.4, gsw.DirichletProcess(1.0), phi=6.0)


@needs_compiler
@pytest.mark.parametrize("lam", [0.0, 3.0])
def test_the_reference_samples_the_posterior(lam, program):
    problem = small()
    rows, exact = posterior(problem)
    found = cpp.measure_speed(program, problem, lam, 100_000)
    values = np.array([gsw.log_posterior(problem, row) for row in rows])
    spread = np.sqrt(exact @ values**2 - (exact @ values) ** 2)
    assert found["mean_log_posterior"] == pytest.approx(exact @ values, abs=0.02 * spread)
    assert found["mean_clusters"] == pytest.approx(exact @ (rows.max(axis=1) + 1), abs=0.03)
    i, j = problem.edges.T
    together = exact @ (rows[:, i] == rows[:, j]).sum(axis=1)
    assert found["together"] / 100_050 == pytest.approx(together, rel=0.02)
    assert found["best"] == pytest.approx(values.max(), rel=1e-9)


@needs_compiler
def test_the_reference_keeps_the_log_posterior(program):
    whole = cpp.measure_speed(program, planar(n=150), 4.0, 50)
    assert whole["log_posterior"] == pytest.approx(whole["recounted"], rel=1e-9)
    assert whole["clusters"] > 1
    assert whole["sweeps_per_second"] > 0


def test_what_the_reference_cannot_do_is_said(tmp_path, monkeypatch):
    with pytest.raises(gsw.InputError, match="words only"):
        cpp.write_problem(tmp_path / "a", planar(n=30, channels=1), 1.0)
    limited = planar(n=30, prior=gsw.DirichletProcess(1.0).truncated(min_size=2))
    with pytest.raises(gsw.InputError, match="size limits"):
        cpp.write_problem(tmp_path / "a", limited, 1.0)
    monkeypatch.setattr(cpp, "find_compiler", lambda: None)
    with pytest.raises(gsw.InputError, match="no C\\+\\+ compiler"):
        cpp.build(tmp_path)
