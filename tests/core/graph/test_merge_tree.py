"""The hierarchy against slow, obvious merging; and what any ultrametric must hold."""

from __future__ import annotations

import numpy as np
import pytest

from napari_gsw.core.errors import InputError
from napari_gsw.core.graph.merge_tree import build_merge_tree, build_strength_tree


def slow(n, edges, apart, length, size=None, growth=0.0):
    """Regions as sets of sites; at each step every boundary is measured anew. Returns [(height, regions after)]."""

    def grown(pair):
        return 0.0 if size is None else growth * np.log(min(sum(size[i] for i in region) for region in pair))

    regions = [frozenset([i]) for i in range(n)]
    steps = []
    while True:
        boundaries = {}
        for e, (i, j) in enumerate(edges):
            a = next(r for r in regions if i in r)
            b = next(r for r in regions if j in r)
            if a != b:
                boundaries.setdefault(frozenset([a, b]), []).append(e)
        if not boundaries:
            return steps
        mean = {
            pair: (np.average(apart[es], weights=length[es]) + grown(pair), min(es)) for pair, es in boundaries.items()
        }
        pair = min(mean, key=mean.get)
        regions = [r for r in regions if r not in pair] + [frozenset.union(*pair)]
        steps.append((mean[pair][0], set(regions)))


def random_graph(rng, n, m):
    """Edges that may repeat a pair in either direction, and may leave the graph in several pieces."""
    edges = rng.integers(0, n, (m, 2))
    edges = edges[edges[:, 0] != edges[:, 1]].astype(np.int32)
    return edges, rng.random(len(edges)), rng.integers(1, 9, len(edges)).astype(float)


def groups(labels):
    return {frozenset(np.flatnonzero(labels == k).tolist()) for k in np.unique(labels)}


@pytest.mark.parametrize("seed", range(40))
def test_slow_merging_gives_the_same(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 14))
    edges, apart, length = random_graph(rng, n, int(rng.integers(1, 4 * n)))
    tree = build_merge_tree(n, edges, apart, length)
    steps = slow(n, edges, apart, length)
    assert tree.height == pytest.approx([h for h, _ in steps])
    for s, (_, regions) in enumerate(steps):
        assert groups(tree.labels_with(n - s - 1)) == regions
    assert len(tree.height) == len(steps)


@pytest.mark.parametrize("seed", range(20))
def test_slow_merging_by_strength_and_size_gives_the_same(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 14))
    edges, apart, length = random_graph(rng, n, int(rng.integers(1, 4 * n)))
    size, growth = rng.integers(1, 50, n).astype(float), float(rng.choice([0.0, 0.3, 2.0]))
    odds = 6 * apart - 3
    tree = build_strength_tree(n, edges, odds, size, growth, length)
    steps = slow(n, edges, odds, length, size / size.sum(), growth)
    assert tree.height == pytest.approx([1 / (1 + np.exp(-h)) for h, _ in steps])
    assert (np.diff(tree.height) >= 0).all()
    for s, (_, regions) in enumerate(steps):
        assert groups(tree.labels_with(n - s - 1)) == regions


@pytest.mark.parametrize("seed", range(20))
def test_ties_go_to_the_first_edge(seed):
    """Sums of zeros and ones are exact, so that equal means are equal numbers."""
    rng = np.random.default_rng(seed)
    n = 10
    edges = np.array([(i, j) for i in range(n) for j in range(i) if rng.random() < 0.4], np.int32)
    rng.shuffle(edges)
    apart = rng.integers(0, 2, len(edges)) / 1.0
    tree = build_merge_tree(n, edges, apart)
    steps = slow(n, edges, apart, np.ones(len(edges)))
    assert tree.height == pytest.approx([h for h, _ in steps])
    assert [groups(tree.labels_with(n - s - 1)) for s in range(len(steps))] == [regions for _, regions in steps]


@pytest.mark.parametrize("seed", range(10))
def test_contours_are_an_ultrametric(seed):
    rng = np.random.default_rng(seed)
    edges, apart, length = random_graph(rng, 12, 30)
    tree = build_merge_tree(12, edges, apart, length)
    assert (np.diff(tree.height) >= 0).all()
    pairs = np.stack(np.meshgrid(np.arange(12), np.arange(12), indexing="ij"), axis=-1).reshape(-1, 2)
    u = tree.contour(pairs).reshape(12, 12)
    assert (u == u.T).all()
    assert np.isneginf(np.diag(u)).all()
    assert (u[:, None, :] <= np.maximum(u[:, :, None], u[None, :, :])).all()
    for t in [-1.0, *tree.height, 0.5, 1.0]:
        z = tree.labels(t)
        assert np.array_equal(u <= t, z[:, None] == z)


