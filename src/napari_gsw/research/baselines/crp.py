"""Distance-dependent Chinese restaurant processes on the region adjacency graph: dd-CRP and rdd-CRP.

After Ghosh, Ungureanu, Sudderth and Blei, "Spatial distance dependent Chinese restaurant processes for image
segmentation" (2011). Each site links to a neighbour or to itself, and sites connected by links sit at one table. In the
dd-CRP a table is a region, so regions are connected; in the rdd-CRP a Chinese restaurant process assigns tables to
regions. Sites, counts and likelihood are those of a :class:`~napari_gsw.Problem`; its couplings and prior are not used.

:func:`log_joint` is the specification. :func:`sample` runs the sampler and yields snapshots like
:func:`napari_gsw.sample`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from scipy.special import gammaln

from napari_gsw.core.array_types import Float64Array
from napari_gsw.core.errors import InputError
from napari_gsw.core.graph.region_graph import CsrGraph, make_csr_graph
from napari_gsw.core.model.problem import Problem, check_labels
from napari_gsw.core.pipeline.prepare import prepare
from napari_gsw.core.pipeline.provenance import describe_image, make_provenance
from napari_gsw.core.pipeline.stage import Report, Stage
from napari_gsw.core.posterior.result import Result, make_result
from napari_gsw.core.posterior.summary import Summary
from napari_gsw.core.sampler.chain import count_clusters
from napari_gsw.core.sampler.snapshot import Snapshot, export_sums, make_snapshot_from_sums
from napari_gsw.core.sampler.state import N_TRACED, RunningSums
from napari_gsw.core.settings import Settings
from napari_gsw.core.settings.setting import POSITIVE, Options, setting
from napari_gsw.methods import Method
from napari_gsw.research.baselines.crp_kernels import LinkPrior, LinkState, advance


@dataclass(frozen=True)
class DdCrp(Options):
    """Settings of the dd-CRP."""

    alpha: float = setting(
        1e-10, "dd-crp", "Weight of a link to the site itself; that to a neighbour is 1.", **POSITIVE
    )


@dataclass(frozen=True)
class RddCrp(DdCrp):
    """Settings of the rdd-CRP."""

    gamma: float = setting(1e-2, "rdd-crp", "Concentration with which tables are dealt to regions.", **POSITIVE)


@dataclass(frozen=True, eq=False)
class LinkModel:
    """Posterior over links of sites and regions of tables.

    Parameters
    ----------
    problem : Problem
        Its likelihoods and edges are used.
    alpha : float
        Weight of a site's link to itself.
    gamma : float, optional
        Concentration of the process that assigns tables to regions (rdd-CRP). None makes each table a region (dd-CRP).
    decay : float or (m,) array_like
        Weight f_ij of a link along each edge, in both directions; 1 is the window decay of the paper.
    """

    problem: Problem
    alpha: float = 1e-10
    gamma: float | None = None
    decay: ArrayLike = 1.0

    def __post_init__(self) -> None:
        for name, value in (("alpha", self.alpha), ("gamma", self.gamma), ("decay", self.decay)):
            if value is not None and not (np.isfinite(value) & (np.asarray(value) > 0)).all():
                raise InputError(f"{name} must be > 0, not {value!r}")

    @property
    def weights(self) -> Float64Array:
        """(m,) f_ij."""
        return np.full(len(self.problem.edges), self.decay, np.float64)


def log_joint(model: LinkModel, links: ArrayLike, regions: ArrayLike) -> float:
    """Compute the log probability of links, regions and data, up to the constant of the likelihood.

    It is log prod_i p(c_i) + log CRP(tables -> regions | gamma) + log p(y | regions), where p(c_i = j) is proportional
    to f_ij for neighbours and to alpha for i itself.

    Parameters
    ----------
    links : (n,) array_like of int
        The site that each site points at.
    regions : (n,) array_like of int
        Equal within a table; in the dd-CRP different in different tables.
    """
    problem, n = model.problem, model.problem.n
    c, z = check_labels(links, n, "links"), check_labels(regions, n, "regions")
    (a, b), sites = problem.edges.T, np.arange(n)
    values = np.concatenate((model.weights, model.weights, np.full(n, model.alpha)))
    weight = coo_array((values, (np.concatenate((a, b, sites)), np.concatenate((b, a, sites)))), shape=(n, n)).tocsr()
    table = find_tables(c)
    first = np.unique(table, return_index=True)[1]
    if not np.array_equal(z, z[first][table]):
        raise InputError("the sites of a table must share a region")
    tables_per_region = np.unique(z[first], return_counts=True)[1]
    value = float(np.sum(np.log(weight[sites, c])) - np.sum(np.log(weight.sum(axis=1))))
    if model.gamma is not None:
        g, k = model.gamma, len(tables_per_region)
        value += float(gammaln(g) - gammaln(g + len(first)) + k * np.log(g) + np.sum(gammaln(tables_per_region)))
    elif len(tables_per_region) < len(first):
        raise InputError("in the dd-CRP each table is a region of its own")
    return value + sum(block.log_marginal(z) for block in problem.likelihoods)


def find_tables(links: NDArray[np.integer]) -> NDArray[np.int32]:
    """Find the table (n,) of each site, 0, 1, ..."""
    n = len(links)
    graph = coo_array((np.ones(n, np.int8), (np.arange(n), links)), shape=(n, n))
    return np.asarray(connected_components(graph, directed=False)[1])


def start_chain(model: LinkModel, seed: int) -> tuple[CsrGraph, LinkPrior, LinkState, np.random.Generator]:
    """Start a chain from each site linked to itself: what the kernels take beside the evidence."""
    problem, n = model.problem, model.problem.n
    graph = make_csr_graph(n, problem.edges, np.log(model.weights))  # log f_ij in place of couplings
    prior = LinkPrior(math.log(model.alpha), math.log(model.gamma or 1.0), model.gamma is not None)
    sites = np.arange(n, dtype=np.int32)
    value = log_joint(model, sites, sites)
    together, counted = np.zeros(len(problem.edges), np.int64), np.zeros(3, np.int64)
    sums = RunningSums(np.array([value, value]), sites.copy(), together, counted)
    clusters = count_clusters(problem, sites, n)  # with some slots more
    state = LinkState(sites.copy(), sites, clusters, clusters.size.copy(), np.array([n, n, n]), sums)
    return graph, prior, state, np.random.Generator(np.random.SFC64(seed))


def sample(
    model: LinkModel, sweeps: int = 1000, seed: int = 0, every: int = 1, *, burn_in: int = 0
) -> Iterator[Snapshot]:
    """Run the sampler and yield a snapshot after each `every` sweeps, and after the last.

    A sweep resamples the link of each site once, together with the region of the part that hangs on it. The log
    posterior of a snapshot is :func:`log_joint`. The running sums leave out the first `burn_in` sweeps.
    """
    graph, prior, state, rng = start_chain(model, seed)
    for done in range(0, max(sweeps, 1), every):
        trace = np.empty((min(every, sweeps - done), N_TRACED))
        advance(model.problem.evidence, graph, prior, state, rng, burn_in, trace)
        arrays = {"links": state.link, "labels": state.labels, "seeds": np.full(len(state.link), -1, np.int32)}
        copies = {name: np.array(value) for name, value in (arrays | export_sums(state.sums)).items()}
        yield make_snapshot_from_sums(state.sums, state.labels, trace, (), copies)


def segment(
    image: ArrayLike, settings: Settings, options: DdCrp, seed: int = 0, *, sites: ArrayLike | None = None,
    mask: ArrayLike | None = None, report: Report | None = None,
) -> Result:  # fmt: skip
    """Segment an image by the dd-CRP or, with options of class :class:`RddCrp`, by the rdd-CRP.

    Superpixels, features, sweeps and burn-in follow the settings; `sites`, `mask` and `report` are those of
    :func:`napari_gsw.segment`. The result is the state of highest joint probability.
    """
    problem = prepare(image, settings, sites=sites, mask=mask, report=report)
    snapshot, trace = run(problem, options, seed, report)
    inputs = {name: array for name, array in (("sites", sites), ("mask", mask)) if array is not None}
    summary = Summary(problem, settings, [snapshot], [trace])
    provenance = make_provenance(describe_image(image), summary, seed, inputs)
    del provenance["log_posterior"]  # of the Potts model, which is not what was maximized
    provenance["method"] = {"name": "rdd-crp" if isinstance(options, RddCrp) else "dd-crp", **options.to_dict()}
    return make_result(summary, provenance)


def run(problem: Problem, options: DdCrp, seed: int = 0, report: Report | None = None) -> tuple[Snapshot, Float64Array]:
    """Run a chain for as many sweeps as the settings of the problem say; return the last snapshot and the trace."""
    settings = problem.settings or Settings()
    model = LinkModel(problem, options.alpha, options.gamma if isinstance(options, RddCrp) else None)
    every, burn_in = max(1, settings.sweeps // 100), int(settings.burn_in * settings.sweeps)
    traces = []
    for snapshot in sample(model, settings.sweeps, seed, every, burn_in=burn_in):
        traces.append(snapshot.trace)
        if report and report(Stage("sampling", snapshot.sweep, settings.sweeps), snapshot):
            break
    return snapshot, np.concatenate(traces)


DD_CRP = Method(segment, DdCrp, samples=True)
RDD_CRP = Method(segment, RddCrp, samples=True)
