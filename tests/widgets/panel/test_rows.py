"""Rows of a run: stages, progress, convergence."""

from __future__ import annotations

import numpy as np
import pytest

import napari_gsw as gsw
from gui_actions import click, run, start, wait_done, wait_for, wait_sweeps
from napari_gsw.sample_data import mosaic
from napari_gsw.widgets.layers.layer_metadata import SETTLED, VERDICT
from napari_gsw.widgets.panel.rows import STAGES, split_figures

pytest.importorskip("napari")
pytest.importorskip("pytestqt")
pytestmark = pytest.mark.gui


@pytest.fixture
def image():
    return mosaic()[0][:80, :100]


def test_every_stage_has_a_text_and_a_bar(panel, monkeypatch):
    from napari_gsw.core.jit import PROGRESS
    from napari_gsw.core.pipeline.prepare import Stage
    from napari_gsw.core.pipeline.warm_up import N_KERNELS
    from napari_gsw.widgets.session.run_worker import RunController

    bar, status = panel.progress.bar, panel.progress.status
    for name, title in STAGES.items():
        monkeypatch.setattr(RunController, "stage", Stage(name))
        panel.progress.refresh("")
        assert status.text() == f"{title} ..."
        assert (bar.minimum(), bar.maximum()) == (0, 0)
        monkeypatch.setattr(RunController, "stage", Stage(name, 1200, 3600))
        panel.progress.refresh("")
        assert status.text().startswith(f"{title}: ")
        assert status.text().endswith("1,200 of 3,600")
        assert (bar.value(), bar.maximum()) == (1200, 3600)
    # Whatever stage it is at, it may wait for the compiler.
    monkeypatch.setattr(PROGRESS, "depth", 1)
    monkeypatch.setattr(PROGRESS, "count", 12)
    for stage in (None, Stage("features")):
        monkeypatch.setattr(RunController, "stage", stage)
        panel.progress.refresh("")
        assert status.text() == f"Compiling, once on this machine: 12 of {N_KERNELS}"


def test_one_chain_does_not_reassure_and_several_are_one_click_away(panel, qtbot, image):
    line, box = panel.agreement.line, panel.display.layer_boxes["entropy"]
    panel.viewer.add_image(image, name="m")
    assert line.text() == ""
    click(qtbot, box)
    run(panel, qtbot, sweeps=60)
    assert line.text().startswith("One chain")
    assert "agree" not in line.text()
    assert "R-hat" not in line.text()
    assert box.text() == "Entropy (unsettled)"
    assert "Not settled: one chain" in box.toolTip()
    metadata = panel.viewer.layers["m [entropy]"].metadata
    assert metadata[SETTLED] is False
    assert split_figures(metadata[VERDICT])[0] == line.text()
    click(qtbot, panel.agreement.several)
    wait_for(qtbot, lambda: panel.session.array_run.interactive.settings.chains == 4)
    wait_done(qtbot, panel)
    assert panel.form.settings().chains == 4
    interactive = panel.session.array_run.interactive
    # They began apart, and not from the result of the one chain: the result is that of four chains.
    assert len({trace[0].tobytes() for trace in interactive.traces}) > 1
    assert np.array_equal(interactive.summary.labels, gsw.segment(image, sweeps=60, chains=4).labels)
    provenance = panel.session.array_run.provenance()
    assert provenance["reproducible"] is True
    assert provenance["given"] == {}
    wait_for(qtbot, lambda: not panel.agreement.several.isVisible())
    assert line.text()


@pytest.mark.slow
def test_several_chains_end_a_run_and_keep_the_locks(panel, qtbot, image):
    panel.viewer.add_image(image, name="m")
    start(panel, qtbot, sweeps=1_000_000, burn_in=0.0)
    wait_sweeps(qtbot, panel)
    position = panel.session.position
    panel.session.submit(position, lambda interactive: interactive.paint(np.arange(4), 9, lock=True))
    wait_for(qtbot, lambda: panel.session.frame.locks.sum() == 4 and panel.agreement.several.isVisible())
    click(qtbot, panel.agreement.several)
    wait_for(qtbot, lambda: len(panel.session.frame.traces) == 4)
    assert panel.session.state == "running"
    interactive = panel.session.array_run.interactive
    assert np.array_equal(np.flatnonzero(interactive.locks), np.arange(4))
    assert (interactive.display_labels[:4] == 9).all()
    click(qtbot, panel.stop_button)
    wait_done(qtbot, panel)
