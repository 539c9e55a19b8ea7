"""Data of one's own on a graph of one's own: spectra of some sites beside counts of words, without any image."""

import numpy as np

import napari_gsw as gsw

rng = np.random.default_rng(0)
truth = np.repeat([0, 1, 2], 20)
spectra = np.eye(3)[truth] @ rng.normal(0, 3, (3, 5)) + rng.normal(0, 1, (60, 5))
words = rng.multinomial(30, np.array([[0.7, 0.2, 0.1], [0.1, 0.7, 0.2], [0.2, 0.1, 0.7]])[truth])
problem = gsw.Problem(
    60,
    (gsw.DirichletMultinomial(words, phi=3.0), gsw.Gaussian.from_values(spectra)),
    edges=[(i, i + 1) for i in range(59)],
    beta=0.5,
    prior=gsw.DirichletProcess(alpha=1.0),
)
snapshot = gsw.run(problem, sweeps=200, seed=0)
print("clusters:", snapshot.best.n_clusters)
agrees = all(len(set(snapshot.best.labels[truth == k])) == 1 for k in range(3))
print("as they were made:", agrees)
