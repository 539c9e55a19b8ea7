"""Images that are not in memory: arrays of dask and zarr. Only this module imports dask."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from napari_gsw.core.errors import InputError
from napari_gsw.core.image.block_grid import Grid, Slices, make_grid
from napari_gsw.core.image.normalized_image import guess_axes
from napari_gsw.core.threads import count_cores

T = TypeVar("T")
# A dask array, which is not imported for its name.
LazyArray = Any
# A lazy image of no more than this many blocks is read whole: it fits, and its sites have no block borders.
MAX_WHOLE_BLOCKS = 8


def is_lazy(image: Any) -> bool:
    """Return whether an image is read in parts: a chunked array, a pyramid of them, or a zarr group."""
    if isinstance(image, (list, tuple)):
        return bool(image) and all(is_lazy(level) for level in image)
    return not isinstance(image, np.ndarray) and (_is_array(image) or _is_group(image))


def _is_array(image: Any) -> bool:
    return all(hasattr(image, name) for name in ("shape", "dtype", "chunks", "ndim", "__getitem__"))


def _is_group(image: Any) -> bool:
    return hasattr(image, "attrs") and hasattr(image, "__getitem__") and hasattr(image, "group_keys")


def is_image_list(image: Any) -> bool:
    """Return whether a list or tuple holds several images in memory, of two axes or more.

    A list of lazy arrays is the pyramid of one image, and a list of rows or of numbers is one image.

    >>> plane = np.zeros((4, 5))
    >>> is_image_list([plane, plane]), is_image_list(plane), is_image_list(plane.tolist())
    (True, False, False)
    """
    if not isinstance(image, (list, tuple)) or not len(image):
        return False
    in_memory = [isinstance(entry, np.ndarray) and entry.ndim > 1 for entry in image]
    if any(in_memory) and any(is_lazy(entry) for entry in image):
        raise InputError("a list must hold several images in memory or the lazy levels of one image, not both")
    return all(in_memory)


def list_levels(image: Any) -> list[Any]:
    """List the arrays of an image from the finest to the coarsest."""
    if isinstance(image, (list, tuple)):
        return list(image)
    if _is_array(image):
        return [image]
    images = _read_multiscales(image)
    if not images:
        raise InputError("the zarr group holds no multiscale image; give one of its arrays")
    return [image[level["path"]] for level in images[0]["datasets"]]


def stack_channels(arrays: Sequence[LazyArray]) -> LazyArray:
    """Stack lazy arrays of one shape as channels, the last axis."""
    return import_dask_array().stack(arrays, axis=-1)


def to_dask_pyramid(image: Any) -> Any:
    """Convert the levels of an image to dask arrays for a viewer: a list, or the only array."""
    levels = list_levels(image)
    arrays = [a if hasattr(a, "compute") else import_dask_array().from_array(a) for a in levels]
    return arrays if len(arrays) > 1 else arrays[0]


def read_group_axes(image: Any) -> str | None:
    """Read the letters of the axes of an OME-Zarr group; None for anything else."""
    if isinstance(image, (list, tuple)) or not _is_group(image) or _is_array(image):
        return None
    axes = (_read_multiscales(image) or [{}])[0].get("axes", ())
    letters = "".join(axis["name"] if isinstance(axis, dict) else axis for axis in axes).upper()
    return letters if letters and set(letters) <= set("TCZYX") else None


def _read_multiscales(group: Any) -> list[Any]:
    """Read the metadata of the images of a zarr group, in either version of OME-Zarr."""
    attributes = dict(group.attrs)
    return list(attributes.get("ome", attributes).get("multiscales") or ())


def get_chunk_shape(image: Any) -> tuple[int, ...]:
    """Return the length of a chunk along each axis; an array that is stored in one piece is one chunk."""
    if not image.chunks:
        return tuple(image.shape)
    return tuple(max(c) if isinstance(c, tuple) else int(c) for c in image.chunks)


def read(image: Any, slices: Slices) -> NDArray[Any]:
    """Read some pixels of an array into memory."""
    pixels = image[slices]
    if hasattr(pixels, "compute"):
        pixels = pixels.compute(scheduler="synchronous")  # in this thread: blocks are what runs in parallel
    return np.asarray(pixels)


def map_blocks(function: Callable[..., T], jobs: Sequence[tuple[Any, ...]], report: Callable[[int], None]) -> list[T]:
    """Compute ``function(*job)`` for every job in parallel, on dask's cluster if there is one, or else in threads.

    `report` is called in this thread with the number of finished jobs. No more jobs are submitted than there are
    workers.
    """
    results: list[Any] = [None] * len(jobs)
    waiting: dict[Future[T], int] = {}
    queue = iter(enumerate(jobs))
    n_done = 0
    client: Any = None
    if "distributed" in sys.modules:  # a program with a client has imported it
        with suppress(ValueError):
            client = sys.modules["distributed"].get_client()
    n_workers = count_cores() if client is None else 2 * max(1, sum(client.nthreads().values()))
    pool = ThreadPoolExecutor(n_workers) if client is None else client.get_executor()
    try:
        while n_done < len(jobs):
            while len(waiting) < n_workers and (entry := next(queue, None)) is not None:
                waiting[pool.submit(function, *entry[1])] = entry[0]
            for future in wait(waiting, return_when=FIRST_COMPLETED).done:
                results[waiting.pop(future)] = future.result()
                n_done += 1
            report(n_done)
    finally:
        if client is None:
            pool.shutdown(wait=True, cancel_futures=True)
    return results


def import_dask_array() -> Any:
    """Import the module dask.array, which is optional."""
    try:
        import dask.array
    except ImportError:
        raise InputError('lazy images need a package that is missing; try: pip install "napari-gsw[batch]"') from None
    return dask.array


class LazyImage(NamedTuple):
    """The finest level of a lazy image, its axes with "." for those of length 1, and its shape in space."""

    array: Any
    letters: str
    shape: tuple[int, ...]

    @property
    def axes(self) -> str:
        """Letters of the axes that :meth:`read` returns."""
        return self.letters.replace(".", "")

    def read(self, step: int = 1) -> NDArray[Any]:
        """Read every `step`-th pixel of space, without the axes of length 1."""
        index = {a: slice(None, None, step) for a in "ZYX"} | {a: slice(None) for a in "CS"}
        return read(self.array, tuple(index.get(a, 0) for a in self.letters))

    def grid(self, block_pixels: int) -> Grid:
        """Return the blocks to work on: one, if the image is one chunk or small."""
        chunks = [n for n, a in zip(get_chunk_shape(self.array), self.letters, strict=True) if a in "ZYX"]
        if tuple(chunks) == self.shape or np.prod(self.shape) <= MAX_WHOLE_BLOCKS * block_pixels:
            return Grid(tuple((0, n) for n in self.shape))
        return make_grid(self.shape, chunks, block_pixels)


def open_lazy_image(image: Any, axes: str = "auto") -> LazyImage:
    """Find the finest level of a lazy image and its axes."""
    array = list_levels(image)[0]
    shape, letters = tuple(int(n) for n in array.shape), axes.upper()
    if axes == "auto":
        stored = read_group_axes(image)
        letters = stored if stored is not None and len(stored) == array.ndim else guess_axes(array)
    if len(letters) != array.ndim or len(set(letters)) != len(letters) or not set("YX") <= set(letters):
        raise InputError(f"axes must have {array.ndim} letters for an image of shape {shape}, not {axes!r}")
    # Axes of length 1 do not matter, unless they are all that a plane has.
    kept = "".join("." if n == 1 and a not in "YX" else a for a, n in zip(letters, shape, strict=True))
    if "T" in kept:
        raise InputError(f"the image has a time axis of {shape[kept.index('T')]}; give one time point at a time")
    if not set(kept) <= set("ZYXCS."):
        raise InputError(f"axes must be Y, X and possibly Z with at most one of C and S, not {letters!r}")
    space = [a for a in kept if a in "ZYX"]
    if space != sorted(space, key="ZYX".index):
        raise InputError(f"a lazy image must have its axes of space in the order ZYX, not {letters!r}")
    if array.dtype.kind not in "buif":
        raise InputError(f"the image must hold numbers, not {array.dtype}")
    if 0 in shape:
        raise InputError(f"the image is empty (shape {shape})")
    return LazyImage(array, kept, tuple(n for n, a in zip(shape, kept, strict=True) if a in "ZYX"))
