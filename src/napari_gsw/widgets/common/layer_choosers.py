"""Choosing a layer of the viewer."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from napari.layers import Layer
from qtpy.QtCore import Signal
from qtpy.QtWidgets import QComboBox, QMenu, QPushButton, QSizePolicy


class LayerCombo(QComboBox):  # type: ignore[misc]
    """A list of the layers that pass a test, with fixed entries before them; it follows the viewer when asked to.

    Signals
    -------
    chosen : another entry has been chosen, by the user or because the old one is gone.
    """

    chosen = Signal()

    def __init__(self, fits: Callable[[Layer], bool], fixed: Iterable[tuple[str, Any]] = ()) -> None:
        super().__init__()
        self._fits, self._fixed = fits, list(fixed)
        self._value: Any = self._fixed[0][1] if self._fixed else None
        self._entries: list[tuple[str, Any]] = []
        self.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon)
        self.setMinimumContentsLength(10)
        self.activated.connect(self._activated)
        self.follow([])

    def value(self) -> Any:
        """The layer, or the value of a fixed entry; None if there is nothing to choose."""
        return self._value

    def set_fixed(self, fixed: Iterable[tuple[str, Any]]) -> None:
        """Other fixed entries; takes effect when the layers are followed next."""
        self._fixed = list(fixed)

    def follow(self, layers: Iterable[Layer]) -> None:
        """List the layers as they are now; the choice stays if it still exists."""
        fitting = [layer for layer in layers if self._fits(layer)]
        entries = [*self._fixed, *((layer.name, layer) for layer in reversed(fitting))]
        if [t for t, _ in entries] != [t for t, _ in self._entries] or len(entries) != self.count():
            self.clear()
            self.addItems([text for text, _ in entries])
        self._entries = entries
        values = [value for _, value in entries]
        at = next((i for i, v in enumerate(values) if v is self._value), 0)
        self.setCurrentIndex(at if values else -1)
        new = values[at] if values else None
        if new is not self._value:
            self._value = new
            self.chosen.emit()

    def choose(self, value: Any) -> None:
        """Choose an entry by its value."""
        for i, (_, known) in enumerate(self._entries):
            if known is value:
                self.setCurrentIndex(i)
                self._activated(i)

    def _activated(self, index: int) -> None:
        value = self._entries[index][1]
        if value is not self._value:
            self._value = value
            self.chosen.emit()


# Layers whose names are on the button.
MAX_NAMED = 3


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
        if len(names) > MAX_NAMED:
            names = [*names[: MAX_NAMED - 1], f"{len(names) - MAX_NAMED + 1} more"]
        self.setText(f"With {', '.join(names)}" if names else self._none)
