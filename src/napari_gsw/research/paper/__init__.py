"""The figures and the table of the paper, and further experiments: ``napari-gsw reproduce``.

An experiment is a function that takes a :class:`~napari_gsw.research.paper.experiment.Study`.
"""
