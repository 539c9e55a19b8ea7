"""The widget that compares segmentations, in a real window, used as a person uses it."""

from __future__ import annotations

import csv
import threading
import time

import numpy as np
import pytest

from gui_actions import click, slow
from napari_gsw.core.errors import InputError
from napari_gsw.sample_data import mosaic, mosaic_3d
from napari_gsw.scores import partitions as metrics

pytest.importorskip("napari")
pytest.importorskip("pytestqt")
pytestmark = pytest.mark.gui

TRUTH = mosaic()[1]
SHIFTED = np.roll(TRUTH, 5, axis=1).astype(np.uint16) + 10
SHIFTED[20:60, 40:90] = 3


def result_of(image):
    """Marks of a result layer of GSW, whatever its name."""
    return {"napari-gsw layer": "segmentation", "napari-gsw image": image}


def docked(viewer):
    """The dock and the panel in it."""
    return viewer.window.add_plugin_dock_widget("napari-gsw", "Compare segmentations")


@pytest.fixture
def panel(viewer):
    """The docked widget of this file, in place of the shared fixture of this name."""
    widget = docked(viewer)[1]
    yield widget
    widget.shut_down()


@pytest.fixture
def pair(viewer, panel):
    """A result of GSW above a truth."""
    viewer.add_labels(TRUTH, name="mosaic truth")
    viewer.add_labels(SHIFTED.copy(), name="mosaic [GSW]", metadata=result_of("mosaic"))
    return panel


@pytest.fixture
def endless(monkeypatch):
    """A comparison that goes on until somebody stops it."""

    def measure(*_, report, **__):
        while True:
            report("counting sheep")
            time.sleep(0.01)

    monkeypatch.setattr("napari_gsw.widgets.comparison.scoring.compute_scores", measure)


def tick(qtbot, panel, name):
    from qtpy.QtCore import QPoint, Qt

    (item,) = panel.references.findItems(name, Qt.MatchFlag.MatchExactly)
    place = panel.references.visualItemRect(item)
    qtbot.mouseClick(
        panel.references.viewport(), Qt.MouseButton.LeftButton, pos=QPoint(place.left() + 10, place.center().y())
    )


def done(qtbot, panel):
    qtbot.waitUntil(lambda: panel.comparison is None, timeout=600_000)


def compare(qtbot, panel):
    click(qtbot, panel.compare_button)
    assert panel.comparison is not None
    done(qtbot, panel)


def offered(panel):
    """The segmentation, and the references with their ticks."""
    from qtpy.QtCore import Qt

    items = [panel.references.item(row) for row in range(panel.references.count())]
    return panel.segmentation.currentText(), {i.text(): i.checkState() == Qt.CheckState.Checked for i in items}


def cells(panel):
    table = panel.table
    return [[table.item(i, j).text() for j in range(table.columnCount())] for i in range(table.rowCount())]


def format_row(row):
    return [*(f"{figure:.3f}" for figure in row[:5]), f"{row.regions:.0f} / {row.reference_regions:.0f}"]


def ticks(names):
    return dict.fromkeys(names, True)


def test_one_click_compares_with_the_truth(pair, viewer, qtbot):
    assert offered(pair) == ("mosaic [GSW]", {"mosaic truth": True})
    assert "240 x 320" in pair.status.text()
    assert not pair.results.isVisible()
    compare(qtbot, pair)
    (row,) = metrics.compute_scores(SHIFTED, [TRUTH])
    assert cells(pair) == [format_row(row)]
    assert row.rand == metrics.rand_index(SHIFTED, TRUTH)
    assert "mosaic [GSW] against mosaic truth" in pair.caption.text()
    assert pair.status.text() == "Done."
    assert pair.compare_button.text() == "Compare"
    assert pair.compare_button.isEnabled()
    difference = viewer.layers["mosaic [GSW] vs mosaic truth [difference]"]
    assert difference.data.dtype == np.float32
    assert np.array_equal(difference.data, metrics.compute_disagreement(SHIFTED, [TRUTH]))
    assert (difference.blending, difference.colormap.name, difference.contrast_limits) == ("additive", "magma", [0, 1])
    assert viewer.layers.selection.active.name == "mosaic [GSW]"
    assert not pair.object_table.isVisible()  # the regions have no background
    assert len(viewer.layers) == 3
    # With another reference there is a row for each and one for all; the tolerance is the user's.
    other = np.roll(TRUTH, 9, axis=0)
    viewer.add_labels(other, name="a second person")
    viewer.layers.move(3, 0)
    tick(qtbot, pair, "a second person")
    pair.tolerance.stepBy(3)
    assert "within 1 pixels" in pair.status.text()
    compare(qtbot, pair)
    rows = metrics.compute_scores(SHIFTED, [TRUTH, other], tolerance=1)
    assert cells(pair) == [format_row(row) for row in rows]
    heads = [pair.table.verticalHeaderItem(i).text() for i in range(3)]
    assert heads == ["mosaic truth", "a second person", "all"]
    difference = viewer.layers["mosaic [GSW] vs 2 references [difference]"].data
    assert np.array_equal(difference, metrics.compute_disagreement(SHIFTED, [TRUTH, other]))


