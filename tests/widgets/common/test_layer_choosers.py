"""A check list of layers is made anew when it changes, and only then."""

from __future__ import annotations

import numpy as np
from napari.layers import Image

from napari_gsw.widgets.common.layer_choosers import LayerMenu


def checked(menu: LayerMenu) -> dict[str, bool]:
    return {action.text(): action.isChecked() for action in menu.menu().actions()}


def test_what_is_offered_again_is_not_made_again(qtbot):
    menu = LayerMenu("Alone", "")
    qtbot.addWidget(menu)
    layers = [Image(np.zeros((2, 2)), name=name) for name in "ab"]
    menu.offer(layers)
    first = menu.menu().actions()
    menu.offer(list(layers))
    assert all(x is y for x, y in zip(first, menu.menu().actions(), strict=True))
    first[1].trigger()
    menu.offer(layers)
    assert checked(menu) == {"a": False, "b": True}
    assert menu.text() == "With b"
    layers[0].name = "c"
    menu.offer(layers)
    assert checked(menu) == {"c": False, "b": True}
    menu.offer(layers[:1])
    assert checked(menu) == {"c": False}
    assert menu.text() == "Alone"
    menu.offer(layers)
    menu.menu().actions()[1].trigger()
    menu.chosen = []
    menu.offer(layers)
    assert checked(menu) == {"c": False, "b": False}
    assert menu.text() == "Alone"
