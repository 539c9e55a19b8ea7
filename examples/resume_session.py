"""Save a run amid its work, go on with it another day, and end at the labels of a run that never stopped."""

import numpy as np
from skimage.data import coins

import napari_gsw as gsw

image = coins()[:150, :200]


def half_way(stage, snapshot):
    return snapshot is not None and snapshot.sweep >= 100


part = gsw.segment(image, seed=0, sweeps=200, report=half_way)
gsw.save_session("coins.zarr.zip", part, image=image)

session = gsw.open_session("coins.zarr.zip")
print(session.run.sweep, "of", session.run.target, "sweeps are made")
result = gsw.resume(session.run)
print("as if it had never stopped:", np.array_equal(result.labels, gsw.segment(image, seed=0, sweeps=200).labels))
