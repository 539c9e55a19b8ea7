"""Distance-dependent Chinese restaurant processes on the graph of sites: dd-CRP and rdd-CRP.

After Ghosh, Ungureanu, Sudderth and Blei, "Spatial distance dependent Chinese restaurant processes for image
segmentation" (2011). Each site links to a neighbour or to itself; sites that links join sit at one table. In the dd-CRP
a table is a region, so regions are connected; in the rdd-CRP a Chinese restaurant process deals the tables to regions.
Sites, counts and likelihood are those of a :class:`~napari_gsw.Problem`; its couplings and its prior are not used.

:func:`log_joint` is the specification; :func:`sample` runs the sampler and yields the same snapshots as the package's
own chain, so that everything that can be done with the one can be done with the other.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from napari_gsw.core.array_types import Float64Array, Int32Array
from napari_gsw.core.errors import InputError
from napari_gsw.core.graph.region_graph import CsrGraph, make_csr_graph
from napari_gsw.core.model.problem import Problem, check_labels
from napari_gsw.core.pipeline.prepare import prepare
from napari_gsw.core.pipeline.provenance import describe_image, make_provenance
from napari_gsw.core.pipeline.stage import Report, Stage
from napari_gsw.core.posterior.result import Result, make_result
from napari_gsw.core.posterior.summary import Summary
from napari_gsw.core.sampler.chain import count_clusters
from napari_gsw.core.sampler.snapshot import (
    STATE_VERSION,
    Snapshot,
    check_version,
    export_sums,
    generator_state,
    make_generator,
    make_snapshot_from_sums,
    restore_sums,
)
from napari_gsw.core.sampler.state import N_TRACED, USED, RunningSums
from napari_gsw.core.settings import Settings
from napari_gsw.core.settings.setting import Options, setting
from napari_gsw.core.threads import run_in_thread
from napari_gsw.research.baselines import crp_kernels
from napari_gsw.research.baselines.crp_kernels import CHILD, ELDER, YOUNGER, LinkPrior, LinkState


@dataclass(frozen=True)
class DdCrp(Options):
    """Settings of the dd-CRP beside those of the features."""

    alpha: float = setting(
        1e-10, "dd-crp", "Weight of a link to the site itself; that to a neighbour is 1.", low=0.0, exclusive_min=True
    )


@dataclass(frozen=True)
class RddCrp(DdCrp):
    """Settings of the rdd-CRP beside those of the features."""

    gamma: float = setting(
        1e-2, "rdd-crp", "Concentration with which tables are dealt to regions.", low=0.0, exclusive_min=True
    )


@dataclass(frozen=True, eq=False)
class LinkModel:
    """A posterior over links of sites and regions of tables.

    Attributes
    ----------
    problem : its likelihoods and edges are used.
    alpha : weight of a site's link to itself.
    gamma : concentration of the process that deals tables to regions (rdd-CRP), or None: each table is one (dd-CRP).
    decay : (m,) weight f_ij of a link along each edge, either way; None for 1, the window decay of the paper.
    """

    problem: Problem
    alpha: float = 1e-10
    gamma: float | None = None
    decay: ArrayLike | None = None

    def __post_init__(self) -> None:
        for name, value in (("alpha", self.alpha), ("gamma", self.gamma)):
            if value is not None and not (math.isfinite(value) and value > 0):
                raise InputError(f"{name} must be a number > 0, not {value!r}")
        m = len(self.problem.edges)
        if self.weights.shape != (m,) or not (np.isfinite(self.weights) & (self.weights > 0)).all():
            raise InputError(f"decay must be a number > 0 for each of {m} edges")

    @cached_property
    def weights(self) -> Float64Array:
        """(m,) f_ij."""
        return np.ones(len(self.problem.edges)) if self.decay is None else np.asarray(self.decay, dtype=np.float64)


def log_joint(model: LinkModel, links: ArrayLike, regions: ArrayLike) -> float:
    """Log probability of links, regions and data, up to the likelihood's constant.

    log prod_i p(c_i) + log CRP(tables -> regions | gamma) + log p(y | regions), where p(c_i = j) is proportional to
    f_ij for neighbours and to alpha for i itself.

    Parameters
    ----------
    links : (n,) the site that each site points at.
    regions : (n,) whole numbers, equal within a table; in the dd-CRP different in different tables.
    """
    from scipy.special import gammaln

    problem, c = model.problem, check_labels(links, model.problem.n, "links")
    z = check_labels(regions, problem.n, "regions")
    weight = _weights(model)
    table = find_tables(c)
    count, first = np.unique(table, return_index=True)
    if not np.array_equal(z, z[first][table]):
        raise InputError("the sites of a table must share a region")
    held = np.unique(z[first], return_counts=True)[1]  # tables of each region
    chosen = np.asarray(weight[np.arange(problem.n), c]).ravel()
    value = float(np.sum(np.log(chosen)) - np.sum(np.log(np.asarray(weight.sum(axis=1)).ravel())))
    if model.gamma is None:
        if len(held) < len(count):
            raise InputError("in the dd-CRP each table is a region of its own")
    else:
        g = model.gamma
        value += float(gammaln(g) - gammaln(g + len(count)) + len(held) * np.log(g) + np.sum(gammaln(held)))
    return value + sum(block.log_marginal(z) for block in problem.likelihoods)


def find_tables(links: NDArray[np.integer]) -> NDArray[np.int64]:
    """(n,) number of the table of each site, 0, 1, ..."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    n = len(links)
    joined = coo_array((np.ones(n, np.int8), (np.arange(n), links)), shape=(n, n))
    return np.asarray(connected_components(joined, directed=False)[1], dtype=np.int64)


