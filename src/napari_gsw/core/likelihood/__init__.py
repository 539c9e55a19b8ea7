"""Conjugate likelihoods and their tables."""
