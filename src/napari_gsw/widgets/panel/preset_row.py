"""A button for each preset; the chosen one shows whether a setting has been changed since."""

from __future__ import annotations

from qtpy.QtWidgets import QButtonGroup, QGridLayout, QPushButton, QWidget

from napari_gsw.core.presets import PRESETS
from napari_gsw.core.settings import declarations
from napari_gsw.widgets.kit.row_heading import RowHeading
from napari_gsw.widgets.kit.setting_control import title
from napari_gsw.widgets.kit.undo_list import UndoList
from napari_gsw.widgets.panel.form import Filling, SettingsForm, preset_tip

# More would not fit into a narrow panel.
IN_A_ROW = 3


class PresetStep:
    """The choice of a preset, as a step that can be undone: it took the place of all that was in the form.

    Attributes
    ----------
    owner : the row. before, after : what was in the form.
    """

    heavy = False
    void = False

    def __init__(self, owner: PresetRow, before: Filling, after: Filling) -> None:
        self.owner, self.before, self.after = owner, before, after

    def undo(self) -> None:
        self.owner.put(self.before)

    def redo(self) -> None:
        self.owner.put(self.after)


class PresetRow(QWidget):  # type: ignore[misc]
    """A few buttons, of which one is pressed; it fills the form.

    Parameters
    ----------
    form : what a preset is put into. steps : what can be undone.
    """

    def __init__(self, form: SettingsForm, steps: UndoList) -> None:
        super().__init__()
        self._form, self._steps = form, steps
        self._group = QButtonGroup(self)
        grid = QGridLayout(self)
        grid.setContentsMargins(0, 0, 0, 0)
        grid.setSpacing(4)
        self.heading = RowHeading("Preset")
        grid.addWidget(self.heading, 0, 0)
        for place, name in enumerate(PRESETS):
            button = QPushButton(name.capitalize())
            button.setCheckable(True)
            button.setToolTip(preset_tip(name))
            button.setProperty("preset", name)
            self._group.addButton(button)
            grid.addWidget(button, place // IN_A_ROW, 1 + place % IN_A_ROW)
            grid.setColumnStretch(1 + place % IN_A_ROW, 1)
        self._group.buttonClicked.connect(lambda button: self._clicked(button.property("preset")))

    def button(self, name: str) -> QPushButton:
        """The button of a preset."""
        return next(b for b in self._group.buttons() if b.property("preset") == name)

    def choose(self, name: str) -> None:
        """Press the button of a preset, and set every control as it says."""
        self.button(name).setChecked(True)
        self._form.choose_preset(name)

    def put(self, filling: Filling) -> None:
        """Fill the form as it was."""
        self.button(filling.preset).setChecked(True)
        self._form.put(filling)

    def _clicked(self, name: str) -> None:
        before = self._form.filling()
        self.choose(name)
        after = self._form.filling()
        if after != before:
            self._steps.push(PresetStep(self, before, after))

    def mark(self, changes: list[str]) -> None:
        """Show which settings differ from the chosen preset: with a star where it moves nothing."""
        known = declarations()
        words = f"Changed: {', '.join(title(name, known[name]) for name in changes)}." if changes else ""
        self.heading.setText("Preset *" if changes else "Preset")
        self.heading.setToolTip(words)
        for button in self._group.buttons():
            name, changed = button.property("preset"), button.isChecked() and bool(changes)
            tip = preset_tip(name)
            button.setToolTip(tip + (f"\n{words} Click to undo." if changed else ""))
