"""Which image is meant, and what its axes mean."""

from __future__ import annotations

import numpy as np
import pytest

from gui_actions import click, run, start, wait_sweeps
from napari_gsw.sample_data import mosaic, mosaic_3d

pytest.importorskip("napari")
pytestmark = pytest.mark.gui


def small():
    return mosaic()[0][:60, :80]


def test_an_opened_image_is_chosen_unless_a_run_is_on(panel, qtbot):
    viewer, chosen = panel.viewer, panel.chooser.image.value
    first = viewer.add_image(small(), name="first")
    panel.seeds.seeds.choose(viewer.add_labels(np.ones((60, 80), int), name="scribbles"))
    qtbot.wait(20)  # of images that are opened together the first is meant
    second = viewer.add_image(small()[:50], name="second")
    assert chosen() is second
    assert panel.seeds.seeds.value() is None  # scribbles on an image of another shape
    assert panel.run_button.isEnabled()
    qtbot.wait(20)
    channels = viewer.add_image(np.zeros((2, 30, 40)), channel_axis=0, name="opened together")
    assert chosen() is channels[0]
    viewer.add_labels(np.zeros((30, 40), int))
    assert chosen() is channels[0]
    panel.chooser.image.choose(first)
    start(panel, qtbot, sweeps=1_000_000)
    wait_sweeps(qtbot, panel)
    viewer.add_image(small(), name="third")
    assert chosen() is first
    assert panel.session.is_sampling
    panel.stop()


def test_unnamed_planes_get_one_question_with_a_good_guess(panel, qtbot):
    viewer, row, source = panel.viewer, panel.chooser.planes, panel.chooser.source
    for shape, text, axis in (
        ((3, 40, 50), "3 planes:", 0),
        ((8, 40, 50), "8 planes:", None),
        ((40, 50, 5), "5 planes:", 2),
    ):
        layer = viewer.add_image(np.random.default_rng(0).random(shape), rgb=False)
        panel.chooser.image.choose(layer)
        assert row.isVisible()
        assert row.question.text() == text
        assert (source().channel_axis, source().depth) == (axis, 2)
        click(qtbot, row.buttons["depth"])
        assert (source().channel_axis, source().depth) == (None, 3)
        click(qtbot, row.buttons["time"])
        assert (source().channel_axis, source().depth) == (None, 2)
        click(qtbot, row.buttons["channels"])
        assert source().channel_axis == (axis or 0)
        click(qtbot, row.buttons["depth"])
        panel.chooser.image.choose(viewer.add_image(np.zeros((30, 40)), name="another"))
        panel.chooser.image.choose(layer)
        assert row.buttons["depth"].isChecked()  # as it was answered
        assert (source().channel_axis, source().depth) == (None, 3)
        layer.axis_labels = ("z", "y", "x")  # now it is known
        qtbot.waitUntil(lambda: not row.isVisible(), timeout=600_000)
        assert (source().channel_axis, source().depth) == (None, 3)
        viewer.layers.clear()
    for known, depth in ({"scale": (3, 1, 1)}, 3), ({"axis_labels": ("t", "y", "x")}, 2):
        panel.chooser.image.choose(viewer.add_image(np.zeros((3, 40, 50)), rgb=False, **known))
        assert not row.isVisible()
        assert source().depth == depth


def test_the_axes_are_those_of_the_image_as_it_is(panel, qtbot):
    chooser = panel.chooser
    layer = panel.viewer.add_image(mosaic_3d()[0], name="m")
    assert chooser.form.isRowVisible(chooser.depth)
    layer.axis_labels = ("c", "y", "x")
    qtbot.waitUntil(lambda: chooser.channel_axis.currentData() == 0, timeout=600_000)
    layer.data = np.asarray(mosaic_3d()[0][0])
    qtbot.waitUntil(lambda: chooser.channel_axis.currentData() is None, timeout=600_000)
    assert not chooser.form.isRowVisible(chooser.depth)


def test_pixels_that_are_not_finite_are_left_out_and_counted(panel, qtbot):
    image = small().astype(float)
    image[10:14, 20:25] = np.nan
    image[40, 7, 1] = np.inf
    panel.viewer.add_image(image, rgb=True, contrast_limits=(0, 255), name="m")
    run(panel, qtbot, sweeps=20)
    assert panel.reason.text() == "21 pixels are NaN or infinite: they are outside the image."
    outside = ~np.isfinite(image).all(axis=-1)
    for name in ("m [GSW]", "m [regions]"):
        assert np.array_equal(panel.viewer.layers[name].data == 0, outside)
