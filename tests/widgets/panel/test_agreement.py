"""What the window says of one chain and of several, and the button between the two."""

from __future__ import annotations

import numpy as np
import pytest

import napari_gsw as gsw
from gui_actions import click, wait_done, wait_for, wait_sweeps
from napari_gsw.sample_data import mosaic
from napari_gsw.widgets.layers.layer_metadata import SETTLED, VERDICT
from napari_gsw.widgets.panel.rows import split_figures

pytest.importorskip("napari")
pytest.importorskip("pytestqt")
pytestmark = pytest.mark.gui


@pytest.fixture
def image():
    return mosaic()[0][:80, :100]


def ran(panel, qtbot, sweeps, **changes):
    for name, value in (changes | {"sweeps": sweeps}).items():
        panel.form.controls[name].set_value(value)
    click(qtbot, panel.run_button)
    wait_done(qtbot, panel)


def test_one_chain_does_not_reassure_and_several_are_one_click_away(panel, qtbot, image):
    panel.viewer.add_image(image, name="m")
    assert panel.agreement.line.text() == ""
    click(qtbot, panel.display.layer_boxes["entropy"])
    ran(panel, qtbot, 60)
    assert panel.agreement.line.text().startswith("One chain")
    assert "agree" not in panel.agreement.line.text()
    assert "stationary" in panel.agreement.line.text() or "not converged" in panel.agreement.line.text()
    assert panel.display.layer_boxes["entropy"].text() == "Entropy (unsettled)"
    assert "Not settled: one chain" in panel.display.layer_boxes["entropy"].toolTip()
    layer = panel.viewer.layers["m [entropy]"]
    assert layer.metadata[SETTLED] is False
    assert split_figures(layer.metadata[VERDICT])[0] == panel.agreement.line.text()
    assert "R-hat" not in panel.agreement.line.text()
    click(qtbot, panel.agreement.several)
    wait_for(qtbot, lambda: panel.session.array_run.interactive.settings.chains == 4)
    wait_done(qtbot, panel)
    assert panel.form.settings().chains == 4
    interactive = panel.session.array_run.interactive
    # They began apart, and not from what the one chain had come to: the result is that of four chains.
    assert len({chain.tobytes() for chain in (trace[0] for trace in interactive.traces)}) > 1
    api = gsw.segment(image, sweeps=60, chains=4)
    assert np.array_equal(interactive.summary.labels, api.labels)
    kept = panel.session.array_run.provenance()
    assert kept["reproducible"] is True
    assert kept["given"] == {}
    wait_for(qtbot, lambda: not panel.agreement.several.isVisible())
    assert "chains agree" in panel.agreement.line.text() or "not converged" in panel.agreement.line.text()


@pytest.mark.slow
def test_the_button_ends_a_run_and_keeps_the_locks(panel, qtbot, image):
    panel.viewer.add_image(image, name="m")
    panel.form.controls["sweeps"].set_value(1_000_000)
    panel.form.controls["burn_in"].set_value(0.0)
    click(qtbot, panel.run_button)
    wait_sweeps(qtbot, panel)
    position = panel.session.position
    panel.session.commands.submit(position, lambda interactive: interactive.paint(np.arange(4), 9, lock=True))
    wait_for(qtbot, lambda: panel.session.frame.locks.sum() == 4 and panel.agreement.several.isVisible())
    click(qtbot, panel.agreement.several)
    wait_for(qtbot, lambda: len(panel.session.frame.traces) == 4)
    assert panel.session.state == "running"
    interactive = panel.session.array_run.interactive
    assert np.array_equal(np.flatnonzero(interactive.locks), np.arange(4))
    assert (interactive.display_labels[:4] == 9).all()
    click(qtbot, panel.stop_button)
    wait_done(qtbot, panel)


@pytest.mark.slow
def test_pictures_are_settled_when_several_chains_agree(panel, qtbot, image, monkeypatch):
    from napari_gsw.core.posterior.summary import Summary

    panel.viewer.add_image(image, name="m")
    click(qtbot, panel.display.layer_boxes["boundary"])
    monkeypatch.setattr(Summary, "settled", property(lambda summary: summary.is_estimated and len(summary.traces) > 1))
    ran(panel, qtbot, 60, chains=2)
    assert panel.display.layer_boxes["boundary"].text() == "Boundary"
    assert panel.viewer.layers["m [boundary]"].metadata[SETTLED] is True
    assert not panel.agreement.several.isVisible()
