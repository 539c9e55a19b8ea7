"""The buttons of a run: the first one stands out, for it is what a newcomer looks for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from napari.utils.theme import get_theme
from qtpy.QtWidgets import QHBoxLayout, QPushButton, QSizePolicy, QWidget

from napari_gsw.widgets.kit.buttons import push_button
from napari_gsw.widgets.session.session import Session

TIPS = {
    "run": "Segment the image, or go on with what is shown (Ctrl+Alt+R)",
    "pause": "Hold the chain after the sweep that it is at, or let it go on (Ctrl+Alt+R)",
    "step": "One sweep (Ctrl+Alt+N)",
    "stop": "End the chain and keep what it has come to (Ctrl+Alt+X)",
    "reset": "Forget the chain, its paint and its locks, and start afresh; Ctrl+Z brings them back",
}
# The longest word of a button that has several, so that none changes its width.
WIDEST = {"run": "Continue", "pause": "Resume"}


class RunRow(QWidget):  # type: ignore[misc]
    """One button for each thing that can be done to a run.

    Parameters
    ----------
    slots : what each button does, by the names of `TIPS`.
    """

    def __init__(self, slots: Mapping[str, Callable[[], None]]) -> None:
        super().__init__()
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(4)
        self.buttons: dict[str, QPushButton] = {}
        for name, tip in TIPS.items():
            button = self.buttons[name] = push_button(name.capitalize(), tip, slots[name])
            if name in WIDEST:
                button.setText(WIDEST[name])
                button.setMinimumWidth(button.sizeHint().width())
                button.setText(name.capitalize())
            # The one with a colour of its own is two pixels lower than the others: all are as high as the row.
            button.setSizePolicy(QSizePolicy.Policy.Minimum, QSizePolicy.Policy.MinimumExpanding)
            row.addWidget(button, 1)
        self.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Fixed)

    def refresh(self, session: Session, possible: bool, goes_on: bool) -> None:
        """Follow a session.

        Parameters
        ----------
        possible : whether there can be a run. goes_on : whether it would go on with what is shown.
        """
        for name, button in self.buttons.items():
            button.setEnabled(session.may(name) and (possible or name not in ("run", "step")))
        self.buttons["pause"].setText("Resume" if session.state == "paused" else "Pause")
        self.buttons["run"].setText("Continue" if session.state == "done" and goes_on else "Run")

    def follow_theme(self, name: str) -> None:
        """Give Run the colour that a theme has for what matters now."""
        theme: Any = get_theme(name)
        colours = f"background-color: {theme.current.as_hex()}; color: {theme.text.as_hex()}"
        self.buttons["run"].setStyleSheet(f"QPushButton:enabled {{ {colours}; font-weight: 600; }}")
