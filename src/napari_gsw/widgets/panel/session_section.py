"""Save, open and restore sessions: the section of the panel, the offer of an autosave, and how a file is opened."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import napari
from napari.utils.notifications import show_info
from qtpy.QtCore import QSettings, Qt, Signal
from qtpy.QtWidgets import QFileDialog, QMenu, QMessageBox, QPushButton, QWidget

from napari_gsw.core.errors import InputError
from napari_gsw.core.features.input_maps import MAP_NAMES
from napari_gsw.core.interactive.saved_session import SavedSession
from napari_gsw.core.settings.presets import DEFAULT_PRESET, PRESETS
from napari_gsw.files.session_file import SUFFIX, open_session
from napari_gsw.widgets.common.dock_panel import make_timer
from napari_gsw.widgets.common.layouts import Section, make_row
from napari_gsw.widgets.common.text import format_error, make_button, make_check_box, report_error
from napari_gsw.widgets.common.worker import run_in_thread
from napari_gsw.widgets.layers.image_source import ImageSource
from napari_gsw.widgets.layers.saved_layers import add_input_layer, find_image_layers, restore_source
from napari_gsw.widgets.session.autosave import RUNNING, all_written, autosave_folder, discard_autosave, list_restorable
from napari_gsw.widgets.session.run_plan import RunPlan, check_same_pixels, check_same_shape, restore_runs, saved_inputs
from napari_gsw.widgets.session.session import Session

PATTERN = f"Session (*{SUFFIX})"
MAX_RECENT = 8
OPEN_TIP = "Continue a session exactly where it was; it can also be dropped onto the viewer"
EMBED_TIP = (
    "Otherwise the session refers to the image's file, and has to find it there. An image without a file is saved with "
    "the session anyway, unless it is very large"
)
# Labels layers that may have been given beside the image; maps are image layers.
LABEL_INPUTS = ("mask", "sites", "seeds")
# Milliseconds after which to look again whether an autosave is on the disk.
LOOK_AGAIN = 100


class SessionSection(Section):
    """Buttons to save and to open sessions; the signal `chosen` has the file that the user wants to open."""

    chosen = Signal(str)

    def __init__(self, session: Session) -> None:
        tip = "Save all of the work in one file, to continue it later"
        super().__init__("Session", tip, "sessions.md#in-the-window")
        self.session = session
        save_tip = "Chains, scribbles, locks, accepted objects, settings and undo, in one file"
        self.save_button = make_button("Save session ...", save_tip, self._ask_save)
        self.open_button = make_button("Open session ...", OPEN_TIP, self._ask_open)
        recent_tip = "Continue one of the sessions that were saved or opened last"
        self.recent_button = QPushButton("Recent", toolTip=recent_tip)
        self.recent_button.setMenu(QMenu(self.recent_button))
        self.recent_button.menu().aboutToShow.connect(self._fill_recent)
        self.embed = make_check_box("With the image in it", EMBED_TIP)
        self.content.addLayout(make_row((self.save_button, 1), (self.open_button, 1), self.recent_button))
        self.content.addWidget(self.embed)
        session.autosaver.written.connect(self._announce)
        self.refresh()

    def refresh(self) -> None:
        has_result = self.session.array_run is not None
        self.save_button.setEnabled(has_result)
        self.set_summary("saved by itself; save it to keep it" if has_result else "nothing yet")

    def save(self, path: Path) -> None:
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
        is_asked = str(path) == chosen or not path.exists()  # by the dialog, for what was typed
        if is_asked or _confirm(self, "Save the session", f"{path.name} exists already. Replace it?"):
            self.save(path)

    def _ask_open(self) -> None:
        if path := QFileDialog.getOpenFileName(self, "Open a session", "", PATTERN)[0]:
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


def _confirm(parent: QWidget, title: str, text: str) -> bool:
    buttons = QMessageBox.StandardButton.Yes | QMessageBox.StandardButton.No
    box = QMessageBox(QMessageBox.Icon.Question, title, text, buttons, parent)
    box.setTextFormat(Qt.TextFormat.PlainText)  # the path may come from a file
    return bool(box.exec() == QMessageBox.StandardButton.Yes)


def recent() -> list[str]:
    """List the sessions that were saved or opened last and still exist, newest first."""
    stored: Any = QSettings("napari-gsw", "sessions").value("recent", [])
    paths = [stored] if isinstance(stored, str) else list(stored or [])
    return [path for path in paths if Path(path).is_file()]


def remember(path: str) -> None:
    """Put a session first among the recent ones."""
    newest = str(Path(path).resolve())
    paths = [newest, *(other for other in recent() if other != newest)][:MAX_RECENT]
    QSettings("napari-gsw", "sessions").setValue("recent", paths)


class SessionOpener(QWidget):  # type: ignore[misc]
    """Opens sessions, one at a time, and offers an autosave that its user never closed.

    Files are read and chains made in a thread, layers and the form on the GUI thread. `fill` fills the panel and
    returns the plan of a run. Signals: `noticed` has a text for a line of the panel, which is empty at the end;
    `opened` has the file.
    """

    noticed = Signal(str)
    opened = Signal(str)

    def __init__(self, viewer: napari.Viewer, session: Session, fill: Callable[..., RunPlan]) -> None:
        super().__init__()
        self.viewer, self.session, self._fill = viewer, session, fill
        self.is_busy = False
        self._autosave: Path | None = None
        self.restore_button = make_button("", "Continue the work that was not saved", lambda: self._answer(self.open))
        self.no_button = make_button("Discard", "Delete the autosaved session", lambda: self._answer(discard_autosave))
        make_row((self.restore_button, 1), self.no_button, parent=self)
        self.setVisible(False)
        self._look_again = make_timer(self, self.offer_autosave, LOOK_AGAIN)

    def offer_autosave(self) -> None:
        """Offer the newest autosave that nobody works on; wait for it to reach the disk, if a dock was just closed."""
        if not all_written():
            self._look_again.start()
        elif self.session.segmentation is None:
            for self._autosave, title in islice(list_restorable(), 1):
                self.restore_button.setText(f"Restore {title if len(title) <= 40 else f'{title[:38]}…'}")
                self.restore_button.setToolTip(f"Continue the work that was not saved: {title}")
                self.setVisible(True)

    def _answer(self, action: Callable[[Path], Any]) -> None:
        path, self._autosave = self._autosave, None
        self.setVisible(False)
        if path is not None:
            action(path)

    def open(self, file: str | Path) -> None:
        if self.is_busy:
            return
        path, self.is_busy = Path(file), True
        self.noticed.emit(f"Opening {path.name} ...")
        self._run(lambda: open_session(path), lambda session: self._find_image(path, session))

    def _find_image(self, path: Path, session: SavedSession) -> None:
        """Find the image, and restore the session if it is still the one that was segmented."""
        images = session.images
        if not images:
            raise InputError("the session does not say which image it is of")
        layers = find_image_layers(self.viewer, images, path, lambda image_path: self._may_open(image_path, path))
        described = session.window.get("source")
        if not described:  # of the command line: all of the image, with the axes of its settings
            sites, axes = session.run.problem.sites, session.run.settings.axes
            depth = 2 if sites is None else len(sites.shape)
            described = {"channel_axis": axes.index("C") if "C" in axes else None, "depth": depth}
        bare = restore_source(described, layers, None)
        check_same_shape(bare, session)
        self._run(lambda: check_same_pixels(bare, session), lambda _: self._restore(path, session, bare))

    def _may_open(self, image_path: Path, path: Path) -> bool:
        """Ask before an image outside the folder of a session is opened; autosaves are our own files."""
        if path.resolve().parent == autosave_folder().resolve():
            return True
        text = f"The session {path.name!r} names an image in another folder:\n\n{image_path}\n\nOpen this image?"
        return _confirm(self.viewer.window._qt_window, "Open a session", text)

    def _restore(self, path: Path, session: SavedSession, bare: ImageSource) -> None:
        window = session.window
        layers: dict[str, Any] = {}
        for name in (*LABEL_INPUTS, *MAP_NAMES):
            layers[name] = add_input_layer(self.viewer, bare, name, saved_inputs(session, name))
        source = dataclasses.replace(bare, mask=layers["mask"])
        first = next(iter(session.runs.values()))
        preset: Any = window.get("preset")
        values = first.settings.to_dict() | {"preset": preset if preset in PRESETS else DEFAULT_PRESET}
        plan = self._fill(source, values, first.seed, bool(window.get("lock", True)), layers)

        def show(runs: Any) -> None:
            if window.get(RUNNING):
                for run in runs.values():
                    run.interactive.pause()
            self.session.adopt(plan, runs)
            self._finish("")
            remember(str(path))
            self.opened.emit(str(path))

        self._run(lambda: restore_runs(plan, session), show)

    def _run(self, work: Callable[[], Any], then: Callable[[Any], None]) -> None:
        """Work in a thread, and then do something with the result; an error of either ends the opening."""

        def finish(result: Any) -> None:
            try:
                then(result)
            except Exception as reason:
                self._fail(reason)

        run_in_thread(work, finish, self._fail)

    def _fail(self, reason: Exception) -> None:
        self._finish(format_error(reason))
        if not isinstance(reason, InputError):
            report_error(reason, "GSW segmentation")

    def _finish(self, text: str) -> None:
        self.is_busy = False
        self.noticed.emit(text)
