"""A picture of 400 million pixels from zarr to zarr in bounded memory: ten minutes, 2 GB of disk, make large."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

zarr = pytest.importorskip("zarr")
pytest.importorskip("dask.array")

SIDE = int(os.environ.get("SLIDE_SIDE", "20000"))
CHUNK = 1024
LIMIT = 2.5 * 2**30

SCRIPT = """
import sys
import zarr
import napari_gsw as gsw
from napari_gsw.files.labels import write_labels

maps = {name: zarr.open(path, mode="r") for name, path in zip(["boundaries"], sys.argv[3:])}
result = gsw.segment(zarr.open(sys.argv[1], mode="r"), seed=0, **maps)
write_labels(result.labels, sys.argv[2], provenance=result.provenance)
print(result.problem.n, result.n_clusters, result.n_regions)
print(next(line for line in open("/proc/self/status") if line.startswith("VmHWM")).split()[1])
"""


def paint(path, boundaries):
    """Regions of twelve kinds, four of them striped, with noise, and their boundaries; never whole in memory."""
    image = zarr.create_array(str(path), shape=(SIDE, SIDE, 3), chunks=(CHUNK, CHUNK, 3), dtype="u1")
    lines = zarr.create_array(str(boundaries), shape=(SIDE, SIDE), chunks=(CHUNK, CHUNK), dtype="f4")
    colours = np.random.default_rng(0).integers(30, 225, (12, 3))

    def painted(corner):
        y, x = (np.arange(c, min(c + CHUNK, SIDE)) for c in corner)
        a = np.sin(y / 211)[:, None] + np.sin((y[:, None] + x) / 317)
        b = np.sin(x / 263)[None] + np.sin((y[:, None] - x) / 389)
        kind = np.digitize(a, [-0.8, 0, 0.8]) * 3 + np.digitize(b, [-0.5, 0.5])
        rng = np.random.default_rng(corner)
        stripes = (kind % 3 == 0) * 20 * np.sin(x / 3)
        values = colours[kind] + stripes[..., None] + rng.normal(0, 6, (len(y), len(x), 3))
        part = slice(y[0], y[-1] + 1), slice(x[0], x[-1] + 1)
        image[part] = np.clip(values, 0, 255).astype(np.uint8)
        edge = np.zeros(kind.shape, bool)
        edge[1:] |= kind[1:] != kind[:-1]
        edge[:, 1:] |= kind[:, 1:] != kind[:, :-1]
        lines[part] = np.where(edge, 0.9, 0.05)

    corners = [(y, x) for y in range(0, SIDE, CHUNK) for x in range(0, SIDE, CHUNK)]
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(painted, corners))


@pytest.mark.large
@pytest.mark.parametrize("maps", [(), ("boundaries.zarr",)], ids=["alone", "with a map of boundaries"])
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads the peak from /proc")
def test_a_slide_from_zarr_to_zarr_in_bounded_memory(tmp_path, maps):
    paint(tmp_path / "slide.zarr", tmp_path / "boundaries.zarr")
    files = [str(tmp_path / name) for name in ("slide.zarr", "labels.zarr", *maps)]
    ended = subprocess.run(
        [sys.executable, "-c", SCRIPT, *files],
        capture_output=True,
        text=True,
    )
    assert ended.returncode == 0, ended.stderr[-2000:]
    found, peak = ended.stdout.splitlines()
    sites, clusters, regions = map(int, found.split())
    print(f"{sites:,} sites, {clusters} clusters, {regions:,} regions; peak {int(peak) / 1024:,.0f} MB")
    assert int(peak) * 1024 < LIMIT
    assert sites == pytest.approx(min(500_000, SIDE**2 / 150), rel=0.25)
    labels = zarr.open(str(tmp_path / "labels.zarr"), mode="r")["0"]
    assert labels.shape == (SIDE, SIDE)
    middle = labels[SIDE // 2 : SIDE // 2 + 500, SIDE // 2 : SIDE // 2 + 500]
    assert middle.min() > 0
    assert len(np.unique(middle)) < 100
    assert regions < 0.2 * sites
