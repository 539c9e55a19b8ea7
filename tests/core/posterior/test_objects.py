"""Objects on a background: the signal, the outlines, the necks; what the microscopy preset makes of them."""

from __future__ import annotations

import numpy as np
import pytest
from skimage.draw import disk
from skimage.measure import label

import napari_gsw as gsw
from napari_gsw.core.image.foreground_signal import make_signal_image
from napari_gsw.core.posterior.objects import assign_pixels, find_objects, measure_appearance, split_at_necks
from napari_gsw.scores.partitions import adjusted_rand
from pictures import cells


def test_background_is_about_nothing_and_objects_about_fifty():
    image, truth = cells()
    found = make_signal_image(image).channels[..., 0]
    assert abs(np.median(found[truth == 0])) < 5
    inner = [np.median(found[truth == k]) for k in range(1, 8)]
    assert min(inner) > 25
    assert max(inner) < 4 * min(inner)  # brightness itself differs more than three times above the background
    assert not make_signal_image(np.full((9, 9), 7, np.uint8)).channels.any()


def test_dark_stains_are_objects_too():
    image, truth = cells()
    stained = np.stack([255 - image, 255 - image // 2, np.full_like(image, 240)], axis=-1)
    found = make_signal_image(stained).channels[..., 0]
    assert np.median(found[truth > 0]) > 25 > 10 > abs(np.median(found[truth == 0]))


def test_the_preset_finds_every_object_and_parts_those_that_touch():
    image, truth = cells()
    result = gsw.segment(image, preset="microscopy", objects="classical", seed=0)
    assert label(truth > 0).max() == 6  # to a threshold two are one
    assert result.n_regions == 7
    assert adjusted_rand(result.labels, truth) > 0.95
    assert result.labels[0, 0] == 0
    assert np.array_equal(np.unique(result.labels), np.arange(8))
    together = gsw.segment(image, preset="microscopy", objects="classical", seed=0, neck=0.0)
    assert together.n_regions == 6
    assert result.regions.shape == result.clusters.shape == (result.problem.n,)


def test_volumes_and_masks():
    image, _ = cells()
    volume = np.stack([np.full_like(image, 12), image, image, image, np.full_like(image, 12)])
    result = gsw.segment(volume, preset="microscopy", objects="classical", axes="ZYX", seed=0)
    assert result.labels.shape == volume.shape
    assert 6 <= result.n_regions <= 8
    mask = np.zeros(image.shape, bool)
    mask[:60] = True
    inside = gsw.segment(image, preset="microscopy", objects="classical", mask=mask)
    assert not inside.labels[60:].any()
    assert inside.n_regions == 3


def test_small_objects_are_background():
    image, _ = cells()
    problem = gsw.prepare(image, preset="microscopy", objects="classical")
    clusters = gsw.run(problem, 30, seed=0).best.labels
    few = find_objects(problem, clusters, min_pixels=300)
    assert few.max() == 1  # only the two that touch are large enough together
    assert np.bincount(few.ravel())[1:].min() >= 300


def test_outlines_are_finer_than_sites():
    image, truth = cells(noise=2.0)
    problem = gsw.prepare(image, preset="microscopy", objects="classical", site_size=80, superpixels="grid")
    clusters = (problem.graph.means[:, 0] > 25).astype(int)
    coarse, fine = (
        problem.paint(clusters) > 0,
        assign_pixels(problem.sites, problem.signal, measure_appearance(problem, clusters)) > 0,
    )
    wrong = [(found != (truth > 0)).mean() for found in (coarse, fine)]
    assert wrong[1] < wrong[0] / 3


@pytest.mark.parametrize(("gap", "parts"), [(10, 1), (15, 2)])
def test_a_neck_parts_whatever_the_size(gap, parts):
    for zoom in (1, 3):
        mask = np.zeros((40 * zoom, 60 * zoom), bool)
        for column in (20, 20 + gap):
            mask[disk((20 * zoom, column * zoom), 9 * zoom, shape=mask.shape)] = True
        assert split_at_necks(mask, None, 0.85).max() == parts


def test_the_variance_can_be_known():
    image, _ = cells()
    block = gsw.prepare(image, preset="microscopy", objects="classical").likelihoods[0]
    z = np.arange(block.n) % 2
    # The limit of the normal-inverse-gamma marginal: a Gaussian of known variance with a Gaussian mean.
    s, variance = block.weight, block.spread * block.variance
    expected = 0.0
    for k in (0, 1):
        w, first, second = (s * x[z == k].sum(axis=0) for x in (block.mass, block.sums, block.squares))
        kappa = block.kappa + w
        one = np.log(block.kappa / kappa) / 2 - w / 2 * np.log(2 * np.pi * variance)
        expected += float((one - (second - first**2 / kappa) / (2 * variance)).sum())
    assert block.log_marginal(z) == pytest.approx(expected, rel=1e-5)
