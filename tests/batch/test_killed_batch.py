"""A batch that is killed at any moment: the same command goes on, and the labels are those of an undisturbed one."""

from __future__ import annotations

import os
import random
import subprocess
import sys

import numpy as np
import pytest
from skimage.io import imread, imsave

pytestmark = [pytest.mark.slow, pytest.mark.skipif(sys.platform == "win32", reason="killing is another thing there")]

COMMAND = "import sys; from napari_gsw.cli import main; sys.exit(main())"
KILLS = int(os.environ.get("KILLS", "34"))
IMAGES = 8


def test_kills_of_a_batch_change_nothing(tmp_path):
    folder = tmp_path / "images"
    folder.mkdir()
    rng = np.random.default_rng(0)
    for k in range(IMAGES):
        image = np.kron(rng.integers(0, 255, (4, 6, 3)), np.ones((20, 20, 1))).astype(np.uint8)
        imsave(folder / f"{k}.png", image, check_contrast=False)
    chance, kills, turn = random.Random(0), 0, 0

    def batch(out, seconds=None):
        """Return whether it ended before it was killed, and its children with it."""
        words = ["batch", str(folder), "-o", str(out), "--jobs", "2", "--resume", "-q", "--set", "sweeps=20000"]
        process = subprocess.Popen([sys.executable, "-c", COMMAND, *words], stderr=subprocess.PIPE, text=True)
        try:
            _, complaint = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            process.kill()  # its children see that and end by themselves
            process.communicate()
            return False
        assert process.returncode == 0, complaint
        return True

    assert batch(tmp_path / "full")
    while kills < KILLS:
        out = tmp_path / f"out {turn}"
        turn += 1
        while not batch(out, chance.uniform(2, 12)):
            kills += 1
        for k in range(IMAGES):
            np.testing.assert_array_equal(imread(out / f"{k}.tif"), imread(tmp_path / "full" / f"{k}.tif"))
        assert not list(out.glob(".unfinished*"))
        assert sorted(file.name for file in out.iterdir()) == sorted(f.name for f in (tmp_path / "full").iterdir())
    print(kills, "kills,", turn, "batches")
