"""Maps beside an image, from the call to the labels: truth comes back, sessions and strokes go on."""

import numpy as np
import pytest
from scipy import ndimage
from skimage.measure import label
from skimage.segmentation import find_boundaries

import napari_gsw as gsw
from napari_gsw.core.errors import InputError
from napari_gsw.core.interactive.interactive_run import InteractiveRun
from napari_gsw.core.model.external_field import BACKGROUND, FOREGROUND
from napari_gsw.core.model.problem import log_posterior
from napari_gsw.core.pipeline.segment import combine_chains, sample_chain
from napari_gsw.sample_data import random_mosaic
from napari_gsw.scores.partitions import adjusted_rand

ALONE = {"likelihood": "none", "texture_words": 0, "min_region": 0}
# A map of boundaries and nothing else: no size is better than another.
ONLY = ALONE | {"coupling": "boundaries", "sites_from": "boundaries", "prior": "potts"}


@pytest.fixture(scope="module")
def mosaic():
    """Its picture, its truth and a picture of nothing."""
    image, truth = random_mosaic(np.random.default_rng(100), (96, 120))
    return image, truth, np.random.default_rng(1).normal(size=truth.shape)


def test_a_map_of_boundaries_alone_gives_back_the_truth(mosaic):
    _, truth, nothing = mosaic
    lines = find_boundaries(truth, mode="thick")
    result = gsw.segment(nothing, boundaries=lines, site_size=60, **ONLY)
    assert adjusted_rand(label(truth, connectivity=1), result.labels) > 0.97
    assert (result.problem.beta < 0).any()
    assert (result.problem.beta > 0).any()


@pytest.mark.parametrize("kind", [np.uint8, np.uint16, np.float32])
def test_a_map_of_any_range_gives_the_couplings_of_its_probabilities(mosaic, kind):
    image, truth, _ = mosaic
    lines = ndimage.gaussian_filter(find_boundaries(truth).astype(float), 0.8)
    lines = (lines - lines.min()) / (lines.max() - lines.min())
    most = {np.uint8: 255, np.uint16: 65535, np.float32: 7.0}[kind]
    plain = gsw.prepare(image, boundaries=lines, sites_from="image")  # rounding would move those of the map
    other = gsw.prepare(image, boundaries=(lines * most).astype(kind), sites_from="image")
    assert np.allclose(plain.beta, other.beta, atol=0.2)
    assert plain.maps["boundaries"]["range"] == "0 to 1 (guessed)"
    assert other.maps["boundaries"]["range"] == f"0 to {most:g} (guessed)"


def test_a_map_of_boundaries_adds_to_other_couplings(mosaic):
    image, truth, _ = mosaic
    lines = find_boundaries(truth)
    same = {"boundaries": lines, "sites_from": "image"}
    own, both = gsw.prepare(image), gsw.prepare(image, **same)
    alone = gsw.prepare(image, coupling="boundaries", **same)
    assert np.allclose(both.beta, own.beta + alone.beta)
    assert np.array_equal(gsw.prepare(image, boundaries=lines, boundaries_weight=0.0).beta, own.beta)


def test_sites_follow_a_map_of_boundaries_unless_another_is_named(mosaic):
    """Sites of the image lay across what an exact map parts: adjusted Rand .75 to .9 where it is now .95 and more."""
    image, truth, _ = mosaic
    lines = find_boundaries(truth, mode="thick")
    problems = {name: gsw.prepare(image, boundaries=lines, sites_from=name) for name in ("auto", "image", "boundaries")}
    assert np.array_equal(problems["auto"].sites, problems["boundaries"].sites)
    assert not np.array_equal(problems["auto"].sites, problems["image"].sites)
    assert np.array_equal(gsw.prepare(image).sites, problems["image"].sites)
    for seed in range(3):
        picture, parts = random_mosaic(np.random.default_rng(seed), (160, 200))
        result = gsw.segment(picture, boundaries=find_boundaries(parts, mode="thick"), min_region=0)
        assert adjusted_rand(label(parts, connectivity=1), result.labels) > 0.97


@pytest.mark.parametrize("channels", [3, 40])
def test_channels_of_features_give_back_the_truth(mosaic, channels):
    _, truth, nothing = mosaic
    rng = np.random.default_rng(2)
    features = rng.normal(size=(channels, 9))[:, truth] + rng.normal(0, 0.3, (channels, *truth.shape))
    result = gsw.segment(nothing, features=features, sites_from="features", coupling="constant", beta=0.5, site_size=60,
                         **ALONE)  # fmt: skip
    assert adjusted_rand(label(truth, connectivity=1), result.labels) > 0.97
    assert result.provenance["maps"]["features"]["channel_axis"] == "first"


def square():
    """A noisy bright square, and where it is."""
    inside = np.zeros((60, 60), bool)
    inside[15:45, 20:50] = True
    return np.where(inside, 60.0, 0.0) + np.random.default_rng(0).normal(0, 4, inside.shape), inside


