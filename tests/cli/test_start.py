"""Modules that a segmentation on the command line imports."""

from __future__ import annotations

import subprocess
import sys

SCRIPT = """
import sys
from napari_gsw.cli import main
main(["segment", "sample:astronaut", "-q", "--set", "sweeps=20", "-o", sys.argv[1]])
print(*sorted(sys.modules))
"""
# These take longer to import than a small image to segment.
HEAVY = {
    "napari_gsw.research.baselines.crp",
    "matplotlib",
    "zarr",
    "dask",
    "napari",
    "arviz_stats",
    "skimage.morphology",
}


def test_segmentation_imports_nothing_heavy_that_it_does_not_use(tmp_path):
    command = [sys.executable, "-c", SCRIPT, str(tmp_path / "labels")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert set(done.stdout.split()) & HEAVY == set()
