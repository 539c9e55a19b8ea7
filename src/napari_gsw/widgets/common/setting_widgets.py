"""One control for one setting, made from its declaration: value, bounds, words and tooltip."""

from __future__ import annotations

import math
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
# A place to look for a value of one's own, beside the words that are known.
SUGGESTIONS = {"codebook": ("auto", "shipped", "image")}
# Choices in words that say what they do, and what experts call them.
PLAIN = {
    "slic": "SLIC", "gsw": "GSW", "swendsen-wang": "Swendsen-Wang",
    "one": "One cluster", "singletons": "Every site its own", "chi2": "Chi squared",
    "dirichlet-process": "Any number", "pitman-yor": "Any number, many small", "finite-dirichlet": "At most K",
    "potts": "At most K, any sizes", "lab": "As the eye sees", "hsv": "Hue and saturation",
    "words": "Colour words", "luminance": "Brightness", "gaussian": "Channel values",
    "vi": "Typical", "binder": "Typical, by pairs",
}  # fmt: skip
# The same of a choice that means something else in each setting.
NONE = {"consensus": "Best state", "likelihood": "Nothing but maps"}
TERMS = {
    "dirichlet-process": "Dirichlet process", "pitman-yor": "Pitman-Yor process",
    "finite-dirichlet": "Finite Dirichlet", "potts": "Potts model", "lab": "CIE Lab", "hsv": "HSV",
    "words": "Histogram of visual words", "luminance": "Histogram of luminance", "gaussian": "Gaussian channels",
    "vi": "Least expected variation of information",
    "binder": "Least expected Binder loss",
}  # fmt: skip


def setting_title(name: str, setting: Setting) -> str:
    """What stands beside a control: a word, with the paper's symbol in brackets."""
    words = setting.title or name.replace("_", " ").capitalize()
    return f"{words} ({GREEK.get(setting.symbol, setting.symbol)})" if setting.symbol else words


def display_text(word: str, name: str = "") -> str:
    """A choice of the setting `name` as a person reads it; :data:`TERMS` has what it is called elsewhere.

    >>> spoken("dirichlet-process"), spoken("grid"), spoken("none", "consensus")
    ('Any number', 'Grid', 'Best state')
    """
    if word == "none" and name in NONE:
        return NONE[name]
    return PLAIN.get(word, word.replace("-", " ").capitalize())


def tooltip_text(name: str, setting: Setting) -> str:
    """What a setting does and what it may be, in the words of the window and in those of scripts."""
    if setting.choices:
        allowed = "; ".join(f"{display_text(word, name)} ({word})" for word in setting.choices)
    else:
        allowed = setting.allowed.replace("or none", "or unticked")
    return f"{setting.help}\nAllowed: {allowed}.\nIn scripts: {name}."


def insert_titles(text: str) -> str:
    """A sentence about settings with what stands beside their controls, where it has the names of scripts.

    Only names that are no words of their own are known for sure, and whatever a sentence says something *must be* of.

    >>> with_titles("max_size must be a whole number >= min_size (50), not 10")
    'Largest cluster must be a whole number >= Smallest cluster (50), not 10'
    """
    known = setting_fields()

    def words(match: re.Match[str]) -> str:
        name = match[0]
        is_meant = name in known and ("_" in name or text.startswith(f"{name} must be"))
        return (known[name].title or name.replace("_", " ").capitalize()) if is_meant else name

    return re.sub(r"\b[A-Za-z_]+\b", words, text)


class NoWheel(QObject):  # type: ignore[misc]
    """The wheel scrolls the panel; it changes a value only where the user has clicked first."""

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if event.type() == QEvent.Type.Wheel and not watched.hasFocus():
            event.ignore()
            return True
        return False


class Number(QDoubleSpinBox):  # type: ignore[misc]
    """A spin box that shows no more digits than there are."""

    def textFromValue(self, value: float) -> str:
        return f"{value:g}"


class SettingWidget(QWidget):  # type: ignore[misc]
    """The control of one setting.

    It holds the value itself. What the user operates, :attr:`box`, shows it, and is made when it is first seen: a panel
    has eighty of them, most in folded sections, and to make them all would keep the window waiting.

    Signals
    -------
    changed : the user (or :meth:`set_value`) has changed the value.
    """

    changed = Signal()

    def __init__(self, name: str, setting: Setting, value: Any) -> None:
        super().__init__()
        self.name, self.setting = name, setting
        self._value = value
        self._box: QWidget | None = None
        self._check: QCheckBox | None = None
        self.setToolTip(tooltip_text(name, setting))

    @property
    def box(self) -> QWidget:
        """What shows the value and changes it."""
        if self._box is None:
            self._build()
        return self._box

    def showEvent(self, event: QShowEvent) -> None:
        self._build() if self._box is None else None
        super().showEvent(event)

    def _build(self) -> None:
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(6)
        box = self._box = self._new_box()
        box.installEventFilter(NoWheel(self))
        box.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        parts = [box]
        if self.setting.optional:
            self._check = QCheckBox()
            self._check.toggled.connect(self._toggled)
            parts.insert(0, self._check)
        for part in parts:
            row.addWidget(part, part is box)
            part.setAccessibleName(setting_title(self.name, self.setting))
            part.setWhatsThis(self.toolTip())
        self._show_value()

    def _new_box(self) -> QWidget:
        setting = self.setting
        if setting.choices or setting.kind is str:
            box = QComboBox()
            for word in setting.choices or SUGGESTIONS.get(self.name, ()):
                box.addItem(display_text(word, self.name) if setting.choices else word, word)
                box.setItemData(box.count() - 1, TERMS.get(word), Qt.ItemDataRole.ToolTipRole)
            box.setEditable(not setting.choices)
            box.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon)
            box.setMinimumContentsLength(8)
            box.currentTextChanged.connect(self._edited)
            return box
        if setting.kind is int:
            integer = QSpinBox()
            integer.setRange(int(max(setting.low, -MAX_INT)), int(min(setting.high, MAX_INT)))
            integer.setGroupSeparatorShown(True)
            integer.valueChanged.connect(self._edited)
            integer.setKeyboardTracking(False)
            return integer
        number = Number()
        number.setDecimals(6)
        small = 1e-6  # an end that is not allowed itself
        low, high = max(setting.low, -MAX_FLOAT), min(setting.high, MAX_FLOAT)
        number.setRange(low + small * setting.exclusive_min, high - small * setting.exclusive_max)
        number.setStepType(QDoubleSpinBox.StepType.AdaptiveDecimalStepType)
        number.valueChanged.connect(self._edited)
        number.setKeyboardTracking(False)
        return number

    def _edited(self) -> None:
        """The user has put another value into the box."""
        box = self.box
        if isinstance(box, QComboBox):
            self._value = box.currentText() if box.isEditable() else box.currentData()
        else:
            self._value = box.value()
        self.changed.emit()

    def _toggled(self, on: bool) -> None:
        self.box.setEnabled(on)
        if on:
            self._edited()
        else:
            self._value = None
            self.changed.emit()

    def value(self) -> Any:
        return self._value

    def set_value(self, value: Any) -> None:
        """Put a value into the control, exactly: the box may show fewer digits."""
        if value == self._value and type(value) is type(self._value):
            return
        self._value = value
        if self._box is not None:
            self._show_value()
        self.changed.emit()

    def _show_value(self) -> None:
        """Bring the box up to date; nobody hears of it."""
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
                assert math.isfinite(value)
                box.setValue(value)
            elif box.isEditable():
                box.setCurrentText(value)
            else:
                box.setCurrentIndex(box.findData(value))
