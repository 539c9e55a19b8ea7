"""The samples: the same each time, with a truth that the preset they ask for finds."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

import napari_gsw as gsw
from napari_gsw import sample_data
from napari_gsw.core.settings.presets import PRESETS
from napari_gsw.sample_data import PRESET_KEY, SAMPLES, SCRIBBLES_KEY, sample

OPENED = [*SAMPLES, "nuclei_time"]


@pytest.mark.parametrize("name", OPENED)
def test_a_sample_opens_with_a_preset_that_there_is_and_the_same_each_time(name):
    first, again = (getattr(sample_data, f"{name}_layers")() for _ in range(2))
    assert first[0][1]["metadata"][PRESET_KEY] in PRESETS
    for (data, options, kind), (other, _, _) in zip(first, again, strict=True):
        assert np.array_equal(data, other)
        assert kind in ("image", "labels")
        assert len(options.get("axis_labels", data.shape)) == data.ndim
    assert sum(data.nbytes for data, _, _ in first) < 2e6


@pytest.mark.parametrize(
    ("name", "preset", "least", "settings"),
    [
        ("nuclei", "microscopy", 0.9, {}),
        ("membranes", "membranes", 0.9, {}),
        ("uneven_volume", "general", 0.85, {"spacing": sample_data.UNEVEN}),
    ],
)
@pytest.mark.slow
def test_the_preset_that_suits_a_sample_finds_its_truth(name, preset, least, settings):
    image, truth = sample(name)
    labels = gsw.segment(image, preset=preset, seed=1, **settings).labels
    assert adjusted_rand_score(np.ravel(truth), np.ravel(labels)) > least


@pytest.mark.parametrize("shipped", [True, False])
def test_pictures_are_those_of_scikit_image_with_their_files_or_without(shipped, monkeypatch):
    from skimage import data

    if not shipped:
        monkeypatch.setattr(sample_data.Path, "exists", lambda path: False)
    np.testing.assert_array_equal(sample_data.astronaut()[0], data.astronaut())
    np.testing.assert_array_equal(sample_data.tissue()[0], data.immunohistochemistry())


def test_the_strokes_on_the_coffee_part_it():
    image, strokes = sample("coffee")[0][::2, ::2], sample_data.coffee_scribbles()[::2, ::2]
    labels = gsw.segment(image, preset="photo", seeds=strokes, sweeps=60).labels
    assert set(np.unique(labels)) == {1, 2, 3, 4, 5}
    # A place of each that no stroke touches: table, saucer, cup, coffee, spoon.
    places = [(190, 280), (150, 60), (40, 115), (80, 140), (150, 180)]
    assert [int(labels[place]) for place in places] == [1, 2, 3, 4, 5]
    assert not any(strokes[place] for place in places)


@pytest.mark.gui
def test_a_sample_chooses_its_preset_and_its_strokes(panel, qtbot):
    viewer = panel.viewer
    (image, photograph, _), (strokes, drawn, _) = sample_data.coffee_layers()
    layer = viewer.add_image(image, **photograph)
    painted = viewer.add_labels(strokes, **drawn)
    assert painted.metadata[SCRIBBLES_KEY]
    assert panel.chooser.image.value() is layer
    assert panel.form.preset == "photo"
    assert panel.seeds.seeds.value() is painted
    qtbot.wait(20)
    data, options, _ = sample_data.nuclei_layers()[0]
    viewer.add_image(data, **options)
    assert panel.form.preset == "microscopy"
    assert panel.seeds.seeds.value() is None  # those were strokes on something else
    qtbot.wait(20)
    viewer.add_image(np.zeros((30, 40)), name="my own")
    assert panel.form.preset == "microscopy"  # an image that asks for nothing changes nothing


@pytest.mark.gui
def test_a_panel_that_opens_beside_a_sample_suits_it(make_napari_viewer):
    viewer = make_napari_viewer()
    data, options, _ = sample_data.membranes_layers()[0]
    viewer.add_image(data, **options)
    _, panel = viewer.window.add_plugin_dock_widget("napari-gsw", "GSW segmentation")
    assert panel.form.preset == "membranes"
