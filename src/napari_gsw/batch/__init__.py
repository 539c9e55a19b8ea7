"""Segment many images, in processes or on a Dask cluster, and resume what was stopped.

>>> from napari_gsw.batch import run_batch
>>> rows = run_batch("images", "labels", preset="photo", seed=0, jobs=4)  # doctest: +SKIP
"""

import warnings
from typing import TYPE_CHECKING, Any

import lazy_loader

if TYPE_CHECKING:
    from napari_gsw.batch.images import BatchSpec, ReferenceImage, Selection
    from napari_gsw.batch.jobs import BatchOptions
    from napari_gsw.batch.run import run_batch, run_batch_spec
    from napari_gsw.files.results import OutputOptions

__all__ = ["BatchOptions", "BatchSpec", "OutputOptions", "ReferenceImage", "Selection", "run_batch", "run_batch_spec"]

# Loaded when they are used, so that `napari-gsw --help` is fast.
_load, __dir__, _ = lazy_loader.attach(
    __name__,
    submod_attrs={
        "images": ["BatchSpec", "OutputOptions", "ReferenceImage", "Selection"],
        "jobs": ["BatchOptions"],
        "run": ["run_batch", "run_batch_spec"],
    },
)
_RENAMED = {
    "BatchOrder": "BatchSpec",
    "Extras": "OutputOptions",
    "Teacher": "ReferenceImage",
    "run_order": "run_batch_spec",
}


def __getattr__(name: str) -> Any:
    if name in _RENAMED:
        message = f"napari_gsw.batch.{name} is deprecated: use napari_gsw.batch.{_RENAMED[name]}"
        warnings.warn(message, DeprecationWarning, stacklevel=2)
        name = _RENAMED[name]
    return _load(name)
