"""Anisotropic voxels: the distance between pixels along each axis of space."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from napari_gsw.core.errors import InputError
from napari_gsw.core.settings import Settings

# Distance between pixels along each axis of space, the smallest being 1; None if it is the same along all.
Spacing = tuple[float, ...] | None
# Beyond this ratio a slice has nothing to do with the next one, and the image is no volume.
MAX_RATIO = 1000.0
# Distances that differ by less than this fraction are the same: microscopes round them.
SAME_SPACING = 1e-3


def parse_spacing(text: str, ndim: int) -> Spacing:
    """Parse the setting ``spacing`` for an image with `ndim` axes of space.

    >>> parse_spacing("auto", 3), parse_spacing("2.5, 0.5, 0.5", 3), parse_spacing("0.3,0.3", 2)
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
    """Return the spacing of an image; photographs, whose couplings were learnt, have square pixels."""
    return None if settings.coupling == "learnt" else parse_spacing(settings.spacing, ndim)


def normalize_spacing(steps: Sequence[float]) -> Spacing:
    """Divide distances by the smallest; None if they are the same."""
    if not all(math.isfinite(step) and step > 0 for step in steps):
        raise InputError(f"spacing must be numbers > 0, not {', '.join(f'{step:g}' for step in steps)}")
    smallest = min(steps)
    if max(steps) <= smallest * (1 + SAME_SPACING):
        return None
    if max(steps) > MAX_RATIO * smallest:
        raise InputError(f"spacing must not differ by more than {MAX_RATIO:g} times, not {max(steps) / smallest:g}")
    return tuple(float(step / smallest) for step in steps)


def format_spacing(steps: Any) -> str:
    """Format distances as the setting ``spacing``; text stays as it is.

    >>> format_spacing((5, 1, 1)), format_spacing("auto"), format_spacing(None)
    ('5,1,1', 'auto', 'auto')
    """
    if steps is None or isinstance(steps, str):
        return steps or "auto"
    try:
        return ",".join(repr(float(step)).removesuffix(".0") for step in steps)
    except (TypeError, ValueError):
        raise InputError(f"spacing must be auto or a number for each axis, such as 5,1,1, not {steps!r}") from None


def pixel_widths(width: float, ndim: int, spacing: Spacing) -> tuple[float, ...]:
    """Convert a width in units of the smallest distance to pixels along each axis."""
    return tuple(width / step for step in spacing or (1.0,) * ndim)


def pixel_volume(spacing: Spacing) -> float:
    """Return the volume of a pixel in units of the smallest distance."""
    return 1.0 if spacing is None else math.prod(spacing)


def face_areas(spacing: Spacing, ndim: int) -> tuple[float, ...]:
    """Return the area of a pixel's face across each axis.

    >>> face_areas((5.0, 1.0, 1.0), 3), face_areas(None, 2)
    ((1.0, 5.0, 5.0), (1.0, 1.0))
    """
    steps = spacing or (1.0,) * ndim
    return tuple(math.prod(steps) / step for step in steps)
