"""The search for the best state: temperatures, annealing, tempering and the greedy ascent."""

from __future__ import annotations

import io

import numpy as np
import pytest

import napari_gsw as gsw
from exact_posterior import chain_agreement
from napari_gsw.core import jit
from napari_gsw.core.sampler import bonds, cluster_statistics, greedy
from napari_gsw.core.sampler.chain import add_replicas, resample_sites, restart_from, start_chain, step
from napari_gsw.core.sampler.ensemble import Ensemble, pool_snapshots
from napari_gsw.core.sampler.greedy import climb_to_maximum
from napari_gsw.core.sampler.moves import split_merge_kernels as split_kernels
from napari_gsw.core.sampler.options import (
    NO_ANNEALING,
    NO_MOVES,
    SamplerOptions,
    make_annealing,
    make_ladder,
    make_split_moves,
)
from napari_gsw.core.sampler.snapshot import export_state, resume_chain
from napari_gsw.core.sampler.state import BEST, NOW, Moves
from problems import planar

KINDS = {
    "words": dict(prior=gsw.DirichletProcess(1e-3)),
    "mixed": dict(blocks=1, channels=2),
    "limits": dict(blocks=1, prior=gsw.DirichletProcess(5.0).truncated(min_size=3)),
}


def begun(problem, seed=0, burn_in=0, **more):
    return start_chain(problem, SamplerOptions(bonds.constant_bonds(problem, 4.0), 1, burn_in, **more), seed)


def through_a_file(state):
    file = io.BytesIO()
    np.savez(file, **state)
    file.seek(0)
    with np.load(file, allow_pickle=False) as saved:
        return dict(saved)


def same(a, b):
    return set(a) == set(b) and all(np.array_equal(a[name], b[name]) for name in a)


# ---- temperatures and annealing


def test_the_temperature_falls_geometrically_and_stays_at_one():
    chain = begun(planar(n=40), annealing=make_annealing(16.0, 4))
    seen = []
    for _ in range(6):
        seen.append(chain.inverse_temperature)
        step(chain, 1)
    assert seen == pytest.approx([1 / 16, 1 / 8, 1 / 4, 1 / 2, 1, 1])


def test_a_hot_chain_is_lower_and_a_cold_one_higher():
    problem = planar(n=100)
    mean = [
        step(begun(problem, annealing=NO_ANNEALING._replace(inverse_temperature=b)), 900)[600:, 0].mean()
        for b in (0.3, 1.0, 3.0)
    ]
    assert mean[0] < mean[1] < mean[2]


@pytest.mark.parametrize("inverse_temperature", [0.3, 3.0])
@pytest.mark.parametrize("kind", KINDS)
def test_the_log_posterior_is_kept_at_every_temperature_and_through_every_move(kind, inverse_temperature):
    problem = planar(n=90, words=20, **KINDS[kind])
    chain = begun(
        problem, annealing=NO_ANNEALING._replace(inverse_temperature=inverse_temperature), moves=make_split_moves(4)
    )
    for _ in range(40):
        trace = step(chain, 5)
        exact = gsw.log_posterior(problem, chain.labels)
        assert trace[-1, 0] == pytest.approx(exact, rel=1e-9)
        assert trace[-1, 1] == len(np.unique(chain.labels))


def test_only_sweeps_at_temperature_one_are_counted():
    problem = planar(n=50)
    snap = gsw.run(problem, 30, annealing=(5.0, 12), burn_in=3)
    assert len(snap.draws[0]) == 18
    assert (snap.state["sweep"], snap.state["counted"]) == (30, 18)
    states = list(gsw.sample(problem, 30, annealing=(5.0, 12)))[12:]
    i, j = problem.edges.T
    assert snap.together == pytest.approx(np.mean([s.labels[i] == s.labels[j] for s in states], axis=0))
    assert len(gsw.run(problem, 30, annealing=(5.0, 12), burn_in=20).draws[0]) == 10


@pytest.mark.parametrize("done", [5, 12, 20])
@pytest.mark.parametrize("ladder", [None, (1.0, 0.6, 0.3)])
@pytest.mark.parametrize("kind", KINDS)
def test_a_search_goes_on_exactly_where_it_was(kind, ladder, done):
    problem = planar(n=60, words=20, **KINDS[kind])
    more = dict(seed=3, annealing=(4.0, 12), splits=2, ladder=ladder)
    unbroken = gsw.run(problem, 30, **more)
    part = gsw.run(problem, done, **more)
    rest = gsw.run(problem, 30 - done, state=through_a_file(part.state))
    assert np.array_equal(rest.trace, unbroken.trace[done:])
    assert same(rest.state, unbroken.state)
    assert np.array_equal(rest.best.labels, unbroken.best.labels)
    assert ("ladder" in rest.state) == (ladder is not None)


