"""Presets: what a user picks by what the image is, each a line of differences from the defaults of the settings."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from napari_gsw.core.errors import InputError
from napari_gsw.core.settings import Settings

# What the two presets for photographs have in common.
_PHOTOGRAPH: Mapping[str, Any] = dict(
    denoise="auto",
    refocus="auto",
    site_size=150,
    texture_words=32,
    graph_passes=8,
    alpha=1.0,
    sampler="swendsen-wang",
    bond_cap=2.0,
    consensus="vi",
    view="regions",
    min_region=None,
)
PRESETS: Mapping[str, Mapping[str, Any]] = {
    "general": dict(
        **_PHOTOGRAPH,
        painted_detail=3.0,
        word_scale=12.0,
        coupling="contrast",
        beta=4.0,
        contrast_scale=4.0,
        colour_scale=4.0,
        evidence=6.5,
        texture_evidence=5.0,
        hot=2.0,
        sweeps=300,
    ),
    "photo": dict(
        **_PHOTOGRAPH,
        painted_detail=2.5,
        word_scale=12.0,
        coupling="learnt",
        beta=2.5,
        offset=1.6,
        evidence=3.0,
        texture_evidence=3.0,
        splits=1,
        sweeps=200,
        join=0.35,
    ),
    "microscopy": dict(
        denoise="auto",
        signal="objects",
        objects="network",
        superpixels="watershed",
        site_size=30,
        likelihood="gaussian",
        evidence=4.0,
        gauss_shape=None,
        gauss_spread=0.2,
        prior="finite-dirichlet",
        K=2,
        alpha=1.0,
        coupling="contrast",
        beta=2.0,
        contrast_scale=20.0,
        sampler="bond-drawn",
        bond=0.5,
        start="random",
        start_clusters=2,
        sweeps=50,
        view="objects",
        min_region=16,
        neck=0.85,
        distinction=6.3,
    ),
    "membranes": dict(
        superpixels="ridges",
        likelihood="gaussian",
        evidence=0.05,
        prior="potts",
        K=60,
        coupling="learnt",
        boundary_model="membranes",
        network="none",
        beta=2.5,
        offset=1.0,
        sampler="swendsen-wang",
        bond_cap=2.0,
        splits=1,
        sweeps=200,
        view="regions",
        min_region=100,
    ),
    "paper": dict(site_count=1000, colours="hsv", evidence=8.0, alpha=3.0, beta=0.02, lam=10.0, sweeps=1000),
}
DEFAULT_PRESET = "general"
# How hot a chain begins whose clusters are shared by several images; measured in docs/shared_labels.md.
SHARED_HEAT = 4.0


def preset(name: str, **changes: Any) -> Settings:
    """The settings of a preset, with some of them changed.

    >>> preset("paper", alpha=1.0).alpha
    1.0
    """
    if name not in PRESETS:
        raise InputError(f"preset must be one of {', '.join(PRESETS)}, not {name!r}")
    plain = _plain(name)
    return plain.replace(**changes) if changes else plain


@cache
def _plain(name: str) -> Settings:
    """Checked once: a form asks for its preset at every change."""
    return Settings().replace(**PRESETS[name])


def shared_preset(name: str) -> dict[str, Any]:
    """What a preset is changed by for several images that share their clusters, where nobody has chosen otherwise.

    The view is clusters: a region lies in one image, a cluster in all of them. And the chain moves as
    :func:`shared_moves` says.

    >>> shared_changes("general")
    {'view': 'clusters', 'regroups': 1, 'hot': 4.0}
    """
    chosen = preset(name)
    return ({"view": "clusters"} if chosen.view == "regions" else {}) | with_shared_moves(chosen)


def with_shared_moves(settings: Settings) -> dict[str, Any]:
    """Settings with which a chain finds clusters that are one in several images: whole-cluster moves, a hot start.

    No spin cluster reaches from one image into another, so that two clusters which are one in every image could only
    become one image by image, against the prior. The law that is sampled is the same.
    """
    return {"regroups": 1 if settings.regroups is None else settings.regroups, "hot": max(settings.hot, SHARED_HEAT)}


def describe_default(name: str) -> str:
    """The value of a setting in the preset that is used when none is named, and in those that differ from it.

    >>> default_words("evidence")
    '6.5 (photo 3, microscopy 4, membranes 0.05, paper 8)'
    """
    usual = getattr(Settings, name)  # of the class: a record of all settings would be checked for each of them
    values = {p: c.get(name, usual) for p, c in PRESETS.items()}
    default = values[DEFAULT_PRESET]
    others = [f"{p} {_word(v)}" for p, v in values.items() if v != default]
    return _word(default) + (f" ({', '.join(others)})" if others else "")


def _word(value: object) -> str:
    return "none" if value is None else f"{value:g}" if isinstance(value, float) else str(value)
