"""Every public function, whatever it is given: what it promises, or a sentence that says what to do.

Warnings are errors here too, so that nothing overflows in silence; and what would crash the interpreter ends the test.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import napari_gsw as gsw
from napari_gsw.core.model.problem import check_labels
from napari_gsw.core.sampler import bonds
from napari_gsw.core.sampler.snapshot import LOG_DRIFT
from napari_gsw.core.sampler.state import Bonds, Moves
from napari_gsw.core.settings import setting_fields
from strategies import arrays, beside, fuzzed, images, is_large, junk, numbers, priors, problems, refused, some_of

SWEEPS = 3


def check_snapshot(problem, snapshot, drift=1e-6):
    """A partition, its log posterior, and a state from which the chain goes on."""
    assert snapshot.labels.shape == (problem.n,)
    first = np.unique(snapshot.labels, return_index=True)[1]
    assert np.array_equal(snapshot.labels[np.sort(first)], np.arange(len(first)))
    for state in (snapshot, snapshot.best):
        exact = gsw.log_posterior(problem, state.labels)
        assert math.isfinite(exact)
        tables = np.concatenate(problem.tables)
        scale = 1 + float(np.abs(tables[np.isfinite(tables)]).sum())  # running sums are as exact as their largest term
        scale += sum(abs(block.log_marginal(np.arange(problem.n))) for block in problem.likelihoods)
        rounding = 1e-9 * (scale + np.abs(problem.beta).sum()) + 1e-14 * np.abs(problem.evidence.table).sum()
        rounding += sum(b.rounding(state.labels) for b in problem.likelihoods if isinstance(b, gsw.Gaussian))
        assert state.log_posterior == pytest.approx(exact, rel=drift, abs=rounding)
    assert not (snapshot.together < 0).any()
    assert not (snapshot.together > 1).any()


# ---- chains


@fuzzed
@given(st.data())
def test_run(data):
    problem = data.draw(problems())
    n, m = problem.n, len(problem.edges)
    some = {
        "seed": st.integers(0, 5),
        "lam": st.sampled_from((0.0, 1.0, 10.0, 1e300, np.linspace(0, 3, m))),
        "init": st.lists(st.sampled_from((0, 1, 2, -5, 2**62)), min_size=n, max_size=n),
        "seeds": st.lists(st.sampled_from((-1, -1, 0, 1, 2**31 - 1)), min_size=n, max_size=n),
        "regroups": st.integers(0, 2),
        "burn_in": st.integers(0, 4),
        "splits": st.sampled_from((0, 1, 2, Moves(1, 0, 1.0, 0.0), Moves(2, 1, 0.0, 1.0))),
        "full_scans": st.sampled_from((1.0, 0.5, 1e-300)),
        "annealing": st.sampled_from(((4.0, 2), (1e-12, 3), (1e12, 2), (1.0, 0))),
        "ladder": st.sampled_from(((1.0,), (1.0, 0.5), (1.0, 0.3, 1e-12))),
        "bonds": st.sampled_from((Bonds(np.full(m, 0.3), 0.0, 0.0), bonds.random_bonds(problem, 0.0, 0.9))),
        "every": st.integers(1, 4),
    }
    chosen = {name: data.draw(some[name]) for name in data.draw(some_of(sorted(some), max_size=5))}
    snapshot = refused(gsw.run, problem, SWEEPS, **chosen)
    if snapshot is None:
        return
    check_snapshot(problem, snapshot)
    assert snapshot.trace.shape == (SWEEPS, 3)
    assert np.isfinite(snapshot.trace).all()
    if "seeds" in chosen:
        held = np.asarray(chosen["seeds"])
        clamped = held >= 0
        same = held[clamped][:, None] == held[clamped]
        assert np.array_equal(snapshot.labels[clamped][:, None] == snapshot.labels[clamped], same)
    rest = gsw.run(problem, 1, state=snapshot.state)
    check_snapshot(problem, rest)
    assert rest.sweep == SWEEPS + 1


@fuzzed
@given(st.data())
def test_run_with_one_argument_that_is_anything(data):
    problem = data.draw(problems(4))
    name = data.draw(st.sampled_from((
        "sweeps", "seed", "lam", "init", "seeds", "regroups", "burn_in", "splits", "full_scans", "annealing", "ladder",
        "bonds", "every", "state", "interval",
    )))  # fmt: skip
    value = data.draw(st.one_of(junk, arrays(most=4, most_axes=2), st.tuples(numbers, numbers)))
    if name in ("regroups", "splits", "sweeps") and is_large(value):
        return
    snapshot = refused(gsw.run, problem, **{"sweeps": 1, name: value})
    if snapshot is not None:
        check_snapshot(problem, snapshot)


@fuzzed
@given(st.data())
def test_run_from_a_tampered_state(data):
    problem = data.draw(problems(5))
    ladder = data.draw(st.sampled_from((None, (1.0, 0.4))))
    start = refused(gsw.run, problem, 2, ladder=ladder, splits=data.draw(st.integers(0, 1)))
    if start is None:
        return
    state = dict(start.state)
    for name in data.draw(some_of(sorted(state), min_size=1, max_size=2)):
        array = state[name].copy()
        how = data.draw(st.sampled_from(("entry", "type", "anything", "shape")))
        if how == "entry" and array.size:
            wide = array.astype(np.float64 if array.dtype.kind == "f" else np.int64)
            value = data.draw(st.sampled_from((-1, 0, 1, 2, 5, 1000, 2**40, -(2**62))))
            wide.reshape(-1)[data.draw(st.integers(0, wide.size - 1))] = value
            state[name] = wide
        elif how == "type":
            with np.errstate(all="ignore"):
                state[name] = array.astype(
                    data.draw(st.sampled_from((">i8", ">f8", "float32", "int8", "uint64", "U9")))
                )
        elif how == "anything":
            state[name] = data.draw(st.one_of(junk, arrays(most=3, most_axes=2)))
        elif array.ndim:
            state[name] = np.resize(array, tuple(data.draw(st.integers(0, 6)) for _ in range(array.ndim)))
    snapshot = refused(gsw.run, problem, 2, state=state)
    if snapshot is not None:
        check_snapshot(problem, snapshot, drift=LOG_DRIFT)  # what a state may be off by and is still taken


@fuzzed
@given(st.data())
def test_simulate_prior(data):
    problem = data.draw(problems(4))
    name = data.draw(st.sampled_from(("sweeps", "seed", "lam", "burn_in")))
    value = data.draw(junk)
    if name in ("sweeps", "burn_in") and is_large(value):
        return
    trace = refused(gsw.simulate_prior, problem, **{"sweeps": 2, name: value})
    if trace is not None:
        assert (trace.n_clusters >= 1).all()
        assert (trace.n_clusters <= problem.n).all()


@fuzzed
@given(st.data())
def test_log_posterior(data):
    problem = data.draw(problems())
    labels = data.draw(st.one_of(junk, arrays((problem.n,)), arrays(most=4, most_axes=2)))
    value = refused(gsw.log_posterior, problem, labels)
    if value is not None:
        assert value == gsw.log_posterior(problem, np.unique(labels, return_inverse=True)[1])
        assert not math.isnan(value)
        assert value < math.inf


# ---- models


@fuzzed
@given(st.data())
def test_problem(data):
    n = data.draw(st.one_of(st.integers(-1, 5), numbers))
    n = 3 if is_large(n) else n
    edges = data.draw(st.one_of(junk, arrays(most=5, most_axes=3), arrays((3, 2), ("int64", "int8", "uint64", "bool"))))
    beta = data.draw(st.one_of(junk, arrays((3,)), arrays(most=4, most_axes=2)))
    prior = data.draw(st.one_of(junk, priors(3)))
    blocks = data.draw(st.sampled_from(((), [], None, (3,), (gsw.Gaussian.from_values([[1.0], [2.0], [3.0]]),) * 2)))
    problem = refused(gsw.Problem, n, blocks, edges, beta, prior)
    if problem is not None:
        assert problem.edges.shape == (len(problem.beta), 2)
        assert (problem.edges[:, 0] != problem.edges[:, 1]).all()
        assert np.isfinite(problem.beta).all()


@fuzzed
@given(st.data())
def test_problem_from_counts(data):
    counts = data.draw(
        st.one_of(junk, arrays(most=5, most_axes=3), arrays((3, 4)), st.lists(arrays((2, 3)), max_size=2))
    )
    phi, evidence = data.draw(st.one_of(numbers, junk)), data.draw(st.one_of(numbers, junk))
    problem = refused(gsw.Problem.from_counts, counts, [(0, 1)], phi=phi, evidence=evidence)
    if problem is not None:
        assert math.isfinite(gsw.log_posterior(problem, np.zeros(problem.n, int)))


@fuzzed
@given(st.data())
def test_gaussian(data):
    mass = data.draw(st.one_of(junk, arrays((3,)), arrays((3,), ("uint8", "int64"))))
    shapes = st.sampled_from(((3, 2), (3, 1), (3, 0), (2, 2), (3,)))
    sums, squares = (
        data.draw(st.one_of(junk, shapes.flatmap(lambda s: arrays(s, ("float64", "int8"))))) for _ in range(2)
    )
    variance = data.draw(st.one_of(junk, st.sampled_from(((2,), (1,), (0,), (3,))).flatmap(arrays)))
    block = refused(gsw.Gaussian, mass, sums, squares, variance)
    if block is not None:
        check_block(block, 3)


@fuzzed
@given(st.data())
def test_gaussian_from_pixels(data):
    values = data.draw(
        st.one_of(junk, arrays(most=4, most_axes=3), arrays((4, 2), ("float64", "float32", "int64", "uint8")))
    )
    site = data.draw(
        st.one_of(junk, arrays((4,), ("int64", "uint64", "int8", "float64")), st.just(np.array([0, 1, 2, 0])))
    )
    n = data.draw(st.one_of(st.just(3), st.integers(-1, 5), junk))
    n = 3 if is_large(n) else n
    more = {name: data.draw(junk) for name in data.draw(some_of(("evidence", "kappa", "shape", "spread"), max_size=1))}
    block = refused(gsw.Gaussian.from_pixels, values, site, n, **more)
    if block is not None:
        check_block(block, int(n))
    alone = refused(gsw.Gaussian.from_values, values, **more)
    if alone is not None:
        check_block(alone, len(values))


def check_block(block, n):
    """The specification and the packed tables say the same of a chain's states."""
    problem = gsw.Problem(n, (block,), [], 0.0, gsw.DirichletProcess(1.0))
    for labels in (np.zeros(n, int), np.arange(n)):
        assert math.isfinite(block.log_marginal(labels))
    check_snapshot(problem, gsw.run(problem, 2))


