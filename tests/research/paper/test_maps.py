"""The experiment on maps beside an image, and on volumes of coarse planes."""

from __future__ import annotations

import json

import numpy as np

from napari_gsw.cli import main
from napari_gsw.research.paper import maps


def test_from_end_to_end(tmp_path, monkeypatch):
    monkeypatch.setattr(maps, "SHAPE", (120, 150))
    monkeypatch.setattr(maps, "SIDE", 24)
    assert main(["reproduce", "maps", "--limit", "2", "-o", str(tmp_path), "-q", "--jobs", "1"]) == 0
    rows = json.loads((tmp_path / "maps.json").read_text())["rows"]
    assert {row["pictures"] for row in rows.values()} == {2}
    assert all(-1 <= row["least"] <= row["mean"] <= 1 for row in rows.values())
    boundaries, alone = rows["exact boundaries beside it"], rows["mosaic alone"]
    assert boundaries["mean"] >= alone["mean"]


def test_every_patch_has_channels_of_its_own():
    truth = np.array([[1, 1, 2], [2, 3, 3]])
    values = maps.make_channels(truth, 50, np.random.default_rng(0))
    assert values.shape == (50, 2, 3)
    within = np.abs(values[:, 0, 0] - values[:, 0, 1]).mean()
    between = np.abs(values[:, 0, 0] - values[:, 0, 2]).mean()
    assert between > 2 * within
