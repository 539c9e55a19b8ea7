"""The image that a session names is read by our own readers, and nothing that it names is executed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import tifffile
from skimage.io import imsave

from napari_gsw.core.errors import InputError
from napari_gsw.core.interactive.saved_session import SavedImage
from napari_gsw.files.session_file import find_image_files

pytest.importorskip("napari")
pytestmark = pytest.mark.gui

PIXELS = np.random.default_rng(0).integers(0, 255, (12, 16), np.uint8)
LAYER = {"scale": [1.0, 1.0], "translate": [0.0, 0.0], "rgb": False}


def open_layers(viewer, image, session_path, may_open=lambda place: pytest.fail(f"asked about {place}")):
    from napari_gsw.widgets.layers.saved_layers import find_image_layers

    return find_image_layers(viewer, [image], session_path, may_open)


@pytest.mark.parametrize("name", ["cells.py", "cells.tif.py", "cells.csv", "cells.zarr.zip", "cells"])
@pytest.mark.parametrize("absolute", [True, False])
def test_script_named_by_session_is_not_run(make_napari_viewer, tmp_path, monkeypatch, name, absolute):
    ran = tmp_path / "ran"
    script = tmp_path / name
    script.write_text(f"open({str(ran)!r}, 'w').close()\n")
    viewer = make_napari_viewer()
    monkeypatch.setattr(type(viewer), "open", lambda *_, **__: pytest.fail("given to napari's readers"))
    image = SavedImage("cells", (str(script) if absolute else name,), layer=LAYER)
    with pytest.raises(InputError, match="is not where it was"):
        open_layers(viewer, image, tmp_path / "work.zarr.zip", lambda _: True)
    assert not ran.exists()


def test_script_with_suffix_of_image_is_not_run(make_napari_viewer, tmp_path):
    ran = tmp_path / "ran"
    (tmp_path / "cells.png").write_text(f"open({str(ran)!r}, 'w').close()\n")
    with pytest.raises(InputError, match="cannot be read as an image"):
        open_layers(make_napari_viewer(), SavedImage("cells", ("cells.png",), layer=LAYER), tmp_path / "work.zarr.zip")
    assert not ran.exists()


@pytest.mark.parametrize("suffix", [".tif", ".png", ".npy", ".zarr"])
def test_image_beside_session_is_opened_without_question(make_napari_viewer, tmp_path, suffix):
    file = tmp_path / f"cells{suffix}"
    if suffix == ".npy":
        np.save(file, PIXELS)
    elif suffix == ".zarr":
        import zarr

        zarr.save(str(file), PIXELS)
    elif suffix == ".tif":
        tifffile.imwrite(file, PIXELS)
    else:
        imsave(file, PIXELS, check_contrast=False)
    image = SavedImage("cells", (str(file),), layer={**LAYER, "scale": [2.0, 3.0]})
    (layer,) = open_layers(make_napari_viewer(), image, tmp_path / "work.zarr.zip")
    assert (layer.name, layer.source.path, layer.scale.tolist()) == ("cells", str(file), [2.0, 3.0])
    np.testing.assert_array_equal(np.asarray(layer.data), PIXELS)


def test_image_in_another_folder_is_opened_only_after_consent(make_napari_viewer, tmp_path):
    file, folder = tmp_path / "cells.tif", tmp_path / "sessions"
    folder.mkdir()
    tifffile.imwrite(file, PIXELS)
    (folder / "link.tif").symlink_to(file)
    viewer, asked = make_napari_viewer(), []
    for path in (str(file), "../cells.tif", "link.tif"):
        image = SavedImage("cells", (path,), layer=LAYER)
        with pytest.raises(InputError, match="is not where it was"):
            open_layers(viewer, image, folder / "work.zarr.zip", lambda place: bool(asked.append(place)))
        assert len(asked) == 1
        assert not viewer.layers
        asked.clear()
    (layer,) = open_layers(viewer, replace(image, paths=(str(file),)), folder / "work.zarr.zip", lambda _: True)
    np.testing.assert_array_equal(layer.data, PIXELS)


def test_places_are_images_of_this_machine(tmp_path, monkeypatch):
    asked = []
    is_file = Path.is_file
    monkeypatch.setattr("os.path.isfile", lambda path: bool(asked.append(str(path))) or is_file(Path(path)))
    shares = ("\\\\server\\share\\cells.tif", "//server/share/cells.tif")
    assert find_image_files(SavedImage("cells", shares), tmp_path / "work.zarr.zip") == []
    assert not [path for path in asked if "server" in path]


def test_time_series_is_read_with_all_axes(make_napari_viewer, tmp_path):
    stack = np.stack([PIXELS, PIXELS + 1])[:, None]
    file = tmp_path / "series.tif"
    tifffile.imwrite(file, stack, imagej=True, metadata={"axes": "TZYX"})
    expected = tifffile.imread(file)
    image = SavedImage("series", ("series.tif",), layer={"rgb": False})
    (layer,) = open_layers(make_napari_viewer(), image, tmp_path / "work.zarr.zip")
    np.testing.assert_array_equal(layer.data, expected)
