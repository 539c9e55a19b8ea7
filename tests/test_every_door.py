"""Every preset, sampler and start through every door: functions, command line, batch, session file and replay."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import tifffile

import napari_gsw as gsw
from napari_gsw.cli import main
from napari_gsw.files.images import read_labels
from pictures import cells

SAMPLERS, STARTS = (gsw.Settings.setting_fields()[name].choices for name in ("sampler", "start"))
IMAGE = cells()[0][:64, :72]


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "images").mkdir()
    tifffile.imwrite(tmp_path / "images" / "a.tif", IMAGE)
    return tmp_path


def assert_same_through_every_door(folder, settings, *options):
    """The command line, the batch, a session and its replay give the labels of the function."""
    expected = gsw.segment(IMAGE, settings, seed=2)
    source, common = folder / "images" / "a.tif", ("--seed", "2", "-q", *options)
    assert main(["segment", str(source), "-o", str(folder / "one"), *common]) == 0
    assert main(["batch", str(source.parent), "-o", str(folder / "many"), "--jobs", "1", *common]) == 0
    for path in (folder / "one" / "labels.tif", folder / "many" / "a.tif"):
        np.testing.assert_array_equal(read_labels(path), expected.labels)
    saved = gsw.open_session(gsw.save_session(folder / "a.zarr.zip", expected))
    np.testing.assert_array_equal(gsw.resume(saved.run).labels, expected.labels)
    np.testing.assert_array_equal(gsw.replay(saved.run, IMAGE).labels, expected.labels)


@pytest.mark.parametrize("preset", gsw.PRESETS)
def test_presets(preset, folder):
    settings = gsw.preset(preset, sweeps=3)
    assert_same_through_every_door(folder, settings, "--preset", preset, "--sweeps", "3")


@pytest.mark.parametrize(("sampler", "start"), itertools.product(SAMPLERS, STARTS))
def test_samplers_and_starts(sampler, start, folder):
    settings = gsw.preset("general", sweeps=3, sampler=sampler, start=start, superpixels="grid", site_size=36)
    options = ("--set", f"sampler={sampler}", "--set", f"start={start}", "--set", "superpixels=grid")
    assert_same_through_every_door(folder, settings, "--sweeps", "3", *options, "--set", "site_size=36")
