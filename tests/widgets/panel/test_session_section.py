"""Sessions in the window: saved, opened, saved by itself, restored; and the chain goes on as if it had never ended."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import gui_actions
from gui_actions import click, drag, run, start, wait_done, wait_for, wait_sweeps

pytest.importorskip("napari")
pytest.importorskip("pytestqt")
pytestmark = pytest.mark.gui

RNG = np.random.default_rng(0)
IMAGE = (np.where(np.arange(90) < 45, 60.0, 160.0) + RNG.normal(0, 6, (60, 90))).clip(0, 255).astype(np.uint8)
SWEEPS = 60


def open_panel(viewer):
    return viewer.window.add_plugin_dock_widget("napari-gsw", "GSW segmentation")[1]


def run_with_a_stroke(panel, qtbot, image=IMAGE):
    """A run with a stroke in it, at its end."""
    layer = panel.viewer.add_image(image, name="photo", scale=(2.0, 2.0)[-image.ndim :])
    panel.seed.setValue(5)
    run(panel, qtbot, site_size=60, sweeps=SWEEPS, lam=4.0)
    labels = panel.viewer.layers["photo [GSW]"]
    panel.viewer.layers.selection.active = labels
    labels.mode, labels.brush_size, labels.selected_label = "paint", 4, 41
    drag(qtbot, panel.viewer, labels, [(y, 20) for y in range(20, 40, 2)])
    wait_for(qtbot, lambda: bool(panel.session.array_run.interactive.log.corrections))
    wait_done(qtbot, panel)
    return layer


def live_of(panel):
    return panel.session.array_run.interactive


def saved(panel, qtbot, path, embed=False):
    panel.saving.embed.setChecked(embed)
    with qtbot.waitSignal(panel.session.autosaver.written, timeout=600_000):
        panel.saving.save(path)
    wait_done(qtbot, panel)


def opened(panel, qtbot, path):
    with qtbot.waitSignal(panel.opening.opened, timeout=600_000):
        panel.saving.chosen.emit(str(path))
    wait_for(qtbot, lambda: panel.session.frame is not None)
    wait_done(qtbot, panel)


def assert_same(a, b):
    assert (a.sweep, a.log.steps, a.steps) == (b.sweep, b.log.steps, b.steps)
    np.testing.assert_array_equal(a.locks, b.locks)
    for left, right in zip(a.traces, b.traces, strict=True):
        np.testing.assert_array_equal(left, right)
    np.testing.assert_array_equal(a.summary.labels, b.summary.labels)


@pytest.mark.slow
def test_a_session_opened_in_another_window_is_the_same_and_goes_on_the_same(
    viewer, panel, make_napari_viewer, qtbot, tmp_path
):
    run_with_a_stroke(panel, qtbot)
    path = tmp_path / "work.zarr.zip"
    saved(panel, qtbot, path)
    second = make_napari_viewer(show=True)
    other = open_panel(second)
    opened(other, qtbot, path)
    first_live, interactive = live_of(panel), live_of(other)
    assert_same(first_live, interactive)
    shown = second.layers["photo [GSW]"]
    np.testing.assert_array_equal(shown.data, panel.viewer.layers["photo [GSW]"].data)
    np.testing.assert_array_equal(shown.scale, (2.0, 2.0))
    assert other.seed.value() == 5
    assert other.form.controls["lam"].value() == 4.0
    assert other.run_button.text() == "Continue"
    for one in (panel, other):
        click(qtbot, one.run_button)
    for one in (panel, other):
        wait_for(qtbot, lambda one=one: live_of(one).sweep >= interactive.target)
        wait_done(qtbot, one)
    assert live_of(other) is interactive, "it went on, and did not begin afresh"
    assert_same(first_live, interactive)
    interactive.undo()
    first_live.undo()
    np.testing.assert_array_equal(interactive.locks, first_live.locks)
    other.shut_down()


def test_it_saves_itself_after_a_stroke_and_offers_it_to_the_next_panel(viewer, panel, qtbot, own_autosaves):
    run_with_a_stroke(panel, qtbot)
    wait_for(qtbot, lambda: len(list(own_autosaves.glob("*.zarr.zip"))) == 1)
    before = live_of(panel)
    panel.shut_down()
    viewer.window.remove_dock_widget("all")
    viewer.layers.clear()
    other = open_panel(viewer)
    wait_for(qtbot, other.restore_row.isVisible)
    assert "photo" in other.restore_row.restore_button.text()
    with qtbot.waitSignal(other.opening.opened, timeout=600_000):
        click(qtbot, other.restore_row.restore_button)
    wait_for(qtbot, lambda: other.session.frame is not None)
    wait_done(qtbot, other)
    assert not other.restore_row.isVisible()
    assert live_of(other).log.corrections == before.log.corrections
    np.testing.assert_array_equal(live_of(other).locks, before.locks)
    other.shut_down()


@pytest.mark.slow
def test_what_is_not_wanted_is_discarded(viewer, panel, qtbot, own_autosaves):
    run_with_a_stroke(panel, qtbot)
    panel.shut_down()
    viewer.window.remove_dock_widget("all")
    other = open_panel(viewer)
    click(qtbot, other.restore_row.no_button)
    assert not list(own_autosaves.iterdir())
    other.shut_down()


def test_an_autosave_is_there_while_the_chain_runs(panel, qtbot, own_autosaves):
    from napari_gsw.files import session_file

    panel.viewer.add_image(IMAGE, name="photo")
    start(panel, qtbot, sweeps=1_000_000)
    wait_sweeps(qtbot, panel, 5)
    wait_for(qtbot, lambda: any(own_autosaves.glob("*.zarr.zip")))
    session = session_file.open_session(next(own_autosaves.glob("*.zarr.zip")))
    assert session.run.sweep > 0
    assert session.images[0].pixels.shape == IMAGE.shape, "an image that is in no file is in the session"
    click(qtbot, panel.stop_button)
    wait_done(qtbot, panel)


def test_closing_a_dock_does_not_wait_for_the_disk_and_the_next_one_offers_it_when_it_is_there(
    make_napari_viewer, qtbot, own_autosaves, monkeypatch
):
    from qtpy.QtCore import QTimer

    from napari_gsw.files import session_file
    from napari_gsw.widgets.session.autosave import all_written

    may_end, save = threading.Event(), session_file.save_session

    def slow_save(path, session, **options):
        assert may_end.wait(60), "the window waits, and nobody says that it may go on"
        save(path, session, **options)

    viewer = make_napari_viewer(show=True)
    dock, panel = viewer.window.add_plugin_dock_widget("napari-gsw", "GSW segmentation")
    viewer.add_image(IMAGE, name="photo")
    panel.form.controls["sweeps"].set_value(20)
    monkeypatch.setattr(session_file, "save_session", slow_save)
    click(qtbot, panel.run_button)
    wait_done(qtbot, panel)
    viewer.add_image(IMAGE.T.copy(), name="other")  # another run does not wait for it either
    click(qtbot, panel.run_button)
    wait_done(qtbot, panel)
    assert not list(own_autosaves.glob("*.zarr.zip"))
    closed = []
    QTimer.singleShot(0, lambda: (dock.destroyOnClose(), closed.append(may_end.is_set())))  # as a click: among events
    wait_for(qtbot, lambda: bool(closed))
    assert closed == [False], "closed before it was on the disk"
    other = open_panel(viewer)
    qtbot.wait(300)
    assert not other.restore_row.isVisible()
    QTimer.singleShot(0, may_end.set)
    wait_for(qtbot, other.restore_row.isVisible)
    assert "20 sweeps" in other.restore_row.restore_button.text()
    assert all_written()
    assert len(list(own_autosaves.glob("*.zarr.zip"))) == 2
    other.shut_down()


# A window that is closed while its autosave is being written, and with it Python.
CLOSED_WINDOW = """
import time
import napari
from qtpy.QtCore import QTimer
from napari_gsw.files import session_file
from test_session_section import IMAGE, open_panel
save, writing = session_file.save_session, []

