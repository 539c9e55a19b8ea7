"""Networks: tiles give what the image gives, and files are checked."""

from __future__ import annotations

import json
import logging

import numpy as np
import pytest

import napari_gsw as gsw
from napari_gsw.core.features import network as networks
from napari_gsw.core.features.network import load_weights
from napari_gsw.core.image.normalized_image import normalize_image
from napari_gsw.research.training.networks import save_weights

RNG = np.random.default_rng(15)


def random_arrays(kind):
    """Arrays for a network, as large as those of the package."""
    shapes = networks._expected_shapes(kind)
    scale = {n: np.sqrt(2 / np.prod(shape[1:])) if len(shape) > 1 else 0.1 for n, shape in shapes.items()}
    return {n: (scale[n] * RNG.normal(size=shape)).astype(np.float16) for n, shape in shapes.items()}


def colours(height, width):
    """Lab of a smooth picture with an edge in it."""
    y, x = np.mgrid[:height, :width]
    lab = np.stack((50 + 30 * np.sin(y / 9.0 + x / 31.0), 20 * np.cos(x / 13.0), 15 * np.sin(y / 17.0)), axis=-1)
    lab[:, width // 2 :, 0] -= 40
    return lab.astype(np.float32)


def test_tiles_and_threads_change_nothing(monkeypatch):
    pytest.importorskip("onnxruntime")
    network = networks.load_builtin_network("photo")
    image = colours(70, 620)
    at_once = network.predict(image)
    monkeypatch.setattr(networks, "TILE", 220)
    assert len(networks.cut_into_tiles(620)) == 4
    one, two = network.predict(image, n_threads=1), network.predict(image, n_threads=2)
    for tiled in (one, two):
        assert np.abs(tiled.fine - at_once.fine).max() < 1e-6
        assert np.abs(tiled.embedding - at_once.embedding).max() < 1e-5
    assert np.array_equal(one.fine, two.fine)
    assert np.array_equal(one.embedding, two.embedding)
    assert np.ptp(at_once.fine) > 0.1


def test_a_network_looks_at_images_of_any_size():
    pytest.importorskip("onnxruntime")
    for shape in ((1, 1), (3, 40), (17, 16)):
        maps = networks.load_builtin_network("photo").predict(colours(*shape))
        assert maps.fine.shape == (*shape, 1)
        assert maps.embedding.shape == (*shape, 8)
        assert np.isfinite(maps.fine).all()


def test_the_shipped_network_sees_an_edge():
    pytest.importorskip("onnxruntime")
    image = np.full((96, 96, 3), (70, 90, 160), np.uint8)
    image[:, 48:] = (200, 120, 60)
    maps = networks.load_builtin_network("photo").predict(normalize_image(image).channels)
    assert maps.fine[16:-16, 47:49].mean() > 0.7
    assert maps.fine[16:-16, 16:36].mean() < 0.1
    near, far = (np.linalg.norm(maps.embedding[48, 20] - maps.embedding[48, x]) for x in (32, 76))
    assert far > 2 * near


def test_the_shipped_numbers_must_be_those_of_the_build(monkeypatch):
    pytest.importorskip("onnxruntime")
    assert networks.load_builtin_network("photo").sha256 == networks.BUILTIN_SHA256["photo"]
    networks.load_builtin_network.cache_clear()
    monkeypatch.setitem(networks.BUILTIN_SHA256, "photo", "0" * 64)
    with pytest.raises(gsw.InputError, match="install it again"):
        networks.load_builtin_network("photo")


def test_weights_in_a_file_are_checked(tmp_path):
    path, arrays = tmp_path / "own.npz", random_arrays("photo")
    sha256 = save_weights(path, "photo", arrays, seed=3)
    weights, stored_sha256 = load_weights(path, "photo")
    assert stored_sha256 == sha256
    assert path.stat().st_size < 4e6
    assert all(np.array_equal(weights[name], array) for name, array in arrays.items())
    with pytest.raises(gsw.InputError, match="is one for photo; give one for objects"):
        load_weights(path, "objects")
    stored = dict(np.load(path))

    def refused(match, **changes):
        np.savez(path, **{k: v for k, v in {**stored, **changes}.items() if v is not None})
        with pytest.raises(gsw.InputError, match=match) as failure:
            load_weights(path, "photo")
        assert "\n" not in str(failure.value)

    weight = stored["down0.weight"]
    other = weight.copy()
    other[0, 0, 0, 0] += np.float16(0.5)
    refused("damaged", **{"down0.weight": other})
    refused("array down0.weight must be finite float16", **{"down0.weight": weight[:, :, :3, :3]})
    refused("array down0.weight must be finite float16", **{"down0.weight": weight.astype(np.float32)})
    refused("must be finite", **{"down0.weight": np.full_like(weight, np.nan)})
    refused("other names", **{"up1.bias": None})
    refused("other names", more=weight)
    refused("is not a network", about=None)
    refused("is not a network", about=np.array({"kind": "photo"}, dtype=object))  # would have to be unpickled
    path.write_bytes(b"PK\x03\x04 and nothing more")
    with pytest.raises(gsw.InputError, match="is not a network"):
        load_weights(path, "photo")
    with pytest.raises(gsw.InputError, match="cannot be read"):
        load_weights(tmp_path / "nowhere.npz", "photo")


def two_colours():
    image = np.full((60, 80, 3), (70, 90, 160), np.uint8)
    image[:, 40:] = (200, 120, 60)
    return np.clip(image + np.random.default_rng(0).normal(0, 9, image.shape), 0, 255).astype(np.uint8)


def test_a_network_of_ones_own_is_named_and_recorded(tmp_path):
    pytest.importorskip("onnxruntime")
    path = tmp_path / "own.npz"
    sha256 = save_weights(path, "photo", random_arrays("photo"))
    image = two_colours()
    shipped = gsw.prepare(image, preset="photo")
    own = gsw.prepare(image, preset="photo", network=str(path))
    without = gsw.prepare(image, preset="photo", network="none")
    assert not np.array_equal(shipped.beta, own.beta)
    assert not np.array_equal(shipped.beta, without.beta)
    record = gsw.segment(image, preset="photo", network=str(path), sweeps=5).provenance["network"]
    assert (record["name"], record["sha256"]) == (str(path), sha256)
    json.dumps(record)
    assert "network" not in gsw.segment(image, preset="photo", network="none", sweeps=5).provenance
    assert "network" not in gsw.segment(image, sweeps=5).provenance
    save_weights(path, "photo", random_arrays("photo"))  # a file that changes is read again
    assert not np.array_equal(gsw.prepare(image, preset="photo", network=str(path)).beta, own.beta)
    with pytest.raises(gsw.InputError, match="cannot be read"):
        gsw.prepare(image, preset="photo", network=str(tmp_path / "nowhere.npz"))


def test_one_chunk_gives_what_memory_gives():
    pytest.importorskip("onnxruntime")
    da = pytest.importorskip("dask.array")
    image = two_colours()
    lazy = gsw.segment(da.from_array(image, chunks=image.shape), preset="photo", sweeps=20, seed=1)
    assert np.array_equal(np.asarray(lazy.labels), gsw.segment(image, preset="photo", sweeps=20, seed=1).labels)


def test_without_onnxruntime_photo_says_so_once_and_goes_on(monkeypatch, caplog, tmp_path):
    monkeypatch.setattr(networks, "has_onnxruntime", lambda: False)
    networks._warn_missing.cache_clear()
    image = two_colours()
    with caplog.at_level(logging.WARNING, "napari_gsw"):
        result = gsw.segment(image, preset="photo", sweeps=20, seed=1)
        gsw.segment(image, preset="photo", sweeps=5, seed=1)
    networks._warn_missing.cache_clear()
    assert [record.getMessage() for record in caplog.records] == [networks.MISSING]
    assert result.provenance["network"] == {"name": "shipped", "unused": "onnxruntime is missing"}
    plain = gsw.segment(image, preset="photo", network="none", sweeps=20, seed=1)
    assert np.array_equal(result.labels, plain.labels)
    with pytest.raises(gsw.InputError, match=r"napari-gsw\[networks\]"):
        gsw.prepare(image, preset="photo", network=str(tmp_path / "own.npz"))


def test_boundaries_that_were_learnt_with_a_network_ask_for_one(tmp_path):
    from napari_gsw.core.graph.boundary_model import load_boundary_model

    load_boundary_model("shipped", network=True).save(tmp_path / "model.json")
    with pytest.raises(gsw.InputError, match="learnt with a network"):
        gsw.prepare(two_colours(), preset="photo", boundary_model=str(tmp_path / "model.json"), network="none")
