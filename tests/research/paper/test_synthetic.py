"""Experiments on images that are drawn on the spot."""

from __future__ import annotations

import json

import numpy as np
import pytest

from napari_gsw.cli import main
from napari_gsw.research.paper import synthetic

SMALL = synthetic.VolumeScene(shape=(12, 40, 44), number=6)


def test_maps_from_end_to_end(tmp_path, monkeypatch):
    monkeypatch.setattr(synthetic, "SHAPE", (120, 150))
    monkeypatch.setattr(synthetic, "SIDE", 24)
    assert main(["reproduce", "maps", "--limit", "2", "-o", str(tmp_path), "-q", "--jobs", "1"]) == 0
    rows = json.loads((tmp_path / "maps.json").read_text())["rows"]
    assert {row["pictures"] for row in rows.values()} == {2}
    assert all(-1 <= row["least"] <= row["mean"] <= 1 for row in rows.values())
    boundaries, alone = rows["exact boundaries beside it"], rows["mosaic alone"]
    assert boundaries["mean"] >= alone["mean"]


def test_nuclei_are_where_the_truth_has_them():
    volume, truth = synthetic.draw_volume(SMALL._replace(haze=0.0), 3)
    assert volume.shape == truth.shape == SMALL.shape
    sizes = np.bincount(truth.ravel())
    assert 3 <= len(sizes) - 1 <= SMALL.number
    assert sizes[1:].min() >= synthetic.MIN_VOXELS
    assert volume[truth > 0].mean() > 2 * volume[truth == 0].mean()
    again, _ = synthetic.draw_volume(SMALL._replace(haze=0.0), 3)
    assert np.array_equal(volume, again)


def test_coarse_planes_have_flatter_nuclei():
    tall, flat = (synthetic.draw_volume(SMALL._replace(depth=depth, number=1), 1)[1] for depth in (1.0, 3.0))
    assert np.any(flat, axis=(1, 2)).sum() < np.any(tall, axis=(1, 2)).sum()


def test_volumes_from_end_to_end(tmp_path, monkeypatch):
    monkeypatch.setattr(synthetic, "SCENES", {"plain": SMALL, "coarse": SMALL._replace(depth=2.0)})
    assert main(["reproduce", "volumes", "--quick", "-o", str(tmp_path), "-q", "--jobs", "1"]) == 0
    rows = json.loads((tmp_path / "volumes.json").read_text())["rows"]
    assert [(name, row["volumes"]) for name, row in rows.items()] == [("plain", 1), ("coarse", 1), ("all", 2)]
    for method in ("microscopy", "otsu", "otsu-watershed"):
        of = [rows[name]["methods"][method]["mean"] for name in ("plain", "coarse")]
        assert rows["all"]["methods"][method] == pytest.approx({"mean": np.mean(of), "least": min(of)})
    assert rows["all"]["methods"]["microscopy"]["least"] > 0.5
