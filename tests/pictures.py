"""Pictures with a known truth that several tests look at."""

from __future__ import annotations

import numpy as np
from skimage.draw import disk

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
