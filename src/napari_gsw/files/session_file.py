"""Session files: a zarr group in a zip, whose attributes hold the records and whose arrays hold the numbers.

The zip is written and read member by member, not by zarr. zarr takes 2 ms of Python for each of the hundreds of arrays
of a session, during which the window waits for Python's lock; this takes an eighth. And a file need not be trusted:
names, sizes and types are checked before anything is allocated. zarr reads the files, too.
:class:`Autosave` saves a run repeatedly while it goes on, in a thread of its own.
"""

from __future__ import annotations

import json
import math
import os
import re
import threading
import time
import zipfile
import zlib
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from napari_gsw.core.errors import InputError, check_number
from napari_gsw.core.interactive.saved_session import KINDS, SavedImage, SavedSession
from napari_gsw.core.pipeline.saved_run import DTYPES, NAME_LETTERS, SavedRun, decode_record, encode_record
from napari_gsw.core.posterior.result import ResultBase
from napari_gsw.core.versions import collect_versions
from napari_gsw.files.images import check_promise, is_image_file
from napari_gsw.files.output_folder import report_write_errors, scratch_folder

# Version of the format. A newer file is refused; an older one is upgraded when it is read.
VERSION = 2
# Key of the group's attributes.
SESSION_KEY = "napari-gsw session"
SUFFIX = ".zarr.zip"
CHUNK = 2**24  # bytes of a chunk, about
LEVEL = 1  # of zstd, the fastest
# Limits of what is written and read: members (thousands of time points), and bytes of JSON in one member.
MAX_MEMBERS = 1_000_000
MAX_JSON = 2**28
MAX_AXES = 16
# zstd packs at most 128 KB of one repeated byte into four bytes.
MAX_ZSTD_COMPRESSION = 2**15
# The beginning of the attributes, and within how many bytes of them the title stands.
TITLE = re.compile(rf'"{SESSION_KEY}"\s*:\s*\{{\s*"version"\s*:\s*\d+\s*,\s*"title"\s*:\s*("(?:[^"\\]|\\.)*")'.encode())
MAX_TITLE = 2**16
# Sites of a problem of which no array need be stored.
MAX_FREE_SITES = 2**16
MEMBER = re.compile(f"[{NAME_LETTERS}]+(/[{NAME_LETTERS}]+)*")
# What decoders may raise for a damaged file.
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
    """Save a session; a run that is resumed from the file is bitwise identical to one that was never stopped.

    Parameters
    ----------
    path : path-like
        File, ``.zarr.zip`` by convention. An existing session is replaced.
    session : Result, SavedRun or SavedSession
        Result of :func:`napari_gsw.segment`, or what :func:`open_session` has read.
    image : ndarray, optional
        The image, to store it, too. It is not needed to resume.
    image_path : path-like, optional
        File of the image, by which it is found again.
    overwrite : bool
        Replace the file even if it is not a session.

    Returns
    -------
    Path
        The file.
    """
    target = _check_name(path)
    if os.path.lexists(target) and not overwrite and not is_session(target):
        raise InputError(f"{str(target)!r} is there already and is no session; choose another name")
    content = _as_session(session, image, image_path, target)
    arrays: dict[str, NDArray[Any]] = {}
    names = ", ".join(image.name for image in content.images if image.name) or "an image"
    head = {
        "version": VERSION,
        "title": f"{names}, {max((run.sweep for run in content.runs.values()), default=0):,} sweeps",
        "saved": datetime.now(UTC).isoformat(timespec="seconds"),
        "versions": collect_versions(),
        "content": encode_record(content, KINDS, arrays),
    }
    with report_write_errors(f"the session {str(target)!r}"):
        target.parent.mkdir(parents=True, exist_ok=True)
        with scratch_folder(target.parent) as scratch:
            file = scratch / target.name
            members = write_group(file, {SESSION_KEY: head}, arrays)
            if len(members) > MAX_MEMBERS or members[0].file_size > MAX_JSON:
                raise InputError("it has too many time points or slices for one file: segment fewer at a time")
            with file.open("rb+") as written:  # on the disk before it replaces the old one
                os.fsync(written.fileno())
            os.replace(file, target)
    return target


def _check_name(path: str | os.PathLike[str]) -> Path:
    if not os.fspath(path) or Path(path).is_dir():
        raise InputError(f"{os.fspath(path)!r} is no name of a file for a session")
    return Path(path)


