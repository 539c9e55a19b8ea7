"""Nuclei: find them, measure each, and see which the model is least sure of."""

from pathlib import Path

import numpy as np
from scipy import ndimage

import napari_gsw as gsw
from napari_gsw.files.results import columns_to_csv

rng = np.random.default_rng(0)
y, x = np.mgrid[:200, :200]
nuclei = np.zeros(y.shape)
for row, column in rng.uniform(15, 185, (30, 2)):
    inside = ((y - row) / 7) ** 2 + ((x - column) / 10) ** 2 < 1
    nuclei = np.maximum(nuclei, inside * rng.uniform(80, 160))
image = (20 + ndimage.gaussian_filter(nuclei, 1) + rng.normal(0, 5, y.shape)).clip(0, 255).astype(np.uint8)

result = gsw.segment(image, preset="microscopy", seed=0)
table = result.table(image)
print(f"{len(table['index'])} nuclei, {np.median(table['pixels']):.0f} pixels each")
doubtful = np.argsort(table["one_object"])[:3]
print("least sure to be one nucleus:", [int(table["index"][k]) for k in doubtful])
Path("nuclei.csv").write_text(columns_to_csv(table, ","))
