"""The chain samples the posterior: every prior, likelihood and sampler against enumeration."""

from __future__ import annotations

import numpy as np
import pytest

import napari_gsw as gsw
from exact_posterior import log_posteriors, partitions, posterior
from law_problems import HALF, INVERSE_TEMPERATURES, LIKELIHOODS, MOVES, PRIORS, SAMPLERS, SWEEPS, check, small_problem
from napari_gsw.core.model.priors import cluster_distribution
from napari_gsw.core.sampler.state import Moves


def every_triple():
    """All triples of prior, likelihood and sampler.

    Not slow are those that have every likelihood once with every prior and every sampler, and every second pair of
    prior and sampler: these two never meet in the code, for bonds are drawn without the prior.
    """
    for i, prior in enumerate(PRIORS):
        for j, likelihood in enumerate(LIKELIHOODS):
            for k, sampler in enumerate(SAMPLERS):
                name = f"{prior}-{likelihood}-{sampler}"
                slow = (i + j + k) % len(LIKELIHOODS) != 0 or (i + k) % 2 != 0
                yield pytest.param(prior, likelihood, sampler, SWEEPS, id=name, marks=pytest.mark.slow if slow else ())
                yield pytest.param(prior, likelihood, sampler, 4 * SWEEPS, id=f"{name}-long", marks=pytest.mark.slow)


@pytest.mark.parametrize("prior", ["dirichlet-process", "pitman-yor-both", "table-gaps"])
@pytest.mark.parametrize("likelihood", LIKELIHOODS)
def test_the_law_is_that_of_log_posterior(prior, likelihood):
    """Exact laws are put together of clusters, to be quick."""
    problem = small_problem(PRIORS[prior], likelihood, np.random.default_rng(3), n=6, negative=True)
    rows = partitions(6)
    expected = np.array([gsw.log_posterior(problem, row) for row in rows])
    np.testing.assert_allclose(log_posteriors(problem, rows), expected, rtol=0, atol=1e-9)


@pytest.mark.parametrize(("prior", "likelihood", "sampler", "sweeps"), every_triple())
def test_chain_samples_the_posterior(prior, likelihood, sampler, sweeps):
    key = [list(PRIORS).index(prior), LIKELIHOODS.index(likelihood), list(SAMPLERS).index(sampler)]
    rng = np.random.default_rng(key)
    problem = small_problem(PRIORS[prior], likelihood, rng)
    check(problem, SAMPLERS[sampler](problem, rng), sweeps)


@pytest.mark.parametrize("sampler", ["lambda-0", "lambda-3"])
@pytest.mark.parametrize("prior", ["dirichlet-process", "dirichlet-process-min", "pitman-yor-both"])
def test_seeds_condition_the_posterior(prior, sampler):
    rng = np.random.default_rng([7, list(PRIORS).index(prior)])
    problem = small_problem(PRIORS[prior], "words", rng, n=6)
    seeds = np.array([4, -1, -1, 9, -1, 4])
    made = SAMPLERS[sampler](problem, rng)
    check(problem, made, seeds=seeds)
    check(problem, made, seeds=seeds, regroups=2)


def test_negative_couplings_are_never_bonded():
    rng = np.random.default_rng(5)
    problem = small_problem(gsw.DirichletProcess(1.0), "words", rng, negative=True)
    assert (problem.beta < 0).any()
    check(problem, 3.0)


def test_where_only_whole_clusters_can_move_their_number_has_its_law():
    """Six sites in clusters of two or three: no site can move by itself, and two clusters become three or do not."""
    prior = gsw.PitmanYor(1.0, 0.3).truncated(min_size=2, max_size=3)
    problem = small_problem(prior, "words", np.random.default_rng(11), n=6)
    rows, exact = posterior(problem)
    three = exact[rows.max(axis=1) == 2].sum()
    ended = gsw.run(problem, 100_000, seed=0, regroups=4)
    found = (np.asarray(ended.trace)[:, 1] == 3).reshape(100, -1).mean(axis=1)
    assert abs(found.mean() - three) < 4 * found.std() / 10


