"""The ``?`` beside things: it opens the page of the documentation that is about them, without a network."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from napari.settings import get_settings
from napari.utils.theme import get_system_theme
from qtpy.QtCore import Qt, QTimer, QUrl
from qtpy.QtGui import QColor, QDesktopServices, QImage, QPalette
from qtpy.QtWidgets import QDialog, QTextBrowser, QToolButton, QVBoxLayout, QWidget

from napari_gsw.widgets.common.labels import link_colour

PACKAGE = Path(__file__).parents[2]
# With the package where it is installed, beside its source where it is worked on.
FOLDERS = (PACKAGE / "docs", PACKAGE.parents[1] / "docs")
SMOOTH = Qt.TransformationMode.SmoothTransformation


class Page(QTextBrowser):  # type: ignore[misc]
    """Text with pictures that are no wider than itself."""

    def loadResource(self, kind: int, name: QUrl) -> Any:
        picture = QImage(str(find_page(name.toString())))
        if picture.isNull():
            return super().loadResource(kind, name)
        room = max(200, self.viewport().width() - 40)
        return picture.scaledToWidth(room, SMOOTH) if picture.width() > room else picture


class HelpPage(QDialog):  # type: ignore[misc]
    """A page of the documentation in a window of its own, at one of its headings; links lead to the other pages."""

    def __init__(self, address: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setModal(False)
        self.resize(760, 640)
        self.browser = Page()
        self.browser.setOpenLinks(False)
        palette = self.browser.palette()
        for role in (QPalette.ColorRole.Link, QPalette.ColorRole.LinkVisited):
            palette.setColor(role, QColor(link_colour(_theme())))
        self.browser.setPalette(palette)
        self.browser.anchorClicked.connect(lambda connections: self.open_page(connections.toString()))
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.addWidget(self.browser)
        self._page = self._heading = ""
        # When the window is there and has laid out its text.
        self._later = QTimer(self)
        self._later.setSingleShot(True)
        self._later.timeout.connect(self._scroll)
        self.open_page(address)

    def open_page(self, address: str) -> None:
        """Show a page, ``widget.md#the-trace`` for example; an address in the network goes to the user's browser."""
        if "://" in address:
            QDesktopServices.openUrl(QUrl(address))
            return
        name, _, self._heading = address.partition("#")
        path = find_page(name or self._page)
        self._page = path.name
        self.browser.setSearchPaths([str(path.parent)])
        self.browser.setMarkdown(path.read_text(encoding="utf-8") if path.exists() else f"There is no page {name}.")
        self.setWindowTitle(f"GSW segmentation: {path.stem.replace('_', ' ')}")
        self._later.start(0)

    def _scroll(self) -> None:
        """Bring the heading to the top."""
        document = self.browser.document()
        block = document.begin()
        while self._heading and block.isValid():
            if block.blockFormat().headingLevel() and make_anchor(block.text()) == self._heading:
                top = document.documentLayout().blockBoundingRect(block).top()
                self.browser.verticalScrollBar().setValue(int(top))
                return
            block = block.next()


def _theme() -> str:
    """The theme of napari's windows."""
    chosen: str = get_settings().appearance.theme
    return get_system_theme() if chosen == "system" else chosen


def find_page(name: str) -> Path:
    """Where a page is; in the first of the folders if it is in none."""
    return next((folder / name for folder in FOLDERS if (folder / name).exists()), FOLDERS[0] / name)


def make_anchor(heading: str) -> str:
    """A heading as links name it.

    >>> anchor_of("The trace"), anchor_of("Sessions: nothing is lost")
    ('the-trace', 'sessions-nothing-is-lost')
    """
    return "".join(c for c in heading.lower().replace(" ", "-") if c.isalnum() or c == "-")


def make_help_button(address: str) -> QToolButton:
    """A ``?`` that opens a page of the documentation."""
    button = QToolButton()
    button.setText("?")
    button.setAutoRaise(True)
    button.setToolTip("What this is about, in the documentation")
    button.setAccessibleName("Help")
    button.setProperty("page", address)
    button.setStyleSheet("QToolButton { border: none; background: transparent; font-weight: 600; padding: 2px 5px; }")
    button.clicked.connect(lambda: show_page(button))
    return button


def show_page(button: QToolButton) -> HelpPage:
    """Open the page of a button in the window of help that is open, or in a new one; the window goes with ours."""
    window = button.window()
    dialog = next((child for child in window.children() if isinstance(child, HelpPage)), None)
    if dialog is None:
        dialog = HelpPage(button.property("page"), window)
    else:
        dialog.open_page(button.property("page"))
    dialog.show()
    dialog.raise_()
    return dialog