def sample(
    model: LinkModel,
    sweeps: int = 1000,
    seed: int = 0,
    init: ArrayLike | None = None,
    every: int = 1,
    *,
    burn_in: int = 0,
    state: Mapping[str, NDArray[Any]] | None = None,
) -> Iterator[Snapshot]:
    """Run the sampler and yield a snapshot after every `every` sweeps, and after the last.

    A sweep cuts each site's link once and draws it anew, together with the region of what hangs on it. Log posteriors
    in the snapshots are :func:`log_joint`.

    Parameters
    ----------
    init : (n,) regions to start from; None starts with each site linked to itself.
    burn_in : sweeps that the running sums leave out.
    state : arrays of an earlier snapshot of the same model, from which the chain goes on exactly; `seed` and `init` are
        then not used.
    """
    for name, number, least in (("sweeps", sweeps, 0), ("every", every, 1), ("seed", seed, 0), ("burn_in", burn_in, 0)):
        if isinstance(number, bool) or int(number) != number or number < least:
            raise InputError(f"{name} must be a whole number >= {least}, not {number!r}")
    chain = _start(model, seed, init) if state is None else _restored(model, state)
    return _drain(chain, int(sweeps), int(every), int(burn_in))


@dataclass
class _Chain:
    """What a running chain changes in place."""

    model: LinkModel
    graph: CsrGraph
    walker: LinkState
    rng: np.random.Generator


def _drain(chain: _Chain, sweeps: int, every: int, burn_in: int) -> Iterator[Snapshot]:
    if sweeps == 0:
        yield _snapshot(chain, np.empty((0, N_TRACED)))
    model = chain.model
    gamma = 1.0 if model.gamma is None else model.gamma
    prior = LinkPrior(math.log(model.alpha), math.log(gamma), model.gamma is not None)
    while sweeps > 0:
        trace = np.empty((min(every, sweeps), N_TRACED))
        chain.walker = run_in_thread(  # in which a signal during a kernel would take its records apart
            np.zeros(1, bool), crp_kernels.advance,
            model.problem.evidence, chain.graph, prior, chain.walker, chain.rng, burn_in, trace,
        )  # fmt: skip
        sweeps -= len(trace)
        yield _snapshot(chain, trace)


def _start(model: LinkModel, seed: int, init: ArrayLike | None) -> _Chain:
    n = model.problem.n
    if init is None:
        links, regions = np.arange(n, dtype=np.int32), np.arange(n, dtype=np.int32)
    else:
        regions = np.unique(check_labels(init, n, "init"), return_inverse=True)[1].astype(np.int32)
        links = _links_within(model.problem, regions)
        if model.gamma is None:
            regions = find_tables(links).astype(np.int32)
    value = log_joint(model, links, regions)
    together = np.zeros(len(model.problem.edges), np.int64)
    sums = RunningSums(np.array([value, value]), regions.copy(), together, np.zeros(3, np.int64))
    return _assembled(model, links, regions, sums, np.random.Generator(np.random.SFC64(seed)))


def _assembled(
    model: LinkModel, links: Int32Array, regions: Int32Array, sums: RunningSums, rng: np.random.Generator, used: int = 0
) -> _Chain:
    problem, n = model.problem, model.problem.n
    used = max(used, int(regions.max()) + 1)
    clusters = count_clusters(problem, regions, used)
    first = np.unique(find_tables(links), return_index=True)[1]
    tables = np.bincount(regions[first], minlength=len(clusters.size)).astype(np.int64)
    family = np.zeros((5, n), np.int32)
    family[[CHILD, YOUNGER, ELDER]] = -1
    for i, target in enumerate(links.tolist()):
        crp_kernels.attach_child(links, family[CHILD], family[YOUNGER], family[ELDER], i, target)
    counts = np.array([used, int((clusters.size > 0).sum()), len(first), 0])
    # The sampler reads the logarithms of the decay where a Potts model has its couplings.
    graph = make_csr_graph(n, problem.edges, np.log(model.weights))
    return _Chain(model, graph, LinkState(links, family, regions, clusters, tables, counts, sums), rng)


