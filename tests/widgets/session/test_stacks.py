"""Stacks, channels, time, the visible part and regions of interest, as they come in napari."""

from __future__ import annotations

import dataclasses
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
import tifffile

import napari_gsw as gsw
from gui_actions import click, wait_done, wait_for
from napari_gsw.core.interactive.interactive_run import InteractiveRun
from napari_gsw.sample_data import mosaic
from napari_gsw.scores.partitions import variation_of_information

pytest.importorskip("napari")
pytest.importorskip("pytestqt")


def flat(height=40, width=50, seed=0):
    """Two grey halves with noise."""
    rng = np.random.default_rng(seed)
    image = np.where(np.arange(width) < width // 2, 60.0, 160.0) + rng.normal(0, 12, (height, width))
    return image.clip(0, 255).astype(np.uint8)


def same(a, b):
    return variation_of_information(a, b) == pytest.approx(0, abs=1e-9)


def few(panel, sweeps=25):
    panel.form.controls["sweeps"].set_value(sweeps)


# ---- the source alone, without a window


@pytest.fixture
def model():
    from napari.components import ViewerModel

    return ViewerModel()


def source(model, layer, **more):
    from napari_gsw.widgets.layers.cursor import get_view_position
    from napari_gsw.widgets.layers.image_source import ImageSource

    return ImageSource(layer, **{**get_view_position(model, layer), **more})


def test_axes_of_every_kind(model):
    cases = [
        (dict(), (40, 50), dict(), "YX", (40, 50), [()]),
        (dict(rgb=True), (40, 50, 3), dict(), "YXS", (40, 50), [()]),
        (dict(), (5, 40, 50), dict(depth=3), "ZYX", (5, 40, 50), [()]),
        (dict(), (3, 40, 50), dict(channel_axis=0), "CYX", (40, 50), [()]),
        (dict(), (3, 40, 50), dict(), "YX", (3, 40, 50), [(0,), (1,), (2,)]),
        (dict(), (2, 3, 40, 50), dict(depth=3), "ZYX", (2, 3, 40, 50), [(0,), (1,)]),
        (dict(), (2, 3, 40, 50), dict(channel_axis=1), "CYX", (2, 1, 40, 50), [(0,), (1,)]),
        (dict(), (2, 3, 4, 8, 9), dict(channel_axis=1, depth=3), "CZYX", (2, 1, 4, 8, 9), [(0,), (1,)]),
        (dict(rgb=True), (2, 40, 50, 3), dict(), "YXS", (2, 40, 50), [(0,), (1,)]),
    ]
    for look, shape, how, axes, labels, positions in cases:
        data = np.arange(np.prod(shape)).reshape(shape).astype(np.uint8 if look else np.uint16)
        layer = model.add_image(data, **look)
        chosen = source(model, layer, **how)
        chosen.check()
        assert chosen.axes == axes, shape
        assert chosen.label_shape == labels, shape
        assert chosen.positions == positions, shape
        first = chosen.image(positions[-1])
        assert first.ndim == len(axes)
        assert np.zeros(labels)[chosen.index(positions[-1])].shape == chosen.space


def test_labels_lie_on_the_image_beside_every_channel(model):
    layer = model.add_image(np.zeros((2, 4, 10, 12)), scale=(1, 2, 3, 4), translate=(0, 1, 2, 3))
    chosen = source(model, layer, channel_axis=1)
    labels = model.add_labels(np.ones(chosen.label_shape, np.uint16), **chosen.geometry())
    for channel in range(4):
        here = layer.data_to_world((1, channel, 5, 6))
        assert labels.get_value(here, world=True) == 1
        assert np.allclose(np.asarray(labels.world_to_data(here))[[0, 2, 3]], (1, 5, 6))


def test_the_visible_part_lies_where_it_was(model):
    rotated = model.add_image(np.zeros((100, 120)), scale=(2, 3), translate=(5, 6), rotate=30)
    chosen = source(model, rotated, where="view", corners=((10, 20), (49, 79)))
    chosen.check()
    assert chosen.space == (40, 60)
    labels = model.add_labels(np.ones(chosen.label_shape, np.uint16), **chosen.geometry())
    assert np.allclose(labels.data_to_world((0, 0)), rotated.data_to_world((10, 20)))
    assert np.allclose(labels.data_to_world((7, 9)), rotated.data_to_world((17, 29)))


def test_shapes_of_another_scale_make_the_right_mask(model):
    image = model.add_image(np.zeros((100, 120)), scale=(2, 2), translate=(10, 20))
    box = np.array([[30, 40], [30, 100], [90, 100], [90, 40]], float)  # world
    shapes = model.add_shapes([box], shape_type="rectangle")
    mask = source(model, image, mask=shapes).mask_at(())
    rows, columns = np.nonzero(mask)
    assert (rows.min(), rows.max()) == (10, 40)
    assert (columns.min(), columns.max()) == (10, 40)
    round_one = model.add_shapes([box], shape_type="ellipse")
    disc = source(model, image, mask=round_one).mask_at(())
    assert disc.sum() == pytest.approx(np.pi * 15**2, rel=0.05)


def test_what_does_not_fit_says_so(model):
    from napari_gsw.widgets.layers.image_source import ImageSource

    image = model.add_image(np.zeros((2, 2, 3, 8, 9)), name="five")
    with pytest.raises(gsw.InputError, match="which of its axes holds channels"):
        source(model, image, depth=3).check()
    source(model, image, depth=3, channel_axis=2).check()
    empty = model.add_image(np.zeros((4, 5)), name="e")
    with pytest.raises(gsw.InputError, match="another shape"):
        source(model, empty, channels=(image,)).check()
    with pytest.raises(gsw.InputError, match="nothing of 'e' is visible"):
        source(model, empty, where="view", corners=((9, 9), (20, 20))).check()
    # napari itself cannot show an empty array, but a layer may be given one.
    nothing = SimpleNamespace(name="none", data=np.zeros((4, 0)), ndim=2, multiscale=False, rgb=False)
    with pytest.raises(gsw.InputError, match="'none' has no pixel"):
        ImageSource(nothing).check()


# ---- in the window


@pytest.mark.gui
def test_a_stack_slice_by_slice(panel, qtbot, tmp_path):
    stack = np.stack([flat(seed=s) for s in range(3)])
    panel.viewer.add_image(stack, name="t", axis_labels=("t", "y", "x"), scale=(1, 0.5, 0.5))
    assert panel.chooser.depth.currentData() == 2  # time is not space
    few(panel)
    click(qtbot, panel.run_button)
    wait_done(qtbot, panel)
    labels = panel.viewer.layers["t [GSW]"]
    assert labels.data.shape == stack.shape
    for t in range(3):
        assert same(labels.data[t], gsw.segment(stack[t], axes="YX", sweeps=25).labels)
    # What goes on through the stack keeps its number.
    assert labels.data[0, 20, 5] == labels.data[1, 20, 5] == labels.data[2, 20, 5]
    panel.export.export(tmp_path)
    wait_for(qtbot, lambda: (tmp_path / "labels.tif").exists())
    with tifffile.TiffFile(tmp_path / "labels.tif") as file:
        assert file.series[0].axes == "TYX"
        assert file.series[0].shape == stack.shape
    assert (tmp_path / "002.trace.csv").exists()


@pytest.mark.gui
@pytest.mark.slow
def test_this_slice_only_then_another(panel, qtbot):
    stack = np.stack([flat(seed=s) for s in range(4)])
    viewer = panel.viewer
    viewer.add_image(stack, name="s", axis_labels=("z", "y", "x"))
    panel.chooser.depth.setCurrentIndex(panel.chooser.depth.findData(2))
    panel.chooser.depth.activated.emit(1)
    panel.chooser.where.choose("slice")
    viewer.dims.set_point(0, 2)
    few(panel)
    click(qtbot, panel.run_button)
    wait_done(qtbot, panel)
    labels = viewer.layers["s [GSW]"]
    assert [bool(labels.data[z].any()) for z in range(4)] == [False, False, True, False]
    viewer.dims.set_point(0, 0)
    panel.chooser.where.chosen.emit()
    click(qtbot, panel.run_button)
    wait_for(qtbot, lambda: labels.data[0].any())
    wait_done(qtbot, panel)
    assert same(labels.data[0], gsw.segment(stack[0], axes="YX", sweeps=25).labels)
    assert same(labels.data[2], gsw.segment(stack[2], axes="YX", sweeps=25).labels)
    # A stroke goes to the slice it was made on.
    labels.selected_label = 33
    labels.brush_size = 9
    labels.paint((0, 20, 10), 33)
    wait_for(
        qtbot,
        lambda: (
            panel.session.run is None
            and (panel.session.segmentation.array_runs[(0,)].interactive.display_labels == 33).any()
        ),
    )
    assert not (panel.session.segmentation.array_runs[(2,)].interactive.display_labels == 33).any()


@pytest.mark.gui
def test_channels_in_one_layer_and_in_several(panel, qtbot):
    red, green = flat(seed=1), flat(seed=2).T[:40, :40].repeat(2, axis=1)[:, :50]
    both = np.stack((red, green))
    expected = gsw.segment(both, axes="CYX", sweeps=25).labels
    viewer = panel.viewer
    one = viewer.add_image(both, name="one", axis_labels=("c", "y", "x"))
    panel.chooser.image.choose(one)
    few(panel)
    assert panel.chooser.channel_axis.currentData() == 0
    click(qtbot, panel.run_button)
    wait_done(qtbot, panel)
    assert same(viewer.layers["one [GSW]"].data, expected)
    first, second = viewer.add_image(red, name="red"), viewer.add_image(green, name="green")
    panel.chooser.image.choose(first)
    action = next(a for a in panel.chooser.also.menu().actions() if a.text() == "green")
    action.trigger()
    assert panel.chooser.also.text() == "With green"
    click(qtbot, panel.run_button)
    wait_for(qtbot, lambda: "red [GSW]" in viewer.layers)
    wait_done(qtbot, panel)
    assert same(viewer.layers["red [GSW]"].data, expected)
    assert {"red", "green"} <= set(viewer.layers["red [GSW]"].features.columns)
    assert second in viewer.layers


@pytest.mark.gui
@pytest.mark.slow
def test_the_visible_part_only(panel, qtbot):
    viewer = panel.viewer
    image = mosaic()[0]
    layer = viewer.add_image(image, name="m", scale=(2, 2), translate=(7, 9))
    viewer.camera.center = (0, 7 + 2 * 120, 9 + 2 * 160)
    viewer.camera.zoom *= 3
    qtbot.wait(200)
    panel.chooser.where.choose("view")
    few(panel)
    click(qtbot, panel.run_button)
    wait_done(qtbot, panel)
    labels = viewer.layers["m [GSW]"]
    assert labels.data.size < image[..., 0].size / 2
    start = np.round(layer.world_to_data(labels.data_to_world((0, 0)))).astype(int)
    part = image[start[0] : start[0] + labels.data.shape[0], start[1] : start[1] + labels.data.shape[1]]
    assert same(labels.data, gsw.segment(part, axes="YXS", sweeps=25, view="clusters").labels)


@pytest.mark.gui
def test_lazy_arrays(panel, qtbot):
    import dask.array as da

    image = flat()
    panel.viewer.add_image(da.from_array(image, chunks=20), name="lazy", contrast_limits=(0, 255))
    few(panel)
    click(qtbot, panel.run_button)
    wait_done(qtbot, panel)
    assert same(panel.viewer.layers["lazy [GSW]"].data, gsw.segment(image, axes="YX", sweeps=25).labels)


@pytest.mark.gui
def test_whoever_zooms_in_goes_on_with_the_part_that_was_visible(panel, viewer, qtbot):
    viewer.add_image(flat(200, 300), name="large")
    few(panel)
    viewer.camera.zoom *= 3
    panel.chooser.where.choose("view")
    click(qtbot, panel.run_button)
    wait_done(qtbot, panel)
    first, layers = panel.session.segmentation, [layer.name for layer in viewer.layers]
    viewer.camera.zoom *= 2
    viewer.camera.center = (60, 80)
    assert panel.run_button.text() == "Continue"
    click(qtbot, panel.run_button)
    wait_done(qtbot, panel)
    assert panel.session.segmentation is first
    assert [layer.name for layer in viewer.layers] == layers
    assert panel.session.array_run.interactive.sweep == 50
    # Who chooses the visible part again means what is visible now.
    panel.chooser.where.activated.emit(panel.chooser.where.currentIndex())
    assert panel.run_button.text() == "Run"
    click(qtbot, panel.run_button)
    wait_done(qtbot, panel)
    assert panel.session.segmentation is not first


def test_the_visible_part_of_one_image_says_nothing_of_one_with_more_axes(panel, viewer, qtbot):
    """Seen by a monkey: the corners of the flat image were looked up along the axes of the other."""
    viewer.add_image(flat(200, 300), name="flat")
    few(panel)
    viewer.camera.zoom *= 3
    panel.chooser.where.choose("view")
    click(qtbot, panel.run_button)
    wait_done(qtbot, panel)
    deep = viewer.add_image(
        np.stack([flat(60, 80, seed=t) for t in range(3)]), name="deep", axis_labels=("t", "y", "x")
    )
    panel.chooser.image.choose(deep)
    panel.chooser.where.choose("view")
    chosen = panel.chooser.source()
    assert chosen.layer is deep
    assert chosen.where == "view"
    corners = panel.session.segmentation.plan.source.corners
    assert dataclasses.replace(chosen, corners=corners).crop == (slice(0, 60), slice(0, 80))


@pytest.fixture
def series(panel, viewer, qtbot):
    """A panel after a run over four time points."""
    stack = np.stack([flat(seed=t) for t in range(4)])
    viewer.add_image(stack, name="s", axis_labels=("time", "y", "x"))
    few(panel)
    click(qtbot, panel.run_button)
    wait_done(qtbot, panel)
    assert len(panel.session.segmentation.array_runs) == 4
    return panel


@pytest.mark.gui
def test_a_picture_that_is_switched_on_afterwards_is_there_at_every_time_point(series, viewer, qtbot):
    click(qtbot, series.display.layer_boxes["boundary"])
    wait_for(qtbot, lambda: any(layer.name.endswith("[boundary]") for layer in viewer.layers))
    layer = next(layer for layer in viewer.layers if layer.name.endswith("[boundary]"))
    wait_for(qtbot, lambda: all(np.any(plane) for plane in layer.data))


@pytest.mark.gui
def test_another_detail_comes_to_every_time_point_one_after_the_other(series, viewer, qtbot):
    """The displayed slice comes first, and requests meanwhile do not wait for the others."""
    session = series.session
    few(series, 40)
    click(qtbot, series.run_button)
    wait_done(qtbot, series)
    session.layer_view.change_view(detail=1.0)
    sites = {position[0]: run.interactive.problem.n for position, run in session.segmentation.array_runs.items()}
    regions = viewer.layers["s [regions]"]
    wait_for(qtbot, lambda: all(len(np.unique(regions.data[t])) == n for t, n in sites.items()), 60)
    session.layer_view.change_view(detail=0.0)
    click(qtbot, series.run_button)  # which draws everything itself
    wait_done(qtbot, series)
    wait_for(qtbot, lambda: all(len(np.unique(regions.data[t])) == 1 for t in sites), 60)


@pytest.mark.gui
@pytest.mark.slow
def test_what_was_looked_back_at_does_not_stay_when_another_time_point_is_looked_at(series, viewer, qtbot):
    labels = viewer.layers["s [GSW]"]
    viewer.dims.set_current_step(0, 1)
    before = np.array(labels.data[1])
    series.session.layer_view.view_sweep(0)
    assert not np.array_equal(labels.data[1], before)
    viewer.dims.set_current_step(0, 2)
    np.testing.assert_array_equal(labels.data[1], before)
    assert series.session.layer_view.viewing is None


@pytest.mark.gui
def test_a_time_point_that_waits_for_its_new_chain_gets_it_although_something_was_asked_of_the_old_one(
    series, viewer, qtbot
):
    old = dict(series.session.segmentation.array_runs)
    series.form.controls["beta"].set_value(2 * series.form.controls["beta"].value())
    few(series, 300)
    click(qtbot, series.run_button)
    wait_for(qtbot, lambda: series.session.is_sampling)
    series.session.redraw((3,))
    wait_done(qtbot, series)
    new = series.session.segmentation.array_runs
    assert all(new[position] is not old[position] for position in old)
    assert len({run.interactive.settings.beta for run in new.values()}) == 1


@pytest.mark.gui
@pytest.mark.slow
def test_a_stroke_at_another_time_point_wakes_its_chain_while_the_first_one_settles(series, qtbot):
    lives = {t: series.session.segmentation.array_runs[t,].interactive for t in (1, 2)}
    before = {t: interactive.sweep for t, interactive in lives.items()}
    for t in lives:
        series.session.corrections.submit((t,), partial(InteractiveRun.paint, sites=[0], number=90 + t, lock=True))
    wait_for(qtbot, lambda: all(interactive.sweep > before[t] for t, interactive in lives.items()))
    wait_done(qtbot, series)
    assert all(
        interactive.sweep == interactive.target and interactive.summary.is_estimated for interactive in lives.values()
    )


@pytest.mark.gui
@pytest.mark.slow
def test_slices_done_one_at_a_time_are_all_in_their_session(panel, viewer, make_napari_viewer, qtbot, tmp_path):
    viewer.add_image(np.stack([flat(seed=t) for t in range(4)]), name="s", axis_labels=("time", "y", "x"))
    few(panel)
    panel.chooser.where.choose("slice")
    for step in (1, 3):
        viewer.dims.set_current_step(0, step)
        click(qtbot, panel.run_button)
        wait_done(qtbot, panel)
    assert set(panel.session.segmentation.array_runs) == {(1,), (3,)}
    path = tmp_path / "two.zarr.zip"
    with qtbot.waitSignal(panel.session.autosaver.written, timeout=600_000):
        panel.saving.save(path)
    wait_done(qtbot, panel)
    second = make_napari_viewer(show=True)
    _, other = second.window.add_plugin_dock_widget("napari-gsw", "GSW segmentation")
    with qtbot.waitSignal(other.opening.opened, timeout=600_000):
        other.saving.chosen.emit(str(path))
    wait_done(qtbot, other)
    runs = other.session.segmentation.array_runs
    assert set(runs) == {(1,), (3,)}
    for position, array_run in panel.session.segmentation.array_runs.items():  # each with its own chain
        before, after = array_run.interactive, runs[position].interactive
        assert (after.sweep, after.steps) == (before.sweep, before.steps)
        assert np.array_equal(after.summary.labels, before.summary.labels)
        assert np.array_equal(after.traces, before.traces)
    wait_for(qtbot, lambda: all(second.layers["s [GSW]"].data[t].any() for t in (1, 3)))
    other.shut_down()


@pytest.mark.gui
@pytest.mark.slow
def test_what_is_painted_at_a_time_point_that_has_not_had_its_turn_is_taken_up_there(panel, viewer, qtbot):
    viewer.add_image(np.stack([flat(seed=t) for t in range(3)]), name="s", axis_labels=("time", "y", "x"))
    few(panel, 1_000_000)
    click(qtbot, panel.run_button)
    wait_for(qtbot, lambda: "s [GSW]" in viewer.layers)
    panel.pause()
    labels, run = viewer.layers["s [GSW]"], panel.session.run
    assert run.job_index == 0
    viewer.dims.set_current_step(0, 2)
    labels.data_setitem(tuple(axis.ravel() for axis in np.mgrid[2:3, 5:30, 5:20]), 77)
    few(panel)
    panel.pause()
    wait_done(qtbot, panel)
    interactive = panel.session.segmentation.array_runs[2,].interactive
    assert 77 in interactive.display_labels[interactive.painted]
    wait_for(qtbot, lambda: np.mean(labels.data[2, 5:30, 5:20] == 77) > 0.9)
