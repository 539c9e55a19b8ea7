"""Versions that a result is signed with."""

from __future__ import annotations

from napari_gsw.core import versions


def test_versions_are_looked_up_once(monkeypatch):
    """Every autosave asks for them."""
    asked = []
    monkeypatch.setattr(versions, "version", lambda name: asked.append(name) or "1.2")
    versions._list_versions.cache_clear()
    try:
        first, second = versions.collect_versions(), versions.collect_versions()
    finally:
        versions._list_versions.cache_clear()
    assert first == second
    assert first is not second  # whoever changes one changes nobody else's
    assert {first[name] for name in versions.DEPENDENCIES} == {"1.2"}
    assert asked == list(versions.DEPENDENCIES)