@pytest.mark.parametrize("names", ["background", "both"])
def test_a_map_of_the_foreground_is_a_field_on_named_clusters(names):
    rng = np.random.default_rng(0)
    inside = np.zeros((60, 60), bool)
    inside[15:45, 20:50] = True
    foreground = np.clip(np.where(inside, 0.9, 0.1) + rng.normal(0, 0.05, inside.shape), 0, 1)
    image = np.where(inside, 60.0, 0.0) + rng.normal(0, 4, inside.shape)
    result = gsw.segment(image, preset="paper", site_count=100, foreground=foreground, foreground_names=names,
                         foreground_weight=3.0, evidence=1.0, sweeps=100)  # fmt: skip
    assert adjusted_rand(inside, result.labels == BACKGROUND) > 0.9
    assert (result.labels[~inside] == BACKGROUND).mean() > 0.95
    if names == "both":
        assert (result.labels[inside] == FOREGROUND).mean() > 0.95
    problem, best = result.problem, result.snapshot.best
    assert best.log_posterior == pytest.approx(log_posterior(problem, best.labels), rel=1e-9)
    # The field is what the definition says.
    odds = np.log(np.clip(foreground, 0.01, 0.99) / (1 - np.clip(foreground, 0.01, 0.99)))
    site = problem.site_image
    means = ndimage.mean(odds, site, np.arange(1, problem.n + 1))
    free = np.ones(problem.n, bool)
    free[problem.field.anchor] = False
    assert np.allclose(problem.field.pull[free, 0], -3.0 * means[free], atol=1e-5)


def test_strokes_and_a_foreground_speak_together():
    image, inside = square()
    foreground = np.where(inside, 0.9, 0.1)
    strokes = np.zeros(inside.shape, int)
    strokes[25:35, 30:40] = 7
    given = {"seeds": strokes, "foreground": foreground}
    result = gsw.segment(image, preset="paper", site_count=100, sweeps=60, **given)
    assert result.labels[30, 35] == 7
    assert result.labels[5, 5] == BACKGROUND
    assert result.problem.field.pull.shape[1] == 2
    assert not result.problem.closed


def test_a_watched_chain_keeps_the_field_through_strokes_locks_and_cuts():
    image, inside = square()
    foreground = np.where(inside, 0.9, 0.1)
    settings = gsw.preset("paper", site_count=100, sweeps=40)
    problem = gsw.prepare(image, settings, foreground=foreground)
    live = InteractiveRun(problem, settings, 0)
    assert live.locks.sum() == 1
    assert live.problem.field.pull.shape[1] == 1
    same = gsw.segment(image, settings, foreground=foreground)
    live.run_for(40)
    while live.sweep < live.target:
        live.advance()
    assert np.array_equal(live.snapshot.best.labels, same.snapshot.best.labels)
    live.paint(np.array([problem.site_image[30, 35] - 1]), 5, True)
    assert live.problem.field.pull.shape[1] == 2
    live.undo()
    assert live.problem.field.pull.shape[1] == 1
    live.unlock(np.flatnonzero(live.locks))
    assert live.problem.field is None or live.problem.field.pull.shape[1] == 0


def test_a_chain_of_its_own_has_the_field_too():
    rng = np.random.default_rng(0)
    image = rng.normal(size=(40, 40))
    foreground = np.where(np.arange(40) < 20, 0.9, 0.1) * np.ones((40, 1))
    settings = gsw.preset("paper", site_count=40, sweeps=20, chains=2)
    problem = gsw.prepare(image, settings, foreground=foreground)
    apart = combine_chains(problem, settings, [sample_chain(problem, settings, 4, number) for number in range(2)])
    together = gsw.segment(image, settings, seed=4, foreground=foreground)
    assert np.array_equal(apart.partition, together.summary.partition)


def test_a_session_with_maps_goes_on_and_is_made_again(tmp_path, mosaic):
    image, truth, _ = mosaic
    maps = {
        "features": np.random.default_rng(0).random((4, *truth.shape)),
        "boundaries": find_boundaries(truth).astype(np.uint8),
        "foreground": np.clip(truth / truth.max(), 0.1, 0.9),
    }
    kept = {"preset": "general", "sweeps": 30, "seed": 5}
    end = gsw.segment(image, **kept, **maps)
    half = gsw.segment(image, **kept, **maps, report=lambda _, one: one is not None and one.sweep >= 10)
    saved = gsw.open_session(gsw.save_session(tmp_path / "run.zarr.zip", half, image=image)).run
    assert saved.problem.maps == end.problem.maps
    assert np.array_equal(gsw.resume(saved).labels, end.labels)
    assert np.array_equal(gsw.replay(saved, image).labels, end.labels)
    assert set(end.provenance["given"]) == set(maps)
    assert end.provenance["maps"]["features"] == {"channels": 4, "channel_axis": "first"}


def test_volumes_take_maps_too():
    rng = np.random.default_rng(0)
    truth = np.zeros((8, 24, 24), int)
    truth[:, :, 12:] = 1
    result = gsw.segment(
        rng.normal(size=truth.shape), axes="ZYX", site_size=64, boundaries=find_boundaries(truth), **ONLY
    )
    assert adjusted_rand(truth, result.labels) == pytest.approx(1.0)


def test_several_images_take_no_maps():
    image = np.random.default_rng(0).random((20, 20))
    with pytest.raises(gsw.InputError, match="boundaries is for one image, not"):
        gsw.segment([image, image], boundaries=image)


def test_a_lazy_map_that_is_the_same_everywhere_is_refused_and_one_that_only_seems_so_is_not(mosaic):
    """Parts that are looked at first are of the middle; a map may be plain there and nowhere else."""
    da = pytest.importorskip("dask.array")
    image = da.from_array(np.tile(mosaic[0], (4, 4) + (1,) * (mosaic[0].ndim - 2)), chunks=200)
    shape = image.shape[:2]
    for name in ("boundaries", "foreground", "features"):
        with pytest.raises(InputError, match=f"{name} is 0.5 everywhere, so it has no effect"):
            gsw.prepare(image, block_pixels=2**13, **{name: da.full(shape, 0.5, chunks=200)})
    plain = np.full(shape, 0.2, np.float32)
    plain[-3:, -3:] = 0.9
    problem = gsw.prepare(image, block_pixels=2**13, boundaries=da.from_array(plain, chunks=200))
    assert problem.n > 100