def slow_save(*args, **options):
    writing.append(args)
    time.sleep(1)
    save(*args, **options)

def close_when_it_writes():
    if writing:
        timer.stop()
        viewer.close()

session_file.save_session = slow_save
viewer = napari.Viewer()
viewer.add_image(IMAGE, name="photo")
panel = open_panel(viewer)
panel.form.controls["sweeps"].set_value(20)
timer = QTimer(interval=20)
timer.timeout.connect(close_when_it_writes)
timer.start()
panel.run_button.click()
napari.run()
"""


@pytest.mark.slow
def test_an_autosave_is_finished_before_python_ends(tmp_path):
    from napari_gsw.files import session_file

    folders = [str(Path(__file__).parent), str(Path(gui_actions.__file__).parent), *sys.path]
    environment = {**os.environ, "XDG_DATA_HOME": str(tmp_path), "PYTHONPATH": os.pathsep.join(folders)}
    words = [sys.executable, "-c", CLOSED_WINDOW]
    end = subprocess.run(words, env=environment, timeout=600, capture_output=True, text=True, check=False)
    assert end.returncode == 0, end.stdout + end.stderr
    (file,) = tmp_path.rglob("*.zarr.zip")
    assert session_file.open_session(file).run.sweep == 20


@pytest.mark.slow
def test_a_dropped_session_opens_in_the_panel(viewer, panel, qtbot, monkeypatch, tmp_path):
    from napari_gsw.files.session_file import open_session
    from napari_gsw.widgets.layers import saved_layers

    run_with_a_stroke(panel, qtbot)
    path, sentences = tmp_path / "work.zarr.zip", []
    # An image that is too large to be saved by itself is named, and saved if it is wanted.
    monkeypatch.setattr(saved_layers, "MAX_EMBEDDED_BYTES", IMAGE.nbytes - 1)
    panel.session.noticed.connect(sentences.append)
    saved(panel, qtbot, path)
    assert ["'photo' is in no file" in sentence for sentence in sentences] == [True]
    assert open_session(path).images[0].pixels is None
    saved(panel, qtbot, path, embed=True)
    np.testing.assert_array_equal(open_session(path).images[0].pixels, IMAGE)
    assert len(sentences) == 1
    before = live_of(panel)
    with qtbot.waitSignal(panel.opening.opened, timeout=600_000):
        viewer.open(str(path), plugin="napari-gsw")
    wait_done(qtbot, panel)
    assert live_of(panel) is not before
    assert_same(before, live_of(panel))


@pytest.mark.slow
def test_an_open_image_is_that_of_a_session_if_it_lies_as_that_did(viewer, panel, qtbot, tmp_path):
    run_with_a_stroke(panel, qtbot)
    path = tmp_path / "work.zarr.zip"
    saved(panel, qtbot, path, embed=True)
    layer = panel.session.segmentation.plan.source.layer
    for factor, images in ((1, 1), (3, 2)):
        layer.scale = factor * layer.scale
        with qtbot.waitSignal(panel.opening.opened, timeout=600_000):
            viewer.open(str(path), plugin="napari-gsw")
        wait_done(qtbot, panel)
        assert len([layer for layer in viewer.layers if type(layer).__name__ == "Image"]) == images


@pytest.mark.slow
def test_the_layer_of_a_file_that_was_segmented_is_found(viewer, panel, qtbot, tmp_path):
    from napari.layers._source import layer_source

    with layer_source(path=str(tmp_path / "channels.tif")):
        viewer.add_image(IMAGE[::-1].copy(), name="first")
        viewer.add_image(IMAGE, name="second")
    panel.chooser.image.choose(viewer.layers["second"])
    run(panel, qtbot, sweeps=SWEEPS)
    saved(panel, qtbot, tmp_path / "work.zarr.zip")
    viewer.layers.remove("second [GSW]")
    panel.chooser.image.choose(viewer.layers["first"])
    opened(panel, qtbot, tmp_path / "work.zarr.zip")
    assert panel.session.segmentation.plan.source.layer is viewer.layers["second"]
    assert "second [GSW]" in viewer.layers


@pytest.mark.slow
def test_another_image_is_refused_in_a_sentence(viewer, panel, qtbot, tmp_path):
    from skimage.io import imsave

    file = tmp_path / "photo.png"
    imsave(file, IMAGE, check_contrast=False)
    viewer.open(str(file), plugin="napari")
    run(panel, qtbot, site_size=60, sweeps=20)
    path = tmp_path / "work.zarr.zip"
    saved(panel, qtbot, path)
    viewer.layers.clear()
    imsave(file, 255 - IMAGE, check_contrast=False)
    panel.form.controls["sweeps"].set_value(33)
    panel.saving.chosen.emit(str(path))
    wait_for(qtbot, lambda: "its pixels are others" in panel.reason.text())
    assert not panel.opening.is_busy
    assert panel.form.controls["sweeps"].value() == 33  # nothing of the session was taken over
    file.unlink()
    viewer.layers.clear()
    panel.saving.chosen.emit(str(path))
    wait_for(qtbot, lambda: "is not where it was" in panel.reason.text())


@pytest.mark.parametrize("what", ["dock", "window"])
def test_what_is_closed_in_a_run_is_kept_as_far_as_it_came(make_napari_viewer, qtbot, own_autosaves, what):
    from napari_gsw.files import session_file
    from napari_gsw.widgets.session.autosave import RUNNING

    viewer = make_napari_viewer(show=True)
    dock, panel = viewer.window.add_plugin_dock_widget("napari-gsw", "GSW segmentation")
    viewer.add_image(IMAGE, name="photo")
    start(panel, qtbot, sweeps=10**6)
    wait_sweeps(qtbot, panel, 50)
    wait_for(qtbot, lambda: any(own_autosaves.glob("*.zarr.zip")))  # of the first sweeps; another in half a minute
    seen = live_of(panel).sweep
    if what == "dock":
        dock.destroyOnClose()
    else:
        panel.session.run.worker.quit()  # what napari asks of all workers when its window is closed
        wait_for(qtbot, lambda: not any(thread.name.startswith("gsw_") for thread in threading.enumerate()))
        panel.shut_down()
    assert not [thread.name for thread in threading.enumerate() if thread.name.startswith("gsw")]
    (file,) = own_autosaves.glob("*.zarr.zip")
    session = session_file.open_session(file)
    assert session.run.sweep >= seen
    assert session.run.target == 10**6, "nobody has stopped it"
    assert session.window[RUNNING]


def test_what_the_dialog_did_not_ask_about_is_not_written_over(panel, monkeypatch, tmp_path):
    """Of "work" the dialog looks whether it is there; what is written is work.zarr.zip."""
    from qtpy.QtWidgets import QFileDialog

    from napari_gsw.widgets.panel import session_section as sessions

    asked, written = [], []
    there = tmp_path / "work.zarr.zip"
    there.write_text("mine")
    answer = False
    monkeypatch.setattr(sessions, "_confirm", lambda *words: asked.append(words[2]) or answer)
    monkeypatch.setattr(panel.saving, "save", written.append)
    for typed in ("work", "work.zarr.zip", "other"):
        monkeypatch.setattr(QFileDialog, "getSaveFileName", lambda *_, typed=typed: (str(tmp_path / typed), ""))
        panel.saving._ask_save()
    assert asked == ["work.zarr.zip exists already. Replace it?"]
    assert written == [there, tmp_path / "other.zarr.zip"]  # the first was not, and of the second the dialog asked
    answer = True
    monkeypatch.setattr(QFileDialog, "getSaveFileName", lambda *_: (str(tmp_path / "work"), ""))
    panel.saving._ask_save()
    assert written[-1] == there