@fuzzed
@given(st.data())
def test_words(data):
    counts = data.draw(st.one_of(junk, arrays(most=4, most_axes=3), arrays((3, 4))))
    block = refused(gsw.DirichletMultinomial, counts, data.draw(st.one_of(st.just(50.0), junk)), data.draw(junk))
    if block is not None:
        check_block(block, block.n)


@fuzzed
@given(st.data())
def test_priors(data):
    kind, names = data.draw(st.sampled_from((
        (gsw.Potts, 1), (gsw.FiniteDirichlet, 2), (gsw.DirichletProcess, 1), (gsw.PitmanYor, 2), (gsw.TablePrior, 2),
    )))  # fmt: skip
    each = st.one_of(numbers, junk, arrays(most=5, most_axes=2)) if kind is gsw.TablePrior else st.one_of(numbers, junk)
    prior = refused(kind, *(data.draw(each) for _ in range(names)))
    if prior is None:
        return
    limits = [data.draw(st.one_of(st.integers(0, 4), numbers)) for _ in range(data.draw(st.integers(0, 2)))]
    prior = refused(prior.truncated, *limits) if limits else prior
    if prior is None:
        return
    for n in (1, 4):
        tables = refused(prior.tables, n)
        if tables is not None:
            for table in tables:
                assert table.shape == (n + 1,)
                assert not np.isnan(table).any()
                assert not np.isposinf(table).any()
        expected = refused(prior.expected_clusters, n)
        if expected is not None:
            assert 1 - 1e-9 <= expected <= n + 1e-9
    n = data.draw(junk)
    if not is_large(n):
        refused(prior.expected_clusters, n)


