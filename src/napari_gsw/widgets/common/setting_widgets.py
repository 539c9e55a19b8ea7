"""The control of a setting, made from its declaration, texts of settings, and the user's defaults."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from napari.settings import get_plugin_settings
from qtpy.QtCore import QEvent, QObject, QSignalBlocker, Qt, Signal
from qtpy.QtGui import QShowEvent
from qtpy.QtWidgets import QCheckBox, QComboBox, QDoubleSpinBox, QHBoxLayout, QSpinBox, QWidget

from napari_gsw.core.settings import setting_fields
from napari_gsw.core.settings.declaration import Setting
from napari_gsw.core.settings.presets import DEFAULT_PRESET, PRESETS

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


# Values where napari does not know the plugin's preferences; a test compares them with the manifest.
FALLBACK: dict[str, Any] = {
    "preset": DEFAULT_PRESET, "seed": 0, "lock_painted": True, "boundary": False, "entropy": False, "opacity": 0.5,
    "outlines": "own", "autosave": True,
}  # fmt: skip


def get_preference(name: str) -> Any:
    """Return the user's value of a preference of napari, which the manifest declares."""
    try:
        value = getattr(get_plugin_settings("napari-gsw").segmentation, name)
    except (KeyError, AttributeError):
        return FALLBACK[name]
    value = getattr(value, "value", value)  # a choice comes as an enumeration
    return FALLBACK[name] if name == "preset" and value not in PRESETS else value


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
    """Control of one setting, which holds the exact value: the box may show fewer digits.

    The box is made when it is first seen, with the folded section that it is in. magicgui's widgets have no editable
    combo box, and round.
    """

    changed = Signal()

    def __init__(self, name: str, value: Any) -> None:
        super().__init__()
        setting = self.setting = setting_fields()[name]
        self.name, self._value = name, value
        self._box: Any = None
        self._check: QCheckBox | None = None
        self.title = _title(name) + (f" ({GREEK.get(setting.symbol, setting.symbol)})" if setting.symbol else "")
        allowed = "; ".join(f"{display_text(choice, name)} ({choice})" for choice in setting.choices)
        allowed = allowed or setting.allowed.replace("or none", "or unticked")
        self.setToolTip(f"{setting.help}\nAllowed: {allowed}.\nIn scripts: {name}.")

    @property
    def box(self) -> Any:
        if self._box is None:
            self._build()
        return self._box

    def showEvent(self, event: QShowEvent) -> None:
        if self._box is None:
            self._build()
        super().showEvent(event)

    def _build(self) -> None:
        self._box, self._read, self._write, edited = _make_box(self.name, self.setting)
        self._box.installEventFilter(WheelFilter(self))
        self._box.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self._check = QCheckBox() if self.setting.optional else None
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(6)
        for widget, stretch in ((self._check, 0), (self._box, 1)):
            if widget is not None:
                widget.setAccessibleName(self.title)
                widget.setWhatsThis(self.toolTip())
                row.addWidget(widget, stretch)
        self._show_value()
        edited.connect(self._on_edited)
        if self._check is not None:
            self._check.toggled.connect(self._on_edited)

    def value(self) -> Any:
        return self._value

    def set_value(self, value: Any) -> None:
        if value != self._value or type(value) is not type(self._value):
            self._value = value
            if self._box is not None:
                self._show_value()
            self.changed.emit()

    def _on_edited(self, _: Any = None) -> None:
        has_value = self._check is None or self._check.isChecked()
        self.box.setEnabled(has_value)
        self._value = self._read() if has_value else None
        self.changed.emit()

    def _show_value(self) -> None:
        """Show the value in the box, without a signal; the usual value in place of None."""
        has_value = self._value is not None
        if self._check is not None:
            with QSignalBlocker(self._check):
                self._check.setChecked(has_value)
            self.box.setEnabled(has_value)
        value = self._value if has_value else self.setting.usual
        if value is not None:
            with QSignalBlocker(self.box):
                self._write(value)


def _make_box(name: str, setting: Setting) -> tuple[Any, Callable[[], Any], Callable[[Any], Any], Any]:
    """Make the box of a setting; return it with what reads and writes its value, and the signal of a change."""
    if setting.choices or setting.kind is str:
        combo = QComboBox(editable=not setting.choices)
        for choice in setting.choices or SUGGESTIONS.get(name, ()):
            combo.addItem(display_text(choice, name) if setting.choices else choice, choice)
            combo.setItemData(combo.count() - 1, TERMS.get(choice), Qt.ItemDataRole.ToolTipRole)
        combo.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon)
        combo.setMinimumContentsLength(8)
        if combo.isEditable():
            return combo, combo.currentText, combo.setCurrentText, combo.currentTextChanged
        return combo, combo.currentData, lambda x: combo.setCurrentIndex(combo.findData(x)), combo.currentTextChanged
    if setting.kind is int:
        box = QSpinBox(minimum=int(max(setting.low, -MAX_INT)), maximum=int(min(setting.high, MAX_INT)))
        box.setGroupSeparatorShown(True)
    else:
        box = FloatBox(decimals=6)
        low, high = max(setting.low, -MAX_FLOAT), min(setting.high, MAX_FLOAT)
        box.setRange(low + MARGIN * setting.exclusive_min, high - MARGIN * setting.exclusive_max)
        box.setStepType(QDoubleSpinBox.StepType.AdaptiveDecimalStepType)
    box.setKeyboardTracking(False)
    return box, box.value, box.setValue, box.valueChanged
