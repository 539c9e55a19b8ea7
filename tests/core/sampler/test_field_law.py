"""With an external field of named clusters the chain samples the posterior still: every prior, likelihood and move."""

from __future__ import annotations

import numpy as np
import pytest

import napari_gsw as gsw
from exact_posterior import chain_agreement, posterior
from law_problems import HALF, LIKELIHOODS, MOVES, PRIORS, SAMPLERS, check, small_problem
from napari_gsw.core.errors import InputError
from napari_gsw.core.model.external_field import ExternalField, seeds_as_columns
from napari_gsw.core.sampler import bonds
from napari_gsw.core.sampler.chain import add_replicas, start_chain
from napari_gsw.core.sampler.greedy import climb_to_maximum
from napari_gsw.core.sampler.options import SamplerOptions, make_ladder

SEEDS = np.array([4, -1, -1, 9, -1, 4, -1])


def steered(prior, likelihood, rng, n=6, scale=1.2, **more):
    """A small problem in which the clusters of sites 3 (seed 9) and 0 (seed 4) have a field, and its seeds."""
    problem = small_problem(prior, likelihood, rng, n=n, **more)
    return problem.with_field(ExternalField(rng.normal(0, scale, (n, 2)), np.array([3, 0], np.int32))), SEEDS[:n]


def some(names, *quick):
    """All of them, those that are not named as slow tests."""
    return [pytest.param(name, marks=() if name in quick else pytest.mark.slow) for name in names]


def every_triple():
    """All triples of prior, likelihood and sampler; a few of each are quick, the others are slow."""
    for i, prior in enumerate(PRIORS):
        for j, likelihood in enumerate(LIKELIHOODS):
            for k, sampler in enumerate(SAMPLERS):
                slow = (i + j + k) % len(LIKELIHOODS) != 1 or (i + 2 * k) % 7 != 0
                yield pytest.param(prior, likelihood, sampler, marks=pytest.mark.slow if slow else ())


@pytest.mark.parametrize(("prior", "likelihood", "sampler"), every_triple())
def test_a_chain_under_a_field_samples_the_posterior(prior, likelihood, sampler):
    rng = np.random.default_rng([31, list(PRIORS).index(prior), list(SAMPLERS).index(sampler)])
    problem, seeds = steered(PRIORS[prior], likelihood, rng)
    check(problem, SAMPLERS[sampler](problem, rng), seeds=seeds)


@pytest.mark.parametrize("prior", some(PRIORS, "dirichlet-process", "pitman-yor-both", "table-gaps"))
def test_whole_cluster_moves_under_a_field(prior):
    rng = np.random.default_rng([32, list(PRIORS).index(prior)])
    problem, seeds = steered(PRIORS[prior], "words", rng, negative=True)
    check(problem, 2.0, seeds=seeds, regroups=2, inverse_temperature=0.7)


@pytest.mark.parametrize("kind", some(MOVES, "near", "informed"))
@pytest.mark.parametrize("prior", some(["dirichlet-process", "finite-dirichlet"], "dirichlet-process"))
def test_split_merge_moves_alone_under_a_field(prior, kind):
    """Seed 9 sits on one site, so that the moves alone reach every partition."""
    rng = np.random.default_rng([33, list(PRIORS).index(prior)])
    problem, seeds = steered(PRIORS[prior], "mixed", rng, n=7)
    check(problem, 1.0, moves=MOVES[kind]._replace(splits=3), sweeping=False, seeds=seeds)


@pytest.mark.parametrize("kind", some(MOVES, "all"))
@pytest.mark.parametrize("prior", some(PRIORS, "finite-dirichlet", "dirichlet-process-min"))
def test_split_merge_moves_among_sweeps_under_a_field(prior, kind):
    rng = np.random.default_rng([34, list(PRIORS).index(prior)])
    problem, seeds = steered(PRIORS[prior], "words", rng)
    check(problem, 2.0, moves=MOVES[kind], seeds=seeds, inverse_temperature=1.5)


@pytest.mark.parametrize("sampler", ["lambda-0", "lambda-3"])
def test_sweeps_over_the_clusters_next_door_under_a_field(sampler):
    """On a path: a named cluster pulls where none of its sites is next door."""
    rng = np.random.default_rng(35)
    problem, seeds = steered(PRIORS["dirichlet-process"], "words", rng, n=7, density=0.0, scale=2.0)
    check(problem, SAMPLERS[sampler](problem, rng), moves=HALF, seeds=seeds)


