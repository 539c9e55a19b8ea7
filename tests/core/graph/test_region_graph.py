"""The region graph against a loop over pixels, and the couplings."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import pytest

import napari_gsw as gsw
from napari_gsw.core.features.site_features import ImageFeatures
from napari_gsw.core.graph.couplings import compute_couplings
from napari_gsw.core.graph.region_graph import build_region_graph, make_csr_graph
from napari_gsw.core.image.normalized_image import normalize_image
from napari_gsw.core.sites.superpixels import validate_sites

RNG = np.random.default_rng(4)


def slow_graph(channels, sites):
    """Boundary length and mean contrast of touching sites, pixel by pixel."""
    faces = defaultdict(list)
    for index in np.ndindex(sites.shape):
        for axis in range(sites.ndim):
            other = tuple(i + (a == axis) for a, i in enumerate(index))
            if other[axis] < sites.shape[axis]:
                a, b = sorted((sites[index] - 1, sites[other] - 1))
                if a != b and a >= 0:
                    faces[a, b].append(np.linalg.norm(channels[index].astype(float) - channels[other]))
    return faces


def blobs(shape, background):
    labels = RNG.integers(0 if background else 1, 5, [-(-s // 3) for s in shape])
    big = np.kron(labels, np.ones((3,) * len(shape), int))[tuple(slice(s) for s in shape)]
    return validate_sites(big, shape)


@pytest.mark.parametrize("background", [False, True])
@pytest.mark.parametrize("shape", [(14, 17), (7, 8, 9)])
def test_graph_against_a_loop_over_pixels(shape, background):
    sites = blobs(shape, background)
    seen = normalize_image(RNG.random((*shape, 2)), "ZYXC"[-len(shape) - 1 :])
    graph = build_region_graph(seen, sites)
    slow = slow_graph(seen.channels, sites)
    assert [tuple(e) for e in graph.edges.tolist()] == sorted(slow)
    for (a, b), length, contrast in zip(graph.edges.tolist(), graph.length, graph.contrast, strict=True):
        assert length == len(slow[a, b])
        assert contrast == pytest.approx(np.mean(slow[a, b]), rel=1e-6)


def test_second_order_neighbours_against_sets():
    sites = blobs((15, 18), True)
    seen = normalize_image(RNG.random((15, 18)))
    first, both = build_region_graph(seen, sites), build_region_graph(seen, sites, 2)
    near = defaultdict(dict)
    for (a, b), length, contrast in zip(first.edges.tolist(), first.length, first.contrast, strict=True):
        near[a][b] = near[b][a] = (length, contrast)
    expected = {}
    for a in range(first.n):
        for b in range(a + 1, first.n):
            ways = set(near[a]) & set(near[b])
            if b not in near[a] and ways:
                expected[a, b] = (
                    max(min(near[a][w][0], near[w][b][0]) for w in ways),
                    min(max(near[a][w][1], near[w][b][1]) for w in ways),
                )
    second = both.order == 2
    assert np.array_equal(both.edges[~second], first.edges)
    assert [tuple(e) for e in both.edges[second].tolist()] == sorted(expected)
    for e, length, contrast in zip(
        both.edges[second].tolist(), both.length[second], both.contrast[second], strict=True
    ):
        assert expected[tuple(e)] == pytest.approx((length, contrast))


def test_csr_lists_every_edge_at_both_ends():
    edges = np.array([(0, 1), (1, 2), (0, 3), (1, 3)])
    csr = make_csr_graph(5, edges, np.arange(4.0))
    for i in range(5):
        here = slice(csr.start[i], csr.start[i + 1])
        expected = [(b if a == i else a, e) for e, (a, b) in enumerate(edges.tolist()) if i in (a, b)]
        assert sorted(zip(csr.neighbour[here].tolist(), csr.edge[here].tolist(), strict=True)) == sorted(expected)


def test_couplings():
    sites = blobs((15, 18), False)
    seen = normalize_image(RNG.random((15, 18)))

    def strengths(graph, **changes):
        settings = gsw.Settings(**changes)
        return compute_couplings(graph, settings, ImageFeatures([seen], [sites], settings))

    graph = build_region_graph(seen, sites, 2)
    second = graph.order == 2
    constant = strengths(graph, beta=0.3, second_weight=0.25)
    assert set(constant[~second]) == {0.3}
    assert set(constant[second]) == {0.3 * 0.25}
    touching = build_region_graph(seen, sites)
    length = strengths(touching, coupling="length", beta=0.3)
    assert length.mean() == pytest.approx(0.3)
    assert np.argmax(length) == np.argmax(touching.length)
    contrast = strengths(touching, coupling="contrast", beta=2.0, contrast_scale=7.0)
    assert contrast == pytest.approx(2.0 * np.exp(-touching.contrast / 7.0))
    both = strengths(touching, coupling="contrast", beta=2.0, contrast_scale=7.0, colour_scale=9.0)
    assert both == pytest.approx(contrast * np.exp(-touching.difference / 9.0))
    grain = dict(texture_words=6, texture_scale=0.5)
    textured = strengths(touching, coupling="contrast", beta=2.0, contrast_scale=7.0, **grain)
    assert (textured <= contrast).all()
    assert (textured < contrast).any()
    with pytest.raises(gsw.InputError, match="texture_words"):
        strengths(touching, coupling="contrast", texture_scale=0.5)


def test_own_couplings_for_every_edge():
    image = RNG.random((30, 30))
    plain = gsw.prepare(image, preset="paper")
    beta = np.linspace(0, 1, len(plain.edges))
    assert np.array_equal(gsw.prepare(image, preset="paper", beta=beta).beta, beta)
    assert set(gsw.prepare(image, preset="paper", beta=0.7).beta) == {0.7}
    with pytest.raises(gsw.InputError, match="one for each of"):
        gsw.prepare(image, beta=beta[:-1])
