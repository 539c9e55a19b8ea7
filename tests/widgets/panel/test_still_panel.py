"""A panel that stays where it is, says what it waits for, and explains itself."""

from __future__ import annotations

import numpy as np
import pytest
from qtpy.QtCore import QEvent, QObject

from gui_actions import click, wait_done

pytest.importorskip("napari")
pytestmark = pytest.mark.gui

LONG = "A sentence that is far too long for a panel of the usual width, " * 4


def places(panel):
    """Where everything above the trace is, by the order of the panel."""
    rows = (
        panel.run_row,
        panel.progress,
        panel.reason,
        panel.paint_row,
        panel.query_row,
        panel.edit_row,
        panel.display,
    )
    return [(row.y(), row.height()) for row in (*rows, panel.region)] + [panel.trace_section.y()]


def image(panel, side=40):
    return panel.viewer.add_image(np.kron(np.eye(2), np.ones((side // 2, side // 2))), name="squares")


def test_nothing_moves_whatever_is_said_and_whoever_runs(panel, qtbot):
    image(panel)
    qtbot.wait(50)
    assert not panel.trace_section.body.isVisible()
    before = places(panel)
    panel._show_notice(LONG)
    panel.region.show_text(LONG)
    qtbot.wait(20)
    assert places(panel) == before
    assert panel.reason.text().startswith(LONG[:60])  # all of it is there, and on the screen what fits
    assert LONG.strip() in panel.reason.toolTip()
    assert not panel.trace.isVisible()
    panel.form.controls["sweeps"].set_value(60)
    click(qtbot, panel.run_button)
    wait_done(qtbot, panel)
    qtbot.wait(50)
    assert places(panel) == before
    assert panel.trace.isVisible()
    height = panel.inner.sizeHint().height()
    panel.session.canvas.view_sweep(3)
    panel._refresh()
    assert panel.trace_section.viewing.isVisible()
    assert panel.inner.sizeHint().height() == height
    panel.trace_section.unfold(False)  # and what a person has folded away stays folded
    click(qtbot, panel.run_button)
    wait_done(qtbot, panel)
    assert not panel.trace.isVisible()


class Placements(QObject):
    """Counts how often controls are put somewhere."""

    def __init__(self, controls):
        super().__init__()
        self.count = 0
        for control in controls:
            control.installEventFilter(self)

    def eventFilter(self, watched, event):
        self.count += event.type() in (QEvent.Type.Move, QEvent.Type.Resize)
        return False


def test_a_preset_lays_the_panel_out_once_not_for_every_row(panel, qtbot):
    for section in panel.form.sections.values():
        section.unfold()
    qtbot.wait(50)
    placements = Placements(panel.form.controls.values())
    for name in ("membranes", "general"):  # many rows come and go
        panel.form.choose_preset(name)
        assert placements.count <= 2 * len(panel.form.controls)  # which Qt does once, when it comes to it
        qtbot.wait(50)
        shown = [c for c in panel.form.controls.values() if c.isVisible() and c.parentWidget() is not None]
        tops = [(c.parentWidget(), c.y()) for c in shown]
        assert len(set(tops)) == len(tops), "rows lie upon one another"
        placements.count = 0


def test_every_control_says_what_it_is(panel):
    from qtpy.QtWidgets import QAbstractButton, QAbstractSlider, QAbstractSpinBox, QComboBox

    for control in panel.form.controls.values():
        assert control.box.whatsThis()  # which are made when a section is unfolded
    for section in (panel.trace_section, *panel.sections):
        section.unfold()
    kinds = (QAbstractButton, QComboBox, QAbstractSpinBox, QAbstractSlider)
    controls = [control for kind in kinds for control in panel.inner.findChildren(kind)]
    assert len(controls) > 100
    for control in controls:
        widget = control  # Qt asks the parents of a widget that says nothing
        while widget is not panel.inner and not widget.whatsThis():
            widget = widget.parentWidget()
        assert widget is not panel.inner, control.objectName() or control.text()


def test_every_section_leads_to_a_heading_of_the_documentation(panel, qtbot):
    from napari_gsw.widgets.common.help_page import HelpPage, find_page, make_anchor

    buttons = [panel.chooser.help, panel.trace_section.help, *(section.help for section in panel.sections)]
    for address in (button.property("page") for button in buttons):
        name, _, anchor = address.partition("#")
        lines = find_page(name).read_text(encoding="utf-8").splitlines()
        headings = [make_anchor(line.lstrip("# ")) for line in lines if line.startswith("#")]
        assert anchor in ["", *headings], address
    click(qtbot, panel.trace_section.help)
    click(qtbot, panel.chooser.help)  # in the same window
    (dialog,) = panel.window().findChildren(HelpPage)
    assert "GSW segmentation" in dialog.browser.toPlainText()
    dialog.open_page("model.md#what-is-shown")
    qtbot.waitUntil(lambda: dialog.browser.verticalScrollBar().value() > 0, timeout=600_000)
    dialog.open_page("nowhere.md")
    assert "no page" in dialog.browser.toPlainText()
    dialog.close()


def test_the_words_of_the_form_are_plain(panel):
    from napari_gsw.widgets.common.setting_widgets import TERMS

    shown = [box.itemText(i) for c in panel.form.controls.values() if (box := c.box) and hasattr(box, "itemText")
             for i in range(box.count())]  # fmt: skip
    shown += [section.summary.text() for section in panel.form.sections.values()]
    for word in ("Vi", "HSV", "Hsv", "Dirichlet", "Binder", "Run on"):
        assert not [text for text in shown if word in text], word
    prior = panel.form.controls["prior"].box
    from qtpy.QtCore import Qt

    assert prior.itemData(0, Qt.ItemDataRole.ToolTipRole) == TERMS["dirichlet-process"]  # for who looks for it


def test_a_second_dock_is_a_tab(panel, qtbot):
    from napari_gsw.widgets.common.dock_panel import find_dock

    _, other = panel.viewer.window.add_plugin_dock_widget("napari-gsw", "Superpixels")
    window = panel.window()
    qtbot.waitUntil(lambda: window.tabifiedDockWidgets(find_dock(panel)) == [find_dock(other)], timeout=600_000)
    assert not find_dock(panel).isFloating()
    other.shut_down()


def test_it_says_that_it_compiles_whatever_stage_it_is_at(panel, monkeypatch):
    from napari_gsw.core.jit import PROGRESS
    from napari_gsw.core.pipeline.stage import Stage
    from napari_gsw.core.pipeline.warm_up import N_KERNELS
    from napari_gsw.widgets.session.run_worker import CommandQueue

    monkeypatch.setattr(PROGRESS, "depth", 1)
    monkeypatch.setattr(PROGRESS, "count", 12)
    for stage in (None, Stage("features"), Stage("start")):
        monkeypatch.setattr(CommandQueue, "stage", stage)
        panel.progress.refresh(None)
        assert panel.progress.status.text() == f"Compiling, once on this machine: 12 of {N_KERNELS}"
    monkeypatch.setattr(PROGRESS, "depth", 0)
    monkeypatch.setattr(CommandQueue, "stage", Stage("features"))
    panel.progress.refresh(None)
    assert panel.progress.status.text() == "Computing features ..."


def test_what_a_section_says_is_cut_by_dots_and_never_by_its_end(viewer, panel, qtbot):
    """A theme leaves some pixels of a line empty, which text that is fitted into it knows nothing of."""
    from napari_gsw.widgets.common.collapsible import Section

    viewer.add_image(np.zeros((64, 64)))
    qtbot.wait(100)
    for section in panel.findChildren(Section):
        line = section.summary
        if not line.isVisible():
            continue
        for text in ("m" * few + "i" * many for few in range(6) for many in range(100)):
            line.setText(text)
            assert line.fontMetrics().horizontalAdvance(line._elidedText()) <= line.contentsRect().width()
        assert line._elidedText().endswith("…")
