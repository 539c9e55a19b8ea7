"""Watching and steering a chain, as plain arrays: numbers, strokes, locks, undo, looking back."""

from __future__ import annotations

import numpy as np
import pytest

import napari_gsw as gsw
from napari_gsw.core.interactive.action_log import History
from napari_gsw.core.interactive.interactive_run import InteractiveRun
from napari_gsw.core.model.problem import site_pixels
from napari_gsw.core.pipeline.segment import make_ensemble
from napari_gsw.core.posterior.region_table import measure_regions
from napari_gsw.core.posterior.regions import make_boundary_image
from napari_gsw.core.sampler.chain import resample_sites, restart_from
from napari_gsw.core.sampler.ensemble import Ensemble, pool_snapshots, spawn_seeds
from napari_gsw.core.sites.site_values import mean_per_site
from napari_gsw.sample_data import mosaic
from napari_gsw.scores.partitions import variation_of_information


@pytest.fixture(scope="module")
def image():
    return mosaic()[0][:120, :160]


# Settings with which a chain soon has several clusters and goes on moving them.
LIVELY = gsw.preset(
    "paper", site_count=None, site_size=60, colours="lab", coupling="contrast", beta=1.5, alpha=0.3, evidence=7.0,
    texture_words=32, sampler="bond-drawn", bond=0.5, start="random",
)  # fmt: skip


@pytest.fixture(scope="module")
def problem(image):
    return gsw.prepare(image, LIVELY)


def live(problem, sweeps=40, **changes):
    settings = problem.settings.replace(sweeps=sweeps, **changes)
    made = InteractiveRun(problem, settings, seed=3)
    made.target = sweeps
    return made


def drain(chain):
    while chain.sweep < chain.target:
        chain.advance()
    return chain


def test_numbers_do_not_depend_on_how_often_somebody_looks(problem):
    """Nor on whether a chain was saved and restored on its way."""

    def begun():
        chain = InteractiveRun(problem, problem.settings.replace(sweeps=73), 1)
        chain.target = 73
        return chain

    looks = []
    for chunk in (50, 1, 7):
        chain = begun()
        while chain.sweep < chain.target:
            chain.advance(min(chunk, chain.target - chain.sweep))
        looks.append(chain.display_labels)
    chain = begun()
    for stop in (23, 37, 60):
        while chain.sweep < stop:
            chain.advance(min(13, stop - chain.sweep))
        chain = InteractiveRun.restore(chain.save())
    looks.append(drain(chain).display_labels)
    assert len(np.unique(looks[0])) > 2
    for numbers in looks[1:]:
        assert np.array_equal(numbers, looks[0])


def test_numbers_of_a_long_run_do_not_depend_on_how_often_somebody_looks(problem):
    """Fewer anchors than one in fifty sweeps."""
    looks = []
    for chunk in (1000, 61):
        chain = live(problem, sweeps=1830)
        chain.ensemble._size = chunk
        while chain.sweep < chain.target:
            chain.advance(min(chunk, chain.target - chain.sweep))
        looks.append(chain.display_labels)
    assert np.array_equal(*looks)


def consistent(chain):
    """The numbers on the screen are the partition of the first chain, and its log posterior is right."""
    first = chain.ensemble.snapshots[0]
    assert variation_of_information(chain.display_labels, first.labels) == pytest.approx(0, abs=1e-9)
    assert first.log_posterior == pytest.approx(gsw.log_posterior(chain.problem, first.labels), rel=1e-9)
    for c in chain.ensemble.chains:
        held = c.seeds >= 0
        assert np.array_equal(held, chain.locks)
        assert (
            variation_of_information(c.labels[held], c.seeds[held]) == pytest.approx(0, abs=1e-9) if held.any() else 1
        )
    assert chain.display_labels.min() > 0


def test_watching_changes_nothing(problem, image):
    chain = drain(live(problem))
    api = gsw.segment(image, LIVELY, seed=3, sweeps=40)
    assert np.array_equal(chain.snapshot.best.labels, api.snapshot.best.labels)
    assert chain.snapshot.log_posterior == api.snapshot.log_posterior
    assert np.array_equal(chain.snapshot.together, api.snapshot.together)
    assert np.array_equal(chain.traces[0][:, 0], api.trace.log_posterior)


