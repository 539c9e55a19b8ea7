"""Widgets to choose one layer of the viewer, or several."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from napari.layers import Layer
from qtpy.QtCore import Signal
from qtpy.QtWidgets import QComboBox, QMenu, QPushButton, QSizePolicy

# Layers that the text of the menu's button names.
MAX_NAMED = 3


class LayerCombo(QComboBox):  # type: ignore[misc]
    """Combo box of the layers that pass a test, after some fixed entries (text, value).

    The signal `chosen` says that the choice has changed, by the user or because the layer is gone.
    """

    chosen = Signal()

    def __init__(
        self, tip: str, fits: Callable[[Layer], bool], fixed: Iterable[tuple[str, Any]] = (), name: str = ""
    ) -> None:
        super().__init__(toolTip=tip, accessibleName=name)
        self._fits = fits
        self.fixed = list(fixed)  # shown from the next call of `follow`
        self._value: Any = self.fixed[0][1] if self.fixed else None
        self._entries: list[tuple[str, Any]] = []
        self.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon)
        self.setMinimumContentsLength(10)  # a long name does not widen the dock
        self.activated.connect(lambda index: self._set_value(self._entries[index][1]))
        self.follow([])

    def value(self) -> Any:
        """Return the layer, the value of a fixed entry, or None if there is nothing to choose."""
        return self._value

    def follow(self, layers: Iterable[Layer]) -> None:
        """List the layers; the choice stays if it still exists."""
        fitting = [layer for layer in layers if self._fits(layer)]
        entries = [*self.fixed, *((layer.name, layer) for layer in reversed(fitting))]
        names = [name for name, _ in entries]
        if names != [name for name, _ in self._entries] or len(entries) != self.count():
            self.clear()
            self.addItems(names)
        self._entries = entries
        index = next((i for i, (_, value) in enumerate(entries) if value is self._value), 0)
        self.setCurrentIndex(index if entries else -1)
        self._set_value(entries[index][1] if entries else None)

    def choose(self, value: Any) -> None:
        for index, (_, known) in enumerate(self._entries):
            if known is value:
                self.setCurrentIndex(index)
                self._set_value(value)

    def _set_value(self, value: Any) -> None:
        if value is not self._value:
            self._value = value
            self.chosen.emit()


class LayerMenu(QPushButton):  # type: ignore[misc]
    """Button with a check list of layers, whose text names those that are chosen, in that order, or is `none`."""

    changed = Signal()

    def __init__(self, none: str, tip: str) -> None:
        super().__init__(toolTip=tip)
        self._none = none
        self.chosen: list[Layer] = []
        self._offered: list[tuple[str, Layer, bool]] = []
        self.setMenu(QMenu(self))
        self.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)  # names do not widen the panel

    def offer(self, layers: Iterable[Layer]) -> None:
        """List these layers; those that were chosen and are still among them stay chosen."""
        layers = list(layers)
        self.chosen = [x for x in self.chosen if x in layers]
        offered = [(x.name, x, x in self.chosen) for x in layers]
        if offered != self._offered:  # offered after every change of any layer, and making a menu takes its time
            self._offered = offered
            self.menu().clear()
            for name, layer, is_chosen in offered:
                action = self.menu().addAction(name)
                action.setCheckable(True)
                action.setChecked(is_chosen)
                action.toggled.connect(partial(self._toggle, layer))
        self._update_text()

    def _toggle(self, layer: Layer, on: bool) -> None:
        self.chosen = [x for x in self.chosen if x is not layer] + ([layer] if on else [])
        self._offered = [(name, x, on if x is layer else chosen) for name, x, chosen in self._offered]
        self._update_text()
        self.changed.emit()

    def _update_text(self) -> None:
        names = [layer.name for layer in self.chosen]
        if len(names) > MAX_NAMED:
            names = [*names[: MAX_NAMED - 1], f"{len(names) - MAX_NAMED + 1} more"]
        self.setText(f"With {', '.join(names)}" if names else self._none)
