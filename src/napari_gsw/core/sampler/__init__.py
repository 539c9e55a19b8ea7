"""The sampler: a problem in, immutable snapshots out.

`sample` drains a `Chain`, whose sweeps and moves are kernels on the arrays of `records`; `tempering`, `ensemble` and
`greedy` are built on chains. May import what the model may, and the model; its own floors are a contract.
"""