@pytest.mark.slow
def test_tempered_chains_under_a_field():
    rng = np.random.default_rng(36)
    problem, seeds = steered(PRIORS["pitman-yor"], "words", rng)
    chain = start_chain(problem, SamplerOptions(bonds.constant_bonds(problem, 2.0)), 0, None, seeds)
    found = chain_agreement(add_replicas(chain, make_ladder(3, 4.0), 0), 20_000)
    assert found.total_variation < 2.5 * found.noise
    assert found.pair_z < 5


@pytest.mark.parametrize("prior", ["dirichlet-process", "potts", "pitman-yor-both"])
@pytest.mark.parametrize("sampler", ["lambda-0", "lambda-3"])
def test_closed_labels_leave_as_many_clusters_as_names(prior, sampler):
    rng = np.random.default_rng([37, list(PRIORS).index(prior)])
    problem, seeds = steered(PRIORS[prior].exactly(2), "words", rng)
    found = check(problem, SAMPLERS[sampler](problem, rng), seeds=seeds, moves=MOVES["all"])
    assert found.support == (2 ** (seeds < 0).sum() if prior != "pitman-yor-both" else found.support)


def test_the_log_posterior_that_the_kernel_keeps_has_the_field_in_it():
    rng = np.random.default_rng(38)
    problem, seeds = steered(PRIORS["dirichlet-process"], "mixed", rng, n=7)
    for snap in gsw.sample(problem, 200, seeds=seeds, lam=2.0, regroups=1, splits=1):
        assert snap.log_posterior == pytest.approx(gsw.log_posterior(problem, snap.labels), abs=1e-9)


@pytest.mark.parametrize("seed", range(20))
def test_the_greedy_ascent_climbs_the_posterior_with_its_field(seed):
    """The search ends at a local maximum: no move of a free site, and no merge, is higher."""
    rng = np.random.default_rng([39, seed])
    problem, seeds = steered(PRIORS["dirichlet-process"], "words", rng, n=7, scale=3.0)
    rows, _ = posterior(problem, seeds)
    end = climb_to_maximum(problem, rows[int(rng.integers(len(rows)))], seeds)
    assert end.log_posterior == pytest.approx(gsw.log_posterior(problem, end.labels))
    for row in rows:
        moved = np.flatnonzero([not np.array_equal(row == row[i], end.labels == end.labels[i]) for i in range(7)])
        one_site = any(np.array_equal(_without(row, i), _without(end.labels, i)) for i in moved)
        if one_site:
            assert gsw.log_posterior(problem, row) <= end.log_posterior + 1e-9


def _without(labels, i):
    return np.unique(np.delete(labels, i)[:, None] == np.delete(labels, i), axis=0).tolist()


def test_seeds_take_the_numbers_of_the_fields_columns():
    field = ExternalField(np.zeros((6, 2)), np.array([3, 0], np.int32))
    assert seeds_as_columns(field, np.array([4, -1, 7, 9, -1, 4], np.int32)).tolist() == [1, -1, 2, 0, -1, 1]


def test_an_anchor_that_is_not_clamped_is_refused():
    field = ExternalField(np.zeros((4, 1)), np.array([1], np.int32))
    with pytest.raises(InputError, match="clamped"):
        seeds_as_columns(field, np.array([2, -1, -1, 2], np.int32))


@pytest.mark.parametrize(
    ("pull", "anchor", "match"),
    [
        (np.zeros((3, 1)), [0], "row for each of 4"),
        (np.full((4, 1), np.nan), [0], "numbers in"),
        (np.zeros((4, 1)), [4], "sites in"),
        (np.zeros((4, 2)), [1, 1], "share an anchor"),
    ],
)
def test_a_field_that_makes_no_sense_is_refused(pull, anchor, match):
    problem = gsw.Problem.from_counts(np.ones((4, 2), int), [(0, 1), (1, 2), (2, 3)])
    with pytest.raises(InputError, match=match):
        problem.with_field(ExternalField(pull, np.array(anchor, np.int32)))
