"""The generator, its bookkeeping, its randomness and its state."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import napari_gsw as gsw
from napari_gsw.core import jit
from napari_gsw.core.sampler import bonds, snapshot
from napari_gsw.core.sampler import chain_kernels as kernels
from napari_gsw.core.sampler.chain import make_first_labels, make_start_labels, start_chain, step
from napari_gsw.core.sampler.moves import sweep_kernels
from napari_gsw.core.sampler.options import NO_MOVES, SamplerOptions, needs_regroups
from napari_gsw.core.sampler.state import SWEEPS
from pictures import cells
from problems import planar

KINDS = {
    "words": dict(),
    "three-blocks": dict(blocks=3),
    "gaussian": dict(blocks=0, channels=3),
    "mixed": dict(blocks=2, channels=2),
    "limits": dict(blocks=1, channels=1, prior=gsw.DirichletProcess(1.0).truncated(min_size=4)),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("lam", [0.0, 10.0])
def test_kernel_keeps_the_log_posterior(kind, lam):
    problem = planar(n=120, words=25, **KINDS[kind])
    for snap in gsw.sample(problem, sweeps=150, lam=lam, seed=1, init=np.arange(120) % 7, regroups=1):
        exact = gsw.log_posterior(problem, snap.labels)
        assert snap.log_posterior == pytest.approx(exact, rel=1e-9)
        assert snap.best.log_posterior == pytest.approx(gsw.log_posterior(problem, snap.best.labels), rel=1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_kernel_keeps_the_log_posterior_for_ten_thousand_sweeps(kind):
    problem = planar(n=120, words=25, **KINDS[kind])
    snap = gsw.run(problem, 10_000, lam=5.0, seed=2, init=np.arange(120) % 7, regroups=1)
    assert len(snap.trace) == 10_000
    assert snap.log_posterior == pytest.approx(gsw.log_posterior(problem, snap.labels), rel=1e-9)
    assert snap.trace[:, 0].max() == snap.best.log_posterior


def test_snapshots_tell_the_truth_about_themselves():
    problem = planar()
    start = gsw.log_posterior(problem, np.zeros(problem.n, int))
    highest, sweeps = start, 0
    for snap in gsw.sample(problem, sweeps=25, every=10):
        sweeps += len(snap.trace)
        assert snap.sweep == sweeps
        assert snap.n_clusters == len(np.unique(snap.labels)) == snap.trace[-1, 1]
        assert snap.log_posterior == snap.trace[-1, 0]
        highest = max(highest, snap.trace[:, 0].max())
        assert snap.best.log_posterior == highest
        assert snap.labels[0] == 0
    assert sweeps == 25


def test_a_snapshot_is_immutable_and_is_not_changed_by_later_sweeps():
    problem = planar()
    chain = gsw.sample(problem, sweeps=40, every=20)
    first = next(chain)
    labels, best = first.labels.copy(), first.best.labels.copy()
    state = {name: array.copy() for name, array in first.state.items()}
    next(chain)
    assert np.array_equal(first.labels, labels)
    assert np.array_equal(first.best.labels, best)
    assert all(np.array_equal(first.state[name], array) for name, array in state.items())
    for array in (first.labels, first.best.labels, first.trace, first.together, *first.state.values()):
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 0
    with pytest.raises(AttributeError):
        first.sweep = 3


def test_the_same_seed_gives_the_same_chain_whatever_is_looked_at():
    problem = planar()
    fine = [s.labels for s in gsw.sample(problem, sweeps=30, seed=5, every=1)][-1]
    coarse = [s.labels for s in gsw.sample(problem, sweeps=30, seed=5, every=7)][-1]
    timed = list(gsw.sample(problem, sweeps=30, seed=5, interval=0.001))
    assert np.array_equal(fine, timed[-1].labels)
    assert sum(len(s.trace) for s in timed) == timed[-1].sweep == 30
    other = gsw.run(problem, 30, seed=6).labels
    assert np.array_equal(fine, coarse)
    assert not np.array_equal(fine, other)


@pytest.mark.parametrize("kind", KINDS)
def test_a_restored_chain_continues_bit_for_bit(kind):
    problem = planar(**KINDS[kind])
    whole = gsw.run(problem, 80, seed=3, burn_in=10)
    half = gsw.run(problem, 37, seed=3, burn_in=10)
    file = io.BytesIO()
    np.savez(file, **half.state)  # plain arrays: no pickle is needed to bring them back
    file.seek(0)
    with np.load(file, allow_pickle=False) as saved:
        state = dict(saved)
    rest = gsw.run(planar(**KINDS[kind]), 43, state=state, burn_in=10)
    assert rest.sweep == whole.sweep == 80
    assert np.array_equal(rest.labels, whole.labels)
    assert np.array_equal(rest.trace, whole.trace[37:])
    assert np.array_equal(rest.together, whole.together)
    assert rest.best.sweep == whole.best.sweep
    assert np.array_equal(rest.best.labels, whole.best.labels)
    assert all(np.array_equal(rest.state[name], whole.state[name]) for name in whole.state)


@pytest.mark.parametrize("sweeps", [1, 2, 5])
def test_a_chain_is_restored_while_clusters_vanish_and_arrays_grow(sweeps):
    """From singletons most slots are empty after a sweep; from one cluster the slots run out in the first ones."""
    crowd = gsw.Problem.from_counts(
        np.ones((100, 1), int), [(i, j) for i in range(100) for j in range(i)], 1.0, gsw.DirichletProcess(0.1)
    )
    rng = np.random.default_rng(1)
    apart = gsw.Problem.from_counts(
        rng.integers(0, 9, (120, 10)) * 5, [(i, i + 1) for i in range(119)], 0.1, gsw.DirichletProcess(5.0), phi=5.0
    )
    for problem, init in ((crowd, np.arange(100)), (apart, None)):
        for seed in range(5):
            whole = gsw.run(problem, 12, init=init, lam=0.0, seed=seed)
            part = gsw.run(problem, sweeps, init=init, lam=0.0, seed=seed)
            rest = gsw.run(problem, 12 - sweeps, lam=0.0, state=part.state)
            assert np.array_equal(rest.trace, whole.trace[sweeps:])
            assert np.array_equal(rest.labels, whole.labels)
            assert rest.best.sweep == whole.best.sweep


def test_a_restored_chain_bonds_as_it_did_before():
    problem = planar(n=80, beta=0.4)
    whole = gsw.run(problem, 20, seed=1, bonds=bonds.random_bonds(problem, 0.1, 0.6), regroups=2, burn_in=3)
    part = gsw.run(problem, 8, seed=1, bonds=bonds.random_bonds(problem, 0.1, 0.6), regroups=2, burn_in=3)
    rest = gsw.run(problem, 12, state=part.state)
    assert np.array_equal(rest.trace, whole.trace[8:])
    assert np.array_equal(rest.together, whole.together)


def test_a_state_of_another_problem_is_refused():
    state = gsw.run(planar(n=50), 2).state
    with pytest.raises(gsw.InputError, match="another problem"):
        gsw.sample(planar(n=60), 2, state=state)
    with pytest.raises(gsw.InputError, match="another problem"):
        gsw.sample(planar(n=50, channels=2), 2, state=state)
    with pytest.raises(gsw.InputError, match="lacks 'best_labels'"):
        gsw.sample(planar(n=50), 2, state={k: v for k, v in state.items() if k != "best_labels"})


def test_a_state_of_another_format_is_refused():
    state = dict(gsw.run(planar(n=50), 2).state)
    for other in (state | {"version": np.array(2)}, {k: v for k, v in state.items() if k != "version"}):
        with pytest.raises(gsw.InputError, match=r"format [12], but this version of napari-gsw reads format 3"):
            gsw.sample(planar(n=50), 2, state=other)


def test_the_tables_of_entries_name_all_arrays_of_a_state():
    state = gsw.run(planar(n=50, channels=1), 3, ladder=(1.0, 0.5)).state
    assert set(state) == {"version", *snapshot.CHAIN_ENTRIES, *snapshot.REPLICA_ENTRIES}


def test_together_counts_what_was_seen_after_the_burn_in():
    problem = planar(n=60)
    seen = np.zeros(len(problem.edges))
    for snap in gsw.sample(problem, 30, burn_in=12):
        if snap.sweep <= 12:
            assert np.isnan(snap.together).all()
        else:
            seen += snap.labels[problem.edges[:, 0]] == snap.labels[problem.edges[:, 1]]
    assert np.array_equal(snap.together, seen / 18)


@pytest.mark.parametrize("start", [None, "one", "singletons", "random"])
def test_starts(start):
    problem = planar(n=80)
    init = {None: None, "one": np.zeros(80, int), "singletons": np.arange(80), "random": np.arange(80) * 7 % 5}[start]
    first = gsw.run(problem, 0, init=init)
    expected = 1 if init is None else len(np.unique(init))
    assert (first.sweep, first.n_clusters, len(first.trace)) == (0, expected, 0)
    assert first.log_posterior == pytest.approx(gsw.log_posterior(problem, first.labels), rel=1e-12)
    later = gsw.run(problem, 50, init=init)
    assert later.log_posterior == pytest.approx(gsw.log_posterior(problem, later.labels), rel=1e-9)


@pytest.mark.parametrize(("smallest", "largest"), [(5, None), (1, 7), (5, 8)])
def test_every_state_respects_the_size_limits(smallest, largest):
    problem = planar(n=60, prior=gsw.DirichletProcess(2.0).truncated(smallest, largest))
    for snap in gsw.sample(problem, 100):
        sizes = np.bincount(snap.labels)
        assert sizes.min() >= smallest
        assert sizes.max() <= (largest or 60)


def test_size_limits_are_crossed_by_default():
    """Two interleaved clusters that no connected group can leave: whole-cluster moves come without being asked for."""
    edges = [(0, 1), (1, 2), (2, 3)]
    problem = gsw.Problem.from_counts(np.ones((4, 1), int), edges, 0.3, gsw.DirichletProcess(1.0).truncated(min_size=2))
    seen = {tuple(s.labels) for s in gsw.sample(problem, 500, init=[0, 1, 0, 1], lam=3.0)}
    assert len(seen) == 4


def test_gaps_in_the_number_of_clusters_are_crossed_by_default():
    """With two clusters impossible, one cluster can become three only all at once."""
    prior = gsw.TablePrior([0, 0, -np.inf, 0, 0, 0, 0], np.zeros(7))
    problem = gsw.Problem.from_counts(np.ones((6, 1), int), [(i, i + 1) for i in range(5)], 0.1, prior)
    assert set(gsw.run(problem, 3000).trace[:, 1]) == {1, 3, 4, 5, 6}
    assert not needs_regroups(planar(n=20, prior=gsw.Potts(4)))


def test_a_start_is_found_without_a_search(monkeypatch):
    """Also where the prior allows few partitions, and at once where it allows none."""
    edges = [(i, i + 1) for i in range(2999)]
    counts = np.ones((3000, 1), int)
    pairs = gsw.Problem.from_counts(counts, edges, 0.1, gsw.DirichletProcess(1.0).truncated(max_size=2))
    assert gsw.run(pairs, 0).n_clusters == 1500
    seeds = np.full(3000, -1)
    seeds[:2] = (4, 9)
    few = gsw.Problem.from_counts(counts, edges, 0.1, gsw.DirichletProcess(1.0).truncated(min_size=1000))
    first = gsw.run(few, 0, seeds=seeds).labels
    assert first[0] != first[1]
    assert np.bincount(first).min() >= 1000
    one = gsw.Problem.from_counts(counts, edges, 0.1, gsw.Potts(1))
    with pytest.raises(gsw.InputError, match="no simple start"):
        gsw.run(one, 0, seeds=seeds)


def test_run_drains_whatever_it_is_asked_to_yield():
    problem = planar(n=40)
    whole = gsw.run(problem, 50, seed=1)
    for more in (dict(interval=0.001), dict(every=7)):
        again = gsw.run(problem, 50, seed=1, **more)
        assert np.array_equal(again.trace, whole.trace)
        assert again.sweep == 50


@pytest.mark.parametrize("more", [dict(regroups=1.5), dict(burn_in=-1), dict(seed=-1), dict(sweeps=1.5), dict(every=0)])
def test_numbers_of_the_chain_are_checked(more):
    with pytest.raises(gsw.InputError, match="must be a whole number"):
        gsw.sample(planar(n=20), **more)
    with pytest.raises(gsw.InputError, match="seeds must be numbers in"):
        gsw.sample(planar(n=20), seeds=[2**33] * 20)


def test_more_sweeps_than_memory_has_room_for_are_refused(monkeypatch):
    def full(*_):
        raise MemoryError

    problem = planar()
    chain = start_chain(problem, SamplerOptions(bonds.constant_bonds(problem, 0.0)), 0)
    monkeypatch.setattr(np, "empty", full)
    with pytest.raises(gsw.InputError, match="sweeps must be fewer than 9,000"):
        step(chain, 9000)


def test_a_bond_probability_of_zero_is_gibbs():
    problem = planar(n=60, beta=0.5)
    zero = gsw.run(problem, 30, seed=2, bonds=bonds.random_bonds(problem, 0.0, 0.0))
    assert np.array_equal(zero.trace, gsw.run(problem, 30, seed=2, lam=0.0).trace)
    assert not bonds.random_bonds(problem, 0.0, 0.0).strength.any()


@pytest.mark.parametrize("share", [1.0, 0.5, 0.3, 0.1, 0.07])
def test_a_share_of_the_sweeps_is_full_and_the_first_always(share):
    full = [kernels.is_full_sweep(share, done) for done in range(1000)]
    assert full[0]
    assert sum(full) == pytest.approx(1000 * share, abs=1)
    gaps = np.diff(np.flatnonzero(full))
    assert set(gaps) <= {int(1 / share), int(np.ceil(1 / share))}


@pytest.mark.parametrize("kind", KINDS)
def test_sweeps_over_the_clusters_next_door_keep_the_log_posterior(kind):
    problem = planar(n=120, words=25, **KINDS[kind])
    for snap in gsw.sample(problem, sweeps=60, lam=4.0, seed=1, init=np.arange(120) % 6, full_scans=0.2, splits=1):
        assert snap.log_posterior == pytest.approx(gsw.log_posterior(problem, snap.labels), rel=1e-9)
        assert snap.n_clusters == snap.trace[-1, 1]


def test_in_a_sweep_that_is_not_full_no_site_joins_a_cluster_it_does_not_touch():
    """Two equal ends of a path mix when every cluster is weighed, and never when only those next door are."""
    truth = np.arange(30) // 10
    counts = np.where(truth[:, None] == 1, [0, 40], [40, 0])
    problem = gsw.Problem.from_counts(counts, [(i, i + 1) for i in range(29)], 0.05, gsw.DirichletProcess(1.0), phi=2.0)
    for share, mixed in ((0.01, False), (1.0, True)):
        moves = NO_MOVES._replace(full=share)
        chain = start_chain(problem, SamplerOptions(bonds.constant_bonds(problem, 0.0), moves=moves), 0, truth)
        chain.sums.counted[SWEEPS] = 1  # the first sweep is always full
        step(chain, 60)
        assert bool(set(chain.labels[:10]) & set(chain.labels[20:])) == mixed


def test_full_scans_are_part_of_the_state():
    problem = planar(n=80)
    whole = gsw.run(problem, 20, seed=1, full_scans=0.3)
    part = gsw.run(problem, 8, seed=1, full_scans=0.3)
    assert np.array_equal(gsw.run(problem, 12, state=part.state).trace, whole.trace[8:])
    assert not np.array_equal(gsw.run(problem, 12, state=part.state, full_scans=1.0).trace, whole.trace[8:])
    assert np.array_equal(gsw.run(problem, 12, state=part.state, splits=0).trace, whole.trace[8:])
    for share in (0.0, 1.5, np.nan):
        with pytest.raises(gsw.InputError, match="full_scans must be a number in"):
            gsw.sample(problem, 1, full_scans=share)


@pytest.mark.parametrize("t", [1e-9, 0.2, 0.999, 2.0, 3.5, 40.0])
def test_bonds_by_bounds_are_bonds_by_the_exponential(t):
    chance = -np.expm1(-t)
    uniform = np.concatenate((np.linspace(0, 1, 1000, endpoint=False), chance * (1 + 1e-9 * np.array([-1, 1]))))
    assert [sweep_kernels.is_bonded(t, u) for u in uniform] == (uniform < chance).tolist()


def test_clamped_sites_stay_as_they_were_given():
    problem = planar(n=100)
    seeds = np.full(100, -1)
    seeds[[0, 10, 20]] = 3
    seeds[[1, 11]] = 7
    seeds[50] = 0
    for snap in gsw.sample(problem, 60, seeds=seeds, regroups=1):
        z = snap.labels
        assert z[0] == z[10] == z[20]
        assert z[1] == z[11]
        assert len({z[0], z[1], z[50]}) == 3
    again = gsw.run(problem, 20, state=snap.state)
    assert again.labels[0] == again.labels[20] != again.labels[1]


def test_a_chain_grows_from_one_cluster_to_many_and_back():
    """More clusters than the first arrays hold, and then fewer, so that slots are added, freed and closed up."""
    rng = np.random.default_rng(0)
    counts = np.eye(150, dtype=int) * 400 + rng.integers(0, 2, (150, 150))
    apart = gsw.Problem.from_counts(counts, [(i, i + 1) for i in range(149)], 0.01, gsw.DirichletProcess(50.0), phi=1.0)
    many = gsw.run(apart, 30, lam=1.0)
    assert many.n_clusters > 60
    few = gsw.Problem.from_counts(
        counts * 0 + 1, [(i, i + 1) for i in range(149)], 3.0, gsw.DirichletProcess(0.01), phi=1.0
    )
    joined = gsw.run(few, 60, lam=1.0, init=np.arange(150))
    assert joined.n_clusters < 5
    for problem, snap in ((apart, many), (few, joined)):
        assert snap.log_posterior == pytest.approx(gsw.log_posterior(problem, snap.labels), rel=1e-9)


SCRIPT = """
import hashlib, sys
sys.path.insert(0, {tests!r})
import napari_gsw as gsw
from napari_gsw.core.sampler.greedy import climb_to_maximum
from pictures import cells
from problems import planar
digest = hashlib.sha256()
search = dict(splits=3, annealing=(3.0, 4), ladder=[1.0, 0.5])
for more in (dict(), dict(blocks=2, channels=2, prior=gsw.DirichletProcess(1.0).truncated(min_size=2))):
    problem = planar(n=40, words=12, **more)
    for how in (dict(), search):
        for snap in gsw.sample(problem, 12, seed=4, lam=4.0, regroups=1, **how):
            digest.update(snap.labels.tobytes())
            digest.update(repr(snap.log_posterior).encode())
    digest.update(climb_to_maximum(problem, snap.labels).labels.tobytes())
