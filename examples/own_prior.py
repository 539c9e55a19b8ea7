"""A prior of one's own: two tables, log weights by the number of clusters and by the size of each."""

import numpy as np
from skimage.data import coffee

import napari_gsw as gsw

problem = gsw.prepare(coffee()[::4, ::4], preset="paper")
n = problem.n
sizes, counts = np.arange(n + 1.0), np.arange(n + 1.0)
# Clusters of about a tenth of the sites, and about five of them.
by_size = -0.5 * ((np.log(np.maximum(sizes, 1.0)) - np.log(n / 10)) / 0.5) ** 2
by_number = -0.5 * ((counts - 5) / 1.0) ** 2
own = gsw.Problem(n, problem.likelihoods, problem.edges, problem.beta, gsw.TablePrior(by_number, by_size))
snapshot = gsw.run(own, sweeps=300, seed=0)
print("sizes of the clusters:", sorted(np.bincount(snapshot.best.labels).tolist()))
