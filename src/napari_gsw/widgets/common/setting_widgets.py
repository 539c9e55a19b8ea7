"""The control of a setting, made from its declaration, and the texts of settings in the window."""

from __future__ import annotations

import re
from typing import Any

from qtpy.QtCore import QEvent, QObject, QSignalBlocker, Qt, Signal
from qtpy.QtGui import QShowEvent
from qtpy.QtWidgets import QCheckBox, QComboBox, QDoubleSpinBox, QHBoxLayout, QSpinBox, QWidget

from napari_gsw.core.settings import setting_fields
from napari_gsw.core.settings.setting import Setting

GREEK = {
    "alpha": "α", "beta": "β", "theta": "θ", "lambda": "λ", "phi": "φ", "tau": "τ",
    "T_min": "Tₘᵢₙ", "T_max": "Tₘₐₓ",
}  # fmt: skip
MAX_INT, MAX_FLOAT = 2**31 - 1, 1e9
# Distance from a bound that is not allowed itself.
MARGIN = 1e-6
# Values to choose from where any text may be entered.
SUGGESTIONS = {"codebook": ("auto", "shipped", "image")}
# Texts of choices.
CHOICE_TEXTS = {
    "slic": "SLIC", "gsw": "GSW", "swendsen-wang": "Swendsen-Wang",
    "one": "One cluster", "singletons": "Every superpixel its own", "chi2": "Chi squared",
    "dirichlet-process": "Any number", "pitman-yor": "Any number, many small", "finite-dirichlet": "At most K",
    "potts": "At most K, any sizes", "lab": "As the eye sees", "hsv": "Hue and saturation",
    "words": "Colour words", "luminance": "Brightness", "gaussian": "Channel values",
    "vi": "Consensus", "binder": "Consensus, by pairs",
}  # fmt: skip
# Texts of the choice "none", which means something else in each setting.
NONE_TEXTS = {"consensus": "Best sample", "likelihood": "Nothing but maps"}
# Technical terms of choices, for their tooltips.
TERMS = {
    "dirichlet-process": "Dirichlet process", "pitman-yor": "Pitman-Yor process",
    "finite-dirichlet": "Finite Dirichlet", "potts": "Potts model", "lab": "CIE Lab", "hsv": "HSV",
    "words": "Histogram of visual words", "luminance": "Histogram of luminance", "gaussian": "Gaussian channels",
    "vi": "Least expected variation of information",
    "binder": "Least expected Binder loss",
}  # fmt: skip


def display_text(choice: str, name: str = "") -> str:
    """Return the text of a choice of the setting `name`.

    >>> display_text("dirichlet-process"), display_text("grid"), display_text("none", "consensus")
    ('Any number', 'Grid', 'Best sample')
    """
    if choice == "none" and name in NONE_TEXTS:
        return NONE_TEXTS[name]
    return CHOICE_TEXTS.get(choice, choice.replace("-", " ").capitalize())


def _title(name: str) -> str:
    return setting_fields()[name].title or name.replace("_", " ").capitalize()


def insert_titles(text: str) -> str:
    """Replace the names of settings in a sentence by their titles.

    A name that is also a common word is replaced only where the sentence says what it *must be*.

    >>> insert_titles("max_size must be a whole number >= min_size (50), not 10")
    'Largest cluster must be a whole number >= Smallest cluster (50), not 10'
    """

    def replace(match: re.Match[str]) -> str:
        name = match[0]
        is_setting = name in setting_fields() and ("_" in name or text.startswith(f"{name} must be"))
        return _title(name) if is_setting else name

    return re.sub(r"\b[A-Za-z_]+\b", replace, text)


class WheelFilter(QObject):  # type: ignore[misc]
    """Lets the wheel scroll the panel; it changes a value only in the control that has the focus."""

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if event.type() == QEvent.Type.Wheel and not watched.hasFocus():
            event.ignore()
            return True
        return False


class FloatBox(QDoubleSpinBox):  # type: ignore[misc]
    """Spin box without trailing zeros."""

    def textFromValue(self, value: float) -> str:
        return f"{value:g}"


