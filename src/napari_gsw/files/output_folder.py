"""Output folders: results are complete or absent, and no file of the user is replaced unasked.

A result is written into a scratch folder and then moved to its place. Its provenance, the manifest, lists all its files
with their SHA-256: a later run replaces or removes only files that are still as listed. While files are moved, the
manifest accepts the old and the new ones and is marked as unfinished, so that a run may be killed at any moment.

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

SCRATCH = ".unfinished-"
DAY = 86_400.0  # seconds
PROVENANCE = "provenance.json"
FILES, UNFINISHED = "files", "unfinished"  # keys of a manifest
SOFTWARE = "napari-gsw"
LABEL_SUFFIXES = (".tif", ".tiff", ".png", ".npy", ".zarr")
# The folder inside an output folder in which runs keep what they need to resume.
JOURNALS = ".progress"
# A name that no other process has, on any machine.
PROCESS = f"{re.sub(r'[^A-Za-z0-9-]', '_', socket.gethostname())[:40]}-{os.getpid()}-{secrets.token_hex(4)}"
# Whether foreign files may be replaced: all of them, or those of these names.
Overwrite = bool | Collection[str]


def base_name(name: str | os.PathLike[str]) -> str:
    """Return the name of a file without its ending: ``cells`` for ``cells.ome.tif``."""
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
        # NumPy's message where a write was cut short, which only a full disk does.
        is_full = error.errno is None and re.search(r"\d+ requested and \d+ written", str(error))
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
    missing = [path for path in (target, *target.parents) if not os.path.exists(path)]
    try:
        ensure_folder(target)
        with report_write_errors(f"the output folder {str(folder)!r}"), scratch_folder(target):
            pass
        yield target
    except BaseException:
        for path in missing:
            with suppress(OSError):
                path.rmdir()
        raise


@contextmanager
def scratch_folder(folder: Path) -> Iterator[Path]:
    """Make a scratch folder inside `folder`, which is removed at the end.

    Those of processes that are gone are removed first; those of other machines after a day without a change.
    """
    import psutil

    prefix = f"{SCRATCH}{_machine()}-{os.getpid()}-"
    with tempfile.TemporaryDirectory(prefix=prefix, dir=folder, ignore_cleanup_errors=True) as own:
        for path in folder.glob(f"{SCRATCH}*"):
            name = re.fullmatch(re.escape(SCRATCH) + r"([0-9a-f]{12})-(\d+)-\w+", path.name)
            with suppress(OSError):
                if name is not None and path.is_dir() and not path.is_symlink():
                    is_gone = name[1] == _machine() and not psutil.pid_exists(int(name[2]))
                    changed = max(entry.lstat().st_mtime for entry in (path, *path.rglob("*")))
                    if is_gone or os.stat(own).st_mtime - changed > DAY:
                        shutil.rmtree(path, ignore_errors=True)
        yield Path(own).absolute()


@cache
def _machine() -> str:
    """Return a short name of this machine, or of the container on it, since it was started."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii")
        text = f"{boot}{os.readlink('/proc/self/ns/pid')}"  # containers number their processes separately
    except OSError:
        text = f"{socket.gethostname()} {uuid.getnode():x}"
    return hashlib.sha256(text.encode()).hexdigest()[:12]


class Manifest(NamedTuple):
    """The provenance of a result and its files."""

    content: Mapping[str, Any]  # without the list of files
    files: Mapping[str, list[str]]  # accepted digests by name; more than one while a result is being replaced

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
        entries = content.pop(FILES, {})
        files = {name: [entry] if isinstance(entry, str) else list(entry) for name, entry in entries.items()}
    except (OSError, ValueError, TypeError, AttributeError, RecursionError):
        return None
    # A provenance that the user has passed names no software; then its list of files shows that we wrote it.
    digests = [str(digest) for entry in files.values() for digest in entry]
    if content.get("software") != SOFTWARE and not (digests and all(re.fullmatch("[0-9a-f]{64}", d) for d in digests)):
        return None
    content.pop(UNFINISHED, None)
    return Manifest(content, files)


def provenance_digest(path: Path) -> str:
    """Compute the SHA-256 of a provenance without its list of files; ValueError if there is none that is finished."""
    content = json.loads(path.read_text(encoding="utf-8"))
    if UNFINISHED in content:
        raise ValueError("its result was not finished")
    content.pop(FILES, None)
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def check_overwrite(folder: Path, names: Iterable[str], manifest: str | None, overwrite: Overwrite = False) -> None:
    """Refuse to replace foreign files: those that napari-gsw has not written, or that have changed since.

    Without a manifest every existing file is foreign. Of foreign folders only label images are ever replaced.
    """
    earlier = None if manifest is None else read_manifest(folder / manifest)
    for name in names:
        path = folder / name
        if not os.path.lexists(path) or (earlier is not None and (name == manifest or earlier.owns(path))):
            continue
        is_zarr = name.lower().endswith(".zarr")
        if is_zarr and not _is_label_zarr(path):
            raise InputError(
                f"cannot write {str(path)!r}: the file exists and is no OME-Zarr label image; choose another name"
            )
        if path.is_dir() and not is_zarr:
            raise InputError(f"{str(path)!r} is a folder, and a file is to be written there; choose another name")
        if not (overwrite if isinstance(overwrite, bool) else name in overwrite):
            raise _overwrite_error(path)


