"""A large image in a coarse copy: what is seen of it, and that nothing else is said."""

from __future__ import annotations

import numpy as np
import pytest

from napari_gsw.core.pipeline import segment as module
from napari_gsw.core.pipeline.segment import choose_step, downsample, make_preview
from napari_gsw.core.settings.presets import preset
from napari_gsw.scores.partitions import adjusted_rand

RNG = np.random.default_rng(0)


@pytest.fixture
def small(monkeypatch):
    """Images are large from ten thousand pixels on, and their copies have four thousand."""
    monkeypatch.setattr(module, "LARGE", 10_000)
    monkeypatch.setattr(module, "COPY", 4_000)


def quarters(side, kind):
    truth = np.kron([[1, 2], [3, 4]], np.ones((side // 2, side // 2), int))
    image = 40 * truth + RNG.normal(0, 12, truth.shape)
    return (image / 200 if kind == "f" else image.clip(0, 255)).astype(kind), truth


@pytest.mark.parametrize(("kind", "name"), [("u1", "photo"), ("u2", "microscopy"), ("f", "general")])
def test_it_shows_what_is_there(small, kind, name):
    image, truth = quarters(240, kind)
    seen = make_preview(image, preset(name), 0, None, None, lambda stage: None)
    assert seen.labels.dtype == np.uint16
    assert seen.labels.shape == tuple(n // seen.step for n in image.shape)
    middle = seen.step // 2
    assert adjusted_rand(seen.labels, truth[middle :: seen.step, middle :: seen.step]) > 0.9


def test_colours_channels_and_volumes(small):
    image, _truth = quarters(240, "u1")
    for array, axes in ((np.stack([image] * 3, -1), "YXS"), (np.stack([image] * 2), "CYX"), (image[:60], "YX")):
        seen = make_preview(array, preset("general", axes=axes), 0, None, None, lambda stage: None)
        assert seen.labels.ndim == 2
        assert len(np.unique(seen.labels)) >= 2
    volume = np.broadcast_to(image[::4, ::4], (20, 60, 60))
    assert make_preview(volume, preset("general"), 0, None, None, lambda stage: None).labels.ndim == 3


def test_what_is_not_large_has_none_and_nobody_is_kept_waiting(small):
    stages = []
    assert make_preview(np.zeros((50, 50)), preset("general"), 0, None, None, stages.append) is None
    assert choose_step((100, 100)) == 1
    assert choose_step((101, 100)) > 1
    assert not stages


def test_the_copy_of_an_image_is_about_as_large_as_its_screen():
    assert [choose_step(shape) for shape in ((2000, 2000), (8000, 8000), (400, 400, 400))] == [1, 20, 8]


def test_mask_and_strokes_count_and_what_is_outside_may_be_anything(small):
    image, _truth = quarters(240, "f")
    mask = np.ones(image.shape, bool)
    mask[:, :60], image[:, :60] = False, np.nan
    strokes = np.zeros(image.shape, np.int32)
    strokes[60, 80:110], strokes[200, 200] = 7, 9
    seen = make_preview(image, preset("general"), 0, mask, strokes, lambda stage: None)
    width = 60 // seen.step
    assert (seen.labels[:, :width] == 0).all()
    assert (seen.labels[:, width + 1 :] > 0).all()
    assert {7, 9} <= set(np.unique(seen.labels).tolist())


def test_means_of_blocks_keep_the_type():
    image = np.kron(RNG.integers(0, 60_000, (6, 5)), np.ones((8, 8), int)).astype(np.uint16)
    copy = downsample(image[:46, :39], [0, 1], 8)
    assert copy.dtype == np.uint16
    assert np.array_equal(copy, image[:40:8, :32:8])


@pytest.mark.parametrize("planes", [1, 5])
def test_a_thin_stack_has_blocks_as_thin(small, planes):
    """Whose labels lie where the image is: a pixel of them is `step` of the image along every axis."""
    volume = np.stack([quarters(240, "u1")[0]] * planes)
    seen = make_preview(volume, preset("general", axes="ZYX"), 0, None, None, lambda stage: None)
    assert (seen is None) == (planes == 1)
    if seen is not None:
        assert seen.labels.shape == tuple(n // seen.step for n in volume.shape)
    copy = downsample(volume, [0, 1, 2], 3)
    assert copy.shape == (planes // 3, 80, 80)


def test_a_stop_while_it_is_made_is_heard(small):
    def report(stage):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        make_preview(quarters(240, "u1")[0], preset("general"), 0, None, None, report)


def test_what_cannot_be_segmented_has_no_preview(small):
    assert make_preview(np.full((200, 200), np.nan), preset("general"), 0, None, None, lambda stage: None) is None
