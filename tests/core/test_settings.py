"""The one declaration of every knob."""

from __future__ import annotations

import json

import pytest

import napari_gsw as gsw
from napari_gsw.core.settings import SECTIONS, setting_fields
from napari_gsw.core.settings.declaration import file_paths
from napari_gsw.core.settings.presets import PRESETS
from napari_gsw.sample_data import mosaic


@pytest.mark.parametrize("name", setting_fields())
def test_every_knob_has_a_sentence_a_section_and_a_valid_default(name):
    setting = setting_fields()[name]
    assert setting.section in SECTIONS
    assert setting.help[0].isupper() or setting.help.startswith("1 ")
    assert setting.help.endswith((".", ";"))
    assert setting.convert(name, getattr(gsw.Settings(), name)) == getattr(gsw.Settings(), name)
    text = str(getattr(gsw.Settings(), name))
    assert setting.convert(name, text.lower() if text == "None" else text) == getattr(gsw.Settings(), name)


def test_settings_survive_json():
    settings = gsw.preset("paper", evidence=None, max_size=50)
    assert gsw.Settings(**json.loads(json.dumps(settings.to_dict()))) == settings


def test_settings_are_frozen():
    with pytest.raises(AttributeError):
        gsw.Settings().alpha = 3


@pytest.mark.parametrize("name", PRESETS)
def test_presets(name):
    assert gsw.preset(name).replace(sweeps=3).sweeps == 3


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (dict(site_size=0), "site_size must be a whole number >= 1, not 0"),
        (dict(site_size=2.5), "site_size must be a whole number"),
        (dict(site_size="many"), "site_size must be a whole number >= 1, not 'many'"),
        (dict(site_size=True), "site_size must be a whole number"),
        (dict(phi=0), r"phi must be a number in \(1e-100, 1e\+09\], not 0"),
        (dict(phi="nan"), r"phi must be a number in \(1e-100, 1e\+09\], not 'nan'"),
        (dict(phi=1e12), "phi must be a number in"),
        (dict(phi=1e-320), "phi must be a number in"),
        (dict(texture_phi=1e12), "texture_phi must be a number in"),
        (dict(gauss_shape=1e15), r"gauss_shape must be a number in \(1, 1e\+09\] or none"),
        (dict(alpha=1e14), r"alpha must be a number <= 1e\+09"),
        (dict(beta=1e308), r"beta must be a number in \[0, 1e\+06\]"),
        (dict(evidence=-1), r"evidence must be a number in \(0, 1e\+09\] or none"),
        (dict(theta=1), r"theta must be a number in \[-1e\+09, 1\)"),
        (dict(K=0), "K must be a whole number >= 1, not 0"),
        (dict(prior="normal"), "prior must be one of dirichlet-process, pitman-yor"),
        (dict(neighbourhood=3), r"neighbourhood must be a whole number in \[1, 2\]"),
        (dict(bond=1.0), r"bond must be a number in \[0, 1\)"),
        (dict(max_size=3, min_size=5), "max_size must be a whole number >= min_size"),
        (dict(sampler="bond-drawn", bond=0.1, bond_low=0.5), "bond_low must be"),
        (dict(aplha=1), "did you mean alpha"),
        (dict(zzz=1), "the settings are axes, "),
    ],
)
def test_values_out_of_range(changes, words):
    with pytest.raises(gsw.InputError, match=words):
        gsw.Settings().replace(**changes)


def test_a_number_of_sites_or_a_size():
    paper = gsw.preset("paper")
    assert paper.site_count_for(154_401) == paper.site_count_for(65_536) == 1000
    assert paper.site_count_for(500) == 500
    assert not paper.is_active("site_size")
    assert gsw.preset("paper", site_size=60).site_count_for(6_000) == 100
    assert paper.replace(site_size=60).site_count is None
    assert gsw.preset("paper", site_size=60, site_count=7).site_count_for(6_000) == 7
    assert gsw.preset("general", site_count=7).site_count_for(6_000) == 7


@pytest.mark.parametrize("method", ["slic", "felzenszwalb", "watershed", "grid"])
def test_every_kind_of_superpixels_makes_the_number_that_is_asked_for(method):
    problem = gsw.prepare(mosaic()[0], superpixels=method, site_count=400)
    assert 280 <= problem.n <= 560


def test_settings_that_name_a_file():
    assert all(file_paths(gsw.preset(name)) == {} for name in gsw.PRESETS)
    settings = gsw.preset("photo", codebook="a.json", network="b.npz", boundary_model="membranes")
    assert file_paths(settings) == {"codebook": "a.json", "network": "b.npz"}
