"""Maps beside an image: their axes and ranges, the reduction of their channels, and what is refused."""

import numpy as np
import pytest

import napari_gsw as gsw
from napari_gsw.core.features.input_maps import (
    MAX_CHANNELS,
    MIN_DOUBT,
    fit_reduction,
    format_map_notes,
    guess_value_range,
    open_input_map,
    open_input_maps,
    parse_value_range,
)
from napari_gsw.core.model.problem import log_posterior
from napari_gsw.core.sampler.sample import run
from napari_gsw.core.settings import Settings

rng = np.random.default_rng(0)
SPACE = (6, 8)


@pytest.mark.parametrize("space", [(6, 8), (3, 6, 8)])
@pytest.mark.parametrize("order", ["first", "last", "squeezed"])
def test_channels_come_out_last_whichever_way_they_lie(space, order):
    values = rng.normal(size=(*space, 5))
    given = {"first": np.moveaxis(values, -1, 0), "last": values, "squeezed": values[np.newaxis, ..., np.newaxis, :]}
    read = open_input_map("features", given[order], space)
    assert np.array_equal(read.read(), values)
    part = tuple(slice(1, 3) for _ in space)
    assert np.array_equal(read.read(part), values[part])
    assert read.notes == {"channels": 5, "channel_axis": "first" if order == "first" else "last"}


def test_a_map_without_an_axis_for_channels_has_one():
    values = rng.normal(size=SPACE)
    assert np.array_equal(open_input_map("foreground", values, SPACE).read()[..., 0], values)


@pytest.mark.parametrize("coarse", [(3, 4), (2, 3)])  # a half, and a third that was rounded up
def test_a_coarser_map_is_spread_over_the_image(coarse):
    step = 2 if coarse == (3, 4) else 3
    values = rng.normal(size=(4, *coarse))
    read = open_input_map("features", values, SPACE)
    slow = np.array([[values[:, y // step, x // step] for x in range(8)] for y in range(6)])
    assert np.array_equal(read.read(), slow)
    part = (slice(1, 5), slice(3, 8))
    assert np.array_equal(read.read(part), slow[part])
    assert read.notes["coarser"] == [step, step]


def test_an_axis_that_is_open_is_asked_for():
    cube = rng.normal(size=(5, 5, 5))
    with pytest.raises(gsw.InputError, match=r"first or last beside an image of \(5, 5\)"):
        open_input_map("features", cube, (5, 5))
    assert np.array_equal(open_input_map("features", cube, (5, 5), "last").read(), cube)
    assert np.array_equal(open_input_map("features", cube, (5, 5), "first").read(), np.moveaxis(cube, 0, -1))


@pytest.mark.parametrize(
    ("shape", "axis", "words"),
    [
        ((7, 8), "auto", r"must have the image's shape \(6, 8\)"),
        ((6, 8, 5), "first", "after the channels"),
        ((5, 4, 8), "auto", "a whole fraction of it"),
        ((6, 8, 10_000), "auto", "at most 4,096 channels, not 10,000"),
        ((0, 8), "auto", "must have the image's shape"),
    ],
)
def test_a_map_of_another_shape_is_refused(shape, axis, words):
    with pytest.raises(gsw.InputError, match=words):
        open_input_map("features", np.zeros(shape, np.int8), SPACE, axis)
    assert MAX_CHANNELS == 4096


@pytest.mark.parametrize(
    ("values", "low", "high", "logits"),
    [
        (np.array([0.0, 0.4, 1.0]), 0, 1, False),
        (np.array([0, 1], bool), 0, 1, False),
        (np.array([3, 200], np.uint8), 0, 255, False),
        (np.array([10, 900], np.uint16), 10, 900, False),
        (np.array([2.0, 900.0]), 2, 900, False),
        (np.array([-6.0, 5.0]), 0, 1, True),
        (np.array([-600.0, 5.0]), -600, 5, False),
    ],
)
def test_the_range_of_a_map_is_guessed(values, low, high, logits):
    guess = guess_value_range([values])
    assert (guess.low, guess.high, guess.logits, guess.guessed) == (low, high, logits, True)


def test_log_odds_are_those_of_the_declared_range_and_never_certain():
    declared = parse_value_range("boundaries_range", "10, 20")
    most = np.log((1 - MIN_DOUBT) / MIN_DOUBT)
    assert np.allclose(declared.apply(np.array([0.0, 15.0, 17.5, 99.0])), [-most, 0, np.log(3), most])
    upside_down = parse_value_range("boundaries_range", "1,0")
    assert np.allclose(upside_down.apply(np.array([0.25])), np.log(3))
    assert np.allclose(parse_value_range("foreground_range", "logits").apply(np.array([1.5, -99.0])), [1.5, -most])


@pytest.mark.parametrize("text", ["", "1", "1,1", "nan,1", "a,b", "0,1,2"])
def test_a_range_that_is_none_is_refused(text):
    with pytest.raises(gsw.InputError, match="boundaries_range must be auto, logits, or two different numbers"):
        parse_value_range("boundaries_range", text)


@pytest.mark.parametrize("name", ["features", "boundaries", "foreground"])
@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda m: np.where(m == m.max(), np.nan, m), "must be finite, not NaN"),
        (lambda m: np.full_like(m, 0.3), "is 0.3 everywhere, so it has no effect"),
        (lambda m: m[1:], "must have the image's shape"),
        (lambda m: m.astype(complex), "must hold numbers"),
        (lambda m: "map.tif", "must hold numbers"),
    ],
)
def test_a_bad_map_is_one_sentence(name, spoil, words):
    with pytest.raises(gsw.InputError, match=words) as refusal:
        gsw.prepare(rng.random((20, 20)), **{name: spoil(rng.random((20, 20)))})
    assert str(refusal.value).startswith(name)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"coupling": "boundaries"}, "coupling boundaries needs a map"),
        ({"sites_from": "features"}, "sites_from features needs that map"),
        ({"likelihood": "none", "texture_words": 0}, "likelihood none needs a map"),
    ],
)
def test_settings_that_need_a_map_say_so(settings, words):
    with pytest.raises(gsw.InputError, match=words):
        gsw.prepare(rng.random((20, 20)), **settings)


