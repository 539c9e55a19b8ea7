"""The images of a folder, and a name for the labels of each that no other result has."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from itertools import chain, count
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from napari_gsw.core.errors import InputError
from napari_gsw.files.label_formats import stem
from napari_gsw.files.labels import companion
from napari_gsw.files.results import COMPANIONS
from napari_gsw.files.zarr_files import is_zarr

# Files that hold images; a folder is one if it is a zarr.
ENDINGS = (
    ".tif", ".tiff", ".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".npy", ".jp2", ".ppm", ".pgm", ".pbm", ".pnm",
    ".tga", ".lsm", ".stk",
)  # fmt: skip
FORMATS = ("tif", "png", "zarr")


@dataclass(frozen=True)
class Selection:
    """Which images of a folder are taken.

    Attributes
    ----------
    recursive : those of its sub-folders too.
    pattern : of their names, such as ``cell_*``; with a slash in it, of their paths within the folder.
    limit : the first so many of them, in the order of their names; None for all.
    """

    recursive: bool = False
    pattern: str = "*"
    limit: int | None = None


class Item(NamedTuple):
    """An image to be segmented.

    Attributes
    ----------
    name : its path within the folder, with slashes.
    path : where it is.
    place : path of its labels within the output folder, with slashes and without an ending.
    """

    name: str
    path: Path
    place: str

    def labels(self, format: str) -> str:
        """Name of the file of labels."""
        return f"{PurePosixPath(self.place).name}.{format}"


def selected(folder: str | os.PathLike[str], output: str | os.PathLike[str], which: Selection) -> list[Item]:
    """The images of a folder in the order of their names; what lies in the output folder is none of them."""
    home, out = Path(os.path.abspath(folder)), Path(os.path.abspath(output))
    if not os.path.isdir(home):
        raise InputError(f"{str(folder)!r} is not a folder")
    if is_zarr(home):
        raise InputError(f"{str(folder)!r} is one image; napari-gsw segment takes it, or name the folder that holds it")
    if os.path.exists(out) and os.path.samefile(home, out):
        raise InputError("the output folder must be another than that of the images: labels would be taken for images")
    # Names are given to all images before some are chosen, so that a choice does not change them.
    names = sorted(_images(home, out, which.recursive))
    items = [Item(name, home / name, place) for name, place in zip(names, places(names), strict=True)]
    chosen = [i for i in items if fnmatch(i.name if "/" in which.pattern else i.path.name, which.pattern)]
    if not chosen:
        more = "" if which.recursive else "; --recursive looks into its sub-folders"
        like = "" if which.pattern == "*" else f" like {which.pattern!r}"
        raise InputError(f"there is no image{like} in {str(folder)!r}{more}")
    _check_inputs(items, chosen, out)
    return chosen[: which.limit]


def _images(home: Path, out: Path, recursive: bool) -> Iterator[str]:
    """Paths of the images below a folder, with slashes."""
    for folder, below, files in os.walk(home, onerror=_refuse):
        here = Path(folder)
        zarrs = {name for name in below if name.lower().endswith(".zarr") or is_zarr(here / name)}
        images = (*(f for f in files if f.lower().endswith(ENDINGS)), *zarrs)
        yield from ((here / name).relative_to(home).as_posix() for name in images if not name.startswith("."))
        open_ = (name for name in below if name not in zarrs and not name.startswith(".") and here / name != out)
        below[:] = sorted(open_) if recursive else []


def _refuse(reason: OSError) -> None:
    raise InputError(f"the folder {str(reason.filename)!r} cannot be read: {reason.strerror}")


def places(names: Sequence[str]) -> list[str]:
    """Where the labels of each image go: by its stem, or by its whole name where that would not be unique.

    Everything that a result may consist of counts, so that no file of one is taken for a file of another; and so does
    a name that differs only in its capitals, which some systems take for the same. Nothing is called `labels`: what
    stands beside ``labels.tif`` does not begin with its name.

    Examples
    --------
    >>> places(["a.png", "b.jpg", "b.png", "sub/a.png", "a.sites.png"])
    ['a', 'b_jpg', 'b_png', 'sub/a', 'a_sites_png']
    """
    short = [str(PurePosixPath(name).with_name(stem(PurePosixPath(name).name))) for name in names]
    shared = Counter(place.casefold() for place in short)
    taken: set[str] = set()
    made = []
    for name, place in zip(names, short, strict=True):
        path = PurePosixPath(name)
        long = str(path.with_name(path.name.replace(".", "_")))
        first = [place] if shared[place.casefold()] == 1 and PurePosixPath(place).name != "labels" else []
        for candidate in chain(first, [long], (f"{long}_{number}" for number in count(2))):
            files = {file.casefold() for file in results(candidate)}
            if not files & taken:
                taken |= files
                made.append(candidate)
                break
    return made


def results(place: str) -> list[str]:
    """Paths of all that may be written for an image."""
    path = PurePosixPath(place)
    beside = (companion(f"{path.name}.tif", other) for other in COMPANIONS)
    return [str(path.with_name(name)) for name in (*(f"{path.name}.{ending}" for ending in FORMATS), *beside)]


def _check_inputs(items: Sequence[Item], chosen: Sequence[Item], out: Path) -> None:
    """Refuse to write over any image of the folder."""
    inputs = {os.path.realpath(item.path) for item in items}
    for item in chosen:
        for file in results(item.place):
            if os.path.realpath(out / file) in inputs:
                raise InputError(f"the output {str(out / file)!r} would write over an input; choose another folder")
