"""Scores of segmentations against references."""
