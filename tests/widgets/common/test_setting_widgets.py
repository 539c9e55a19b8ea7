"""A control holds its value; what the user operates is made when it is seen."""

from __future__ import annotations

import itertools

import pytest
from qtpy.QtCore import Qt
from qtpy.QtWidgets import QVBoxLayout, QWidget

from napari_gsw.core.settings import setting_fields
from napari_gsw.widgets.common.setting_widgets import SettingWidget


def control_of(name: str, value: object) -> SettingWidget:
    return SettingWidget(name, value)


def test_a_value_is_kept_exactly_whether_it_is_seen_or_not(qtbot):
    control = control_of("alpha", 3.0)
    qtbot.addWidget(control)
    control.set_value(1 / 3)  # more digits than a spin box shows
    assert control.value() == 1 / 3
    control.show()
    assert control.value() == 1 / 3
    assert control.box.value() == pytest.approx(1 / 3, abs=1e-6)
    control.set_value(2 / 3)
    assert control.value() == 2 / 3


def test_it_says_so_once_when_the_value_changes_and_not_when_it_stays(qtbot):
    control = control_of("K", 10)
    qtbot.addWidget(control)
    heard = []
    control.changed.connect(lambda: heard.append(control.value()))
    for seen in (False, True):
        heard.clear()
        control.set_value(11 + seen)
        control.set_value(11 + seen)
        assert heard == [11 + seen]
        control.show()
        assert heard == [11 + seen]  # to be seen is no change
    control.box.setValue(20)  # the user
    assert heard[-1] == control.value() == 20


def test_a_value_that_may_be_absent_comes_and_goes_with_its_box(qtbot):
    control = control_of("max_size", None)
    qtbot.addWidget(control)
    control.show()
    assert control.value() is None
    assert not control.box.isEnabled()
    assert control.box.whatsThis() == control.toolTip()
    control._check.click()
    assert control.box.isEnabled()
    assert control.value() == control.box.value()
    control._check.click()
    assert control.value() is None
    control.set_value(7)
    assert control._check.isChecked()
    assert control.box.isEnabled()
    assert control.box.value() == 7
    region = control_of("min_region", 40)  # without a value, it shows the usual one
    qtbot.addWidget(region)
    region.show()
    region.set_value(None)
    assert region.value() is None
    usual = setting_fields()["min_region"].usual
    assert region.box.value() == usual
    region._check.click()
    assert region.value() == usual


def test_the_tab_key_goes_through_rows_as_they_stand_whichever_was_seen_first(qtbot):
    column = QWidget()
    layout = QVBoxLayout(column)
    rows = [control_of(name, value) for name, value in (("alpha", 3.0), ("theta", 0.0), ("beta", 1.0))]
    for row in rows:
        layout.addWidget(row)
    qtbot.addWidget(column)
    for k in (2, 0, 1):
        assert rows[k].box is not None
    column.show()
    rows[0].box.setFocus()
    for before, row in itertools.pairwise(rows):
        qtbot.keyClick(before.box, Qt.Key.Key_Tab)
        assert column.focusWidget() is row.box
