"""Presets for kinds of images, as differences from the defaults of the settings."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from napari_gsw.core.errors import InputError
from napari_gsw.core.settings import Settings

# Common to the two presets for photographs.
# fmt: off
_PHOTOGRAPH: Mapping[str, Any] = dict(
    denoise="auto", refocus="auto", site_size=150, texture_words=32, graph_passes=8, alpha=1.0,
    sampler="swendsen-wang", bond_cap=2.0, consensus="vi", view="regions", min_region=None,
)
PRESETS: Mapping[str, Mapping[str, Any]] = {
    "general": dict(
        **_PHOTOGRAPH, painted_detail=3.0, word_scale=12.0, coupling="contrast", beta=4.0, contrast_scale=4.0,
        colour_scale=4.0, evidence=6.5, texture_evidence=5.0, hot=2.0, sweeps=300,
    ),
    "photo": dict(
        **_PHOTOGRAPH, painted_detail=2.5, word_scale=12.0, coupling="learnt", beta=2.5, offset=1.6,
        evidence=3.0, texture_evidence=3.0, splits=1, sweeps=200, join=0.35,
    ),
    "microscopy": dict(
        denoise="auto", signal="objects", objects="network", superpixels="watershed", site_size=30,
        likelihood="gaussian", evidence=4.0, gauss_shape=None, gauss_spread=0.2, prior="finite-dirichlet", K=2,
        alpha=1.0, coupling="contrast", beta=2.0, contrast_scale=20.0, sampler="bond-drawn", bond=0.5,
        start="random", start_clusters=2, sweeps=50, view="objects", min_region=16, neck=0.85, distinction=6.3,
    ),
    "membranes": dict(
        superpixels="ridges", likelihood="gaussian", evidence=0.05, prior="potts", K=60, coupling="learnt",
        boundary_model="membranes", network="none", beta=2.5, offset=1.0, sampler="swendsen-wang", bond_cap=2.0,
        splits=1, sweeps=200, view="regions", min_region=100,
    ),
    "paper": dict(site_count=1000, colours="hsv", evidence=8.0, alpha=3.0, beta=0.02, lam=10.0, sweeps=1000),
}
DEFAULT_PRESET = "general"
# fmt: on
# Initial temperature for clusters that are shared by several images; measured in docs/shared_labels.md.
SHARED_HEAT = 4.0


def preset(name: str, **changes: Any) -> Settings:
    """Return the settings of a preset, with some of them changed.

    >>> preset("paper", alpha=1.0).alpha
    1.0
    """
    if name not in PRESETS:
        raise InputError(f"preset must be one of {', '.join(PRESETS)}, not {name!r}")
    settings = _make_preset(name)
    return settings.replace(**changes) if changes else settings


@cache
def _make_preset(name: str) -> Settings:
    return Settings().replace(**PRESETS[name])


def shared_preset(name: str) -> dict[str, Any]:
    """Return the changes of a preset for several images with shared clusters; regions lie in one image.

    >>> shared_preset("general")
    {'view': 'clusters', 'regroups': 1, 'hot': 4.0}
    """
    chosen = preset(name)
    return ({"view": "clusters"} if chosen.view == "regions" else {}) | with_shared_moves(chosen)


def with_shared_moves(settings: Settings) -> dict[str, Any]:
    """Return settings that let clusters of several images merge: whole-cluster moves and an initial temperature.

    No bonded group reaches into another image. Clusters could otherwise only merge image by image, against the prior.
    """
    return {"regroups": 1 if settings.regroups is None else settings.regroups, "hot": max(settings.hot, SHARED_HEAT)}


def describe_default(name: str) -> str:
    """Describe the value of a setting in the default preset, and in the presets that differ from it.

    >>> describe_default("evidence")
    '6.5 (photo 3, microscopy 4, membranes 0.05, paper 8)'
    """
    values = {preset: changes.get(name, getattr(Settings, name)) for preset, changes in PRESETS.items()}
    texts = {p: "none" if v is None else f"{v:g}" if isinstance(v, float) else str(v) for p, v in values.items()}
    others = [f"{p} {text}" for p, text in texts.items() if values[p] != values[DEFAULT_PRESET]]
    return texts[DEFAULT_PRESET] + (f" ({', '.join(others)})" if others else "")
