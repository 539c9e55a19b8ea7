"""Segment many images, in processes or on a Dask cluster, and resume what was stopped.

>>> from napari_gsw.batch import run_batch
>>> rows = run_batch("images", "labels", preset="photo", seed=0, jobs=4)  # doctest: +SKIP
"""

from napari_gsw.batch.run import run_batch, run_batch_spec
from napari_gsw.batch.selection import Selection
from napari_gsw.batch.spec import BatchOptions, BatchSpec
from napari_gsw.batch.teaching import ReferenceImage
from napari_gsw.files.results import OutputOptions

__all__ = ["BatchOptions", "BatchSpec", "OutputOptions", "ReferenceImage", "Selection", "run_batch", "run_batch_spec"]
