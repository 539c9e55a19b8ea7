"""A panel that stays in place, shows what is chosen now, and explains itself."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from qtpy.QtCore import QEvent, Qt
from qtpy.QtTest import QTest
from qtpy.QtWidgets import QAbstractButton, QAbstractSlider, QAbstractSpinBox, QApplication, QComboBox, QWidget

from gui_actions import click, run, wait_for

pytest.importorskip("napari")
pytest.importorskip("pytestqt")
pytestmark = pytest.mark.gui

LONG = "A sentence that is far too long for a panel of the usual width, " * 4


def small():
    """(60, 80, 3) a square of one colour before two others."""
    image = np.full((60, 80, 3), (200, 40, 40), np.uint8)
    image[:, 40:] = (40, 60, 220)
    image[10:40, 5:35] = (30, 200, 60)
    return image + np.random.default_rng(0).integers(0, 9, image.shape, np.uint8)


def open_panel(viewer):
    return viewer.window.add_plugin_dock_widget("napari-gsw", "GSW segmentation")


# ---- where things are


def places(panel):
    """Positions of everything above the trace, by the order of the panel."""
    rows = [panel.run_row, panel.progress, panel.reason, panel.paint_row, panel.query_row, panel.edit_row]
    rows += [panel.display, panel.region]
    return [(row.y(), row.height()) for row in rows] + [panel.trace_section.y()]


def test_nothing_moves_whatever_is_shown(panel, qtbot):
    panel.viewer.add_image(small(), name="m")
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
    run(panel, qtbot, sweeps=60)
    qtbot.wait(50)
    assert places(panel) == before
    assert panel.trace.isVisible()
    height = panel.inner.sizeHint().height()
    panel.session.layer_view.view_sweep(3)
    panel._refresh()
    assert panel.trace_section.viewing.isVisible()
    assert panel.inner.sizeHint().height() == height
    # What a person folds away stays folded, and shows the run once it is unfolded.
    click(qtbot, panel.trace_section.button)
    run(panel, qtbot)
    assert not panel.trace.isVisible()
    sweeps = panel.session.frame.sweep
    assert sweeps > len(panel.trace._traces[0])
    click(qtbot, panel.trace_section.button)
    wait_for(qtbot, lambda: len(panel.trace._traces[0]) == sweeps)


def test_a_dock_opens_without_the_plot_and_without_what_is_folded(viewer, qtbot):
    _, panel = open_panel(viewer)
    assert panel.trace_section._plot is None
    assert all(section.body.window() is section.body for section in panel.sections)
    inside = [widget for widget in panel.findChildren(QWidget) if widget.window() is panel.window()]
    folded = [widget for section in panel.sections for widget in section.body.findChildren(QWidget)]
    assert len(folded) > len(inside)
    # What has no parent is deleted by Python, in whatever thread collects.
    for section in (panel.trace_section, *panel.sections):
        wait_for(qtbot, lambda section=section: section.body.parentWidget() is section)
        assert section.body.isWindow()
    panel.shut_down()


def test_a_trace_that_was_never_seen_is_saved_with_its_lines_and_colours(panel, qtbot, tmp_path):
    panel.trace_section._shown = True  # as if a person had folded it away at once
    for theme in ("light", "dark"):
        panel.viewer.theme = theme
        assert (panel.trace.backgroundBrush().color().lightness() > 128) == (theme == "light")
    run(panel, qtbot, small(), sweeps=40)
    assert not panel.trace.isVisible()
    panel.export.save_trace(tmp_path / "t.png")
    assert len(panel.trace._traces[0]) == panel.session.frame.sweep
    image = panel.trace_section.picture()
    assert (image.width(), image.height()) >= (640, 400)
    assert (tmp_path / "t.png").exists()


def test_tab_goes_down_the_panel(panel, qtbot):
    """Through what was unfolded in any order, and through the control of a setting among the rows above."""
    panel.viewer.add_image(np.zeros((30, 30)))
    for name in ("sampler", "superpixels", "prior"):
        panel.form.sections[name].unfold()
    panel.seeds.unfold()
    qtbot.wait(50)

    def reach(first, root):
        first.setFocus()
        reached, heights = [], []
        while root.isAncestorOf(widget := panel.window().focusWidget()) and widget not in reached:
            reached.append(widget)
            heights.append(widget.mapTo(panel.inner, widget.rect().center()).y())
            QTest.keyClick(widget, Qt.Key.Key_Tab)
        assert all(after > before - 12 for before, after in pairwise(heights))  # 12: within a row
        return reached

    boxes = [panel.form.controls[name].box for name in ("alpha", "sweeps", "steering")]
    reached = reach(panel.form.sections["superpixels"].button, panel.inner)
    assert {panel.sites, panel.seed, panel.seeds.seeds, *boxes} <= set(reached)
    assert panel.form.controls["only_painted"].box in reach(panel.paint_row.keep, panel.paint_row)


@pytest.mark.parametrize("shown", [False, True])
def test_what_was_never_unfolded_goes_with_its_section(qtbot, shown):
    from napari_gsw.widgets.common.layouts import Section

    section = Section("Title")
    section.setVisible(shown)
    qtbot.wait(20)
    gone = []
    section.body.destroyed.connect(lambda: gone.append(True))
    section.deleteLater()
    QApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)
    QApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)
    assert gone


def test_a_second_dock_is_a_tab(panel, qtbot):
    from napari_gsw.widgets.common.dock_panel import find_dock

    _, other = panel.viewer.window.add_plugin_dock_widget("napari-gsw", "Superpixels")
    window = panel.window()
    qtbot.waitUntil(lambda: window.tabifiedDockWidgets(find_dock(panel)) == [find_dock(other)], timeout=600_000)
    assert not find_dock(panel).isFloating()
    other.shut_down()


# ---- what explains itself


def test_every_control_and_section_explains_itself(panel, qtbot):
    from napari_gsw.widgets.common.help_page import HelpPage, find_page, make_anchor
    from napari_gsw.widgets.common.layouts import Section

    panel.viewer.add_image(np.zeros((64, 64)))
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

    buttons = [panel.chooser.help, panel.trace_section.help, *(section.help for section in panel.sections)]
    for address in (button.property("page") for button in buttons):
        name, _, anchor = address.partition("#")
        lines = find_page(name).read_text(encoding="utf-8").splitlines()
        assert anchor in ["", *(make_anchor(line.lstrip("# ")) for line in lines if line.startswith("#"))], address
    click(qtbot, panel.trace_section.help)
    click(qtbot, panel.chooser.help)  # in the same window
    (dialog,) = panel.window().findChildren(HelpPage)
    assert "GSW segmentation" in dialog.browser.toPlainText()
    dialog.open_page("model.md#what-is-shown")
    qtbot.waitUntil(lambda: dialog.browser.verticalScrollBar().value() > 0, timeout=600_000)
    dialog.open_page("nowhere.md")
    assert "no page" in dialog.browser.toPlainText()
    dialog.close()

    # A theme leaves some pixels of a line empty, which text that is fitted into it does not know.
    for line in (section.summary for section in panel.findChildren(Section) if section.summary.isVisible()):
        for text in ("m" * few + "i" * many for few in range(0, 6, 2) for many in range(0, 100, 3)):
            line.setText(text)
            assert line.fontMetrics().horizontalAdvance(line._elidedText()) <= line.contentsRect().width()
        assert line._elidedText().endswith("…")


# ---- what is chosen now


def test_another_image_or_preset_clears_what_was_shown(panel, qtbot):
    run(panel, qtbot, small(), sweeps=40)
    sites = panel.session.array_run.interactive.problem.n
    summary = panel.form.sections["superpixels"].summary
    assert summary.text().startswith(f"{sites} sites")
    assert panel.run_button.text() == "Continue"
    click(qtbot, panel.presets.buttons["microscopy"])
    assert str(sites) not in summary.text()
    click(qtbot, panel.presets.buttons["membranes"])
    assert summary.text().startswith("about ")
    panel.region.show_text("Region 1: 40 pixels")
    panel._show_notice("something went wrong")
    assert "clusters" in panel.progress.status.text()
    click(qtbot, panel.presets.buttons["paper"])
    assert panel.reason.text() == ""
    panel._show_notice("something went wrong")
    panel.chooser.image.choose(panel.viewer.add_image(small()[:40], name="other"))
    assert panel.reason.text() == ""
    assert panel.progress.status.text().startswith("About 1,000 sites; the prior expects")
    assert panel.agreement.line.text() == ""
    wait_for(qtbot, lambda: panel.trace._traces == [])
    panel.chooser.image.choose(panel.viewer.layers["m"])
    assert "best" in panel.progress.status.text()
    assert panel.region.text().startswith("Region 1")
    click(qtbot, panel.reset_button)
    wait_for(qtbot, lambda: panel.session.state == "ready")
    assert panel.region.text().startswith("Point at a region")


def test_a_finished_run_follows_regions_and_settings(panel, qtbot):
    run(panel, qtbot, small(), sweeps=40)
    labels, regions = panel.session.segmentation.layers.labels, panel.viewer.layers["m [regions]"]
    # A region that changes under a mouse at rest is described anew.
    regions.visible = False
    panel.viewer.cursor.position = (20, 20)
    assert panel.region.text().startswith("Cluster ")
    frame, number = panel.session.frame, int(labels.data[20, 20])
    table = dict(frame.table)
    table["pixels"] = np.where(np.asarray(table["index"]) == number, 12_345, table["pixels"])
    panel.session.array_run.frame = replace(frame, table=table)
    panel._refresh()
    assert "12,345 pixels" in panel.region.text()
    panel.region.show_text("sweep 3")  # of the trace: it is not about a region
    panel.session.array_run.frame = frame
    panel._refresh()
    assert panel.region.text() == "sweep 3"
    # The smallest region applies to a run that is over.
    click(qtbot, panel.display.layer_boxes["regions"])
    many = len(np.unique(regions.data))
    panel.form.controls["min_region"].set_value(1500)
    wait_for(qtbot, lambda: len(np.unique(regions.data)) < many)
    assert panel.session.state == "done"
    wait_for(qtbot, lambda: f"{len(np.unique(regions.data))} region" in panel.progress.status.text())
    panel.form.controls["min_region"].set_value(0)
    wait_for(qtbot, lambda: len(np.unique(regions.data)) >= many)
    click(qtbot, panel.display.layer_boxes["regions"])
    wait_for(qtbot, lambda: "region" not in panel.progress.status.text())
