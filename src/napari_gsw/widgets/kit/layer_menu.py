"""Choosing any number of layers from a check list."""

from __future__ import annotations

from collections.abc import Iterable

from napari.layers import Layer
from qtpy.QtCore import Signal
from qtpy.QtWidgets import QMenu, QPushButton, QSizePolicy

# Layers whose names are on the button.
MOST_NAMED = 3


class LayerMenu(QPushButton):  # type: ignore[misc]
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
        self._offered: list[tuple[str, Layer, bool]] = []
        self.setToolTip(tip)
        self.setMenu(QMenu(self))
        self.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)  # names do not widen the panel

    def offer(self, layers: Iterable[Layer]) -> None:
        """List these layers; a choice stays if it is still among them."""
        fitting = list(layers)
        self.chosen = [x for x in self.chosen if any(x is y for y in fitting)]
        offered = [(x.name, x, any(x is y for y in self.chosen)) for x in fitting]
        if offered != self._offered:  # asked after every change of any layer, and to make a menu takes its time
            self._offered = offered
            self._fill()
        self._say()

    def _fill(self) -> None:
        menu = self.menu()
        menu.clear()
        for name, layer, chosen in self._offered:
            action = menu.addAction(name)
            action.setCheckable(True)
            action.setChecked(chosen)
            action.toggled.connect(lambda on, x=layer: self._toggle(x, on))

    def clear(self) -> None:
        """Nothing is chosen."""
        self.chosen = []

    def _toggle(self, layer: Layer, on: bool) -> None:
        self.chosen = [x for x in self.chosen if x is not layer] + ([layer] if on else [])
        self._offered = [(name, x, on if x is layer else chosen) for name, x, chosen in self._offered]
        self._say()
        self.changed.emit()

    def _say(self) -> None:
        names = [layer.name for layer in self.chosen]
        if len(names) > MOST_NAMED:
            names = [*names[: MOST_NAMED - 1], f"{len(names) - MOST_NAMED + 1} more"]
        self.setText(f"With {', '.join(names)}" if names else self._none)
