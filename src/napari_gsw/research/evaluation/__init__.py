"""How good a segmentation is: data sets with human segmentations, measures of agreement, scores of a method.

What lives here imports the core, the files, the jobs and the methods.
"""
