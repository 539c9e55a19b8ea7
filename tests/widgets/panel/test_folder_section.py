"""Settings of the window applied to a folder: a list, a stop that can be resumed, a result on a click."""

from __future__ import annotations

import numpy as np
import pytest
from skimage.io import imsave

import napari_gsw as gsw
from gui_actions import run, wait_for
from napari_gsw.files.images import read_labels
from napari_gsw.sample_data import mosaic

pytest.importorskip("napari")
pytestmark = pytest.mark.gui


@pytest.fixture
def folder(tmp_path):
    """Three images, one of which is broken."""
    images = tmp_path / "images"
    images.mkdir()
    picture = np.asarray(mosaic()[0])
    imsave(images / "a.png", picture[:60, :80], check_contrast=False)
    imsave(images / "b.png", picture[60:120, 80:160], check_contrast=False)
    (images / "c.png").write_bytes(b"no picture")
    return images


@pytest.mark.slow
def test_a_folder_is_segmented_as_the_window_is_set(panel, qtbot, folder, tmp_path):
    panel.viewer.add_image(np.asarray(mosaic()[0])[:60, :80], name="m")
    panel.form.controls["sweeps"].set_value(30)
    panel.seed.setValue(4)
    section = panel.apply
    section.unfold()
    section.apply(folder, tmp_path / "out")
    assert section.run.running
    assert not section.start_button.isEnabled()
    wait_for(qtbot, lambda: not section.run.running)
    texts = [section.list.item(k).text() for k in range(section.list.count())]
    assert texts[0].startswith("a.png: ")
    assert "regions" in texts[0]
    assert texts[2].startswith("c.png: failed, ")
    assert section.summary.text() == "2 of 3 done, 1 failed"
    # The same labels as one call, and one more beside the paint on the screen.
    alone = gsw.segment(np.asarray(mosaic()[0])[60:120, 80:160], seed=4, sweeps=30)
    assert np.array_equal(read_labels(tmp_path / "out" / "b.tif"), alone.labels)
    layers = len(panel.viewer.layers)
    section.list.itemClicked.emit(section.list.item(1))
    wait_for(qtbot, lambda: len(panel.viewer.layers) == layers + 2)
    assert np.array_equal(panel.viewer.layers[-1].data, alone.labels)
    section.apply(folder, folder)
    assert not section.run.running  # refused in a sentence
    panel.sites.choose(panel.viewer.layers[-1])
    section.apply(folder, tmp_path / "other")
    assert not section.run.running  # superpixels of this image are not those of others
    assert not (tmp_path / "other").exists()


@pytest.mark.slow
def test_a_stopped_folder_goes_on_and_painting_teaches_it(panel, qtbot, folder, tmp_path):
    viewer, section = panel.viewer, panel.apply
    viewer.add_image(np.asarray(mosaic()[0])[:60, :80], name="m")
    assert not section.teach.isEnabled()
    run(panel, qtbot, sweeps=20)
    panel.session.corrections.lock_label(int(viewer.layers["m [GSW]"].data.max()))
    wait_for(qtbot, section.teach.isEnabled)
    section.teach.setChecked(True)
    section.apply(folder, tmp_path / "out")
    section.run.stop()
    wait_for(qtbot, lambda: not section.run.running)
    assert "stopped" in section.summary.text()
    section.apply(folder, tmp_path / "out")
    wait_for(qtbot, lambda: not section.run.running)
    assert section.summary.text() == "2 of 3 done, 1 failed"
    assert (tmp_path / "out" / "taught-paint.npy").exists()


def test_closing_the_dock_ends_the_process(viewer, qtbot, folder, tmp_path):
    dock, panel = viewer.window.add_plugin_dock_widget("napari-gsw", "GSW segmentation")
    viewer.add_image(np.asarray(mosaic()[0])[:60, :80], name="m")
    panel.apply.apply(folder, tmp_path / "out")
    process = panel.apply.run._process
    dock.destroyOnClose()
    wait_for(qtbot, lambda: process.poll() is not None)
    assert not panel.apply.run.running
