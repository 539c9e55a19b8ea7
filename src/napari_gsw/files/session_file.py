"""A zarr group in a zip, member by member.

zarr itself takes 2 ms of Python for every array, and a session has hundreds of them if there are many time points: so
often a window waits for Python's lock while its session is saved. What is written here takes an eighth of that, and
zarr reads it. What is read need not be trusted.
"""

from __future__ import annotations

import json
import math
import os
import re
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from napari_gsw.core.errors import InputError
from napari_gsw.core.interactive.saved_session import KINDS, SavedImage, SavedSession
from napari_gsw.core.pipeline.saved_run import DTYPES, NAME_LETTERS, SavedRun, decode_record, encode_record
from napari_gsw.core.posterior.result import ResultBase
from napari_gsw.core.versions import collect_versions
from napari_gsw.files.images import is_image_file
from napari_gsw.files.output_folder import report_write_errors, scratch_folder
from napari_gsw.files.untrusted import check_promise

# Bytes of one chunk, about.
CHUNK = 2**24
MAX_AXES = 16
# Of zstd: the quickest.
LEVEL = 1
# What zstd packs into one byte at best: 128 KB of one and the same byte into four.
MAX_ZSTD_COMPRESSION = 2**15


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
                fits = MAX_AXES >= len(shape) == len(chunk) > 0 and shape[1:] == chunk[1:] and numbers
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


# Of the format. A newer file is refused; one of an older version is brought up to date when it is read.
VERSION = 2
# The key of the group's attributes that says whose file it is.
SESSION_KEY = "napari-gsw session"
SUFFIX = ".zarr.zip"
# More is neither written nor read: thousands of time points.
MAX_MEMBERS = 1_000_000
# Bytes of the tree of words and numbers, or of what is said of an array; likewise.
MAX_JSON = 2**28
MEMBER = re.compile(f"[{NAME_LETTERS}]+(/[{NAME_LETTERS}]+)*")
# What a decoder may do with a file that anybody may have written.
DAMAGED = (
    OSError, zipfile.BadZipFile, zlib.error, EOFError, MemoryError, RuntimeError, ValueError, TypeError, LookupError,
    AttributeError, ArithmeticError,
)  # fmt: skip


def save_session(
    path: str | os.PathLike[str],
    session: ResultBase | SavedRun | SavedSession,
    *,
    image: NDArray[Any] | None = None,
    image_path: str | os.PathLike[str] | None = None,
    overwrite: bool = False,
) -> Path:
    """Save a session, so that it can be opened again and go on bit for bit as if it had never stopped.

    Parameters
    ----------
    path : of the file, ``.zarr.zip`` by custom. A session that is there is written over.
    session : a result of :func:`napari_gsw.segment`, or what :func:`open_session` has read.
    image : the image itself, to have it in the file too; it is not needed to go on.
    image_path : where the image is, to be found again.
    overwrite : whether a file that is no session may be written over, too.

    Returns
    -------
    Where it went.
    """
    target = Path(path)
    if not os.fspath(path) or target.is_dir():
        raise InputError(f"{os.fspath(path)!r} is no name of a file for a session")
    if os.path.lexists(target) and not overwrite and not is_session(target):
        raise InputError(f"{str(target)!r} is there already and is no session; choose another name")
    content = _session_of(session, image, image_path, target)
    arrays: dict[str, NDArray[Any]] = {}
    tree = encode_record(content, KINDS, arrays)
    with report_write_errors(f"the session {str(target)!r}"):
        target.parent.mkdir(parents=True, exist_ok=True)
        with scratch_folder(target.parent) as scratch:
            file = scratch / target.name
            members = write_group(file, {SESSION_KEY: _head(content, tree)}, arrays)
            if len(members) > MAX_MEMBERS or members[0].file_size > MAX_JSON:
                raise InputError("it has too many time points or slices for one file: segment fewer at a time")
            with file.open("rb+") as written:  # on the disk before it takes the place of the old one
                os.fsync(written.fileno())
            os.replace(file, target)
    return target


def _session_of(session: Any, image: Any, image_path: Any, target: Path) -> SavedSession:
    """What is to be saved, as a session with the places where its image is."""
    if isinstance(session, ResultBase):
        if session.run is None:
            raise InputError("this result cannot be saved as a session: only what gsw.segment or the window made can")
        session = session.run
    if isinstance(session, SavedRun):
        session = SavedSession({"run": session})
    if not isinstance(session, SavedSession):
        raise InputError(f"a session to save is a result of gsw.segment, not a {type(session).__name__}")
    images = session.images or (SavedImage(),)
    if image_path is not None:
        place = Path(image_path).resolve()
        images = (replace(images[0], name=images[0].name or place.name, paths=(str(place),)), *images[1:])
    if image is not None:
        images = (replace(images[0], pixels=np.asarray(image)), *images[1:])
    near = tuple(replace(one, paths=_places(one.paths, target)) for one in images)
    return SavedSession(session.runs, near, session.window)


def _places(paths: tuple[str, ...], target: Path) -> tuple[str, ...]:
    """Where an image is, and the way there from the session: a folder that is moved is moved as a whole."""
    places: list[str] = []
    for path in paths:
        if os.path.isabs(path):
            try:
                places += [path, os.path.relpath(path, target.resolve().parent)]
            except ValueError:  # on another drive
                places.append(path)
    return tuple(dict.fromkeys(places))


