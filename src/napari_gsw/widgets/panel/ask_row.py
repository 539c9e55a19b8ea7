"""The button *Ask me*, what it asks, and the keys that answer."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from napari.layers import Layer
from qtpy.QtCore import Qt
from qtpy.QtGui import QKeyEvent
from qtpy.QtWidgets import QHBoxLayout, QPushButton, QWidget

from napari_gsw.widgets.kit.still_line import StillLine
from napari_gsw.widgets.session.session import Session

TIP = (
    "Go to the place whose label would teach most, and ask for it. Keys: 1 to 9 for that label, Enter or Y for the "
    "likeliest, N or Esc to skip; or paint it. Press again to stop"
)
KEYS = "Keys 1-9, Enter: likeliest, N: skip"


class AskRow(QWidget):  # type: ignore[misc]
    """Asks until the button is pressed again; the keys work on the canvas and in this row."""

    def __init__(self, session: Session) -> None:
        super().__init__()
        self.session, self.asking = session, session.asking
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        self.button = QPushButton("Ask me")
        self.button.setCheckable(True)
        self.button.setToolTip(TIP)
        self.button.setFocusPolicy(Qt.FocusPolicy.NoFocus)  # Enter is an answer, not another click
        self.button.clicked.connect(self._clicked)
        self.line = StillLine("question", 2)
        row.addWidget(self.button)
        row.addWidget(self.line, 1)
        self.setFocusPolicy(Qt.FocusPolicy.ClickFocus)
        # The layer whose keys are ours; the viewer's come after those of the layer that is selected.
        self._bound: list[Any] = []
        session.link.at_end(self._unbind)
        self.asking.changed.connect(self._refresh)
        session.framed.connect(self._refresh)
        session.state_changed.connect(self._refresh)
        self._refresh()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Answers, while the row has the focus."""
        names = {Qt.Key.Key_Return: "Enter", Qt.Key.Key_Enter: "Enter", Qt.Key.Key_Escape: "Escape"}
        action = self._actions().get(names.get(event.key(), event.text().upper()))
        if self.asking.question is None or action is None:
            super().keyPressEvent(event)
        else:
            action()

    def _actions(self) -> dict[str, Callable[[], None]]:
        """What each key does."""
        asking = self.asking
        keys: dict[str, Callable[[], None]] = {str(digit): partial(asking.answer, digit) for digit in range(1, 10)}
        return keys | {"Enter": asking.answer, "Y": asking.answer, "N": asking.skip, "Escape": asking.skip}

    def _clicked(self) -> None:
        if self.asking.active:
            self.asking.stop()
        else:
            self.asking.start()
            self.setFocus()

    def _refresh(self) -> None:
        asking = self.asking
        self.button.setChecked(asking.active)
        array_run = self.session.array_run
        large = self.session.segmentation is not None and self.session.segmentation.plan.source.large
        self.button.setEnabled(asking.active or (array_run is not None and not large))
        self.line.say(asking.text + (f"\n{KEYS}" if asking.question is not None else ""))
        if asking.active:
            self._bind()
        else:
            self._unbind()

    # ---- keys on the canvas

    def _bind(self) -> None:
        seg = self.session.segmentation
        # Whichever of them is selected: it is asked before the viewer, and has keys of its own for its tools.
        layers: list[Layer] = [] if seg is None else [*seg.layers.all(), *seg.plan.source.image_layers]
        wanted = [self.session.viewer, *layers]
        if len(wanted) == len(self._bound) and all(a is b for a, b in zip(wanted, self._bound, strict=True)):
            return
        self._unbind()
        for thing in wanted:
            for key, action in self._actions().items():
                thing.bind_key(key, lambda _, action=action: action(), overwrite=True)
        self._bound = wanted

    def _unbind(self) -> None:
        """Give the keys back; it touches no Qt object."""
        for thing in self._bound:
            for key in self._actions():
                thing.bind_key(key, None)
        self._bound = []
