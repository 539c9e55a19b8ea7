"""The user's defaults in napari's preferences, which the manifest declares."""

from __future__ import annotations

from typing import Any

from napari.settings import get_plugin_settings

from napari_gsw.core.settings.presets import DEFAULT_PRESET, PRESETS

# Values where napari does not know the plugin's preferences; a test compares them with the manifest.
FALLBACK: dict[str, Any] = {
    "preset": DEFAULT_PRESET, "seed": 0, "lock_painted": True, "boundary": False, "entropy": False, "opacity": 0.5,
    "outlines": "own", "autosave": True,
}  # fmt: skip


def get_preference(name: str) -> Any:
    """Return the user's value of a preference."""
    try:
        value = getattr(get_plugin_settings("napari-gsw").segmentation, name)
    except (KeyError, AttributeError):
        return FALLBACK[name]
    value = getattr(value, "value", value)  # a choice comes as an enumeration
    return FALLBACK[name] if name == "preset" and value not in PRESETS else value