def test_several_chains_are_the_single_ones(problem, image):
    settings = problem.settings.replace(sweeps=30, chains=3)
    ensemble = make_ensemble(problem, settings, 5)
    for _ in ensemble.run(30):
        pass
    seeds = spawn_seeds(5, 3)
    assert len(set(seeds)) == 3
    alone = [make_ensemble(problem, settings.replace(chains=1), s) for s in seeds]
    for single, one in zip(alone, ensemble.snapshots, strict=True):
        for _ in single.run(30):
            pass
        assert np.array_equal(single.snapshots[0].labels, one.labels)
    all_of_them = pool_snapshots(ensemble.snapshots)
    assert all_of_them.best.log_posterior == max(s.best.log_posterior for s in ensemble.snapshots)
    assert np.allclose(all_of_them.together, np.mean([s.together for s in ensemble.snapshots], axis=0))
    result = gsw.segment(image, LIVELY, seed=5, sweeps=30, chains=3)
    assert len(result.traces) == 3
    assert np.array_equal(result.snapshot.best.labels, all_of_them.best.labels)


def test_a_stroke_moves_sites_in_every_chain(problem):
    chain = live(problem, chains=2)
    chain.advance()
    first, other = np.unique(chain.display_labels)[:2]
    sites = np.flatnonzero(chain.display_labels == first)[:5]
    chain.paint(sites, other)
    assert (chain.display_labels[sites] == other).all()
    consistent(chain)
    for c in chain.ensemble.chains:
        assert len(np.unique(c.labels[sites])) == 1
    drain(chain)
    consistent(chain)
    # The run begins anew at a correction.
    assert chain.sweep == len(chain.traces[0]) == 40 + chain.log.corrections[0]["sweep"]
    # A new number makes a new cluster,
    before, new = chain.ensemble.snapshots[0].n_clusters, int(chain.display_labels.max()) + 7
    sites = np.flatnonzero(chain.display_labels == np.bincount(chain.display_labels).argmax())[:9]
    chain.paint(sites, new)
    assert chain.ensemble.snapshots[0].n_clusters == before + 1
    assert (chain.display_labels[sites] == new).all()
    consistent(chain)
    # paint over a lock moves it and keeps it,
    chain.paint(np.arange(4), 41, lock=True)
    chain.paint(np.arange(2), 42)
    assert chain.locks[:4].all()
    chain.update_settings(chain.settings.replace(sampler="gsw", lam=3.0))
    chain.run_for(20)
    drain(chain)
    assert chain.display_labels[:4].tolist() == [42, 42, 41, 41]
    consistent(chain)
    # and a freed site is left to the chain.
    chain.paint([0], 0)
    assert not chain.locks[0]
    consistent(chain)
    with pytest.raises(gsw.InputError, match="next run"):
        chain.update_settings(chain.settings.replace(alpha=9.0))


@pytest.mark.parametrize("count", [1, 3])
def test_locked_sites_keep_their_number_for_ever(problem, count):
    chain = live(problem, sweeps=60, chains=count)
    chain.advance()
    rng = np.random.default_rng(0)
    a, b = rng.choice(problem.n, 20, replace=False).reshape(2, 10)
    chain.paint(a, 41, lock=True)
    chain.paint(b, 42, lock=True)
    while chain.sweep < chain.target:
        chain.advance()
        assert (chain.display_labels[a] == 41).all()
        assert (chain.display_labels[b] == 42).all()
        assert (chain.shown("best")[a] == 41).all()
    consistent(chain)
    chain.unlock(a)
    assert chain.locks.sum() == 10
    chain.target = 120
    drain(chain)
    consistent(chain)
    assert (chain.display_labels[b] == 42).all()
    assert not (chain.display_labels[a] == 41).all()  # ten sites from anywhere do not stay together of themselves