@pytest.mark.slow
def test_the_difference_is_drawn_once_and_then_updated_in_place(pair, viewer, qtbot):
    compare(qtbot, pair)
    layer = viewer.layers["mosaic [GSW] vs mosaic truth [difference]"]
    array = layer.data
    layer.colormap = "gray"
    viewer.layers["mosaic [GSW]"].data[:] = TRUTH
    viewer.layers["mosaic [GSW]"].scale = (2, 3)
    compare(qtbot, pair)
    assert len(viewer.layers) == 3
    assert layer.data is array
    assert not array.any()
    assert layer.colormap.name == "gray"
    assert layer.scale.tolist() == [2, 3]

    click(qtbot, pair.show_difference)
    assert not layer.visible
    viewer.layers["mosaic [GSW]"].data[:] = SHIFTED
    compare(qtbot, pair)
    assert not layer.visible
    assert array.any()
    click(qtbot, pair.show_difference)
    assert layer.visible
    viewer.layers.remove(layer)
    mine = viewer.add_image(np.full(TRUTH.shape, 7, np.float32), name=layer.name)  # a layer of the user's own
    compare(qtbot, pair)
    assert (mine.data == 7).all()
    assert viewer.layers[f"{layer.name} [1]"].data.any()
    viewer.layers.remove(mine)

    for name in ("mosaic [GSW]", "mosaic truth"):
        viewer.layers[name].data = TRUTH[:50]
    compare(qtbot, pair)
    assert [layer.data.shape for layer in viewer.layers] == 3 * [(50, 320)]


NUCLEI = np.zeros((40, 60), np.uint16)
for number, corner in enumerate(((2, 2), (2, 20), (2, 40), (20, 2)), 1):
    NUCLEI[corner[0] : corner[0] + 12, corner[1] : corner[1] + 12] = number


def object_cells(panel):
    table = panel.object_table
    return [table.item(0, j).text() for j in range(table.columnCount())]


def test_objects_are_counted_and_the_unmatched_ones_shown(viewer, panel, qtbot):
    own = np.roll(np.where(NUCLEI == 4, 0, NUCLEI), 1, axis=0)  # the fourth is missed, the others overlap by 11/13
    own[25:35, 40:50] = 9
    viewer.add_labels(NUCLEI, name="truth")
    viewer.add_labels(own, name="found")
    compare(qtbot, panel)
    assert panel.object_table.isVisible()
    assert object_cells(panel) == [*["0.600"] * 4, "0.000", *["0.750"] * 2, f"{0.75 * 11 / 13:.3f}", "4 / 4"]
    missed, false = viewer.layers["found vs truth [missed]"], viewer.layers["found vs truth [false]"]
    assert np.array_equal(missed.data, np.where(NUCLEI == 4, 4, 0))
    assert np.array_equal(false.data, np.where(own == 9, 9, 0))
    assert offered(panel) == ("found", {"truth": True})  # not the two new ones
    head, line = panel.table.to_csv("\t").splitlines()
    assert dict(zip(head.split("\t"), line.split("\t"), strict=True))["ap_50"] == "0.6"

    viewer.layers["found"].data[:] = NUCLEI
    compare(qtbot, panel)
    assert not missed.data.any()
    assert not false.data.any()
    click(qtbot, panel.show_unmatched)
    assert not missed.visible
    assert viewer.layers["found vs truth [difference]"].visible
    # Of several references, an object is false that is in none of them, and the objects of all are counted.
    click(qtbot, panel.show_unmatched)
    viewer.layers["truth"].data = np.where(NUCLEI == 1, 0, NUCLEI)
    viewer.layers["found"].data = np.where(NUCLEI == 3, 0, NUCLEI)
    viewer.add_labels(np.where(NUCLEI == 2, 0, NUCLEI), name="another truth")
    tick(qtbot, panel, "another truth")
    compare(qtbot, panel)
    assert panel.result.object_rows[2]["objects"] == 6
    assert np.array_equal(viewer.layers["found vs 2 references [missed]"].data, np.where(NUCLEI == 3, 3, 0))
    assert not viewer.layers["found vs 2 references [false]"].data.any()


