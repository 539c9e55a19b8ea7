"""Folders that are written whole or not at all, and never over what is somebody else's."""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from napari_gsw.core.errors import InputError
from napari_gsw.files.label_formats import check_target
from napari_gsw.files.ownership import (
    Mark,
    Overwrite,
    check_alone,
    check_free,
    fingerprint,
    mark_text,
    other_labels,
    read_mark,
)
from napari_gsw.files.scratch import OWNER, scratch_folder

# What NumPy says when the system takes only a part of what it is given: nothing but a full disk does that.
SHORT_WRITE = re.compile(r"\d+ requested and \d+ written")


@contextmanager
def writing(what: str) -> Iterator[None]:
    """What the system does not let us write (a full disk, a lack of rights) is the user's to mend: one line tells.

    Parameters
    ----------
    what : the subject of that line, such as ``the journal 'a.jsonl'``.
    """
    try:
        yield
    except OSError as reason:
        full = reason.errno is None and SHORT_WRITE.search(str(reason))
        words = os.strerror(errno.ENOSPC) if full else reason.strerror or reason
        raise InputError(f"{what} cannot be written: {words}") from None


def ensure_folder(folder: Path) -> Path:
    """Make a folder and those above it, as far as they are missing; returns the folder."""
    with writing(f"the output folder {str(folder)!r}"):
        folder.mkdir(parents=True, exist_ok=True)
    return folder


@contextmanager
def writable_folder(folder: str | os.PathLike[str]) -> Iterator[Path]:
    """A folder that can be written into, made if it is missing; if what follows fails, it goes again unless in use."""
    target = Path(folder)
    created: list[Path] = []
    try:
        with writing(f"the output folder {str(folder)!r}"):
            for parent in reversed([p for p in (target, *target.parents) if not os.path.exists(p)]):
                parent.mkdir(exist_ok=True)  # another process may have been quicker
                created.append(parent)
            with scratch_folder(target):
                pass
        yield target
    except BaseException:
        _remove_empty(created)
        raise


@contextmanager
def output_folder(
    folder: str | os.PathLike[str], mark: str | None = None, overwrite: Overwrite = False
) -> Iterator[Path]:
    """A scratch folder inside `folder` whose files move into it when all went well, and vanish otherwise.

    Parameters
    ----------
    folder : where the files go; made if it is missing.
    mark : name of the file that lists the others, see :mod:`napari_gsw.files.ownership`. What the mark of an earlier
        result lists and this one does not write goes, as far as it is still as it was written: it would belong to
        other labels.
    overwrite : what is not ours and may be written over all the same.
    """
    what = f"the output folder {str(folder)!r}"
    with writable_folder(folder) as target, writing(what), scratch_folder(target) as scratch:
        yield scratch
        _place(scratch, target, mark, overwrite)


def _place(scratch: Path, target: Path, mark: str | None, overwrite: Overwrite) -> None:
    """Move all files of a scratch folder to their places."""
    names = sorted(set(os.listdir(scratch)) - {OWNER})
    standing = check_free(target, names, mark, overwrite)
    for name in names:
        _check_folder(scratch / name, target / name, standing.get(name, True))
    earlier = None if mark is None else read_mark(target / mark)
    if mark is None or mark not in names:
        for name in names:
            _move(scratch / name, target / name)
        if mark is not None and earlier is not None:
            _disclaim(target, mark, earlier, names)
        return
    content = json.loads((scratch / mark).read_text(encoding="utf-8"))
    # The same result in another format: both are told of by one mark, and both stay.
    same = earlier is not None and dict(earlier.content) == content
    if not same and overwrite is not True:
        check_alone(target, names, mark)
    kept = other_labels(target, names, mark) if same else []
    others = [name for name in names if name != mark]
    files: dict[str, Any] = {name: fingerprint(scratch / name) for name in others}
    listed = {} if earlier is None else dict(earlier.files)
    before = {name: [*listed.get(name, ()), *_present(target / name)] for name in others}
    both = {**listed, **{name: [files[name], *before[name]] for name in others}}
    _put_mark(scratch, target / mark, mark_text(content, both, unfinished=True))
    moved: list[str] = []
    try:
        for name in others:
            _move(scratch / name, target / name)
            moved.append(name)
    except BaseException:
        if not moved:  # nothing has changed
            _restore_mark(scratch, target / mark, earlier)
        raise
    for name in set(listed) - {*names, *kept}:
        path = target / name
        if earlier is not None and os.path.lexists(path) and earlier.claims(path):
            _remove(path)
    _put_mark(scratch, target / mark, mark_text(content, {**files, **_entries(listed, kept)}))


def _present(path: Path) -> list[str]:
    """Fingerprint of what a person lets us write over, if it is there."""
    return [fingerprint(path)] if os.path.exists(path) and not path.is_symlink() else []


def _entries(listed: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """Entries of a mark for some of its files: one fingerprint as it is, several as a list."""
    return {name: listed[name][0] if len(listed[name]) == 1 else list(listed[name]) for name in names}


def _put_mark(scratch: Path, path: Path, text: str) -> None:
    new = scratch / ".mark"
    new.write_text(text, encoding="utf-8")
    os.replace(new, path)


def _restore_mark(scratch: Path, path: Path, earlier: Mark | None) -> None:
    if earlier is None:
        path.unlink(missing_ok=True)
    else:
        _put_mark(scratch, path, mark_text(earlier.content, _entries(earlier.files, list(earlier.files))))


def _disclaim(target: Path, mark: str, earlier: Mark, names: Sequence[str]) -> None:
    """Of files that were written over without a word on what made them, an earlier mark would tell a lie."""
    if not set(names) & set(earlier.files):
        return
    left = other_labels(target, names, mark)
    if left:
        with scratch_folder(target) as scratch:
            kept = [name for name in earlier.files if name not in names]
            _put_mark(scratch, target / mark, mark_text(earlier.content, _entries(earlier.files, kept)))
    else:
        (target / mark).unlink(missing_ok=True)


def _check_folder(source: Path, target: Path, ours: bool) -> None:
    """Refuse to replace a folder by a file, or one that is neither ours nor a label image: a person's word is not for
    whatever else is in it."""
    if os.path.isdir(target) and not source.is_dir():
        raise InputError(f"{str(target)!r} is a folder, and a file is to be written there; move it away")
    if source.is_dir() and not ours:
        check_target(target)


def _move(source: Path, target: Path) -> None:
    """Put a file or folder in its place. A folder cannot be moved onto another: the old one steps aside first."""
    if not source.is_dir() or not os.path.lexists(target):
        os.replace(source, target)
        return
    replaced = source.with_name(f".replaced-{source.name}")
    os.replace(target, replaced)
    try:
        os.replace(source, target)
    except BaseException:
        os.replace(replaced, target)
        raise


def _remove(path: Path) -> None:
    """Remove a file or a folder with all that is in it."""
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _remove_empty(folders: list[Path]) -> None:
    """Remove folders from the last to the first until one is not empty."""
    for folder in reversed(folders):
        try:
            folder.rmdir()
        except OSError:
            return
