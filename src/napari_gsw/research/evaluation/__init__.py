"""Scores of methods on data sets with human segmentations: ``napari-gsw evaluate``."""
