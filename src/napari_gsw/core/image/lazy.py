"""Arrays that are not in memory: dask's, zarr's, and what else is read piece by piece. The one place that knows dask.

Dask is needed for what comes back (a lazy label image) and imported when it does, never with the package.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from napari_gsw.core.errors import InputError
from napari_gsw.core.image.block_grid import Slices
from napari_gsw.core.threads import cores

T = TypeVar("T")
# A dask array; the package is not imported for its name.
LazyArray = Any


def is_lazy(image: Any) -> bool:
    """Whether an image is to be read in parts: an array in chunks, a pyramid of them, or a zarr group with one."""
    if isinstance(image, (list, tuple)):
        return bool(image) and all(is_lazy(level) for level in image)
    return not isinstance(image, np.ndarray) and (_is_array(image) or _is_group(image))


def _is_array(image: Any) -> bool:
    """Whether it is like a dask or a zarr array."""
    return all(hasattr(image, name) for name in ("shape", "dtype", "chunks", "ndim", "__getitem__"))


def _is_group(image: Any) -> bool:
    """Whether it is like a zarr group."""
    return hasattr(image, "attrs") and hasattr(image, "__getitem__") and hasattr(image, "group_keys")


def levels(image: Any) -> list[Any]:
    """The arrays of an image from the finest to the coarsest: of a pyramid or an OME-Zarr group all, else the one.

    Raises an :class:`InputError` for a zarr group that holds no image.
    """
    if isinstance(image, (list, tuple)):
        return list(image)
    if _is_array(image):
        return [image]
    images = _multiscales(image)
    if not images:
        raise InputError("the zarr group holds no multiscale image; give one of its arrays")
    return [image[level["path"]] for level in images[0]["datasets"]]


def stacked(arrays: Sequence[LazyArray]) -> LazyArray:
    """Lazy arrays of one shape as channels, the last axis."""
    return dask_array().stack(arrays, axis=-1)


def pyramid(image: Any) -> Any:
    """The levels of an image as dask arrays, as a viewer takes them: a list, or the one array."""
    arrays = [level if hasattr(level, "compute") else dask_array().from_array(level) for level in levels(image)]
    return arrays if len(arrays) > 1 else arrays[0]


def group_axes(image: Any) -> str | None:
    """The axes that an OME-Zarr group tells, as letters; None for anything else."""
    if isinstance(image, (list, tuple)) or not _is_group(image) or _is_array(image):
        return None
    axes = (_multiscales(image) or [{}])[0].get("axes", ())
    letters = "".join(axis["name"] if isinstance(axis, dict) else axis for axis in axes).upper()
    return letters if letters and set(letters) <= set("TCZYX") else None


def _multiscales(group: Any) -> list[Any]:
    """What a zarr group says of its images, in the words of either version of OME-Zarr; empty if it says nothing."""
    attributes = dict(group.attrs)
    return list(attributes.get("ome", attributes).get("multiscales") or ())


def chunk_lengths(image: Any) -> tuple[int, ...]:
    """Length of a chunk along each axis; an array that is stored in one piece is one chunk."""
    if not image.chunks:
        return tuple(image.shape)
    return tuple(max(c) if isinstance(c, tuple) else int(c) for c in image.chunks)


def read(image: Any, part: Slices) -> NDArray[Any]:
    """Some pixels of a lazy array, in memory."""
    pixels = image[part]
    if hasattr(pixels, "compute"):
        # In this thread: the blocks are what runs in parallel.
        pixels = pixels.compute(scheduler="synchronous")
    return np.asarray(pixels)


@contextmanager
def workers() -> Iterator[tuple[Executor, int]]:
    """Who works on blocks, and how many at a time: the workers of dask's cluster if this program is connected to one,
    otherwise a thread for each core."""
    client = _client()
    if client is not None:
        yield client.get_executor(), 2 * max(1, sum(client.nthreads().values()))
        return
    count = cores()
    pool = ThreadPoolExecutor(count)
    try:
        yield pool, count
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _client() -> Any:
    """The client of dask's cluster that this program is connected to, or None."""
    import sys

    distributed = sys.modules.get("distributed")  # who has a client has imported it
    if distributed is None:
        return None
    try:
        return distributed.get_client()
    except ValueError:
        return None


def mapped(work: Callable[..., T], jobs: Sequence[tuple[Any, ...]], done: Callable[[int], None]) -> list[T]:
    """``work(*job)`` for every job, in parallel, no more of them under way than there are workers.

    Parameters
    ----------
    done : called in this thread with the number of finished jobs.
    """
    results: list[Any] = [None] * len(jobs)
    waiting: dict[Future[T], int] = {}
    queue = iter(enumerate(jobs))
    finished = 0
    with workers() as (pool, most):
        while finished < len(jobs):
            while len(waiting) < most and (entry := next(queue, None)) is not None:
                waiting[pool.submit(work, *entry[1])] = entry[0]
            for future in wait(waiting, return_when=FIRST_COMPLETED).done:
                results[waiting.pop(future)] = future.result()
                finished += 1
            done(finished)
    return results


def dask_array() -> Any:
    """The module dask.array, imported when it is first needed; a sentence where it is missing."""
    try:
        import dask.array
    except ImportError:
        raise InputError('lazy images need a package that is missing; try: pip install "napari-gsw[batch]"') from None
    return dask.array
