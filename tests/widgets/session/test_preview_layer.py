"""The coarse picture of a large image: there while the image is prepared, where the image is, and then gone."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from gui_actions import click, wait_for
from napari_gsw.core.pipeline import segment as previews
from napari_gsw.sample_data import mosaic

pytest.importorskip("napari")
pytest.importorskip("pytestqt")
from napari.layers import Image, Labels

from napari_gsw.widgets.layers.image_source import ImageSource
from napari_gsw.widgets.layers.layer_metadata import get_layer_kind
from napari_gsw.widgets.layers.result_layers import make_coarse_geometry
from napari_gsw.widgets.session import run_plan

pytestmark = pytest.mark.gui


def preview_layers(viewer):
    return [layer for layer in viewer.layers if get_layer_kind(layer) == "preview"]


@pytest.fixture
def held(monkeypatch):
    """Event that a preparation waits for; images are large from ten thousand pixels on."""
    monkeypatch.setattr(previews, "LARGE", 10_000)
    monkeypatch.setattr(previews, "COPY", 4_000)
    gate, prepare = threading.Event(), run_plan.array_problem

    def wait(*given):
        gate.wait(60)
        return prepare(*given)

    monkeypatch.setattr(run_plan, "array_problem", wait)
    yield gate
    gate.set()


def test_it_is_there_until_there_is_a_better_picture(panel, qtbot, held):
    panel.viewer.add_image(mosaic()[0][:160, :200], name="m", scale=(2, 3))
    panel.form.controls["sweeps"].set_value(20)
    click(qtbot, panel.run_button)
    wait_for(qtbot, lambda: len(preview_layers(panel.viewer)) == 1)
    (layer,) = preview_layers(panel.viewer)
    assert layer.name == "m [preview]"
    assert not layer.editable
    assert panel.viewer.layers.selection.active is not layer
    assert len(np.unique(layer.data)) > 2
    assert panel.session.frame is None
    held.set()
    wait_for(qtbot, lambda: panel.session.frame is not None and not preview_layers(panel.viewer))
    wait_for(qtbot, lambda: panel.session.state == "done" and panel.session.run is None)
    assert not preview_layers(panel.viewer)


@pytest.mark.parametrize("leave", ["stop", "the image goes"])
def test_it_goes_with_what_it_was_of(panel, qtbot, held, leave):
    panel.viewer.add_image(mosaic()[0][:160, :200], name="m")
    click(qtbot, panel.run_button)
    wait_for(qtbot, lambda: len(preview_layers(panel.viewer)) == 1)
    if leave == "stop":
        panel.session.stop()
    else:
        panel.viewer.layers.remove("m")
    held.set()
    wait_for(qtbot, lambda: panel.session.run is None)
    assert not preview_layers(panel.viewer)


@pytest.mark.parametrize("place", [{}, dict(scale=(2, 3), translate=(5, -7), rotate=30, shear=[0.2])])
def test_it_lies_where_the_image_is(place):
    image = Image(np.zeros((400, 600)), **place)
    source, step = ImageSource(image), 20
    layer = Labels(np.zeros((20, 30), np.uint16), **make_coarse_geometry(source, [0, 1], step))
    for pixel in ((0, 0), (3, 5), (19, 29)):
        middle = [step * p + (step - 1) / 2 for p in pixel]
        assert np.allclose(layer.data_to_world(pixel), image.data_to_world(middle))
