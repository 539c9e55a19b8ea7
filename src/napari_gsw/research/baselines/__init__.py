"""Baseline segmentation methods."""
