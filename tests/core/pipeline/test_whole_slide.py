"""A picture of 400 million pixels from zarr to zarr in bounded memory: half an hour, 2 GB of disk, make large."""

import os
import sys

import numpy as np
import pytest

zarr = pytest.importorskip("zarr")
pytest.importorskip("dask.array")

from napari_gsw.research.benchmarks.cases import write_slide  # noqa: E402
from napari_gsw.research.benchmarks.sections import run_process  # noqa: E402

SIDE = int(os.environ.get("SLIDE_SIDE", "20000"))
LIMIT = 2.5 * 2**30


@pytest.mark.large
@pytest.mark.parametrize("maps", [(), ("boundaries.zarr",)], ids=["alone", "with a map of boundaries"])
@pytest.mark.parametrize("noise", [4.0, 12.0], ids=["quiet", "noisy"])
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads the peak from /proc")
def test_a_slide_from_zarr_to_zarr_in_bounded_memory(tmp_path, maps, noise):
    write_slide(tmp_path / "slide.zarr", tmp_path / "boundaries.zarr", SIDE, noise)
    took = run_process("slide", *(tmp_path / name for name in ("slide.zarr", "labels.zarr", *maps)))
    sites, clusters, regions = (took["facts"][name] for name in ("sites", "clusters", "regions"))
    peak = max(values[2] for values in took["stages"].values())
    print(f"{sites:,} sites, {clusters} clusters, {regions:,} regions; peak {peak:,.0f} MB")
    assert peak * 1e6 < LIMIT
    assert sites == pytest.approx(min(500_000, SIDE**2 / 150), rel=0.25)
    labels = zarr.open(str(tmp_path / "labels.zarr"), mode="r")["0"]
    assert labels.shape == (SIDE, SIDE)
    middle = labels[SIDE // 2 : SIDE // 2 + 500, SIDE // 2 : SIDE // 2 + 500]
    assert middle.min() > 0
    assert len(np.unique(middle)) < 100
    assert regions < 0.2 * sites
