"""Slices of a stack that share their labels, in the window."""

from __future__ import annotations

import json

import numpy as np
import pytest

import napari_gsw as gsw
from gui_actions import click, wait_done, wait_for
from napari_gsw.core.posterior.regions import make_boundary_image
from napari_gsw.sample_data import sample

pytest.importorskip("napari")
pytest.importorskip("pytestqt")


def striped(shifts=(0, 8, 16), seed=0):
    """Slices of two noisy grey levels whose border moves."""
    rng = np.random.default_rng(seed)
    planes = [np.where(np.arange(50) < 15 + s, 60.0, 160.0) + rng.normal(0, 8, (40, 50)) for s in shifts]
    return np.stack(planes).clip(0, 255).astype(np.uint8)


def as_slices(panel, how):
    chooser = panel.chooser
    chooser.depth.setCurrentIndex(chooser.depth.findData(how))
    chooser.depth.activated.emit(chooser.depth.currentIndex())


def run(panel, qtbot, sweeps=25):
    panel.form.controls["sweeps"].set_value(sweeps)
    click(qtbot, panel.run_button)
    wait_done(qtbot, panel)


@pytest.mark.parametrize("linked", [False, True])
def test_a_stack_has_boundaries_where_its_slices_have_them(linked):
    planes = list(striped())
    result = gsw.segment(planes, sweeps=30, linked=linked)
    stack = result.problem.stacked()
    assert np.array_equal(stack.paint(result.clusters), np.stack(result.labels))
    edges = make_boundary_image(stack, result.snapshot.together)
    if linked:  # a pixel also lies beside those above and below
        assert (edges >= np.stack(result.boundary)).all()
    else:
        assert np.array_equal(edges, np.stack(result.boundary))


@pytest.mark.gui
@pytest.mark.parametrize("how", ["shared", "linked"])
def test_slices_with_shared_labels_are_what_segment_makes_of_a_list(panel, qtbot, how, tmp_path):
    stack = striped()
    panel.viewer.add_image(stack, name="s", axis_labels=("z", "y", "x"))
    as_slices(panel, how)
    run(panel, qtbot)
    settings = gsw.preset("general", axes="YX", sweeps=25, regroups=1, hot=4.0)
    expected = gsw.segment(list(stack), settings, linked=how == "linked")
    interactive = panel.session.array_run.interactive
    assert np.array_equal(interactive.summary.clusters, expected.clusters)
    labels = panel.viewer.layers["s [GSW]"].data
    assert labels.shape == stack.shape
    assert len({labels[z, 20, 3] for z in range(3)}) == len({labels[z, 20, 47] for z in range(3)}) == 1
    assert labels[0, 20, 3] != labels[0, 20, 47]
    panel.export.export(tmp_path)
    wait_for(qtbot, lambda: (tmp_path / "labels.provenance.json").exists() or (tmp_path / "provenance.json").exists())
    record = json.loads(next(tmp_path.glob("*provenance.json")).read_text())
    assert record["given"] == {"shared slices": True, "linked": how == "linked"}
    assert record["settings"]["hot"] == 4.0


@pytest.mark.gui
def test_a_stroke_in_one_slice_names_the_cluster_in_all(panel, qtbot):
    volume, truth = sample("mosaic_3d")
    panel.viewer.add_image(volume[4:20:4], name="m", axis_labels=("z", "y", "x"))
    as_slices(panel, "linked")
    seeds = np.zeros(volume[4:20:4].shape, np.uint8)
    seeds[1] = np.where(np.random.default_rng(0).random(truth[8].shape) < 0.03, truth[8], 0)
    panel.seeds.seeds.follow([*panel.viewer.layers, panel.viewer.add_labels(seeds, name="painted")])
    panel.seeds.seeds.choose(panel.viewer.layers["painted"])
    run(panel, qtbot, 60)
    labels = panel.viewer.layers["m [GSW]"]
    known = truth[4:20:4]
    assert min((labels.data[z] == known[z]).mean() for z in range(4)) > 0.95
    panel.viewer.dims.set_point(0, 1)
    labels.selected_label, labels.brush_size = 33, 5
    labels.paint((1, 50, 50), 33)
    wait_for(
        qtbot, lambda: panel.session.run is None and (panel.session.array_run.interactive.display_labels == 33).any()
    )


@pytest.mark.gui
@pytest.mark.slow
def test_slices_outside_the_mask_stay_empty(panel, qtbot):
    stack = striped((0, 4, 8, 12))
    mask = np.zeros(stack.shape, np.uint8)
    mask[1:3, 5:35, 5:45] = 1
    panel.viewer.add_image(stack, name="s", axis_labels=("z", "y", "x"))
    region = panel.viewer.add_labels(mask, name="inside")
    as_slices(panel, "shared")
    panel.chooser.where.choose(region)
    run(panel, qtbot)
    assert np.array_equal(panel.viewer.layers["s [GSW]"].data > 0, mask > 0)


@pytest.mark.gui
@pytest.mark.slow
def test_another_way_to_take_the_stack_is_another_problem(panel, qtbot):
    panel.viewer.add_image(striped(), name="s", axis_labels=("z", "y", "x"))
    as_slices(panel, "shared")
    run(panel, qtbot, 10)
    before = panel.session.array_run.interactive.problem
    run(panel, qtbot, 10)
    assert panel.session.array_run.interactive.problem is before
    as_slices(panel, "linked")
    run(panel, qtbot, 10)
    after = panel.session.array_run.interactive.problem
    assert len(after.edges) > len(before.edges)
    as_slices(panel, 3)
    run(panel, qtbot, 10)
    assert panel.session.array_run.interactive.problem.n != before.n
