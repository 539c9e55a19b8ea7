"""Arguments that crashed the interpreter, hung or passed in silence: each is a sentence now, or works."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import napari_gsw as gsw
from napari_gsw.core.sampler.state import Bonds
from problems import planar

TESTS = Path(__file__).parents[1]


def gaussian(**changes):
    parts = dict(mass=np.array([2, 2, 2]), sums=np.ones((3, 2)), squares=np.full((3, 2), 4.0), variance=np.ones(2))
    return gsw.Gaussian(**(parts | changes))


@pytest.mark.parametrize("words", [0, -1, 2.5, None, True])
def test_a_codebook_has_a_word_at_least(words):
    with pytest.raises(gsw.InputError, match="words must be a whole number >= 1"):
        gsw.Codebook.fit(np.random.default_rng(0).random((8, 8)), words=words)


@pytest.mark.parametrize(
    "centres", [np.zeros((0, 3)), np.full((2, 2), np.nan), np.zeros(3), np.full((1, 1), 1e300), "x"]
)
def test_the_centres_of_a_codebook_are_rows_of_numbers(centres):
    with pytest.raises(gsw.InputError, match="centres must"):
        gsw.Codebook(centres, "channels")


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        (dict(variance=np.ones(1)), r"variance must have shape \(2,\)"),
        (dict(variance=np.ones(3)), r"variance must have shape \(2,\)"),
        (dict(variance=np.array([1.0, np.nan])), "variance must be numbers"),
        (dict(variance=np.array([1.0, -1.0])), "variance must be numbers"),
        (dict(squares=np.ones((3, 1))), r"squares must have shape \(3, 2\)"),
        (dict(squares=np.full((3, 2), 1e200), variance=np.full(2, 1e-190)), "give the variance of the values"),
        (dict(sums=np.ones((2, 2))), "sums must have a row for each of 3 sites"),
        (dict(mass=np.array([2, -1, 2])), "mass must be whole numbers >= 0"),
        (dict(mass=np.array([2, 0, 2])), "must be 0 for a site of mass 0"),
        (dict(mass=np.zeros(3, int)), "mass must add up to a number"),
    ],
)
def test_sums_of_channels_fit_each_other(changes, sentence):
    gaussian()
    with pytest.raises(gsw.InputError, match=sentence):
        gaussian(**changes)


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        (dict(annealing=(1e-320, 50)), "temperature of annealing"),
        (dict(annealing=3.0), "annealing must be a temperature and a number of sweeps"),
        (dict(bonds=Bonds(np.ones(3), 0.0, 0.0)), "bonds must have a strength >= 0 for each of"),
        (dict(bonds=Bonds(np.ones(1), 0.5, 0.2)), "bonds must have a strength"),
        (dict(bonds=0.3), "bonds must be a record"),
        (dict(ladder=[1.0, np.nan]), "a ladder is"),
        (dict(ladder=[1.0, 1e-320]), "a ladder is"),
        (dict(seed=-1), "seed must be a whole number >= 0"),
        (dict(seed=1.5), "seed must be a whole number >= 0"),
        (dict(seed="now"), "seed must be a whole number >= 0"),
        (dict(seeds=np.full(50, 2**64 - 1, np.uint64)), "seeds must be numbers in"),
        (dict(interval=np.nan), "interval must be a number >= 0"),
        (dict(burn_in=2**63), "burn_in must be a whole number in"),
        (dict(lam="strong"), "lam must hold numbers"),
    ],
)
def test_arguments_of_a_chain_are_refused_by_name(more, sentence):
    with pytest.raises(gsw.InputError, match=sentence):
        gsw.run(planar(n=50), 2, **more)


def test_a_bond_that_is_as_strong_as_can_be_leaves_the_numbers_right():
    problem = planar(n=50, beta=1.0)
    snapshot = gsw.run(problem, 20, lam=1e308, init=np.arange(50))
    assert snapshot.log_posterior == pytest.approx(gsw.log_posterior(problem, snapshot.labels), rel=1e-9)


def test_huge_labels_are_labels_like_others():
    problem = planar(n=50)
    init = np.where(np.arange(50) < 25, 2**63 - 1, -(2**63))
    seeds = np.where(np.arange(50) == 3, 1, -1)
    assert gsw.run(problem, 0, init=init, seeds=seeds).n_clusters == 3


def test_settings_are_finite():
    for name in ("hot", "lam", "compactness", "graph_scale"):
        with pytest.raises(gsw.InputError, match=f"{name} must be a number"):
            gsw.Settings(**{name: np.inf})


def test_no_seed_draws_one_and_says_which():
    image = np.kron(np.eye(2), np.ones((8, 8)))
    result = gsw.segment(image, seed=None, sweeps=2)
    again = gsw.segment(image, seed=result.provenance["seed"], sweeps=2)
    assert np.array_equal(result.trace.log_posterior, again.trace.log_posterior)
    assert gsw.segment(image, seed=None, sweeps=2).provenance["seed"] != result.provenance["seed"]
    with pytest.raises(gsw.InputError, match="seed must be"):
        gsw.segment(image, seed=-3)


@pytest.mark.parametrize("preset", ["general", "microscopy"])
def test_nobody_minds_what_is_outside_the_mask(preset):
    rng = np.random.default_rng(0)
    image = np.kron(rng.random((4, 4)), np.ones((8, 8)))
    mask = np.arange(32) < 24
    mask = np.broadcast_to(mask, image.shape)
    bad = np.where(mask, image, np.nan)
    bad[0, -1] = np.inf
    result = gsw.segment(bad, mask=mask, sweeps=3, preset=preset)
    assert not result.labels[~mask].any()
    assert np.isfinite(result.problem.beta).all()
    by_sites = gsw.prepare(bad, sites=mask * (1 + np.arange(32) // 4), preset=preset)
    assert by_sites.n == 6
    both = gsw.prepare([bad, image], mask=[mask, None], preset="paper")
    assert np.isfinite(both.evidence.table).all()
    bad[5, 5] = np.nan
    with pytest.raises(gsw.InputError, match="1 pixels that are NaN or infinite"):
        gsw.segment(bad, mask=mask, sweeps=3, preset=preset)


def test_nobody_minds_what_is_outside_the_mask_of_a_lazy_image():
    dask = pytest.importorskip("dask.array")
    image = np.kron(np.random.default_rng(0).random((12, 12)), np.ones((8, 8)))
    mask = np.broadcast_to(np.arange(96) < 40, image.shape)
    lazy = dask.from_array(np.where(mask, image, np.nan), chunks=(32, 32))
    problem = gsw.prepare(lazy, mask=mask, block_pixels=4096, preset="paper", site_size=60)
    assert np.isfinite(problem.evidence.table).all()
    assert not problem.site_image[~mask].any()


@pytest.mark.slow
def test_kernels_stay_inside_their_arrays(tmp_path):
    """SLIC within a mask, and chains of every kind, with the bounds of arrays checked."""
    script = """
