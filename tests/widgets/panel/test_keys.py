"""The keys of the panel beside those of napari."""

from __future__ import annotations

import pytest

pytest.importorskip("napari")
pytestmark = pytest.mark.gui


def test_no_key_is_one_of_the_menus_or_of_napari():
    from app_model.types import KeyBinding
    from napari._app_model import get_app_model
    from napari._qt._qapp_model.qactions import init_qactions
    from napari.utils.shortcuts import default_shortcuts

    from napari_gsw.widgets.panel.panel import KEYS

    init_qactions()
    taken = {str(KeyBinding.from_int(int(key))) for keys in default_shortcuts.values() for key in keys}
    taken |= {str(rule.keybinding) for rule in get_app_model().keybindings}
    ours = {str(KeyBinding.from_str(key.replace("Control", "Ctrl").replace("-", "+"))) for key in KEYS}
    assert "Ctrl+Alt+S" in taken
    assert len(ours) == len(KEYS)
    assert not ours & taken


def test_the_tooltips_and_the_page_name_them(panel):
    from pathlib import Path

    from napari_gsw.widgets.panel.panel import KEYS

    page = (Path(__file__).parents[3] / "docs" / "widget.md").read_text()
    buttons = {"run_or_pause": panel.run_button, "step": panel.step_button, "stop": panel.stop_button}
    for key, name in KEYS.items():
        words = key.replace("Control", "Ctrl").replace("-", "+")
        assert words in page
        assert name not in buttons or words in buttons[name].toolTip()
