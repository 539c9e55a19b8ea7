"""dd-CRP and rdd-CRP: the chain samples links and regions from their exact law."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

import napari_gsw as gsw
from exact_posterior import agrees, compared, partitions
from napari_gsw.core.jit import njit
from napari_gsw.core.partitions import canonical_labels
from napari_gsw.core.settings.presets import preset
from napari_gsw.research.baselines import crp
from napari_gsw.research.baselines.crp import DdCrp, LinkModel, RddCrp, find_tables, log_joint, sample
from napari_gsw.scores.partitions import rand_index
from problems import planar

GRAPHS = {
    "ring": [(0, 1), (1, 2), (2, 3), (3, 4), (0, 4)],
    "house": [(0, 1), (1, 2), (2, 3), (3, 0), (2, 4), (3, 4)],
    "two-parts": [(0, 1), (2, 3), (3, 4)],
}


def model(graph, gamma, seed=0, alpha=0.6, likelihood="words", decay=True):
    """Five sites whose data leave many states probable."""
    rng = np.random.default_rng(seed)
    edges = np.array(GRAPHS[graph])
    if likelihood == "words":
        block = gsw.DirichletMultinomial(rng.integers(0, 6, (5, 4)), phi=8.0, evidence=3.0)
    else:
        block = gsw.Gaussian.from_pixels(
            rng.normal(size=(20, 2)), np.arange(20) // 4, 5, evidence=1.5, kappa=0.5, shape=2.0, spread=0.8
        )
    problem = gsw.Problem(5, (block,), edges, 0.3, gsw.DirichletProcess(1.0))
    return LinkModel(problem, alpha, gamma, rng.uniform(0.3, 2.0, len(edges)) if decay else 1.0)


def obvious_log_joint(m, links, regions):
    """The joint probability of links and regions without the data, written out factor by factor."""
    n, p = m.problem.n, m.problem
    weight = {(i, i): m.alpha for i in range(n)}
    for (a, b), f in zip(p.edges.tolist(), m.weights, strict=True):
        weight[a, b] = weight[b, a] = f
    value = 0.0
    for i in range(n):
        value += math.log(weight[i, links[i]] / sum(w for (a, _), w in weight.items() if a == i))
    if m.gamma is not None:  # tables come in one after the other
        seated = []
        for region in dict(zip(find_tables(np.array(links)).tolist(), regions, strict=True)).values():
            value += math.log((seated.count(region) or m.gamma) / (m.gamma + len(seated)))
            seated.append(region)
    return value


def states(m):
    """All links with all ways of dealing their tables to regions, and the exact law of these pairs."""
    n = m.problem.n
    targets = [[i] for i in range(n)]
    for a, b in m.problem.edges.tolist():
        targets[a].append(b)
        targets[b].append(a)
    evidence = {}
    for z in partitions(n):
        evidence[tuple(z.tolist())] = sum(block.log_marginal(z) for block in m.problem.likelihoods)
    links, regions, values = [], [], []
    for c in itertools.product(*targets):
        table = find_tables(np.array(c))
        for deal in partitions(table.max() + 1) if m.gamma is not None else [np.arange(table.max() + 1)]:
            z = tuple(canonical_labels(deal[table].astype(np.int32)).tolist())
            links.append(c)
            regions.append(z)
            values.append(obvious_log_joint(m, c, z) + evidence[z])
    return np.array(links), np.array(regions), np.array(values)


@njit
def _visits(evidence, graph, prior, state, rng, burn_in, sweeps):
    """Links and regions after each sweep, as numbers in base n, shape (2, sweeps)."""
    codes = np.zeros((2, sweeps), np.int64)
    trace = np.zeros((1, 3))
    n = state.labels.size
    for t in range(sweeps):
        crp.advance(evidence, graph, prior, state, rng, burn_in, trace)
        for i in range(n):
            codes[0, t] = codes[0, t] * n + state.link[i]
        for k in canonical_labels(state.labels):
            codes[1, t] = codes[1, t] * n + k
    return codes


def law(rows, p):
    """The law of one of the two alone."""
    found, where = np.unique(rows, axis=0, return_inverse=True)
    return found, np.bincount(where.ravel(), p, len(found))


@pytest.mark.parametrize("gamma", [None, 0.7])
@pytest.mark.parametrize(
    ("graph", "options"),
    [
        *((graph, dict(seed=len(graph))) for graph in GRAPHS),
        ("house", dict(seed=5, likelihood="gaussian")),
        # The paper's parameters: self-links are all but impossible, yet the rest of the law must be right.
        ("house", dict(seed=3, alpha=1e-10, decay=False)),
    ],
)
def test_links_and_regions_follow_their_exact_law(graph, options, gamma):
    m = model(graph, gamma, **options)
    links, regions, values = states(m)
    p = np.exp(values - values.max())
    for seed, sweeps in ((0, 100_000), (1, 400_000)):
        chain = (m.problem.evidence, *crp.start_chain(m, seed))
        codes = _visits(*chain, 0, sweeps)
        found = [compared(code, *law(rows, p / p.sum())) for code, rows in zip(codes, (links, regions), strict=True)]
        if all(agrees(f) for f in found):
            return
    raise AssertionError(found)


@pytest.mark.parametrize("gamma", [None, 0.3])
def test_the_log_joint_is_the_product_of_its_factors(gamma):
    m = model("house", gamma)
    links, regions, values = states(m)
    for k in np.random.default_rng(0).permutation(len(links))[:100]:
        assert log_joint(m, links[k], regions[k]) == pytest.approx(values[k], abs=1e-9)


@pytest.mark.parametrize("channels", [0, 2])
@pytest.mark.parametrize("gamma", [None, 1e-2])
def test_the_running_log_posterior_is_the_joint(gamma, channels):
    m = LinkModel(planar(n=200, channels=channels), 1e-3, gamma)
    for snapshot in sample(m, 40, seed=1, every=10):
        exact = log_joint(m, snapshot.state["links"], snapshot.state["labels"])
        assert snapshot.log_posterior == pytest.approx(exact, abs=1e-6)
    assert snapshot.best.log_posterior >= snapshot.log_posterior
    assert snapshot.best.n_clusters == snapshot.best.labels.max() + 1


def test_only_the_rdd_crp_joins_what_does_not_touch():
    """A path of sites whose ends look the same and whose middle does not."""
    words = np.repeat([0, 1, 0], 10)
    counts = 20 * np.eye(2, dtype=int)[words]
    edges = np.stack((np.arange(29), np.arange(1, 30)), axis=1)
    p = gsw.Problem.from_counts(counts, edges, phi=2.0)
    for gamma, expected in ((None, np.repeat([0, 1, 2], 10)), (1e-2, words)):
        *_, last = sample(LinkModel(p, 1e-3, gamma), 100, seed=0, every=100)
        assert np.array_equal(last.best.labels, expected)


@pytest.mark.parametrize(
    "wrong", [dict(alpha=0.0), dict(gamma=-1.0), dict(decay=np.full(5, np.nan)), dict(alpha=np.inf)]
)
def test_wrong_parameters_are_named(wrong):
    with pytest.raises(gsw.InputError, match=next(iter(wrong))):
        LinkModel(model("ring", None).problem, **wrong)


def test_states_that_contradict_the_model_are_refused():
    m = model("ring", None)
    with pytest.raises(gsw.InputError, match="share a region"):
        log_joint(m, [1, 0, 2, 3, 4], [0, 1, 2, 3, 4])
    with pytest.raises(gsw.InputError, match="of its own"):
        log_joint(m, [0, 1, 2, 3, 4], [0, 0, 2, 3, 4])


@pytest.mark.parametrize("options", [DdCrp(), RddCrp()])
def test_an_image_is_segmented_with_trace_and_uncertainty(options):
    image = np.zeros((40, 60, 3), np.uint8)
    image[:, 20:40] = (200, 60, 40)
    image[:, 40:] = (30, 90, 220)
    found = crp.segment(image, preset("paper", sweeps=60, site_size=20), options, seed=0)
    assert rand_index(found.labels, np.arange(60)[None] // 20 + np.zeros((40, 1), int)) > 0.99
    assert len(found.trace.sweep) == 60
    assert found.provenance["method"]["alpha"] == 1e-10
    assert np.isfinite(found.uncertainty).all()
