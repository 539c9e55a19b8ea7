"""Pixels that are not cubes: the distance between them along each axis of space."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from napari_gsw.core.errors import InputError
from napari_gsw.core.settings import Settings

# Distance between pixels along each axis of an image's space, the smallest being 1; None for the same along all.
Spacing = tuple[float, ...] | None
# Beyond this a plane of pixels has nothing to do with the next one, and the image is no volume.
MOST_RATIO = 1000.0
# Distances that differ by less than this share are the same: microscopes round them.
SAME_SPACING = 1e-3


def parse_spacing(text: str, ndim: int) -> Spacing:
    """The spacing that a setting names, of an image with so many axes of space.

    >>> spacing_named("auto", 3), spacing_named("2.5, 0.5, 0.5", 3), spacing_named("0.3,0.3", 2)
    (None, (5.0, 1.0, 1.0), None)
    """
    if text.strip().lower() == "auto":
        return None
    try:
        steps = [float(part) for part in text.split(",")]
    except ValueError:
        raise InputError(f"spacing must be auto or a number for each axis, such as 5,1,1, not {text!r}") from None
    if len(steps) != ndim:
        raise InputError(f"spacing must have a number for each of {ndim} axes of space, not {text!r}")
    return normalize_spacing(steps)


def get_spacing(settings: Settings, ndim: int) -> Spacing:
    """The spacing of an image with so many axes of space; photographs, whose couplings were learnt, have squares."""
    return None if settings.coupling == "learnt" else parse_spacing(settings.spacing, ndim)


def normalize_spacing(steps: Sequence[float]) -> Spacing:
    """Distances in units of the smallest; None if they are the same. An InputError for what is no distance."""
    if not all(math.isfinite(step) and step > 0 for step in steps):
        raise InputError(f"spacing must be numbers > 0, not {', '.join(f'{step:g}' for step in steps)}")
    least = min(steps)
    if max(steps) <= least * (1 + SAME_SPACING):
        return None
    if max(steps) > MOST_RATIO * least:
        raise InputError(f"spacing must not differ by more than {MOST_RATIO:g} times, not {max(steps) / least:g}")
    return tuple(float(step / least) for step in steps)


def format_spacing(steps: Any) -> str:
    """Distances between pixels as the setting ``spacing`` writes them; text as it is.

    >>> spacing_text((5, 1, 1)), spacing_text("auto"), spacing_text(None)
    ('5,1,1', 'auto', 'auto')
    """
    if steps is None or isinstance(steps, str):
        return steps or "auto"
    try:
        return ",".join(repr(float(step)).removesuffix(".0") for step in steps)
    except (TypeError, ValueError):
        raise InputError(f"spacing must be auto or a number for each axis, such as 5,1,1, not {steps!r}") from None


def pixel_widths(width: float, ndim: int, spacing: Spacing) -> tuple[float, ...]:
    """Pixels along each of so many axes of what is `width` of the smallest distance between pixels wide.

    >>> pixel_widths(2.0, 3, (4.0, 1.0, 1.0)), pixel_widths(2.0, 2, None)
    ((0.5, 2.0, 2.0), (2.0, 2.0))
    """
    return tuple(width / step for step in spacing or (1.0,) * ndim)


def pixel_volume(spacing: Spacing) -> float:
    """Volume of a pixel in units of the smallest distance between pixels."""
    return 1.0 if spacing is None else math.prod(spacing)


def face_areas(spacing: Spacing, ndim: int) -> tuple[float, float, float]:
    """Area of the face of a pixel across each of three axes, the last `ndim` of which are the image's.

    >>> face_areas((5.0, 1.0, 1.0), 3), face_areas((2.0, 1.0), 2), face_areas(None, 2)
    ((1.0, 5.0, 5.0), (2.0, 1.0, 2.0), (1.0, 1.0, 1.0))
    """
    if spacing is None:
        return 1.0, 1.0, 1.0
    steps = (1.0,) * (3 - ndim) + tuple(spacing)
    pixel = math.prod(steps)
    z, y, x = (pixel / step for step in steps)
    return z, y, x
