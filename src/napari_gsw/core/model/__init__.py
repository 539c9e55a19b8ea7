"""Data, graph, couplings and prior as one problem, and its log posterior, equation (14), in plain numpy.

Priors as two tables; images too large for memory assembled from blocks. May import graph and what graph may.
"""
