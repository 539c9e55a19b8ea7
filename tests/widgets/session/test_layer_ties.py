"""Result layers go where their image goes, and the eyes in napari's list agree with the boxes of the panel."""

from __future__ import annotations

import numpy as np
import pytest

from gui_actions import click, wait_done, wait_for
from napari_gsw.core.image.foreground_signal import OBJECT_SIGNAL
from napari_gsw.core.posterior.objects import find_background_sites
from napari_gsw.sample_data import mosaic, nuclei

pytest.importorskip("napari")
pytest.importorskip("pytestqt")
pytestmark = pytest.mark.gui


def finished(panel, qtbot, image, name="m"):
    panel.viewer.add_image(image, name=name)
    panel.form.controls["sweeps"].set_value(30)
    click(qtbot, panel.run_button)
    wait_done(qtbot, panel)
    wait_for(qtbot, lambda: panel.session.run is None, 60)


def ours(panel):
    return panel.session.segmentation.layers


@pytest.fixture
def done(panel, qtbot):
    finished(panel, qtbot, np.ascontiguousarray(mosaic()[0][::2, ::2][:60, :80]))
    return panel


def test_layers_follow_their_image(done, qtbot):
    panel, image, labels = done, done.viewer.layers["m"], ours(done).labels
    panel.display.layer_boxes["regions"].setChecked(True)
    wait_for(qtbot, lambda: ours(panel).regions is not None, 30)
    other = panel.viewer.add_image(np.zeros((60, 80)), name="other")  # which is not segmented
    other.translate = (5, 5)
    assert tuple(labels.translate) == (0, 0)
    image.translate, image.scale, image.rotate = (40, -7), (0.5, 2), 30
    assert len(ours(panel).all()) == 2
    for layer in ours(panel).all():
        for corner in ((0, 0), (59, 79), (3, 50)):
            assert layer.data_to_world(corner) == pytest.approx(image.data_to_world(corner))
    # What is told of clusters is in the size that pixels have now.
    panel.display.layer_boxes["regions"].setChecked(False)
    panel.viewer.layers.remove(other)
    image.translate, image.rotate, image.units, image.scale = (0, 0), 0, ("um", "um"), (2, 2)
    wait_for(qtbot, lambda: (done.session.frame.table["area"] == 4 * done.session.frame.table["pixels"]).all(), 30)
    wait_for(qtbot, lambda: done.session.run is None, 30)
    done.viewer.cursor.position = (60, 60)
    number = int(labels.data[30, 30])
    assert f", {4 * (labels.data == number).sum():,.4g} µm²" in done.region.text()


def test_boxes_eyes_colours_and_background(done, qtbot):
    panel, box = done, done.display.layer_boxes["regions"]
    box.setChecked(True)
    wait_for(qtbot, lambda: ours(panel).regions is not None, 30)
    layer = ours(panel).regions
    for visible in (False, True):
        layer.visible = visible
        assert box.isChecked() == ("regions" in panel.session.view.wanted) == visible
    # Outlines in one colour
    many = {tuple(layer.get_color(int(n))) for n in np.unique(layer.data) if n}
    assert len(many) > 1
    panel.display.outline_colour.setCurrentIndex(panel.display.outline_colour.findData("white"))
    assert {tuple(layer.get_color(int(n))) for n in np.unique(layer.data) if n} == {(1, 1, 1, 1)}
    panel.display.show_sites.setChecked(True)  # one that is made afterwards, too
    assert tuple(ours(panel).of_kind("superpixels")[0].get_color(5)) == (1, 1, 1, 1)
    panel.display.outline_colour.setCurrentIndex(panel.display.outline_colour.findData("own"))
    assert {tuple(layer.get_color(int(n))) for n in np.unique(layer.data) if n} == many
    assert layer.get_color(0) is None or tuple(layer.get_color(0))[3] == 0
    ours(panel).of_kind("superpixels")[0].visible = False
    assert not panel.display.show_sites.isChecked()
    box.setChecked(False)
    assert not layer.visible
    # Without the background, all but the largest cluster keeps its labels.
    painted = ours(panel).labels.data.copy()
    common = np.bincount(painted.ravel()).argmax()
    panel.display.background.setChecked(False)
    wait_for(qtbot, lambda: (ours(panel).labels.data == 0).any(), 30)
    assert np.array_equal(ours(panel).labels.data, np.where(painted == common, 0, painted))
    panel.display.background.setChecked(True)
    wait_for(qtbot, lambda: (ours(panel).labels.data != 0).all(), 30)
    assert np.array_equal(ours(panel).labels.data, painted)


@pytest.mark.slow
def test_objects_while_it_runs(panel, qtbot):
    """The background of a network is no object, whatever its colour, also while a chain runs."""
    pytest.importorskip("onnxruntime")
    panel.presets.choose("microscopy")
    finished(panel, qtbot, nuclei()[0], "n")
    array_run = panel.session.array_run
    problem = array_run.interactive.problem
    assert problem.has_fragments
    numbers = np.arange(problem.n) % 7 + 1
    objects = np.asarray(array_run.regions(numbers, None, final=False))
    background = find_background_sites(problem, numbers)
    assert 0 < background.sum() < problem.n
    light = np.bincount(objects.ravel(), problem.signal.ravel()) / np.maximum(np.bincount(objects.ravel()), 1)
    assert (light[1:] >= OBJECT_SIGNAL / 2).all()
    assert light[0] < OBJECT_SIGNAL / 2