def _is_label_zarr(path: Path) -> bool:
    try:
        node = json.loads((path / "zarr.json").read_text(encoding="utf-8"))
        return node["node_type"] == "group" and "image-label" in node["attributes"]["ome"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return False


def _overwrite_error(path: Path) -> InputError:
    return InputError(
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


def _list_other_labels(folder: Path, names: Collection[str], manifest: str) -> dict[str, list[str]]:
    """Return existing label images in a manifest that are not among `names`, with their digests."""
    earlier = read_manifest(folder / manifest)
    others = {} if earlier is None else {name: d for name, d in earlier.files.items() if name not in names}
    is_label = {name: name.lower().endswith(LABEL_SUFFIXES) and os.path.lexists(folder / name) for name in others}
    return {name: d for name, d in others.items() if is_label[name] and sibling_name(name, PROVENANCE) == manifest}


@contextmanager
def output_folder(
    folder: str | os.PathLike[str], manifest: str | None = None, overwrite: Overwrite = False
) -> Iterator[Path]:
    """Open a scratch folder whose files move into `folder` if the block succeeds, and are removed if not.

    `manifest` names the file that lists the others. Files of an earlier result that this one does not write are
    removed, as they would belong to other labels, unless they have changed. `overwrite`: see :func:`check_overwrite`.
    """
    subject = f"the output folder {str(folder)!r}"
    with writable_folder(folder) as target, report_write_errors(subject), scratch_folder(target) as scratch:
        yield scratch
        names = sorted(os.listdir(scratch))
        check_overwrite(target, names, manifest, overwrite)
        if manifest in names:
            _place_result(scratch, target, names, str(manifest), overwrite)
            return
        for name in names:
            _move(scratch / name, target / name)
        earlier = None if manifest is None else read_manifest(target / manifest)
        if manifest is not None and earlier is not None and earlier.files.keys() & names:
            # These files are not of the earlier result any more.
            if _list_other_labels(target, names, manifest):
                left = {name: digests for name, digests in earlier.files.items() if name not in names}
                _replace_text(scratch, target / manifest, earlier._replace(files=left).to_json())
            else:
                (target / manifest).unlink(missing_ok=True)


def _place_result(scratch: Path, target: Path, names: list[str], manifest: str, overwrite: Overwrite) -> None:
    """Move files to their places and list them in the manifest."""
    earlier = read_manifest(target / manifest)
    listed = {} if earlier is None else earlier.files
    before = None if earlier is None else (target / manifest).read_text(encoding="utf-8")
    content = json.loads((scratch / manifest).read_text(encoding="utf-8"))
    labels = _list_other_labels(target, names, manifest)
    if earlier is None or earlier.content != content:
        if overwrite is not True:
            check_sole_result(target, names, manifest)
        labels = {}  # if it is the same result in another format, both stay, and one manifest lists them
    others = [name for name in names if name != manifest]
    new = {name: [fingerprint(scratch / name)] for name in others}
    either = {name: [*new[name], *listed.get(name, ())] for name in others}
    for name in others:  # a foreign file that may be replaced is accepted, too
        if os.path.exists(target / name) and not (target / name).is_symlink():
            either[name].append(fingerprint(target / name))
    _replace_text(scratch, target / manifest, Manifest(content, {**listed, **either}).to_json(unfinished=True))
    for name in others:
        try:
            _move(scratch / name, target / name)
        except BaseException:
            if name == others[0] and before is not None:  # nothing has changed yet
                _replace_text(scratch, target / manifest, before)
            elif name == others[0]:
                (target / manifest).unlink()
            raise
    for name in listed.keys() - {*names, *labels}:
        if earlier is not None and os.path.lexists(target / name) and earlier.owns(target / name):
            os.replace(target / name, scratch / f".stale-{name}")
    _replace_text(scratch, target / manifest, Manifest(content, {**new, **labels}).to_json())


def _replace_text(scratch: Path, path: Path, text: str) -> None:
    (scratch / ".new").write_text(text, encoding="utf-8")
    os.replace(scratch / ".new", path)


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


# Reports


def check_writable(folder: Path, names: Iterable[str], overwrite: bool = False) -> None:
    """Refuse, before the work begins, reports whose place is taken by a foreign file, unless `overwrite`."""
    for path in (folder / name for name in names):
        if not _is_free(path):
            if not overwrite or not path.is_file():
                raise _overwrite_error(path)
            _list_report(path, fingerprint(path))


@contextmanager
def replace_atomically(path: Path) -> Iterator[Path]:
    """Open a scratch file that replaces a report when it is complete, unless a foreign file is in its place."""
    with report_write_errors(repr(str(path))), scratch_folder(path.parent) as scratch:
        new = scratch / path.name
        yield new
        if not _is_free(path):
            raise _overwrite_error(path)
        _list_report(path, fingerprint(new))
        os.replace(new, path)


def _is_free(path: Path) -> bool:
    """Return whether there is nothing, or a report of ours that has not changed."""
    if not os.path.lexists(path):
        return True
    if path.is_symlink() or not path.is_file():
        return False
    line = os.fsencode(f"{fingerprint(path)}  {path.name}")
    return any(line in ledger.read_bytes().splitlines() for ledger in (path.parent / JOURNALS).glob("files-*.txt"))


def _list_report(path: Path, digest: str) -> None:
    with (ensure_folder(path.parent / JOURNALS) / f"files-{PROCESS}.txt").open("ab", buffering=0) as file:
        file.write(os.fsencode(f"{digest}  {path.name}\n"))
