"""Choosing any number of layers from a check list."""

from __future__ import annotations

from collections.abc import Iterable

from napari.layers import Layer
from qtpy.QtCore import Signal
from qtpy.QtWidgets import QMenu, QToolButton


class LayerMenu(QToolButton):  # type: ignore[misc]
    """A button that says which layers are chosen, with a list of all that can be.

    Signals
    -------
    changed : the user has chosen a layer, or taken one back.

    Attributes
    ----------
    chosen : the layers, in the order in which they were chosen.
    """

    changed = Signal()

    def __init__(self, none: str, tip: str) -> None:
        """`none` is what the button says while no layer is chosen."""
        super().__init__()
        self._none = none
        self.chosen: list[Layer] = []
        self.setPopupMode(QToolButton.ToolButtonPopupMode.InstantPopup)
        self.setToolTip(tip)
        self.setMenu(QMenu(self))

    def offer(self, layers: Iterable[Layer]) -> None:
        """List these layers; a choice stays if it is still among them."""
        fitting = list(layers)
        self.chosen = [x for x in self.chosen if any(x is y for y in fitting)]
        menu = self.menu()
        menu.clear()
        for layer in fitting:
            action = menu.addAction(layer.name)
            action.setCheckable(True)
            action.setChecked(any(layer is x for x in self.chosen))
            action.toggled.connect(lambda on, x=layer: self._toggle(x, on))
        self._say()

    def clear(self) -> None:
        """Nothing is chosen."""
        self.chosen = []

    def _toggle(self, layer: Layer, on: bool) -> None:
        self.chosen = [x for x in self.chosen if x is not layer] + ([layer] if on else [])
        self._say()
        self.changed.emit()

    def _say(self) -> None:
        self.setText(self._none if not self.chosen else f"With {', '.join(x.name for x in self.chosen)}")