def test_a_lock_keeps_its_number_when_most_of_its_region_leaves(problem):
    chain = drain(live(problem))
    number = int(np.bincount(chain.display_labels, site_pixels(chain.problem)).argmax())
    site = int(np.flatnonzero(chain.display_labels == number)[0])
    chain.lock([site])
    apart = chain.display_labels.copy()
    apart[site] = apart.max() + 1
    labels = np.unique(apart, return_inverse=True)[1].astype(np.int32)
    named = chain.named(labels)
    assert named[site] == number
    assert (named[(chain.display_labels == number) & (np.arange(problem.n) != site)] != number).all()


@pytest.mark.slow
def test_a_freed_site_is_drawn_from_its_law(problem):
    """Against the law of one site given all the others, by log_posterior for each place it can go."""
    rng = np.random.default_rng(1)
    small = gsw.Problem.from_counts(rng.integers(0, 3, (6, 4)), [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5)], beta=0.3)
    state = np.array([0, 0, 1, 1, 2, 2])
    (chain,) = Ensemble([_chain(small, state)]).chains
    law = []
    for place in (0, 1, 2, 3):
        moved = state.copy()
        moved[2] = place
        law.append(gsw.log_posterior(small, moved))
    law = np.exp(np.array(law) - np.logaddexp.reduce(law))
    draws = np.zeros(4)
    for _ in range(8_000):
        labels = resample_sites(chain, np.array([2]))
        assert np.array_equal(labels[[0, 0, 4, 4]] == labels[[1, 3, 5, 0]], [True, False, True, False])
        draws[0 if labels[2] == labels[0] else 1 if labels[2] == labels[3] else 2 if labels[2] == labels[4] else 3] += 1
    assert np.abs(draws / draws.sum() - law).max() < 0.02


def _chain(problem, labels):
    from napari_gsw.core.sampler import bonds
    from napari_gsw.core.sampler.chain import start_chain
    from napari_gsw.core.sampler.options import SamplerOptions

    return start_chain(problem, SamplerOptions(bonds.constant_bonds(problem, 1.0)), 7, labels)


def test_undo_and_redo_go_through_the_chain(problem):
    chain = drain(live(problem))
    before, locks = chain.display_labels.copy(), chain.locks.copy()
    chain.paint(np.arange(10), 50, lock=True)
    chain.paint(np.arange(5, 15), 51)
    after = chain.display_labels.copy()
    assert chain.undo()
    assert chain.undo()
    assert not chain.undo()
    assert np.array_equal(chain.display_labels, before)
    assert np.array_equal(chain.locks, locks)
    consistent(chain)
    assert chain.redo()
    assert chain.redo()
    assert not chain.redo()
    assert np.array_equal(chain.display_labels, after)
    consistent(chain)


def test_undo_after_more_sweeps_touches_only_the_strokes_sites(problem):
    chain = live(problem, sweeps=60)
    chain.target = 20
    drain(chain)
    chain.paint(np.arange(10), 50, lock=True)
    before = chain.display_labels.copy()
    chain.run_for(40)
    drain(chain)
    rest = chain.display_labels[10:].copy()
    chain.undo()
    consistent(chain)
    assert np.array_equal(chain.display_labels[10:], rest)
    assert not chain.locks.any()
    assert not np.array_equal(chain.display_labels[:10], before[:10])


def test_what_the_prior_forbids_is_refused_as_a_whole(problem, image):
    small = gsw.prepare(image, LIVELY, prior="potts", K=4, start="one", sampler="gsw")
    chain = live(small)
    chain.paint(np.arange(5), 2)
    before = chain.display_labels.copy()
    with pytest.raises(gsw.InputError, match="prior forbids"):
        chain.paint(np.arange(20), np.arange(20) + 1)
    assert np.array_equal(chain.display_labels, before)
    assert not chain.locks.any()
    consistent(chain)
    with pytest.raises(gsw.InputError, match="65535"):
        chain.paint([0], 70_000)


def test_best_and_sums_begin_anew_at_a_correction(problem):
    chain = live(problem, sweeps=40, burn_in=0.5)
    chain.target = 40
    drain(chain)
    assert np.isfinite(chain.snapshot.together).all()
    chain.paint(np.arange(30), 50)
    assert np.isnan(chain.snapshot.together).all()
    assert chain.snapshot.best.log_posterior == chain.snapshot.log_posterior
    assert chain.snapshot.best.sweep == 40
    chain.run_for(40)
    drain(chain)
    assert np.isfinite(chain.snapshot.together).all()
    assert [step["sweep"] for step in chain.log.corrections] == [40]


