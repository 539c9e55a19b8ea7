"""The graphs of several images as one: side by side, or linked where sites of consecutive images overlap."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from napari_gsw.core.arrays import Floats, Longs, Sites
from napari_gsw.core.errors import InputError
from napari_gsw.core.evidence.shared_features import SharedFeatures
from napari_gsw.core.graph.couplings import couplings, dissimilarity
from napari_gsw.core.graph.region_graph import RegionGraph
from napari_gsw.core.image.picture import Picture
from napari_gsw.core.settings import Settings


class Links(NamedTuple):
    """Pairs of sites of consecutive images that overlap."""

    edges: NDArray[np.int32]  # (links, 2) the earlier one first, sorted
    share: Floats  # (links,) of the smaller of the two sites, the part that lies upon the other
    contrast: Floats  # (links,) mean colour difference between pixels at the same place, in units of Lab


def joined_graph(graphs: Sequence[RegionGraph]) -> RegionGraph:
    """One graph of the sites of all images in turn, without an edge between two images."""
    first = _first(graphs)
    return _in_order(
        RegionGraph(
            n=int(first[-1]),
            edges=np.concatenate([g.edges + np.int32(f) for g, f in zip(graphs, first, strict=False)]),
            length=np.concatenate([g.length for g in graphs]),
            contrast=np.concatenate([g.contrast for g in graphs]),
            order=np.concatenate([g.order for g in graphs]),
            pixels=np.concatenate([g.pixels for g in graphs]),
            means=np.concatenate([g.means for g in graphs]),
        )
    )[0]


def joined_couplings(
    graphs: Sequence[RegionGraph], graph: RegionGraph, settings: Settings, features: SharedFeatures
) -> Floats:
    """(m,) beta of every edge of the joined graph, in the same units in all images.

    Learnt couplings are looked up image by image: they go by what is usual in a picture, as they were learnt.
    """
    if settings.coupling != "learnt":
        return couplings(graph, settings, features)
    pairs = zip(graphs, features.parts, strict=True)
    return np.concatenate([couplings(one, settings, part) for one, part in pairs])


def links_between(pictures: Sequence[Picture], sites: Sequence[Sites], graphs: Sequence[RegionGraph]) -> Links:
    """The links of images that lie upon each other, such as slices or frames.

    Parameters
    ----------
    sites : of each image (\\*shape,), all of one shape, numbered 1.. in each.
    """
    if len({s.shape for s in sites}) > 1:
        raise InputError(f"linked images must have one shape, not {sites[0].shape} and {_other(sites)}")
    first = _first(graphs)
    rows: list[tuple[Longs, Floats, Floats]] = []
    for k in range(len(sites) - 1):
        both = (sites[k] > 0) & (sites[k + 1] > 0)
        here, there = sites[k][both].astype(np.int64) - 1, sites[k + 1][both].astype(np.int64) - 1
        steps = np.linalg.norm(pictures[k].channels[both] - pictures[k + 1].channels[both], axis=1)
        key, index = np.unique(here * graphs[k + 1].n + there, return_inverse=True)
        overlap = np.bincount(index, minlength=len(key)).astype(np.float64)
        i, j = key // graphs[k + 1].n, key % graphs[k + 1].n
        smaller = np.minimum(graphs[k].pixels[i], graphs[k + 1].pixels[j])
        pairs = np.stack((i + first[k], j + first[k + 1]), axis=1)
        rows.append((pairs, overlap / smaller, np.bincount(index, steps, len(key)) / overlap))
    if not rows:
        return Links(np.zeros((0, 2), np.int32), np.zeros(0), np.zeros(0))
    pairs, share, contrast = (np.concatenate(column) for column in zip(*rows, strict=True))
    return Links(pairs.astype(np.int32), share, contrast)


def link_couplings(links: Links, graph: RegionGraph, settings: Settings, features: SharedFeatures) -> Floats:
    """(links,) beta of every link: that of an ordinary boundary within an image, times the share of the overlap.

    So two sites that cover each other are coupled like two that touch, and what a site has with the next image is about
    what it has with one neighbour. Where couplings fall with the contrast, or are learnt, they fall here as
    ``contrast`` does; colours and texture are smoothed within each image.
    """
    if settings.coupling in ("constant", "length"):
        return settings.beta * links.share
    across = _with_edges(graph, links)
    return settings.beta * links.share * np.exp(-dissimilarity(across, settings, features, walked=graph))


def linked_graph(graph: RegionGraph, beta: Floats, links: Links, link_beta: Floats) -> tuple[RegionGraph, Floats]:
    """A joined graph and its couplings (m,) with links and theirs.

    The length of a link is its share of the mean boundary within the images.
    """
    more = _with_edges(graph, links)
    both = RegionGraph(
        n=graph.n,
        edges=np.concatenate((graph.edges, more.edges)),
        length=np.concatenate((graph.length, more.length)),
        contrast=np.concatenate((graph.contrast, more.contrast)),
        order=np.concatenate((graph.order, more.order)),
        pixels=graph.pixels,
        means=graph.means,
    )
    ordered, order = _in_order(both)
    return ordered, np.concatenate((beta, link_beta))[order]


def _with_edges(graph: RegionGraph, links: Links) -> RegionGraph:
    """The sites of a graph with no other edges than the links."""
    usual = float(graph.length.mean()) if len(graph.length) else 1.0
    order = np.ones(len(links.edges), np.int8)
    return RegionGraph(graph.n, links.edges, usual * links.share, links.contrast, order, graph.pixels, graph.means)


def _in_order(graph: RegionGraph) -> tuple[RegionGraph, Longs]:
    """The graph with its edges sorted, those of sites that touch first; and where each edge was."""
    i, j = graph.edges.T
    order = np.lexsort((j, i, graph.order))
    parts = (graph.edges[order], graph.length[order], graph.contrast[order], graph.order[order])
    return RegionGraph(graph.n, *parts, graph.pixels, graph.means), order


def _first(graphs: Sequence[RegionGraph]) -> Longs:
    """(images + 1,) sites before each image, and of all."""
    return np.concatenate(([0], np.cumsum([g.n for g in graphs]))).astype(np.int64)


def _other(sites: Sequence[Sites]) -> tuple[int, ...]:
    return next(s.shape for s in sites if s.shape != sites[0].shape)
