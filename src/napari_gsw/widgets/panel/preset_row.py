"""A button for each preset; the chosen one shows whether a setting has been changed since."""

from __future__ import annotations

from qtpy.QtCore import Signal
from qtpy.QtWidgets import QButtonGroup, QHBoxLayout, QLabel, QPushButton, QWidget

from napari_gsw.core.presets import PRESETS
from napari_gsw.widgets.panel.form import preset_tip


class PresetRow(QWidget):  # type: ignore[misc]
    """One row of buttons, of which one is pressed.

    Signals
    -------
    chosen : the user has pressed the button of a preset.
    """

    chosen = Signal(str)

    def __init__(self) -> None:
        super().__init__()
        self._group = QButtonGroup(self)
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(4)
        row.addWidget(QLabel("Preset"))
        for name in PRESETS:
            button = QPushButton(name.capitalize())
            button.setCheckable(True)
            button.setToolTip(preset_tip(name))
            button.setProperty("preset", name)
            self._group.addButton(button)
            row.addWidget(button, 1)
        self._group.buttonClicked.connect(lambda button: self.chosen.emit(button.property("preset")))

    def button(self, name: str) -> QPushButton:
        """The button of a preset."""
        return next(b for b in self._group.buttons() if b.property("preset") == name)

    def choose(self, name: str) -> None:
        """Press the button of a preset."""
        self.button(name).setChecked(True)

    def mark(self, changes: list[str]) -> None:
        """Show which settings differ from the chosen preset."""
        for button in self._group.buttons():
            name, changed = button.property("preset"), button.isChecked() and bool(changes)
            button.setText(name.capitalize() + (" *" if changed else ""))
            tip = preset_tip(name)
            button.setToolTip(tip + (f"\nChanged: {', '.join(changes)}. Click to undo." if changed else ""))
