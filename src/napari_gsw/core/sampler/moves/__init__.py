"""Kernels of the moves, beside the equations that they compute: sweeps, whole clusters, splits and merges."""
