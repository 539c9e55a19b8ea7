"""Every script in examples/ runs from its first line to its last, in an empty folder."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parents[1] / "examples").glob("*.py"))


# What the tests of the batch and of the samples show as well.
LEFT = ("batch_on_dask", "membranes", "uneven_voxels")
RUN = [pytest.param(s, id=s.stem, marks=pytest.mark.slow if s.stem in LEFT else ()) for s in EXAMPLES]


@pytest.mark.parametrize("script", RUN)
def test_an_example_runs(script, tmp_path):
    if "distributed" in script.read_text():
        pytest.importorskip("distributed")
    environment = {**os.environ, "MPLBACKEND": "agg"}
    words = [sys.executable, "-W", "error::DeprecationWarning:napari_gsw", str(script)]
    end = subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert end.returncode == 0, end.stderr
    assert end.stdout, "it says what it has found"


def test_the_notebook_runs_from_cell_to_cell(tmp_path, monkeypatch):
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("agg")
    monkeypatch.chdir(tmp_path)
    cells = json.loads((EXAMPLES[0].parent / "first_steps.ipynb").read_text())["cells"]
    names = {}
    for cell in cells:
        if cell["cell_type"] == "code":
            exec(cell["source"], names)
    assert set(names["steered"].labels.ravel()) == {1, 2}
    names["plt"].close("all")
