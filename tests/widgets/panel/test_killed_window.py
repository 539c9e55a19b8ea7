"""A window that is killed at any moment: the next one restores what saved itself, and ends at the same labels."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from skimage.io import imsave

pytest.importorskip("napari")
pytestmark = [pytest.mark.gui, pytest.mark.slow]

SCRIPT = Path(__file__).with_name("killed_window.py")
KILLS = int(os.environ.get("KILLS", "34"))
SWEEPS = 4000


def test_kills_of_a_running_window_change_nothing(tmp_path):
    image = np.kron(np.random.default_rng(0).integers(0, 255, (4, 6, 3)), np.ones((20, 20, 1))).astype(np.uint8)
    imsave(tmp_path / "photo.png", image, check_contrast=False)
    chance, kills = random.Random(0), 0

    def window(name, home, seconds=None):
        """Return whether it ended before it was killed."""
        words = [sys.executable, str(SCRIPT), str(tmp_path / "photo.png"), str(tmp_path / name), str(SWEEPS)]
        environment = {**os.environ, "XDG_DATA_HOME": str(tmp_path / home)}
        try:
            end = subprocess.run(words, env=environment, timeout=seconds, capture_output=True, text=True, check=False)
        except subprocess.TimeoutExpired:  # it was killed
            return False
        assert end.returncode == 0, end.stdout + end.stderr
        return True

    assert window("full.npy", "undisturbed")
    turn = 0
    while kills < KILLS:
        home, name = f"home {turn}", f"again {turn}.npy"
        turn, patience = turn + 1, 1.0
        while not window(name, home, chance.uniform(3, 3 + 6 * patience)):
            kills, patience = kills + 1, patience * 1.1
        np.testing.assert_array_equal(np.load(tmp_path / name), np.load(tmp_path / "full.npy"))
        assert not list((tmp_path / home).rglob(".unfinished*"))
    print(kills, "kills,", turn, "runs")