@pytest.mark.parametrize("likelihood", LIKELIHOODS)
def test_whole_cluster_moves_leave_the_posterior_alone(likelihood):
    rng = np.random.default_rng([8, LIKELIHOODS.index(likelihood)])
    problem = small_problem(gsw.DirichletProcess(1.0), likelihood, rng)
    check(problem, 3.0, regroups=3)


@pytest.mark.parametrize(
    "sampler", ["lambda-3", *(pytest.param(name, marks=pytest.mark.slow) for name in ("lambda-0", "bond-drawn"))]
)
@pytest.mark.parametrize("inverse_temperature", [0.5, 2.0])
@pytest.mark.parametrize(
    ("prior", "likelihood"), [("dirichlet-process", "words"), ("pitman-yor-both", "gaussian"), ("potts", "mixed")]
)
def test_a_cold_or_hot_chain_samples_a_power_of_the_posterior(prior, likelihood, inverse_temperature, sampler):
    """Whole-cluster moves among the sweeps, since the limits of one of the priors need them."""
    rng = np.random.default_rng([9, list(PRIORS).index(prior)])
    problem = small_problem(PRIORS[prior], likelihood, rng, n=6, negative=True)
    check(problem, SAMPLERS[sampler](problem, rng), inverse_temperature=inverse_temperature)


@pytest.mark.parametrize("inverse_temperature", INVERSE_TEMPERATURES)
def test_whole_cluster_moves_with_near_anchors(inverse_temperature):
    rng = np.random.default_rng(10)
    problem = small_problem(gsw.DirichletProcess(1.0), "words", rng, n=6, negative=True)
    check(problem, 3.0, regroups=3, inverse_temperature=inverse_temperature, moves=Moves(0, 0, 0.7, 0.0))


def every_move():
    """All triples of move, likelihood and temperature; every pair once is not slow."""
    for i, kind in enumerate(MOVES):
        for j, likelihood in enumerate(LIKELIHOODS):
            for k, inverse_temperature in enumerate(INVERSE_TEMPERATURES):
                slow = (i + j + k) % len(LIKELIHOODS) != 1
                yield pytest.param(kind, likelihood, inverse_temperature, marks=pytest.mark.slow if slow else ())


@pytest.mark.parametrize(("kind", "likelihood", "inverse_temperature"), every_move())
def test_split_merge_moves_alone_sample_the_posterior(kind, likelihood, inverse_temperature):
    rng = np.random.default_rng([11, LIKELIHOODS.index(likelihood)])
    problem = small_problem(gsw.PitmanYor(0.8, 0.2), likelihood, rng, n=6, negative=True)
    check(problem, 1.0, moves=MOVES[kind]._replace(splits=3), sweeping=False, inverse_temperature=inverse_temperature)


@pytest.mark.parametrize("kind", [pytest.param(k, marks=() if k == "all" else pytest.mark.slow) for k in MOVES])
@pytest.mark.parametrize("prior", PRIORS)
def test_split_merge_moves_among_sweeps_respect_every_prior(prior, kind):
    rng = np.random.default_rng([12, list(PRIORS).index(prior)])
    problem = small_problem(PRIORS[prior], "words", rng, n=6)
    check(problem, 2.0, moves=MOVES[kind])


@pytest.mark.parametrize("prior", ["dirichlet-process", "finite-dirichlet", "dirichlet-process-min"])
@pytest.mark.parametrize("kind", [pytest.param(k, marks=() if k == "all" else pytest.mark.slow) for k in MOVES])
def test_split_merge_moves_respect_seeds(kind, prior):
    rng = np.random.default_rng([13, list(PRIORS).index(prior)])
    problem = small_problem(PRIORS[prior], "words", rng, n=7)
    seeds = np.array([4, -1, -1, 9, -1, 4, -1])
    check(problem, 2.0, moves=MOVES[kind], seeds=seeds)
    if prior != "dirichlet-process-min":
        check(problem, 1.0, moves=MOVES[kind]._replace(splits=3), sweeping=False, seeds=seeds)


def path_problem(n, prior):
    edges = np.array([(i, i + 1) for i in range(n - 1)])
    return gsw.Problem.from_counts(np.ones((n, 1), int), edges, 0.3, prior)


