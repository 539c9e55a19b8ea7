"""What the data say of a site, as histograms of words or moments of channels; and their marginal
likelihood, equation (3).

`likelihoods` is the specification, `evidence_tables` the same as the sampler reads it. May import sites and what sites
may.
"""
