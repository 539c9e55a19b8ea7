"""Distance-dependent Chinese restaurant processes on the region adjacency graph: dd-CRP and rdd-CRP.

After Ghosh, Ungureanu, Sudderth and Blei, "Spatial distance dependent Chinese restaurant processes for image
segmentation" (2011). Each site links to a neighbour or to itself, and sites connected by links, in either direction,
sit at one table. In the dd-CRP a table is a region, so regions are connected; in the rdd-CRP a Chinese restaurant
process assigns tables to regions. Sites, counts and likelihood are those of a :class:`~napari_gsw.Problem`; its
couplings and prior are not used. Regions are stored and scored like the clusters of
:mod:`napari_gsw.core.sampler.moves.sweep_kernels`.

:func:`log_joint` is the specification, :func:`sample` runs the sampler. If the link of site i is cut, the sites with
links that lead to i form a part A. If the link pointed outside A, the cut leaves two tables, otherwise one. The link of
i and the region of A are then drawn jointly from their conditional, so no move is rejected; R is a region without A,
and T the number of tables without A:

    to a neighbour j outside     f_ij p(y_A u R) / p(y_R), with R the region of j, whose table A joins
    to a neighbour inside, or i  f_ij (alpha for i itself) times the sum over the regions that a table of its own may
                                 get: R with weight tables(R) / (gamma + T) p(y_A u R) / p(y_R), or a new one with
                                 gamma / (gamma + T) p(y_A); in the dd-CRP p(y_A), always a new one
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from scipy.special import gammaln

from napari_gsw.core.array_types import Float64Array, Int32Array, Int64Array
from napari_gsw.core.errors import InputError
from napari_gsw.core.graph.region_graph import CsrGraph, make_csr_graph
from napari_gsw.core.jit import as_int64, full, njit, njit_inline, njit_inner, zeros
from napari_gsw.core.likelihood.likelihood_tables import LikelihoodTables
from napari_gsw.core.model.problem import Problem, check_labels
from napari_gsw.core.pipeline.prepare import Report, Stage, prepare
from napari_gsw.core.pipeline.provenance import describe_image, make_provenance
from napari_gsw.core.posterior.result import Result, make_result
from napari_gsw.core.posterior.summary import Summary
from napari_gsw.core.sampler.chain import count_clusters
from napari_gsw.core.sampler.chain_kernels import compact_slots, record_sweep
from napari_gsw.core.sampler.cluster_statistics import (
    GroupCounts,
    draw_candidate,
    fill_weights,
    gather_words,
    log_count_gain,
    log_gaussian_marginal,
    make_group,
    update_gaussian,
)
from napari_gsw.core.sampler.snapshot import Snapshot, export_sums, make_snapshot_from_sums
from napari_gsw.core.sampler.state import CLUSTERS, N_TRACED, NOW, USED, Clusters, RunningSums
from napari_gsw.core.settings import Settings
from napari_gsw.core.settings.declaration import POSITIVE, Options, setting
from napari_gsw.methods import Method

# Entry of LinkState.used beside USED and CLUSTERS.
TABLES = 2


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
    to f_ij for neighbours and to alpha for i itself. `links` (n,) are the sites that sites point at; `regions` (n,) are
    equal within a table, and in the dd-CRP different in different tables.
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


class LinkPrior(NamedTuple):
    """Weights of links and of regions."""

    log_alpha: float  # of a link to the site itself; the graph has log f_ij in place of beta
    log_gamma: float  # of a new region
    regional: bool  # rdd-CRP


class LinkState(NamedTuple):
    """State of a chain of links."""

    link: Int32Array  # (n,) the site that each site points at
    labels: Int32Array  # (n,) slot of each site's region
    clusters: Clusters  # at least n + 1 slots
    tables: Int64Array  # (slots,) tables of each region
    used: Int64Array  # (3,) USED: the first slot that was never used; CLUSTERS: regions; TABLES
    sums: RunningSums


@njit_inline
def collect_part(graph: CsrGraph, link: Int32Array, i: int, inside: Int64Array, part: Int32Array) -> int:
    """Write i and all sites whose links lead to it into `part`, set ``inside`` to i there, and return their number."""
    part[0] = i
    inside[i] = i
    members = as_int64(1)
    at = as_int64(0)
    while at < members:
        target = part[at]
        for t in range(graph.start[target], graph.start[target + 1]):
            j = as_int64(graph.neighbour[t])
            if link[j] == target and inside[j] != i:
                inside[j] = i
                part[members] = j
                members += 1
        at += 1
    return members


@njit_inline
def shift_part(
    evidence: LikelihoodTables, state: LinkState, k: int, members: int, group: GroupCounts, length: int, sign: int
) -> None:
    """Add the part to slot k, or remove it with sign -1."""
    clusters, used = state.clusters, state.used
    words, moments = clusters.words, clusters.moments
    used[CLUSTERS] += as_int64(clusters.size[k] == 0)
    clusters.size[k] += sign * members
    used[CLUSTERS] -= as_int64(clusters.size[k] == 0)
    used[USED] = max(used[USED], k + 1)
    for t in range(length):
        d = group.word[t]
        words[d, k] = as_int64(words[d, k]) + sign * as_int64(group.sums[d])
    if group.moments.size > 0:
        for c in range(group.moments.size):
            moments[c, k] = moments[c, k] + sign * group.moments[0, c] if clusters.size[k] > 0 else 0.0
        update_gaussian(evidence, clusters, k)


@njit_inline
def log_gain(evidence: LikelihoodTables, clusters: Clusters, group: GroupCounts, length: int, k: int) -> float:
    """Return log p(y_A u R) - log p(y_R) of the region in slot k."""
    words, gain = clusters.words, 0.0
    for t in range(length):
        d = group.word[t]
        gain += log_count_gain(evidence, d, as_int64(words[d, k]), as_int64(group.sums[d]))
    if group.moments.size > 0:
        pixels = as_int64(group.sums[evidence.pixels])
        gain += log_gaussian_marginal(evidence, clusters, k, pixels, group.moments, as_int64(0)) - clusters.gauss[k]
    return gain


@njit_inner
def relink(
    evidence: LikelihoodTables, graph: CsrGraph, prior: LinkPrior, state: LinkState, rng: np.random.Generator
) -> None:
    """Resample the links of all sites in order, each with the region of its part; ``graph.beta`` holds log f_ij."""
    start, neighbour, edge, log_f = graph.start, graph.neighbour, graph.edge, graph.beta
    link, labels, clusters, tables, used, value = (
        state.link, state.labels, state.clusters, state.tables, state.used, state.sums.value,
    )  # fmt: skip
    size, n, slots = clusters.size, labels.size, clusters.size.size
    group = make_group(evidence)
    part, inside = zeros(n, np.int32), full(n, -1, np.int64)
    fit, own, weight = zeros(slots, np.float64), zeros(slots, np.float64), zeros(slots, np.float64)
    fitted = full(slots, -1, np.int64)  # the site for which `fit` of a slot was computed
    score = zeros(n, np.float64)  # of the neighbours, then of the site itself
    for i in range(n):
        members = collect_part(graph, link, i, inside, part)
        length = as_int64(0)  # the different words of the part
        for c in range(group.moments.size):
            group.moments[0, c] = 0.0
        for t in range(members):
            length = gather_words(evidence, as_int64(part[t]), group.word, group.sums, length)
            for c in range(group.moments.size):
                group.moments[0, c] += evidence.moments[part[t], c]
        old, old_link = as_int64(labels[i]), as_int64(link[i])
        was_table = as_int64(inside[old_link] == i)
        shift_part(evidence, state, old, members, group, length, -1)
        tables[old] -= was_table
        used[TABLES] -= was_table
        fresh = as_int64(0)
        while size[fresh] > 0:
            fresh += 1

        # own: log weights of the regions that a table of its own may get
        choices = used[USED] + 1
        log_all = math.log(math.exp(prior.log_gamma) + used[TABLES]) if prior.regional else 0.0
        top = -math.inf
        for k in range(choices):
            own[k] = -math.inf
            if k == fresh or (prior.regional and size[k] > 0):
                fitted[k] = i
                fit[k] = log_gain(evidence, clusters, group, length, k)
                log_share = math.log(as_int64(tables[k])) if k != fresh else prior.log_gamma
                own[k] = fit[k] + (log_share - log_all if prior.regional else 0.0)
                top = max(top, own[k])
        log_own = top + math.log(fill_weights(own, weight, choices, top))

        degree = start[i + 1] - start[i]
        score[degree] = prior.log_alpha + log_own
        old_f = prior.log_alpha
        for t in range(degree):
            j = as_int64(neighbour[start[i] + t])
            f = log_f[edge[start[i] + t]]
            if j == old_link:
                old_f = f
            if inside[j] == i:
                score[t] = f + log_own
            else:
                k = as_int64(labels[j])
                if fitted[k] != i:
                    fitted[k] = i
                    fit[k] = log_gain(evidence, clusters, group, length, k)
                score[t] = f + fit[k]
        chosen = draw_candidate(score, weight, degree + 1, rng.random())

        # The former region is the free slot if nothing is left of it.
        value[NOW] -= old_f + (own[old if size[old] > 0 else fresh] if was_table else fit[old])
        link[i] = neighbour[start[i] + chosen] if chosen < degree else i
        if inside[link[i]] == i:
            new = draw_candidate(own, weight, choices, rng.random())
            value[NOW] += score[chosen] - log_own + own[new]
            tables[new] += 1
            used[TABLES] += 1
        else:
            new = as_int64(labels[link[i]])
            value[NOW] += score[chosen]
        shift_part(evidence, state, new, members, group, length, 1)
        for t in range(length):
            group.sums[group.word[t]] = 0
        for t in range(members):
            labels[part[t]] = new


@njit
def advance(
    evidence: LikelihoodTables, graph: CsrGraph, prior: LinkPrior, state: LinkState, rng: np.random.Generator,
    burn_in: int, trace: Float64Array,
) -> None:  # fmt: skip
    """Run ``len(trace)`` sweeps in place.

    ``trace[t]`` (3,) becomes log posterior, number of regions and the entropy of their sizes after sweep t.
    """
    used, tables = state.used, state.tables
    for t in range(trace.shape[0]):
        if used[USED] > 2 * used[CLUSTERS] + 4:
            moved = compact_slots(state.labels, state.clusters, used)
            for k in range(moved.size):
                if moved[k] >= 0:
                    tables[moved[k]] = tables[k]
            tables[used[USED] :] = 0
        relink(evidence, graph, prior, state, rng)
        record_sweep(
            state.sums, graph.left, graph.right, state.labels, state.clusters.size, used, burn_in, trace[t]
        )  # fmt: skip


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
    settings_used = problem.settings or settings
    sweeps = settings_used.sweeps
    model = LinkModel(problem, options.alpha, options.gamma if isinstance(options, RddCrp) else None)
    every, burn_in = max(1, sweeps // 100), int(settings_used.burn_in * sweeps)
    traces = []
    for snapshot in sample(model, sweeps, seed, every, burn_in=burn_in):
        traces.append(snapshot.trace)
        if report and report(Stage("sampling", snapshot.sweep, sweeps), snapshot):
            break
    inputs = {name: array for name, array in (("sites", sites), ("mask", mask)) if array is not None}
    summary = Summary(problem, settings, [snapshot], [np.concatenate(traces)])
    provenance = make_provenance(describe_image(image), summary, seed, inputs)
    del provenance["log_posterior"]  # of the Potts model, which is not what was maximized
    provenance["method"] = {"name": "rdd-crp" if isinstance(options, RddCrp) else "dd-crp", **options.to_dict()}
    return make_result(summary, provenance)


DD_CRP = Method(segment, DdCrp, samples=True)
RDD_CRP = Method(segment, RddCrp, samples=True)
