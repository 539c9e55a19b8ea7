"""Output folders: results are complete or absent, and no file of the user is replaced unasked.

A result is written into a scratch folder and then moved to its place. Its provenance lists all its files with their
SHA-256. That list is the manifest: a later run replaces or removes only files that are still as the manifest says.

Before the files are moved, the manifest is replaced by one that accepts the old and the new files and is marked as
unfinished. So a run that is killed at any moment leaves only files that the next run may replace.

Reports such as ``batch.csv`` may be written by several processes at a time. Each process lists what it has written in
a file of its own in the folder `JOURNALS`.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import secrets
import shutil
import socket
import tempfile
import uuid
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from napari_gsw.core.errors import InputError
from napari_gsw.files.zarr_io import is_label_zarr

SCRATCH = ".unfinished-"
DAY = 86_400.0  # seconds
PROVENANCE = "provenance.json"
FILES, UNFINISHED = "files", "unfinished"  # keys of a manifest
SOFTWARE = "napari-gsw"
HEX = re.compile("[0-9a-f]{64}")
LABEL_SUFFIXES = (".tif", ".tiff", ".png", ".npy", ".zarr")
# The folder inside an output folder in which runs keep what they need to resume.
JOURNALS = ".progress"
# NumPy's message where a write was cut short, which only a full disk does.
SHORT_WRITE = re.compile(r"\d+ requested and \d+ written")
RUN = secrets.token_hex(4)  # of this process
# Whether foreign files may be replaced: all of them, or those of these names.
Overwrite = bool | Collection[str]


def base_name(name: str | os.PathLike[str]) -> str:
    """Return the name of a file without its ending.

    Examples
    --------
    >>> base_name("cells.ome.tif"), base_name("cells.v2.png")
    ('cells', 'cells.v2')
    """
    return re.sub(r"(?<=.)\.ome$", "", Path(name).stem, flags=re.IGNORECASE)


def sibling_name(labels_name: str, name: str) -> str:
    """Name a file beside the labels: ``trace.csv`` for ``labels.tif``, ``mine.trace.csv`` for ``mine.tif``."""
    prefix = base_name(labels_name)
    return name if prefix == "labels" else f"{prefix}.{name}"


@contextmanager
def report_write_errors(subject: str) -> Iterator[None]:
    """Turn a refusal of the system (a full disk, missing rights) into an InputError of one line."""
    try:
        yield
    except OSError as error:
        is_full = error.errno is None and SHORT_WRITE.search(str(error))
        text = os.strerror(errno.ENOSPC) if is_full else error.strerror or error
        raise InputError(f"{subject} cannot be written: {text}") from None


def ensure_folder(folder: Path) -> Path:
    """Make a folder and its parents where they are missing, and return it."""
    with report_write_errors(f"the output folder {str(folder)!r}"):
        folder.mkdir(parents=True, exist_ok=True)
    return folder


@contextmanager
def writable_folder(folder: str | os.PathLike[str]) -> Iterator[Path]:
    """Make a folder that can be written into; if the block fails, remove it again unless it is in use."""
    target = Path(folder)
    created: list[Path] = []
    try:
        with report_write_errors(f"the output folder {str(folder)!r}"):
            for parent in reversed([path for path in (target, *target.parents) if not os.path.exists(path)]):
                parent.mkdir(exist_ok=True)
                created.append(parent)
            with scratch_folder(target):
                pass
        yield target
    except BaseException:
        with suppress(OSError):
            for path in reversed(created):
                path.rmdir()
        raise


@contextmanager
def scratch_folder(folder: Path) -> Iterator[Path]:
    """Make a scratch folder inside `folder`, which is removed at the end; remove those of dead processes first."""
    prefix = f"{SCRATCH}{machine()}-{os.getpid()}-"
    with tempfile.TemporaryDirectory(prefix=prefix, dir=folder, ignore_cleanup_errors=True) as name:
        remove_leftovers(folder, os.stat(name).st_mtime)
        yield Path(name).absolute()


def remove_leftovers(folder: Path, now: float) -> None:
    """Remove scratch folders of processes that are gone; those of other machines after a day without a change."""
    import psutil

    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            name = re.fullmatch(re.escape(SCRATCH) + r"([0-9a-f]{12})-(\d+)-\w+", entry.name)
            if name is None or not entry.is_dir(follow_symlinks=False):
                continue
            is_gone = name[1] == machine() and not psutil.pid_exists(int(name[2]))
            if is_gone or now - _last_change(entry.path) > DAY:
                shutil.rmtree(entry.path, ignore_errors=True)


@cache
def machine() -> str:
    """Return a short name of this machine, or of the container on it, since it was started."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii")
        text = f"{boot}{os.readlink('/proc/self/ns/pid')}"  # containers number their processes separately
    except OSError:
        text = f"{socket.gethostname()} {uuid.getnode():x}"
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _last_change(folder: str) -> float:
    times = [os.stat(folder).st_mtime]
    for parent, folders, files in os.walk(folder):
        for name in (*folders, *files):
            with suppress(OSError):
                times.append(os.lstat(os.path.join(parent, name)).st_mtime)
    return max(times)


