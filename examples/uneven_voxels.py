"""A volume whose planes lie four times as far apart as its pixels: say so, and lengths are those of the specimen."""

import numpy as np
from scipy import ndimage

import napari_gsw as gsw
from napari_gsw.sample_data import UNEVEN, uneven_volume

volume, truth = uneven_volume()
for spacing in (UNEVEN, None):
    problem = gsw.prepare(volume, preset="general", spacing=spacing)
    boxes = ndimage.find_objects(problem.sites)
    extent = np.mean([[part.stop - part.start for part in box] for box in boxes], axis=0) * UNEVEN
    said = "with its spacing" if spacing else "as if voxels were cubes"
    print(f"{said}: a superpixel is {extent[0]:.1f} um deep, {extent[1]:.1f} um high and {extent[2]:.1f} um wide")

labels = gsw.segment(volume, preset="general", spacing=UNEVEN, seed=0).labels
pairs = np.zeros((labels.max() + 1, truth.max() + 1), int)
np.add.at(pairs, (labels.ravel(), truth.ravel()), 1)
print(f"{pairs.max(axis=1).sum() / truth.size:.1%} of the voxels are in a region of their own kind")
