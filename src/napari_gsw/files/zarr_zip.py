"""A zarr group in a zip, member by member.

zarr itself takes 2 ms of Python for every array, and a session has hundreds of them if there are many time points: so
often a window waits for Python's lock while its session is saved. What is written here takes an eighth of that, and
zarr reads it. What is read need not be trusted.
"""

from __future__ import annotations

import json
import math
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from napari_gsw.core.errors import InputError
from napari_gsw.core.record_tree import DTYPES

# Bytes of one chunk, about.
CHUNK = 2**24
MOST_AXES = 16
# Of zstd: the quickest.
LEVEL = 1
# What zstd packs into one byte at best: 128 KB of one and the same byte into four.
MOST_PACKED = 2**15


class StoredArray(NamedTuple):
    """An array as a zip holds it: cut along its first axis alone, each chunk packed by zstd.

    Attributes
    ----------
    name : of the array; its members begin with it.
    rows : of a chunk; of the last one, those that are too many hold nothing.
    """

    name: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    rows: int

    @classmethod
    def of(cls, name: str, array: NDArray[Any]) -> Self:
        """How we write one; it has a number at least."""
        rows = max(1, CHUNK // (array.nbytes // len(array)))
        return cls(name, array.dtype.newbyteorder("<"), array.shape, min(rows, len(array)))

    @classmethod
    def read_from(cls, name: str, description: Any) -> Self:
        """What `zarr.json` says of one; InputError if it is none that we would have written."""
        match description:
            case {
                "zarr_format": 3,
                "node_type": "array",
                "data_type": str(dtype),
                "shape": list(shape),
                "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": list(chunk)}},
                "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
                "codecs": [{"name": "bytes", **order}, {"name": "zstd"}],
            } if dtype in DTYPES and not description.get("storage_transformers"):
                lengths = [*shape, *chunk]
                numbers = all(isinstance(x, int) and not isinstance(x, bool) and 0 < x < 2**40 for x in lengths)
                fits = MOST_AXES >= len(shape) == len(chunk) > 0 and shape[1:] == chunk[1:] and numbers
                little = np.dtype(dtype).itemsize == 1 or order == {"configuration": {"endian": "little"}}
                if fits and chunk[0] <= shape[0] and little:
                    return cls(name, np.dtype(dtype).newbyteorder("<"), tuple(shape), chunk[0])
        raise InputError(f"its array {name[:80]!r} is of a kind that no session has")

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize

    @property
    def n_chunks(self) -> int:
        return -(-self.shape[0] // self.rows)

    @property
    def metadata(self) -> Mapping[str, Any]:
        """What zarr wants to know of it."""
        return {
            "zarr_format": 3,
            "node_type": "array",
            "data_type": self.dtype.name,
            "shape": self.shape,
            "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": (self.rows, *self.shape[1:])}},
            "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
            "fill_value": np.zeros((), self.dtype).item(),
            "codecs": [
                {"name": "bytes", "configuration": {"endian": "little"}},
                {"name": "zstd", "configuration": {"level": LEVEL, "checksum": False}},
            ],
            "attributes": {},
        }

    @property
    def chunks(self) -> Iterator[tuple[str, slice]]:
        """The member that each chunk is, and its rows of the array."""
        rest = "/0" * (len(self.shape) - 1)
        for k, start in enumerate(range(0, self.shape[0], self.rows)):
            yield f"{self.name}/c/{k}{rest}", slice(start, min(start + self.rows, self.shape[0]))

    def write(self, archive: zipfile.ZipFile, array: NDArray[Any]) -> None:
        from numcodecs.zstd import compress

        archive.writestr(f"{self.name}/zarr.json", json.dumps(self.metadata))
        for member, rows in self.chunks:
            chunk = np.ascontiguousarray(array[rows], self.dtype)
            if len(chunk) < self.rows:  # zarr wants the last one to be as large as the others
                chunk = np.concatenate([chunk, np.zeros((self.rows - len(chunk), *chunk.shape[1:]), self.dtype)])
            archive.writestr(member, compress(_bytes(chunk), LEVEL))

    def read(self, archive: zipfile.ZipFile) -> NDArray[Any]:
        """The array, writable and in the machine's own order, or kernels would be compiled again for it."""
        from numcodecs.zstd import decompress

        # Into what is there: a chunk that holds more than it should is refused before anything is made for it.
        array = np.zeros((self.n_chunks * self.rows, *self.shape[1:]), self.dtype)
        for k, (member, _) in enumerate(self.chunks):
            decompress(archive.read(member), _bytes(array[k * self.rows : (k + 1) * self.rows]))
        array = array[: self.shape[0]].astype(self.dtype.newbyteorder("="), copy=False)
        if array.dtype == bool:
            np.not_equal(array.view(np.uint8), 0, out=array)  # a byte may be anything
        return array


def _bytes(array: NDArray[Any]) -> NDArray[np.uint8]:
    """The bytes of an array as they lie in memory, not copied."""
    return array.reshape(-1).view(np.uint8)


def write_group(
    path: Path, attributes: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]
) -> Sequence[zipfile.ZipInfo]:
    """Write a group.

    Parameters
    ----------
    path : of the zip.
    attributes : of the group.
    arrays : of plain numbers, none of them empty, by name; a name with a slash is that of an array in an inner group.

    Returns
    -------
    What was written; the first is what the group says of itself.
    """
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr("zarr.json", _group(attributes))
        for inner in _groups(arrays):
            archive.writestr(f"{inner}/zarr.json", _group({}))
        for name, array in arrays.items():
            StoredArray.of(name, array).write(archive, array)
        return archive.infolist()


def _group(attributes: Mapping[str, Any]) -> str:
    return json.dumps({"zarr_format": 3, "node_type": "group", "attributes": attributes})


def _groups(names: Iterable[str]) -> Iterator[str]:
    """The inner groups of arrays of such names, each once.

    >>> list(_groups(["a/b/x", "a/y", "z"]))
    ['a', 'a/b']
    """
    parts = (name.split("/") for name in names)
    return iter(dict.fromkeys("/".join(one[:depth]) for one in parts for depth in range(1, len(one))))
