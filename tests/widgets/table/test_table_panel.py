"""The table of regions in a real window: rows lead to regions and back, and a lasso chooses."""

from __future__ import annotations

import csv
import itertools

import numpy as np
import pandas as pd
import pytest

from gui_actions import canvas_point, click
from napari_gsw.core.errors import InputError
from napari_gsw.core.posterior.region_table import measure_labels
from napari_gsw.widgets.layers.layer_metadata import TABLE_AXES, make_metadata
from napari_gsw.widgets.layers.result_layers import stack_tables
from napari_gsw.widgets.table.table_model import filter_rows

pytest.importorskip("napari")
pytest.importorskip("pytestqt")
gui = pytest.mark.gui

# Two frames: squares of growing size in columns, with other numbers in the second.
LABELS = np.zeros((2, 60, 120), np.uint16)
for k in range(4):
    LABELS[0, 10 : 16 + 6 * k, 5 + 28 * k : 15 + 28 * k] = k + 1
    LABELS[1, 10 : 16 + 6 * k, 5 + 28 * k : 15 + 28 * k] = 4 - k
TABLE = stack_tables(["t"], [((t,), measure_labels(LABELS[t], LABELS[t] * 10.0, "YX")) for t in (0, 1)])


@pytest.fixture
def table(viewer):
    """The dock beside a layer with the table."""
    layer = viewer.add_labels(LABELS.copy(), name="r", metadata=make_metadata("regions") | {TABLE_AXES: "tyx"})
    layer.features = pd.DataFrame(TABLE)
    _, widget = viewer.window.add_plugin_dock_widget("napari-gsw", "Table of regions")
    yield widget
    widget.shut_down()


def row_of(widget, t, index):
    (row,) = np.flatnonzero((TABLE["t"] == t) & (TABLE["index"] == index))
    return int(np.flatnonzero(widget.model.order == row)[0])


def click_row(qtbot, widget, shown):
    from qtpy.QtCore import Qt

    place = widget.table.visualRect(widget.model.index(shown, 0)).center()
    qtbot.mouseClick(widget.table.viewport(), Qt.MouseButton.LeftButton, pos=place)


@gui
def test_a_row_leads_to_its_region_and_a_region_to_its_row(table, viewer, qtbot):
    from qtpy.QtCore import Qt

    assert table.model.rowCount() == 8
    click_row(qtbot, table, row_of(table, 1, 2))
    assert viewer.dims.point[0] == 1
    inside = np.argwhere(LABELS[1] == 2)
    assert np.allclose(viewer.scene.camera.center[-2:], inside.mean(axis=0), atol=1.5)
    qtbot.waitUntil(lambda: "r chosen" in viewer.layers, timeout=600_000)
    outlines = viewer.layers["r chosen"].data
    assert np.array_equal(outlines[1] > 0, LABELS[1] == 2)
    assert not outlines[0].any()
    viewer.dims.set_point(0, 0)
    viewer.reset_view()
    qtbot.wait(50)
    native = viewer.window._qt_viewer.canvas.native
    qtbot.mouseClick(native, Qt.MouseButton.LeftButton, pos=canvas_point(viewer, viewer.layers["r"], (0, 14, 38)))
    qtbot.waitUntil(
        lambda: table.chosen.tolist() == [int(np.flatnonzero((TABLE["t"] == 0) & (TABLE["index"] == 2))[0])],
        timeout=600_000,
    )
    click(qtbot, table.clear_button)
    qtbot.waitUntil(lambda: "r chosen" not in viewer.layers, timeout=600_000)


@gui
def test_sort_filter_copy_and_save(table, qtbot, tmp_path):
    from qtpy.QtCore import Qt
    from qtpy.QtWidgets import QApplication

    names = list(table.model.table)
    table.table.sortByColumn(names.index("pixels"), Qt.SortOrder.DescendingOrder)
    assert TABLE["pixels"][table.model.order].tolist() == sorted(TABLE["pixels"], reverse=True)
    table.choose(np.array([1, 2, 5]))  # rows stay chosen when they come in another order
    table.table.sortByColumn(names.index("pixels"), Qt.SortOrder.AscendingOrder)
    assert sorted(table.chosen) == [1, 2, 5]
    table.table.sortByColumn(names.index("pixels"), Qt.SortOrder.DescendingOrder)
    assert sorted(table.chosen) == [1, 2, 5]
    table.choose(np.zeros(0, np.int64))
    table.filter.setText("area > 100, t = 0")
    assert table.model.rowCount() == 3
    qtbot.waitUntil(lambda: table.status.text() == "3 of 8 rows", timeout=600_000)
    click(qtbot, table.copy_button)
    copied = [line.split("\t") for line in QApplication.clipboard().text().splitlines()]
    assert copied[0] == names
    assert [row[names.index("index")] for row in copied[1:]] == ["4", "3", "2"]
    table.save(tmp_path / "t.csv")
    with (tmp_path / "t.csv").open(encoding="utf-8") as file:
        assert [row["pixels"] for row in csv.DictReader(file)] == ["240", "180", "120"]
    table.filter.setText("area >")
    qtbot.waitUntil(lambda: "area > 50" in table.status.text(), timeout=600_000)
    assert table.model.rowCount() == 8


