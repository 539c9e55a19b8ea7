"""The likelihood blocks that features of sites give."""

from __future__ import annotations

import numpy as np
import pytest
from skimage.data import astronaut

import napari_gsw as gsw
from napari_gsw.core.features.site_features import ImageFeatures
from napari_gsw.core.graph.region_graph import build_region_graph
from napari_gsw.core.image.normalized_image import normalize_image
from napari_gsw.core.pipeline.prepare import build_likelihoods
from napari_gsw.core.sites.superpixels import make_superpixels

RNG = np.random.default_rng(0)
IMAGE = astronaut()[:120, :140]


@pytest.mark.parametrize(
    ("image", "changes", "widths"),
    [
        (IMAGE, dict(), [120]),
        (IMAGE, dict(codebook="image", words=40), [40]),
        (IMAGE, dict(likelihood="luminance"), [8]),
        (IMAGE, dict(texture_words=32), [120, 32]),
        (IMAGE, dict(texture_words=10), [120, 10]),
        (IMAGE[..., 0], dict(words=50, texture_words=32), [50, 32]),
        (RNG.random((8, 20, 20)), dict(texture_words=12), [120, 12]),
        (RNG.random((20, 20, 5)), dict(axes="YXC"), [120]),
    ],
)
def test_blocks_of_features(image, changes, widths):
    settings = gsw.Settings(site_size=30, evidence=6.0, texture_evidence=3.0, texture_phi=11.0, **changes)
    seen = normalize_image(image, settings.axes)
    sites = make_superpixels(seen, settings)
    blocks = build_likelihoods(ImageFeatures([seen], [sites], settings), build_region_graph(seen, sites))
    assert len(blocks) == len(widths)
    pixels = np.bincount(sites.ravel())[1:]
    for block, width in zip(blocks, widths, strict=True):
        assert block.counts.shape[0] == sites.max()
        assert block.counts.shape[1] <= width
        assert np.array_equal(block.counts.sum(axis=1), pixels)
    assert blocks[0].weight * pixels.mean() == pytest.approx(6.0)
    if len(blocks) == 2:
        assert (blocks[1].phi, blocks[1].weight * pixels.mean()) == pytest.approx((11.0, 3.0))


def test_gaussian_channels_hold_the_moments_of_the_pixels():
    seen = normalize_image(RNG.random((20, 30, 4)), "YXC")
    settings = gsw.Settings(likelihood="gaussian", evidence=None)
    sites = make_superpixels(seen, settings)
    (block,) = build_likelihoods(ImageFeatures([seen], [sites], settings), build_region_graph(seen, sites))
    centred = seen.channels.astype(float) - seen.channels.reshape(-1, 4).astype(float).mean(axis=0)
    for i in (1, int(sites.max())):
        assert block.sums[i - 1] == pytest.approx(centred[sites == i].sum(axis=0))
        assert block.squares[i - 1] == pytest.approx((centred[sites == i] ** 2).sum(axis=0))


def test_a_place_in_the_image_is_worth_some_draws():
    flat = np.full((40, 60), 7, np.uint8)
    problem = gsw.prepare(flat, preset="paper", position=5.0)
    assert len(problem.likelihoods) == 2
    halves_ = (problem.graph.pixels.cumsum() > problem.graph.pixels.sum() / 2).astype(int)
    mixed = RNG.permutation(halves_)
    assert gsw.log_posterior(problem, halves_) > gsw.log_posterior(problem, mixed)
    gaussian = gsw.prepare(flat, preset="paper", likelihood="gaussian", position=1.0)
    assert gaussian.likelihoods[0].sums.shape[1] == 3
