"""Cells between dark membranes: the cues, and the preset that was learnt on them."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import ndimage
from scipy.spatial import cKDTree

import napari_gsw as gsw
from napari_gsw.core.features.site_features import ImageFeatures
from napari_gsw.core.graph.boundary_cues import compute_context_membrane_cues, compute_local_membrane_cues
from napari_gsw.core.graph.boundary_model import BoundaryModel, load_boundary_model
from napari_gsw.core.graph.region_graph import build_region_graph
from napari_gsw.core.image.normalized_image import normalize_image
from napari_gsw.core.image.ridges import scale_intensity
from napari_gsw.core.settings.presets import preset
from napari_gsw.core.sites.superpixels import make_superpixels
from napari_gsw.scores.partitions import adjusted_rand


def micrograph(size=160, cells=9, seed=1):
    """Grey cells between dark membranes, blurred and grainy, uint8; and the cells, 0 on the membranes."""
    rng = np.random.default_rng(seed)
    place = np.stack(np.mgrid[:size, :size], axis=-1)
    centres = rng.random((cells, 2)) * size
    truth = cKDTree(centres).query(place)[1] + 1
    edge = ndimage.maximum_filter(truth, 3) != ndimage.minimum_filter(truth, 3)
    membrane = ndimage.binary_dilation(edge, iterations=2)
    light = np.where(membrane, 70, 165 + 8 * np.sin(truth))
    image = ndimage.gaussian_filter(light.astype(float), 1.2) + rng.normal(0, 14, light.shape)
    return np.clip(image, 0, 255).astype(np.uint8), np.where(membrane, 0, truth)


@pytest.fixture(scope="module")
def looks():
    image, truth = micrograph()
    pixels = normalize_image(image)
    sites = make_superpixels(pixels, preset("membranes"))
    graph = build_region_graph(pixels, sites)
    return image, truth, pixels, sites, graph, compute_local_membrane_cues(scale_intensity(pixels), sites, graph)


def test_cues_are_what_they_say(looks):
    _, _, pixels, sites, graph, cues = looks
    assert cues.shape == (len(graph.edges), 102)
    second = compute_context_membrane_cues(graph, cues, np.linspace(-3, 3, len(cues)))
    assert second.shape == (len(graph.edges), 111)
    assert np.array_equal(second[:, :102], cues)
    light = ndimage.gaussian_filter(scale_intensity(pixels), 1.0)
    e = 7
    i, j = graph.edges[e] + 1
    along = []
    for a, b, c, d in ((sites[:-1], sites[1:], light[:-1], light[1:]), (*_across(sites), *_across(light))):
        both = ((a == i) & (b == j)) | ((a == j) & (b == i))
        along += ((c[both] + d[both]) / 2).tolist()
    assert cues[e, 0] == pytest.approx(np.mean(along))
    assert cues[e, 1] <= cues[e, 2] <= cues[e, 3]
    assert cues[e, 3] <= max(along)
    assert cues[e, 4] == pytest.approx(abs(light[sites == i].mean() - light[sites == j].mean()))


def _across(image):
    return image[:, :-1], image[:, 1:]


def test_the_preset_finds_the_cells(looks):
    image, truth = looks[:2]
    result = gsw.segment(image, preset="membranes", seed=0)
    inside = truth > 0
    assert adjusted_rand(result.labels[inside], truth[inside]) > 0.9
    mutual = gsw.segment(np.stack([image] * 3, -1), preset="membranes", seed=0)
    assert adjusted_rand(mutual.labels, result.labels) > 0.9


def test_the_shipped_model_is_saved_and_read_again(tmp_path, looks):
    _, _, pixels, sites, graph, _ = looks
    load_boundary_model("membranes", False).save(tmp_path / "model.json")
    again = BoundaryModel.load(tmp_path / "model.json")
    features = ImageFeatures([pixels], [sites], preset("membranes"))
    odds = load_boundary_model("membranes", False).log_odds(features, graph)
    assert again.cues == "membranes"
    assert np.array_equal(odds, again.log_odds(features, graph))
    (tmp_path / "other.json").write_text((tmp_path / "model.json").read_text().replace('"membranes"', '"others"', 1))
    with pytest.raises(gsw.InputError, match="cues must be photo or membranes"):
        BoundaryModel.load(tmp_path / "other.json")


def test_what_the_model_cannot_do_is_said():
    with pytest.raises(gsw.InputError, match="two-dimensional"):
        gsw.prepare(np.random.default_rng(0).random((12, 30, 30)), preset="membranes", axes="ZYX")
    lazy = pytest.importorskip("dask.array").from_array(micrograph(size=200)[0], chunks=50)
    with pytest.raises(gsw.InputError, match="images in memory"):
        gsw.prepare(lazy, preset="membranes", block_pixels=2**12)
