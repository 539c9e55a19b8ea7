"""Problems of a realistic size, without an image."""

from __future__ import annotations

import numpy as np
from scipy.spatial import Delaunay

import napari_gsw as gsw


def planar(n=300, words=40, blocks=1, channels=0, prior=None, beta=0.05, seed=0, evidence=8.0, clusters=6):
    """A planar graph of n sites in a few true regions, with histograms and channels to match."""
    rng = np.random.default_rng(seed)
    points = rng.random((n, 2))
    triangles = Delaunay(points).simplices
    pairs = np.sort(np.concatenate([triangles[:, [0, 1]], triangles[:, [1, 2]], triangles[:, [0, 2]]]), axis=1)
    centres = rng.random((clusters, 2))
    truth = np.argmin(np.linalg.norm(points[:, None] - centres, axis=-1), axis=1)
    made = []
    for _ in range(blocks):
        shares = rng.dirichlet(np.full(words, 0.3), clusters)
        counts = np.array([rng.multinomial(60, shares[t]) for t in truth])
        made.append(gsw.DirichletMultinomial(counts, 30.0, evidence))
    if channels:
        levels = rng.normal(size=(clusters, channels))
        pixel = np.repeat(np.arange(n), 10)
        values = levels[truth[pixel]] + rng.normal(0, 0.6, (len(pixel), channels))
        made.append(gsw.Gaussian.from_pixels(values, pixel, n, evidence=evidence))
    edges = np.unique(pairs, axis=0)
    return gsw.Problem(n, tuple(made), edges, beta, prior or gsw.DirichletProcess(1.0))
