"""The moves: a sweep over spin clusters, whole clusters dealt anew, splits and merges, greedy steps.

Kernels only, on the records of the sampler, beside the equations they compute. They may import `records`, `schedule`
and what the sampler may, never a chain.
"""
