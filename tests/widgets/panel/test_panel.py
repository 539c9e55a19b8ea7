"""The GSW segmentation widget in a real window, used as a person uses it."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import threading

import numpy as np
import pytest
import tifffile

import napari_gsw as gsw
from gui_actions import click, press_key, slow, wait_done, wait_for, wait_sweeps
from napari_gsw.core.features.network import has_onnxruntime
from napari_gsw.core.pipeline.prepare_objects import NETWORK_SECTIONS, NETWORK_SETTINGS, is_replaced_by_network
from napari_gsw.core.settings import SECTIONS, setting_fields
from napari_gsw.sample_data import mosaic, mosaic_3d
from napari_gsw.scores import partitions as metrics
from pictures import cells

pytest.importorskip("napari")
pytest.importorskip("pytestqt")
pytestmark = pytest.mark.gui


def same_partition(a, b):
    return metrics.variation_of_information(a, b) == pytest.approx(0, abs=1e-9)


def small():
    return mosaic()[0][:120, :160]


def endless(panel):
    panel.form.controls["sweeps"].set_value(1_000_000)


def test_three_clicks_to_a_running_segmentation(viewer, qtbot):
    """Plugins, GSW segmentation, Run; from a sample that is open."""
    from qtpy.QtCore import Qt

    viewer.open_sample("napari-gsw", "mosaic")
    menu = viewer.window.plugins_menu
    bar = viewer.window._qt_window.menuBar()
    clicks = 0

    def press(widget, action):
        nonlocal clicks
        clicks += 1
        qtbot.mouseClick(widget, Qt.MouseButton.LeftButton, pos=widget.actionGeometry(action).center())

    press(bar, menu.menuAction())
    qtbot.waitUntil(menu.isVisible, timeout=600_000)
    ours = next(a for a in menu.actions() if "GSW" in a.text())
    qtbot.mouseMove(menu, menu.actionGeometry(ours).center())  # a submenu opens under the mouse
    inner = ours.menu()
    qtbot.waitUntil(lambda: inner.isVisible() or menu.activeAction() is ours, timeout=60_000)
    if not inner.isVisible():
        inner.popup(menu.mapToGlobal(menu.actionGeometry(ours).topRight()))
    qtbot.waitUntil(inner.isVisible, timeout=600_000)
    press(inner, next(a for a in inner.actions() if a.text().startswith("GSW segmentation")))
    menu.hide()
    from napari_gsw.widgets.commands import panel

    opened = panel()
    click(qtbot, opened.run_button)
    clicks += 1
    wait_sweeps(qtbot, opened)
    assert clicks == 3
    assert opened.chooser.image.value() is viewer.layers["mosaic"]
    opened.shut_down()


def test_the_outlook_follows_the_preset(panel, qtbot):
    panel.viewer.add_image(mosaic()[0], name="mosaic")
    general = panel.progress.status.text()
    assert general.startswith("About 512 sites; the prior expects")
    click(qtbot, panel.presets.button("paper"))
    assert panel.progress.status.text() == "About 1,000 sites; the prior expects 18 clusters."
    click(qtbot, panel.presets.button("general"))
    assert panel.progress.status.text() == general


def test_every_stage_of_the_preparation_has_words_and_a_bar(panel, monkeypatch):
    from napari_gsw.core.pipeline.stage import Stage
    from napari_gsw.widgets.panel.rows import STAGES
    from napari_gsw.widgets.session.run_worker import CommandQueue

    bar = panel.progress.bar
    for name in ("noise", "superpixels", "graph", "features", "blocks", "assembly", "start", "compiling"):
        title = STAGES[name]
        monkeypatch.setattr(CommandQueue, "stage", Stage(name))
        panel.progress.refresh(None)
        assert panel.progress.status.text() == f"{title} ..."
        assert (bar.minimum(), bar.maximum()) == (0, 0)
        monkeypatch.setattr(CommandQueue, "stage", Stage(name, 1200, 3600))
        panel.progress.refresh(None)
        assert panel.progress.status.text().startswith(f"{title}: ")
        assert panel.progress.status.text().endswith("1,200 of 3,600")
        assert (bar.value(), bar.maximum()) == (1200, 3600)


def test_the_labels_are_those_of_the_api_and_of_the_command_line(panel, qtbot, tmp_path):
    image = mosaic()[0]
    assert not panel.run_button.isEnabled()
    assert "Open an image" in panel.reason.text()
    layer = panel.viewer.add_image(image, name="mosaic", scale=(0.5, 0.25), translate=(3, 4), units=("um", "um"))
    assert "the prior expects" in panel.progress.status.text()
    click(qtbot, panel.run_button)
    wait_done(qtbot, panel)
    labels = panel.viewer.layers["mosaic [GSW]"]
    assert labels.data.dtype == np.uint16
    for what in ("scale", "translate"):
        assert np.array_equal(getattr(labels, what), getattr(layer, what))
    assert labels.units == layer.units
    assert labels.axis_labels == layer.axis_labels

    api = gsw.segment(image, seed=0, spacing=(0.5, 0.25))
    assert same_partition(labels.data, api.problem.paint(api.clusters))
    assert np.array_equal(panel.viewer.layers["mosaic [regions]"].data, api.labels)
    assert f"{api.problem.n:,} sites" in panel.form.sections["superpixels"].summary.text()
    assert panel.progress.bar.value() == panel.progress.bar.maximum() == 300
    assert panel.session.commands.view.show == "consensus"
    assert f"{api.snapshot.best.log_posterior:,.1f}" in panel.progress.status.text()
    assert panel.progress.status.text().startswith(f"{api.n_clusters} clusters")

    panel.export.export(tmp_path / "gui")
    wait_for(qtbot, lambda: (tmp_path / "gui" / "labels.tif").exists())
    tifffile.imwrite(tmp_path / "image.tif", image)
    script = "import sys; from napari_gsw.cli import main; sys.exit(main())"
    command = [sys.executable, "-c", script, "segment", str(tmp_path / "image.tif"), "-o"]
    subprocess.run([*command, str(tmp_path / "cli"), "--quiet", "--spacing", "0.5,0.25"], check=True)
    written = [tifffile.imread(tmp_path / place / "labels.tif") for place in ("gui", "cli")]
    assert np.array_equal(written[0], api.labels)
    assert np.array_equal(written[1], api.labels)
    provenance = json.loads((tmp_path / "gui" / "provenance.json").read_text())
    assert provenance["settings"] == {**api.provenance["settings"], "axes": "YXS"}
    assert provenance["image"] == api.provenance["image"]
    for name in ("trace.csv", "trace.png", "overlay.png", "uncertainty.png", "regions.csv"):
        assert (tmp_path / "gui" / name).stat().st_size > 100


@pytest.mark.slow
def test_a_second_run_goes_on_and_reset_starts_afresh(panel, qtbot):
    panel.viewer.add_image(small(), name="m")
    own = {"sweeps": 40, "hot": 1.0, "consensus": "none", "view": "clusters"}
    for name, value in own.items():
        panel.form.controls[name].set_value(value)
    click(qtbot, panel.run_button)
    wait_done(qtbot, panel)
    first = panel.viewer.layers["m [GSW]"].data.copy()
    assert panel.run_button.text() == "Continue"
    click(qtbot, panel.run_button)
    wait_for(qtbot, lambda: panel.session.frame.sweep == 80)
    wait_done(qtbot, panel)
    assert len(panel.viewer.layers) == 2
    assert same_partition(panel.viewer.layers["m [GSW]"].data, gsw.segment(small(), **own | {"sweeps": 80}).labels)
    click(qtbot, panel.reset_button)
    assert not panel.viewer.layers["m [GSW]"].data.any()
    assert panel.run_button.text() == "Run"
    click(qtbot, panel.run_button)
    wait_done(qtbot, panel)
    assert same_partition(panel.viewer.layers["m [GSW]"].data, first)
    assert len(panel.viewer.layers) == 2


def test_other_settings_go_on_from_what_is_shown(panel, qtbot):
    panel.viewer.add_image(small(), name="m")
    panel.form.controls["sweeps"].set_value(40)
    click(qtbot, panel.run_button)
    wait_done(qtbot, panel)
    before = panel.session.array_run
    panel.form.controls["alpha"].set_value(5.0)
    assert panel.presets.heading.text() == "Preset *"
    click(qtbot, panel.run_button)
    wait_done(qtbot, panel)
    after = panel.session.array_run
    assert after is not before
    assert after.interactive.problem.prior.alpha == 5.0
    assert np.array_equal(after.sites, before.sites)
    assert "init" in after.provenance()["given"]
    panel.seed.setValue(7)  # another seed starts afresh
    click(qtbot, panel.run_button)
    wait_done(qtbot, panel)
    expected = gsw.segment(small(), sweeps=40, alpha=5.0, seed=7).labels
    assert same_partition(panel.viewer.layers["m [GSW]"].data, expected)


def test_pause_step_resume_and_stop(panel, qtbot):
    panel.viewer.add_image(mosaic()[0])
    endless(panel)
    click(qtbot, panel.run_button)
    wait_sweeps(qtbot, panel)
    click(qtbot, panel.pause_button)
    assert panel.pause_button.text() == "Resume"
    qtbot.wait(400)
    wait_for(qtbot, lambda: panel.session.frame.sweep == panel.session.array_run.interactive.sweep)
    held = panel.session.frame.sweep
    qtbot.wait(300)
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
    click(qtbot, panel.stop_button)
    wait_done(qtbot, panel)
    assert panel.viewer.layers[1].name.endswith("[GSW]")
    assert panel.viewer.layers[1].data.any()
    stopped = panel.session.frame.sweep
    click(qtbot, panel.step_button)
    wait_for(qtbot, lambda: panel.session.frame.sweep == stopped + 1)
    wait_done(qtbot, panel)


@pytest.mark.slow
def test_a_hundred_buttons_in_random_order(panel, qtbot):
    """No error, no layer too many, no thread left."""
    from napari.utils.notifications import NotificationSeverity, notification_manager

    panel.viewer.add_image(small(), name="m")
    endless(panel)
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
        panel.stop()  # also a run that waited for a picture to be finished and has begun only now
        return panel.session.run is None and panel.session.state != "running"

    wait_for(qtbot, over)
    assert len(panel.viewer.layers) <= 3
    assert len(panel.findChildren(type(panel.progress.bar))) == children
    wait_for(qtbot, lambda: threading.active_count() <= threads + 1, 20)
    bad = [n for n in notification_manager.records[before:] if n.severity >= NotificationSeverity.WARNING]
    assert bad == []


@pytest.mark.parametrize(
    "which", ["image", slow("labels"), slow("sites"), slow("replaced image"), slow("replaced labels")]
)
def test_removing_or_replacing_a_layer_ends_the_run(panel, qtbot, which):
    viewer = panel.viewer
    image = viewer.add_image(small(), name="m")
    other = viewer.add_image(np.zeros((30, 30)), name="other")
    panel.choose_image(image)
    if which == "sites":
        y, x = np.mgrid[:120, :160] // 8
        viewer.add_labels(20 * y + x + 1, name="s")
        panel.sites.choose(viewer.layers["s"])
        image = viewer.layers["m"]
    endless(panel)
    click(qtbot, panel.run_button)
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
    if which not in ("image",):
        endless(panel)
        click(qtbot, panel.run_button)  # and a new run starts where it should
        wait_sweeps(qtbot, panel)
        assert panel.session.segmentation.layers.labels.data.shape == (120, 160)


@pytest.mark.slow
def test_the_result_stays_with_its_image(panel, qtbot):
    """The user adds and selects another image of the same shape in the middle of a run."""
    viewer = panel.viewer
    image = viewer.add_image(small(), name="m", translate=(5, 7))
    panel.form.controls["sweeps"].set_value(150)
    click(qtbot, panel.run_button)
    panel.pause()  # or the run could be over by now
    viewer.add_image(small()[::-1], name="another", translate=(500, 700))
    viewer.layers.selection.active = viewer.layers["another"]
    assert panel.chooser.image.value() is image
    panel.pause()
    wait_done(qtbot, panel)
    labels = viewer.layers["m [GSW]"]
    assert np.array_equal(labels.translate, (5, 7))
    assert same_partition(labels.data, gsw.segment(small(), sweeps=150).labels)
    panel.choose_image(viewer.layers["another"])
    assert panel.run_button.text() == "Run"
    click(qtbot, panel.run_button)
    wait_for(qtbot, lambda: "another [GSW]" in viewer.layers)
    wait_done(qtbot, panel)
    assert np.array_equal(viewer.layers["another [GSW]"].translate, (500, 700))
    assert same_partition(viewer.layers["m [GSW]"].data, gsw.segment(small(), sweeps=150).labels)


def test_closing_the_dock_ends_the_run(viewer, qtbot):
    dock, panel = viewer.window.add_plugin_dock_widget("napari-gsw", "GSW segmentation")
    viewer.add_image(small(), name="m")
    endless(panel)
    click(qtbot, panel.run_button)
    wait_sweeps(qtbot, panel)
    worker = panel.session.run.worker
    dock.destroyOnClose()  # what the x of the dock does
    wait_for(qtbot, lambda: not worker.is_running)
    viewer.add_image(small())  # nobody listens any more
    before = viewer.layers["m [GSW]"].data.copy()
    viewer.layers["m [GSW]"].paint((5, 5), 3)
    viewer.layers["m [GSW]"].undo()  # napari's own again
    assert np.array_equal(viewer.layers["m [GSW]"].data, before)


def close_in_the_middle(viewer, qtbot, monkeypatch, begun, may_end):
    """Close the dock when a run has begun something that takes long; nobody may wait for it."""
    dock, panel = viewer.window.add_plugin_dock_widget("napari-gsw", "GSW segmentation")
    viewer.add_image(small(), name="m")
    click(qtbot, panel.run_button)
    wait_for(qtbot, begun.is_set)
    run, waits = panel.session.run, []
    monkeypatch.setattr(run, "wait", waits.append)
    dock.destroyOnClose()
    assert not waits
    may_end.set()
    wait_for(qtbot, lambda: not run.worker.is_running)


def test_closing_the_dock_while_an_image_is_prepared_waits_for_nothing(viewer, qtbot, monkeypatch):
    from napari_gsw.core.pipeline import stage
    from napari_gsw.widgets.session import run_plan

    begun, may_end = threading.Event(), threading.Event()

    def slow_prepare(*args, report, **options):
        begun.set()
        assert may_end.wait(60)
        report(stage.Stage("sites"), None)

    monkeypatch.setattr(run_plan, "prepare", slow_prepare)
    close_in_the_middle(viewer, qtbot, monkeypatch, begun, may_end)


def test_closing_the_dock_while_a_kernel_is_compiled_waits_for_nothing(viewer, qtbot, monkeypatch):
    from napari_gsw.core.interactive.interactive_run import InteractiveRun

    begun, may_end, advance = threading.Event(), threading.Event(), InteractiveRun.advance

    def slow_advance(interactive, most=None):
        begun.set()
        assert may_end.wait(60)
        advance(interactive, most)

    monkeypatch.setattr(InteractiveRun, "advance", slow_advance)
    close_in_the_middle(viewer, qtbot, monkeypatch, begun, may_end)


@pytest.mark.slow
def test_closing_the_viewer_ends_the_run(make_napari_viewer, qtbot):
    viewer = make_napari_viewer(show=True)
    _, panel = viewer.window.add_plugin_dock_widget("napari-gsw", "GSW segmentation")
    viewer.add_image(small(), name="m")
    endless(panel)
    click(qtbot, panel.run_button)
    wait_sweeps(qtbot, panel)
    worker = panel.session.run.worker
    viewer.close()
    wait_for(qtbot, lambda: not worker.is_running)


@pytest.mark.parametrize("kind", [RuntimeError, slow(ValueError)])
@pytest.mark.parametrize("when", ["preparing", "running"])
def test_an_error_in_the_worker_is_shown_and_the_buttons_come_back(panel, qtbot, monkeypatch, kind, when):
    from napari.utils.notifications import notification_manager

    def broken(*_, **__):
        raise kind("the disk is on fire")

    if when == "preparing":
        monkeypatch.setattr("napari_gsw.widgets.session.run_plan.prepare", broken)
    panel.viewer.add_image(small())
    endless(panel)
    before = len(notification_manager.records)
    click(qtbot, panel.run_button)
    if when == "running":
        wait_sweeps(qtbot, panel)
        monkeypatch.setattr("napari_gsw.core.interactive.interactive_run.InteractiveRun.advance", broken)
    wait_for(qtbot, lambda: panel.session.run is None)
    assert panel.run_button.isEnabled()
    assert not panel.stop_button.isEnabled()
    assert "The disk is on fire." in panel.reason.text()
    assert sum("the disk is on fire" in str(n.message) for n in notification_manager.records[before:]) == 1
    monkeypatch.undo()
    panel.form.controls["sweeps"].set_value(10)
    click(qtbot, panel.run_button)
    wait_done(qtbot, panel)
    assert panel.reason.text() == ""


def test_what_cannot_be_segmented_says_why(panel, qtbot):
    viewer = panel.viewer
    viewer.add_points(np.zeros((3, 2)))
    assert not panel.run_button.isEnabled()
    assert "Open an image" in panel.reason.text()

    five = viewer.add_image(np.zeros((2, 2, 3, 8, 9)), name="five")
    panel.choose_image(five)
    assert "choose which of its axes holds channels" in panel.reason.text()
    assert not panel.run_button.isEnabled()
    panel.chooser.channel_axis.setCurrentIndex(2)
    panel.chooser.channel_axis.activated.emit(2)
    assert panel.reason.text() == ""
    assert panel.run_button.isEnabled()

    good = viewer.add_image(small(), name="good")
    panel.choose_image(good)
    assert panel.run_button.isEnabled()
    labels = viewer.add_labels(np.ones((7, 9), int), name="elsewhere")
    panel.sites.choose(labels)
    assert "elsewhere" in panel.reason.text()
    assert "shape (7, 9)" in panel.reason.text()
    assert not panel.run_button.isEnabled()
    panel.sites.choose(None)
    shapes = viewer.add_shapes(name="nothing drawn")
    panel.chooser.where.choose(shapes)
    assert "has no shape yet" in panel.reason.text()
    panel.chooser.where.choose("image")
    pyramid = viewer.add_image([np.zeros((64, 64)), np.zeros((32, 32))], name="pyramid", multiscale=True)
    panel.choose_image(pyramid)
    assert panel.run_button.isEnabled()


def test_settings_that_do_not_go_together_are_told_beside_the_button(panel, qtbot):
    panel.viewer.add_image(small())
    panel.form.controls["sampler"].set_value("bond-drawn")
    panel.form.controls["bond_low"].set_value(0.9)
    assert "Least probability must be" in panel.reason.text()
    assert not panel.run_button.isEnabled()
    panel.form.controls["bond_low"].set_value(0.0)
    assert panel.run_button.isEnabled()


def test_bad_data_is_one_sentence(panel, qtbot):
    from napari.utils.notifications import notification_manager

    image = small().astype(float)
    image[:] = np.nan
    panel.viewer.add_image(image, rgb=True, contrast_limits=(0, 255))
    click(qtbot, panel.run_button)
    wait_for(qtbot, lambda: panel.session.run is None)
    assert "NaN" in panel.reason.text()
    assert panel.run_button.isEnabled()
    assert "Traceback" not in str(notification_manager.records[-1].message)


def test_every_setting_has_a_control_with_its_help(panel):
    """All but the axes, which the head of the panel asks for, the spacing, which the layer's scale says, and the blocks
    of a large image, for scripts alone."""
    assert set(panel.form.controls) == set(setting_fields()) - {"axes", "spacing", "block_pixels"}
    for name, control in panel.form.controls.items():
        assert setting_fields()[name].help in control.toolTip()
        assert control.value() == getattr(gsw.preset("general"), name)
    assert set(panel.form.sections) == set(SECTIONS) - {"image", "strokes"}  # whose controls stand beside the brush
    assert all(
        panel.form.controls[name].parentWidget() is not None for name in ("steering", "painted_detail", "only_painted")
    )


def test_only_what_matters_is_shown(panel, qtbot):
    form = panel.form
    form.sections["prior"].unfold()
    assert form.controls["alpha"].isVisible()
    assert not form.controls["theta"].isVisible()
    form.controls["prior"].set_value("pitman-yor")
    assert form.controls["theta"].isVisible()
    form.controls["prior"].set_value("potts")
    assert not form.controls["alpha"].isVisible()
    assert form.controls["K"].isVisible()


@pytest.mark.skipif(not has_onnxruntime(), reason="onnxruntime is not installed")
def test_where_a_network_looks_its_place_is_not_taken_by_settings_without_effect(panel, qtbot):
    form, brightness = panel.form, cells()[0]
    for section in NETWORK_SECTIONS:
        form.sections[section].unfold()
    shown = lambda: {name for name in form.controls if is_replaced_by_network(name) and form.controls[name].isVisible()}  # noqa: E731
    flat = panel.viewer.add_image(brightness)
    click(qtbot, panel.presets.button("microscopy"))
    assert not shown()
    assert all(form.controls[name].isVisible() for name in NETWORK_SETTINGS)
    assert form.sections["prior"].summary.text() == "any number of objects"
    assert "expects" not in panel.progress.status.text()
    form.controls["objects"].set_value("classical")
    assert {"site_size", "K", "beta", "evidence"} <= shown()
    assert "sites" in form.sections["superpixels"].summary.text()
    form.controls["objects"].set_value("network")
    assert not shown()
    panel.viewer.layers.remove(flat)
    panel.viewer.add_image(np.stack([brightness[:64, :64]] * 8), axis_labels="zyx")  # volumes are not its own
    assert {"site_size", "K", "beta", "evidence"} <= shown()


def test_presets_fill_the_form(panel, qtbot):
    panel.viewer.add_image(small())
    paper = panel.presets.button("paper")
    click(qtbot, paper)
    assert panel.form.settings() == gsw.preset("paper")
    assert "expects 18 clusters" in panel.form.sections["prior"].summary.text()  # of 1,000 sites


@pytest.mark.slow
def test_lambda_can_change_during_a_run_and_alpha_cannot(panel, qtbot):
    panel.viewer.add_image(small())
    paper = panel.presets.button("paper")
    click(qtbot, paper)
    endless(panel)
    click(qtbot, panel.run_button)
    wait_sweeps(qtbot, panel)
    panel.form.controls["lam"].set_value(2.5)
    assert panel.reason.text() == ""
    wait_for(qtbot, lambda: panel.session.array_run.interactive.settings.lam == 2.5)
    panel.form.controls["alpha"].set_value(9.0)
    assert "next run" in panel.reason.text()
    assert panel.session.array_run.interactive.settings.alpha == 3.0
    click(qtbot, panel.stop_button)
    wait_done(qtbot, panel)
    kept = panel.viewer.layers[-1].metadata["napari-gsw"]  # what is exported with the labels
    assert kept["reproducible"] is False
    assert [step["what"] for step in kept["steps"]] == ["run", "settings", "stopped"]
    assert kept["steps"][1]["changed"] == {"lam": [10.0, 2.5]}


def test_keys(panel, qtbot):
    from qtpy.QtCore import Qt

    ctrl, alt = Qt.KeyboardModifier.ControlModifier, Qt.KeyboardModifier.AltModifier
    panel.viewer.add_image(small())
    endless(panel)
    press_key(qtbot, panel.viewer, Qt.Key.Key_R, ctrl, alt)
    wait_sweeps(qtbot, panel)
    press_key(qtbot, panel.viewer, Qt.Key.Key_R, ctrl, alt)
    assert panel.session.state == "paused"
    press_key(qtbot, panel.viewer, Qt.Key.Key_D, ctrl, alt)
    assert panel.session.commands.view.show == "best"
    press_key(qtbot, panel.viewer, Qt.Key.Key_X, ctrl, alt)
    wait_done(qtbot, panel)


@pytest.mark.slow
def test_the_palette_has_the_commands(panel, qtbot):
    from napari._app_model import get_app_model

    app = get_app_model()
    panel.viewer.add_image(small())
    endless(panel)
    app.commands.execute_command("napari-gsw.run").result()
    wait_sweeps(qtbot, panel)
    app.commands.execute_command("napari-gsw.stop").result()
    wait_done(qtbot, panel)


def test_uncertainty_is_live_and_right(panel, qtbot):
    viewer = panel.viewer
    viewer.add_image(small(), name="m", scale=(2, 3))
    panel.form.controls["sweeps"].set_value(200)
    click(qtbot, panel.display.layer_boxes["boundary"])
    click(qtbot, panel.display.layer_boxes["entropy"])
    click(qtbot, panel.run_button)
    wait_done(qtbot, panel)
    api = gsw.segment(small(), sweeps=200, spacing=(2, 3))
    wait_for(qtbot, lambda: "m [entropy]" in viewer.layers)
    assert np.allclose(viewer.layers["m [boundary]"].data, api.boundary)
    assert np.allclose(viewer.layers["m [entropy]"].data, api.uncertainty)
    assert np.array_equal(viewer.layers["m [entropy]"].scale, (2, 3))
    del viewer.layers["m [entropy]"]
    assert not panel.display.layer_boxes["entropy"].isChecked()
    click(qtbot, panel.display.layer_boxes["boundary"])
    assert not viewer.layers["m [boundary]"].visible


@pytest.mark.slow
def test_several_chains_have_lines_of_their_own(panel, qtbot):
    panel.viewer.add_image(small())
    panel.form.controls["sweeps"].set_value(60)
    panel.form.controls["chains"].set_value(3)
    click(qtbot, panel.run_button)
    wait_done(qtbot, panel)
    assert len(panel.trace._values) == 3
    assert len({line.opts["pen"].color().name() for line in panel.trace._values}) == 3
    api = gsw.segment(small(), sweeps=60, chains=3)
    assert same_partition(panel.viewer.layers[-1].data, api.labels)
    best = panel.trace.best.getData()
    assert best[1][0] == pytest.approx(api.snapshot.best.log_posterior)


def test_a_click_on_the_trace_shows_that_moment(panel, qtbot):
    from qtpy.QtCore import Qt

    panel.viewer.add_image(small(), name="m")
    panel.form.controls["sweeps"].set_value(120)
    click(qtbot, panel.run_button)
    wait_done(qtbot, panel)
    best = panel.viewer.layers["m [GSW]"].data.copy()
    qtbot.wait(100)
    box = panel.trace.upper.getViewBox()
    place = panel.trace.mapFromScene(box.mapViewToScene(box.viewRect().center()))
    qtbot.mouseClick(panel.trace.viewport(), Qt.MouseButton.LeftButton, pos=place)
    wait_for(qtbot, lambda: panel.session.canvas.viewing is not None)
    kept = np.array(panel.session.array_run.interactive.history.sweeps)
    clicked = box.mapSceneToView(panel.trace.mapToScene(place)).x()
    assert clicked == pytest.approx(60.6, abs=1)  # the middle of the axis, to the pixel
    assert panel.session.canvas.viewing == kept[np.abs(kept - clicked).argmin()]
    assert panel.trace_section.viewing_text.text() == f"Viewing sweep {panel.session.canvas.viewing}"
    sweep, numbers = panel.session.array_run.interactive.history.nearest(panel.session.canvas.viewing)
    assert sweep == panel.session.canvas.viewing
    assert np.array_equal(panel.viewer.layers["m [GSW]"].data, panel.session.array_run.paint(numbers))
    click(qtbot, panel.trace_section.back_button)
    assert np.array_equal(panel.viewer.layers["m [GSW]"].data, best)
    assert not panel.trace_section.viewing.isVisible()
    panel.session.canvas.view_sweep(3)
    click(qtbot, panel.trace_section.from_here)
    wait_for(qtbot, lambda: panel.session.run is None)
    assert same_partition(
        panel.session.array_run.interactive.display_labels, panel.session.array_run.interactive.history.nearest(3)[1]
    )


@pytest.mark.slow
def test_trace_as_csv_and_png(panel, qtbot, tmp_path):
    panel.viewer.add_image(small())
    panel.form.controls["sweeps"].set_value(20)
    click(qtbot, panel.run_button)
    wait_done(qtbot, panel)
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


def test_hovering_tells_about_the_region(panel, qtbot):
    viewer = panel.viewer
    viewer.add_image(small(), name="m")
    panel.form.controls["sweeps"].set_value(60)
    click(qtbot, panel.run_button)
    wait_done(qtbot, panel)
    labels = viewer.layers["m [GSW]"]
    viewer.cursor.position = (60, 80)
    number = int(labels.data[60, 80])
    inside = labels.data == number
    panel.display.layer_boxes["regions"].setChecked(False)
    wait_for(qtbot, lambda: panel.session.run is None)
    viewer.cursor.position = (60, 81)
    assert panel.region.text().startswith(f"Cluster {number}: {inside.sum():,} pixels ({100 * inside.mean():.1f}%)")
    panel.display.layer_boxes["regions"].setChecked(True)
    regions = viewer.layers["m [regions]"]
    here = int(regions.data[60, 81])  # what is outlined is told about, as soon as it is measured
    wait_for(qtbot, lambda: panel.region.text().startswith(f"Region {here}: {(regions.data == here).sum():,} pixels"))
    measures = regions.features
    regions.features = measures[["index"]]  # of another plugin
    viewer.cursor.position = (60, 82)
    assert panel.region.text().startswith("Cluster ")
    regions.features = measures
    table = labels.features.set_index("index")
    assert table.loc[number, "pixels"] == inside.sum()
    assert table.loc[number, "red"] == pytest.approx(small()[inside, 0].mean())
    assert 0 <= table.loc[number, "stability"] <= 1
    assert set(table.loc[number, "neighbours"].split()) <= set(map(str, np.unique(labels.data)))


@pytest.mark.slow
def test_the_trace_follows_the_theme(panel):
    colours = set()
    for theme in ("dark", "light"):
        panel.viewer.theme = theme
        colours.add(panel.trace.backgroundBrush().color().name())
    assert len(colours) == 2


def test_the_panel_scrolls_on_a_small_screen(viewer, qtbot):
    viewer.window.resize(1366, 768)
    _, panel = viewer.window.add_plugin_dock_widget("napari-gsw", "GSW segmentation")
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


@pytest.mark.slow
def test_a_superpixel_layer_of_ones_own(panel, qtbot):
    viewer = panel.viewer
    viewer.add_image(small(), name="m")
    y, x = np.mgrid[:120, :160] // 8
    sites = (20 * y + x + 1).astype(np.int32)
    layer = viewer.add_labels(sites, name="squares")
    panel.sites.choose(layer)
    panel.form.controls["sweeps"].set_value(30)
    click(qtbot, panel.run_button)
    wait_done(qtbot, panel)
    assert same_partition(viewer.layers["m [GSW]"].data, gsw.segment(small(), sites=sites, sweeps=30).labels)
    layer.data[:8, :16] = 1  # merge two sites behind the panel's back: the next run sees it
    click(qtbot, panel.run_button)
    wait_done(qtbot, panel)
    assert panel.session.array_run.interactive.problem.n == 299


def test_preferences_set_the_panel_up(make_napari_viewer, monkeypatch, qtbot):
    from napari.settings import get_plugin_settings

    from napari_gsw.widgets.common.preferences import FALLBACK, PLUGIN, get_preference

    known = get_plugin_settings(PLUGIN).segmentation
    declared = {name: getattr(value, "value", value) for name, value in known.model_dump().items()}
    assert declared == FALLBACK
    monkeypatch.setattr(
        "napari_gsw.widgets.panel.panel.get_preference", lambda name: {**FALLBACK, "preset": "paper"}[name]
    )
    viewer = make_napari_viewer(show=True)
    _, panel = viewer.window.add_plugin_dock_widget("napari-gsw", "GSW segmentation")
    assert panel.form.settings() == gsw.preset("paper")
    assert get_preference("preset") == "general"
    panel.shut_down()


def test_volumes(panel, qtbot):
    image, truth = mosaic_3d()
    panel.viewer.add_image(image, name="v", scale=(2, 1, 1))
    assert panel.chooser.depth.isVisible()
    panel.form.controls["sweeps"].set_value(150)
    click(qtbot, panel.run_button)
    wait_done(qtbot, panel)
    labels = panel.viewer.layers["v [GSW]"]
    assert labels.data.shape == image.shape
    assert metrics.adjusted_rand(labels.data, truth) > 0.8
    same = gsw.segment(image, axes="ZYX", sweeps=150, view="clusters", spacing=(2, 1, 1))
    assert same_partition(labels.data, same.labels)


def test_consensus_range_and_detail(panel, qtbot):
    """What is known after the burn-in: a consensus, how far from it one may be, and regions of every fineness."""
    panel.viewer.add_image(small(), name="m")
    assert not panel.display.detail.isEnabled()
    panel.form.controls["chains"].set_value(2)
    panel.form.controls["sweeps"].set_value(60)
    click(qtbot, panel.run_button)
    wait_done(qtbot, panel)
    wait_for(qtbot, lambda: panel.display.detail.isEnabled())
    assert panel.agreement.line.text()
    assert panel.session.commands.view.show == "consensus"
    regions = panel.viewer.layers["m [regions]"]
    assert regions.editable
    interactive = panel.session.array_run.interactive
    for button in panel.display.shows.buttons():
        click(qtbot, button)
        show = button.property("show")
        wait_for(qtbot, lambda show=show: panel.session.frame.show == show and panel.session.run is None)
        assert same_partition(panel.viewer.layers["m [GSW]"].data, interactive.problem.paint(interactive.shown(show)))
    for value in (0, 50, 100):
        panel.display.detail.setValue(value)
        wanted = interactive.problem.paint(interactive.summary.labels_at_detail(value / 100))
        wait_for(qtbot, lambda wanted=wanted: same_partition(regions.data, wanted))
        assert not panel.display.auto_detail.isChecked()
        count = len(np.unique(wanted))
        number = f"{count:,} region{'' if count == 1 else 's'}"
        wait_for(qtbot, lambda number=number: panel.display.detail_count.text() == number)
    click(qtbot, panel.display.auto_detail)
    wait_for(qtbot, lambda: same_partition(regions.data, interactive.summary.labels))
    click(qtbot, panel.display.layer_boxes["regions"])
    assert not regions.visible
    panel.viewer.layers.remove(regions)
    click(qtbot, panel.display.layer_boxes["regions"])
    wait_for(qtbot, lambda: any(x.name == "m [regions]" for x in panel.viewer.layers))


@pytest.mark.slow
def test_detail_is_forgotten_at_reset_and_at_another_image(panel, qtbot):
    panel.viewer.add_image(small(), name="m")
    panel.form.controls["sweeps"].set_value(40)
    for forget in (lambda: click(qtbot, panel.reset_button), lambda: panel.viewer.add_image(small()[::-1], name="n")):
        click(qtbot, panel.run_button)
        wait_done(qtbot, panel)
        wait_for(qtbot, lambda: panel.display.detail.isEnabled())
        panel.display.detail.setValue(90)
        wait_for(qtbot, lambda: panel.session.run is None)
        assert panel.session.commands.view.detail == 0.9
        forget()
        if panel.session.continues:
            panel.choose_image(panel.viewer.layers["n"])
            click(qtbot, panel.run_button)
            wait_done(qtbot, panel)
        wait_for(qtbot, lambda: panel.session.commands.view.detail is None)
        assert panel.display.auto_detail.isChecked()


def test_the_microscopy_preset_outlines_objects(panel, qtbot):
    from pictures import cells

    panel.viewer.add_image(cells()[0], name="cells")
    click(qtbot, panel.presets.button("microscopy"))
    click(qtbot, panel.run_button)
    wait_done(qtbot, panel)
    wait_for(qtbot, lambda: "7 objects" in panel.progress.status.text())
    api = gsw.segment(cells()[0], preset="microscopy")
    assert np.array_equal(panel.viewer.layers["cells [regions]"].data, api.labels)


@pytest.mark.slow
def test_superpixels_that_are_ticked_before_the_run_are_outlined_and_again_after_a_reset(panel, viewer, qtbot):
    viewer.add_image(mosaic()[0][:60, :80], name="m")
    panel.form.controls["sweeps"].set_value(10)
    click(qtbot, panel.display.show_sites)
    for _ in range(2):
        click(qtbot, panel.run_button)
        wait_done(qtbot, panel)
        outlines = [layer for layer in viewer.layers if layer.name.endswith("[superpixels]")]
        assert len(outlines) == 1
        assert outlines[0].data.any()
        panel.reset()
        wait_for(qtbot, lambda: panel.run_button.text() == "Run" and panel.run_button.isEnabled())


def test_a_table_is_of_what_is_shown_when_the_regions_are_hidden(panel, viewer, qtbot):
    viewer.add_image(mosaic()[0][:60, :80], name="m")
    panel.form.controls["sweeps"].set_value(20)
    click(qtbot, panel.run_button)
    wait_done(qtbot, panel)
    regions, labels = (next(x for x in viewer.layers if x.name.endswith(f"[{kind}]")) for kind in ("regions", "GSW"))
    wait_for(qtbot, lambda: "area" in regions.features.columns)
    click(qtbot, panel.display.layer_boxes["regions"])
    click(qtbot, panel.run_button)
    wait_done(qtbot, panel)
    wait_for(qtbot, lambda: "solidity" in labels.features.columns)
    assert sorted(labels.features["index"]) == [number for number in np.unique(labels.data) if number]
    assert "index" not in regions.features.columns
