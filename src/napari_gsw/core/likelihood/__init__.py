"""Marginal likelihoods of clusters, eq. (3), and the tables that the sampler reads."""
