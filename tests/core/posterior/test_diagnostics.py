"""Convergence of chains whose answer is known beforehand."""

from __future__ import annotations

import math
import subprocess
import sys

import numpy as np
import pytest
from scipy import stats

import napari_gsw as gsw
from napari_gsw.core.posterior.diagnostics import QUANTITIES, diagnose


def autoregressive(rng, chains, sweeps, rho):
    """(chains, sweeps, 3) of x_t = rho x_{t-1} + noise in each column, begun in equilibrium."""
    x = np.empty((chains, sweeps, 3))
    x[:, 0] = rng.normal(size=(chains, 3)) / math.sqrt(1 - rho**2)
    for t in range(1, sweeps):
        x[:, t] = rho * x[:, t - 1] + rng.normal(size=(chains, 3))
    return x


def split_r_hat(values):
    """Rank-normalised split R-hat of (chains, sweeps), from the definition."""
    half = values.shape[1] // 2
    parts = np.concatenate((values[:, :half], values[:, -half:]))

    def plain(x):
        z = stats.norm.ppf((stats.rankdata(x).reshape(x.shape) - 3 / 8) / (x.size + 1 / 4))
        within = z.var(axis=1, ddof=1).mean()
        between = z.mean(axis=1).var(ddof=1)
        return math.sqrt((half - 1) / half + between / within)

    return max(plain(parts), plain(abs(parts - np.median(parts))))


@pytest.mark.parametrize("rho", [0.0, 0.5, 0.9])
def test_effective_samples_of_a_known_chain(rho):
    """An AR(1) chain of T sweeps is worth T (1 - rho) / (1 + rho) independent ones."""
    chains = autoregressive(np.random.default_rng(1), 4, 5000, rho)
    found = diagnose(chains)
    exact = 4 * 5000 * (1 - rho) / (1 + rho)
    for name in QUANTITIES:
        assert found.mixing[name].ess == pytest.approx(exact, rel=0.15)
        assert found.mixing[name].r_hat == pytest.approx(1, abs=0.02)
    assert found.agree
    assert found.summary.startswith("4 chains agree (R-hat 1.0")


@pytest.mark.parametrize("shift", [0.0, 0.3, 1.0])
def test_r_hat_is_the_one_of_the_definition(shift):
    chains = autoregressive(np.random.default_rng(2), 3, 301, 0.3)
    chains[1] += shift
    chains[2] *= 1 + shift
    found = diagnose(chains)
    for c, name in enumerate(QUANTITIES):
        assert found.mixing[name].r_hat == pytest.approx(split_r_hat(chains[:, :, c]))


def test_each_quantity_has_its_own_column():
    chains = autoregressive(np.random.default_rng(3), 4, 1000, 0.0)
    for c, name in enumerate(QUANTITIES):
        shifted = chains.copy()
        shifted[2, :, c] += 2
        found = diagnose(shifted)
        assert not found.agree
        assert found.mixing[name].r_hat > 1.1
        assert found.summary == f"not converged: run longer ({name}: R-hat {found.mixing[name].r_hat:.2f})"


def test_too_few_effective_samples():
    found = diagnose(autoregressive(np.random.default_rng(5), 4, 25, 0.0))
    assert not found.agree
    assert "effective samples" in found.summary


def test_one_chain_is_compared_with_itself():
    one = autoregressive(np.random.default_rng(6), 1, 1000, 0.2)
    found = diagnose(one)
    assert found.agree
    assert found.chains == 1
    assert found.summary.startswith("one chain is stationary (R-hat 1.0")
    assert found.summary.endswith(", which does not show convergence: run 4 chains")
    assert "agree" not in found.summary
    one[0, :, 0] += np.linspace(0, 10, 1000)
    drifting = diagnose(one)
    assert not drifting.agree
    assert drifting.summary.startswith("one chain, not converged: run longer (log posterior: R-hat")


def test_equal_constants_agree():
    chains = autoregressive(np.random.default_rng(7), 4, 500, 0.0)
    chains[:, :, 1] = 12
    found = diagnose(chains)
    assert found.mixing["number of clusters"] == (1.0, 2000.0)
    assert found.agree
    assert diagnose(np.full((4, 500, 3), 2.5)).agree
    assert diagnose(np.full((1, 500, 3), 2.5)).agree
    step = np.repeat([[1.0], [2.0]], 250, axis=0) * np.ones(3)
    assert not diagnose([step]).agree


def test_different_constants_do_not():
    chains = autoregressive(np.random.default_rng(8), 4, 500, 0.0)
    chains[:, :, 1] = 12
    chains[3, :, 1] = 13
    found = diagnose(chains)
    assert found.mixing["number of clusters"].r_hat == math.inf
    assert found.mixing["number of clusters"].ess < 100
    assert not found.agree
    assert found.summary == "not converged: run longer (number of clusters: stuck at different values)"


