"""The panel in a real window, used as a person uses it."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
import tifffile

import napari_gsw as gsw
from gui_actions import click, press_key, run, slow, start, wait_done, wait_for, wait_sweeps
from napari_gsw.sample_data import mosaic, mosaic_3d
from napari_gsw.scores import partitions as metrics
from pictures import cells

pytest.importorskip("napari")
pytest.importorskip("pytestqt")
pytestmark = pytest.mark.gui

ENDLESS = 1_000_000


def same_partition(a, b):
    return metrics.variation_of_information(a, b) == pytest.approx(0, abs=1e-9)


def small():
    return mosaic()[0][:60, :80]


def open_panel(viewer):
    return viewer.window.add_plugin_dock_widget("napari-gsw", "GSW segmentation")


# ---- from the menu to the labels


def test_three_clicks_to_a_running_segmentation(viewer, qtbot):
    """Plugins, GSW segmentation, Run; from a sample that is open."""
    from qtpy.QtCore import Qt

    from napari_gsw.widgets.panel.panel import open_panel as newest_panel

    viewer.open_sample("napari-gsw", "mosaic")
    menu, bar = viewer.window.plugins_menu, viewer.window._qt_window.menuBar()
    clicks = []

    def press(widget, action):
        clicks.append(action)
        qtbot.mouseClick(widget, Qt.MouseButton.LeftButton, pos=widget.actionGeometry(action).center())

    press(bar, menu.menuAction())
    qtbot.waitUntil(menu.isVisible, timeout=600_000)
    submenu = next(a for a in menu.actions() if "GSW" in a.text())
    qtbot.mouseMove(menu, menu.actionGeometry(submenu).center())  # a submenu opens under the mouse
    inner = submenu.menu()
    qtbot.waitUntil(lambda: inner.isVisible() or menu.activeAction() is submenu, timeout=60_000)
    if not inner.isVisible():
        inner.popup(menu.mapToGlobal(menu.actionGeometry(submenu).topRight()))
    qtbot.waitUntil(inner.isVisible, timeout=600_000)
    press(inner, next(a for a in inner.actions() if a.text().startswith("GSW segmentation")))
    menu.hide()
    opened = newest_panel()
    click(qtbot, opened.run_button)
    wait_sweeps(qtbot, opened)
    assert len(clicks) == 2
    assert opened.chooser.image.value() is viewer.layers["mosaic"]
    opened.shut_down()


def test_labels_are_those_of_the_api_and_of_the_command_line(panel, qtbot, tmp_path):
    image = small()
    assert not panel.run_button.isEnabled()
    assert "Open an image" in panel.reason.text()
    layer = panel.viewer.add_image(image, name="mosaic", scale=(0.5, 0.25), translate=(3, 4), units=("um", "um"))
    assert "the prior expects" in panel.progress.status.text()
    click(qtbot, panel.run_button)
    wait_done(qtbot, panel)
    labels = panel.viewer.layers["mosaic [GSW]"]
    assert labels.data.dtype == np.uint16
    assert np.array_equal([labels.scale, labels.translate], [layer.scale, layer.translate])
    assert (labels.units, labels.axis_labels) == (layer.units, layer.axis_labels)

    api = gsw.segment(image, seed=0, spacing=(0.5, 0.25))
    assert same_partition(labels.data, api.problem.paint(api.clusters))
    assert np.array_equal(panel.viewer.layers["mosaic [regions]"].data, api.labels)
    assert f"{api.problem.n:,} sites" in panel.form.sections["superpixels"].summary.text()
    assert panel.progress.bar.value() == panel.progress.bar.maximum() == 300
    assert panel.session.view.show == "consensus"
    assert f"{api.snapshot.best.log_posterior:,.1f}" in panel.progress.status.text()
    assert panel.progress.status.text().startswith(f"{api.n_clusters} cluster")

    panel.export.export(tmp_path / "gui")
    wait_for(qtbot, lambda: (tmp_path / "gui" / "labels.tif").exists())
    tifffile.imwrite(tmp_path / "image.tif", image)
    script = "import sys; from napari_gsw.cli import main; sys.exit(main())"
    command = [sys.executable, "-c", script, "segment", str(tmp_path / "image.tif"), "-o"]
    subprocess.run([*command, str(tmp_path / "cli"), "--quiet", "--spacing", "0.5,0.25"], check=True)
    for place in ("gui", "cli"):
        assert np.array_equal(tifffile.imread(tmp_path / place / "labels.tif"), api.labels)
    provenance = json.loads((tmp_path / "gui" / "provenance.json").read_text())
    assert provenance["settings"] == {**api.provenance["settings"], "axes": "YXS"}
    assert provenance["image"] == api.provenance["image"]
    for name in ("trace.csv", "trace.png", "overlay.png", "uncertainty.png", "regions.csv"):
        assert (tmp_path / "gui" / name).stat().st_size > 100


def test_volumes(panel, qtbot):
    image, truth = mosaic_3d()
    panel.viewer.add_image(image, name="v", scale=(2, 1, 1))
    assert panel.chooser.depth.isVisible()
    run(panel, qtbot, sweeps=150)
    labels = panel.viewer.layers["v [GSW]"].data
    assert labels.shape == image.shape
    assert metrics.adjusted_rand(labels, truth) > 0.8
    same = gsw.segment(image, axes="ZYX", sweeps=150, view="clusters", spacing=(2, 1, 1))
    assert same_partition(labels, same.labels)


def test_the_microscopy_preset_outlines_objects(panel, qtbot):
    image = cells()[0]
    panel.viewer.add_image(image, name="m")
    click(qtbot, panel.presets.buttons["microscopy"])
    run(panel, qtbot)
    wait_for(qtbot, lambda: "7 objects" in panel.progress.status.text())
    assert np.array_equal(panel.viewer.layers["m [regions]"].data, gsw.segment(image, preset="microscopy").labels)


# ---- running, pausing, continuing


def test_a_second_run_continues_and_reset_begins_afresh(panel, qtbot):
    settings = {"sweeps": 40, "hot": 1.0, "consensus": "none", "view": "clusters"}
    click(qtbot, panel.display.show_sites)  # before there are any
    run(panel, qtbot, small(), **settings)
    labels = panel.viewer.layers["m [GSW]"]
    first = labels.data.copy()
    assert panel.run_button.text() == "Continue"
    click(qtbot, panel.run_button)
    wait_for(qtbot, lambda: panel.session.frame.sweep == 80)
    wait_done(qtbot, panel)
    assert same_partition(labels.data, gsw.segment(small(), **settings | {"sweeps": 80}).labels)
    click(qtbot, panel.reset_button)
    assert not labels.data.any()
    assert panel.run_button.text() == "Run"
    run(panel, qtbot)
    assert same_partition(panel.viewer.layers["m [GSW]"].data, first)
    assert sorted(layer.name for layer in panel.viewer.layers) == ["m", "m [GSW]", "m [superpixels]"]
    assert panel.viewer.layers["m [superpixels]"].data.any()


def test_other_settings_continue_from_what_is_shown(panel, qtbot):
    run(panel, qtbot, small(), sweeps=40)
    before = panel.session.array_run
    panel.form.controls["alpha"].set_value(5.0)
    assert panel.presets.heading.text() == "Preset *"
    run(panel, qtbot)
    after = panel.session.array_run
    assert after is not before
    assert after.interactive.problem.prior.alpha == 5.0
    assert np.array_equal(after.sites, before.sites)
    assert "init" in after.provenance()["given"]
    panel.seed.setValue(7)  # another seed restarts
    run(panel, qtbot)
    expected = gsw.segment(small(), sweeps=40, alpha=5.0, seed=7).labels
    assert same_partition(panel.viewer.layers["m [GSW]"].data, expected)


def test_pause_step_resume_stop_and_keys(panel, qtbot):
    from qtpy.QtCore import Qt

    ctrl, alt = Qt.KeyboardModifier.ControlModifier, Qt.KeyboardModifier.AltModifier
    panel.viewer.add_image(mosaic()[0])
    start(panel, qtbot, sweeps=ENDLESS)
    wait_sweeps(qtbot, panel)
    click(qtbot, panel.pause_button)
    assert panel.pause_button.text() == "Resume"
    wait_for(qtbot, lambda: panel.session.frame.sweep == panel.session.array_run.interactive.sweep)
    held = panel.session.frame.sweep
    qtbot.wait(200)
    assert panel.session.frame.sweep == held
    click(qtbot, panel.step_button)
    wait_for(qtbot, lambda: panel.session.frame.sweep == held + 1)
    qtbot.wait(200)
    assert panel.session.frame.sweep == held + 1
    click(qtbot, panel.pause_button)
    wait_sweeps(qtbot, panel, held + 5)
    assert "left" in panel.progress.bar.text()
    assert panel.progress.status.text().endswith("/s")
    assert "sweeps a second" in panel.progress.status.toolTip()
    press_key(qtbot, panel.viewer, Qt.Key.Key_R, ctrl, alt)
    assert panel.session.state == "paused"
    press_key(qtbot, panel.viewer, Qt.Key.Key_D, ctrl, alt)
    assert panel.session.view.show == "best"
    press_key(qtbot, panel.viewer, Qt.Key.Key_X, ctrl, alt)
    wait_done(qtbot, panel)
    assert panel.viewer.layers[1].name.endswith("[GSW]")
    assert panel.viewer.layers[1].data.any()
    stopped = panel.session.frame.sweep
    press_key(qtbot, panel.viewer, Qt.Key.Key_N, ctrl, alt)
    wait_for(qtbot, lambda: panel.session.frame.sweep == stopped + 1)
    wait_done(qtbot, panel)
    press_key(qtbot, panel.viewer, Qt.Key.Key_R, ctrl, alt)
    wait_sweeps(qtbot, panel, stopped + 2)
    click(qtbot, panel.stop_button)
    wait_done(qtbot, panel)


def test_keys_are_free_and_named_in_tooltips_and_docs(panel):
    from app_model.types import KeyBinding
    from napari._app_model import get_app_model
    from napari._qt._qapp_model.qactions import init_qactions
    from napari.utils.shortcuts import default_shortcuts

    from napari_gsw.widgets.panel.panel import KEYS

    init_qactions()
    taken = {str(KeyBinding.from_int(int(key))) for keys in default_shortcuts.values() for key in keys}
    taken |= {str(rule.keybinding) for rule in get_app_model().keybindings}
    assert "Ctrl+Alt+S" in taken
    page = (Path(__file__).parents[3] / "docs" / "widget.md").read_text()
    buttons = {"run_or_pause": panel.run_button, "step": panel.step_button, "stop": panel.stop_button}
    for key, name in KEYS.items():
        text = key.replace("Control", "Ctrl").replace("-", "+")
        assert str(KeyBinding.from_str(text)) not in taken
        assert text in page
        assert name not in buttons or text in buttons[name].toolTip()


@pytest.mark.slow
def test_the_palette_has_the_commands(panel, qtbot):
    from napari._app_model import get_app_model

    app = get_app_model()
    panel.viewer.add_image(small())
    panel.form.controls["sweeps"].set_value(ENDLESS)
    app.commands.execute_command("napari-gsw.run").result()
    wait_sweeps(qtbot, panel)
    app.commands.execute_command("napari-gsw.stop").result()
    wait_done(qtbot, panel)


@pytest.mark.slow
def test_a_hundred_buttons_in_random_order(panel, qtbot):
    """No error, no layer too many, no thread left."""
    from napari.utils.notifications import NotificationSeverity, notification_manager

    panel.viewer.add_image(small(), name="m")
    panel.form.controls["sweeps"].set_value(ENDLESS)
    rng = random.Random(4)
    before = len(notification_manager.records)
    threads = threading.active_count()
    buttons = [panel.run_button, panel.pause_button, panel.step_button, panel.stop_button, panel.reset_button]
    children = len(panel.findChildren(type(panel.progress.bar)))
    pressed = {}
    for _ in range(100):
        able = [b for b in buttons if b.isEnabled()]
        assert able, panel.session.state
        # At random, but rather one that has not had its turn: Stop can be pressed more often than Reset.
        (button,) = rng.choices(able, [1 / (1 + pressed.get(b, 0)) ** 2 for b in able])
        pressed[button] = pressed.get(button, 0) + 1
        click(qtbot, button)
        qtbot.wait(rng.choice((0, 0, 20, 60)))
        if button is panel.run_button and rng.random() < 0.5:  # not always into the middle of the preparation
            wait_for(qtbot, lambda: panel.session.array_run is not None or panel.session.run is None)
        if not any(b.isEnabled() for b in buttons):
            wait_for(qtbot, lambda: any(b.isEnabled() for b in buttons))
    assert len(pressed) == 5, {b.text(): n for b, n in pressed.items()}

    def over():
        panel.stop()  # also a run that waited for a frame to be finished and has begun only now
        return panel.session.run is None and panel.session.state != "running"

    wait_for(qtbot, over)
    assert len(panel.viewer.layers) <= 3
    assert len(panel.findChildren(type(panel.progress.bar))) == children
    wait_for(qtbot, lambda: threading.active_count() <= threads + 1, 20)
    bad = [n for n in notification_manager.records[before:] if n.severity >= NotificationSeverity.WARNING]
    assert bad == []


# ---- layers that go, docks that close, errors


@pytest.mark.parametrize(
    "which", ["image", slow("labels"), slow("sites"), slow("replaced image"), slow("replaced labels")]
)
def test_removing_or_replacing_a_layer_ends_the_run(panel, qtbot, which):
    viewer = panel.viewer
    image = viewer.add_image(small(), name="m")
    other = viewer.add_image(np.zeros((30, 30)), name="other")
    panel.chooser.image.choose(image)
    if which == "sites":
        y, x = np.mgrid[:60, :80] // 8
        panel.sites.choose(viewer.add_labels(10 * y + x + 1, name="s"))
    start(panel, qtbot, sweeps=ENDLESS)
    wait_sweeps(qtbot, panel)
    worker = panel.session.run.worker
    if which == "replaced image":
        image.data = image.data[::-1].copy()
    elif which == "replaced labels":
        viewer.layers["m [GSW]"].data = np.zeros((5, 5), np.uint16)
    else:
        del viewer.layers[{"image": "m", "labels": "m [GSW]", "sites": "s"}[which]]
    wait_for(qtbot, lambda: panel.session.run is None)
    wait_for(qtbot, lambda: not worker.is_running)
    assert panel.session.state == "ready"
    assert panel.run_button.isEnabled()
    names = [layer.name for layer in viewer.layers]
    qtbot.wait(200)
    assert [layer.name for layer in viewer.layers] == names  # nothing lands anywhere any more
    assert (other.data == 0).all()
    if which != "image":
        start(panel, qtbot, sweeps=ENDLESS)  # and a new run starts where it should
        wait_sweeps(qtbot, panel)
        assert panel.session.segmentation.layers.labels.data.shape == (60, 80)


@pytest.mark.slow
def test_the_result_stays_with_its_image(panel, qtbot):
    """The user adds and selects another image of the same shape in the middle of a run."""
    viewer = panel.viewer
    image = viewer.add_image(small(), name="m", translate=(5, 7))
    start(panel, qtbot, sweeps=150)
    panel.pause()  # or the run could be over by now
    viewer.add_image(small()[::-1], name="another", translate=(500, 700))
    viewer.layers.selection.active = viewer.layers["another"]
    assert panel.chooser.image.value() is image
    panel.pause()
    wait_done(qtbot, panel)
    labels, expected = viewer.layers["m [GSW]"], gsw.segment(small(), sweeps=150).labels
    assert np.array_equal(labels.translate, (5, 7))
    assert same_partition(labels.data, expected)
    panel.chooser.image.choose(viewer.layers["another"])
    assert panel.run_button.text() == "Run"
    click(qtbot, panel.run_button)
    wait_for(qtbot, lambda: "another [GSW]" in viewer.layers)
    wait_done(qtbot, panel)
    assert np.array_equal(viewer.layers["another [GSW]"].translate, (500, 700))
    assert same_partition(viewer.layers["m [GSW]"].data, expected)


@pytest.mark.parametrize("when", ["preparing", "running"])
def test_closing_the_dock_waits_for_nothing(viewer, qtbot, monkeypatch, when):
    """Neither for an image that is being prepared nor for a kernel that is being compiled."""
    from napari_gsw.core.interactive.interactive_run import InteractiveRun
    from napari_gsw.core.pipeline.prepare import Stage
    from napari_gsw.widgets.session import run_plan

    begun, may_end, advance = threading.Event(), threading.Event(), InteractiveRun.advance

    def slow_prepare(*args, report, **options):
        begun.set()
        assert may_end.wait(60)
        report(Stage("sites"), None)

    def slow_advance(interactive, most=None):
        begun.set()
        assert may_end.wait(60)
        advance(interactive, most)

    if when == "preparing":
        monkeypatch.setattr(run_plan, "prepare", slow_prepare)
    else:
        monkeypatch.setattr(InteractiveRun, "advance", slow_advance)
    dock, panel = open_panel(viewer)
    viewer.add_image(small(), name="m")
    click(qtbot, panel.run_button)
    wait_for(qtbot, begun.is_set)
    worker_run = panel.session.run
    dock.destroyOnClose()
    assert worker_run.worker.is_running
    may_end.set()
    wait_for(qtbot, lambda: not worker_run.worker.is_running)


@pytest.mark.parametrize("kind", [RuntimeError, slow(ValueError)])
def test_an_error_in_the_worker_is_shown_and_the_buttons_come_back(panel, qtbot, monkeypatch, kind):
    from napari.utils.notifications import notification_manager

    def broken(*_, **__):
        raise kind("the disk is on fire")

    panel.viewer.add_image(small())
    for when in ("preparing", "running"):
        before = len(notification_manager.records)
        if when == "preparing":
            monkeypatch.setattr("napari_gsw.widgets.session.run_plan.prepare", broken)
        start(panel, qtbot, sweeps=ENDLESS)
        if when == "running":
            wait_sweeps(qtbot, panel)
            monkeypatch.setattr("napari_gsw.core.interactive.interactive_run.InteractiveRun.advance", broken)
        wait_for(qtbot, lambda: panel.session.run is None)
        assert panel.run_button.isEnabled()
        assert not panel.stop_button.isEnabled()
        assert "The disk is on fire." in panel.reason.text()
        assert sum("the disk is on fire" in str(n.message) for n in notification_manager.records[before:]) == 1
        monkeypatch.undo()
        run(panel, qtbot, sweeps=10)
        assert panel.reason.text() == ""


def test_what_cannot_be_segmented_says_why(panel, qtbot):
    from napari.utils.notifications import notification_manager

    viewer, controls = panel.viewer, panel.form.controls
    viewer.add_points(np.zeros((3, 2)))
    assert not panel.run_button.isEnabled()
    assert "Open an image" in panel.reason.text()

    panel.chooser.image.choose(viewer.add_image(np.zeros((2, 2, 3, 8, 9)), name="five"))
    assert "choose which of its axes holds channels" in panel.reason.text()
    assert not panel.run_button.isEnabled()
    panel.chooser.channel_axis.setCurrentIndex(2)
    panel.chooser.channel_axis.activated.emit(2)
    assert panel.reason.text() == ""
    assert panel.run_button.isEnabled()

    panel.chooser.image.choose(viewer.add_image(small(), name="good"))
    assert panel.run_button.isEnabled()
    panel.sites.choose(viewer.add_labels(np.ones((7, 9), int), name="elsewhere"))
    assert "elsewhere" in panel.reason.text()
    assert "shape (7, 9)" in panel.reason.text()
    assert not panel.run_button.isEnabled()
    panel.sites.choose(None)
    panel.chooser.where.choose(viewer.add_shapes(name="nothing drawn"))
    assert "has no shape yet" in panel.reason.text()
    panel.chooser.where.choose("image")
    controls["sampler"].set_value("bond-drawn")
    controls["bond_low"].set_value(0.9)
    assert "Least probability must be" in panel.reason.text()
    assert not panel.run_button.isEnabled()
    controls["bond_low"].set_value(0.0)
    assert panel.run_button.isEnabled()
    panel.chooser.image.choose(
        viewer.add_image([np.zeros((64, 64)), np.zeros((32, 32))], name="pyramid", multiscale=True)
    )
    assert panel.run_button.isEnabled()

    empty = np.full(small().shape, np.nan)
    panel.chooser.image.choose(viewer.add_image(empty, rgb=True, contrast_limits=(0, 255)))
    click(qtbot, panel.run_button)
    wait_for(qtbot, lambda: panel.session.run is None)
    assert "NaN" in panel.reason.text()
    assert panel.run_button.isEnabled()
    assert "Traceback" not in str(notification_manager.records[-1].message)


# ---- display, trace, regions


def test_uncertainty_is_that_of_the_api(panel, qtbot):
    viewer, boxes = panel.viewer, panel.display.layer_boxes
    viewer.add_image(small(), name="m", scale=(2, 3))
    click(qtbot, boxes["boundary"])
    click(qtbot, boxes["entropy"])
    run(panel, qtbot, sweeps=200)
    api = gsw.segment(small(), sweeps=200, spacing=(2, 3))
    wait_for(qtbot, lambda: "m [entropy]" in viewer.layers)
    assert np.allclose(viewer.layers["m [boundary]"].data, api.boundary)
    assert np.allclose(viewer.layers["m [entropy]"].data, api.uncertainty)
    assert np.array_equal(viewer.layers["m [entropy]"].scale, (2, 3))
    del viewer.layers["m [entropy]"]
    assert not boxes["entropy"].isChecked()
    click(qtbot, boxes["boundary"])
    assert not viewer.layers["m [boundary]"].visible


def test_a_click_on_the_trace_shows_that_moment(panel, qtbot):
    from qtpy.QtCore import Qt

    run(panel, qtbot, small(), sweeps=120)
    labels, canvas = panel.viewer.layers["m [GSW]"], panel.session.layer_view
    best = labels.data.copy()
    qtbot.wait(100)
    box = panel.trace.upper.getViewBox()
    place = panel.trace.mapFromScene(box.mapViewToScene(box.viewRect().center()))
    qtbot.mouseClick(panel.trace.viewport(), Qt.MouseButton.LeftButton, pos=place)
    wait_for(qtbot, lambda: canvas.viewing is not None)
    history = panel.session.array_run.interactive.history
    sweeps = np.array(history.sweeps)
    clicked = box.mapSceneToView(panel.trace.mapToScene(place)).x()
    assert clicked == pytest.approx(60.6, abs=1)  # the middle of the axis, to the pixel
    assert canvas.viewing == sweeps[np.abs(sweeps - clicked).argmin()]
    assert panel.trace_section.viewing_text.text() == f"Viewing sweep {canvas.viewing}"
    sweep, numbers = history.nearest(canvas.viewing)
    assert sweep == canvas.viewing
    assert np.array_equal(labels.data, panel.session.array_run.paint(numbers))
    click(qtbot, panel.trace_section.back_button)
    assert np.array_equal(labels.data, best)
    assert not panel.trace_section.viewing.isVisible()
    canvas.view_sweep(3)
    click(qtbot, panel.trace_section.from_here)
    wait_for(qtbot, lambda: panel.session.run is None)
    interactive = panel.session.array_run.interactive
    assert same_partition(interactive.display_labels, interactive.history.nearest(3)[1])


@pytest.mark.slow
def test_the_trace_as_csv_and_png(panel, qtbot, tmp_path):
    run(panel, qtbot, small(), sweeps=20)
    panel.export.save_trace(tmp_path / "t.csv")
    panel.export.save_trace(tmp_path / "t.png")
    lines = (tmp_path / "t.csv").read_text().splitlines()
    assert lines[0] == "sweep,log_posterior,n_clusters,entropy"
    assert len(lines) == 21
    assert (tmp_path / "t.png").stat().st_size > 2000
    panel.export.save_trace(tmp_path / "no" / "folder" / "t.csv")
    assert "cannot be written" in panel.reason.text()
    (tmp_path / "mine.csv").write_text("mine")
    panel.export.save_trace(tmp_path / "mine")  # the dialog has asked about `mine`
    assert "mine.csv exists already" in panel.reason.text()
    assert (tmp_path / "mine.csv").read_text() == "mine"
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "overlay.png").write_text("mine")
    panel.export.export(tmp_path / "out")
    wait_for(qtbot, lambda: "overlay.png': the file exists" in panel.reason.text())
    assert [p.name for p in (tmp_path / "out").iterdir()] == ["overlay.png"]


def test_hovering_describes_the_region_and_tables_are_of_what_is_shown(panel, qtbot):
    viewer = panel.viewer
    run(panel, qtbot, small(), sweeps=60)
    labels, regions = viewer.layers["m [GSW]"], viewer.layers["m [regions]"]
    wait_for(qtbot, lambda: "area" in regions.features.columns)
    number = int(labels.data[30, 40])
    mask = labels.data == number
    click(qtbot, panel.display.layer_boxes["regions"])
    wait_for(qtbot, lambda: panel.session.run is None)
    viewer.cursor.position = (30, 41)
    assert panel.region.text().startswith(f"Cluster {number}: {mask.sum():,} pixels ({100 * mask.mean():.1f}%)")
    click(qtbot, panel.display.layer_boxes["regions"])
    region = int(regions.data[30, 41])  # what is outlined is described, as soon as it is measured
    size = (regions.data == region).sum()
    wait_for(qtbot, lambda: panel.region.text().startswith(f"Region {region}: {size:,} pixels"))
    measures = regions.features
    regions.features = measures[["index"]]  # of another plugin
    viewer.cursor.position = (30, 42)
    assert panel.region.text().startswith("Cluster ")
    regions.features = measures
    table = labels.features.set_index("index")
    assert table.loc[number, "pixels"] == mask.sum()
    assert table.loc[number, "red"] == pytest.approx(small()[mask, 0].mean())
    assert 0 <= table.loc[number, "stability"] <= 1
    assert set(table.loc[number, "neighbours"].split()) <= set(map(str, np.unique(labels.data)))
    # When the regions are hidden, the table is that of the labels.
    click(qtbot, panel.display.layer_boxes["regions"])
    run(panel, qtbot)
    wait_for(qtbot, lambda: "solidity" in labels.features.columns)
    assert sorted(labels.features["index"]) == [number for number in np.unique(labels.data) if number]
    assert "index" not in regions.features.columns


def test_consensus_range_and_detail(panel, qtbot):
    """After the burn-in there are a consensus, its credible ball, and regions of every detail."""
    viewer, display = panel.viewer, panel.display
    viewer.add_image(small(), name="m")
    assert not display.detail.isEnabled()
    run(panel, qtbot, sweeps=60, chains=2)
    wait_for(qtbot, lambda: display.detail.isEnabled())
    assert panel.agreement.line.text()
    assert panel.session.view.show == "consensus"
    labels, regions = viewer.layers["m [GSW]"], viewer.layers["m [regions]"]
    assert regions.editable
    interactive = panel.session.array_run.interactive
    for button in display.state_buttons.buttons():
        click(qtbot, button)
        show = button.property("show")
        wait_for(qtbot, lambda show=show: panel.session.frame.show == show and panel.session.run is None)
        assert same_partition(labels.data, interactive.problem.paint(interactive.shown(show)))
    for value in (0, 50, 100):
        display.detail.setValue(value)
        wanted = interactive.problem.paint(interactive.summary.labels_at_detail(value / 100))
        wait_for(qtbot, lambda wanted=wanted: same_partition(regions.data, wanted))
        assert not display.auto_detail.isChecked()
        count = len(np.unique(wanted))
        text = f"{count:,} region{'' if count == 1 else 's'}"
        wait_for(qtbot, lambda text=text: display.detail_count.text() == text)
    click(qtbot, display.auto_detail)
    wait_for(qtbot, lambda: same_partition(regions.data, interactive.summary.labels))
    click(qtbot, display.layer_boxes["regions"])
    assert not regions.visible
    viewer.layers.remove(regions)
    click(qtbot, display.layer_boxes["regions"])
    wait_for(qtbot, lambda: any(x.name == "m [regions]" for x in viewer.layers))
    # A detail that was chosen is forgotten at a Reset and with another image.
    for forget in (lambda: click(qtbot, panel.reset_button), lambda: viewer.add_image(small()[::-1], name="n")):
        if not panel.session.continues:
            run(panel, qtbot, sweeps=40, chains=1)
        wait_for(qtbot, lambda: display.detail.isEnabled())
        display.detail.setValue(90)
        wait_for(qtbot, lambda: panel.session.run is None and panel.session.view.detail == 0.9)
        forget()
        if "n" in viewer.layers:
            panel.chooser.image.choose(viewer.layers["n"])
            run(panel, qtbot)
        wait_for(qtbot, lambda: panel.session.view.detail is None)
        assert display.auto_detail.isChecked()


# ---- the panel itself


def test_the_panel_scrolls_on_a_small_screen(viewer, qtbot):
    viewer.window.resize(1366, 768)
    _, panel = open_panel(viewer)
    for section in panel.sections:
        section.unfold()
    qtbot.wait(100)
    assert viewer.window._qt_window.height() <= 768
    bar = panel.scroll.verticalScrollBar()
    assert bar.maximum() > 0
    last = panel.export.trace_button

    def at_the_end():
        bar.setValue(bar.maximum())
        return not last.visibleRegion().isEmpty()

    wait_for(qtbot, at_the_end, 10)
    assert panel.inner.width() <= panel.scroll.viewport().width()
    panel.shut_down()


def test_preferences_set_the_panel_up(viewer, monkeypatch, qtbot):
    from napari.settings import get_plugin_settings

    from napari_gsw.widgets.common.setting_widgets import FALLBACK, get_preference

    known = get_plugin_settings("napari-gsw").segmentation
    declared = {name: getattr(value, "value", value) for name, value in known.model_dump().items()}
    assert declared == FALLBACK
    monkeypatch.setattr(
        "napari_gsw.widgets.panel.panel.get_preference", lambda name: {**FALLBACK, "preset": "paper"}[name]
    )
    _, panel = open_panel(viewer)
    assert panel.form.settings() == gsw.preset("paper")
    assert get_preference("preset") == "general"
    panel.shut_down()
