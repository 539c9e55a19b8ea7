"""Tables in the layers and in the export are of what is on the screen, for planes, volumes and time."""

from __future__ import annotations

import csv
import json
import threading

import numpy as np
import pytest
import tifffile
from skimage.filters import gaussian

from gui_actions import click, wait_done, wait_for
from napari_gsw.sample_data import mosaic, mosaic_3d, nuclei_time

pytest.importorskip("napari")
pytest.importorskip("pytestqt")
pytestmark = pytest.mark.gui


def rows_of(path):
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def run(panel, qtbot, preset, **settings):
    click(qtbot, panel.presets.buttons[preset])
    for name, value in {"sweeps": 12, **settings}.items():
        panel.form.controls[name].set_value(value)
    click(qtbot, panel.run_button)
    wait_done(qtbot, panel)


def export(panel, qtbot, folder, names=("*provenance.json", "labels.tif", "regions.csv")):
    panel.export.export(folder)
    wait_for(qtbot, lambda: all(any(folder.glob(name)) for name in names))


def counted(labels):
    numbers, pixels = np.unique(labels[labels > 0], return_counts=True)
    return dict(zip(numbers.tolist(), pixels.tolist(), strict=True))


PICTURES = {
    "plane": (mosaic()[0][:60, :70], {"scale": (0.5, 0.5), "units": ("um", "um")}, ()),
    "volume": (mosaic_3d()[0][:6, :24, :24], {"scale": (2, 0.5, 0.5), "units": ("um",) * 3}, ()),
    "cells": (nuclei_time()[0][:2, :96, :96], {"axis_labels": ("t", "y", "x")}, ("t",)),
    "time": (np.stack([mosaic()[0][:40, k : k + 40, 0] for k in (0, 30)]), {"axis_labels": ("t", "y", "x")}, ("t",)),
}


@pytest.mark.parametrize(
    ("preset", "picture"),
    [
        ("general", "plane"),
        ("general", "time"),
        pytest.param("microscopy", "cells", marks=pytest.mark.slow),
        pytest.param("microscopy", "volume", marks=pytest.mark.slow),
        pytest.param("paper", "time", marks=pytest.mark.slow),
    ],
)
def test_every_label_on_the_screen_and_in_the_file_has_its_row(panel, qtbot, tmp_path, preset, picture):
    data, look, loop = PICTURES[picture]
    panel.viewer.add_image(data, name="m", **look)
    run(panel, qtbot, preset, sweeps=60 if picture == "plane" else 12)
    shown = panel.viewer.layers["m [GSW]" if preset == "paper" else "m [regions]"]
    wait_for(
        qtbot,
        lambda: "one_object" in shown.features.columns and len(panel.export.measuring.tables) == (2 if loop else 1),
    )
    export(panel, qtbot, tmp_path)
    written, rows = tifffile.imread(tmp_path / "labels.tif"), rows_of(tmp_path / "regions.csv")
    size = "volume (µm³)" if picture == "volume" else "area (µm²)" if picture == "plane" else "area"
    for place in range(len(data)) if loop else [...]:
        here = [row for row in rows if not loop or int(row["t"]) == place]
        assert {int(row["index"]): int(row["pixels"]) for row in here} == counted(written[place])
        pixel = {"plane": 0.25, "volume": 0.5}.get(picture, 1)
        assert all(float(row[size]) == pytest.approx(int(row["pixels"]) * pixel) for row in here)
        table = shown.features if not loop else shown.features[shown.features["t"] == place]
        assert dict(zip(table["index"], table["pixels"], strict=True)) == counted(shown.data[place])
        assert len(table) == len(here)
    if picture == "plane":
        follow_detail_and_reset(panel, qtbot, shown)
    elif loop and shown.name == "m [regions]":
        follow_slices(panel, qtbot, shown)


def follow_slices(panel, qtbot, layer):
    """The row that napari shows under the mouse is that of the displayed slice."""
    for time in (0, 1):
        panel.viewer.dims.set_point(0, time)
        wait_for(qtbot, lambda time=time: layer.features["t"].iloc[-1] == time)
        number = int(layer.data[time].max())
        place = (time, *np.argwhere(layer.data[time] == number)[0])
        told = str(layer.get_status(place, world=True))
        assert f"t: {time}," in told
        assert f"pixels: {(layer.data[time] == number).sum()}," in told


def follow_detail_and_reset(panel, qtbot, layer):
    """The table is that of the outlines, however fine they are and whatever a pixel measures, and empty after Reset."""
    panel.session.layer_view.change_view(detail=1.0)
    wait_for(qtbot, lambda: len(layer.features) == panel.session.array_run.interactive.problem.n, 20)
    assert dict(layer.features[["index", "pixels"]].to_numpy()) == counted(layer.data)
    panel.viewer.layers["m"].scale = (2, 2)
    wait_for(qtbot, lambda: layer.features["area (µm²)"].sum() == 4 * layer.features["pixels"].sum(), 20)
    click(qtbot, panel.reset_button)
    wait_for(qtbot, lambda: not len(layer.features))