def test_going_back_to_an_earlier_state(problem):
    chain = live(problem)
    for _ in range(4):
        chain.advance()
    sweep, numbers = chain.history.nearest(2)
    drain(chain)
    chain.revert_to(numbers)
    assert variation_of_information(chain.display_labels, numbers) == pytest.approx(0, abs=1e-9)
    assert sweep <= 8
    consistent(chain)


def test_memory_is_bounded_and_even():
    memory = History(max_bytes=2000)
    for sweep in range(1000):
        memory.keep(sweep, np.full(10, sweep % 60_000))
    assert 40 <= len(memory.sweeps) <= 100
    assert memory.sweeps[0] == 0
    gaps = np.diff(memory.sweeps)
    assert gaps.max() <= 2 * gaps.min()
    for wanted in (0, 333, 999):
        found, numbers = memory.nearest(wanted)
        assert abs(found - wanted) <= gaps.max()
        assert (numbers == found).all()


def test_a_redirected_chain_must_respect_its_seeds(problem):
    (chain,) = make_ensemble(problem, problem.settings, 0).chains
    seeds = np.full(problem.n, -1)
    seeds[:2] = 3
    with pytest.raises(gsw.InputError, match="same seed"):
        restart_from(chain, np.arange(problem.n), seeds, 0)


def test_seeds_give_the_numbers(problem, image):
    seeds = np.zeros(image.shape[:2], np.uint16)
    seeds[:20, :20] = 7
    seeds[-20:, -20:] = 3
    chain = InteractiveRun(problem, problem.settings.replace(sweeps=30), 0, seeds=seeds)
    chain.target = 30
    drain(chain)
    api = gsw.segment(image, LIVELY, seeds=seeds, sweeps=30)
    painted = problem.paint(chain.shown("best"))
    assert (painted[:15, :15] == 7).all()
    assert (painted[-15:, -15:] == 3).all()
    assert np.array_equal(chain.snapshot.best.labels, api.snapshot.best.labels)
    # So does a start of the user.
    init = np.where(np.arange(image.shape[1]) < 80, 12, 5)[np.newaxis].repeat(image.shape[0], 0)
    chain = InteractiveRun(problem, problem.settings, 0, init=init)
    assert sorted(np.unique(chain.display_labels)) == [5, 12]
    assert np.mean(problem.paint(chain.display_labels) == init) > 0.95


def test_region_table_against_slow_obvious_code(problem, image):
    chain = drain(live(problem))
    means = mean_per_site(image, problem.sites)
    table = measure_regions(problem, chain.display_labels, chain.snapshot.together, means, pixel_size=0.25)
    painted = problem.paint(chain.display_labels)
    together = chain.snapshot.together
    for row, number in enumerate(table["index"]):
        inside = painted == number
        assert table["pixels"][row] == inside.sum()
        assert table["area"][row] == pytest.approx(inside.sum() / 4)
        assert table["share"][row] == pytest.approx(100 * inside.mean())
        for c in range(3):
            assert table[f"mean_{c + 1}"][row] == pytest.approx(image[inside, c].mean())
        total = weight = 0.0
        touching = set()
        for (i, j), p, length in zip(problem.edges, together, problem.graph.length, strict=True):
            ends = chain.display_labels[i], chain.display_labels[j]
            times = ends.count(number)
            total += times * length * (p if ends[0] == ends[1] else 1 - p)
            weight += times * length
            if times == 1:
                touching |= set(ends) - {number}
        assert table["stability"][row] == pytest.approx(total / weight)
        assert table["neighbours"][row] == " ".join(str(t) for t in sorted(touching))
    assert table["share"].sum() == pytest.approx(100)


