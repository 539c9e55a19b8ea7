"""Maps beside an image that is read in blocks: the same problem as in memory, in bounded memory."""

import tracemalloc

import numpy as np
import pytest
from scipy import ndimage
from skimage.segmentation import find_boundaries

import napari_gsw as gsw
from napari_gsw.core.sites.blocked_labels import BlockedLabels

da = pytest.importorskip("dask.array")
zarr = pytest.importorskip("zarr")
rng = np.random.default_rng(0)


def stored(array, chunks):
    kept = zarr.create_array({}, shape=array.shape, chunks=chunks, dtype=array.dtype)
    kept[...] = array
    return kept


def scene(shape):
    """A picture, features, boundaries, foreground, and sites that blocks cut."""
    side = 12
    truth = sum(
        (np.arange(n) // 37 % 2).reshape([-1 if a == b else 1 for b in range(len(shape))]) for a, n in enumerate(shape)
    )
    image = (60 * truth + rng.normal(0, 5, shape)).astype(np.float32)
    features = (rng.normal(size=(20, 4))[:, truth] + rng.normal(0, 0.5, (20, *shape))).astype(np.float32)
    boundaries = ndimage.gaussian_filter(find_boundaries(truth).astype(np.float32), 1)
    sites = np.ravel_multi_index(
        np.meshgrid(*(np.arange(n) // side for n in shape), indexing="ij"), [n // side + 1 for n in shape]
    )
    return image, {"features": features, "boundaries": boundaries, "foreground": truth / 4 + 0.2}, sites + 1


@pytest.mark.parametrize(
    ("shape", "spacing", "components"), [((200, 190), None, 4), ((30, 60, 70), (3.0, 1.0, 1.0), 32)]
)
def test_blocks_make_the_problem_of_the_image_in_memory(shape, spacing, components):
    image, maps, sites = scene(shape)
    chunks = tuple(n // 3 for n in shape)
    lazy_maps = {
        "features": stored(maps["features"], (20, *chunks)),
        "boundaries": da.from_array(maps["boundaries"], chunks=chunks),
        "foreground": maps["foreground"],
    }
    axes = "ZYX"[-len(shape) :]
    plain = {"axes": axes, "spacing": spacing, "likelihood": "gaussian", "texture_words": 0, "denoise": "no"}
    plain |= {"components": components}
    here = gsw.prepare(image, sites=sites, **plain, **maps)
    there = gsw.prepare(stored(image, chunks), sites=sites, block_pixels=4096, **plain, **lazy_maps)
    assert isinstance(there.sites, BlockedLabels)
    assert len(there.sites.grid) > 3
    numbers, place = np.asarray(there.sites), np.zeros(there.n, int)
    place[numbers.ravel() - 1] = here.sites.ravel() - 1
    ends = np.sort(place[there.edges], axis=1)
    order = np.lexsort((ends[:, 1], ends[:, 0]))
    assert np.array_equal(ends[order], here.edges)
    assert np.allclose(there.graph.length[order], here.graph.length)
    # Spans and components are learnt from samples of a lazy image, which here are nearly all of it.
    assert np.allclose(there.beta[order], here.beta, atol=0.02)
    assert np.allclose(there.map_field.pull, here.map_field.pull[place], atol=1e-4)
    # In units of a standard deviation, or of a hundredth of the span.
    far = 0.05 if components == 4 else 2.0
    for a, b in zip(there.likelihoods, here.likelihoods, strict=True):
        assert np.allclose(a.sums / a.mass[:, None], (b.sums / b.mass[:, None])[place], atol=far)
        assert np.allclose(a.variance, b.variance, rtol=0.1)
    assert there.maps["boundaries"] == here.maps["boundaries"]
    assert there.maps["features"].get("components") == (4 if components == 4 else None)


def test_a_lazy_map_beside_an_image_in_memory_is_the_map():
    image, maps, _ = scene((60, 70))
    lazily = {name: da.from_array(np.asarray(array), chunks=20) for name, array in maps.items()}
    assert np.array_equal(gsw.prepare(image, **maps).fingerprint, gsw.prepare(image, **lazily).fingerprint)


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda m: m[1:], "must have the image's shape"),
        (lambda m: da.where(m == m.max(), np.nan, m), "must be finite"),
    ],
)
def test_a_bad_lazy_map_is_one_sentence(spoil, words):
    image, maps, _ = scene((200, 190))
    lines = spoil(da.from_array(maps["boundaries"], chunks=64))
    with pytest.raises(gsw.InputError, match=words):
        gsw.prepare(stored(image, (64, 64)), block_pixels=4096, boundaries=lines)


@pytest.mark.slow
def test_a_map_is_read_in_blocks_too():
    """Of an image and a map of 3 MB each, no more than a few blocks are in memory."""
    shape = (640, 640)
    image = da.random.default_rng(0).normal(size=shape, chunks=128)
    lines = (da.random.default_rng(1).random(shape, chunks=128) > 0.9).astype(float)
    kept = {
        "block_pixels": 2**14,
        "site_size": 400,
        "likelihood": "gaussian",
        "texture_words": 0,
    }
    gsw.prepare(image[:300, :300].rechunk(64), boundaries=lines[:300, :300], **kept)
    tracemalloc.start()
    gsw.prepare(image, **kept)
    plain = tracemalloc.get_traced_memory()[1]
    tracemalloc.reset_peak()
    gsw.prepare(image, boundaries=lines, **kept)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1.5 * plain
