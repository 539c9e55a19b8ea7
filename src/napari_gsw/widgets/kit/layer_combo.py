"""Choosing a layer of the viewer."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from napari.layers import Layer
from qtpy.QtCore import Signal
from qtpy.QtWidgets import QComboBox


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