def test_values_at_equal_distance_from_the_median():
    """Two values in equal numbers: folded at the median they are one, which must not spoil the verdict."""
    chains = autoregressive(np.random.default_rng(13), 4, 500, 0.0)
    chains[:, :, 1] = np.arange(500) % 2
    assert diagnose(chains).agree


def test_one_change_in_all_is_no_accident():
    """Values that are constant but for a single sweep, or for half a chain, give a verdict and no NaN."""
    for where in (slice(10, 11), slice(250, None)):
        chains = autoregressive(np.random.default_rng(9), 4, 500, 0.0)
        chains[:, :, 1] = 12
        chains[2, where, 1] = 13
        found = diagnose(chains)
        assert not any(math.isnan(x) for pair in found.mixing.values() for x in pair)
        assert found.agree == (where.stop is not None)


@pytest.mark.parametrize("sweeps", [0, 1, 19])
def test_short_traces(sweeps):
    found = diagnose([np.zeros((sweeps, 3)), np.ones((500, 3))])
    assert found.summary == f"too few sweeps: {sweeps} after the burn-in, 20 needed; run longer"
    assert not found.agree
    assert found.mixing == {}
    assert found.sweeps == sweeps


def test_the_shortest_chain_gives_the_length_and_the_last_sweeps_count():
    chains = autoregressive(np.random.default_rng(10), 2, 400, 0.0)
    wild = np.concatenate((np.full((50, 3), 1e6), chains[0]))
    found = diagnose([wild, chains[1]])
    assert found.sweeps == 400
    assert found.mixing == diagnose(chains).mixing


def test_edges():
    chains = autoregressive(np.random.default_rng(11), 2, 400, 0.0)
    sure = [0.0, 1.0, 0.03, 0.99]
    near = [[*sure, 0.50, 0.30], [*sure, 0.54, 0.32]]
    found = diagnose(chains, near)
    assert found.edge_deviation == pytest.approx((0.04 + 0.02) / 2 / math.sqrt(2))
    assert found.agree
    assert found.summary.endswith(", edges differ by 0.02)")
    far = [[*sure, 0.5, 0.0], [*sure, 0.5, 1.0]]
    found = diagnose(chains, far)
    assert found.edge_deviation == pytest.approx(1 / math.sqrt(2) / 2)
    differ = "2 chains differ on 33% of the boundaries"  # 0 and 0.03 are boundaries to both
    assert found.summary == f"not converged: {differ}; run longer (edges differ by 0.35)"
    assert diagnose(chains, [sure, sure]).edge_deviation == 0


def test_edges_that_nobody_counted_are_left_out():
    chains = autoregressive(np.random.default_rng(12), 3, 400, 0.0)
    share = np.array([[0.5, 0.5], [0.5, 0.5], [0.0, 1.0]])
    assert not diagnose(chains, share).agree
    share[2] = np.nan
    assert diagnose(chains, share).edge_deviation == 0
    share[1] = np.nan
    assert math.isnan(diagnose(chains, share).edge_deviation)
    assert diagnose(chains, share).agree


def test_importing_it_does_not_import_arviz():
    code = "import sys, napari_gsw.core.posterior.diagnostics; sys.exit('arviz_stats' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_rounding_errors_are_no_disagreement():
    rng = np.random.default_rng(2)
    same = [np.array([-1234.5, 3, 1.5]) + np.cumsum(rng.normal(0, 1e-13, (100, 3)), axis=0) for _ in range(3)]
    assert diagnose(same).agree


def test_a_number_of_clusters_that_never_changed_says_nothing_where_sizes_are_limited():
    """Whole-cluster moves may be unable to change it: one chain must not reassure, several mention it."""
    rng = np.random.default_rng(4)

    def trace(clusters):
        return np.stack([rng.normal(size=400), np.full(400, clusters), rng.normal(size=400)], axis=1)

    alone, several = [trace(7)], [trace(7) for _ in range(4)]
    assert diagnose(alone).agree
    assert not diagnose(alone, limited=True).agree
    assert "never changed, which size limits can prevent" in diagnose(alone, limited=True).summary
    assert diagnose(several, limited=True).agree
    assert "never changed" in diagnose(several, limited=True).summary
    assert "never changed" not in diagnose(several).summary
    moving = trace(7)
    moving[200:, 1] = 8
    assert "never changed" not in diagnose([moving], limited=True).summary


def test_a_result_under_size_limits_says_when_the_number_of_clusters_never_changed():
    image = np.kron(np.eye(2), np.ones((30, 30))) * 200
    result = gsw.segment(image, preset="paper", site_size=40, min_size=8, sweeps=120)
    assert len(np.unique(result.trace.n_clusters[60:])) == 1
    assert not result.diagnosis.agree
    assert "size limits" in result.diagnosis.summary