def find_image_files(image: SavedImage, session_path: str | os.PathLike[str]) -> list[Path]:
    """List the existing image files that a session may mean, those in its own folder first.

    A session may come from anybody. Files of other formats are left out, and so are shares of other machines,
    which would be contacted by the mere question whether a file exists.
    """
    folder = Path(session_path).resolve().parent
    places = [folder / path for path in image.paths if not path.startswith(("\\\\", "//"))]
    places += [folder / re.split(r"[/\\]", path)[-1] for path in image.paths]
    found = [place for place in dict.fromkeys(places) if is_image_file(place)]
    return sorted(found, key=lambda place: not is_in_folder(place, folder))


def is_in_folder(place: Path, folder: Path) -> bool:
    """Return whether a file is below a folder, also after links are followed."""
    return place.resolve().is_relative_to(folder.resolve())


def read_title(path: str | os.PathLike[str]) -> str | None:
    """What a session is in a few words, without reading all of it; None if it is none."""
    try:
        with zipfile.ZipFile(path) as archive:
            head = _json(archive, "zarr.json")["attributes"][SESSION_KEY]
            return str(head["title"])
    except (*DAMAGED, InputError):
        return None


def _head(session: SavedSession, tree: Any) -> dict[str, Any]:
    return {
        "version": VERSION,
        "title": _title(session),
        "saved": datetime.now(UTC).isoformat(timespec="seconds"),
        "versions": collect_versions(),
        "content": tree,
    }


def _title(session: SavedSession) -> str:
    names = ", ".join(image.name for image in session.images if image.name) or "an image"
    sweeps = max((run.sweep for run in session.runs.values()), default=0)
    return f"{names}, {sweeps:,} sweeps"


def is_session(path: str | os.PathLike[str]) -> bool:
    """Whether a file says that it is a session."""
    try:
        with zipfile.ZipFile(path) as archive:
            return SESSION_KEY in _json(archive, "zarr.json")["attributes"]
    except (*DAMAGED, InputError):
        return False


def open_session(path: str | os.PathLike[str]) -> SavedSession:
    """Read a session. The file need not be trusted; what is wrong with it is said in one sentence.

    ``napari_gsw.resume(open_session(path).run)`` goes on with it.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            head, stored = _checked(archive, os.path.getsize(path))
            session = decode_record(head["content"], KINDS, _read_arrays(archive, stored))
        if not isinstance(session, SavedSession):
            raise InputError("it holds no session")
    except FileNotFoundError:
        raise InputError(f"there is no session {os.fspath(path)!r}") from None
    except InputError as reason:
        raise InputError(f"the session {os.fspath(path)!r} cannot be opened: {reason}") from None
    except DAMAGED as reason:
        words = " ".join(str(reason).split())[:120] or type(reason).__name__
        raise InputError(f"the session {os.fspath(path)!r} cannot be opened: it is damaged ({words})") from None
    return session


def _json(archive: zipfile.ZipFile, name: str) -> Any:
    """The JSON of a member that is not too large, too deep or none at all."""
    if archive.getinfo(name).file_size > MAX_JSON:
        raise InputError(f"{name} is too large")
    try:
        return json.loads(archive.read(name))
    except (ValueError, RecursionError):
        raise InputError(f"{name} is no JSON") from None


def _checked(archive: zipfile.ZipFile, size: int) -> tuple[Mapping[str, Any], list[StoredArray]]:
    """The head of a session, and its arrays; refuses whatever we would not have written."""
    members = {info.filename: info for info in archive.infolist()}
    if len(members) != len(archive.infolist()) or len(members) > MAX_MEMBERS:
        raise InputError("it has members twice, or too many of them")
    for name, info in members.items():
        if not MEMBER.fullmatch(name) or any(part.strip(".") == "" for part in name.split("/")):
            raise InputError(f"a member has the name {name[:80]!r}, which no session has")
        if info.compress_type != zipfile.ZIP_STORED or info.flag_bits & 1 or info.file_size != info.compress_size:
            raise InputError(f"the member {name!r} is packed, which no session's is")
    if sum(info.file_size for info in members.values()) > size:
        raise InputError("its members are larger than itself")
    if "zarr.json" not in members:
        raise InputError("it is no zarr group")
    root = _json(archive, "zarr.json")
    attributes = root.get("attributes") if isinstance(root, dict) else None
    head = attributes.get(SESSION_KEY) if isinstance(attributes, dict) else None
    if not isinstance(head, dict) or not isinstance(head.get("version"), int):
        raise InputError("it is no session of napari-gsw")
    if head["version"] > VERSION:
        raise InputError(f"it has format {head['version']}, of a newer napari-gsw; this one reads up to {VERSION}")
    if "content" not in head:
        raise InputError("it is empty")
    described_by = [name for name in members if name.endswith("/zarr.json")]
    descriptions = [(name.removesuffix("/zarr.json"), _json(archive, name)) for name in described_by]
    stored = [StoredArray.read_from(name, one) for name, one in descriptions if not _is_group(one)]
    promised, count = sum(array.nbytes for array in stored), sum(array.n_chunks for array in stored)
    try:
        check_promise(promised, size, "a session", MAX_ZSTD_COMPRESSION, "open it on a machine that has more")
    except ValueError as reason:
        raise InputError(str(reason)) from None
    # Their number first: nothing is made for chunks that are not there.
    complete = 1 + len(described_by) + count == len(members)
    if not complete or not all(member in members for array in stored for member, _ in array.chunks):
        raise InputError("parts of its arrays are missing, or there are others")
    return head, stored


def _is_group(description: Any) -> bool:
    return isinstance(description, dict) and description.get("node_type") == "group"


def _read_arrays(archive: zipfile.ZipFile, stored: Sequence[StoredArray]) -> dict[str, NDArray[Any]]:
    """All arrays of a file that was checked, by name."""
    return {array.name: array.read(archive) for array in stored}
