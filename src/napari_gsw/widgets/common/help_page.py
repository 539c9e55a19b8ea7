"""The ``?`` buttons and the window of help, which shows the documentation without a network."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from napari.settings import get_settings
from napari.utils.theme import get_system_theme
from qtpy.QtCore import Qt, QUrl
from qtpy.QtGui import QColor, QDesktopServices, QImage, QPalette
from qtpy.QtWidgets import QDialog, QTextBrowser, QToolButton, QVBoxLayout, QWidget

from napari_gsw.widgets.common.dock_panel import make_timer
from napari_gsw.widgets.common.text import LINK, readable_colour

PACKAGE = Path(__file__).parents[2]
# With the package where it is installed, beside its source in a checkout.
FOLDERS = (PACKAGE / "docs", PACKAGE.parents[1] / "docs")


class PageBrowser(QTextBrowser):  # type: ignore[misc]
    """Text browser that scales wide images down to its own width."""

    def loadResource(self, kind: int, name: QUrl) -> Any:
        image = QImage(str(find_page(name.toString())))
        if image.isNull():
            return super().loadResource(kind, name)
        width = min(image.width(), max(200, self.viewport().width() - 40))
        return image.scaledToWidth(width, Qt.TransformationMode.SmoothTransformation)


class HelpPage(QDialog):  # type: ignore[misc]
    """Window with a page of the documentation; links lead to other pages."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setModal(False)
        self.resize(760, 640)
        self.browser = PageBrowser(openLinks=False)
        theme = get_settings().appearance.theme
        colour = QColor(readable_colour(LINK, get_system_theme() if theme == "system" else theme))
        palette = self.browser.palette()
        for role in (QPalette.ColorRole.Link, QPalette.ColorRole.LinkVisited):
            palette.setColor(role, colour)
        self.browser.setPalette(palette)
        self.browser.anchorClicked.connect(lambda url: self.open_page(url.toString()))
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.addWidget(self.browser)
        self._page = self._heading = ""
        self._scrolling = make_timer(self, self._scroll_to_heading)  # when the window has laid out its text

    def open_page(self, address: str) -> None:
        """Show a page, ``widget.md#the-trace`` for example, or open a web address in the user's browser."""
        if "://" in address:
            QDesktopServices.openUrl(QUrl(address))
            return
        name, _, self._heading = address.partition("#")
        path = find_page(name or self._page)
        self._page = path.name
        self.browser.setSearchPaths([str(path.parent)])
        self.browser.setMarkdown(path.read_text(encoding="utf-8") if path.exists() else f"There is no page {name}.")
        self.setWindowTitle(f"GSW segmentation: {path.stem.replace('_', ' ')}")
        self._scrolling.start()

    def _scroll_to_heading(self) -> None:
        document = self.browser.document()
        block = document.begin()
        while self._heading and block.isValid():
            if block.blockFormat().headingLevel() and make_anchor(block.text()) == self._heading:
                top = document.documentLayout().blockBoundingRect(block).top()
                self.browser.verticalScrollBar().setValue(int(top))
                return
            block = block.next()


def find_page(name: str) -> Path:
    """Return the path of a page; in the first folder if it is in none."""
    return next((folder / name for folder in FOLDERS if (folder / name).exists()), FOLDERS[0] / name)


def make_anchor(heading: str) -> str:
    """Return the anchor of a heading, as links name it.

    >>> make_anchor("Sessions: nothing is lost")
    'sessions-nothing-is-lost'
    """
    return "".join(c for c in heading.lower().replace(" ", "-") if c.isalnum() or c == "-")


def make_help_button(address: str) -> QToolButton:
    """Make a ``?`` button that opens a page of the documentation, in the open window of help or in a new one."""

    def show_page() -> None:
        window = button.window()
        dialog = next((child for child in window.children() if isinstance(child, HelpPage)), None) or HelpPage(window)
        dialog.open_page(address)
        dialog.show()
        dialog.raise_()

    tip = "What this is about, in the documentation"
    button = QToolButton(text="?", autoRaise=True, toolTip=tip, accessibleName="Help")
    button.setProperty("page", address)
    button.setStyleSheet("QToolButton { border: none; background: transparent; font-weight: 600; padding: 2px 5px; }")
    button.clicked.connect(show_page)
    return button
