"""Rivals on our own graph: they are called as they are meant to be, and are missed politely."""

from __future__ import annotations

import builtins
import itertools

import numpy as np
import pytest

import napari_gsw as gsw
from napari_gsw.core.errors import InputError
from napari_gsw.methods import choose, segment
from napari_gsw.research.baselines.signed_graphs import Gasp, Multicut, MutexWatershed, partition
from napari_gsw.scores.partitions import adjusted_rand

RIVALS = {"multicut": Multicut(), "gasp": Gasp(), "mutex-watershed": MutexWatershed()}
MODULES = {"multicut": "bioimage_cpp", "gasp": "bioimage_cpp", "mutex-watershed": "mwatershed"}


def stripes():
    """Three clear colours, and which is which."""
    truth = np.repeat([1, 2, 3], 30)[None] + np.zeros((60, 1), int)
    colours = np.array([[200, 40, 40], [40, 160, 60], [50, 60, 210]])
    return colours[truth - 1].astype(np.uint8), truth


@pytest.mark.parametrize("name", RIVALS)
def test_a_graph_that_leaves_no_doubt(name):
    """Two squares that hold together, one weak tie that repels, and a site that nothing touches."""
    pytest.importorskip(MODULES[name])
    edges = np.array([(0, 1), (1, 2), (2, 3), (0, 3), (3, 4), (4, 5), (5, 6), (6, 7), (4, 7)], np.int32)
    coupling = np.where((edges == [3, 4]).all(axis=1), -2.0, 1.0)
    parts = partition(9, edges, coupling, np.ones(len(edges)), RIVALS[name])
    assert parts.tolist() == [0, 0, 0, 0, 1, 1, 1, 1, 2]


def test_the_neutral_coupling_is_subtracted():
    pytest.importorskip("mwatershed")
    edges = np.array([(0, 1), (1, 2)], np.int32)
    parts = partition(3, edges, np.array([2.0, 0.5]), np.ones(2), MutexWatershed(neutral=1.0))
    assert parts.tolist() == [0, 0, 1]


@pytest.mark.parametrize("seed", range(5))
def test_the_multicut_is_the_best_of_all_partitions(seed):
    pytest.importorskip("bioimage_cpp")
    rng = np.random.default_rng(seed)
    edges = np.array(list(itertools.combinations(range(6), 2)), np.int32)
    coupling = rng.normal(0, 1, len(edges))

    def inside(labels):
        labels = np.asarray(labels)
        return coupling[labels[edges[:, 0]] == labels[edges[:, 1]]].sum()

    most = max(inside(labels) for labels in itertools.product(range(6), repeat=6))
    assert inside(partition(6, edges, coupling, np.ones(len(edges)), Multicut())) >= most - 0.3


@pytest.mark.parametrize("name", RIVALS)
def test_rivals_segment_by_the_settings_of_ours(name):
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


@pytest.mark.parametrize("name", RIVALS)
def test_a_missing_package_is_named(name, monkeypatch):
    real = builtins.__import__

    def without(module, *rest, **more):
        if module.partition(".")[0] in MODULES.values():
            raise ImportError(module)
        return real(module, *rest, **more)

    monkeypatch.setattr("importlib.import_module", without)
    with pytest.raises(InputError, match=r"needs (bioimage-cpp|mwatershed): pip install"):
        partition(2, np.array([[0, 1]], np.int32), np.ones(1), np.ones(1), RIVALS[name])


def test_settings_are_checked_as_ours_are():
    with pytest.raises(gsw.InputError, match="linkage must be one of"):
        choose("gasp", "photo", {"linkage": "other"})
    with pytest.raises(gsw.InputError, match="takes no seeds"):
        segment(stripes()[0], choose("multicut", "photo"), seeds=np.zeros((60, 90), int))