print(digest.hexdigest())
"""


def test_without_compilation_the_labels_are_the_same():
    script = SCRIPT.format(tests=str(Path(__file__).parents[2]))
    found = [
        subprocess.run(
            [sys.executable, "-c", script], env=os.environ | more, capture_output=True, text=True, check=True
        ).stdout
        for more in ({}, {"NUMBA_DISABLE_JIT": "1"})
    ]
    assert found[0] == found[1]
    assert len(found[0].strip()) == 64


def test_each_kernel_is_compiled_once():
    """Whatever the types of the user's arrays, the kernels see one type."""
    rng = np.random.default_rng(0)
    for dtype in (np.uint8, np.int32, np.int64, np.float64):
        counts = rng.integers(0, 5, (12, 6)).astype(dtype)
        edges = np.array([(i, i + 1) for i in range(11)], dtype=np.int64 if dtype == np.float64 else np.int32)
        problem = gsw.Problem.from_counts(counts, edges, np.float32(0.1), gsw.Potts(4).truncated(min_size=2))
        snap = gsw.run(problem, 3, lam=np.ones(11, np.float32))
        gsw.run(problem, 3, state=snap.state)
    gsw.run(planar(n=30, blocks=1, channels=2), 2)
    made = {name: k for name in dir(kernels) if hasattr(k := getattr(kernels, name), "signatures")}
    compiled = {name: k for name, k in made.items() if k.__module__ != jit.__name__}
    assert "advance" in compiled
    most = {"advance": 2}  # once with split-merge moves, which a chain without them does not compile
    assert {name: len(k.signatures) for name, k in compiled.items() if len(k.signatures) > most.get(name, 1)} == {}