@gui
@pytest.mark.slow
def test_a_lasso_chooses_rows_and_a_new_table_keeps_them(table, viewer, qtbot):
    from qtpy.QtCore import QPoint, Qt

    table.x_combo.setCurrentText("pixels")
    table.y_combo.setCurrentText("mean")
    table.x_combo.activated.emit(0)
    qtbot.wait(50)
    box = table.plot.box
    wanted = np.flatnonzero((TABLE["pixels"] == 240) & (TABLE["mean"] == 40))

    def place(x, y):
        point = table.plot.mapFromScene(box.mapViewToScene(pg_point(x, y)))
        return QPoint(round(point.x()), round(point.y()))

    # A little beyond what is visible on two sides.
    corners = np.array([(205, 33), (245, 33), (245, 42), (205, 42), (205, 34)])
    viewport, left = table.plot.viewport(), Qt.MouseButton.LeftButton
    qtbot.mousePress(viewport, left, pos=place(*corners[0]))
    for before, corner in itertools.pairwise(corners):
        for step in (0.5, 1.0):
            qtbot.mouseMove(viewport, place(*(step * corner + (1 - step) * before)))
            qtbot.wait(20)
    qtbot.mouseRelease(viewport, left, pos=place(*corners[-1]))
    qtbot.waitUntil(lambda: table.chosen.tolist() == wanted.tolist(), timeout=600_000)
    layer = viewer.layers["r"]
    layer.features = layer.features.iloc[::-1].reset_index(drop=True)
    qtbot.waitUntil(lambda: layer.features.loc[table.chosen, "index"].tolist() == [4], timeout=600_000)
    assert layer.features.loc[table.chosen, "t"].tolist() == [0]
    viewer.layers.remove("r")
    assert table.model.rowCount() == 0
    qtbot.waitUntil(table.nothing.isVisible, timeout=60_000)


def pg_point(x, y):
    from qtpy.QtCore import QPointF

    return QPointF(x, y)


@pytest.mark.parametrize(
    ("text", "word"),
    [("area", "a sign and a number"), ("mass > 1", "no column"), ("area > big", "not a number"), ("c > 1", "may be")],
)
def test_a_filter_that_cannot_be_read_says_why(text, word):
    with pytest.raises(InputError, match=word):
        filter_rows(pd.DataFrame(TABLE), text)


def test_a_stack_has_every_column_that_one_of_its_tables_has():
    """A network may have seen the objects of some time points alone."""
    plain = {"index": np.array([1, 2]), "area": np.array([4.0, 5.0])}
    seen = {"index": np.array([1]), "one_with": np.array([7]), "share": np.array([0.5]), "name": np.array(["a"])}
    for tables, rows in (([plain, seen], slice(0, 2)), ([seen, plain], slice(1, 3))):
        table = stack_tables(["t"], [((k,), columns) for k, columns in enumerate(tables)])
        assert {len(column) for column in table.values()} == {3}
        assert table["one_with"][rows].tolist() == [0, 0]
        assert np.isnan(table["share"][rows]).all()
        assert table["name"][rows].tolist() == ["", ""]
        assert np.isnan(table["area"]).sum() == 1
        assert table["one_with"].sum() == 7


@gui
def test_the_table_that_was_written_last_is_shown_unless_one_was_picked(table, viewer, qtbot):
    marks = make_metadata("regions") | {TABLE_AXES: "yx"}
    other = viewer.add_labels(LABELS[0].copy(), name="other", scale=(3, 3), metadata=marks)
    viewer.layers.move(viewer.layers.index(other), 0)  # its place in the list says nothing
    other.features = pd.DataFrame(measure_labels(LABELS[0], None))
    qtbot.waitUntil(lambda: table.layer is other, timeout=5_000)
    table.layer_combo.choose(viewer.layers["r"])
    table.layer_combo.activated.emit(0)
    other.features = pd.DataFrame(measure_labels(LABELS[0], None))
    qtbot.wait(100)
    assert table.layer is viewer.layers["r"]
    # What is chosen is outlined where the layer of the table lies.
    for layer in (viewer.layers["r"], other):
        table.layer_combo.choose(layer)
        table.choose(np.array([1]))
        qtbot.waitUntil(
            lambda layer=layer: (
                table.outlines.layer is not None and np.array_equal(table.outlines.layer.scale, layer.scale)
            ),
            timeout=60_000,
        )


@gui
def test_dock_without_a_table_says_so_and_follows_the_theme(viewer, qtbot):
    _, widget = viewer.window.add_plugin_dock_widget("napari-gsw", "Table of regions")
    qtbot.waitUntil(lambda: widget.nothing.isVisible(), timeout=5_000)
    assert not widget.splitter.isVisible()
    assert not widget.filter.isEnabled()
    styles = []
    for theme in ("dark", "light", "dark"):
        viewer.theme = theme
        styles.append(widget.status.styleSheet())
    assert styles[0] == styles[2] != styles[1]
    widget.shut_down()