@fuzzed
@given(st.data())
def test_settings(data):
    name = data.draw(st.sampled_from((*setting_fields(), "no_such_setting")))
    value = data.draw(st.one_of(junk, st.text(max_size=4)))
    settings = refused(gsw.Settings().replace, **{name: value})
    if settings is not None:
        held = getattr(settings, name)
        assert held is None or isinstance(held, setting_fields()[name].kind)
        assert not (isinstance(held, float) and not math.isfinite(held))
        assert gsw.Settings(**settings.to_dict()) == settings
    refused(gsw.preset, value)


# ---- images


@fuzzed
@given(st.data())
def test_codebook(data):
    several = data.draw(st.integers(0, 3)) == 0
    image = [data.draw(images(4)) for _ in range(2)] if several else data.draw(st.one_of(junk, images(4)))
    words, seed = data.draw(st.one_of(st.integers(1, 9), junk)), data.draw(st.one_of(st.just(0), junk))
    book = refused(gsw.Codebook.fit, image, words, seed=seed)
    if book is not None:
        assert 1 <= len(book.centres) <= words
        assert np.isfinite(book.centres).all()
    own = refused(gsw.Codebook, data.draw(st.one_of(junk, arrays(most=4, most_axes=3), arrays((3, 2)))), "channels")
    if own is not None:
        values = data.draw(
            st.one_of(arrays(most=3, most_axes=3), arrays((2, 2, own.centres.shape[1]), ("float64", "uint8")))
        )
        chosen = refused(own.words, values)
        if chosen is not None:
            assert ((chosen >= 0) & (chosen < len(own.centres))).all()


