"""Every setting, once: its default, its bounds and one sentence of help.

The command line, the widget, the documentation and the saved provenance all read this declaration; none
of them has a list of its own. :class:`Settings` is frozen: a changed setting is a new object
(``replace``), so that what was saved is what was run. May import the ground of core alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from napari_gsw.core.errors import InputError
from napari_gsw.core.setting import Setting
from napari_gsw.core.settings.chain_settings import ResultSettings, SamplerSettings
from napari_gsw.core.settings.image_settings import ImageSettings, SuperpixelSettings
from napari_gsw.core.settings.model_settings import (
    LEAST,
    MOST,
    MOST_BETA,
    CouplingSettings,
    FeatureSettings,
    PriorSettings,
)
from napari_gsw.core.settings.stroke_settings import StrokeSettings

__all__ = ["LEAST", "MOST", "MOST_BETA", "SECTIONS", "Settings", "declarations"]

# The parts of a form, in its order.
SECTIONS = ("image", "superpixels", "features", "prior", "coupling", "strokes", "sampler", "result")


# A dataclass takes the fields of its last base first: these are the sections from the last to the first.
@dataclass(frozen=True)
class Settings(
    ResultSettings,
    SamplerSettings,
    StrokeSettings,
    CouplingSettings,
    PriorSettings,
    FeatureSettings,
    SuperpixelSettings,
    ImageSettings,
):
    """All settings of a segmentation. See ``docs/settings.md`` for the table made from this class."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.max_size is not None and self.max_size < self.min_size:
            raise InputError(f"max_size must be a whole number >= min_size ({self.min_size}), not {self.max_size}")
        if self.sampler == "bond-drawn" and self.bond_low > self.bond:
            raise InputError(f"bond_low must be a number in [0, bond = {self.bond:g}], not {self.bond_low:g}")

    def replace(self, **changes: Any) -> Self:
        """A copy with some settings changed. Who asks for a size of sites does not want a number of them."""
        if changes.get("site_size") is not None:
            changes = {"site_count": None} | changes
        return super().replace(**changes)

    def matters(self, name: str) -> bool:
        """Whether a setting has any effect beside the others; objects by a network go by two of the couplings'."""
        if name in ("boundaries", "network") and self.objects == "network" and self.matters("objects"):
            return True
        return super().matters(name)

    def wanted_sites(self, pixels: int) -> int:
        """How many sites so many pixels are to become."""
        by_size = max(1, round(pixels / self.site_size))
        return min(self.site_count or min(by_size, self.most_sites or by_size), pixels)


def declarations() -> Mapping[str, Setting]:
    """All settings by name, in the order of the declaration."""
    return Settings.declarations()
