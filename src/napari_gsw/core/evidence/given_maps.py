"""The maps that are given beside an image: opened, and read at any part of it in the units of the model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, NamedTuple

from numpy.typing import NDArray

from napari_gsw.core.arrays import Floats32, Pixels
from napari_gsw.core.errors import InputError
from napari_gsw.core.evidence.map_features import Reduction, reduced, reduction_of
from napari_gsw.core.image.block_grid import Slices, grid_of
from napari_gsw.core.image.evidence_map import EvidenceMap, open_map, single
from napari_gsw.core.image.lazy import is_lazy
from napari_gsw.core.image.value_range import ValueRange, guessed_range, range_named, refuse_constant
from napari_gsw.core.settings import Settings

# The maps by the names of their arguments.
MAPS = ("features", "boundaries", "foreground")
# Pixels of a large map that are looked at together.
BLOCK = 2**20


class ProbabilityMap(NamedTuple):
    """A map of probabilities, and what its values mean."""

    map: EvidenceMap
    range: ValueRange

    def log_odds(self, part: Slices | None = None) -> Floats32:
        """(\\*part,) log odds at a part of the image, or at all of it."""
        return self.range.log_odds(self.map.read(part)[..., 0])

    @property
    def notes(self) -> dict[str, Any]:
        """What was recognised, ready for JSON."""
        return {**self.map.recognised, "range": self.range.words}


class FeatureMap(NamedTuple):
    """A map of features, and how its channels become few."""

    map: EvidenceMap
    reduction: Reduction

    def channels(self, part: Slices | None = None) -> Pixels:
        """(\\*part, k) float32 at a part of the image, or at all of it."""
        return reduced(self.map.read(part), self.reduction)

    @property
    def notes(self) -> dict[str, Any]:
        """What was recognised and made of it, ready for JSON."""
        if self.reduction.span is not None:
            return self.map.recognised
        count, share = self.reduction.basis.shape[1], round(self.reduction.share, 4)
        return {**self.map.recognised, "components": count, "variance": share}


@dataclass(frozen=True, eq=False)
class GivenMaps:
    """All maps of an image; None for those that were not given."""

    features: FeatureMap | None = None
    boundaries: ProbabilityMap | None = None
    foreground: ProbabilityMap | None = None

    def __bool__(self) -> bool:
        return any(one is not None for one in (self.features, self.boundaries, self.foreground))

    @property
    def notes(self) -> dict[str, Any]:
        """What was recognised of each, by name, ready for JSON."""
        return {name: one.notes for name in MAPS if (one := getattr(self, name)) is not None}


NO_MAPS = GivenMaps()


def given_maps(
    given: Mapping[str, Any], shape: tuple[int, ...], settings: Settings, parts: Sequence[Slices] | None = None
) -> GivenMaps:
    """The maps that a user gives beside an image, or an InputError that says what is wrong with one.

    Parameters
    ----------
    given : arrays by the names `MAPS`, in memory or lazy; None for none.
    shape : of the image's space.
    parts : of the image, that stand for all of it where maps are too large to be read at once; None reads them.
    """
    maps = GivenMaps()
    check_wanted(given, settings)
    if (features := given.get("features")) is not None:
        opened = open_map("features", features, shape, settings.channel_axis)
        values = [opened.read(part) for part in parts or (None,)]
        refuse_constant("features", chain(values, _rest(opened, shape, parts)))
        maps = replace(maps, features=FeatureMap(opened, reduction_of(values, settings.components)))
    for name, text in (("boundaries", settings.boundaries_range), ("foreground", settings.foreground_range)):
        if given.get(name) is None:
            continue
        opened, declared = single(open_map(name, given[name], shape)), range_named(f"{name}_range", text)
        values = [opened.read(part) for part in parts or (None,)]
        refuse_constant(name, chain(values, _rest(opened, shape, parts)))
        one = ProbabilityMap(opened, declared or guessed_range(values))
        maps = replace(maps, boundaries=one) if name == "boundaries" else replace(maps, foreground=one)
    return maps


def _rest(opened: EvidenceMap, shape: tuple[int, ...], parts: Sequence[Slices] | None) -> Iterator[NDArray[Any]]:
    """All of a map that only parts have been read of, block by block: they may be the same where the map is not."""
    if parts is not None and is_lazy(opened.array):
        blocks = grid_of(shape, (1,) * len(shape), BLOCK)
        for index in blocks:
            yield opened.read(blocks.inside(index))


def check_wanted(given: Mapping[str, Any], settings: Settings) -> None:
    """Refuse settings that need a map which is not there."""
    absent = {name for name in MAPS if given.get(name) is None}
    if settings.coupling == "boundaries" and "boundaries" in absent:
        raise InputError("coupling boundaries needs a map of boundaries: give boundaries=, or choose another coupling")
    if settings.sites_from in absent:
        raise InputError(
            f"sites_from {settings.sites_from} needs that map: give {settings.sites_from}=, or choose auto"
        )
    if settings.likelihood == "none" and settings.texture_words == 0 and len(absent) == len(MAPS):
        raise InputError("likelihood none needs a map beside the image: give features=, boundaries= or foreground=")


def note_lines(notes: Mapping[str, Any]) -> list[str]:
    """What was recognised of each map, a line each for a person.

    >>> note_lines({"boundaries": {"channels": 1, "channel_axis": "none", "range": "0 to 255 (guessed)"}})
    ['boundaries: values 0 to 255 (guessed)']
    """
    lines = []
    for name, note in ((name, notes[name]) for name in MAPS if name in notes):
        words = []
        if note["channel_axis"] != "none":
            words.append(f"{note['channels']} channels on the {note['channel_axis']} axis")
        if "reduced" in note:
            words.append(f"to be reduced to {note['reduced']} components")
        if "components" in note:
            words.append(f"{note['components']} components with {note['variance']:.0%} of the variance")
        if "range" in note:
            words.append(f"values {note['range']}")
        if "coarser" in note:
            words.append(f"{max(note['coarser'])} times coarser than the image")
        lines.append(f"{name}: {', '.join(words) or 'one channel'}")
    return lines
