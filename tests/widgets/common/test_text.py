"""A line of text that keeps its place: all that is seen fits, and dots say that there is more."""

from __future__ import annotations

import pytest

pytest.importorskip("napari")
pytest.importorskip("pytestqt")
pytestmark = pytest.mark.gui

WORDS = "One chain shows no drift, but not whether another would settle elsewhere: run 4 chains and look again."


@pytest.mark.parametrize("style", ["", "QLabel { padding: 2px; font-size: 13pt; }"])
@pytest.mark.parametrize("width", [60, 150, 237, 400, 2000])
def test_what_does_not_fit_ends_in_dots(viewer, qtbot, width, style):
    from qtpy.QtWidgets import QVBoxLayout, QWidget

    from napari_gsw.widgets.common.text import ElidedLabel

    window = QWidget()
    qtbot.addWidget(window)
    window.setStyleSheet(style)
    line = ElidedLabel("line", 2)
    column = QVBoxLayout(window)
    column.setContentsMargins(0, 0, 0, 0)
    column.addWidget(line)
    window.setFixedWidth(width)
    window.show()
    line.set_text(WORDS)
    qtbot.waitExposed(window)
    shown = line.displayed_text()
    lines = shown.split("\n")
    assert len(lines) <= 2
    metrics = line.fontMetrics()
    assert all(metrics.horizontalAdvance(one) <= width for one in lines)
    assert len(lines) * metrics.lineSpacing() <= line.height()
    assert shown.endswith("\N{HORIZONTAL ELLIPSIS}") == (shown.replace("\n", " ") != WORDS)
    assert (line.text(), line.toolTip()) == (WORDS, WORDS)
    if width == 2000:
        assert shown == WORDS
