"""Priors: their tables, expected numbers of clusters, and simulation."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import gamma

import napari_gsw as gsw
from exact_posterior import partitions
from napari_gsw.core.model.priors import cluster_distribution

PRIORS = {
    "potts": gsw.Potts(4),
    "potts-1": gsw.Potts(1),
    "finite-dirichlet": gsw.FiniteDirichlet(4, 0.25),
    "finite-dirichlet-1": gsw.FiniteDirichlet(1, 0.25),
    "dirichlet-process": gsw.DirichletProcess(1.7),
    "pitman-yor": gsw.PitmanYor(0.5, 0.3),
    "pitman-yor-zero": gsw.PitmanYor(0.0, 0.5),
    "pitman-yor-negative-alpha": gsw.PitmanYor(-0.2, 0.5),
    "pitman-yor-dp": gsw.PitmanYor(1.7, 0.0),
    "pitman-yor-finite": gsw.PitmanYor(2.0, -0.5),
    "truncated": gsw.DirichletProcess(1.7).truncated(min_size=2),
    "truncated-both": gsw.PitmanYor(0.5, 0.3).truncated(2, 3),
    "table": gsw.TablePrior(np.linspace(0, 1, 8), np.linspace(0, 2, 8)),
}


def g(prior, sizes):
    """The paper's exchangeable function written out, with the factor that it drops."""
    k = len(sizes)
    if isinstance(prior, gsw.Potts):
        return math.perm(prior.K, k)
    if isinstance(prior, gsw.FiniteDirichlet):
        return math.perm(prior.K, k) * math.prod(gamma(prior.alpha + m) / gamma(prior.alpha) for m in sizes)
    if isinstance(prior, gsw.DirichletProcess):
        return prior.alpha**k * math.prod(gamma(m) for m in sizes)
    if isinstance(prior, gsw.PitmanYor):
        rising = math.prod(prior.alpha + i * prior.theta for i in range(1, k))
        return rising * math.prod(math.prod(i - prior.theta for i in range(1, m)) for m in sizes)
    if isinstance(prior, gsw.TablePrior):
        return math.exp(prior.log_v[k] + sum(prior.log_w[m] for m in sizes))
    inside = all(prior.min_size <= m <= (prior.max_size or m) for m in sizes)
    return g(prior.prior, sizes) if inside else 0.0


@pytest.mark.parametrize("name", PRIORS)
@pytest.mark.parametrize("n", [4, 6, 7])
def test_tables_and_expected_clusters_against_enumeration(name, n):
    prior = PRIORS[name]
    log_v, log_w = prior.tables(n)
    assert log_v.shape == log_w.shape == (n + 1,)
    weight, k = [], []
    for row in partitions(n):
        sizes = np.bincount(row)
        with np.errstate(divide="ignore"):
            exact = np.log(g(prior, sizes.tolist()))
        table = log_v[len(sizes)] + log_w[sizes].sum()
        weight.append(table)
        k.append(len(sizes))
        if len(weight) == 1:
            shift = table - exact if np.isfinite(exact) else 0.0
        assert (np.isneginf(table) and np.isneginf(exact)) or table - exact == pytest.approx(shift, abs=1e-9)
    p = np.exp(np.array(weight) - max(weight))
    p /= p.sum()
    assert prior.expected_clusters(n) == pytest.approx(p @ np.array(k), rel=1e-9)
    exact = np.bincount(k, p, n + 1)
    assert cluster_distribution(prior, n) == pytest.approx(exact, abs=1e-12)


@pytest.mark.parametrize("K", [10**9, 10**15, 10**20, 10**30])
def test_very_many_clusters_are_no_limit(K):
    """Every site its own label: the number of clusters is that of a Dirichlet process, or n itself."""
    log_v = gsw.Potts(K).tables(50).log_v
    assert np.diff(log_v) == pytest.approx(np.log(float(K)), rel=1e-6)
    assert gsw.Potts(K).expected_clusters(50) == pytest.approx(50, rel=1e-5)
    for alpha in (1.0, 6):
        assert gsw.FiniteDirichlet(K, alpha).expected_clusters(50) == pytest.approx(50, rel=1e-5)
    process = gsw.DirichletProcess(2.0).expected_clusters(50)
    assert gsw.FiniteDirichlet(K, 2.0 / K).expected_clusters(50) == pytest.approx(process, rel=1e-6)


@pytest.mark.parametrize("alpha", [2e-100, 1e5, 1e7, 1e9])
def test_tables_at_the_ends_of_the_range(alpha):
    """Log W of the finite Dirichlet, and of the Pitman-Yor process that is the same one, against sums of logarithms."""
    exact = [math.fsum(math.log(alpha + i) for i in range(m)) for m in range(1, 41)]
    finite = gsw.FiniteDirichlet(3, alpha)
    assert finite.tables(40).log_w[1:] == pytest.approx(exact, rel=1e-13)
    assert np.isfinite(finite.expected_clusters(40))
    if alpha > 1:
        # [1 - theta]^(m - 1) lacks the first factor, alpha = -theta, and [theta + alpha]^(k - 1) has it instead
        process = gsw.PitmanYor(1 * alpha, -alpha)
        assert process.tables(40).log_w[1:] == pytest.approx(np.array(exact) - math.log(alpha), rel=1e-13, abs=1e-13)


def test_a_finite_dirichlet_of_large_alpha_is_the_potts_model():
    potts, finite = gsw.Potts(4), gsw.FiniteDirichlet(4, 1e9)
    assert cluster_distribution(finite, 30) == pytest.approx(cluster_distribution(potts, 30), abs=1e-6)


