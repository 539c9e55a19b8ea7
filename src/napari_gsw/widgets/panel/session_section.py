"""Save and open sessions: all of the work, to go on with another day."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from napari.utils.notifications import show_info
from qtpy.QtCore import QSettings, Signal
from qtpy.QtWidgets import QCheckBox, QFileDialog, QHBoxLayout, QMenu, QMessageBox, QPushButton, QWidget

from napari_gsw.core.errors import InputError
from napari_gsw.files.session_file import SUFFIX
from napari_gsw.widgets.common.collapsible import Section
from napari_gsw.widgets.session.session import Session

PATTERN = f"Session (*{SUFFIX})"
MAX_RECENT = 8


class SessionSection(Section):
    """Buttons to save and to open, with the sessions that were saved or opened last.

    Signals
    -------
    chosen : the file of a session that the user wants to open.
    """

    chosen = Signal(str)

    def __init__(self, session: Session) -> None:
        super().__init__(
            "Session", "Save all of the work in one file, and go on with it later", "sessions.md#in-the-window"
        )
        self.session = session
        self.save_button = QPushButton("Save session ...")
        self.save_button.setToolTip("Chains, strokes, locks, accepted objects, settings and undo, in one file")
        self.open_button = QPushButton("Open session ...")
        self.open_button.setToolTip("Go on with a session exactly where it was; it can also be dropped onto the window")
        self.recent_button = QPushButton("Recent")
        self.recent_button.setToolTip("Go on with one of the sessions that were saved or opened last")
        self.recent_button.setMenu(QMenu(self.recent_button))
        self.embed = QCheckBox("With the image in it")
        self.embed.setToolTip(
            "Otherwise the session knows where the image is, and has to find it there; "
            "an image that is in no file is saved with it anyway, unless it is very large"
        )
        row = QHBoxLayout()
        row.setSpacing(4)
        row.addWidget(self.save_button, 1)
        row.addWidget(self.open_button, 1)
        row.addWidget(self.recent_button)
        self.content.addLayout(row)
        self.content.addWidget(self.embed)
        self.save_button.clicked.connect(self._ask_save)
        self.open_button.clicked.connect(self._ask_open)
        self.recent_button.menu().aboutToShow.connect(self._fill_recent)
        session.autosaver.written.connect(self._announce)
        self.refresh()

    def refresh(self) -> None:
        something = self.session.array_run is not None
        self.save_button.setEnabled(something)
        self.set_summary("saved by itself; save it to keep it" if something else "nothing yet")

    def save(self, path: Path) -> None:
        """Save to a file."""
        try:
            left_out = self.session.autosaver.save(path, self.embed.isChecked())
        except InputError as reason:
            self.session.show_message(str(reason))
            return
        for name in left_out:
            self.session.show_message(
                f"the image {name!r} is in no file, and too large to be put into the session by itself: tick "
                f"{self.embed.text()!r}, or save the image, too, and open it before the session"
            )

    def _ask_save(self) -> None:
        chosen, _ = QFileDialog.getSaveFileName(self, "Save the session", f"session{SUFFIX}", PATTERN)
        if not chosen:
            return
        path = Path(chosen if chosen.endswith(".zip") else chosen + SUFFIX)
        if str(path) == chosen or not path.exists() or self._may_replace(path):  # the dialog asked for what was typed
            self.save(path)

    def _may_replace(self, path: Path) -> bool:
        buttons = QMessageBox.StandardButton.Yes | QMessageBox.StandardButton.No
        words = f"{path.name} is there already. Replace it?"
        return bool(QMessageBox.question(self, "Save the session", words, buttons) == QMessageBox.StandardButton.Yes)

    def _ask_open(self) -> None:
        path, _ = QFileDialog.getOpenFileName(self, "Open a session", "", PATTERN)
        if path:
            self.chosen.emit(path)

    def _announce(self, path: str) -> None:
        remember(path)
        show_info(f"GSW segmentation: the session is saved in {path}")

    def _fill_recent(self) -> None:
        menu = self.recent_button.menu()
        menu.clear()
        paths = recent()
        for path in paths:
            action = menu.addAction(Path(path).name)
            action.setToolTip(path)
            action.triggered.connect(lambda _, path=path: self.chosen.emit(path))
        if not paths:
            menu.addAction("No session was saved yet").setEnabled(False)


def recent() -> list[str]:
    """Sessions that were saved or opened last and are still there, the newest first."""
    kept: Any = _store().value("recent", [])
    paths = [kept] if isinstance(kept, str) else list(kept or [])
    return [path for path in paths if Path(path).is_file()]


def remember(path: str) -> None:
    """Put a session first among the recent ones."""
    here = str(Path(path).resolve())
    _store().setValue("recent", [here, *(other for other in recent() if other != here)][:MAX_RECENT])


def _store() -> QSettings:
    return QSettings("napari-gsw", "sessions")


class RestoreRow(QWidget):  # type: ignore[misc]
    """Offers what was saved by itself and never closed by its user.

    Signals
    -------
    wanted : the file that is to be restored. unwanted : it may go.
    """

    wanted = Signal(str)
    unwanted = Signal(str)

    def __init__(self) -> None:
        super().__init__()
        self._path = ""
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(4)
        self.restore_button = QPushButton()
        self.restore_button.setToolTip("Go on with the work that was not saved")
        self.restore_button.clicked.connect(lambda: self._answer(self.wanted))
        self.no_button = QPushButton("Discard")
        self.no_button.setToolTip("Delete what was saved by itself")
        self.no_button.clicked.connect(lambda: self._answer(self.unwanted))
        row.addWidget(self.restore_button, 1)
        row.addWidget(self.no_button)
        self.setVisible(False)

    def offer(self, path: str, title: str) -> None:
        """Show what can be restored; nothing if the path is empty."""
        self._path = path
        short = title if len(title) <= 40 else f"{title[:38]}…"
        self.restore_button.setText(f"Restore {short}")
        self.restore_button.setToolTip(f"Go on with the work that was not saved: {title}")
        self.setVisible(bool(path))

    def _answer(self, signal: Any) -> None:
        path = self._path
        self.offer("", "")
        signal.emit(path)
