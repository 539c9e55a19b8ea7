"""Simulation-based calibration: of data that the model itself has made, the truth ranks evenly among the draws.

A partition comes from the prior, exactly; the data come from the partition; the chain draws from the posterior. Then of
any number that a partition has, that of the true one is as likely to be the largest, the second largest, ... of all
(Talts et al. 2018). It checks model, tables and sampler together, against nothing but the definition of the model. The
model is generative where every pixel counts as one draw and the concentration of the words does not come from the data.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest
from scipy.stats import chisquare, norm

import napari_gsw as gsw
from exact_posterior import posterior

N, PIXELS, CHANNELS = 7, 6, 2
EDGES = np.array([(i, i + 1) for i in range(N - 1)] + [(0, 2), (1, 4), (3, 6)])
BETA = 0.4
PRIOR = gsw.DirichletProcess(1.2)
PI = np.array([0.3, 0.7, 1.0, 0.5])
KAPPA, SHAPE, SPREAD, VARIANCE = 0.3, 3.0, 0.4, np.array([1.0, 4.0])
# Draws of a chain, sweeps from one to the next and before the first.
DRAWS, GAP, BURN_IN = 15, 8, 60
TRUTHS = 1000
SAMPLERS = {
    "gibbs": dict(lam=0.0),
    "swendsen-wang": dict(lam=1.0),
    "bonds": dict(lam=3.0, regroups=1, full_scans=0.5),
    "splits": dict(lam=1.0, splits=1),
    "tempered": dict(lam=1.0, ladder=(1.0, 0.5, 0.2)),
}


@dataclass(frozen=True, eq=False)
class FixedWords(gsw.DirichletMultinomial):
    """Words whose concentration is known beforehand."""

    pi: np.ndarray = field(default_factory=lambda: PI)

    def __post_init__(self):
        object.__setattr__(self, "pi", self.pi[self.counts.sum(axis=0) > 0])
        super().__post_init__()

    @property
    def concentration(self):
        return self.pi


def words_of(truth, rng):
    """(n, words) counts: each cluster has shares of its own."""
    shares = rng.dirichlet(PI, truth.max() + 1)
    return np.array([rng.multinomial(PIXELS, shares[k]) for k in truth])


def channels_of(truth, rng):
    """(n * pixels, channels) values: each cluster has a mean and a variance of its own."""
    variance = (SHAPE - 1) * SPREAD * VARIANCE / rng.gamma(SHAPE, size=(truth.max() + 1, CHANNELS))
    mean = rng.normal(size=variance.shape) * np.sqrt(variance / KAPPA)
    pixels = np.repeat(truth, PIXELS)
    return mean[pixels] + rng.normal(size=(N * PIXELS, CHANNELS)) * np.sqrt(variance[pixels])


def data_of(kind, truth, rng, phi=1.0, kappa=1.0):
    """Blocks of data that a partition has made; `phi` and `kappa` are factors by which the model is wrong."""
    blocks = []
    if kind in ("words", "both"):
        blocks.append(FixedWords(words_of(truth, rng), phi=float(phi * PI.sum()), pi=phi * PI))
    if kind in ("gaussian", "both"):
        x = channels_of(truth, rng).reshape(N, PIXELS, CHANNELS)
        mass = np.full(N, PIXELS)
        blocks.append(
            gsw.Gaussian(mass, x.sum(axis=1), (x**2).sum(axis=1), VARIANCE, None, kappa * KAPPA, SHAPE, SPREAD)
        )
    return tuple(blocks)


def numbers_of(problem, labels):
    """Quantities of a partition that are ranked."""
    sizes = np.bincount(labels)
    pairs = [labels[i] == labels[j] for i, j in ((0, 1), (2, 3), (0, N - 1), (1, N - 2))]
    return np.array([len(sizes), sizes.max(), (sizes**2).sum(), gsw.log_posterior(problem, labels), *pairs], float)


def evenness(kind, truths, sampler, beta=1.0, alpha=1.0, seed=0, **wrong):
    """P value that the ranks of the truth are even: the least of all numbers and both tests, times how many these are.

    The truth comes from the right model; the chain samples one with some parameters times these factors.
    """
    rng = np.random.default_rng(seed)
    rows, p = posterior(gsw.Problem(N, (), EDGES, BETA, PRIOR))
    prior = gsw.DirichletProcess(alpha * PRIOR.alpha)
    rows_of_ranks = []
    for t in range(truths):
        truth = rows[rng.choice(len(rows), p=p)]
        problem = gsw.Problem(N, data_of(kind, truth, rng, **wrong), EDGES, beta * BETA, prior)
        chain = gsw.sample(
            problem, BURN_IN + DRAWS * GAP, seed=t, every=GAP, init=np.arange(N) % 2, **SAMPLERS[sampler]
        )
        draws = [s.labels for s in chain if s.sweep > BURN_IN][-DRAWS:]
        own = numbers_of(problem, truth)
        each = np.array([numbers_of(problem, labels) for labels in draws])
        # Log posteriors of one partition are the same number but for the last digits.
        below = (each < own - 1e-9).sum(axis=0)
        ties = (np.abs(each - own) <= 1e-9).sum(axis=0)
        rows_of_ranks.append(below + rng.integers(0, ties + 1))
    ranks = np.array(rows_of_ranks)
    counts = np.stack([np.bincount(column, minlength=DRAWS + 1) for column in ranks.T])
    # Any unevenness, and with more power that all ranks are too low or too high.
    spread = np.sqrt(((DRAWS + 1) ** 2 - 1) / 12 / truths)
    shift = 2 * norm.sf(np.abs(ranks.mean(axis=0) - DRAWS / 2) / spread)
    return min(1.0, 2 * len(counts) * float(min(chisquare(counts, axis=1).pvalue.min(), shift.min())))


@pytest.mark.slow
@pytest.mark.parametrize("sampler", SAMPLERS)
@pytest.mark.parametrize("kind", ["words", "gaussian", "both"])
def test_the_truth_ranks_evenly_among_the_draws(kind, sampler):
    assert evenness(kind, TRUTHS, sampler) > 1e-3


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "wrong"),
    [
        ("words", dict(phi=3.0)),
        ("words", dict(phi=0.1)),
        ("gaussian", dict(kappa=0.1)),
        ("words", dict(beta=3.0)),
        ("gaussian", dict(alpha=3.0)),
    ],
)
def test_a_wrong_parameter_is_caught(kind, wrong):
    assert evenness(kind, TRUTHS, "swendsen-wang", **wrong) < 1e-6


def test_calibration_of_a_few():
    """The slow tests in small, so that they still run when somebody needs them."""
    assert evenness("both", 40, "swendsen-wang") > 1e-4