def space_of(image):
    """The shape in space of an image without axes of its own."""
    shape = np.shape(image)
    return shape[:-1] if len(shape) > 2 and shape[-1] in (1, 2, 3, 4) else shape


@fuzzed
@given(st.data())
def test_prepare(data):
    image = data.draw(images())
    shape = space_of(image)
    given = {name: data.draw(beside(shape)) for name in data.draw(some_of(("mask", "sites", "seeds")))}
    changes = {
        "preset": st.sampled_from(tuple(gsw.PRESETS)),
        "superpixels": st.sampled_from(("slic", "grid", "watershed", "felzenszwalb")),
        "likelihood": st.sampled_from(("words", "luminance", "gaussian")),
        "site_size": st.integers(1, 60),
        "neighbourhood": st.integers(1, 2),
        "axes": st.sampled_from(("YX", "ZYX", "YXC", "CYX", "XY", "Q")),
        "beta": st.one_of(junk, arrays(most=5, most_axes=1)),
        "codebook": st.sampled_from(("image", "shipped", "no/such/file")),
    }
    chosen = {name: data.draw(changes[name]) for name in data.draw(some_of(sorted(changes), max_size=3))}
    problem = refused(gsw.prepare, image, **given, **chosen)
    if problem is not None:
        assert problem.site_image.max() == problem.n
        assert set(np.unique(problem.site_image)) - {0} == set(range(1, problem.n + 1))
        assert math.isfinite(gsw.log_posterior(problem, np.zeros(problem.n, int))) or problem.prior is not None
        for array in (problem.evidence.table, problem.evidence.moments, problem.beta):
            assert np.isfinite(array).all()
        check_painting(data, problem)