class SettingWidget(QWidget):  # type: ignore[misc]
    """Control of one setting, which holds the exact value.

    The spin box or combo box is made when it is first seen: a panel has 80 settings, most of them in folded sections,
    and making them all would keep the window waiting. magicgui's widgets have no editable combo box, and round.
    """

    changed = Signal()

    def __init__(self, name: str, value: Any) -> None:
        super().__init__()
        self.name = name
        self.setting: Setting = setting_fields()[name]
        self._value = value
        self._box: QWidget | None = None
        self._check: QCheckBox | None = None
        symbol, choices = self.setting.symbol, self.setting.choices
        self.title = _title(name) + (f" ({GREEK.get(symbol, symbol)})" if symbol else "")
        allowed = "; ".join(f"{display_text(choice, name)} ({choice})" for choice in choices)
        allowed = allowed or self.setting.allowed.replace("or none", "or unticked")
        self.setToolTip(f"{self.setting.help}\nAllowed: {allowed}.\nIn scripts: {name}.")

    @property
    def box(self) -> QWidget:
        if self._box is None:
            self._build()
        return self._box

    def value(self) -> Any:
        return self._value

    def set_value(self, value: Any) -> None:
        """Set the value, exactly: the box may show fewer digits."""
        if value == self._value and type(value) is type(self._value):
            return
        self._value = value
        if self._box is not None:
            self._update_box()
        self.changed.emit()

    def showEvent(self, event: QShowEvent) -> None:
        if self._box is None:
            self._build()
        super().showEvent(event)

    def _build(self) -> None:
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(6)
        if self.setting.optional:
            self._check = QCheckBox()
            self._check.toggled.connect(self._on_toggled)
            row.addWidget(self._check)
        is_text = self.setting.choices or self.setting.kind is str
        self._box = self._make_combo() if is_text else self._make_spin_box()
        self._box.installEventFilter(WheelFilter(self))
        self._box.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        row.addWidget(self._box, 1)
        for widget in (self._box,) if self._check is None else (self._check, self._box):
            widget.setAccessibleName(self.title)
            widget.setWhatsThis(self.toolTip())
        self._update_box()

    def _make_combo(self) -> QComboBox:
        choices = self.setting.choices
        combo = QComboBox(editable=not choices)
        for choice in choices or SUGGESTIONS.get(self.name, ()):
            combo.addItem(display_text(choice, self.name) if choices else choice, choice)
            combo.setItemData(combo.count() - 1, TERMS.get(choice), Qt.ItemDataRole.ToolTipRole)
        combo.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon)
        combo.setMinimumContentsLength(8)
        combo.currentTextChanged.connect(self._on_edited)
        return combo

    def _make_spin_box(self) -> QSpinBox | QDoubleSpinBox:
        setting = self.setting
        if setting.kind is int:
            box = QSpinBox(minimum=int(max(setting.low, -MAX_INT)), maximum=int(min(setting.high, MAX_INT)))
            box.setGroupSeparatorShown(True)
        else:
            box = FloatBox(decimals=6)
            low, high = max(setting.low, -MAX_FLOAT), min(setting.high, MAX_FLOAT)
            box.setRange(low + MARGIN * setting.exclusive_min, high - MARGIN * setting.exclusive_max)
            box.setStepType(QDoubleSpinBox.StepType.AdaptiveDecimalStepType)
        box.valueChanged.connect(self._on_edited)
        box.setKeyboardTracking(False)
        return box

    def _on_edited(self) -> None:
        box = self.box
        if isinstance(box, QComboBox):
            self._value = box.currentText() if box.isEditable() else box.currentData()
        else:
            self._value = box.value()
        self.changed.emit()

    def _on_toggled(self, on: bool) -> None:
        self.box.setEnabled(on)
        if on:
            self._on_edited()
        else:
            self._value = None
            self.changed.emit()

    def _update_box(self) -> None:
        """Show the value in the box, without a signal; the usual value in place of None."""
        box, value = self.box, self._value
        with QSignalBlocker(box):
            if self._check is not None:
                with QSignalBlocker(self._check):
                    self._check.setChecked(value is not None)
                box.setEnabled(value is not None)
            if value is None:
                value = self.setting.usual
            if value is None:
                return
            if not isinstance(box, QComboBox):
                box.setValue(value)
            elif box.isEditable():
                box.setCurrentText(value)
            else:
                box.setCurrentIndex(box.findData(value))
