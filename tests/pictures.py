"""Pictures with a known truth that several tests look at."""

from __future__ import annotations

import numpy as np
from skimage.draw import disk

import napari_gsw as gsw
from napari_gsw.core.features.site_features import ImageFeatures
from napari_gsw.core.graph.region_graph import build_region_graph
from napari_gsw.core.image.normalized_image import normalize_image
from napari_gsw.core.sites.superpixels import make_superpixels

CENTRES = [(25, 25), (25, 80), (30, 130), (80, 30), (80, 44), (90, 100), (120, 150)]  # two of them touch


def cells(bright=(60, 90, 200, 80, 80, 70, 150), noise=4.0, seed=0):
    """Nuclei of different brightness on a dark noisy background, and where they are."""
    rng = np.random.default_rng(seed)
    image, truth = np.full((140, 170), 12.0), np.zeros((140, 170), int)
    for number, (centre, value) in enumerate(zip(CENTRES, bright, strict=True), 1):
        rows, columns = disk(centre, 9, shape=image.shape)
        image[rows, columns] = value
        truth[rows, columns] = number
    return np.clip(image + rng.normal(0, noise, image.shape), 0, 255).astype(np.uint8), truth


STRIPES_RNG = np.random.default_rng(3)


def stripes(noise=8.0):
    """Three stripes of different colours, with noise."""
    image = np.zeros((90, 120, 3))
    image[:, :40], image[:, 40:80], image[:, 80:] = (200, 60, 40), (60, 160, 60), (50, 70, 190)
    return np.clip(image + STRIPES_RNG.normal(0, noise, image.shape), 0, 255).astype(np.uint8)


def described(image, **changes):
    """Features, graph and sites of an image for learnt couplings."""
    settings = gsw.preset("photo", site_size=60, **changes)
    seen = normalize_image(image)
    sites = make_superpixels(seen, settings)
    return ImageFeatures([seen], [sites], settings), build_region_graph(seen, sites), sites


def across_stripes(graph, sites):
    """(m,) whether an edge lies between two stripes."""
    stripe = np.array([np.median(np.nonzero(sites == k + 1)[1]) // 40 for k in range(graph.n)])
    return stripe[graph.edges[:, 0]] != stripe[graph.edges[:, 1]]
