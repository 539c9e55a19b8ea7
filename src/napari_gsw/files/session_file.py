"""Sessions in files: one zarr group in a zip, arrays of numbers and one tree of words (see `core.record_tree`).

A file is written beside its place and then moved there, so that what is there is always whole. Whoever opens one need
not trust it: names, types and sizes are checked before anything is unpacked, and no code is in it.
"""

from __future__ import annotations

import json
import os
import re
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from napari_gsw.core.errors import InputError
from napari_gsw.core.pipeline.saved_run import SavedRun
from napari_gsw.core.pipeline.saved_session import KINDS, SavedImage, SavedSession
from napari_gsw.core.posterior.result import Findings
from napari_gsw.core.record_tree import NAME_LETTERS, described, rebuilt
from napari_gsw.core.versions import all_versions
from napari_gsw.files.folders import writing
from napari_gsw.files.images import is_image_file
from napari_gsw.files.promised_size import check_promise
from napari_gsw.files.scratch import scratch_folder
from napari_gsw.files.zarr_zip import MOST_PACKED, StoredArray, write_group

# Of the format. A newer file is refused; one of an older version is brought up to date when it is read.
VERSION = 1
# The key of the group's attributes that says whose file it is.
MARK = "napari-gsw session"
SUFFIX = ".zarr.zip"
# More is neither written nor read: thousands of time points.
MOST_MEMBERS = 1_000_000
# Bytes of the tree of words and numbers, or of what is said of an array; likewise.
MOST_JSON = 2**28
MEMBER = re.compile(f"[{NAME_LETTERS}]+(/[{NAME_LETTERS}]+)*")
# What a decoder may do with a file that anybody may have written.
DAMAGED = (
    OSError, zipfile.BadZipFile, zlib.error, EOFError, MemoryError, RuntimeError, ValueError, TypeError, LookupError,
    AttributeError, ArithmeticError,
)  # fmt: skip


def save_session(
    path: str | os.PathLike[str],
    session: Findings | SavedRun | SavedSession,
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
    tree = described(content, KINDS, arrays)
    with writing(f"the session {str(target)!r}"):
        target.parent.mkdir(parents=True, exist_ok=True)
        with scratch_folder(target.parent) as scratch:
            file = scratch / target.name
            members = write_group(file, {MARK: _head(content, tree)}, arrays)
            if len(members) > MOST_MEMBERS or members[0].file_size > MOST_JSON:
                raise InputError("it has too many time points or slices for one file: segment fewer at a time")
            with file.open("rb+") as written:  # on the disk before it takes the place of the old one
                os.fsync(written.fileno())
            os.replace(file, target)
    return target


def _session_of(session: Any, image: Any, image_path: Any, target: Path) -> SavedSession:
    """What is to be saved, as a session with the places where its image is."""
    if isinstance(session, Findings):
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


def image_places(image: SavedImage, session_path: str | os.PathLike[str]) -> list[Path]:
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


def session_title(path: str | os.PathLike[str]) -> str | None:
    """What a session is in a few words, without reading all of it; None if it is none."""
    try:
        with zipfile.ZipFile(path) as archive:
            head = _json(archive, "zarr.json")["attributes"][MARK]
            return str(head["title"])
    except (*DAMAGED, InputError):
        return None


def _head(session: SavedSession, tree: Any) -> dict[str, Any]:
    return {
        "version": VERSION,
        "title": _title(session),
        "saved": datetime.now(UTC).isoformat(timespec="seconds"),
        "versions": all_versions(),
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
            return MARK in _json(archive, "zarr.json")["attributes"]
    except (*DAMAGED, InputError):
        return False


def open_session(path: str | os.PathLike[str]) -> SavedSession:
    """Read a session. The file need not be trusted; what is wrong with it is said in one sentence.

    ``napari_gsw.resume(open_session(path).run)`` goes on with it.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            head, stored = _checked(archive, os.path.getsize(path))
            session = rebuilt(head["content"], KINDS, _arrays(archive, stored))
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
    if archive.getinfo(name).file_size > MOST_JSON:
        raise InputError(f"{name} is too large")
    try:
        return json.loads(archive.read(name))
    except (ValueError, RecursionError):
        raise InputError(f"{name} is no JSON") from None


def _checked(archive: zipfile.ZipFile, size: int) -> tuple[Mapping[str, Any], list[StoredArray]]:
    """The head of a session, and its arrays; refuses whatever we would not have written."""
    members = {info.filename: info for info in archive.infolist()}
    if len(members) != len(archive.infolist()) or len(members) > MOST_MEMBERS:
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
    head = attributes.get(MARK) if isinstance(attributes, dict) else None
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
        check_promise(promised, size, "a session", MOST_PACKED, "open it on a machine that has more")
    except ValueError as reason:
        raise InputError(str(reason)) from None
    # Their number first: nothing is made for chunks that are not there.
    complete = 1 + len(described_by) + count == len(members)
    if not complete or not all(member in members for array in stored for member, _ in array.chunks):
        raise InputError("parts of its arrays are missing, or there are others")
    return head, stored


def _is_group(description: Any) -> bool:
    return isinstance(description, dict) and description.get("node_type") == "group"


def _arrays(archive: zipfile.ZipFile, stored: Sequence[StoredArray]) -> dict[str, NDArray[Any]]:
    """All arrays of a file that was checked, by name."""
    return {array.name: array.read(archive) for array in stored}
