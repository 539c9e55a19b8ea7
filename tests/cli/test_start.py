"""What a segmentation imports where all its kernels are compiled, and that it comes to the same as with numba."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest
import tifffile

SCRIPT = """
import sys
from napari_gsw.cli import main
main(["segment", "sample:astronaut", "-q", "--set", "sweeps=20", "-o", sys.argv[1]])
print(*sorted(sys.modules))
"""
# What takes longer to import than a small picture to segment.
HEAVY = {
    "numba", "scipy", "numpy.f2py", "napari_gsw.methods.crp", "multiprocessing",
    "matplotlib", "zarr", "dask", "napari", "arviz_stats", "skimage.morphology",
}  # fmt: skip


@pytest.mark.skipif(sys.platform != "linux", reason="numba reads all kernels there")
def test_where_all_is_compiled_a_segmentation_takes_neither_numba_nor_scipy(tmp_path):
    def segmented(name, **settings):
        command = [sys.executable, "-c", SCRIPT, str(tmp_path / name)]
        done = subprocess.run(command, capture_output=True, text=True, check=True, env=os.environ | settings)
        return set(done.stdout.split()), tifffile.imread(tmp_path / name / "labels.tif")

    modules, with_numba = segmented("numba", NUMBA_WARNINGS="0")  # whoever sets numba gets numba
    assert "numba" in modules
    segmented("first")  # which compiles what is not yet
    modules, without = segmented("second")
    assert modules & HEAVY == set()
    np.testing.assert_array_equal(without, with_numba)
