"""Folders that are written whole or not at all."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from napari_gsw.core.errors import InputError
from napari_gsw.files.label_formats import check_target

# How the name of a scratch folder begins; one that is left tells of a process that was killed.
SCRATCH = ".unfinished-"


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
        raise InputError(f"{what} cannot be written: {reason.strerror or reason}") from None


def ensure_folder(folder: Path) -> Path:
    """Make a folder and those above it, as far as they are missing; returns the folder."""
    with writing(f"the output folder {str(folder)!r}"):
        folder.mkdir(parents=True, exist_ok=True)
    return folder


@contextmanager
def output_folder(folder: str | os.PathLike[str], own_names: Sequence[str] = ()) -> Iterator[Path]:
    """A scratch folder inside `folder` whose files move into it when all went well, and vanish otherwise.

    Parameters
    ----------
    folder : where the files go; made if it is missing.
    own_names : files that such a run may write. Those that an earlier run left and this one did not write go: they
        would belong to other labels.
    """
    target = Path(folder)
    created: list[Path] = []
    with writing(f"the output folder {str(folder)!r}"):
        try:
            for parent in reversed([p for p in (target, *target.parents) if not os.path.exists(p)]):
                parent.mkdir()
                created.append(parent)
            scratch = Path(tempfile.mkdtemp(prefix=SCRATCH, dir=target))
        except OSError:
            _remove_empty(created)
            raise
        try:
            yield scratch
            files = sorted(scratch.iterdir())
            for file in files:
                _move(file, target / file.name)
            for name in set(own_names) - {file.name for file in files}:
                _remove(target / name)
        except BaseException:
            shutil.rmtree(scratch, ignore_errors=True)
            _remove_empty(created)
            raise
    shutil.rmtree(scratch)


def _move(source: Path, target: Path) -> None:
    """Put a file or folder in its place. A folder cannot be moved onto another: the old one steps aside first."""
    if not source.is_dir() or not os.path.lexists(target):
        os.replace(source, target)
        return
    check_target(target)
    replaced = source.with_name(f".replaced-{source.name}")
    os.replace(target, replaced)
    try:
        os.replace(source, target)
    except BaseException:
        os.replace(replaced, target)
        raise


def _remove(path: Path) -> None:
    """Remove a file or a folder with all that is in it, if it is there; of a link only the link."""
    if path.is_dir() and not path.is_symlink():
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
