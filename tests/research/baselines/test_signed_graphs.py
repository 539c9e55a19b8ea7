"""Multicut, GASP and mutex watershed on the region adjacency graph."""

from __future__ import annotations

import itertools
import sys

import numpy as np
import pytest

import napari_gsw as gsw
from napari_gsw.core.errors import InputError
from napari_gsw.methods import choose, segment
from napari_gsw.research.baselines.signed_graphs import Gasp, Multicut, MutexWatershed, partition
from napari_gsw.scores.partitions import adjusted_rand

SIGNED_GRAPHS = {"multicut": Multicut(), "gasp": Gasp(), "mutex-watershed": MutexWatershed()}
MODULES = {"multicut": "bioimage_cpp", "gasp": "bioimage_cpp", "mutex-watershed": "mwatershed"}


def stripes():
    """Three clear colours, and which is which."""
    truth = np.repeat([1, 2, 3], 30)[None] + np.zeros((60, 1), int)
    colours = np.array([[200, 40, 40], [40, 160, 60], [50, 60, 210]])
    return colours[truth - 1].astype(np.uint8), truth


@pytest.mark.parametrize("name", SIGNED_GRAPHS)
def test_unambiguous_graph(name):
    """Two squares that hold together, one weak tie that repels, and a site that nothing touches."""
    pytest.importorskip(MODULES[name])
    edges = np.array([(0, 1), (1, 2), (2, 3), (0, 3), (3, 4), (4, 5), (5, 6), (6, 7), (4, 7)], np.int32)
    coupling = np.where((edges == [3, 4]).all(axis=1), -2.0, 1.0)
    parts = partition(9, edges, coupling, np.ones(len(edges)), SIGNED_GRAPHS[name])
    assert parts.tolist() == [0, 0, 0, 0, 1, 1, 1, 1, 2]


def test_neutral_coupling_is_subtracted():
    pytest.importorskip("mwatershed")
    edges = np.array([(0, 1), (1, 2)], np.int32)
    parts = partition(3, edges, np.array([2.0, 0.5]), np.ones(2), MutexWatershed(neutral=1.0))
    assert parts.tolist() == [0, 0, 1]


@pytest.mark.parametrize("seed", range(5))
def test_multicut_is_the_best_of_all_partitions(seed):
    pytest.importorskip("bioimage_cpp")
    rng = np.random.default_rng(seed)
    edges = np.array(list(itertools.combinations(range(6), 2)), np.int32)
    coupling = rng.normal(0, 1, len(edges))

    def inside(labels):
        labels = np.asarray(labels)
        return coupling[labels[edges[:, 0]] == labels[edges[:, 1]]].sum()

    most = max(inside(labels) for labels in itertools.product(range(6), repeat=6))
    assert inside(partition(6, edges, coupling, np.ones(len(edges)), Multicut())) >= most - 0.3


@pytest.mark.parametrize("name", SIGNED_GRAPHS)
def test_segments_by_the_settings_of_the_package(name):
    pytest.importorskip(MODULES[name])
    image, truth = stripes()
    choice = choose(name, "photo", {"site_size": "40", "network": "none"})
    outcome = segment(image, choice)
    assert adjusted_rand(outcome.labels, truth) > 0.9
    assert outcome.result is None
    assert outcome.provenance["method"]["site_size"] == 40
    sites = np.kron(np.arange(1, 55).reshape(6, 9), np.ones((10, 10), int))
    given = segment(image, choice, sites=sites).labels
    assert all(len(np.unique(given[sites == k])) == 1 for k in (1, 20, 54))


@pytest.mark.parametrize("name", SIGNED_GRAPHS)
def test_names_missing_package(name, monkeypatch):
    for module in ("bioimage_cpp.graph", "mwatershed"):
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(InputError, match=r"need.? (bioimage-cpp|mwatershed)\. Run: pip install"):
        partition(2, np.array([[0, 1]], np.int32), np.ones(1), np.ones(1), SIGNED_GRAPHS[name])


def test_settings_and_arrays_are_checked():
    with pytest.raises(gsw.InputError, match="linkage must be one of"):
        choose("gasp", "photo", {"linkage": "other"})
    with pytest.raises(gsw.InputError, match="takes no seeds"):
        segment(stripes()[0], choose("multicut", "photo"), seeds=np.zeros((60, 90), int))
