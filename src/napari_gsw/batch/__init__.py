"""Many images: found in a folder, segmented one by one, in processes or on a Dask cluster, and never twice.

>>> from napari_gsw.batch import run_batch
>>> rows = run_batch("images", "labels", preset="photo", seed=0, jobs=4)  # doctest: +SKIP
"""

from napari_gsw.batch.order import Order, Way
from napari_gsw.batch.run import run_batch, run_order
from napari_gsw.batch.selection import Selection
from napari_gsw.files.results import Extras

__all__ = ["Extras", "Order", "Selection", "Way", "run_batch", "run_order"]
