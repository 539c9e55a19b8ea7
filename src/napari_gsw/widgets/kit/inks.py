"""Colours of text that no theme of napari's has."""

from __future__ import annotations

from typing import Any

import numpy as np
from napari.utils.theme import get_theme

# Amber and blue that can be read on a dark ground and on a light one.
WARNING = {"dark": "#e0a030", "light": "#8a5a00"}
LINK = {"dark": "#6cb2ff", "light": "#0b57b0"}
# What sRGB adds to how light a colour looks.
LIGHTNESS = np.array([0.2126, 0.7152, 0.0722])


def quiet_ink(theme_name: str) -> str:
    """A colour for text that stands back: between a theme's text and its background."""
    theme: Any = get_theme(theme_name)
    text, back = (np.array(c.as_rgb_tuple()[:3], float) for c in (theme.text, theme.background))
    return "#{:02x}{:02x}{:02x}".format(*(0.65 * text + 0.35 * back).round().astype(int))


def warning_ink(theme_name: str) -> str:
    """A colour for what a person has to read."""
    return WARNING[_ground(theme_name)]


def link_ink(theme_name: str) -> str:
    """A colour for what leads to another page."""
    return LINK[_ground(theme_name)]


def _ground(theme_name: str) -> str:
    """Whether a theme's background is dark or light."""
    theme: Any = get_theme(theme_name)
    return "light" if LIGHTNESS @ np.array(theme.background.as_rgb_tuple()[:3], float) > 128 else "dark"