import numpy as np
import napari_gsw as gsw
from problems import planar
image = np.random.default_rng(0).random((20, 150))
mask = np.broadcast_to(np.arange(150) % 40 > 20, image.shape)
gsw.prepare(image, mask=mask, preset="paper", site_size=20)
gsw.run(planar(n=40, channels=1), 5, regroups=1, splits=1, ladder=(1.0, 0.5), full_scans=0.5)
print("inside")
"""
    env = os.environ | {
        "PYTHONPATH": os.pathsep.join([str(TESTS), *sys.path]),
        "NUMBA_BOUNDSCHECK": "1",
        "NUMBA_CACHE_DIR": str(tmp_path),
    }
    done = subprocess.run([sys.executable, "-c", script], env=env, capture_output=True, text=True, timeout=600)
    assert (done.returncode, done.stdout.strip()) == (0, "inside"), done.stderr


def test_a_mask_of_numpy_is_not_ignored():
    image = np.ma.masked_greater(np.arange(900.0).reshape(30, 30), 100.0)
    with pytest.raises(gsw.InputError, match=r"the image has a mask of its own: give its data, and .* by mask="):
        gsw.segment(image)
    whole = np.ma.masked_array(image.data, mask=False)
    np.testing.assert_array_equal(gsw.segment(whole, sweeps=2).labels, gsw.segment(image.data, sweeps=2).labels)
