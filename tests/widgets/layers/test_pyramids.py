"""Pyramids and images that are too large for memory, as they come in napari."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import napari_gsw as gsw
from gui_actions import click, wait_done, wait_for
from napari_gsw.core.image.block_grid import make_grid
from napari_gsw.core.sites.blocked_labels import BlockedLabels, CompressedArray
from napari_gsw.files.images import read_image

pytest.importorskip("napari")
pytest.importorskip("pytestqt")
da = pytest.importorskip("dask.array")


def scene(side=260):
    rng = np.random.default_rng(0)
    y, x = np.mgrid[:side, :side]
    kind = np.digitize(np.sin(y / 40) + np.sin(x / 50), [-0.6, 0.6])
    image = np.array([[200, 60, 40], [60, 160, 70], [50, 70, 190]])[kind] + rng.normal(0, 8, (side, side, 3))
    return np.clip(image, 0, 255).astype(np.uint8)


def add(viewer, image, lazily, name="slide"):
    array = da.from_array(image, chunks=(64, 64, 3)) if lazily else image
    return viewer.add_image([array, array[::2, ::2], array[::4, ::4]], name=name, multiscale=True, rgb=True)


@pytest.fixture
def everything_is_large(monkeypatch, panel):
    """Small images go the way of large ones, in small blocks."""
    monkeypatch.setattr("napari_gsw.widgets.layers.image_source.MAX_PIXELS_IN_MEMORY", 1000)
    settings = panel.form.settings
    monkeypatch.setattr(panel.form, "settings", lambda **more: settings(**more).replace(block_pixels=2**12))


def short(panel, **settings):
    for name, value in ({"sweeps": 20} | settings).items():
        panel.form.controls[name].set_value(value)


def test_levels_are_painted_where_they_are_looked_at():
    from napari_gsw.widgets.layers.lazy_labels import LazySiteImage, make_image_levels, make_site_levels

    sites = np.arange(1500 * 1100).reshape(1500, 1100) % 40
    grid = make_grid(sites.shape, (400, 300), 120_000)
    mosaic = BlockedLabels(
        grid, [CompressedArray.of(sites[grid.slices(i)]) for i in grid], [np.arange(40, dtype=np.int32)] * len(grid)
    )
    values = np.arange(40, dtype=np.uint16) ** 2
    levels = make_image_levels(LazySiteImage(mosaic, values), make_site_levels(mosaic), 2)
    assert [level.shape for level in levels] == [(1, 1, 1500, 1100), (1, 1, 750, 550)]
    picture = values[sites][None, None]
    for key in ((0, 0), (slice(None), 0, slice(3, 900)), (..., slice(10, 20)), (0, 0, 5, 7), ()):
        assert np.array_equal(levels[0][key], picture[key])
        assert np.array_equal(levels[1][key], picture[..., ::2, ::2][key])
    assert levels[0].count() == 39
    assert levels[0].any()
    coarsest = np.asarray(levels[1])  # as napari keeps the coarsest level
    levels[1].values = values[::-1].copy()
    assert np.array_equal(coarsest, values[::-1][sites][None, None, ::2, ::2])
    levels[0].values = np.zeros_like(values)
    assert not levels[0].any()


def test_a_pyramid_that_fits_into_memory_is_segmented_at_its_finest_level(panel, qtbot):
    image = scene(120)
    add(panel.viewer, image, lazily=False)
    short(panel)
    click(qtbot, panel.run_button)
    wait_done(qtbot, panel)
    layer = panel.session.segmentation.layers.labels
    assert not layer.multiscale
    assert layer.editable
    array_run = panel.session.array_run
    assert np.array_equal(array_run.final(), gsw.segment(image, sweeps=20).labels)


@pytest.mark.slow
def test_a_large_pyramid_shows_every_level(panel, qtbot, tmp_path, everything_is_large):
    from napari_gsw.widgets.panel.export_section import write_all

    image = scene()
    add(panel.viewer, image, lazily=True)
    short(panel)
    panel.session.layer_view.change_view(wanted=frozenset({"regions", "boundary", "entropy"}))
    click(qtbot, panel.run_button)
    wait_done(qtbot, panel)
    seg, array_run = panel.session.segmentation, panel.session.array_run
    assert len(array_run.sites.grid) > 8
    assert array_run.interactive.sweep == 20
    layer = seg.layers.labels
    assert layer.multiscale
    sites = array_run.interactive.problem.site_image
    shown = panel.session.frame.numbers[sites - 1]
    assert np.array_equal(np.asarray(layer.data[0]), shown)
    for name in ("regions", "boundary", "entropy"):
        other = seg.layers.regions if name == "regions" else seg.layers.of_kind(name)[0]
        assert other.multiscale
        assert np.asarray(other.data[0]).shape == sites.shape
    panel.viewer.cursor.position = (100, 120)
    assert panel.region.text().startswith(f"Cluster {shown[100, 120]}: {(shown == shown[100, 120]).sum():,} pixels")
    panel.viewer.cursor.position = (-50, 120)  # outside: what was said stays
    # It is the result of the same call in Python, and can be exported as one format alone.
    lazy = da.from_array(image, chunks=(64, 64, 3))
    result = gsw.segment(lazy, sweeps=20, block_pixels=2**12)
    assert np.array_equal(array_run.final().compute(), result.labels.compute())
    write_all(seg, panel.session.view, False, Path(tmp_path), "labels.zarr")
    assert np.array_equal(read_image(tmp_path / "labels.zarr")[0], result.labels.compute())
    with pytest.raises(gsw.InputError, match="OME-Zarr"):
        write_all(seg, panel.session.view, False, Path(tmp_path), "labels.tif")
    # From afar, the coarsest level: napari keeps it, and must see the newest state all the same.
    panel.viewer.camera.zoom = 0.2
    wait_for(qtbot, lambda: layer.data_level == len(layer.data) - 1)
    for state in ("best", "current"):
        panel.session.set_show(state)
        wait_for(qtbot, lambda: panel.session.run is None)
        numbers = panel.session.frame.numbers[sites - 1]
        shown_numbers = [[layer.get_value((y, x))[1] for x in range(0, 260, 20)] for y in range(0, 260, 20)]
        assert np.array_equal(shown_numbers, numbers[::20, ::20])
    panel.session.reset()
    assert layer.get_value((100, 120))[1] == 0


@pytest.mark.slow
def test_a_large_run_goes_on_with_other_settings_and_can_be_locked(panel, qtbot, everything_is_large):
    add(panel.viewer, scene(), lazily=True)
    short(panel)
    click(qtbot, panel.run_button)
    wait_done(qtbot, panel)
    before = panel.session.array_run
    number = int(before.interactive.display_labels[0])
    panel.session.corrections.lock_label(number)
    wait_done(qtbot, panel)
    assert before.interactive.locks.any()
    assert panel.session.segmentation.layers.locks.multiscale
    short(panel, alpha=3.0)
    click(qtbot, panel.run_button)
    wait_done(qtbot, panel)
    after = panel.session.array_run
    assert after is not before
    assert np.array_equal(after.interactive.locks, before.interactive.locks)
    held = after.interactive.locks
    assert len(np.unique(after.interactive.display_labels[held])) == 1
    panel.session.reset()
    assert not np.asarray(panel.session.segmentation.layers.labels.data[0]).any()


def test_what_cannot_be_done_on_a_large_image_is_said(panel, qtbot, everything_is_large):
    add(panel.viewer, scene(100), lazily=True)
    panel.session.paint_first(panel._plan())
    assert panel.session.segmentation is None or panel.session.segmentation.layers.labels is None
    stack = panel.viewer.add_image(da.zeros((3, 64, 64), chunks=32), name="movie")
    from napari_gsw.widgets.layers.image_source import ImageSource

    with pytest.raises(gsw.InputError, match="3 positions"):
        ImageSource(stack, depth=2).check()


def test_the_visible_part_of_a_pyramid_is_in_pixels_of_its_finest_level(panel, qtbot):
    from napari_gsw.widgets.layers.cursor import get_view_position
    from napari_gsw.widgets.layers.image_source import ImageSource

    layer = add(panel.viewer, scene(), lazily=False)
    panel.viewer.reset_view()
    qtbot.wait(200)
    for level in (0, 2):
        layer.locked_data_level = level
        layer.refresh()
        qtbot.wait(100)
        source = ImageSource(layer, where="view", **get_view_position(panel.viewer, layer))
        assert all(length > 200 for length in source.space), level
