"""Draw docs/images/knobs/*.png: the effect of one setting on one image, with default values for the others.

python tools/setting_figures.py
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from skimage.data import coffee
from skimage.segmentation import mark_boundaries
from skimage.transform import rescale

import napari_gsw as gsw

FOLDER = Path(__file__).parents[1] / "docs" / "images" / "knobs"
# The values of each setting from small to large, and the settings beside it.
SETTINGS: dict[str, tuple[list[Any], dict[str, Any]]] = {
    "alpha": ([1e-6, 1.0, 1e6], {"preset": "paper"}),
    "beta": ([0.0, 0.02, 0.2], {"preset": "paper"}),
    "evidence": ([0.5, 3.0, 20.0], {"preset": "paper"}),
    "min_size": ([1, 10, 40], {"preset": "paper"}),
    "site_size": ([50, 200, 800], {"preset": "general"}),
    "min_region": ([0, 300, 3000], {"preset": "general"}),
}


def main() -> None:
    image = (rescale(coffee(), 0.45, channel_axis=-1, anti_aliasing=True) * 255).astype(np.uint8)
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, (values, more) in SETTINGS.items():
        figure, axes = plt.subplots(1, len(values), figsize=(9, 2.4), layout="constrained")
        for ax, value in zip(axes, values, strict=True):
            result = gsw.segment(image, seed=0, **more, **{name: value})
            ax.imshow(mark_boundaries(image, result.labels, color=(1, 0.85, 0.1), mode="inner"))
            regions = len(np.unique(result.regions))
            ax.set_title(f"{name} = {value:g}: {result.n_clusters} clusters, {regions} regions", fontsize=8)
            ax.axis("off")
        figure.savefig(FOLDER / f"{name}.png", dpi=110)
        plt.close(figure)


if __name__ == "__main__":
    main()
