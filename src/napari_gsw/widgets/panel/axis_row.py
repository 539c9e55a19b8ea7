"""One question about an image whose axes have no names, with the likeliest answer given: ``3 planes: channels?``"""

from __future__ import annotations

from qtpy.QtCore import Signal
from qtpy.QtWidgets import QButtonGroup, QHBoxLayout, QLabel, QPushButton, QWidget

from napari_gsw.widgets.layers.axis_guess import AxisGuess, Meaning

TIPS: dict[Meaning, str] = {
    "channels": "The planes show the same place in different colours: they are segmented together",
    "time": "The planes show the same place at different times: each is segmented on its own",
    "depth": "The planes lie above each other: they are one volume",
}


class AxisRow(QWidget):  # type: ignore[misc]
    """Three answers, of which one is down.

    Signals
    -------
    answered : the user has chosen one of `TIPS`.
    """

    answered = Signal(str)

    def __init__(self) -> None:
        super().__init__()
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(4)
        self.words = QLabel()
        row.addWidget(self.words)
        self._group = QButtonGroup(self)
        self.buttons: dict[Meaning, QPushButton] = {}
        for meaning, tip in TIPS.items():
            button = self.buttons[meaning] = QPushButton(meaning.capitalize())
            button.setCheckable(True)
            button.setToolTip(tip)
            button.clicked.connect(lambda _, meaning=meaning: self.answered.emit(meaning))
            self._group.addButton(button)
            row.addWidget(button, 1)

    def ask(self, question: AxisGuess) -> None:
        """Ask about an image, with the likeliest answer down."""
        self.words.setText(f"{question.planes} planes:")
        self.buttons[question.guess].setChecked(True)
