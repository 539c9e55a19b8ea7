"""What is folded away waits outside the window until somebody wants it, and is in its place then."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from qtpy.QtCore import QEvent, Qt
from qtpy.QtTest import QTest
from qtpy.QtWidgets import QApplication, QWidget

from gui_actions import click, wait_done, wait_for

pytest.importorskip("napari")
pytestmark = pytest.mark.gui


def ran(panel, qtbot, sweeps=40):
    panel.viewer.add_image(np.kron(np.eye(2), np.ones((20, 20))), name="squares")
    panel.form.controls["sweeps"].set_value(sweeps)
    click(qtbot, panel.run_button)
    wait_done(qtbot, panel)


def test_a_dock_that_opens_waits_neither_for_the_plot_nor_for_what_is_folded(viewer, qtbot):
    _, panel = viewer.window.add_plugin_dock_widget("napari-gsw", "GSW segmentation")
    assert panel.trace_section._plot is None
    assert all(section.body.window() is section.body for section in panel.sections)
    inside = [widget for widget in panel.findChildren(QWidget) if widget.window() is panel.window()]
    folded = [widget for section in panel.sections for widget in section.body.findChildren(QWidget)]
    assert len(folded) > len(inside)
    wait_for(qtbot, lambda: panel.trace_section._plot is not None)  # before the first run
    assert not panel.trace.isVisible()
    panel.shut_down()


def test_tab_goes_down_the_panel_through_what_was_unfolded_in_any_order(panel, qtbot):
    panel.viewer.add_image(np.zeros((30, 30)))
    for name in ("sampler", "superpixels", "prior"):
        panel.form.sections[name].unfold()
    panel.seeds.unfold()
    qtbot.wait(50)
    panel.form.sections["superpixels"].button.setFocus()
    heights, reached = [], []
    while panel.inner.isAncestorOf(widget := panel.window().focusWidget()) and widget not in reached:
        reached.append(widget)
        heights.append(widget.mapTo(panel.inner, widget.rect().center()).y())
        QTest.keyClick(widget, Qt.Key.Key_Tab)
    assert all(after > before - 12 for before, after in pairwise(heights))  # 12: within a row
    boxes = [panel.form.controls[name].box for name in ("alpha", "sweeps", "steering")]
    assert {panel.sites, panel.seed, panel.seeds.seeds, *boxes} <= set(reached)


@pytest.mark.slow
def test_a_trace_that_was_unfolded_before_its_plot_was_there_is_in_its_place_of_the_tab_order(viewer, qtbot):
    _, panel = viewer.window.add_plugin_dock_widget("napari-gsw", "GSW segmentation")
    section = panel.trace_section
    section.unfold()
    assert section._plot is None
    wait_for(qtbot, lambda: section._plot is not None and section._plot.isVisible())
    section.help.setFocus()
    QTest.keyClick(section.help, Qt.Key.Key_Tab)
    assert panel.window().focusWidget() is section.plot
    panel.shut_down()


def test_the_control_among_the_rows_above_is_reached_from_its_neighbours(panel, qtbot):
    panel.viewer.add_image(np.zeros((30, 30)))
    qtbot.wait(50)
    panel.paint_row.keep.setFocus()
    reached = []
    while panel.paint_row.isAncestorOf(widget := panel.window().focusWidget()) and widget not in reached:
        reached.append(widget)
        QTest.keyClick(widget, Qt.Key.Key_Tab)
    assert panel.form.controls["only_painted"].box in reached


def test_what_was_folded_while_it_ran_shows_the_run_when_it_is_unfolded(panel, qtbot):
    ran(panel, qtbot)
    click(qtbot, panel.trace_section.button)
    assert not panel.trace.isVisible()
    click(qtbot, panel.run_button)
    wait_done(qtbot, panel)
    sweeps = panel.session.frame.sweep
    assert sweeps > len(panel.trace._traces[0])
    click(qtbot, panel.trace_section.button)
    wait_for(qtbot, lambda: len(panel.trace._traces[0]) == sweeps)


@pytest.mark.slow
def test_a_dock_that_was_hidden_while_it_ran_shows_the_run_when_it_is_seen_again(viewer, qtbot):
    dock, panel = viewer.window.add_plugin_dock_widget("napari-gsw", "GSW segmentation")
    ran(panel, qtbot)
    dock.hide()
    panel.run()
    wait_done(qtbot, panel)
    sweeps = panel.session.frame.sweep
    assert sweeps > len(panel.trace._traces[0])
    dock.show()
    wait_for(qtbot, lambda: len(panel.trace._traces[0]) == sweeps)
    panel.shut_down()


def test_the_picture_of_a_trace_that_was_never_seen_is_as_large_as_any_and_has_its_lines(panel, qtbot, tmp_path):
    panel.trace_section._shown = True  # as if a person had folded it away at once
    ran(panel, qtbot)
    assert not panel.trace.isVisible()
    panel.export.save_trace(tmp_path / "t.png")
    assert len(panel.trace._traces[0]) == panel.session.frame.sweep
    image = panel.trace_section.picture()
    assert (image.width(), image.height()) >= (640, 400)
    assert (tmp_path / "t.png").exists()


def test_a_plot_that_is_made_late_has_the_colours_of_the_theme(panel):
    panel.viewer.theme = "light"
    assert panel.trace.backgroundBrush().color().lightness() > 200
    panel.viewer.theme = "dark"
    assert panel.trace.backgroundBrush().color().lightness() < 60


def test_what_is_folded_belongs_to_its_section_once_it_is_seen(panel, qtbot):
    """What has no parent is deleted by Python, in whatever thread collects."""
    for section in (panel.trace_section, *panel.sections):
        wait_for(qtbot, lambda section=section: section.body.parentWidget() is section)
        assert section.body.isWindow()


@pytest.mark.parametrize("shown", [False, True])
def test_what_never_was_unfolded_goes_with_its_section(qtbot, shown):
    from napari_gsw.widgets.common.collapsible import Section

    section = Section("Title")
    section.setVisible(shown)
    qtbot.wait(20)
    gone = []
    section.body.destroyed.connect(lambda: gone.append(True))
    section.deleteLater()
    QApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)
    QApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)
    assert gone