@pytest.mark.slow
def test_several_images_have_a_table_each(panel, qtbot, tmp_path):
    for k, name in enumerate("ab"):
        panel.viewer.add_image(mosaic()[0][: 40 + 8 * k, 30 * k : 40 + 30 * k], name=name)
    panel.chooser.image.choose(panel.viewer.layers["a"])
    for action in panel.chooser.together.menu().actions():
        action.setChecked(action.text() == "b")
    run(panel, qtbot, "general", view="regions", min_region=0)
    wait_for(qtbot, lambda: all("one_object" in panel.viewer.layers[f"{n} [regions]"].features.columns for n in "ab"))
    export(panel, qtbot, tmp_path, [f"00{k}.{name}" for k in (1, 2) for name in ("labels.tif", "regions.csv")])
    for k in (1, 2):
        rows = rows_of(tmp_path / f"00{k}.regions.csv")
        assert {int(row["index"]): int(row["pixels"]) for row in rows} == counted(
            tifffile.imread(tmp_path / f"00{k}.labels.tif")
        )


def test_a_size_that_is_set_while_things_are_measured_is_in_the_table(panel, qtbot, monkeypatch):
    from napari_gsw.widgets.session.array_run import ArrayRun

    may_end, begun, measuring = threading.Event(), threading.Event(), ArrayRun.measuring

    def slow(*given):
        measure = measuring(*given)

        def measured():
            begun.set()
            assert may_end.wait(60)
            return measure()

        return measured

    monkeypatch.setattr(ArrayRun, "measuring", slow)
    image = panel.viewer.add_image(PICTURES["plane"][0], name="m", units="um")
    run(panel, qtbot, "general")
    wait_for(qtbot, begun.is_set, 60)
    image.scale = (2, 2)
    may_end.set()
    regions = panel.viewer.layers["m [regions]"]
    wait_for(qtbot, lambda: "area (µm²)" in regions.features, 60)
    wait_for(qtbot, lambda: panel.export.measuring._worker is None, 60)
    assert regions.features["area (µm²)"].sum() == 4 * regions.features["pixels"].sum()


def test_what_is_on_the_screen_is_what_is_exported(panel, qtbot, tmp_path):
    """Another fineness, another state, and the clusters alone, with their tables; the usual is what is returned."""
    rough = gaussian(np.random.default_rng(2).normal(size=(60, 70)), 3)
    panel.viewer.add_image(rough, name="m")
    run(panel, qtbot, "general", sweeps=60, site_size=40, alpha=20.0, beta=0.0, min_region=0)
    session, regions = panel.session, panel.viewer.layers["m [regions]"]

    def exported(name):
        export(panel, qtbot, tmp_path / name)
        labels = tifffile.imread(tmp_path / name / "labels.tif")
        pixels = {int(row["index"]): int(row["pixels"]) for row in rows_of(tmp_path / name / "regions.csv")}
        assert pixels == counted(labels)
        record = json.loads((tmp_path / name / "provenance.json").read_text())
        return labels, record.get("shown")

    labels, shown = exported("usual")
    assert np.array_equal(labels, regions.data)
    assert np.array_equal(labels, session.array_run.result().labels)
    assert shown is None
    session.layer_view.change_view(detail=1.0)
    wait_for(qtbot, lambda: len(counted(regions.data)) == session.array_run.interactive.problem.n, 20)
    labels, shown = exported("fine")
    assert np.array_equal(labels, regions.data)
    assert shown == {"show": "consensus", "detail": 1.0, "regions": True}
    session.layer_view.change_view(detail=None)
    session.set_show("finest")
    wait_for(qtbot, lambda: session.run is None and session.frame.show == "finest", 20)
    labels, shown = exported("other")
    assert np.array_equal(labels, regions.data)
    assert not np.array_equal(labels, session.array_run.result().labels)
    assert shown == {"show": "finest", "detail": None, "regions": True}
    session.layer_view.change_view(wanted=frozenset())
    wait_for(qtbot, lambda: session.run is None and session.frame.show == "finest", 20)
    labels, shown = exported("clusters")
    assert np.array_equal(labels, panel.viewer.layers["m [GSW]"].data)
    assert shown == {"show": "finest", "detail": None, "regions": False}


def test_what_is_exported_has_all_numbers_though_colours_come_round_again(panel, qtbot, tmp_path, monkeypatch):
    monkeypatch.setattr("napari_gsw.widgets.session.array_run.MAX_LABEL", 5)  # instead of what 16 bits hold
    panel.viewer.add_image(PICTURES["plane"][0], name="m")
    run(panel, qtbot, "general", sweeps=60)
    panel.session.layer_view.change_view(detail=1.0)
    wait_for(qtbot, lambda: panel.session.run is None, 20)
    export(panel, qtbot, tmp_path)
    labels = tifffile.imread(tmp_path / "labels.tif")
    assert len(counted(labels)) == panel.session.array_run.interactive.problem.n > 5


def test_objects_are_exported_whether_they_are_outlined_or_not(panel, qtbot, tmp_path):
    """Clusters of a picture of objects are colours, which mean nothing."""
    panel.viewer.add_image(nuclei_time()[0][0, :96, :96], name="m")
    run(panel, qtbot, "microscopy", sweeps=40)
    objects = panel.viewer.layers["m [regions]"]
    before = objects.data.copy()
    objects.visible = False
    export(panel, qtbot, tmp_path)
    labels = tifffile.imread(tmp_path / "labels.tif")
    assert np.array_equal(labels, before)
    assert not labels.all()
    assert "shown" not in json.loads((tmp_path / "provenance.json").read_text())
