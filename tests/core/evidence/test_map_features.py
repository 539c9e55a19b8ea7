"""Features of many channels: what is left of them, and that a channel is a channel wherever it comes from."""

import numpy as np
import pytest

import napari_gsw as gsw
from napari_gsw.core.features.input_maps import apply_reduction, fit_reduction
from napari_gsw.core.model.problem import log_posterior
from napari_gsw.core.sampler.sample import run

rng = np.random.default_rng(0)


def scene():
    truth = np.kron(np.arange(4).reshape(2, 2), np.ones((16, 16), int))
    return truth, 30.0 * truth + rng.normal(0, 6, truth.shape)


def test_components_are_white_and_hold_what_varies():
    """Against the eigenvectors of the correlation matrix, found by a singular value decomposition."""
    hidden = rng.normal(size=(400, 3))
    values = (hidden @ rng.normal(size=(3, 20)) + 0.01 * rng.normal(size=(400, 20))) * np.arange(1, 21) + 5
    reduction = fit_reduction([values.reshape(20, 20, 20)], 3)
    found = apply_reduction(values.reshape(20, 20, 20), reduction).reshape(400, 3)
    assert np.allclose(np.cov(found.T, bias=True), np.eye(3), atol=1e-3)
    assert np.allclose(found.mean(axis=0), 0, atol=1e-4)
    scaled = (values - values.mean(axis=0)) / values.std(axis=0)
    slow = np.linalg.svd(scaled, full_matrices=False)[0][:, :3] * np.sqrt(400)
    assert np.allclose(np.abs((found * slow).mean(axis=0)), 1, atol=1e-3)
    assert reduction.share > 0.999


def test_a_constant_channel_among_many_adds_nothing():
    values = rng.normal(size=(10, 10, 12))
    spoilt = np.concatenate((values, np.full((10, 10, 1), 7.0)), axis=-1)
    a, b = (apply_reduction(v, fit_reduction([v], 4)) for v in (values, spoilt))
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
    """What the chain counts as it moves is the plain sum over the blocks."""
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
