"""The images of a folder, and for each a name of its labels that no other result has."""

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
from napari_gsw.files.images import is_zarr
from napari_gsw.files.output_folder import base_name, sibling_name
from napari_gsw.files.results import SIBLING_FILES

# Endings of image files; folders count if they are a zarr.
ENDINGS = (
    ".tif", ".tiff", ".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".npy", ".jp2", ".ppm", ".pgm", ".pbm", ".pnm",
    ".tga", ".lsm", ".stk",
)  # fmt: skip
LABEL_FORMATS = ("tif", "png", "zarr")


@dataclass(frozen=True)
class Selection:
    """Which images of a folder are taken."""

    recursive: bool = False  # also those of sub-folders
    pattern: str = "*"  # of the names, such as ``cell_*``; with a slash, of the paths within the folder
    limit: int | None = None  # only so many, the first by name


class BatchImage(NamedTuple):
    """An image to segment."""

    name: str  # path within the folder, with slashes
    path: Path
    stem: str  # path of the labels within the output folder, with slashes and without an ending


def select_images(
    folder: str | os.PathLike[str], output: str | os.PathLike[str], selection: Selection
) -> list[BatchImage]:
    """List the images of a folder by name, without those in the output folder."""
    image_folder, output_folder = Path(os.path.abspath(folder)), Path(os.path.abspath(output))
    if not os.path.isdir(image_folder):
        raise InputError(f"{str(folder)!r} is not a folder")
    if is_zarr(image_folder):
        raise InputError(f"{str(folder)!r} is one image; use napari-gsw segment, or name the folder that holds it")
    if os.path.exists(output_folder) and os.path.samefile(image_folder, output_folder):
        raise InputError("the output folder must be another than that of the images: labels would be taken for images")
    # All images get their names before some are selected, so that the selection does not change the names.
    names = sorted(_image_names(image_folder, output_folder, selection.recursive))
    images = [
        BatchImage(name, image_folder / name, stem) for name, stem in zip(names, output_stems(names), strict=True)
    ]
    pattern = selection.pattern
    matching = [image for image in images if fnmatch(image.name if "/" in pattern else image.path.name, pattern)]
    if not matching:
        like = "" if pattern == "*" else f" like {pattern!r}"
        advice = "" if selection.recursive else "; --recursive looks into its sub-folders"
        raise InputError(f"there is no image{like} in {str(folder)!r}{advice}")
    inputs = {os.path.realpath(image.path) for image in images}
    for file in (output_folder / name for image in matching for name in result_files(image.stem)):
        if os.path.realpath(file) in inputs:
            raise InputError(f"the output {str(file)!r} would replace an input image; choose another folder")
    return matching[: selection.limit]


def output_stems(names: Sequence[str]) -> list[str]:
    """Name the labels of each image: by its stem, or by its whole name where the stem is not unique.

    No file of a result has the name of a file of another, also where case does not count. Nothing is called `labels`,
    whose siblings would have no prefix.

    >>> output_stems(["a.png", "b.jpg", "b.png", "sub/a.png", "a.sites.png"])
    ['a', 'b_jpg', 'b_png', 'sub/a', 'a_sites_png']
    """
    short_names = [str(PurePosixPath(name).with_name(base_name(PurePosixPath(name).name))) for name in names]
    uses = Counter(stem.casefold() for stem in short_names)
    taken: set[str] = set()
    stems = []
    for name, short in zip(names, short_names, strict=True):
        path = PurePosixPath(name)
        long = str(path.with_name(path.name.replace(".", "_")))
        first = [short] if uses[short.casefold()] == 1 and PurePosixPath(short).name != "labels" else []
        for stem in chain(first, [long], (f"{long}_{number}" for number in count(2))):
            files = {file.casefold() for file in result_files(stem)}
            if not files & taken:
                taken |= files
                stems.append(stem)
                break
    return stems


def result_files(stem: str) -> list[str]:
    """List all paths within the output folder that may be written for the labels of a stem."""
    path = PurePosixPath(stem)
    labels = [f"{path.name}.{ending}" for ending in LABEL_FORMATS]
    siblings = [sibling_name(f"{path.name}.tif", name) for name in SIBLING_FILES]
    return [str(path.with_name(name)) for name in labels + siblings]


def _image_names(image_folder: Path, output_folder: Path, recursive: bool) -> Iterator[str]:
    """List the paths of the images below a folder, with slashes."""

    def refuse(error: OSError) -> None:
        raise InputError(f"the folder {str(error.filename)!r} cannot be read: {error.strerror}")

    for folder, subfolders, files in os.walk(image_folder, onerror=refuse):
        parent = Path(folder)
        zarrs = {name for name in subfolders if name.lower().endswith(".zarr") or is_zarr(parent / name)}
        images = (*(name for name in files if name.lower().endswith(ENDINGS)), *zarrs)
        yield from ((parent / name).relative_to(image_folder).as_posix() for name in images if not name.startswith("."))
        others = (name for name in subfolders if name not in zarrs and not name.startswith("."))
        subfolders[:] = sorted(name for name in others if parent / name != output_folder) if recursive else []
