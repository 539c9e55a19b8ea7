"""What chains have learnt: consensus, credible ball, boundaries, regions, objects, and whether the chains agree.

`Summary` computes it on demand, `Result` paints it. May import sampler and what sampler may.
"""