def _as_session(session: Any, image: Any, image_path: Any, target: Path) -> SavedSession:
    if isinstance(session, ResultBase):
        if session.run is None:
            raise InputError("this result cannot be saved as a session: only those of gsw.segment or the window can")
        session = session.run
    if isinstance(session, SavedRun):
        session = SavedSession({"run": session})
    if not isinstance(session, SavedSession):
        raise InputError(f"a session to save is a result of gsw.segment, not a {type(session).__name__}")
    first, *others = session.images or (SavedImage(),)
    if image_path is not None:
        place = Path(image_path).resolve()
        first = replace(first, name=first.name or place.name, paths=(str(place),))
    if image is not None:
        first = replace(first, pixels=np.asarray(image))
    images = []
    for saved in (first, *others):
        paths = [path for path in saved.paths if os.path.isabs(path)]
        for path in tuple(paths):
            with suppress(ValueError):  # on another drive there is no relative path, which holds if both are moved
                paths.append(os.path.relpath(path, target.resolve().parent))
        images.append(replace(saved, paths=tuple(dict.fromkeys(paths))))
    return SavedSession(session.runs, tuple(images), session.window)


def find_image_files(image: SavedImage, session_path: str | os.PathLike[str]) -> list[Path]:
    """List the existing image files that a session, which may come from anybody, may mean; those beside it first.

    Shares of other machines are left out: they would be contacted by the mere question whether a file exists.
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
    """Read the title of a session from its first bytes; None if the file is not a session."""
    try:
        with zipfile.ZipFile(path) as archive, archive.open(_get_member(archive, "zarr.json")) as file:
            found = TITLE.search(file.read(MAX_TITLE))
            return None if found is None else str(json.loads(found[1]))
    except (*DAMAGED, InputError):
        return None


def is_session(path: str | os.PathLike[str]) -> bool:
    """Return whether a file claims to be a session."""
    return read_title(path) is not None


def open_session(path: str | os.PathLike[str]) -> SavedSession:
    """Read a session from a file, which need not be trusted.

    ``napari_gsw.resume(open_session(path).run)`` resumes it.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            head, stored = _check(archive, os.path.getsize(path))
            session = decode_record(head["content"], KINDS, {array.name: array.read(archive) for array in stored})
        if not isinstance(session, SavedSession):
            raise InputError("it holds no session")
    except FileNotFoundError:
        raise InputError(f"there is no session {os.fspath(path)!r}") from None
    except InputError as error:
        raise InputError(f"the session {os.fspath(path)!r} cannot be opened: {error}") from None
    except DAMAGED as error:
        text = " ".join(str(error).split())[:120] or type(error).__name__
        raise InputError(f"the session {os.fspath(path)!r} cannot be opened: it is damaged ({text})") from None
    return session


def _get_member(archive: zipfile.ZipFile, name: str) -> zipfile.ZipInfo:
    """Return a member that takes no more memory than the file has bytes."""
    info = archive.getinfo(name)
    if info.compress_type != zipfile.ZIP_STORED or info.flag_bits & 1 or info.file_size != info.compress_size:
        raise InputError(f"the member {name!r} is packed, which no session's is")
    return info


def _read_json(archive: zipfile.ZipFile, name: str) -> Any:
    info = _get_member(archive, name)
    if info.file_size > MAX_JSON:
        raise InputError(f"{name} is too large")
    try:
        return json.loads(archive.read(info))
    except (ValueError, RecursionError):
        raise InputError(f"{name} is no JSON") from None


def _read_head(archive: zipfile.ZipFile) -> dict[str, Any]:
    match _read_json(archive, "zarr.json"):
        case {"attributes": {**attributes}} if isinstance(head := attributes.get(SESSION_KEY), dict) and head:
            return head
    raise InputError("it is no session of napari-gsw")


