"""Multicut, GASP and mutex watershed on the superpixels and couplings of the package.

Each partitions a graph whose edges attract (above 0) or repel (below 0), which is what learnt couplings and boundary
maps are. None estimates the uncertainty.

References
----------
Multicut, greedy and then by exchanges: Keuper et al. (2015), Efficient decomposition of image and mesh graphs by lifted
multicuts. ICCV.
GASP: Bailoni et al. (2022), GASP, a generalized framework for agglomerative clustering of signed graphs. CVPR.
Mutex watershed: Wolf et al. (2020), The mutex watershed and its objective. TPAMI.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from napari_gsw.core.array_types import Float64Array, Int32Array, LabelImage
from napari_gsw.core.partitions import canonical_labels
from napari_gsw.core.pipeline.prepare import Report, prepare
from napari_gsw.core.posterior.regions import find_regions
from napari_gsw.core.settings import Settings
from napari_gsw.core.settings.declaration import Options, setting
from napari_gsw.methods import Method
from napari_gsw.research.baselines import import_package


@dataclass(frozen=True)
class SignedGraph(Options):
    """Settings of all three methods."""

    neutral: float = setting(
        0.0, "signed-graph",
        "Coupling at which two sites neither attract nor repel each other; couplings that only attract need one above "
        "0.",
        title="Neutral coupling",
    )  # fmt: skip


@dataclass(frozen=True)
class Multicut(SignedGraph):
    """Settings of the multicut."""


@dataclass(frozen=True)
class MutexWatershed(SignedGraph):
    """Settings of the mutex watershed."""


@dataclass(frozen=True)
class Gasp(SignedGraph):
    """Settings of GASP."""

    linkage: str = setting(
        "mean", "gasp",
        "What the boundary of two regions counts for: the mean of its couplings, their sum, or the strongest.",
        choices=("mean", "sum", "abs_max"),
    )  # fmt: skip


def segment_signed_graph(
    image: ArrayLike, settings: Settings, options: SignedGraph, *, sites: ArrayLike | None = None,
    mask: ArrayLike | None = None, report: Report | None = None,
) -> LabelImage:  # fmt: skip
    """Segment an image by one of the three methods into regions 1..k, 0 where there is no superpixel.

    Superpixels, couplings and the smallest region follow the settings, as for :func:`napari_gsw.segment`.
    """
    problem = prepare(image, settings, sites=sites, mask=mask, report=report)
    length = np.ones(len(problem.edges)) if problem.graph is None else problem.graph.length
    labels = partition(problem.n, problem.edges, problem.beta, length, options)
    regions = find_regions(problem, labels, problem.smallest_region(settings.min_region))
    return np.asarray(problem.paint(regions.astype(np.int64) + 1))


def partition(
    n: int, edges: Int32Array, coupling: Float64Array, length: Float64Array, options: SignedGraph
) -> Int32Array:
    """Partition a graph into parts (n,) int32 0, 1, ... in the order of their first node.

    `edges` (m, 2) has each pair of the n nodes once. The two repel each other if their `coupling` (m,) is below the
    neutral one; `length` (m,) is that of the boundary along each edge. The class of the options says which method.
    """
    edges = np.sort(edges, axis=1)
    order = np.lexsort((edges[:, 1], edges[:, 0]))  # as bioimage-cpp requires
    edges, length = edges[order], np.asarray(length, np.float64)[order]
    weight = np.asarray(coupling, np.float64)[order] - options.neutral
    if isinstance(options, MutexWatershed):
        mwatershed = import_package("mwatershed", "the mutex watershed", "mwatershed", "peers")
        labels = np.arange(n)  # a node without an edge is a part of its own
        signed = [(w, i, j) for w, (i, j) in zip(weight.tolist(), edges.tolist(), strict=True)]
        for node, cluster in mwatershed.cluster_edges(signed):
            labels[node] = n + cluster
    else:
        graph = _import_bioimage("").UndirectedGraph.from_unique_edges(n, edges.astype(np.uint64))
        if isinstance(options, Gasp):
            policy = _import_bioimage(".agglomeration").GaspClusterPolicy(linkage=options.linkage)
            labels = policy.optimize(graph, weight, edge_sizes=length)
        else:
            multicut = _import_bioimage(".multicut")
            solvers = [multicut.GreedyAdditiveMulticut(), multicut.KernighanLinMulticut()]
            labels = multicut.ChainedMulticutSolvers(solvers).optimize(multicut.MulticutObjective(graph, weight))
    return canonical_labels(np.unique(labels, return_inverse=True)[1].astype(np.int32))


def _import_bioimage(submodule: str) -> Any:
    return import_package(f"bioimage_cpp.graph{submodule}", "multicut and GASP", "bioimage-cpp", "peers")


MULTICUT = Method(segment_signed_graph, Multicut)
GASP = Method(segment_signed_graph, Gasp)
MUTEX_WATERSHED = Method(segment_signed_graph, MutexWatershed)
