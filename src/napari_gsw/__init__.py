"""Bayesian image segmentation with the generalized Swendsen-Wang sampler.

>>> import napari_gsw as gsw
>>> gsw.DirichletProcess(alpha=3).expected_clusters(1099)  # doctest: +ELLIPSIS
18.2...

A name is loaded when it is first used, so that importing the package is quick. The names are in ``__init__.pyi``.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
