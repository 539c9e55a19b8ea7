"""Where a chain begins if a person has set seeds: as the seeds want it, and as the prior allows."""

from __future__ import annotations

import numpy as np
import pytest

import napari_gsw as gsw
from napari_gsw.core.sampler.chain import make_first_labels, make_start_labels
from pictures import cells
from problems import planar

RANDOM = gsw.Settings(start="random", start_clusters=20)
IMAGE = cells()[0][:70, :60]


def seeds_at(n, *places):
    """(n,) seeds: the numbers 3, 7, 9, ... at some lists of sites."""
    seeds = np.full(n, -1, np.int32)
    for number, sites in zip((3, 7, 9, 11), places, strict=False):
        seeds[list(sites)] = number
    return seeds


def obeyed(labels, seeds):
    """Whether sites of one seed are together and apart from those of another."""
    pairs = {(int(s), int(k)) for s, k in zip(seeds, labels, strict=True) if s >= 0}
    return len(pairs) == len({s for s, _ in pairs}) == len({k for _, k in pairs})


@pytest.mark.parametrize(
    ("changes", "numbers"),
    [
        (dict(preset="microscopy", objects="classical"), (7,)),
        (dict(preset="paper", chains=2, min_size=3), (7, 2)),
        (dict(preset="paper", chains=3, prior="potts", K=5), (7, 2)),
        (dict(preset="paper", chains=4, min_size=20), (7, 2)),
    ],
)
def test_seeds_go_with_every_limit_of_the_prior(changes, numbers):
    """A random start may have as many clusters as the prior allows already, or leave a seed too few sites."""
    seeds = np.zeros(IMAGE.shape, int)
    for number, place in zip(numbers, ((24, 24), (60, 50)), strict=False):
        seeds[place[0] - 2 : place[0] + 2, place[1] - 2 : place[1] + 2] = number
    for seed in range(3):
        result = gsw.segment(IMAGE, seeds=seeds, sweeps=2, seed=seed, site_size=30, view="clusters", **changes)
        assert result.labels[24, 24] == 7
        assert np.isfinite(result.snapshot.log_posterior)


@pytest.mark.parametrize(
    "prior",
    [
        gsw.Potts(2),
        gsw.FiniteDirichlet(3, 1.0),
        gsw.DirichletProcess(1.0).truncated(min_size=25),
        gsw.DirichletProcess(1.0).truncated(max_size=12),
        gsw.DirichletProcess(1.0).truncated(min_size=8, max_size=12),
    ],
)
def test_a_random_start_is_dealt_again_where_seeds_forbid_it(prior):
    """Every chain gets a state of its own, with sizes that the prior allows."""
    problem = planar(n=60, prior=prior)
    # In the first cluster of a random start there are sites of both seeds, so that one of them has none to take over.
    seeds = seeds_at(60, range(8), range(8, 9))
    starts = [make_first_labels(problem, make_start_labels(problem, RANDOM, s, seeds), seeds) for s in range(8)]
    for labels in starts:
        assert obeyed(labels, seeds)
        assert np.isfinite(gsw.log_posterior(problem, labels))
    assert len({labels.tobytes() for labels in starts}) > 1
    again = make_first_labels(problem, make_start_labels(problem, RANDOM, 3, seeds), seeds)
    assert np.array_equal(again, starts[3])


def test_seeds_that_fit_leave_a_random_start_as_it_is():
    """A prior without limits takes a cluster for each seed besides: the start is dealt as if there were none."""
    problem = planar(n=60)
    seeds = seeds_at(60, range(8), range(8, 9))
    for seed in range(4):
        assert np.array_equal(make_start_labels(problem, RANDOM, seed, seeds), make_start_labels(problem, RANDOM, seed))
    dealt = np.random.default_rng((5, 1)).permutation(np.arange(60) * 20 // 60)
    assert np.array_equal(make_start_labels(problem, RANDOM, 5), dealt)


def test_a_start_of_the_users_own_gives_its_clusters_to_the_seeds():
    problem = planar(n=60, prior=gsw.Potts(2))
    own, seeds = np.arange(60) // 30, seeds_at(60, (3, 4, 40), (50,))
    labels = make_first_labels(problem, own, seeds)
    assert obeyed(labels, seeds)
    assert labels.max() == 1
    assert (labels != own).sum() == 1  # site 40 alone


def test_seeds_that_no_partition_can_have_are_an_error():
    problem = planar(n=60, prior=gsw.Potts(2))
    with pytest.raises(gsw.InputError, match="with these seeds"):
        make_start_labels(problem, RANDOM, 0, seeds_at(60, (0,), (1,), (2,)))
    with pytest.raises(gsw.InputError, match="the start has a number or sizes"):
        make_first_labels(problem, np.arange(60) // 30, seeds_at(60, (0,), (1,), (2,)))
