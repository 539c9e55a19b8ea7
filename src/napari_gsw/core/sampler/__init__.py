"""The sampler: from a problem to immutable snapshots.

`sample` drains a `Chain`, whose sweeps and moves are kernels on the arrays of `state`.
"""