def test_boundary_image_against_slow_obvious_code(problem):
    rng = np.random.default_rng(0)
    together = rng.random(len(problem.edges))
    image = make_boundary_image(problem, together)
    value = {(i, j): 1 - p for (i, j), p in zip(problem.edges.tolist(), together, strict=True)}
    sites = problem.sites
    for y, x in rng.integers(1, 100, (300, 2)):
        here = sites[y, x] - 1
        around = [sites[y + dy, x + dx] - 1 for dy, dx in ((0, 1), (1, 0), (0, -1), (-1, 0))]
        expected = max((value[min(here, o), max(here, o)] for o in around if o != here), default=0)
        assert image[y, x] == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("view", ["clusters", "regions"])
def test_a_corrected_segmentation_is_exported_in_its_view_with_the_users_numbers(problem, image, view):
    from napari_gsw.widgets.session.array_run import ArrayRun

    chain = drain(live(problem, view=view))
    part = ArrayRun(chain, image, "YXS")
    api = gsw.segment(image, LIVELY, seed=3, sweeps=40, view=view)
    assert np.array_equal(part.final(), api.labels)
    sites = np.flatnonzero(chain.display_labels == chain.display_labels[0])
    chain.paint(sites, 777, lock=True)
    final = part.final()
    assert (final[np.isin(problem.sites, sites + 1)] == 777).any()
    found = chain.summary.regions if view == "regions" else chain.summary.clusters
    assert len(np.unique(final)) == len(np.unique(found))


def steered_chain(problem, **changes):
    """A chain of two painted corners, before its first sweep."""
    seeds = np.zeros(problem.sites.shape, np.uint16)
    seeds[:20, :20], seeds[-20:, -20:] = 7, 3
    return InteractiveRun(problem, problem.settings.replace(sweeps=30, **changes), 0, seeds=seeds)


def test_a_stroke_teaches_a_live_chain_about_sites_that_it_does_not_touch(problem):
    chain = InteractiveRun(problem, problem.settings.replace(sweeps=30), 0)
    chain.target = 30
    drain(chain)
    assert chain.problem.field is None
    biggest = np.bincount(chain.display_labels).argmax()
    sites = np.flatnonzero(chain.display_labels == biggest)
    chain.paint(sites[:2], 99, lock=True)
    assert chain.problem.field is not None
    chain.settle()
    drain(chain)
    assert np.count_nonzero(chain.display_labels == 99) > 2
    consistent(chain)
    chain.unlock(np.flatnonzero(chain.locks))
    assert chain.problem.field is None


def test_closed_labels_stay_closed_with_every_correction(problem):
    chain = steered_chain(problem, steering=0.0)
    assert chain.problem.field is None
    assert not chain.problem.closed
    chain = steered_chain(problem)
    assert chain.problem.closed
    assert set(np.unique(chain.display_labels)) == {3, 7}
    chain.target = 30
    drain(chain)
    chain.paint([50], 12, lock=True)
    drain(chain)
    assert set(np.unique(chain.display_labels)) == {3, 7, 12}
    chain.unlock(np.flatnonzero(chain.display_labels == 12))
    drain(chain)
    assert set(np.unique(chain.display_labels)) == {3, 7}
    chain.unlock(np.flatnonzero(chain.locks))
    assert not chain.problem.closed
    consistent(chain)


def test_open_corrections_never_close_a_run_that_was_open(problem):
    chain = InteractiveRun(problem, problem.settings.replace(sweeps=30), 0)
    chain.target = 30
    drain(chain)
    chain.paint([3], 98, lock=True)
    chain.paint([60], 99, lock=True)
    assert not chain.problem.closed
    chain.update_settings(chain.settings.replace(only_painted="yes"))
    assert chain.problem.closed
    assert set(np.unique(chain.display_labels)) == {98, 99}
    chain.update_settings(chain.settings.replace(only_painted="no"))
    assert not chain.problem.closed


def test_undo_of_a_stroke_at_rest_takes_back_what_followed_from_it(problem):
    chain = InteractiveRun(problem, problem.settings.replace(sweeps=30), 0)
    chain.target = 30
    drain(chain)
    before = chain.display_labels.copy()
    chain.paint(np.flatnonzero(chain.display_labels == np.bincount(chain.display_labels).argmax())[:2], 99, lock=True)
    chain.settle()
    drain(chain)
    chain.undo()
    assert np.array_equal(chain.display_labels, before)
    assert not chain.locks.any()
    chain.redo()
    assert (chain.display_labels == 99).any()