def test_no_annealing_and_no_moves_change_nothing():
    problem = planar(n=60)
    plain = gsw.run(problem, 30, seed=1)
    for more in (dict(annealing=(5.0, 0)), dict(splits=0), dict(splits=NO_MOVES), dict(ladder=[1.0])):
        assert np.array_equal(gsw.run(problem, 30, seed=1, **more).trace, plain.trace)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (dict(annealing=(0.0, 5)), "temperature"),
        (dict(annealing=(2.0, -1)), "sweeps of annealing"),
        (dict(splits=-1), "splits"),
        (dict(splits=Moves(1, 0, 2.0, 0.0)), "near"),
        (dict(ladder=[0.9, 0.5]), "ladder"),
        (dict(ladder=[1.0, 1.0]), "ladder"),
        (dict(ladder=[1.0, 0.0]), "ladder"),
    ],
)
def test_what_cannot_be_is_refused(more, words):
    with pytest.raises(gsw.InputError, match=words):
        gsw.sample(planar(n=20), 1, **more)


@pytest.mark.slow
def test_each_kernel_of_the_search_is_compiled_once():
    for kind in KINDS.values():
        problem = planar(n=30, words=10, **kind)
        snap = gsw.run(problem, 5, splits=3, annealing=(2.0, 2), ladder=[1.0, 0.5])
        climb_to_maximum(problem, gsw.run(problem, 2, state=snap.state).labels)
    made = [k for module in (split_kernels, greedy, cluster_statistics) for k in vars(module).values()]
    own = [k for k in made if hasattr(k, "signatures") and k.__module__ != jit.__name__]
    compiled = {k.__name__: len(k.signatures) for k in own}
    assert {"split_or_merge", "merge_clusters"} <= set(compiled)
    assert {name: count for name, count in compiled.items() if count > 1} == {}


# ---- tempering


def two_phases():
    """Six sites that are either all together or all apart, half of the time each, and hardly ever in between."""
    edges = [(i, j) for i in range(6) for j in range(i)]
    return gsw.Problem.from_counts(np.ones((6, 1), int), edges, 4.0, gsw.DirichletProcess(float(np.exp(12.96))))


def test_tempering_is_exact_where_a_single_chain_gets_stuck():
    problem = two_phases()
    gibbs = SamplerOptions(bonds.constant_bonds(problem, 0.0))
    alone = start_chain(problem, gibbs)
    assert chain_agreement(alone, 5_000).total_variation > 0.4
    many = add_replicas(start_chain(problem, gibbs), make_ladder(4, 5.0), 0)
    found = chain_agreement(many, 20_000)
    assert found.total_variation < 2.5 * found.noise + 1e-4, found
    assert found.pair_z < 4
    assert found.stray == 0


def test_every_replica_samples_its_power_of_the_posterior():
    """Also the hot ones, and with the state of a replica always matching what is known of it."""
    problem = planar(n=40, words=10)
    chain = add_replicas(begun(problem, moves=make_split_moves(1)), make_ladder(3, 4.0), 0)
    for _ in range(50):
        step(chain, 3)
        for replica in chain.replicas:
            exact = gsw.log_posterior(problem, replica.labels)
            assert replica.sums.value[NOW] == pytest.approx(exact, rel=1e-9)
            assert np.array_equal(np.bincount(replica.labels), replica.state.clusters.size[: replica.labels.max() + 1])
    assert chain.exchanges[:, 0].tolist() == [75, 75]
    assert ((chain.exchanges[:, 1] > 0) & (chain.exchanges[:, 1] < 75)).all()


def test_the_best_state_is_that_of_all_replicas():
    problem = planar(n=60)
    chain = add_replicas(begun(problem), make_ladder(3, 2.0), 0)
    highest = chain.sums.value[NOW]
    for _ in range(60):
        step(chain, 1)
        highest = max(highest, *(replica.sums.value[NOW] for replica in chain.replicas))
        assert chain.sums.value[BEST] == highest
    assert gsw.log_posterior(problem, chain.sums.best) == pytest.approx(highest, rel=1e-9)


