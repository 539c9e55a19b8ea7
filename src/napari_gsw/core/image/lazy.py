"""Arrays that are not in memory: dask's, zarr's, and what else is read piece by piece. The one place that knows dask.

Dask is needed for what comes back (a lazy label image) and imported when it does, never with the package.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from napari_gsw.core.errors import InputError
from napari_gsw.core.image.block_grid import Grid, Slices, make_grid
from napari_gsw.core.image.normalized_image import guess_axes
from napari_gsw.core.threads import count_cores

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


def list_levels(image: Any) -> list[Any]:
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


def stack_channels(arrays: Sequence[LazyArray]) -> LazyArray:
    """Lazy arrays of one shape as channels, the last axis."""
    return import_dask_array().stack(arrays, axis=-1)


def to_dask_pyramid(image: Any) -> Any:
    """The levels of an image as dask arrays, as a viewer takes them: a list, or the one array."""
    arrays = [
        level if hasattr(level, "compute") else import_dask_array().from_array(level) for level in list_levels(image)
    ]
    return arrays if len(arrays) > 1 else arrays[0]


def read_group_axes(image: Any) -> str | None:
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


def get_chunk_shape(image: Any) -> tuple[int, ...]:
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
    count = count_cores()
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


def map_blocks(work: Callable[..., T], jobs: Sequence[tuple[Any, ...]], done: Callable[[int], None]) -> list[T]:
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


def import_dask_array() -> Any:
    """The module dask.array, imported when it is first needed; a sentence where it is missing."""
    try:
        import dask.array
    except ImportError:
        raise InputError('lazy images need a package that is missing; try: pip install "napari-gsw[batch]"') from None
    return dask.array


# A lazy image of no more than this many blocks is taken whole: it fits, and its sites know no border.
MAX_WHOLE_BLOCKS = 8


class LazyImage(NamedTuple):
    """A lazy image whose axes are known.

    Attributes
    ----------
    array : the finest level.
    letters : one for each of its axes; others than ZYXCS have length 1.
    shape : of its space.
    """

    array: Any
    letters: str
    shape: tuple[int, ...]

    @property
    def axes(self) -> str:
        """Letters of what :meth:`read_all` gives."""
        return "".join(a for a in self.letters if a in "ZYXCS")

    def read_all(self) -> NDArray[Any]:
        """All pixels in memory, without the axes that say nothing."""
        return read(self.array, tuple(slice(None) if a in "ZYXCS" else 0 for a in self.letters))  # type: ignore[misc]

    def chunks(self) -> tuple[int, ...]:
        """Length of a chunk along each axis of space."""
        lengths = get_chunk_shape(self.array)
        return tuple(lengths[self.letters.index(a)] for a in "ZYX" if a in self.letters)

    def every(self, step: int) -> NDArray[Any]:
        """Every `step`-th pixel of space, in memory, with the axes of :meth:`read_all`."""
        jump = {a: slice(None, None, step) for a in "ZYX"}
        index = tuple(jump.get(a, slice(None) if a in "CS" else 0) for a in self.letters)
        return read(self.array, index)  # type: ignore[arg-type]

    def grid(self, block_pixels: int) -> Grid:
        """The blocks to work on; one, if the image is one chunk or small."""
        if self.chunks() == self.shape or np.prod(self.shape) <= MAX_WHOLE_BLOCKS * block_pixels:
            return Grid(tuple((0, n) for n in self.shape))
        return make_grid(self.shape, self.chunks(), block_pixels)


def open_lazy_image(image: Any, axes: str = "auto") -> LazyImage:
    """The finest level of a lazy image, and what its axes are."""
    array = list_levels(image)[0]
    stored = read_group_axes(image)
    if axes != "auto":
        letters = axes.upper()
    elif stored is not None and len(stored) == array.ndim:
        letters = stored
    else:
        letters = guess_axes(array)
    if len(letters) != array.ndim or len(set(letters)) != len(letters) or not set("YX") <= set(letters):
        raise InputError(
            f"axes must have {array.ndim} letters for an image of shape {tuple(array.shape)}, not {axes!r}"
        )
    # Axes of length 1 say nothing, unless they are all that a plane has.
    kept = "".join("." if n == 1 and a not in "YX" else a for a, n in zip(letters, array.shape, strict=True))
    if "T" in kept:
        raise InputError(f"the image has a time axis of {array.shape[kept.index('T')]}; give one time point at a time")
    if not set(kept) <= set("ZYXCS."):
        raise InputError(f"axes must be Y, X and possibly Z with at most one of C and S, not {letters!r}")
    space = [kept.index(a) for a in "ZYX" if a in kept]
    if space != sorted(space):
        raise InputError(f"a lazy image must have its axes of space in the order ZYX, not {letters!r}")
    if array.dtype.kind not in "buif":
        raise InputError(f"the image must hold numbers, not {array.dtype}")
    if 0 in array.shape:
        raise InputError(f"the image is empty (shape {tuple(array.shape)})")
    return LazyImage(array, kept, tuple(int(array.shape[a]) for a in space))


def is_image_list(image: Any) -> bool:
    """Whether several images are meant and not one: a list or tuple of arrays in memory, of two axes or more.

    A list of lazy arrays is the pyramid of one image, and a list of rows or of numbers is one image.

    >>> plane = np.zeros((4, 5))
    >>> are_several([plane, plane]), are_several(plane), are_several(plane.tolist())
    (True, False, False)
    """
    if not isinstance(image, (list, tuple)) or not len(image):
        return False
    in_memory = [isinstance(one, np.ndarray) and one.ndim > 1 for one in image]
    if any(in_memory) and any(is_lazy(one) for one in image):
        raise InputError("a list must hold several images in memory or the lazy levels of one image, not both")
    return all(in_memory)