def test_very_many_clusters_of_a_pitman_yor_process_are_no_limit():
    tables = gsw.PitmanYor(1.0, -1e-20).tables(20)
    process = gsw.DirichletProcess(1.0).tables(20)
    assert tables.log_v == pytest.approx(process.log_v, abs=1e-12)
    assert tables.log_w == pytest.approx(process.log_w, abs=1e-12)


def test_limits_on_limits():
    once = gsw.TablePrior([0, 0, *[-50.0] * 10, 40.0], [0.0] * 13).truncated(1)
    assert once.truncated(1).expected_clusters(12) == pytest.approx(once.expected_clusters(12))


def test_the_finite_dirichlet_has_the_factor_that_the_paper_drops():
    assert gsw.FiniteDirichlet(4, 0.25).expected_clusters(5) == pytest.approx(1.857, abs=5e-4)


@pytest.mark.parametrize(("alpha", "expected"), [(1, 7.58), (3, 18.24), (5, 27.50)])
def test_expected_clusters_of_the_figure_in_the_paper(alpha, expected):
    """The paper's caption has one cluster less."""
    prior = gsw.DirichletProcess(alpha)
    assert prior.expected_clusters(1099) == pytest.approx(expected, abs=0.005)
    assert cluster_distribution(prior, 300) @ np.arange(301) == pytest.approx(prior.expected_clusters(300), rel=1e-9)


SLOW = pytest.mark.slow


@pytest.mark.parametrize(
    ("alpha", "expected"),
    [(1, 7.58), pytest.param(3, 18.24, marks=SLOW), pytest.param(5, 27.50, marks=SLOW)],
)
def test_simulation_of_the_prior_without_coupling(alpha, expected):
    problem = gsw.Problem.from_counts(
        np.ones((1099, 1), int), [(i, i + 1) for i in range(1098)], 0.0, gsw.DirichletProcess(alpha)
    )
    trace = gsw.simulate_prior(problem, sweeps=9000, burn_in=300, seed=1)
    means = trace.n_clusters.reshape(30, -1).mean(axis=1)
    error = means.std(ddof=1) / np.sqrt(30)
    assert error < 0.35
    assert abs(trace.n_clusters.mean() - expected) < 4 * error


def test_coupling_lowers_the_number_of_clusters():
    edges = [(i, i + 1) for i in range(199)]
    found = []
    for beta in (0.0, 1.0, 3.0):
        problem = gsw.Problem.from_counts(np.ones((200, 1), int), edges, beta, gsw.DirichletProcess(3.0))
        found.append(gsw.simulate_prior(problem, 2000, burn_in=200).n_clusters.mean())
    assert found[0] > found[1] > found[2]


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: gsw.DirichletProcess(0.0), "alpha must be a number > 0"),
        (lambda: gsw.DirichletProcess(-1.0), "alpha must be a number > 0"),
        (lambda: gsw.DirichletProcess(math.nan), "alpha must be a number > 0"),
        (lambda: gsw.FiniteDirichlet(0, 1.0), "K must be a whole number >= 1"),
        (lambda: gsw.FiniteDirichlet(3, 0.0), "alpha must be a number > 0"),
        (lambda: gsw.Potts(0), "K must be a whole number >= 1"),
        (lambda: gsw.Potts(2.5), "K must be a whole number >= 1"),
        (lambda: gsw.Potts(math.nan), "K must be a whole number >= 1"),
        (lambda: gsw.Potts("3"), "K must be a whole number >= 1"),
        (lambda: gsw.DirichletProcess("1"), "alpha must be a number > 0"),
        (lambda: gsw.PitmanYor(1.0, 1.0), r"theta must be a number in \[-1e\+09, 1\)"),
        (lambda: gsw.PitmanYor(1e14, 0.5), r"alpha must be a number <= 1e\+09"),
        (lambda: gsw.PitmanYor(1.0, -1e-320), "theta must be 0 or a number <= -1e-100"),
        (lambda: gsw.DirichletProcess(1e14), r"alpha must be a number in \(1e-100, 1e\+09\]"),
        (lambda: gsw.FiniteDirichlet(3, 1e14), r"alpha must be a number in \(1e-100, 1e\+09\]"),
        (lambda: gsw.FiniteDirichlet(3, 1e-320), r"alpha must be a number in \(1e-100, 1e\+09\]"),
        (lambda: gsw.Potts(10**400), r"K must be a whole number in \[1, 1e\+100\]"),
        (lambda: gsw.Potts(True), "K must be a whole number >= 1"),
        (lambda: gsw.PitmanYor(-0.5, 0.5), "alpha must be a number > -theta"),
        (lambda: gsw.PitmanYor(1.2, -0.5), "whole number L"),
        (lambda: gsw.DirichletProcess(1.0).truncated(min_size=-1), "min_size must be"),
        (lambda: gsw.DirichletProcess(1.0).truncated(min_size=4, max_size=3), "max_size must be"),
        (lambda: gsw.DirichletProcess(1.0).truncated(min_size=9).tables(8), r"min_size must be .* in \[0, 8\]"),
        (lambda: gsw.TablePrior([0, math.nan, 1], [0, 0, 0]), "log_v must hold finite numbers"),
        (lambda: gsw.TablePrior([0, 0], [0, 0]).tables(5), "at least 6 entries"),
        (lambda: gsw.DirichletProcess(1.0).truncated(4, 4).expected_clusters(7), "no partition"),
    ],
)
def test_parameters_out_of_range(make, words):
    with pytest.raises(gsw.InputError, match=words):
        make()
