"""Every setting, declared once: the command line, the widget, the docs and the provenance read it here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from napari_gsw.core.errors import InputError
from napari_gsw.core.settings.image import ImageSettings, SuperpixelSettings
from napari_gsw.core.settings.model import (
    MAX_BETA,
    MAX_PARAMETER,
    MIN_PARAMETER,
    CouplingSettings,
    FeatureSettings,
    InputMapSettings,
    PriorSettings,
)
from napari_gsw.core.settings.sampler import MIN_REGION_PIXELS, ResultSettings, SamplerSettings, ScribbleSettings
from napari_gsw.core.settings.setting import Setting
from napari_gsw.core.versions import FormerName

__all__ = [
    "MAX_BETA",
    "MAX_PARAMETER",
    "MIN_PARAMETER",
    "MIN_REGION_PIXELS",
    "SECTIONS",
    "Settings",
    "declarations",
    "upgrade_names",
]

# Sections of a form, in its order.
SECTIONS = ("image", "superpixels", "features", "prior", "coupling", "evidence", "strokes", "sampler", "result")
# Fewest pixels of a superpixel, however far apart pixels are, unless fewer are asked for.
MIN_PIXELS = 6
# Names of settings in older versions.
RENAMED = {"boundaries": "boundary_model"}


# A dataclass takes the fields of its last base first: these are the sections from the last to the first.
@dataclass(frozen=True)
class Settings(
    ResultSettings,
    SamplerSettings,
    ScribbleSettings,
    InputMapSettings,
    CouplingSettings,
    PriorSettings,
    FeatureSettings,
    SuperpixelSettings,
    ImageSettings,
):
    """All settings of a segmentation; ``docs/settings.md`` is made from this class."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.max_size is not None and self.max_size < self.min_size:
            raise InputError(f"max_size must be a whole number >= min_size ({self.min_size}), not {self.max_size}")
        if self.sampler == "bond-drawn" and self.bond_low > self.bond:
            raise InputError(f"bond_low must be a number in [0, bond = {self.bond:g}], not {self.bond_low:g}")

    def replace(self, **changes: Any) -> Self:
        """Return a copy with some settings changed; a size of superpixels replaces their number."""
        if changes.get("site_size") is not None:
            changes = {"site_count": None} | changes
        return super().replace(**changes)

    def is_active(self, name: str) -> bool:
        """Return whether a setting has any effect; a network that finds objects uses two settings of the couplings."""
        if name in ("boundary_model", "network") and self.objects == "network" and self.is_active("objects"):
            return True
        return super().is_active(name)

    declarations = FormerName("setting_fields")
    matters = FormerName("is_active")
    wanted_sites = FormerName("site_count_for")

    def site_count_for(self, pixels: int, volume: float = 1.0) -> int:
        """Return how many superpixels an image of so many pixels gets.

        With a spacing, `site_size` counts cubes of the smallest distance between pixels, and `volume` is how many of
        these a pixel is. But a superpixel has at least `MIN_PIXELS` pixels.
        """
        size = max(self.site_size / volume, min(self.site_size, MIN_PIXELS)) if volume > 1 else self.site_size
        by_size = max(1, round(pixels / size))
        return min(self.site_count or min(by_size, self.most_sites or by_size), pixels)


def upgrade_names(values: Mapping[str, Any]) -> dict[str, Any]:
    """Replace the names of settings in a file of an older version by those of today.

    >>> upgrade_names({"beta": 2.0, "boundaries": "shipped"})
    {'beta': 2.0, 'boundary_model': 'shipped'}
    """
    return {RENAMED.get(name, name): value for name, value in values.items()}


def setting_fields() -> Mapping[str, Setting]:
    """Return all settings by name, in the order of the declaration."""
    return Settings.setting_fields()
