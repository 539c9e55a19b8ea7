"""Everything compiled, or read from the cache, before it is needed."""

from __future__ import annotations

import numpy as np

from napari_gsw.core.pipeline.segment import segment


def warm_up() -> None:
    """Compile every kernel (or load it from the cache), so that the first segmentation does not have to."""
    segment(np.arange(64.0).reshape(8, 8), site_size=4, sweeps=1, seed=0, regroups=1)
