"""Likelihoods against textbook formulas, and the traps of the model."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import integrate, sparse, stats
from scipy.special import gammaln

import napari_gsw as gsw
from napari_gsw.core.likelihood import likelihood_tables as tables
from napari_gsw.core.likelihood.likelihood_tables import (
    BASE,
    FACTOR,
    KAPPA,
    LOG_FACTOR,
    LOG_UNIT,
    PIXEL_WEIGHT,
    RATE,
    SHAPE,
    SHIFT,
    SLOPE,
    TAIL,
    UNIT,
    build_tables,
)


def test_dirichlet_multinomial_is_a_product_of_predictive_probabilities():
    """With one draw a pixel, p(y) is the product of (pi_d + seen so far) / (phi + drawn so far)."""
    rng = np.random.default_rng(0)
    counts = rng.integers(0, 4, (5, 6))
    block = gsw.DirichletMultinomial(counts, phi=7.0)
    labels = np.array([0, 1, 0, 1, 1])
    pi = 7.0 * counts.sum(axis=0) / counts.sum()
    total = 0.0
    for k in (0, 1):
        seen = np.zeros(6)
        for d in np.repeat(np.arange(6), counts[labels == k].sum(axis=0)):
            total += np.log((pi[d] + seen[d]) / (7.0 + seen.sum()))
            seen[d] += 1
    assert block.log_marginal(labels) == pytest.approx(total, rel=1e-12)


def test_words_that_occur_nowhere_are_dropped_and_pi_sums_to_phi():
    counts = np.array([[2, 0, 1, 0], [1, 0, 0, 0]])
    block = gsw.DirichletMultinomial(counts, phi=50.0)
    assert block.counts.shape == (2, 2)
    assert block.concentration.sum() == pytest.approx(50.0)
    assert np.isfinite(block.log_marginal(np.array([0, 1])))


def test_evidence_scales_the_counts():
    counts = np.array([[30, 10], [5, 15], [20, 40]])
    scaled = gsw.DirichletMultinomial(counts, 10.0, evidence=4.0)
    s = 4.0 / 40.0
    assert scaled.weight == pytest.approx(s)
    pi = scaled.concentration
    m = counts.sum(axis=0)
    exact = np.sum(gammaln(pi + s * m) - gammaln(pi)) - gammaln(10 + s * m.sum()) + gammaln(10)
    assert scaled.log_marginal(np.zeros(3, int)) == pytest.approx(exact, rel=1e-12)
    raw = gsw.DirichletMultinomial(counts, 10.0)
    assert raw.weight == 1.0


def test_gaussian_marginal_by_integration():
    """The marginal of one cluster, integrated over mean and variance numerically."""
    x = np.array([0.3, -0.8, 1.1])
    block = gsw.Gaussian.from_values(x[:, None], kappa=0.7, shape=2.5, spread=0.6)
    centred, b0 = x - x.mean(), block.rate[0]

    mu = np.linspace(-15, 15, 6001)[:, None]
    log_variance = np.linspace(-8, 8, 801)
    variance = np.exp(log_variance)
    likelihood = np.prod([stats.norm.pdf(c, mu, np.sqrt(variance)) for c in centred], axis=0)
    prior = stats.norm.pdf(mu, 0, np.sqrt(variance / 0.7)) * stats.invgamma.pdf(variance, 2.5, scale=b0)
    inner = integrate.simpson(likelihood * prior, x=mu[:, 0], axis=0)
    exact = integrate.simpson(inner * variance, x=log_variance)
    assert block.log_marginal(np.zeros(3, int)) == pytest.approx(np.log(exact), abs=1e-5)


def test_gaussian_of_pixels_is_that_of_values():
    rng = np.random.default_rng(1)
    values = rng.normal(5, 2, (12, 3))
    pixels = gsw.Gaussian.from_pixels(values, np.arange(12) // 3, 4, kappa=0.1)
    single = gsw.Gaussian.from_values(values, kappa=0.1)
    labels = np.array([0, 1, 1, 0])
    assert pixels.log_marginal(labels) == pytest.approx(single.log_marginal(np.repeat(labels, 3)), rel=1e-12)


def test_a_constant_channel_is_no_error():
    block = gsw.Gaussian.from_values(np.ones((5, 2)))
    assert np.isfinite(block.log_marginal(np.array([0, 0, 1, 1, 2])))


@pytest.mark.parametrize(
    "block",
    [
        gsw.DirichletMultinomial(np.arange(24).reshape(6, 4), 7.0, evidence=5.0),
        gsw.DirichletMultinomial(np.arange(24).reshape(6, 4), 1e9),
        gsw.Gaussian.from_values(np.arange(12.0).reshape(6, 2) ** 2, evidence=3.0),
        gsw.Gaussian.from_values(np.arange(12.0).reshape(6, 2) ** 2, shape=None),
    ],
)
def test_the_columns_of_a_tail_say_what_the_table_does(block, monkeypatch):
    """The formula that stands above the names of the columns, word by word."""
    long = build_tables([block], 6)
    monkeypatch.setattr(tables, "MAX_ENTRIES", 1)
    tail = build_tables([block], 6).tail
    assert tail.shape == (len(long.table_end), TAIL)
    for d, row in enumerate(tail):
        m = np.arange(long.table_end[d])
        formula = row[FACTOR] * gammaln(row[BASE] + row[UNIT] * m) + row[SHIFT]
        formula += row[LOG_FACTOR] * np.log1p(row[LOG_UNIT] * m) + row[SLOPE] * m
        start = int(long.table_start[d])
        assert formula == pytest.approx(
            long.table[start : start + len(m)], rel=1e-12, abs=1e-4 if row[BASE] > 1e6 else 1e-12
        )


def test_the_entries_of_the_channels_prior():
    block = gsw.Gaussian.from_values(np.arange(12.0).reshape(6, 2), evidence=3.0, kappa=0.2, shape=4.0)
    gauss = build_tables([block], 6).gauss
    assert np.array_equal(gauss[:, [KAPPA, SHAPE, PIXEL_WEIGHT]], np.full((2, 3), (0.2, 4.0, 3.0)))
    assert np.array_equal(gauss[:, RATE], block.rate)


def test_tables_hold_an_entry_for_every_count_that_can_occur():
    counts = np.array([[3, 0, 2], [1, 0, 4]])
    packed = build_tables([gsw.DirichletMultinomial(counts, 5.0)], 2)
    assert len(packed.table) == (4 + 1) + (6 + 1) + (10 + 1)
    assert packed.table[packed.table_start.astype(int)] == pytest.approx(0.0)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: gsw.DirichletMultinomial(np.ones((2, 2)), phi=0.0), r"phi must be a number in \(1e-100, 1e\+09\]"),
        (lambda: gsw.DirichletMultinomial(np.ones((2, 2)), evidence=-1.0), "evidence must be"),
        (lambda: gsw.DirichletMultinomial(-np.ones((2, 2), int)), "counts must be >= 0"),
        (lambda: gsw.DirichletMultinomial(np.full((2, 2), 0.5)), "whole numbers"),
        (lambda: gsw.DirichletMultinomial([[np.inf, 2], [3, 0]]), "whole numbers"),
        (lambda: gsw.DirichletMultinomial([[1e12, 2], [3, 0]]), "add up to at most"),
        (lambda: gsw.DirichletMultinomial(np.ones((2, 2), complex)), "whole numbers of shape"),
        (lambda: gsw.Gaussian.from_values(np.array([[np.nan]])), "finite"),
        (lambda: gsw.Gaussian.from_values(np.ones((3, 1)), kappa=0.0), "gauss_kappa must be"),
        (
            lambda: gsw.Problem.from_counts(np.ones(3, int), [(0, 1)], 0.1, gsw.Potts(2)),
            r"counts must have shape \(sites, words\)",
        ),
        (
            lambda: gsw.Problem.from_counts(np.ones((3, 1), int), [(0, 3)], 0.1, gsw.Potts(2)),
            r"edges must name sites in \[0, 2\]",
        ),
        (
            lambda: gsw.Problem.from_counts(np.ones((3, 1), int), [(1, 1)], 0.1, gsw.Potts(2)),
            "two different sites",
        ),
        (
            lambda: gsw.Problem.from_counts(np.ones((3, 1), int), [(0, 1)], [0.1, 0.2], gsw.Potts(2)),
            "one for each of 1 edges",
        ),
        (
            lambda: gsw.Problem.from_counts(np.ones((3, 1), int), [(0, 1)], np.nan, gsw.Potts(2)),
            "beta must be finite",
        ),
        (
            lambda: gsw.Problem.from_counts(np.ones((3, 1), int), [(0, 1)], 1e308, gsw.Potts(2)),
            r"beta must be a number in \[-1e\+06, 1e\+06\]",
        ),
        (
            lambda: next(
                gsw.sample(gsw.Problem.from_counts(np.ones((3, 1), int), [(0, 1)], 0.1, gsw.Potts(2)), lam=-1.0)
            ),
            "lam must be",
        ),
        (
            lambda: next(
                gsw.sample(gsw.Problem.from_counts(np.ones((3, 1), int), [(0, 1)], 0.1, gsw.Potts(2)), init=[0, 1, 2])
            ),
            "the start has a number or sizes of clusters that the prior forbids",
        ),
    ],
)
def test_what_cannot_be_used_is_said(make, words):
    with pytest.raises(gsw.InputError, match=words):
        make()


def test_defaults_of_a_problem_are_the_papers():
    problem = gsw.Problem.from_counts(np.ones((3, 2), ">i4"), [(0, 1), (1, 2)])
    assert (set(problem.beta), problem.prior) == ({0.02}, gsw.DirichletProcess(3.0))
    assert problem.likelihoods[0].phi == 50.0


def test_counts_may_be_sparse_and_come_in_blocks():
    rng = np.random.default_rng(2)
    a, b = rng.integers(0, 4, (6, 5)), rng.integers(0, 4, (6, 3))
    edges = [(i, i + 1) for i in range(5)]
    dense = gsw.Problem.from_counts([a, b], edges, 0.2, gsw.Potts(3), phi=[5.0, 2.0], evidence=[None, 3.0])
    thin = gsw.Problem.from_counts(
        [sparse.csr_array(a), sparse.csr_array(b)], edges, 0.2, gsw.Potts(3), [5.0, 2.0], [None, 3.0]
    )
    labels = np.array([0, 0, 1, 1, 0, 2])
    assert gsw.log_posterior(dense, labels) == gsw.log_posterior(thin, labels)
    single = [
        gsw.Problem.from_counts(c, edges, 0.0, gsw.Potts(3), p, e).likelihoods[0].log_marginal(labels)
        for c, p, e in ((a, 5.0, None), (b, 2.0, 3.0))
    ]
    rest = gsw.log_posterior(gsw.Problem(6, (), dense.edges, 0.2, gsw.Potts(3)), labels)
    assert gsw.log_posterior(dense, labels) == pytest.approx(sum(single) + rest)


def test_a_variance_that_rounding_drowns_is_refused():
    """The log posterior of a running chain was 2,000 nats off its own labels."""
    values = np.array([[-3.8e89], [3.8e89]])
    with pytest.raises(gsw.InputError, match="larger spread"):
        gsw.Gaussian.from_values(values, spread=1e-99)
    problem = gsw.Problem(2, (gsw.Gaussian.from_values(values, spread=1e-9, evidence=4.0),), [], 0.0, gsw.Potts(10**60))
    snapshot = gsw.run(problem, 3)
    assert snapshot.log_posterior == pytest.approx(gsw.log_posterior(problem, snapshot.labels), rel=1e-6)
