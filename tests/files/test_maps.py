"""Maps and the distance between pixels, as files have them."""

import numpy as np
import pytest
import tifffile

import napari_gsw as gsw
from napari_gsw.files.images import find_map_file, open_map_file, read_spacing

zarr = pytest.importorskip("zarr")
MAP = np.random.default_rng(0).random((5, 12, 16)).astype(np.float32)


@pytest.mark.parametrize("kind", ["tif", "npy", "zarr"])
def test_a_map_comes_from_its_file(tmp_path, kind):
    path = tmp_path / f"map.{kind}"
    if kind == "tif":
        tifffile.imwrite(path, MAP)
    elif kind == "npy":
        np.save(path, MAP)
    else:
        zarr.create_array(str(path), shape=MAP.shape, chunks=(5, 4, 4), dtype=MAP.dtype)[...] = MAP
    assert np.array_equal(open_map_file(path), MAP)
    lazily = open_map_file(path, lazily=True)
    assert isinstance(lazily, np.ndarray) == (kind != "zarr")
    assert np.array_equal(lazily[:, 2:5], MAP[:, 2:5])


def test_a_map_comes_from_hdf5_by_the_name_of_its_data_set(tmp_path):
    h5py = pytest.importorskip("h5py")
    path = tmp_path / "map.h5"
    with h5py.File(path, "w") as file:
        file["exported_data"], file["raw"] = MAP, MAP[0]
        file.create_group("more")["map"] = 2 * MAP
    assert np.array_equal(open_map_file(path), MAP)
    assert np.array_equal(open_map_file(path / "raw"), MAP[0])
    assert np.array_equal(open_map_file(f"{path}/more/map", lazily=True)[:, :3], 2 * MAP[:, :3])
    with pytest.raises(gsw.InputError, match=r"has no data set 'nothing': name one, as in map.h5/NAME"):
        open_map_file(path / "nothing")
    with h5py.File(tmp_path / "two.h5", "w") as file:
        file["a"], file["b"] = MAP, MAP
    with pytest.raises(gsw.InputError, match=r"has several data sets: name one, as in two.h5/NAME \(a, b\)"):
        open_map_file(tmp_path / "two.h5")


@pytest.mark.parametrize("name", ["absent.h5", "absent.h5/map", "absent.tif", "broken.h5"])
def test_a_file_that_holds_no_map_is_one_sentence(tmp_path, name):
    (tmp_path / "broken.h5").write_bytes(b"nothing")
    with pytest.raises(gsw.InputError) as refusal:
        open_map_file(tmp_path / name)
    assert "\n" not in str(refusal.value)


def test_the_distance_of_planes_is_read_from_the_file(tmp_path):
    volume = np.zeros((6, 8, 10), np.uint8)
    place = tmp_path / "volume.ome.tif"
    sizes = {"axes": "ZYX", "PhysicalSizeX": 400.0, "PhysicalSizeXUnit": "nm", "PhysicalSizeY": 0.4,
             "PhysicalSizeYUnit": "µm", "PhysicalSizeZ": 2.0, "PhysicalSizeZUnit": "µm"}  # fmt: skip
    tifffile.imwrite(place, volume, metadata=sizes)
    assert read_spacing(place, "ZYX") == "2,0.4,0.4"
    assert read_spacing(place, "YX") == "auto"  # the same along both
    tifffile.imwrite(tmp_path / "fiji.tif", volume, imagej=True, resolution=(2.5, 2.5),
                     metadata={"axes": "ZYX", "spacing": 2.0})  # fmt: skip
    assert read_spacing(tmp_path / "fiji.tif", "ZYX") == "2,0.4,0.4"
    tifffile.imwrite(tmp_path / "plain.tif", volume)
    assert read_spacing(tmp_path / "plain.tif", "ZYX") == "auto"
    tifffile.imwrite(place, volume, metadata=sizes | {"PhysicalSizeZ": 0.0})
    with pytest.raises(gsw.InputError, match=r"says that pixels are 0, 0\.4, 0\.4 apart"):
        read_spacing(place, "ZYX")


@pytest.mark.parametrize(("depth", "spacing"), [(6, "5,1,1"), (1, "auto")])
def test_the_distance_of_planes_is_read_from_a_zarr(tmp_path, depth, spacing):
    path = tmp_path / "volume.zarr"
    group = zarr.open_group(str(path), mode="w")
    group.create_array("0", shape=(depth, 8, 10), dtype="u1", chunks=(depth, 8, 10))
    scale = {"type": "scale", "scale": [5.0, 1.0, 1.0]}
    image = {"axes": [{"name": a, "type": "space"} for a in "zyx"],
             "datasets": [{"path": "0", "coordinateTransformations": [scale]}]}  # fmt: skip
    group.attrs.update({"ome": {"version": "0.5", "multiscales": [image]}})
    assert read_spacing(path, "auto") == spacing


def test_the_file_of_a_map_is_the_one_whose_change_matters(tmp_path):
    assert find_map_file(tmp_path / "a.h5" / "predictions" / "0") == tmp_path / "a.h5"
    assert find_map_file(tmp_path / "a.tif") == tmp_path / "a.tif"