def test_a_partition_that_single_moves_never_leave():
    """On the path 0-1-2-3 with at least two sites a cluster, {0, 2}, {1, 3} is a trap without whole-cluster moves."""
    problem = path_problem(4, gsw.DirichletProcess(1.0).truncated(min_size=2))
    stuck = gsw.run(problem, 2000, init=[0, 1, 0, 1], lam=3.0, regroups=0)
    assert len(np.unique(stuck.trace, axis=0)) == 1
    found = check(problem, 3.0)
    assert found.reached == found.support == 4


@pytest.mark.parametrize(("n", "smallest", "largest"), [(30, 5, 6), (60, 5, 6), (40, 7, 10), (60, 5, 10)])
def test_the_number_of_clusters_changes_under_tight_limits(n, smallest, largest):
    """With nearly fixed sizes, five clusters have to become six at once; without data the law of k is known."""
    prior = gsw.DirichletProcess(1.0).truncated(smallest, largest)
    edges = np.array([(i, i + 1) for i in range(n - 1)])
    problem = gsw.Problem(n, (), edges, np.zeros(n - 1), prior)
    clusters = gsw.run(problem, 30_000, lam=0.0, seed=1).trace[3_000:, 1].astype(int)
    share = np.bincount(clusters, minlength=n + 1) / len(clusters)
    assert np.count_nonzero(np.diff(clusters)) >= 10
    assert np.abs(share - cluster_distribution(prior, n)).sum() / 2 < 0.1


@pytest.mark.parametrize(
    ("n", "smallest", "largest"), [(6, 2, 6), (6, 2, 3), (7, 3, 4), (7, 2, 5), (7, 1, 2), (6, 3, 3), (7, 2, 2 + 1)]
)
def test_size_limits_leave_the_whole_support_within_reach(n, smallest, largest):
    """Also where the number of clusters cannot change by one merge or one split."""
    problem = path_problem(n, gsw.DirichletProcess(1.0).truncated(smallest, largest))
    found = check(problem, 3.0)
    assert found.reached == found.support


def test_prior_without_data_through_the_public_generator():
    """The same law, seen through `gsw.sample` alone."""
    edges = [(0, 1), (1, 2), (2, 3), (0, 3)]
    counts = np.array([[3, 0], [2, 1], [0, 3], [1, 2]])
    problem = gsw.Problem.from_counts(counts, edges, beta=0.5, prior=gsw.DirichletProcess(alpha=1.0), phi=4.0)
    from exact_posterior import posterior

    rows, exact = posterior(problem)
    index = {tuple(row): i for i, row in enumerate(rows)}
    seen = np.zeros(len(rows))
    for snap in gsw.sample(problem, sweeps=20_000, seed=3, lam=2.0):
        seen[index[tuple(snap.labels)]] += 1
    assert np.abs(seen / seen.sum() - exact).sum() / 2 < 0.03


@pytest.mark.parametrize("sampler", ["lambda-0", "lambda-3", pytest.param("bond-drawn", marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    ("prior", "likelihood"),
    [
        ("dirichlet-process", "words"),
        ("pitman-yor-both", "mixed"),
        pytest.param("potts", "gaussian", marks=pytest.mark.slow),
        pytest.param("table-gaps", "words", marks=pytest.mark.slow),
    ],
)
def test_sweeps_over_the_clusters_next_door_leave_the_posterior_alone(prior, likelihood, sampler):
    """On a path, where few clusters are next door to a site."""
    rng = np.random.default_rng([14, list(PRIORS).index(prior)])
    problem = small_problem(PRIORS[prior], likelihood, rng, n=6, negative=True, density=0.0)
    check(problem, SAMPLERS[sampler](problem, rng), moves=HALF)


def test_sweeps_over_the_clusters_next_door_with_everything_else():
    """Seeds, split-merge moves and a temperature at once."""
    rng = np.random.default_rng(15)
    problem = small_problem(PRIORS["dirichlet-process"], "words", rng, n=7, density=0.0)
    check(problem, 2.0, moves=HALF, seeds=np.array([4, -1, -1, 9, -1, 4, -1]))
    check(problem, 2.0, moves=MOVES["all"]._replace(full=0.3), inverse_temperature=0.5)
