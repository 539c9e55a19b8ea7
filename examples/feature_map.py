"""Evidence from elsewhere: channels that another program made, beside the picture or in its place."""

import numpy as np
from scipy import ndimage

import napari_gsw as gsw
from napari_gsw.sample_data import mosaic

image, truth = mosaic()
image, truth = image[::2, ::2], truth[::2, ::2]
# What a network might say of each pixel: 32 numbers, of which it takes a few to tell the patches apart.
rng = np.random.default_rng(0)
kinds = rng.normal(0, 1, (truth.max() + 1, 32))
features = ndimage.gaussian_filter(kinds[truth], (1, 1, 0)) + rng.normal(0, 1, (*truth.shape, 32))
boundaries = ndimage.gaussian_gradient_magnitude(truth.astype(float), 1) > 0.2

by_features = gsw.segment(image, preset="general", features=features, seed=0)
by_both = gsw.segment(image, preset="general", features=features, boundaries=boundaries.astype(float), seed=0)
for name, result in (("features", by_features), ("features and boundaries", by_both)):
    print(f"{name}: {result.n_clusters} clusters, where {truth.max()} were drawn")