def check_painting(data, problem):
    """One value a site becomes an image, anything else a sentence."""
    values = data.draw(st.one_of(junk, arrays((problem.n,), ("float32", "int64", "bool"))))
    picture = refused(problem.paint, values)
    if picture is not None:
        assert picture.shape == problem.site_image.shape
    under = data.draw(beside(problem.site_image.shape))
    labels = refused(problem.labels_under, under, "labels")
    if labels is not None:
        assert labels.shape == (problem.n,)
        assert labels.min() >= -1


@fuzzed
@given(st.data())
def test_segment(data):
    image = data.draw(images(6))
    shape = space_of(image)
    names = data.draw(some_of(("mask", "sites", "seeds", "init"), max_size=2))
    given = {name: data.draw(beside(shape)) for name in names}
    some = {
        "preset": st.sampled_from(tuple(gsw.PRESETS)),
        "seed": st.one_of(st.integers(0, 3), junk),
        "chains": st.integers(1, 2),
        "consensus": st.sampled_from(("none", "vi", "binder")),
        "view": st.sampled_from(("clusters", "regions", "objects")),
        "steering": st.sampled_from((0.0, 1.5, 1000.0)),
        "only_painted": st.sampled_from(("yes", "no")),
        "min_region": st.integers(0, 10),
        "site_size": st.integers(1, 20),
        "start": st.sampled_from(("one", "random", "singletons")),
        "burn_in": st.sampled_from((0.0, 0.5, 0.9)),
        "hot": st.sampled_from((1.0, 4.0, 1e300)),
        "alpha": st.sampled_from((1e-90, 1.0, 1e9)),
    }
    chosen = {name: data.draw(some[name]) for name in data.draw(some_of(sorted(some), max_size=4))}
    result = refused(gsw.segment, image, **given, sweeps=SWEEPS, **chosen)
    if result is None:
        return
    sites = result.problem.site_image
    assert result.labels.shape == sites.shape
    assert not result.labels[sites == 0].any()
    if not result.has_background:
        assert (result.labels[sites > 0] > 0).all()
    known = result.uncertainty[np.isfinite(result.uncertainty)]
    assert ((known >= 0) & (known <= 1 + 1e-6)).all()
    assert result.provenance["seed"] >= 0
    level = data.draw(junk)
    refused(result.credible_ball, level)
    refused(result.consensus, data.draw(st.sampled_from(("vi", "binder", "none", 3))))


@fuzzed
@given(st.data())
def test_segment_several(data):
    first = data.draw(images(5))
    second = data.draw(st.one_of(images(5), st.just(first)))
    seeds = data.draw(st.one_of(st.none(), junk, st.tuples(beside(space_of(first)), st.none())))
    linked = data.draw(st.booleans())
    result = refused(gsw.segment, [first, second], seeds=seeds, linked=linked, sweeps=2, preset="paper", site_size=6)
    if isinstance(result, gsw.SharedResult):
        for one in result:
            assert one.labels.shape == one.problem.site_image.shape
            assert (one.labels[one.problem.site_image > 0] > 0).all()


def test_labels_beyond_the_largest_whole_number_keep_their_order():
    """They became negative, and came before the others: another order of the same sums, and another last digit."""
    rng = np.random.default_rng(0)
    gaussian = gsw.Gaussian.from_values(rng.normal(size=(7, 2)) * 1e4)
    problem = gsw.Problem(7, (gaussian,), np.zeros((0, 2), int), [], gsw.DirichletProcess(1.0))
    small = rng.permutation(7)
    large = np.uint64(2**63 - 3) + small.astype(np.uint64)
    assert check_labels(large, 7).tolist() == small.tolist()
    assert gsw.log_posterior(problem, large) == gsw.log_posterior(problem, small)