@pytest.mark.parametrize("ndim", [slow(2), 3, slow(4)])
def test_stacks_lie_where_the_segmentation_lies(viewer, panel, qtbot, ndim):
    da = pytest.importorskip("dask.array")
    truth = mosaic_3d()[1][:, ::2, ::2]
    truth = {2: truth[5], 3: truth, 4: np.stack([truth, truth[::-1]])}[ndim]
    shifted = np.roll(truth, 2, axis=-1)
    space = {
        "scale": np.arange(2, 2 + ndim), "translate": np.arange(ndim), "axis_labels": tuple("tzyx"[4 - ndim :]),
        "units": ("nm",) * ndim, "shear": np.linspace(0.1, 0.2, ndim * (ndim - 1) // 2),
    }  # fmt: skip
    layer = viewer.add_labels(shifted, name="found", **space)
    turn = np.eye(ndim + 1)
    turn[-3:-1, -3:-1] = [[0.6, -0.8], [0.8, 0.6]]
    layer.affine = turn
    viewer.add_labels(da.from_array(truth), name="lazy truth")
    compare(qtbot, panel)
    assert cells(panel) == [format_row(metrics.compute_scores(shifted, [truth])[0])]
    difference = viewer.layers["found vs lazy truth [difference]"]
    assert np.array_equal(difference.data, metrics.compute_disagreement(shifted, [truth]))
    corner = np.arange(1.0, 1 + ndim)
    assert difference.data_to_world(corner) == pytest.approx(layer.data_to_world(corner))
    assert (difference.units, difference.axis_labels) == (layer.units, layer.axis_labels)


def test_layers_that_cannot_be_compared_say_why(viewer, panel, qtbot):
    def blocked(*words):
        assert not panel.compare_button.isEnabled()
        assert all(word in panel.status.text() for word in words), panel.status.text()

    blocked("two Labels layers")
    viewer.add_labels(TRUTH, name="one")
    blocked("two Labels layers")
    viewer.add_labels(np.zeros((4, 5), int), name="small")
    blocked("shapes differ", "'one' is 240 x 320", "'small' is 4 x 5")
    viewer.layers["small"].data = SHIFTED  # the same shape now
    assert panel.compare_button.isEnabled()
    tick(qtbot, panel, "one")
    blocked("Tick a reference")
    tick(qtbot, panel, "one")
    assert panel.compare_button.isEnabled()
    viewer.add_labels([TRUTH, TRUTH[::2, ::2]], name="levels", multiscale=True)
    tick(qtbot, panel, "levels")
    blocked("'levels' is a pyramid")


def test_what_is_offered_first(viewer, panel):
    def label(name, data=TRUTH, metadata=None):
        return viewer.add_labels(data, name=name, metadata=metadata)

    label("b truth")
    label("a")
    assert offered(panel) == ("a", {"b truth": True})
    label("c [GSW]", metadata=result_of("c"))
    assert offered(panel) == ("c [GSW]", {"a": False, "b truth": True})
    label("c truth")
    label("small truth", TRUTH[:9])
    assert offered(panel) == (
        "c [GSW]",
        {"small truth": False, "c truth": True, "a": False, "b truth": False},
    )
    viewer.layers.remove("c truth")
    viewer.layers.remove("b truth")
    assert offered(panel) == ("c [GSW]", {"small truth": False, "a": True})


@pytest.mark.slow
def test_lists_follow_the_layers_and_keep_what_was_chosen(pair, viewer, qtbot):
    from qtpy.QtCore import Qt

    viewer.add_labels(TRUTH, name="third")
    viewer.add_image(TRUTH, name="no labels")
    qtbot.keyClick(pair.segmentation, Qt.Key.Key_Up)
    assert offered(pair) == ("third", {"mosaic [GSW]": False, "mosaic truth": True})
    tick(qtbot, pair, "mosaic [GSW]")
    tick(qtbot, pair, "mosaic truth")
    viewer.add_labels(TRUTH, name="another truth")
    assert offered(pair) == ("third", {"another truth": False, "mosaic [GSW]": True, "mosaic truth": False})
    viewer.layers["mosaic [GSW]"].name = "renamed"
    assert offered(pair) == ("third", {"another truth": False, "renamed": True, "mosaic truth": False})
    viewer.layers.remove("renamed")  # with the last tick, the panel chooses again
    assert offered(pair) == ("third", ticks(["another truth", "mosaic truth"]))
    viewer.layers.remove("third")
    assert offered(pair)[0] == "another truth"
    viewer.layers.clear()
    assert offered(pair) == ("", {})


@pytest.mark.parametrize("kind", [RuntimeError, slow(ValueError), InputError, slow(MemoryError)])
@pytest.mark.slow
def test_an_error_in_the_worker_is_shown_and_the_button_comes_back(pair, qtbot, monkeypatch, kind):
    from napari.utils.notifications import notification_manager

    def broken(*_, **__):
        raise kind("the disk is on fire\nand more")

    with monkeypatch.context() as patch:
        patch.setattr("napari_gsw.widgets.comparison.scoring.compute_disagreement", broken)
        before = len(notification_manager.records)
        compare(qtbot, pair)
    assert "the disk is on fire" in pair.status.text()
    assert [n.message for n in notification_manager.records[before:]] == [
        f"Compare segmentations: {pair.status.text()}"
    ]
    assert pair.compare_button.text() == "Compare"
    assert pair.segmentation.isEnabled()
    compare(qtbot, pair)
    assert pair.status.text() == "Done."


def test_scores_are_computed_in_a_thread_from_the_pixels_at_the_start(pair, viewer, qtbot, monkeypatch):
    threads = []

    def measure(*args, **options):
        threads.append(threading.current_thread())
        return metrics.compute_scores(*args, **options)

    monkeypatch.setattr("napari_gsw.widgets.comparison.scoring.compute_scores", measure)
    click(qtbot, pair.compare_button)
    viewer.layers["mosaic [GSW]"].data[:] = 0
    done(qtbot, pair)
    assert threads != [threading.main_thread()]
    assert cells(pair) == [format_row(metrics.compute_scores(SHIFTED, [TRUTH])[0])]


@pytest.mark.parametrize("name", ["mosaic truth", "mosaic [GSW]"])
def test_stop_and_removing_a_layer_end_the_comparison(pair, viewer, qtbot, endless, name):
    viewer.add_labels(TRUTH, name="third")
    click(qtbot, pair.compare_button)
    comparison = pair.comparison
    qtbot.waitUntil(lambda: "comparing ... counting sheep" in pair.status.text(), timeout=600_000)
    viewer.layers.remove("third")  # which is not compared
    qtbot.wait(150)
    assert pair.comparison is comparison
    assert pair.compare_button.text() == "Stop"
    assert not pair.segmentation.isEnabled()
    click(qtbot, pair.compare_button)
    assert not pair.compare_button.isEnabled()
    done(qtbot, pair)
    assert pair.status.text() == "Stopped."
    assert not pair.results.isVisible()
    assert not comparison._arrays  # napari keeps each worker as long as its window
    click(qtbot, pair.compare_button)
    qtbot.waitUntil(lambda: "sheep" in pair.status.text(), timeout=600_000)
    viewer.layers.remove(name)
    done(qtbot, pair)
    assert "a layer was removed" in pair.status.text()
    assert "two Labels layers" in pair.status.text()
    assert pair.compare_button.text() == "Compare"
    assert not pair.compare_button.isEnabled()
    assert pair.references.isEnabled()


@pytest.mark.slow
def test_copy_and_save(pair, qtbot, tmp_path, monkeypatch):
    from napari.utils.notifications import notification_manager
    from qtpy.QtWidgets import QApplication, QFileDialog

    compare(qtbot, pair)
    click(qtbot, pair.copy_button)
    head, line = QApplication.clipboard().text().splitlines()
    assert head.split("\t") == ["segmentation", "reference", *metrics.Scores._fields]
    (row,) = metrics.compute_scores(SHIFTED, [TRUTH])
    assert line.split("\t")[:2] == ["mosaic [GSW]", "mosaic truth"]
    assert [float(x) for x in line.split("\t")[2:]] == pytest.approx(list(row))

    chosen = tmp_path / "figures.csv"
    monkeypatch.setattr(QFileDialog, "exec", lambda self: 1)
    monkeypatch.setattr(QFileDialog, "selectedFiles", lambda self: [str(chosen)])
    click(qtbot, pair.save_button)
    assert pair.status.text() == "Saved figures.csv."
    with chosen.open(newline="", encoding="utf-8") as file:
        (saved,) = csv.DictReader(file)
    assert float(saved["variation_of_information"]) == pytest.approx(row.variation_of_information)

    chosen = tmp_path / "missing" / "figures.csv"
    click(qtbot, pair.save_button)
    assert "could not be saved" in pair.status.text()
    assert "could not be saved" in str(notification_manager.records[-1].message)


def test_slices_that_were_segmented_by_themselves_are_compared_so(viewer, panel, qtbot):
    """Their numbers mean nothing from slice to slice; of a stack in one piece they would spoil every figure."""
    truth = np.zeros((4, 40, 40), np.uint16)
    for t in range(4):
        truth[t, 5:15, 5 + t : 15 + t], truth[t, 25:35, 20:30] = 1, 2
    labels = np.where(truth > 0, (truth + np.arange(4)[:, None, None]) % 2 + 1, 0).astype(np.uint16)
    viewer.add_labels(truth, name="truth")
    notes = {"napari-gsw layer": "segmentation", "napari-gsw image": "m"}
    viewer.add_labels(labels, name="m [GSW]", metadata=notes)
    regions = notes | {"napari-gsw layer": "regions", "napari-gsw sliced along": (0,)}
    viewer.add_labels(labels, name="m [regions]", metadata=regions)
    assert offered(panel) == ("m [regions]", {"m [GSW]": False, "truth": True})  # what is exported
    compare(qtbot, panel)
    assert "m [regions] against truth, slice by slice:" in panel.caption.text()
    assert not panel.result.images["difference"].any()
    (row,) = panel.result.object_rows
    assert (row["ap_50"], row["objects"], row["true_objects"]) == (1.0, 8.0, 8.0)
    assert panel.result.rows[0].variation_of_information == pytest.approx(0)
    panel.segmentation.setCurrentIndex(panel.segmentation.findText("m [GSW]"))  # which is one volume
    panel.segmentation.activated.emit(panel.segmentation.currentIndex())
    compare(qtbot, panel)
    assert "slice" not in panel.caption.text()
    assert panel.result.object_rows[0]["ap_50"] < 1


def test_each_reference_is_compared_in_the_slices_that_it_knows(viewer, panel, qtbot):
    """Two people have looked at some slices each, and one slice was never segmented."""
    truth = np.ones((4, 40, 40), np.uint16)
    truth[:, 10:30, 10:30] = 2
    first, second, labels = truth.copy(), truth.copy(), truth.copy()
    first[2:], second[0], labels[3] = 0, 0, 0
    labels[1, 10:30, 10:20] = 3
    notes = {"napari-gsw layer": "segmentation", "napari-gsw image": "m", "napari-gsw sliced along": (0,)}
    viewer.add_labels(labels, name="m [GSW]", metadata=notes)
    for name, reference in (("first", first), ("second", second)):
        viewer.add_labels(reference, name=name)
    for name in ("first", "second"):
        if not offered(panel)[1][name]:
            tick(qtbot, panel, name)
    panel.ignore.setChecked(True)
    compare(qtbot, panel)
    expected = [
        metrics.compute_scores(labels[k], [truths[k] for truths in several], ignore_background=True)[
            -1
        ].variation_of_information
        for k, several in enumerate([(first,), (first, second), (second,), ()])
        if several and labels[k].any()
    ]
    assert [row.variation_of_information for row in panel.result.rows] == pytest.approx(
        [np.mean([expected[0], expected[1]]), np.mean([expected[1], expected[2]]), np.mean(expected)]
    )
    assert not panel.result.images["difference"][[0, 2, 3]].any()
