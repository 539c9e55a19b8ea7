"""Buttons for objects and regions: accept, merge, cut, delete, draw; they work while there is a layer to edit."""

from __future__ import annotations

from functools import partial

from qtpy.QtWidgets import QHBoxLayout, QPushButton, QWidget

from napari_gsw.widgets.kit.buttons import push_button
from napari_gsw.widgets.kit.row_heading import RowHeading
from napari_gsw.widgets.session.object_editor import EDIT_KEYS, Action
from napari_gsw.widgets.session.session import Session

TIPS: dict[Action, str] = {
    "accept": "Hold the {word} as it is: later runs leave it alone. Button: the selected label; key {key}: the {word} "
    "under the mouse",
    "merge": "Draw from one {word} into others to make them one (key {key}); the brush with a label that is there does "
    "the same",
    "cut": "Draw a line right across {a} {word} to make it two (key {key}); the eraser does the same",
    "delete": "{fate} Button: the selected label; key {key}: the {word} under the mouse",
    "draw": "Paint a new {word} (key {key}); press it again for the next one",
}
FATES = {
    "object": "The object becomes background.",
    "region": "The region goes to its neighbours.",
}
TOOLS: tuple[Action, ...] = ("merge", "cut", "draw")


class EditRow(QWidget):  # type: ignore[misc]
    """One button for each edit; those of the tools stay down while the tool is in hand."""

    def __init__(self, session: Session) -> None:
        super().__init__()
        self.session = session
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(4)
        self.heading = RowHeading()
        row.addWidget(self.heading)
        self.buttons: dict[Action, QPushButton] = {}
        for action in TIPS:
            button = push_button(action.capitalize(), "", partial(session.editor.act, action))
            button.setCheckable(action in TOOLS)
            button.setMinimumWidth(0)
            self.buttons[action] = button
            row.addWidget(button, 1)
        session.editor.changed.connect(self.refresh)
        for signal in (session.framed, session.state_changed):
            signal.connect(self.refresh)
        self.refresh()

    def refresh(self) -> None:
        """Say what is edited, and which tool is in hand."""
        editor, frame = self.session.editor, self.session.frame
        word = "region" if frame is None else frame.kind
        self.setEnabled(editor.layer is not None and self.session.array_run is not None)
        self.heading.setText(f"{word.capitalize()}s")
        a = "an" if word == "object" else "a"
        for action, button in self.buttons.items():
            tip = TIPS[action].format(word=word, a=a, key=EDIT_KEYS[action], fate=FATES[word])
            button.setToolTip(tip)
            button.setChecked(editor.tool == action)
