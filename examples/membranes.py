"""Cells between membranes: found where the walls are closed, and levels from few large regions to many small ones."""

import numpy as np

import napari_gsw as gsw
from napari_gsw.sample_data import membranes

image, truth = membranes()
result = gsw.segment(image, preset="membranes", seed=0)
sizes = np.bincount(result.labels.ravel())
print(f"{np.count_nonzero(sizes)} cells, where {truth.max()} were drawn; {result.diagnosis.sentence}")
sure = np.quantile(result.boundary, (0.5, 0.95))
print(f"probability of a boundary: {sure[0]:.2f} at the median pixel, {sure[1]:.2f} at one in twenty")
