"""Rivals on the same graph: multicut, GASP and the mutex watershed divide our sites by our couplings.

Each takes a graph whose edges attract (above 0) or repel (below 0), which is what learnt couplings and maps of
boundaries are, and gives one partition of the sites. None says how sure it is of it.

References
----------
Multicut, greedy and then by exchanges: Keuper et al. (2015), Efficient decomposition of image and mesh graphs by lifted
multicuts. ICCV.
GASP: Bailoni et al. (2022), GASP, a generalized framework for agglomerative clustering of signed graphs. CVPR.
Mutex watershed: Wolf et al. (2020), The mutex watershed and its objective. TPAMI.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from napari_gsw.core.array_types import Float64Array, Int32Array, LabelImage
from napari_gsw.core.errors import InputError
from napari_gsw.core.partitions import canonical_labels
from napari_gsw.core.pipeline.prepare import prepare
from napari_gsw.core.pipeline.stage import Report
from napari_gsw.core.posterior.regions import find_regions
from napari_gsw.core.settings import Settings
from napari_gsw.core.settings.setting import Options, setting


@dataclass(frozen=True)
class SignedGraph(Options):
    """What the three have in common."""

    neutral: float = setting(
        0.0,
        "signed-graph",
        "Coupling at which two sites neither attract nor repel each other; couplings that only attract need one above "
        "0.",
        title="Neutral coupling",
    )


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
        "mean",
        "gasp",
        "What the boundary of two regions counts for: the mean of its couplings, their sum, or the strongest.",
        choices=("mean", "sum", "abs_max"),
    )


def partition(
    n: int, edges: Int32Array, coupling: Float64Array, length: Float64Array, options: SignedGraph
) -> Int32Array:
    """(n,) int32 parts 0, 1, ... in the order of their first site.

    Parameters
    ----------
    edges : (m, 2) int32, each pair once.
    coupling : (m,) how strongly the two ends attract each other; below the neutral one they repel.
    length : (m,) of the boundary along each edge.
    options : which method, and its settings.
    """
    edges = np.sort(edges, axis=1)
    order = np.lexsort((edges[:, 1], edges[:, 0]))  # in which bioimage-cpp wants them
    edges, length = edges[order], np.asarray(length, np.float64)[order]
    weight = np.asarray(coupling, np.float64)[order] - options.neutral
    if isinstance(options, MutexWatershed):
        parts = _mutex_watershed(n, edges, weight)
    elif isinstance(options, Gasp):
        parts = _gasp(n, edges, weight, length, options.linkage)
    else:
        parts = _multicut(n, edges, weight)
    return canonical_labels(np.asarray(parts).astype(np.int32))


def signed_graph(
    image: ArrayLike,
    settings: Settings,
    options: SignedGraph,
    *,
    sites: ArrayLike | None = None,
    mask: ArrayLike | None = None,
    report: Report | None = None,
) -> LabelImage:
    """Segment an image by one of the three on the sites and couplings that the settings make.

    Regions that are too small join a neighbour as those of our own method do.

    Returns
    -------
    Label image of the image's spatial shape, 1..k, 0 where there is no site.
    """
    problem = prepare(image, settings, sites=sites, mask=mask, report=report)
    length = np.ones(len(problem.edges)) if problem.graph is None else problem.graph.length
    parts = partition(problem.n, problem.edges, problem.beta, length, options)
    labels: LabelImage = np.asarray(
        problem.paint(find_regions(problem, parts, problem.smallest_region(settings.min_region)).astype(np.int64) + 1)
    )
    return labels


def _multicut(n: int, edges: Int32Array, weight: Float64Array) -> Any:
    multicut = _module("bioimage_cpp.graph.multicut", "the multicut")
    objective = multicut.MulticutObjective(_graph(n, edges), weight)
    solvers = multicut.ChainedMulticutSolvers([multicut.GreedyAdditiveMulticut(), multicut.KernighanLinMulticut()])
    return solvers.optimize(objective)


def _gasp(n: int, edges: Int32Array, weight: Float64Array, length: Float64Array, linkage: str) -> Any:
    agglomeration = _module("bioimage_cpp.graph.agglomeration", "GASP")
    policy = agglomeration.GaspClusterPolicy(linkage=linkage)
    return policy.optimize(_graph(n, edges), weight, edge_sizes=length)


def _mutex_watershed(n: int, edges: Int32Array, weight: Float64Array) -> Any:
    mwatershed = _module("mwatershed", "the mutex watershed")
    named = mwatershed.cluster_edges([(w, i, j) for w, (i, j) in zip(weight.tolist(), edges.tolist(), strict=True)])
    parts = np.arange(n)  # a site without an edge is a part of its own
    for site, part in named:
        parts[site] = n + part
    return np.unique(parts, return_inverse=True)[1]


def _graph(n: int, edges: Int32Array) -> Any:
    return _module("bioimage_cpp.graph", "it").UndirectedGraph.from_unique_edges(n, edges.astype(np.uint64))


# What has each module, as a package to install.
PACKAGES: Mapping[str, str] = {"bioimage_cpp": "bioimage-cpp", "mwatershed": "mwatershed"}


def _module(name: str, method: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        package = PACKAGES[name.partition(".")[0]]
        raise InputError(f'{method} needs {package}: pip install "napari-gsw[peers]" or {package} itself') from None
