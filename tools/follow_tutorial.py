"""Follow "In the window" of docs/first_steps.md, word for word, by real mouse and key events.

    python tools/follow_tutorial.py [--pictures]

Every word in bold on the page is a button or a box that is pressed here in the same step, and what the page describes
has to appear. The exit code is 0 if all of it does; `make tutorial` runs the script on a virtual screen. --pictures
makes the screenshots of the page again.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from gui_input import LEFT, click, count_corrections, drag, wait_at_rest, wait_for
from imageio.v3 import imwrite
from qtpy.QtCore import QMimeData, QPoint, QPointF, Qt, QTimer, QUrl
from qtpy.QtGui import QDragEnterEvent, QDragMoveEvent, QDropEvent
from qtpy.QtTest import QTest
from qtpy.QtWidgets import QAbstractButton, QApplication, QFileDialog, QLineEdit, QMenu

from napari_gsw.cli import main as napari_gsw
from napari_gsw.widgets.panel.panel import SegmentationPanel
from napari_gsw.widgets.session import autosave
from napari_gsw.widgets.table.panel import TablePanel

SIZE = (1280, 800)
PAGE = Path(__file__).resolve().parents[1] / "docs" / "first_steps.md"


def steps(page: str) -> list[str]:
    """The numbered steps of a page.

    >>> steps("# A\\n\\n1. Press **Run**.\\n\\n   ![x](x.png)\\n\\n2. Wait.\\n\\nFor more\\n")
    ['Press **Run**.\\n\\n   ![x](x.png)\\n\\n', 'Wait.\\n\\n']
    """
    return re.findall(r"^\d+\. (.*?)(?=^\d+\. |^\S)", page + "\n.", re.MULTILINE | re.DOTALL)


def picture(step: str) -> str | None:
    """Return the position of a picture of a step, as the page names it."""
    found = re.search(r"!\[.*?\]\((.+?)\)", step)
    return found and found[1]


def bold(step: str) -> list[str]:
    """The words of a step in bold."""
    return re.findall(r"\*\*(.+?)\*\*", step)


class Reader:
    """Does what the page says."""

    def __init__(self, page: str, scratch: Path, pictures: bool) -> None:
        self.steps, self.scratch, self.pictures = steps(page), scratch, pictures
        self.step = ""
        self.pressed: list[str] = []
        self.failure: BaseException | None = None

    # ---- mouse and keys

    @property
    def panel(self) -> Any:
        return next((w for w in QApplication.allWidgets() if isinstance(w, SegmentationPanel) and w.isVisible()), None)

    @property
    def viewer(self) -> Any:
        return self.panel.viewer

    def press(self, word: str) -> None:
        """Press the button or box that has these words on it, wherever it is in the panel."""
        # A box may say more than its name, such as that it is not settled yet.
        buttons = [
            b for b in self.panel.findChildren(QAbstractButton) if re.match(rf"{re.escape(word)}( \(|, |$)", b.text())
        ]
        if not buttons:
            raise SystemExit(f"the panel has no button {word!r}")
        for section in (self.panel.trace_section, *self.panel.sections):
            if section.body.isAncestorOf(buttons[0]) and not section.body.isVisible():
                click(section.button)
        click(buttons[0])
        self.pressed.append(word)

    def choose(self, *path: str) -> None:
        """Go through the menus."""
        bar = self.viewer.window._qt_window.menuBar()
        (action,) = (a for a in bar.actions() if a.text().replace("&", "") == path[0])
        QTest.mouseClick(bar, LEFT, pos=bar.actionGeometry(action).center())
        menu: QMenu = action.menu()
        for word in path[1:]:
            wait_for(menu.isVisible, f"the menu with {word!r}")
            found = [a for a in menu.actions() if a.text().replace("&", "").startswith(word)]
            if not found:
                raise SystemExit(f"no {word!r} among {[a.text() for a in menu.actions()]}")
            QTest.mouseClick(menu, LEFT, pos=menu.actionGeometry(found[0]).center())
            menu = found[0].menu()

    def answer(self, path: Path) -> None:
        """Go to a folder in the next file dialog, type a name, and accept it."""

        def type_it() -> None:
            dialog = QApplication.activeModalWidget()
            if not isinstance(dialog, QFileDialog):
                QTimer.singleShot(50, type_it)
                return
            line = dialog.findChild(QLineEdit, "fileNameEdit")
            dialog.setDirectory(str(path.parent))  # as if one had clicked one's way there
            QTest.qWait(500)  # which it lists in its own time
            line.setCompleter(None)  # which would type too
            line.selectAll()
            QTest.keyClicks(line, path.name)
            if [Path(name) for name in dialog.selectedFiles()] != [path]:
                print(f"the dialog has {dialog.selectedFiles()} for {path}", file=sys.stderr)
                dialog.reject()
                return
            QTest.keyClick(line, Qt.Key.Key_Return)
            if dialog.isVisible():
                dialog.accept()

        QTimer.singleShot(200, type_it)

    def layer(self, name: str) -> Any:
        return next((layer for layer in self.viewer.layers if layer.name == name), None)

    def show(self) -> None:
        """Make the picture of the present step, if it has one and it is wanted."""
        path = picture(self.step)
        if self.pictures and path is not None:
            QTest.qWait(500)
            (PAGE.parent / path).parent.mkdir(parents=True, exist_ok=True)
            imwrite(PAGE.parent / path, self.viewer.screenshot(canvas_only=False, flash=False)[..., :3])

    # ---- the steps of the page

    def run(self) -> None:
        self.press("Run")
        wait_for(lambda: self.layer("astronaut [GSW]") is not None, "the layer of labels")
        session = self.panel.session
        wait_for(lambda: session.frame is not None and session.frame.sweep > 40, "a trace that can be seen")
        rows = session.frame.traces[0]
        if not rows[:, 0].max() > rows[0, 0]:
            raise SystemExit("the trace does not climb")
        self.show()

    def stop(self) -> None:
        before = np.array(self.layer("astronaut [GSW]").data)
        if self.panel.stop_button.isEnabled():
            self.press("Stop")
        else:  # it has come to its end, as the page says it may
            self.pressed.append("Stop")
        wait_at_rest(self.panel)
        after = self.layer("astronaut [GSW]").data
        if before.max() == 0 or after.max() == 0:
            raise SystemExit("nothing has stayed on the screen")

    def paint(self) -> None:
        layer = self.layer("astronaut [GSW]")
        names = self.viewer.window._qt_viewer.layers
        row = next(i for i in range(names.model().rowCount()) if names.model().index(i, 0).data() == layer.name)
        QTest.mouseClick(names.viewport(), LEFT, pos=names.visualRect(names.model().index(row, 0)).center())
        wait_for(lambda: self.viewer.layers.selection.active is layer, "the layer that was clicked")
        controls = self.viewer.window._qt_viewer.controls.widgets[layer]
        click(_paint_button(controls))
        wait_for(lambda: layer.mode == "paint", "the brush")
        number = int(np.asarray(layer.data).max()) + 1
        layer.selected_label = number
        before = np.array(layer.data)
        drag(self.viewer, layer, [(100, x) for x in range(40, 120, 4)])
        wait_for(lambda: count_corrections(self.panel) == 1, "a scribble")
        wait_at_rest(self.panel)
        if not (np.asarray(layer.data) == number).sum() > layer.brush_size * 80:
            raise SystemExit("nothing follows a stroke")
        self.show()
        canvas = self.viewer.window._qt_viewer.canvas.native
        canvas.setFocus()
        QTest.keyClick(canvas, Qt.Key.Key_Z, Qt.KeyboardModifier.ControlModifier)
        interactive = self.panel.session.array_run.interactive
        wait_for(
            lambda: len(interactive.log.corrections) == 2 and not interactive.locks.any(),
            "a stroke that was taken back",
        )
        wait_at_rest(self.panel)
        if not (before == np.asarray(layer.data)).mean() > 0.5:
            raise SystemExit("what was there before the stroke has not come back")

    def doubt(self) -> None:
        self.press("Boundary")
        wait_for(lambda: self.layer("astronaut [boundary]") is not None, "the layer of boundaries")
        self.show()
        self.press("Ask me")
        wait_for(lambda: self.layer("astronaut [question]") is not None, "a place that is asked about")
        self.press("Ask me")

    def measure(self) -> None:
        wait_at_rest(self.panel)
        self.choose("Plugins", "GSW segmentation", "Table of regions")
        wait_for(lambda: any(isinstance(w, TablePanel) and w.isVisible() for w in QApplication.allWidgets()), "a table")
        labels = np.unique(np.asarray(self.layer("astronaut [regions]").data))
        wait_for(lambda: len(self.layer("astronaut [regions]").features) == np.count_nonzero(labels), "a row a region")
        self.show()

    def keep(self) -> None:
        folder, session = self.scratch / "exported", self.scratch / "astronaut.zarr.zip"
        folder.mkdir()
        self.answer(folder)
        self.press("Export all ...")
        for name in ("labels.tif", "regions.csv", "provenance.json", "trace.csv"):
            wait_for(lambda name=name: any(folder.rglob(name)), name)
        wait_at_rest(self.panel)
        self.answer(session)
        self.press("Save session ...")
        wait_for(session.exists, "the session file")
        wait_at_rest(self.panel)
        self.viewer.layers.clear()
        QTest.qWait(300)
        mime = QMimeData()
        mime.setUrls([QUrl.fromLocalFile(str(session))])
        window, held = (
            self.viewer.window._qt_viewer,
            (Qt.DropAction.CopyAction, mime, LEFT, Qt.KeyboardModifier.NoModifier),
        )
        QApplication.sendEvent(window, QDragEnterEvent(QPoint(200, 200), *held))
        QApplication.sendEvent(window, QDragMoveEvent(QPoint(200, 200), *held))
        QApplication.sendEvent(window, QDropEvent(QPointF(200, 200), *held))
        wait_for(lambda: self.layer("astronaut [GSW]") is not None, "the session again")
        wait_at_rest(self.panel)

    def follow(self) -> None:
        """All steps in turn; then the window is closed."""
        actions = (self.run, self.stop, self.paint, self.doubt, self.measure, self.keep)
        try:
            if len(actions) != len(self.steps):
                raise SystemExit(f"the page has {len(self.steps)} steps, and {len(actions)} are known here")
            wait_for(lambda: self.panel is not None, "the panel")
            wait_for(lambda: self.layer("astronaut") is not None, "the sample")
            self.viewer.window.resize(*SIZE)
            for number, (action, step) in enumerate(zip(actions, self.steps, strict=True), 1):
                self.pressed.clear()
                self.step = step
                action()
                left_out = set(bold(step)) - set(self.pressed)
                if left_out:
                    raise SystemExit(f"step {number} speaks of {left_out}")
                print(f"{number}. {step.splitlines()[0][:100]}", flush=True)
        except BaseException as reason:
            self.failure = reason
        finally:
            viewer = self.viewer if self.panel is not None else None
            if viewer is not None:
                viewer.close()
            QApplication.quit()


def _paint_button(controls: Any) -> Any:
    return next(b for b in controls.findChildren(QAbstractButton) if "brush" in b.toolTip().lower())


def main() -> None:
    parser = argparse.ArgumentParser(description="Does what the page for beginners says of the window.")
    parser.add_argument("--pictures", action="store_true", help="make the pictures of the page anew")
    pictures = parser.parse_args().pictures
    page = PAGE.read_text(encoding="utf-8")
    (command,) = re.findall(r"^ {4}napari-gsw (gui .*)$", page, re.MULTILINE)
    QApplication.setAttribute(Qt.ApplicationAttribute.AA_DontUseNativeDialogs)
    with tempfile.TemporaryDirectory() as scratch:
        autosave.autosave_folder = lambda: Path(scratch) / "autosaves"
        reader = Reader(page, Path(scratch), pictures)
        QTimer.singleShot(0, lambda: QTimer.singleShot(1000, reader.follow))
        napari_gsw(command.split())
        if reader.failure is not None:
            print(reader.failure, file=sys.stderr)
            sys.exit(1)


if __name__ == "__main__":
    main()
