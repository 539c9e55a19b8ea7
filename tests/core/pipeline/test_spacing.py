"""Pixels that are not cubes: a stack with coarse planes is segmented as its isotropic self is."""

import numpy as np
import pytest
from scipy import ndimage

import napari_gsw as gsw
from napari_gsw.core.image.normalized_image import NormalizedImage
from napari_gsw.core.posterior.objects import split_at_necks
from napari_gsw.core.settings import Settings
from napari_gsw.core.sites.superpixels import make_superpixels
from napari_gsw.scores.partitions import adjusted_rand


@pytest.fixture(scope="module")
def patches():
    rng = np.random.default_rng(1)
    fields = [ndimage.gaussian_filter(rng.normal(size=(40, 40, 40)), 7) for _ in range(4)]
    return np.argmax(fields, axis=0) * 2000.0 + rng.normal(0, 300, (40, 40, 40))


@pytest.mark.parametrize("spacing", ["auto", "1,1,1", (0.3, 0.3, 0.3), "0.2, 0.2, 0.20001"])
def test_an_equal_spacing_is_none_bit_for_bit(patches, spacing):
    small = patches[:12]
    plain = gsw.prepare(small, axes="ZYX", preset="general")
    assert np.array_equal(
        plain.fingerprint, gsw.prepare(small, axes="ZYX", preset="general", spacing=spacing).fingerprint
    )


def test_a_stack_of_coarse_planes_gives_the_segmentation_of_its_isotropic_self(patches):
    fine = gsw.segment(patches, axes="ZYX", preset="general")
    coarse = gsw.segment(patches[2::5], axes="ZYX", preset="general", spacing=(5, 1, 1))
    assert adjusted_rand(fine.labels[2::5], coarse.labels) > 0.9
    assert coarse.provenance["settings"]["spacing"] == "5,1,1"


@pytest.mark.parametrize("method", ["slic", "watershed", "grid"])
def test_sites_are_as_deep_as_wide_in_real_units(method):
    volume = NormalizedImage(np.random.default_rng(0).random((8, 40, 40, 1)).astype(np.float32), False, (5.0, 1.0, 1.0))
    settings = Settings(superpixels=method, site_size=64, compactness=1000.0)
    sites = make_superpixels(volume, settings)
    boxes = [tuple(s.stop - s.start for s in box) for box in ndimage.find_objects(sites)]
    deep, high, wide = np.array(boxes).mean(axis=0)
    assert 0.5 < 5 * deep / high < 2
    assert 0.5 < high / wide < 2
    plain = ndimage.find_objects(make_superpixels(NormalizedImage(volume.channels, False), settings))
    assert np.mean([s[0].stop - s[0].start for s in plain]) > 1.5 * deep


def test_smoothing_is_in_real_units():
    """A blur over planes that are far apart is a blur within each of them."""
    values = np.random.default_rng(0).random((6, 30, 30, 1)).astype(np.float32)
    blurred = np.stack([ndimage.gaussian_filter(plane, (2.0, 2.0, 0.0)) for plane in values])
    settings = Settings(site_size=100)
    own = make_superpixels(NormalizedImage(values, False, (50.0, 1.0, 1.0)), settings.replace(smoothing=2.0))
    assert np.array_equal(own, make_superpixels(NormalizedImage(blurred, False, (50.0, 1.0, 1.0)), settings))


def test_sizes_are_those_of_the_isotropic_image():
    assert gsw.preset("general").site_count_for(9_000, 5.0) == gsw.preset("general").site_count_for(45_000) == 300
    assert gsw.preset("general").site_count_for(6_000, 500.0) == 1_000  # six pixels at least
    volume = np.random.default_rng(0).random((6, 20, 20))
    problem = gsw.prepare(volume, axes="ZYX", spacing=(5, 1, 1))
    assert (problem.own_pixels(300), problem.own_pixels(301), problem.own_pixels(0)) == (60, 61, 0)
    assert gsw.prepare(volume, axes="ZYX").own_pixels(300) == 300
    assert [problem.smallest_region(cubes) for cubes in (0, 300, None)] == [0, 60, 48]  # a fiftieth of 2,400 is less


def test_objects_are_parted_where_they_are_thin_in_real_units():
    """Two balls that touch, of which every fifth plane is there: their neck is seen along the planes."""
    z, y, x = np.indices((40, 40, 70))
    balls = [(z - 20) ** 2 + (y - 20) ** 2 + (x - c) ** 2 <= 15**2 for c in (20, 46)]
    both = balls[0] | balls[1]
    assert split_at_necks(both, None, 0.9).max() == 2
    assert split_at_necks(both[::5], None, 0.9, (5.0, 1.0, 1.0)).max() == 2


@pytest.mark.parametrize(
    ("spacing", "words"),
    [
        ((0, 1, 1), "spacing must be numbers > 0, not 0, 1, 1"),
        ((-1, 1, 1), "spacing must be numbers > 0"),
        ((1, 1), "a number for each of 3 axes"),
        ("a,b,c", "spacing must be auto or a number for each axis"),
        ((np.nan, 1, 1), "spacing must be numbers > 0"),
        ((1e9, 1, 1), "must not differ by more than 1000 times"),
        (5, "spacing must be auto or a number for each axis"),
    ],
)
def test_a_spacing_that_is_none_is_one_sentence(spacing, words):
    with pytest.raises(gsw.InputError, match=words):
        gsw.prepare(np.zeros((5, 6, 7)), axes="ZYX", spacing=spacing)