def test_several_channels_are_no_map_of_boundaries():
    with pytest.raises(gsw.InputError, match="boundaries must be one map, not 3 channels"):
        gsw.prepare(rng.random((20, 20)), boundaries=rng.random((20, 20, 3)))


def test_what_was_recognised_is_a_line_each():
    given = {"features": rng.random((30, 40, 50)), "boundaries": (255 * rng.random((40, 50))).astype(np.uint8)}
    lines = format_map_notes(open_input_maps(given, (40, 50), Settings()).notes)
    assert lines[0].startswith("features: 30 channels on the first axis, 8 components with ")
    assert lines[1] == "boundaries: values 0 to 255 (guessed)"


def scene():
    truth = np.kron(np.arange(4).reshape(2, 2), np.ones((16, 16), int))
    return truth, 30.0 * truth + rng.normal(0, 6, truth.shape)


def test_components_are_white_and_hold_what_varies():
    """Against the eigenvectors of the correlation matrix, found by a singular value decomposition."""
    hidden = rng.normal(size=(400, 3))
    values = (hidden @ rng.normal(size=(3, 20)) + 0.01 * rng.normal(size=(400, 20))) * np.arange(1, 21) + 5
    reduction = fit_reduction([values.reshape(20, 20, 20)], 3)
    found = reduction.apply(values.reshape(20, 20, 20)).reshape(400, 3)
    assert np.allclose(np.cov(found.T, bias=True), np.eye(3), atol=1e-3)
    assert np.allclose(found.mean(axis=0), 0, atol=1e-4)
    scaled = (values - values.mean(axis=0)) / values.std(axis=0)
    slow = np.linalg.svd(scaled, full_matrices=False)[0][:, :3] * np.sqrt(400)
    assert np.allclose(np.abs((found * slow).mean(axis=0)), 1, atol=1e-3)
    assert reduction.share > 0.999


def test_a_constant_channel_among_many_adds_nothing():
    values = rng.normal(size=(10, 10, 12))
    spoilt = np.concatenate((values, np.full((10, 10, 1), 7.0)), axis=-1)
    a, b = (fit_reduction([v], 4).apply(v) for v in (values, spoilt))
    assert np.allclose(a, b, atol=1e-4)


@pytest.mark.parametrize("dtype", [np.uint8, np.float32, np.float64])
@pytest.mark.parametrize("axis", [None, 0, -1])
def test_one_channel_given_as_a_feature_is_that_channel_of_the_image_bit_for_bit(dtype, axis):
    _, image = scene()
    image = np.clip(image + 50, 0, 255).astype(dtype)
    plain = {"preset": "paper", "gauss_spread": 0.1}
    given = image if axis is None else np.expand_dims(image, axis)
    own = gsw.prepare(image, likelihood="gaussian", evidence=4.0, **plain)
    other = gsw.prepare(image, likelihood="none", features=given, features_evidence=4.0, **plain)
    assert np.array_equal(own.fingerprint, other.fingerprint)
    for name in ("mass", "sums", "squares", "variance"):
        assert np.array_equal(getattr(own.likelihoods[0], name), getattr(other.likelihoods[0], name))
    a, b = (
        gsw.segment(image, sweeps=30, seed=3, **plain, **more).labels
        for more in (
            {"likelihood": "gaussian", "evidence": 4.0},
            {"likelihood": "none", "features": given, "features_evidence": 4.0},
        )
    )
    assert np.array_equal(a, b)


def test_a_second_channel_given_as_a_feature_is_the_second_channel_of_the_image():
    truth, image = scene()
    second = rng.normal(0, 1, truth.shape) + truth
    sites = np.kron(np.arange(1, 65).reshape(8, 8), np.ones((4, 4), int))
    plain = {"preset": "paper", "likelihood": "gaussian", "evidence": 4.0, "sites": sites}
    own = gsw.prepare(np.stack((image, second), axis=-1), **plain)
    other = gsw.prepare(image, features=second, features_evidence=4.0, **plain)
    assert np.array_equal(own.fingerprint, other.fingerprint)
    lighter = gsw.prepare(image, features=second, features_evidence=1.0, **plain)
    assert [b.evidence for b in lighter.likelihoods] == [4.0, 1.0]


def test_two_blocks_of_channels_are_sampled_by_their_own_weights():
    """The running sum of the chain is the plain sum over the blocks."""
    truth, image = scene()
    features = rng.normal(0, 1, (3, *truth.shape)) + truth
    problem = gsw.prepare(image, preset="microscopy", gauss_shape=3.0, features=features, features_evidence=2.0)
    assert len(problem.likelihoods) == 2
    for more in ({}, {"splits": 1}, {"regroups": 1}):
        best = run(problem, 30, seed=1, **more).best
        assert best.log_posterior == pytest.approx(log_posterior(problem, best.labels), rel=1e-9)


def test_blocks_of_channels_count_the_same_pixels():
    pixels = ([0, 0, 1, 1, 2, 2], [0, 1, 1, 1, 2, 2])
    one, other = (gsw.Gaussian.from_pixels(rng.normal(size=(6, 1)), np.array(site), 3) for site in pixels)
    with pytest.raises(gsw.InputError, match="the same pixels of every site"):
        gsw.Problem(3, (one, other), [[0, 1], [1, 2]], 0.1, gsw.DirichletProcess(1.0))