def _check(archive: zipfile.ZipFile, size: int) -> tuple[dict[str, Any], list[StoredArray]]:
    """Return the head and the arrays of a file; refuse everything that :func:`save_session` does not write."""
    members = {info.filename: info for info in archive.infolist()}
    if len(members) != len(archive.infolist()) or len(members) > MAX_MEMBERS:
        raise InputError("it has members twice, or too many of them")
    for name in members:
        if not MEMBER.fullmatch(name) or any(part.strip(".") == "" for part in name.split("/")):
            raise InputError(f"a member has the name {name[:80]!r}, which no session has")
        _get_member(archive, name)
    if sum(info.file_size for info in members.values()) > size:
        raise InputError("its members are larger than itself")
    if "zarr.json" not in members:
        raise InputError("it is no zarr group")
    head = _read_head(archive)
    if not isinstance(head.get("version"), int):
        raise InputError("it is no session of napari-gsw")
    if head["version"] > VERSION:
        raise InputError(f"it has format {head['version']}, of a newer napari-gsw; this one reads up to {VERSION}")
    if "content" not in head:
        raise InputError("it is empty")
    nodes = {name: _read_json(archive, name) for name in members if name.endswith("/zarr.json")}
    stored = [
        StoredArray.parse(name.removesuffix("/zarr.json"), node)
        for name, node in nodes.items()
        if not (isinstance(node, dict) and node.get("node_type") == "group")
    ]
    n_bytes = sum(math.prod(array.shape) * array.dtype.itemsize for array in stored)
    try:
        check_promise(n_bytes, size, "a session", MAX_ZSTD_COMPRESSION, "open it on a machine that has more")
    except ValueError as error:
        raise InputError(str(error)) from None
    # Their number first, so that no names are made for chunks that do not exist.
    is_complete = 1 + len(nodes) + sum(array.n_chunks for array in stored) == len(members)
    if not is_complete or not all(array.member(k) in members for array in stored for k in range(array.n_chunks)):
        raise InputError("parts of its arrays are missing, or there are others")
    _check_content(head["content"], sum(math.prod(array.shape) for array in stored), size)
    return head, stored


def _check_content(content: Any, n_numbers: int, size: int) -> None:
    """Refuse records that would take far more memory than the file of that size, before any is made.

    Tables of a problem have a row for each site, of which the arrays have a number at least, unless they are so small
    that they stand in the records. A label image is packed twice.
    """
    n_bytes, limit, waiting = 0, n_numbers + MAX_FREE_SITES, [content]
    while waiting:
        node = waiting.pop()
        match node:
            case {"record": "problem" | "shared problem", "fields": {"n": n}} if not isinstance(n, int) or n > limit:
                raise InputError(f"its problem has a number of sites, {str(n)[:30]}, of which nothing is stored")
            case {"record": "packed", "fields": {"shape": {"tuple": [*lengths]}}}:
                if not all(isinstance(length, int) and 0 <= length < 2**40 for length in lengths):
                    raise InputError("a label image has an impossible shape")
                n_bytes += 4 * math.prod(lengths)
        waiting += node.values() if isinstance(node, dict) else node if isinstance(node, list) else ()
    try:
        check_promise(n_bytes, size, "a session", advice="open it on a machine that has more")
    except ValueError as error:
        raise InputError(str(error)) from None


class StoredArray(NamedTuple):
    """An array in a zip, divided along its first axis into chunks of `rows`, each packed by zstd."""

    name: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    rows: int

    @classmethod
    def parse(cls, name: str, description: Any) -> Self:
        """Parse the ``zarr.json`` of an array; InputError if it is not one that :func:`write_group` writes."""
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
    def n_chunks(self) -> int:
        """Number of chunks, the last of which may be partly empty."""
        return -(-self.shape[0] // self.rows)

    def member(self, k: int) -> str:
        """Return the name of a chunk."""
        return f"{self.name}/c/{k}" + "/0" * (len(self.shape) - 1)

    def read(self, archive: zipfile.ZipFile) -> NDArray[Any]:
        """Read the array, writable and in native byte order, for which the kernels are compiled."""
        from numcodecs.zstd import decompress

        # Into existing memory: a chunk that holds more than it should is refused before anything is allocated for it.
        array = np.zeros((self.n_chunks * self.rows, *self.shape[1:]), self.dtype)
        for k in range(self.n_chunks):
            decompress(archive.read(self.member(k)), array[k * self.rows : (k + 1) * self.rows].ravel().view(np.uint8))
        array = array[: self.shape[0]].astype(self.dtype.newbyteorder("="), copy=False)
        if array.dtype == bool:
            np.not_equal(array.view(np.uint8), 0, out=array)  # a byte may be anything
        return array


def write_group(
    path: Path, attributes: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]
) -> Sequence[zipfile.ZipInfo]:
    """Write a group with arrays, none of them empty, and return the members of the zip, that of the group first.

    A name with a slash is that of an array in an inner group.
    """
    from numcodecs.zstd import compress

    inner = ("/".join(name.split("/")[:depth]) for name in arrays for depth in range(1, name.count("/") + 1))
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        for group in ("", *dict.fromkeys(inner)):
            node = {"zarr_format": 3, "node_type": "group", "attributes": {} if group else attributes}
            archive.writestr(f"{group}/zarr.json" if group else "zarr.json", json.dumps(node))
        for name, array in arrays.items():
            rows = min(max(1, CHUNK // (array.nbytes // len(array))), len(array))
            stored = StoredArray(name, array.dtype.newbyteorder("<"), array.shape, rows)
            chunk_shape = (rows, *array.shape[1:])
            zstd = {"name": "zstd", "configuration": {"level": LEVEL, "checksum": False}}
            description = {
                "zarr_format": 3,
                "node_type": "array",
                "data_type": stored.dtype.name,
                "shape": array.shape,
                "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": chunk_shape}},
                "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
                "fill_value": np.zeros((), stored.dtype).item(),
                "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}, zstd],
                "attributes": {},
            }
            archive.writestr(f"{name}/zarr.json", json.dumps(description))
            for k in range(stored.n_chunks):
                chunk = np.zeros(chunk_shape, stored.dtype)  # zarr expects the last one as large as the others
                part = array[k * rows : (k + 1) * rows]
                chunk[: len(part)] = part
                archive.writestr(stored.member(k), compress(chunk.ravel().view(np.uint8), LEVEL))
        return archive.infolist()