class Manifest(NamedTuple):
    """The provenance of a result and its files.

    Attributes
    ----------
    content : the provenance without the list of files.
    files : accepted digests of each file, by name; more than one while a result is being replaced.
    """

    content: Mapping[str, Any]
    files: Mapping[str, list[str]]

    def owns(self, path: Path) -> bool:
        """Return whether an existing file is listed, unchanged, and not a link."""
        digests = self.files.get(path.name, ())
        return bool(digests) and not path.is_symlink() and fingerprint(path) in digests

    def to_json(self, unfinished: bool = False) -> str:
        """Return the text of the manifest's file."""
        files = {name: digests[0] if len(digests) == 1 else digests for name, digests in sorted(self.files.items())}
        state = {UNFINISHED: True} if unfinished else {}
        return json.dumps({**self.content, **state, FILES: files}, indent=2) + "\n"


def fingerprint(path: Path) -> str:
    """Compute the SHA-256 of a file, or of the names and contents in a folder."""
    if not path.is_dir():
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    digest = hashlib.sha256()
    for name in sorted(os.listdir(path)):
        digest.update(os.fsencode(f"{name}\0{fingerprint(path / name)}\n"))
    return digest.hexdigest()


def read_manifest(path: Path) -> Manifest | None:
    """Read a manifest; None if there is none or if it is not from napari-gsw."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        entries = content.get(FILES, {})
        files = {name: [entry] if isinstance(entry, str) else list(entry) for name, entry in entries.items()}
    except (OSError, ValueError, TypeError, AttributeError, RecursionError):
        return None
    # A provenance that the user has passed names no software; then its list of files shows that we wrote it.
    has_digests = bool(files) and all(HEX.fullmatch(str(digest)) for entry in files.values() for digest in entry)
    if not has_digests and content.get("software") != SOFTWARE:
        return None
    return Manifest({key: value for key, value in content.items() if key not in (FILES, UNFINISHED)}, files)


def provenance_digest(path: Path) -> str:
    """Compute the SHA-256 of a provenance without its list of files.

    ValueError if the file is not a provenance, or if its result is unfinished.
    """
    content = json.loads(path.read_text(encoding="utf-8"))
    if UNFINISHED in content:
        raise ValueError("its result was not finished")
    text = json.dumps({key: value for key, value in content.items() if key != FILES}, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def check_overwrite(
    folder: Path, names: Iterable[str], manifest: str | None, overwrite: Overwrite = False
) -> dict[str, bool]:
    """Refuse to replace foreign files: those that napari-gsw has not written, or that have changed since.

    Without a manifest every existing file is foreign. Returns for each of `names` that exists whether it is ours.
    """
    earlier = None if manifest is None else read_manifest(folder / manifest)
    existing = {}
    for name in names:
        path = folder / name
        if os.path.lexists(path):
            existing[name] = earlier is not None and (name == manifest or earlier.owns(path))
            if not (existing[name] or (overwrite if isinstance(overwrite, bool) else name in overwrite)):
                raise InputError(_overwrite_error(path))
    return existing


def _overwrite_error(path: Path) -> str:
    return (
        f"cannot write {str(path)!r}: the file exists and was not written by napari-gsw, or has changed since. "
        "Choose another name, move the file, or pass --overwrite (in Python overwrite=True)"
    )


def check_sole_result(folder: Path, names: Collection[str], manifest: str) -> None:
    """Refuse to replace the manifest of other labels, which would then have none."""
    for name in _list_other_labels(folder, names, manifest):
        raise InputError(
            f"{str(folder / manifest)!r} is the provenance of {name!r}, and can be that of one result only: choose "
            "another name, move both files, or pass --overwrite (in Python overwrite=True)"
        )


def _list_other_labels(folder: Path, names: Collection[str], manifest: str) -> list[str]:
    """List existing label images of a manifest that are not among `names`."""
    earlier = read_manifest(folder / manifest)
    return [
        name
        for name in (() if earlier is None else earlier.files)
        if name not in names
        and os.path.lexists(folder / name)
        and name.lower().endswith(LABEL_SUFFIXES)
        and sibling_name(name, PROVENANCE) == manifest
    ]


@contextmanager
def output_folder(
    folder: str | os.PathLike[str], manifest: str | None = None, overwrite: Overwrite = False
) -> Iterator[Path]:
    """Open a scratch folder whose files move into `folder` if the block succeeds, and are removed if not.

    Parameters
    ----------
    folder : path-like
        Where the files go; made if it is missing.
    manifest : str, optional
        Name of the file that lists the others. Files of an earlier result that this one does not write are removed,
        as they would belong to other labels, unless they have changed.
    overwrite : bool or collection of str
        As for :func:`check_overwrite`.
    """
    subject = f"the output folder {str(folder)!r}"
    with writable_folder(folder) as target, report_write_errors(subject), scratch_folder(target) as scratch:
        yield scratch
        names = sorted(os.listdir(scratch))
        existing = check_overwrite(target, names, manifest, overwrite)
        for name in names:
            if os.path.isdir(target / name) and not (scratch / name).is_dir():
                raise InputError(f"{str(target / name)!r} is a folder, and a file is to be written there; move it away")
            if (scratch / name).is_dir() and not existing.get(name, True):
                check_label_folder(target / name)
        if manifest is not None and manifest in names:
            _place_result(scratch, target, names, manifest, overwrite)
        else:
            for name in names:
                _move(scratch / name, target / name)
            if manifest is not None:
                _disown(scratch, target, names, manifest)


def _place_result(scratch: Path, target: Path, names: list[str], manifest: str, overwrite: Overwrite) -> None:
    """Move files to their places and list them in the manifest."""
    content = json.loads((scratch / manifest).read_text(encoding="utf-8"))
    earlier = read_manifest(target / manifest)
    listed = {} if earlier is None else dict(earlier.files)
    # The same result in another format: both stay, and one manifest lists them.
    is_same = earlier is not None and dict(earlier.content) == content
    if not is_same and overwrite is not True:
        check_sole_result(target, names, manifest)
    kept = {name: listed[name] for name in _list_other_labels(target, names, manifest)} if is_same else {}
    others = [name for name in names if name != manifest]
    new = {name: [fingerprint(scratch / name)] for name in others}
    # A foreign file that may be replaced is accepted, too.
    either = {name: [*new[name], *listed.get(name, ())] for name in others}
    for name in others:
        if os.path.exists(target / name) and not (target / name).is_symlink():
            either[name].append(fingerprint(target / name))
    before = (target / manifest).read_text(encoding="utf-8") if earlier is not None else None
    _replace_text(scratch, target / manifest, Manifest(content, {**listed, **either}).to_json(unfinished=True))
    has_moved = False
    try:
        for name in others:
            _move(scratch / name, target / name)
            has_moved = True
    except BaseException:
        if before is not None and not has_moved:
            _replace_text(scratch, target / manifest, before)
        elif not has_moved:
            (target / manifest).unlink()
        raise
    for name in set(listed) - {*names, *kept}:
        if earlier is not None and os.path.lexists(target / name) and earlier.owns(target / name):
            os.replace(target / name, scratch / f".stale-{name}")
    _replace_text(scratch, target / manifest, Manifest(content, {**new, **kept}).to_json())


def _replace_text(scratch: Path, path: Path, text: str) -> None:
    new = scratch / ".new"
    new.write_text(text, encoding="utf-8")
    os.replace(new, path)


def _disown(scratch: Path, target: Path, names: Collection[str], manifest: str) -> None:
    """Remove replaced files from an earlier manifest, which does not hold for them any more."""
    earlier = read_manifest(target / manifest)
    if earlier is None or not set(names) & set(earlier.files):
        return
    if _list_other_labels(target, names, manifest):
        files = {name: digests for name, digests in earlier.files.items() if name not in names}
        _replace_text(scratch, target / manifest, Manifest(earlier.content, files).to_json())
    else:
        (target / manifest).unlink(missing_ok=True)


def check_label_folder(path: Path) -> None:
    """Refuse an existing file or folder that is not a label image of OME-Zarr."""
    if os.path.lexists(path) and not is_label_zarr(path):
        raise InputError(
            f"cannot write {str(path)!r}: the file exists and is no OME-Zarr label image; choose another name"
        )


def _move(source: Path, target: Path) -> None:
    """Put a file or folder in its place; an old folder is moved away first, since it cannot be replaced."""
    replaced = source.with_name(f".replaced-{source.name}")
    must_move_old = source.is_dir() and os.path.lexists(target)
    if must_move_old:
        os.replace(target, replaced)
    try:
        os.replace(source, target)
    except BaseException:
        if must_move_old:
            os.replace(replaced, target)
        raise


def process_name() -> str:
    """Return a name that no other process has, on any machine."""
    host = re.sub(r"[^A-Za-z0-9-]", "_", socket.gethostname())[:40]
    return f"{host}-{os.getpid()}-{RUN}"


def check_writable(folder: Path, names: Iterable[str], overwrite: bool = False) -> None:
    """Refuse, before the work begins, reports whose place is taken by a foreign file, unless `overwrite`."""
    for name in names:
        path = folder / name
        if os.path.lexists(path) and not _is_own_report(path):
            if not overwrite or not os.path.isfile(path):
                raise InputError(_overwrite_error(path))
            _list_report(path, fingerprint(path))


@contextmanager
def replace_atomically(path: Path) -> Iterator[Path]:
    """Open a scratch file that replaces a report when it is complete, unless a foreign file is in its place."""
    with report_write_errors(repr(str(path))), scratch_folder(path.parent) as scratch:
        new = scratch / path.name
        yield new
        if os.path.lexists(path) and not _is_own_report(path):
            raise InputError(_overwrite_error(path))
        _list_report(path, fingerprint(new))
        os.replace(new, path)


def _is_own_report(path: Path) -> bool:
    if path.is_symlink() or not path.is_file():
        return False
    line = os.fsencode(f"{fingerprint(path)}  {path.name}")
    for ledger in (path.parent / JOURNALS).glob("files-*.txt"):
        with suppress(OSError):
            if line in ledger.read_bytes().splitlines():
                return True
    return False


def _list_report(path: Path, digest: str) -> None:
    ledger = ensure_folder(path.parent / JOURNALS) / f"files-{process_name()}.txt"
    with ledger.open("ab", buffering=0) as file:
        file.write(os.fsencode(f"{digest}  {path.name}\n"))