def _links_within(problem: Problem, regions: Int32Array) -> Int32Array:
    """Links along a tree of edges in each connected part of each region; the root of a tree points at itself."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import breadth_first_order, connected_components

    n, (a, b) = problem.n, problem.edges.T
    same = regions[a] == regions[b]
    graph = coo_array((np.ones(same.sum(), np.int8), (a[same], b[same])), shape=(n, n)).tocsr()
    links = np.arange(n, dtype=np.int32)
    for root in np.unique(connected_components(graph, directed=False)[1], return_index=True)[1]:
        order, before = breadth_first_order(graph, root, directed=False)
        links[order[1:]] = before[order[1:]]
    return links


def _weights(model: LinkModel) -> Any:
    """(n, n) sparse matrix of f_ij with alpha on the diagonal."""
    from scipy.sparse import coo_array

    n, (a, b), alone = model.problem.n, model.problem.edges.T, np.arange(model.problem.n)
    values = np.concatenate((model.weights, model.weights, np.full(n, model.alpha)))
    places = (np.concatenate((a, b, alone)), np.concatenate((b, a, alone)))
    return coo_array((values, places), shape=(n, n)).tocsr()


def _snapshot(chain: _Chain, trace: Float64Array) -> Snapshot:
    return make_snapshot_from_sums(chain.walker.sums, chain.walker.labels, trace, (), _exported(chain))


def _exported(chain: _Chain) -> Mapping[str, NDArray[Any]]:
    """The whole state of a chain as plain arrays."""
    walker = chain.walker
    used = int(walker.used[USED])
    arrays = {
        "version": STATE_VERSION,
        "links": walker.link,
        # Lists of children keep the order in which sites came, and walks follow it.
        "family": walker.family[[CHILD, YOUNGER, ELDER]],
        "labels": walker.labels,
        "seeds": np.full(len(walker.labels), -1, np.int32),
        "generator": generator_state(chain.rng),
        **export_sums(walker.sums),
        "moments": walker.clusters.moments[:, :used],
        "gauss": walker.clusters.gauss[:used],
    }
    return MappingProxyType({name: np.array(value) for name, value in arrays.items()})


def _restored(model: LinkModel, state: Mapping[str, NDArray[Any]]) -> _Chain:
    """The chain whose state was exported."""
    check_version(state)
    try:
        sums = restore_sums(state)
        links, labels, family = (state[name].astype(np.int32) for name in ("links", "labels", "family"))
        moments, gauss, words = state["moments"], state["gauss"], state["generator"]
    except KeyError as missing:
        raise InputError(f"the state of the chain lacks {missing}") from None
    if (len(labels), len(sums.together)) != (model.problem.n, len(model.problem.edges)):
        raise InputError("the state belongs to another problem")
    chain = _assembled(model, links, labels, sums, make_generator(words), gauss.size)
    chain.walker.family[[CHILD, YOUNGER, ELDER]] = family
    chain.walker.clusters.moments[:, : gauss.size] = moments
    chain.walker.clusters.gauss[: gauss.size] = gauss
    return chain


def segment(
    image: ArrayLike,
    settings: Settings,
    options: DdCrp,
    seed: int = 0,
    *,
    sites: ArrayLike | None = None,
    mask: ArrayLike | None = None,
    report: Report | None = None,
) -> Result:
    """Segment an image by the dd-CRP or, given the options of the latter, the rdd-CRP.

    Superpixels, features, sweeps and burn-in are those of the settings; `sites`, `mask` and `report` are those of
    :func:`napari_gsw.segment`. The result is the state of highest joint probability.
    """
    problem = prepare(image, settings, sites=sites, mask=mask, report=report)
    snapshot, trace = search(problem, options, seed, report)
    given = {name: array for name, array in (("sites", sites), ("mask", mask)) if array is not None}
    summary = Summary(problem, settings, snapshot, [trace])
    origin = make_provenance(describe_image(image), summary, seed, given)
    # What is maximised here is the joint probability of links and regions: the Potts model's log posterior is not it.
    del origin["log_posterior"]
    origin["method"] = {"name": "rdd-crp" if isinstance(options, RddCrp) else "dd-crp", **options.to_dict()}
    return make_result(summary, origin)


def search(
    problem: Problem, options: DdCrp, seed: int = 0, report: Report | None = None
) -> tuple[Snapshot, Float64Array]:
    """Run a chain on a prepared problem for as many sweeps as its settings say; the last snapshot and the trace."""
    settings = problem.settings or Settings()
    model = LinkModel(problem, options.alpha, options.gamma if isinstance(options, RddCrp) else None)
    rows, snapshot = [np.empty((0, N_TRACED))], None
    every = max(1, settings.sweeps // 100)
    for snapshot in sample(model, settings.sweeps, seed, every=every, burn_in=int(settings.burn_in * settings.sweeps)):
        rows.append(snapshot.trace)
        if report and report(Stage("sampling", snapshot.sweep, settings.sweeps), snapshot):
            break
    assert snapshot is not None
    return snapshot, np.concatenate(rows)
