"""Files that promise more than they hold, or grow while they are read: refused in one sentence, in little memory."""

from __future__ import annotations

import json
import struct
import tracemalloc
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import tifffile

import napari_gsw as gsw
from napari_gsw.core.errors import InputError
from napari_gsw.files import images
from napari_gsw.files.images import check_promise, parse_xml, read_image, read_labels
from napari_gsw.research.evaluation.data_sets import Example

BOMB = (
    '<?xml version="1.0"?><!DOCTYPE a [<!ENTITY a0 "boom">'
    + "".join(f'<!ENTITY a{k} "{f"&a{k - 1};" * 10}">' for k in range(1, 10))
    + "]>"
)


def refused(read, path, words):
    """The sentence with which a file is refused; reading it takes less than 100 MB."""
    tracemalloc.start()
    try:
        with pytest.raises(InputError, match=words) as said:
            read(path)
        assert tracemalloc.get_traced_memory()[1] < 100e6
    finally:
        tracemalloc.stop()
    assert "\n" not in str(said.value)
    return str(said.value)


def promising(path, width, height, **more):
    """A small TIFF whose header is changed to claim another size."""
    tifffile.imwrite(path, np.zeros((16, 16), np.uint8), **more)
    content = bytearray(path.read_bytes())
    (start,) = struct.unpack_from("<I", content, 4)
    (count,) = struct.unpack_from("<H", content, start)
    for entry in range(start + 2, start + 2 + 12 * count, 12):
        (tag,) = struct.unpack_from("<H", content, entry)
        if tag in (256, 257, 278):  # width, height, rows of a strip
            struct.pack_into("<HII", content, entry + 2, 4, 1, {256: width, 257: height, 278: height}[tag])
    path.write_bytes(content)
    return path


@pytest.mark.parametrize("more", [{}, {"compression": "zlib"}, {"metadata": None}], ids=str)
def test_a_tiff_that_claims_a_million_times_a_million_pixels(more, tmp_path):
    path = promising(tmp_path / "huge.tif", 10**6, 10**6, **more)
    assert "1000 GB" in refused(read_image, path, "cannot be read as an image: it promises an image of")


def test_a_numpy_file_that_claims_more_than_it_holds(tmp_path):
    np.save(tmp_path / "a.npy", np.zeros((10, 10), np.uint8))
    content = (tmp_path / "a.npy").read_bytes().replace(b"(10, 10), }" + b" " * 12, b"(1000000, 1000000), }  ")
    (tmp_path / "a.npy").write_bytes(content)
    refused(read_image, tmp_path / "a.npy", "it promises more numbers than it holds")


def test_a_zarr_that_claims_more_than_it_holds(tmp_path):
    zarr = pytest.importorskip("zarr")
    zarr.open_array(str(tmp_path / "a.zarr"), mode="w", shape=(10**6, 10**6), chunks=(1000, 1000), dtype="u1")
    refused(read_labels, tmp_path / "a.zarr", "it promises an image of 1000 GB")


def test_what_a_file_may_promise(monkeypatch):
    check_promise(2**29, 1)  # any file may unpack to that
    check_promise(2**40 // 2**10, 2**20)
    monkeypatch.setattr(images.psutil, "virtual_memory", lambda: SimpleNamespace(total=2**32))
    with pytest.raises(ValueError, match="does not fit into memory"):
        check_promise(2**33, 2**33)


def test_an_annotation_with_entities(tmp_path):
    (tmp_path / "a.xml").write_text(f"{BOMB}<annotation><object>&a9;</object></annotation>")
    gsw_image = np.zeros((8, 8), np.uint8)
    np.save(tmp_path / "a.npy", gsw_image)
    example = Example("a", tmp_path / "a.npy", tmp_path / "a.xml", "labelme")
    refused(lambda _: example.read(), None, r"a.xml' cannot be read as XML: it defines XML entities")


def test_ome_metadata_with_entities(tmp_path):
    from napari_gsw.files.results import read_provenance

    xml = f'{BOMB}<OME xmlns="http://www.openmicroscopy.org/Schemas/OME/2016-06"><Image><Description>&a9;'
    xml += "</Description></Image></OME>"
    tifffile.imwrite(tmp_path / "a.ome.tif", np.zeros((4, 5), np.uint8), description=xml, metadata=None)
    refused(read_image, tmp_path / "a.ome.tif", "it defines XML entities")
    refused(read_provenance, tmp_path / "a.ome.tif", "carries no settings")


def test_xml_without_entities_is_read():
    assert parse_xml(b"<!DOCTYPE a><a>1 &lt; 2</a>").text == "1 < 2"


def codebook(path, centres, space="lab"):
    path.write_text(json.dumps({"space": space, "centres": centres}))
    return path


def test_codebooks_that_are_none(tmp_path):
    (tmp_path / "deep.json").write_text("[" * 100_000)
    refused(gsw.Codebook.load, tmp_path / "deep.json", "is not a codebook")
    for centres in ([[float("nan"), 1.0, 2.0]], [[1e300, 1.0, 2.0]], [[float("inf")] * 3], [[10**400, 1, 1]]):
        path = codebook(tmp_path / "a.json", centres)
        refused(gsw.Codebook.load, path, "is not a codebook")


def test_a_codebook_is_saved_as_a_whole_or_not_at_all(tmp_path, monkeypatch):
    words = gsw.Codebook(np.ones((2, 3), np.float32), "lab")
    words.save(tmp_path / "a.json")
    before = (tmp_path / "a.json").read_bytes()

    def full_disk(self, *_, **__):
        self.touch()
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pathlib.Path.write_text", full_disk)
    with pytest.raises(InputError, match="cannot be written: No space left on device"):
        gsw.Codebook(np.zeros((2, 3), np.float32), "lab").save(tmp_path / "a.json")
    assert (tmp_path / "a.json").read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["a.json"]


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="there is no /dev/zero")
@pytest.mark.parametrize("setting", ["codebook", "boundary_model", "network"])
def test_a_file_without_end_is_not_read(setting):
    with pytest.raises(InputError, match=r"/dev/zero' (cannot be read: not a file|is not a network)"):
        gsw.segment(np.zeros((40, 40, 3), np.uint8), preset="photo", **{setting: "/dev/zero"})