def test_an_ensemble_of_tempered_chains():
    problem = planar(n=60)

    def chains():
        return [add_replicas(begun(problem, seed=s, burn_in=10), make_ladder(3, 3.0), s) for s in (1, 2)]

    together = Ensemble(chains())
    for snapshots in together.run(40):
        assert len(snapshots) == 2
    for chain, snap in zip(chains(), snapshots, strict=True):
        step(chain, 40)
        assert same(export_state(chain), snap.state)
        assert len(snap.draws[0]) == 30
        assert snap.state["counted"] == 30
    assert pool_snapshots(snapshots).best.log_posterior == max(s.best.log_posterior for s in snapshots)


def test_a_tempered_chain_that_is_redirected_stays_one():
    problem = planar(n=50)
    chain = add_replicas(begun(problem), make_ladder(3, 3.0), 0)
    step(chain, 5)
    seeds = np.full(50, -1)
    seeds[:3] = (7, 7, 8)
    labels = np.zeros(50, int)
    labels[2] = 1
    new = restart_from(chain, labels, seeds, 9)
    assert len(new.replicas) == 3
    assert [r.options.annealing for r in new.replicas] == [r.options.annealing for r in chain.replicas]
    assert resample_sites(new, np.array([5]))[0] != resample_sites(new, np.array([5]))[2]
    step(new, 20)
    for replica in new.replicas:
        z = replica.labels
        assert z[0] == z[1] != z[2]


def test_a_tempered_chain_takes_over_new_bonds():
    problem = planar(n=50)
    chain = add_replicas(begun(problem), make_ladder(2, 3.0), 0)
    chain.options = chain.options.replace(bonds=bonds.constant_bonds(problem, 0.0), regroups=3)
    step(chain, 1)
    assert chain.hotter[0].options.regroups == 3
    assert not chain.hotter[0].options.bonds.strength.any()
    again = resume_chain(problem, export_state(chain))
    assert np.array_equal(step(again, 5), step(chain, 5))


# ---- the greedy ascent


def neighbours(labels, seeds):
    """Every partition that one site's move or one merge leads to."""
    k = labels.max() + 1
    for i in np.flatnonzero(seeds < 0):
        for new in range(k + 1):
            moved = labels.copy()
            moved[i] = new
            yield moved
    for a in range(k):
        for b in range(a):
            yield np.where(labels == a, b, labels)


def allowed(labels, seeds):
    held = np.flatnonzero(seeds >= 0)
    return np.array_equal(labels[held][:, None] == labels[held], seeds[held][:, None] == seeds[held])


@pytest.mark.parametrize("seeded", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_the_ascent_ends_at_a_local_maximum(kind, seeded):
    problem = planar(n=30, words=10, clusters=3, **KINDS[kind])
    rng = np.random.default_rng(4)
    seeds = np.full(30, -1)
    if seeded:
        seeds[[0, 5, 9]] = (2, 2, 6)
    for k in (1, 3, 9):
        first = rng.permutation(np.arange(30) * k // 30)
        if seeded:  # two clusters of five sites with the seeds, and the others as they are
            first[[0, 5, 1, 2, 3]], first[9:14] = k, k + 1
            first[np.isin(first, np.flatnonzero(np.bincount(first) < 3))] = k
        best = climb_to_maximum(problem, first, seeds)
        assert best.log_posterior >= gsw.log_posterior(problem, first)
        assert best.log_posterior == gsw.log_posterior(problem, best.labels)
        assert allowed(best.labels, seeds)
        values = [gsw.log_posterior(problem, z) for z in neighbours(best.labels, seeds) if allowed(z, seeds)]
        assert max(values) <= best.log_posterior + 1e-7
        again = climb_to_maximum(problem, best.labels, seeds)
        assert np.array_equal(again.labels, best.labels)


def test_the_ascent_raises_the_best_state_of_a_chain_and_draws_nothing():
    problem = planar(n=300, evidence=3.0)
    snap = gsw.run(problem, 1, seed=1, init=np.arange(300) % 40)
    one, two = (climb_to_maximum(problem, snap.labels) for _ in range(2))
    assert one.log_posterior > snap.log_posterior
    assert np.array_equal(one.labels, two.labels)
    with pytest.raises(ValueError, match="read-only"):
        one.labels[0] = 3
