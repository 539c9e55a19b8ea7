"""``--settings FILE``: the method, the settings and the seed that a result carries, read back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from napari_gsw.core.errors import InputError
from napari_gsw.core.settings import present_names


class Recalled(NamedTuple):
    """What a file of settings says.

    Attributes
    ----------
    method : its name; None if the file does not tell.
    changes : settings by name.
    seed : None if the file does not tell.
    remarks : why these settings alone do not make the labels again, a sentence each.
    """

    method: str | None
    changes: Mapping[str, Any]
    seed: int | None
    remarks: tuple[str, ...] = ()


def recalled(path: str) -> Recalled:
    """The settings in a file: a provenance, labels that carry one, ``batch.json``, or a plain JSON of settings.

    A plain one has a name and a value for each setting, and may have ``method`` and ``seed``.
    """
    from napari_gsw.files.provenance_files import read_provenance

    record = _part(read_provenance(path), path)
    plain = "software" not in record and "settings" not in record
    method = record.get("method")
    # The provenance of a method that does not sample has its settings beside its name.
    own = dict(method) if isinstance(method, Mapping) else {} if method is None else {"method": method}
    if "name" in own:  # as the chains that this one is compared with call it
        own["method"] = own.pop("name")
    settings = record if plain else record.get("settings", {})
    if not isinstance(settings, Mapping):
        raise InputError(f"{path!r} carries no settings: they must be names with values")
    changes = present_names({**settings, **own})
    name = changes.pop("method", None)
    seed = changes.pop("seed", None if plain else record.get("seed"))
    if seed is not None and (isinstance(seed, bool) or not isinstance(seed, int) or seed < 0):
        raise InputError(f"the seed in {path!r} must be a whole number >= 0, not {seed!r}")
    return Recalled(None if name is None else str(name), changes, seed, _remarks(record))


def _part(record: Mapping[str, Any], path: str) -> Mapping[str, Any]:
    """A record, or that of all its parts (the slices of a stack) if they were made with the same settings."""
    parts = record.get("parts")
    if not isinstance(parts, Mapping) or not parts:
        return record
    first, *others = parts.values()
    same = all(isinstance(part, Mapping) for part in parts.values())
    same = same and all(part.get(key) == first.get(key) for part in others for key in ("settings", "method", "seed"))
    if not same:
        raise InputError(f"{path!r} has parts with different settings; none of them is that of all")
    return dict(first)


def _remarks(record: Mapping[str, Any]) -> tuple[str, ...]:
    remarks = []
    if record.get("reproducible") is False:
        remarks.append("a person had a hand in that result: settings and seed alone do not make its labels again")
    given = record.get("given")
    if isinstance(given, Mapping) and given:
        remarks.append(f"that result was also given {', '.join(map(str, given))}, which the settings do not hold")
    return tuple(remarks)
