"""The settings form: controls, presets, sections, input maps, and what a run would begin with."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from qtpy.QtCore import Qt
from skimage.segmentation import find_boundaries

import napari_gsw as gsw
from gui_actions import click, run
from napari_gsw.core.features.network import has_onnxruntime
from napari_gsw.core.model.priors import PartitionPrior
from napari_gsw.core.pipeline.prepare import NETWORK_SECTIONS, NETWORK_SETTINGS, is_replaced_by_network
from napari_gsw.core.settings import SECTIONS, setting_fields
from napari_gsw.sample_data import mosaic, random_mosaic
from napari_gsw.scores import partitions as metrics
from napari_gsw.widgets.panel.form import AT_ONCE, MAX_IN_BACKGROUND, ClusterEstimate
from pictures import cells

pytest.importorskip("napari")
pytest.importorskip("pytestqt")
gui = pytest.mark.gui

# ---- how many clusters the prior expects


@pytest.fixture
def threads(monkeypatch):
    """The threads in which sums are computed."""
    seen = []
    exact = PartitionPrior.expected_clusters

    def watched(self, n):
        seen.append(threading.current_thread())
        return exact(self, n)

    monkeypatch.setattr(PartitionPrior, "expected_clusters", watched)
    return seen


def test_a_formula_is_answered_at_once_and_no_answer_is_none(qtbot, monkeypatch):
    settings = gsw.preset("general", alpha=3.0, prior="dirichlet-process")
    assert ClusterEstimate().clusters(settings, 1_000_000) == gsw.DirichletProcess(3.0).expected_clusters(1_000_000)
    assert ClusterEstimate().clusters(gsw.preset("general", min_size=4, max_size=4), 7) is None
    monkeypatch.setattr(PartitionPrior, "expected_clusters", lambda self, n: 1 / 0)  # never called
    assert ClusterEstimate().clusters(gsw.preset("general", min_size=2), MAX_IN_BACKGROUND + 1) is None


def test_a_long_sum_is_computed_in_another_thread_and_kept(qtbot, threads):
    settings, sites = gsw.preset("general", prior="dirichlet-process", alpha=3.0, min_size=2), AT_ONCE + 20
    estimate = ClusterEstimate()
    with qtbot.waitSignal(estimate.answered, timeout=600_000):
        assert estimate.clusters(settings, sites) is None
        assert estimate.clusters(settings, sites) is None  # one at a time
    assert len(threads) == 1
    assert threads[0] is not threading.main_thread()
    assert estimate.clusters(settings, sites) == gsw.DirichletProcess(3.0).truncated(2).expected_clusters(sites)


def test_the_first_answer_never_holds_the_window_up(qtbot, threads):
    """The forecast loads what it needs: 0.28 s after a click, for a few hundred superpixels."""
    estimate, settings = ClusterEstimate(), gsw.preset("general", min_size=2)
    with qtbot.waitSignal(estimate.answered, timeout=600_000):
        assert estimate.clusters(settings, 50) is None
    assert threads[0] is not threading.main_thread()
    assert estimate.clusters(settings, 60) is not None  # from then on a short sum is computed at once


# ---- controls


@gui
def test_every_setting_has_a_plain_control_where_it_has_an_effect(panel):
    """All but the axes, which the head of the panel asks for, the spacing, which the layer's scale says, and the blocks
    of a large image, for scripts alone."""
    from napari_gsw.widgets.common.setting_widgets import TERMS

    form, controls = panel.form, panel.form.controls
    assert set(controls) == set(setting_fields()) - {"axes", "spacing", "block_pixels"}
    for name, control in controls.items():
        assert setting_fields()[name].help in control.toolTip()
        assert control.value() == getattr(gsw.preset("general"), name)
    assert set(form.sections) == set(SECTIONS) - {"image", "strokes"}  # whose controls stand beside the brush
    assert all(controls[name].parentWidget() is not None for name in ("steering", "painted_detail", "only_painted"))
    boxes = [control.box for control in controls.values() if hasattr(control.box, "itemText")]
    texts = [box.itemText(k) for box in boxes for k in range(box.count())]
    texts += [section.summary.text() for section in form.sections.values()]
    for word in ("Vi", "HSV", "Hsv", "Dirichlet", "Binder", "Run on"):
        assert not [text for text in texts if word in text], word
    tip = controls["prior"].box.itemData(0, Qt.ItemDataRole.ToolTipRole)
    assert tip == TERMS["dirichlet-process"]  # for those who look for it
    form.sections["prior"].unfold()
    for prior, shown, hidden in (("pitman-yor", ("alpha", "theta"), "K"), ("potts", ("K",), "alpha")):
        assert prior == "potts" or not controls["theta"].isVisible()
        controls["prior"].set_value(prior)
        assert all(controls[name].isVisible() for name in shown)
        assert not controls[hidden].isVisible()


@gui
def test_presets_fill_the_form_and_the_outlook_follows(panel, qtbot):
    panel.viewer.add_image(mosaic()[0], name="mosaic")
    general = panel.progress.status.text()
    assert general.startswith("About 512 sites; the prior expects")
    click(qtbot, panel.presets.buttons["paper"])
    assert panel.form.settings() == gsw.preset("paper")
    assert panel.progress.status.text() == "About 1,000 sites; the prior expects 18 clusters."
    assert "expects 18 clusters" in panel.form.sections["prior"].summary.text()
    click(qtbot, panel.presets.buttons["general"])
    assert panel.progress.status.text() == general


@gui
@pytest.mark.skipif(not has_onnxruntime(), reason="onnxruntime is not installed")
def test_settings_that_a_network_replaces_are_hidden(panel, qtbot):
    form, brightness = panel.form, cells()[0]
    for section in NETWORK_SECTIONS:
        form.sections[section].unfold()

    def shown():
        return {name for name in form.controls if is_replaced_by_network(name) and form.controls[name].isVisible()}

    flat = panel.viewer.add_image(brightness)
    click(qtbot, panel.presets.buttons["microscopy"])
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
    panel.viewer.add_image(np.stack([brightness[:64, :64]] * 8), axis_labels="zyx")  # not for volumes
    assert {"site_size", "K", "beta", "evidence"} <= shown()


# ---- input maps


@gui
def test_layers_become_maps_as_the_api_takes_them(viewer, panel, qtbot):
    image, truth = random_mosaic(np.random.default_rng(3), (60, 70))
    maps = {
        "features": np.random.default_rng(0).random((12, 60, 70)).astype(np.float32),
        "boundaries": (200 * find_boundaries(truth)).astype(np.uint8),
        "foreground": np.clip(truth / truth.max(), 0.1, 0.9),
    }
    layers = {name: viewer.add_image(a, name=name.upper()) for name, a in maps.items()}
    panel.chooser.image.choose(viewer.add_image(image, name="photo"))
    section, form = panel.form.sections["evidence"], panel.form
    assert not section.button.isChecked()  # folded
    assert section.summary.text() == "the image alone"
    for name, layer in layers.items():
        form.inputs[name].choose(layer)
    assert form.map_line.text().splitlines() == [
        "features: 12 channels on the first axis, to be reduced to 8 components",
        "boundaries: values 0 to 255 (guessed)",
        "foreground: values 0 to 1 (guessed)",
    ]
    assert section.summary.text() == "features FEATURES, boundaries BOUNDARIES, foreground FOREGROUND"
    run(panel, qtbot, sweeps=20)
    interactive = panel.session.array_run.interactive
    same = gsw.segment(image, axes="YXS", sweeps=20, **maps)
    assert np.array_equal(interactive.problem.fingerprint, same.problem.fingerprint)
    best = interactive.snapshot.best.labels
    assert metrics.variation_of_information(best, same.snapshot.best.labels) == pytest.approx(0)
    assert set(interactive.inputs) == set(maps)
    # Without one of them it is another problem, and a layer that goes is no longer chosen.
    viewer.layers.remove(layers["boundaries"])
    assert "boundaries" not in form.maps()
    run(panel, qtbot)
    assert set(panel.session.array_run.interactive.problem.maps) == {"features", "foreground"}


@gui
def test_maps_that_do_not_fit_are_refused_and_scale_is_the_spacing(viewer, panel):
    rng, boundaries = np.random.default_rng(0), panel.form.inputs["boundaries"]
    panel.chooser.image.choose(viewer.add_image(rng.random((40, 50)), name="cells"))
    boundaries.choose(viewer.add_image(rng.random((40, 51)), name="map"))
    assert "'map': boundaries must have the image's shape (40, 50)" in panel.reason.text()
    assert not panel.run_button.isEnabled()
    boundaries.choose(viewer.add_image(rng.random((3, 40, 50)), name="many"))
    assert "'many': boundaries must be one map, not 3 channels" in panel.reason.text()
    boundaries.choose(None)
    assert panel.run_button.isEnabled()
    for scale, spacing in ((2.5, 0.5, 0.5), "2.5,0.5,0.5"), ((0.5, 0.5, 0.5), "auto"):
        panel.chooser.image.choose(viewer.add_image(rng.random((6, 20, 20)), name="volume", scale=scale))
        assert panel._checked_plan().settings.spacing == spacing


@gui
@pytest.mark.slow
def test_a_session_brings_its_maps_back(viewer, panel, qtbot, tmp_path):
    image, lines = np.random.default_rng(0).random((2, 40, 50))
    result = gsw.segment(image, boundaries=lines, sweeps=10)
    path = gsw.save_session(tmp_path / "run.zarr.zip", result, image=image)
    with qtbot.waitSignal(panel.opening.opened, timeout=600_000):
        panel.opening.open(str(path))
    assert np.array_equal(panel.form.maps()["boundaries"].data, lines)
    run(panel, qtbot, alpha=2.0)  # another problem, with the same maps
    interactive = panel.session.array_run.interactive
    assert interactive.settings.alpha == 2.0
    assert np.array_equal(interactive.problem.beta, result.problem.beta)