def test_cuts_are_nested_and_canonical():
    rng = np.random.default_rng(3)
    edges, apart, length = random_graph(rng, 60, 150)
    tree = build_merge_tree(60, edges, apart, length)
    finer = tree.labels(-1)
    assert finer.tolist() == list(range(60))
    for count in range(60, 59 - len(tree.height), -1):
        z = tree.labels_with(count)
        assert z.dtype == np.int32
        assert z.max() + 1 == count
        first = np.unique(z, return_index=True)[1]
        assert (np.diff(first) > 0).all()
        pairs = np.unique(np.stack((finer, z)), axis=1)
        assert pairs.shape[1] == finer.max() + 1  # no region of the finer cut is divided
        finer = z
    assert tree.labels(1.0).tolist() == tree.labels_with(1).tolist()


def test_a_threshold_takes_the_merges_of_its_own_height():
    tree = build_merge_tree(3, [[0, 1], [1, 2]], [0.25, 0.5])
    assert tree.labels(0.25).tolist() == [0, 0, 1]
    assert tree.labels(0.2).tolist() == [0, 1, 2]


def test_length_weighs_the_mean():
    """Once 0 and 1 are one region, its boundary with 2 is three parts of 0.4 and one of 0.8."""
    tree = build_merge_tree(3, [[0, 1], [1, 2], [0, 2]], [0.1, 0.4, 0.8], [5, 3, 1])
    assert tree.height == pytest.approx([0.1, 0.5])


def test_pieces_stay_apart():
    tree = build_merge_tree(5, [[0, 1], [3, 4]], [1.0, 0.2])
    assert len(tree.height) == 2
    assert tree.labels(1.0).tolist() == [0, 0, 1, 2, 2]
    assert tree.labels_with(1).tolist() == [0, 0, 1, 2, 2]
    assert tree.contour([[0, 1], [0, 2], [1, 4]]).tolist() == [1.0, np.inf, np.inf]


@pytest.mark.parametrize("n", [1, 4])
def test_without_edges(n):
    tree = build_merge_tree(n, [], [])
    assert len(tree.height) == 0
    assert tree.labels(1.0).tolist() == list(range(n))
    assert tree.labels_with(1).tolist() == list(range(n))
    assert tree.contour([]).shape == (0,)


def test_a_large_star_and_a_large_grid():
    """Sizes at which a quadratic algorithm would be felt; a star has the longest list of boundaries that there is."""
    rng = np.random.default_rng(0)
    n = 40_000
    star = np.stack((np.zeros(n - 1, np.int32), np.arange(1, n, dtype=np.int32)), axis=1)
    apart = rng.random(n - 1)
    tree = build_merge_tree(n, star, apart)
    assert np.array_equal(tree.height, np.sort(apart))
    assert np.array_equal(tree.contour(star), apart)
    site = np.arange(n).reshape(200, 200)
    grid = np.concatenate([np.stack((a.ravel(), b.ravel()), axis=1) for a, b in
                           [(site[:-1], site[1:]), (site[:, :-1], site[:, 1:])]])  # fmt: skip
    tree = build_merge_tree(n, grid, rng.random(len(grid)))
    assert len(tree.height) == n - 1
    z = tree.labels(0.3)
    assert np.array_equal(tree.contour(grid) <= 0.3, z[grid[:, 0]] == z[grid[:, 1]])


@pytest.mark.parametrize(
    ("n", "edges", "apart", "length", "says"),
    [
        (3, [[0, 3]], [0.1], None, r"\[0, 2\]"),
        (3, [[0, 1, 2]], [0.1], None, "shape"),
        (3, [[1, 1]], [0.1], None, "different sites"),
        (3, [[0, 1]], [0.1, 0.2], None, "each of 1 edges"),
        (3, [[0, 1]], [0.1], [1.0, 2.0], "each of 1 edges"),
        (3, [[0, 1]], [np.nan], None, "burn-in"),
    ],
)
def test_input_errors(n, edges, apart, length, says):
    with pytest.raises(InputError, match=says):
        build_merge_tree(n, edges, apart, length)
    with pytest.raises(InputError, match=says):
        build_strength_tree(n, edges, apart, np.ones(n), 0.3, length)


def test_questions_that_have_no_answer():
    tree = build_merge_tree(2, [[0, 1]], [0.5])
    with pytest.raises(InputError, match="1 or more"):
        tree.labels_with(0)
    with pytest.raises(InputError, match="sites"):
        tree.contour([[0, 2]])
