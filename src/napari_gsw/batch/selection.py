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
from napari_gsw.files.output_folder import base_name, sibling_name
from napari_gsw.files.results import SIBLING_FILES
from napari_gsw.files.zarr_io import is_zarr

# Files that hold images; a folder is one if it is a zarr.
ENDINGS = (
    ".tif", ".tiff", ".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".npy", ".jp2", ".ppm", ".pgm", ".pbm", ".pnm",
    ".tga", ".lsm", ".stk",
)  # fmt: skip
# Of the labels of a batch.
LABEL_FORMATS = ("tif", "png", "zarr")


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


class BatchImage(NamedTuple):
    """An image to be segmented.

    Attributes
    ----------
    name : its path within the folder, with slashes.
    path : where it is.
    stem : path of its labels within the output folder, with slashes and without an ending.
    """

    name: str
    path: Path
    stem: str


def select_images(
    folder: str | os.PathLike[str], output: str | os.PathLike[str], selection: Selection
) -> list[BatchImage]:
    """The images of a folder in the order of their names; what lies in the output folder is none of them."""
    image_folder, output_folder = Path(os.path.abspath(folder)), Path(os.path.abspath(output))
    if not os.path.isdir(image_folder):
        raise InputError(f"{str(folder)!r} is not a folder")
    if is_zarr(image_folder):
        raise InputError(f"{str(folder)!r} is one image; napari-gsw segment takes it, or name the folder that holds it")
    if os.path.exists(output_folder) and os.path.samefile(image_folder, output_folder):
        raise InputError("the output folder must be another than that of the images: labels would be taken for images")
    # Names are given to all images before some are chosen, so that a choice does not change them.
    names = sorted(_image_names(image_folder, output_folder, selection.recursive))
    images = [
        BatchImage(name, image_folder / name, stem) for name, stem in zip(names, output_stems(names), strict=True)
    ]
    pattern = selection.pattern
    matching = [image for image in images if fnmatch(image.name if "/" in pattern else image.path.name, pattern)]
    if not matching:
        more = "" if selection.recursive else "; --recursive looks into its sub-folders"
        like = "" if pattern == "*" else f" like {pattern!r}"
        raise InputError(f"there is no image{like} in {str(folder)!r}{more}")
    _must_not_overwrite(images, matching, output_folder)
    return matching[: selection.limit]


def output_stems(names: Sequence[str]) -> list[str]:
    """Where the labels of each image go: by its stem, or by its whole name where that would not be unique.

    Everything that a result may consist of counts, so that no file of one is taken for a file of another; and so does
    a name that differs only in its capitals, which some systems take for the same. Nothing is called `labels`: what
    stands beside ``labels.tif`` does not begin with its name.

    Examples
    --------
    >>> output_stems(["a.png", "b.jpg", "b.png", "sub/a.png", "a.sites.png"])
    ['a', 'b_jpg', 'b_png', 'sub/a', 'a_sites_png']
    """
    short = [str(PurePosixPath(name).with_name(base_name(PurePosixPath(name).name))) for name in names]
    uses = Counter(stem.casefold() for stem in short)
    taken: set[str] = set()
    stems = []
    for name, stem in zip(names, short, strict=True):
        path = PurePosixPath(name)
        long = str(path.with_name(path.name.replace(".", "_")))
        first = [stem] if uses[stem.casefold()] == 1 and PurePosixPath(stem).name != "labels" else []
        for candidate in chain(first, [long], (f"{long}_{number}" for number in count(2))):
            files = {file.casefold() for file in result_files(candidate)}
            if not files & taken:
                taken |= files
                stems.append(candidate)
                break
    return stems


def result_files(stem: str) -> list[str]:
    """Paths within the output folder of all that may be written for an image, by the stem of its labels."""
    path = PurePosixPath(stem)
    beside = (sibling_name(f"{path.name}.tif", other) for other in SIBLING_FILES)
    return [str(path.with_name(name)) for name in (*(f"{path.name}.{ending}" for ending in LABEL_FORMATS), *beside)]


def _image_names(image_folder: Path, output_folder: Path, recursive: bool) -> Iterator[str]:
    """Paths of the images below a folder, with slashes."""
    for folder, below, files in os.walk(image_folder, onerror=_refuse):
        parent = Path(folder)
        zarrs = {name for name in below if name.lower().endswith(".zarr") or is_zarr(parent / name)}
        images = (*(f for f in files if f.lower().endswith(ENDINGS)), *zarrs)
        yield from ((parent / name).relative_to(image_folder).as_posix() for name in images if not name.startswith("."))
        others = (name for name in below if name not in zarrs and not name.startswith("."))
        below[:] = sorted(name for name in others if parent / name != output_folder) if recursive else []


def _refuse(reason: OSError) -> None:
    raise InputError(f"the folder {str(reason.filename)!r} cannot be read: {reason.strerror}")


def _must_not_overwrite(images: Sequence[BatchImage], matching: Sequence[BatchImage], output_folder: Path) -> None:
    """Refuse to write over any image of the folder."""
    inputs = {os.path.realpath(image.path) for image in images}
    for image in matching:
        for name in result_files(image.stem):
            file = output_folder / name
            if os.path.realpath(file) in inputs:
                raise InputError(f"the output {str(file)!r} would write over an input; choose another folder")
