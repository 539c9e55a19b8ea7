"""Folders that are written all or not at all."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from napari_gsw.core.errors import InputError
from napari_gsw.files.label_formats import writer
from napari_gsw.files.zarr_files import is_label_zarr, write_zarr


def made_folder(folder: Path) -> Path:
    """A folder that is there, with those above it."""
    with writing(f"the output folder {str(folder)!r}"):
        folder.mkdir(parents=True, exist_ok=True)
    return folder


@contextmanager
def writing(what: str) -> Iterator[None]:
    """What the system does not let us write (a full disk, a lack of rights) is the user's to mend: one line tells."""
    try:
        yield
    except OSError as reason:
        raise InputError(f"{what} cannot be written: {reason.strerror or reason}") from None


@contextmanager
def output_folder(folder: str | os.PathLike[str], ours: Sequence[str] = ()) -> Iterator[Path]:
    """A scratch folder inside `folder` whose files move into it when all went well, and vanish otherwise.

    Files named in `ours` that an earlier run left and this one did not write go: they would belong to other labels.
    """
    target = Path(folder)
    made: list[Path] = []
    missing = [p for p in (target, *target.parents) if not os.path.exists(p)]
    try:
        for parent in reversed(missing):
            parent.mkdir()
            made.append(parent)
        scratch = Path(tempfile.mkdtemp(prefix=".unfinished-", dir=target))
    except OSError as reason:
        _remove(made)
        raise InputError(f"the output folder {str(folder)!r} cannot be written: {reason.strerror or reason}") from None
    try:
        yield scratch
        files = sorted(scratch.iterdir())
        for file in files:
            _move(file, target / file.name)
        for name in set(ours) - {file.name for file in files}:
            if (target / name).is_dir() and not (target / name).is_symlink():
                shutil.rmtree(target / name)
            else:
                (target / name).unlink(missing_ok=True)
    except BaseException as reason:
        shutil.rmtree(scratch, ignore_errors=True)
        _remove(made)
        if isinstance(reason, OSError):
            why = reason.strerror or reason
            raise InputError(f"the output folder {str(folder)!r} cannot be written: {why}") from None
        raise
    shutil.rmtree(scratch)


def _move(made: Path, place: Path) -> None:
    """Put a file or folder in its place. A folder cannot be moved onto another: the old one steps aside first."""
    if not made.is_dir() or not os.path.lexists(place):
        os.replace(made, place)
        return
    _check_target(place)
    aside = made.with_name(f".replaced-{made.name}")
    os.replace(place, aside)
    try:
        os.replace(made, place)
    except BaseException:
        os.replace(aside, place)
        raise


def _remove(folders: list[Path]) -> None:
    for folder in reversed(folders):
        try:
            folder.rmdir()
        except OSError:
            return


def _check_target(path: Path) -> None:
    """Refuse a name of no known format, and a folder that holds something else."""
    if writer(path) is not write_zarr:
        if os.path.isdir(path):
            raise InputError(f"{str(path)!r} is a folder; name a file for the labels")
    elif os.path.lexists(path) and not is_label_zarr(path):
        raise InputError(f"{str(path)!r} is there already and is no label image of OME-Zarr; choose another name")
