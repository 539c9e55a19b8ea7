"""Sites in which two labels meet are cut, and only those."""

from __future__ import annotations

import numpy as np

from napari_gsw.core.sites.scribbles import split_sites


def picture(shape=(12, 12)):
    grey = np.zeros((*shape, 1), np.float32)
    grey[:, 7:] = 50
    return grey


def test_every_stroke_pixel_lies_in_a_site_of_its_own_label():
    rng = np.random.default_rng(0)
    sites = np.repeat(np.repeat(np.arange(1, 10).reshape(3, 3), 4, 0), 4, 1)
    strokes = np.where(rng.random((12, 12)) < 0.08, rng.integers(1, 4, (12, 12)), 0)
    cut, parent = split_sites(sites, strokes, picture())
    assert (np.unique(cut) == np.arange(1, len(parent) + 1)).all()
    assert (parent[cut - 1] == sites - 1).all()  # a piece lies in the site it was cut from
    for site in np.unique(cut):
        here = strokes[cut == site]
        assert len(np.unique(here[here > 0])) <= 1


def test_nothing_is_cut_without_need():
    sites = np.repeat(np.arange(1, 4), 4)[np.newaxis].repeat(12, 0)
    strokes = np.zeros((12, 12), int)
    strokes[3, 1], strokes[8, 2] = 2, 2
    cut, parent = split_sites(sites, strokes, picture())
    assert cut is sites
    assert parent.tolist() == [0, 1, 2]


def test_the_cut_follows_the_step_of_colour():
    sites = np.ones((12, 12), int)
    strokes = np.zeros((12, 12), int)
    strokes[6, 1], strokes[6, 10] = 4, 9
    cut, _ = split_sites(sites, strokes, picture())
    left = cut[:, :6]
    assert len(np.unique(left)) == 1
    assert len(np.unique(cut[:, 8:])) == 1
    assert cut[0, 0] != cut[0, 11]


def test_volumes_are_cut_too():
    sites = np.ones((4, 5, 6), int)
    strokes = np.zeros((4, 5, 6), int)
    strokes[0, 0, 0], strokes[3, 4, 5] = 1, 2
    cut, parent = split_sites(sites, strokes, np.zeros((4, 5, 6, 1), np.float32))
    assert len(parent) == 2
    assert cut[0, 0, 0] != cut[3, 4, 5]