# ---- counts beyond the tables


@pytest.mark.parametrize("phi", [20.0, 900.0, 1100.0, 5000.0])
@pytest.mark.parametrize("full_scans", [1.0, 0.3])
def test_counts_and_evidence_scaled_together_are_the_same_posterior(phi, full_scans):
    """Counts times 300,000 at fixed evidence say the same, though they lie far beyond the tables: the traces agree."""
    rng = np.random.default_rng(3)
    shares = rng.dirichlet(np.full(6, 0.5), 3)
    counts = np.array([rng.multinomial(40, shares[i * 3 // 45]) for i in range(45)])
    edges = [(i, i + 1) for i in range(44)] + [(i, i + 4) for i in range(41)]
    traces = [
        gsw.run(
            gsw.Problem.from_counts(counts * scale, edges, 0.2, gsw.DirichletProcess(2.0), phi, evidence=30.0),
            25, seed=2, lam=3.0, init=np.arange(45) % 9, full_scans=full_scans,
        ).trace
        for scale in (1, 300_000)
    ]  # fmt: skip
    assert np.array_equal(traces[0][:, 1], traces[1][:, 1])
    assert traces[0][:, 0] == pytest.approx(traces[1][:, 0], abs=1e-6)


# ---- starts with seeds

RANDOM = gsw.Settings(start="random", start_clusters=20)
IMAGE = cells()[0][:70, :60]


def seeds_at(n, *places):
    """(n,) seeds: the numbers 3, 7, 9, ... at some lists of sites."""
    seeds = np.full(n, -1, np.int32)
    for number, sites in zip((3, 7, 9, 11), places, strict=False):
        seeds[list(sites)] = number
    return seeds


def obeyed(labels, seeds):
    """Return whether sites of one seed are together and apart from those of another."""
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
