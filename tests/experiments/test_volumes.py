"""The experiment on made-up nuclei in volumes."""

from __future__ import annotations

import json

import numpy as np
import pytest

from napari_gsw.cli import main
from napari_gsw.research.paper import volumes
from napari_gsw.research.paper.volumes import PLAIN, drawn

SMALL = PLAIN._replace(shape=(12, 40, 44), number=6)


def test_nuclei_are_where_the_truth_has_them():
    volume, truth = drawn(SMALL._replace(haze=0.0), 3)
    assert volume.shape == truth.shape == SMALL.shape
    sizes = np.bincount(truth.ravel())
    assert 3 <= len(sizes) - 1 <= SMALL.number
    assert sizes[1:].min() >= 20  # a later one may have cut into it
    assert volume[truth > 0].mean() > 2 * volume[truth == 0].mean()
    again, _ = drawn(SMALL._replace(haze=0.0), 3)
    assert np.array_equal(volume, again)


def test_coarse_planes_have_flatter_nuclei():
    tall, flat = (drawn(SMALL._replace(depth=depth, number=1), 1)[1] for depth in (1.0, 3.0))
    assert np.any(flat, axis=(1, 2)).sum() < np.any(tall, axis=(1, 2)).sum()


def test_from_end_to_end(tmp_path, monkeypatch):
    monkeypatch.setattr(volumes, "SCENES", {"plain": SMALL, "coarse": SMALL._replace(depth=2.0)})
    assert main(["reproduce", "volumes", "--quick", "-o", str(tmp_path), "-q", "--jobs", "1"]) == 0
    rows = json.loads((tmp_path / "volumes.json").read_text())["rows"]
    assert [(name, row["volumes"]) for name, row in rows.items()] == [("plain", 1), ("coarse", 1), ("all", 2)]
    for method in ("microscopy", "otsu", "otsu-watershed"):
        of = [rows[name]["methods"][method]["mean"] for name in ("plain", "coarse")]
        assert rows["all"]["methods"][method] == pytest.approx({"mean": np.mean(of), "least": min(of)})
    assert rows["all"]["methods"]["microscopy"]["least"] > 0.5
