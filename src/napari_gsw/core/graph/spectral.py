"""Global context: where the sites lie in the slowest modes of the region graph.

Two sites on the two sides of a long weak boundary look alike locally; in the leading eigenvectors of the graph's
normalised affinity, which are nearly constant on groups of sites that hang together, they are far apart.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from napari_gsw.core.arrays import Floats

# Of the eigenvalues, relative; what is made of them is a cue among many.
ACCURACY = 1e-4
# Of a site without affinity to any other.
LEAST_DEGREE = 1e-9


def embedding(n: int, edges: NDArray[np.int32], affinity: Floats, modes: int) -> tuple[Floats, Floats]:
    """Coordinates of the sites in the slowest modes, and how slow each is.

    Parameters
    ----------
    edges, affinity : (m, 2) sites, and (m,) how much they belong together, >= 0.
    modes : how many; those that a small graph does not have are zero.

    Returns
    -------
    place : (n, modes) eigenvectors v_k of the random walk, each divided by the square root of its eigenvalue lambda_k
        of the Laplacian relative to that of the slowest one: slow modes count most (Shi and Malik 2000; Arbelaez et
        al. 2011).
    slowness : (modes,) lambda_k in ascending order, in [0, 2]; 1 for modes that the graph does not have.
    """
    from scipy import sparse
    from scipy.sparse.linalg import eigsh

    place, slowness = np.zeros((n, modes)), np.ones(modes)
    wanted = min(modes + 1, n - 2)
    if wanted < 2:
        return place, slowness
    i, j = edges.T
    both = sparse.csr_array(
        (np.concatenate((affinity, affinity)), (np.concatenate((i, j)), np.concatenate((j, i)))), shape=(n, n)
    )
    degree = both.sum(axis=1) + LEAST_DEGREE
    root = sparse.diags_array(1 / np.sqrt(degree))
    # From a fixed start and fixed restarts, so that the same graph gives the same modes.
    values, vectors = eigsh(
        root @ both @ root, k=wanted, which="LA", v0=np.sqrt(degree), tol=ACCURACY, rng=np.random.default_rng(0)
    )
    order = np.argsort(-values)[1:]  # without the constant one
    count = len(order)
    slowness[:count] = np.maximum(1 - values[order], 1e-6)
    scale = np.sqrt(degree.sum() / degree)[:, np.newaxis] * np.sqrt(slowness[0] / slowness[:count])
    place[:, :count] = vectors[:, order] * scale
    return place, slowness
