"""Results of sampling: consensus, credible ball, uncertainty, regions, objects, tables and convergence.

`Summary` computes them on demand, and `Result` holds the images.
"""
