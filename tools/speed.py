"""Prints how fast the sampler is: 1,000 sites, 120 words, 12 true clusters, one core.

python tools/speed.py
"""

from __future__ import annotations

import time

import numpy as np
from scipy.spatial import Delaunay

import napari_gsw as gsw


def main() -> None:
    rng = np.random.default_rng(1)
    points = rng.random((1000, 2))
    triangles = Delaunay(points).simplices
    pairs = np.sort(np.concatenate([triangles[:, [0, 1]], triangles[:, [1, 2]], triangles[:, [0, 2]]]), axis=1)
    truth = (points[:, 0] * 4).astype(int) + 4 * (points[:, 1] * 3).astype(int)
    shares = rng.dirichlet(np.full(120, 0.1), 12)
    counts = np.array([rng.multinomial(60, shares[t]) for t in truth])
    problem = gsw.Problem.from_counts(counts, np.unique(pairs, axis=0), 0.02, gsw.DirichletProcess(3.0), 50.0)
    for name, more in {
        "gibbs": dict(lam=0.0),
        "gsw, lambda 10": dict(lam=10.0),
        "with regroups": dict(regroups=1),
    }.items():
        gsw.run(problem, 50, **more)
        began = time.perf_counter()
        last = gsw.run(problem, 1000, **more)
        speed = 1000 / (time.perf_counter() - began)
        print(f"{name:16} {speed:7,.0f} sweeps/s, {last.n_clusters} clusters, {len(problem.edges)} edges")


if __name__ == "__main__":
    main()
