"""The tables of log Gamma, and the series that goes on where they end."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext

import numpy as np
import pytest
from scipy.special import gammaln

import napari_gsw as gsw
from napari_gsw.core.likelihood import likelihood_tables as tables
from napari_gsw.core.sampler.cluster_statistics import log_count_tail, log_gamma
from napari_gsw.core.sampler.greedy import climb_to_maximum
from napari_gsw.core.sampler.moves import sweep_kernels
from napari_gsw.research.baselines import crp
from problems import planar


def exact_difference(x: int, step: int) -> Decimal:
    """log Gamma(x + step) - log Gamma(x) to fifty digits: the logarithm of a product of whole numbers."""
    with localcontext() as context:
        context.prec = 50
        low, high = sorted((x, x + step))
        rise = Decimal(math.prod(range(low, high))).ln()
        return rise if step > 0 else -rise


@pytest.mark.parametrize("x", [1, 2, 3, 15, 16, 17, 100, 2_000])
def test_log_gamma_of_whole_numbers(x):
    exact = float(exact_difference(1, x - 1)) if x > 1 else 0.0
    assert log_gamma(float(x)) == pytest.approx(exact, rel=4e-16, abs=1e-14)


def test_log_gamma_is_that_of_scipy():
    x = np.concatenate((10 ** np.linspace(-6, 9, 2_000), np.linspace(0.5, 30, 500)))
    ours = np.array([log_gamma(v) for v in x])
    assert ours == pytest.approx(gammaln(x), rel=2e-15, abs=2e-14)


@pytest.mark.parametrize("x", [1024, 5_000, 70_000, 3_000_000, 2_000_000_000])
@pytest.mark.parametrize("share", [1, 0.3, 0.001, -0.001, -0.3, -1])
def test_a_gain_beyond_the_table_is_exact_to_its_own_last_digits(x, share):
    """The difference of two values of log Gamma loses six digits here."""
    step = max(-400, min(400, int(share * x / 256) or int(math.copysign(1, share))))
    found = sweep_kernels.log_rising_large(float(x), float(step), math.log(x))
    exact = exact_difference(x, step)
    assert abs(Decimal(found) - exact) < Decimal("6e-16") * abs(exact)


@pytest.mark.parametrize("block", ["words", "gaussian"])
def test_the_formula_goes_on_where_the_table_ends(block, monkeypatch):
    problem = planar(n=80, blocks=int(block == "words"), channels=2 * int(block == "gaussian"))
    long = problem.evidence
    monkeypatch.setattr(tables, "MAX_ENTRIES", 50)
    short = tables.build_tables(problem.likelihoods, problem.n)
    assert not long.tail.any()
    assert short.tail.any()
    assert short.table_end.max() == 50
    for d in np.flatnonzero(short.tail[:, 0]):
        own = long.table[int(long.table_start[d]) :][: int(long.table_end[d])]
        found = [log_count_tail(short.tail, np.uint32(d), m) for m in range(len(own))]
        assert found == pytest.approx(own, rel=1e-13, abs=1e-11)


@pytest.mark.parametrize("large", [1e3, 1e9])
@pytest.mark.parametrize("kind", ["words", "gaussian"])
def test_nothing_is_lost_beyond_the_table_however_large_the_prior(large, kind, monkeypatch):
    """Of log Gamma(1e9 + m) - log Gamma(1e9), the two subtracted, five decimals would be left."""
    counts = np.tile([[9_000, 4_000], [5_000, 8_000]], (4, 1))
    values = np.linspace(-1, 1, 800)[:, None]
    blocks = {
        "words": gsw.DirichletMultinomial(counts, large, 1e-3),
        "gaussian": gsw.Gaussian.from_pixels(values, np.arange(800) // 100, 8, shape=large),
    }
    full = tables.build_tables([blocks[kind]], 8)
    monkeypatch.setattr(tables, "MAX_ENTRIES", 20)
    cut = tables.build_tables([blocks[kind]], 8)
    for d in np.flatnonzero(cut.tail[:, 0]):
        own = full.table[int(full.table_start[d]) :][: int(full.table_end[d])]
        found = [log_count_tail(cut.tail, np.uint32(d), m) for m in range(0, len(own), 97)]
        assert found == pytest.approx(own[::97], rel=1e-12, abs=1e-13 * min(large, 1e4))


WAYS = {
    "gibbs": dict(lam=0.0),
    "gsw": dict(lam=10.0, regroups=1),
    "next-door": dict(lam=4.0, full_scans=0.3),
    "split-merge": dict(lam=4.0, splits=2),
}


def heavy(channels):
    """Few clusters with so many pixels that steps are small beside them."""
    rng = np.random.default_rng(3)
    n = 150
    truth = np.arange(n) * 2 // n
    shares = rng.dirichlet(np.full(6, 1.0), 2)
    counts = np.array([rng.multinomial(400, shares[t]) + 3 for t in truth])
    blocks = [gsw.DirichletMultinomial(counts, 30.0)]
    if channels:
        values = truth.repeat(5)[:, None] + rng.normal(size=(5 * n, channels))
        blocks.append(gsw.Gaussian.from_pixels(values, np.arange(5 * n) // 5, n))
    edges = [(i, i + 1) for i in range(n - 1)]
    return gsw.Problem(n, tuple(blocks), np.array(edges), 0.05, gsw.DirichletProcess(1.0))


@pytest.mark.parametrize("channels", [0, 1])
@pytest.mark.parametrize("way", WAYS)
def test_where_the_tables_end_changes_no_label(way, channels, monkeypatch):
    start = np.arange(150) * 5 // 150
    whole = gsw.run(heavy(channels), 40, init=start, **WAYS[way])
    for most in (2_000, 7):
        monkeypatch.setattr(tables, "MAX_ENTRIES", most)
        cut = heavy(channels)
        assert cut.evidence.tail.any()
        found = gsw.run(cut, 40, init=start, **WAYS[way])
        assert np.array_equal(found.labels, whole.labels)
        assert found.trace == pytest.approx(whole.trace, rel=1e-9)
        assert found.log_posterior == pytest.approx(gsw.log_posterior(cut, found.labels), rel=1e-10)


def test_the_ascent_and_the_restaurants_know_where_the_tables_end(monkeypatch):
    whole = heavy(0)
    monkeypatch.setattr(tables, "MAX_ENTRIES", 100)
    cut = heavy(0)
    start = np.arange(150) * 5 // 150
    assert np.array_equal(climb_to_maximum(whole, start).labels, climb_to_maximum(cut, start).labels)
    ends = [list(crp.sample(crp.LinkModel(p, gamma=0.1), sweeps=5, seed=1))[-1].labels for p in (whole, cut)]
    assert np.array_equal(*ends)


def test_memory_for_the_tables_is_bounded():
    counts = np.full((40, 2), 2_000_000)
    problem = gsw.Problem.from_counts(counts, [(i, i + 1) for i in range(39)])
    assert problem.evidence.table.nbytes <= 3 * 8 * tables.MAX_ENTRIES
    snap = gsw.run(problem, 3, init=np.arange(40) % 2)
    assert snap.log_posterior == pytest.approx(gsw.log_posterior(problem, snap.labels), rel=1e-9)