INTERVAL = 30.0  # seconds between two saves
Take = Callable[[], SavedRun | SavedSession]


class Autosave:
    """Save a session repeatedly to one file; pass it as `keep` to :func:`napari_gsw.segment`.

    Parameters
    ----------
    path : path-like
        File, see :func:`napari_gsw.save_session`.
    every : float
        Seconds between two saves.
    tell : callable
        Called with a message when saving has failed, once for each reason; saving is tried again.
    **options
        Of :func:`napari_gsw.save_session`.

    Examples
    --------
    >>> with Autosave("run.zarr.zip") as keep:  # doctest: +SKIP
    ...     result = napari_gsw.segment(image, keep=keep)
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        every: float = INTERVAL,
        tell: Callable[[str], object] = print,
        **options: Any,
    ) -> None:
        _check_name(path)
        self.every = check_number("every", every, 0.0, math.inf)
        self.path, self.tell, self._options = path, tell, options
        self._executor, self._lock = ThreadPoolExecutor(1, "gsw-autosave"), threading.Lock()
        self._last: Future[None] = Future()
        self._last.set_result(None)
        self._newest: Take | None = None
        self._began, self._message = -float("inf"), ""

    def __call__(self, take: Take) -> None:
        """Save what `take` returns, if it is time."""
        self._newest = take
        if self.due:
            self.save(take)

    @property
    def due(self) -> bool:
        """True if the last save is finished and long enough ago."""
        return self._last.done() and time.monotonic() - self._began >= self.every

    def save(self, take: Take) -> None:
        """Save what `take` returns now, without waiting; it replaces a session that still waits to be saved."""
        self._began = time.monotonic()
        session = take()  # in this thread, since the chain goes on meanwhile
        with self._lock, suppress(RuntimeError):  # closed: a worker may call once more
            future = self._executor.submit(self._save, session)
            self._last.cancel()
            self._last = future

    def _save(self, session: SavedRun | SavedSession) -> None:
        text = ""
        try:
            save_session(self.path, session, **self._options)
        except Exception as error:  # any: the next save may succeed, and nobody else would report it
            text = str(error) if isinstance(error, InputError) else f"the session could not be saved: {error!r}"
        if text and text != self._message:
            self.tell(text)
        self._message = text

    def wait(self) -> None:
        """Wait until the last save is finished."""
        self._last.result()

    def close(self) -> None:
        """Save the last state and wait for it."""
        if self._newest is not None:
            self.save(self._newest)
        self._newest = None
        self._executor.shutdown()

    def leave(self, then: Callable[[], object]) -> None:
        """Accept no further saves, do not save the last state, and call `then` when the current save is finished."""
        self._executor.shutdown(wait=False)
        self._newest = None
        with self._lock:
            last = self._last
        last.add_done_callback(lambda _: then())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
