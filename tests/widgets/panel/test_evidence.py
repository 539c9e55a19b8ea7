"""The section Evidence: layers as features, boundaries and foreground."""

from __future__ import annotations

import numpy as np
import pytest
from skimage.segmentation import find_boundaries

import napari_gsw as gsw
from gui_actions import click, wait_done
from napari_gsw.sample_data import random_mosaic
from napari_gsw.scores import partitions as metrics

pytest.importorskip("napari")
pytest.importorskip("pytestqt")
pytestmark = pytest.mark.gui


def test_layers_become_evidence_as_the_call_takes_them(viewer, panel, qtbot):
    image, truth = random_mosaic(np.random.default_rng(3), (60, 70))
    features = np.random.default_rng(0).random((12, 60, 70)).astype(np.float32)
    lines = (200 * find_boundaries(truth)).astype(np.uint8)
    front = np.clip(truth / truth.max(), 0.1, 0.9)
    layers = [viewer.add_image(a, name=n) for n, a in (("deep", features), ("lines", lines), ("front", front))]
    panel.choose_image(viewer.add_image(image, name="photo"))
    section, rows = panel.form.sections["evidence"], panel.form.maps
    assert not section.button.isChecked()  # folded
    assert section.summary.text() == "the image alone"
    for name, layer in zip(("features", "boundaries", "foreground"), layers, strict=True):
        rows.combos[name].choose(layer)
    said = rows.line.text().splitlines()
    assert said[0] == "features: 12 channels on the first axis, to be reduced to 8 components"
    assert said[1] == "boundaries: values 0 to 255 (guessed)"
    assert said[2] == "foreground: values 0 to 1 (guessed)"
    assert section.summary.text() == "features deep, boundaries lines, foreground front"
    panel.form.controls["sweeps"].set_value(20)
    click(qtbot, panel.run_button)
    wait_done(qtbot, panel)
    interactive = panel.session.array_run.interactive
    maps = {"features": features, "boundaries": lines, "foreground": front}
    same = gsw.segment(image, axes="YXS", sweeps=20, **maps)
    assert np.array_equal(interactive.problem.fingerprint, same.problem.fingerprint)
    assert metrics.variation_of_information(
        interactive.snapshot.best.labels, same.snapshot.best.labels
    ) == pytest.approx(0)
    assert set(panel.session.array_run.interactive.inputs) == set(maps)
    # Without one of them it is another problem, and a layer that goes is no longer chosen.
    viewer.layers.remove(layers[1])
    assert "boundaries" not in rows.layers()
    click(qtbot, panel.run_button)
    wait_done(qtbot, panel)
    assert set(panel.session.array_run.interactive.problem.maps) == {"features", "foreground"}


def test_a_layer_that_does_not_fit_is_one_sentence(viewer, panel):
    panel.choose_image(viewer.add_image(np.random.default_rng(0).random((40, 50)), name="cells"))
    wrong = viewer.add_image(np.random.default_rng(0).random((40, 51)), name="map")
    panel.form.maps.combos["boundaries"].choose(wrong)
    assert "'map': boundaries must have the image's shape (40, 50)" in panel.reason.text()
    assert not panel.run_button.isEnabled()
    several = viewer.add_image(np.random.default_rng(0).random((3, 40, 50)), name="many")
    panel.form.maps.combos["boundaries"].choose(several)
    assert "'many': boundaries must be one map, not 3 channels" in panel.reason.text()
    panel.form.maps.combos["boundaries"].choose(None)
    assert panel.run_button.isEnabled()


@pytest.mark.slow
def test_a_map_of_a_stack_belongs_to_its_slices(viewer, panel, qtbot):
    stack = np.random.default_rng(0).random((2, 40, 50))
    lines = np.random.default_rng(1).random((2, 40, 50))
    panel.choose_image(viewer.add_image(stack, name="movie", axis_labels=("t", "y", "x")))
    panel.form.maps.combos["boundaries"].choose(viewer.add_image(lines, name="lines"))
    assert panel.reason.text() == ""
    panel.form.controls["sweeps"].set_value(5)
    click(qtbot, panel.run_button)
    wait_done(qtbot, panel)
    for position, run in panel.session.segmentation.array_runs.items():
        own = gsw.prepare(stack[position], boundaries=lines[position])
        assert np.array_equal(run.interactive.problem.beta, own.beta)


def test_the_scale_of_a_layer_is_the_distance_of_its_pixels(viewer, panel):
    volume = np.random.default_rng(0).random((6, 20, 20))
    panel.choose_image(viewer.add_image(volume, name="volume", scale=(2.5, 0.5, 0.5)))
    assert panel._checked_plan().settings.spacing == "2.5,0.5,0.5"
    panel.choose_image(viewer.add_image(volume, name="cubes", scale=(0.5, 0.5, 0.5)))
    assert panel._checked_plan().settings.spacing == "auto"


@pytest.mark.slow
def test_a_session_brings_its_maps_back(viewer, panel, qtbot, tmp_path):
    rng = np.random.default_rng(0)
    image, lines = rng.random((40, 50)), rng.random((40, 50))
    result = gsw.segment(image, boundaries=lines, sweeps=10)
    path = gsw.save_session(tmp_path / "run.zarr.zip", result, image=image)
    with qtbot.waitSignal(panel.opening.opened, timeout=600_000):
        panel.opening.open(str(path))
    assert np.array_equal(panel.form.maps.layers()["boundaries"].data, lines)
    panel.form.controls["alpha"].set_value(2.0)  # another problem, of the same maps
    click(qtbot, panel.run_button)
    wait_done(qtbot, panel)
    interactive = panel.session.array_run.interactive
    assert interactive.settings.alpha == 2.0
    assert np.array_equal(interactive.problem.beta, result.problem.beta)
