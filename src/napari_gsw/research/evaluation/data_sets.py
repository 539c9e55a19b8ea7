"""Data sets with human segmentations, in the layouts of their publishers.

The functions ``list_x`` list the examples of a data set without opening a file; :meth:`Example.read` opens the files of
one. An example is a small record, so that another process can read it.
"""

from __future__ import annotations

import gc
import os
import warnings
import xml.etree.ElementTree as ET
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.io import loadmat
from skimage.draw import polygon

from napari_gsw.core.array_types import LabelImage
from napari_gsw.core.errors import InputError
from napari_gsw.core.image.normalized_image import normalize_image
from napari_gsw.files.images import parse_xml, read_image, read_labels

PHOTOGRAPHS = (".jpg", ".jpeg", ".png")
IMAGES = (*PHOTOGRAPHS, ".tif", ".tiff", ".bmp", ".npy")
LABELS = (".tif", ".tiff", ".png", ".npy")  # of several files for one image the first counts
MAX_COORDINATE = 1e6  # pixels; a corner of a polygon beyond this is an error

Shape = tuple[int, ...]
T = TypeVar("T")


class AnnotatedImage(NamedTuple):
    """An image and its human segmentations."""

    image: NDArray[Any]
    axes: str
    human_labels: list[LabelImage]  # int32 label images of the image's spatial shape, at least one
    ignore_background: bool  # 0 marks unlabelled pixels, which are not scored; otherwise 0 is a region
    seeds: LabelImage | None = None  # scribbles, 0 elsewhere


@dataclass(frozen=True)
class Example:
    """An image of a data set and the file of its truth, which may be missing."""

    name: str  # of the file of the image, or of the scribbles on it, without its ending
    image: Path
    truth: Path
    kind: str  # how the truth is stored: ``bsds``, ``labelme``, ``folder`` or ``scribbles``
    seeds: Path | None = None  # file of the scribbles
    ignores_background: bool = False  # pixels that are 0 in the truth are unlabelled, such as membranes between cells

    @property
    def files(self) -> tuple[Path, ...]:
        """All files that are read."""
        return tuple(file for file in (self.image, self.truth, self.seeds) if file is not None)

    @property
    def painted(self) -> bool:
        """True if there are scribbles."""
        return self.seeds is not None

    @property
    def has_objects(self) -> bool:
        """True if the truth is objects on a background, 0."""
        return self.kind == "folder" and not self.ignores_background

    def read(self) -> AnnotatedImage:
        """Read the files; an InputError names the file that is damaged."""
        for file, what in ((self.truth, "the human segmentation"), (self.seeds, "the scribbles")):
            if file is not None and not file.is_file():
                raise InputError(f"{str(file)!r}, {what} of {self.image.name!r}, is missing")
        with warnings.catch_warnings():  # of decoders, about the file
            warnings.simplefilter("ignore")
            image, axes = _decode(read_image, self.image, "an image")
            try:
                shape = normalize_image(image, axes).shape
            except (InputError, MemoryError) as error:  # a damaged header may promise more pixels than fit
                raise InputError(f"{str(self.image)!r} cannot be used: {str(error) or 'it is too large'}") from None
            readers = {"bsds": _read_bsds, "labelme": _read_labelme}
            human_labels = readers.get(self.kind, _read_folder)(self.truth, shape)
            seeds = None if self.seeds is None else _read_folder(self.seeds, shape)[0]
        if seeds is not None and human_labels[0].min() < 1:
            raise InputError(f"{str(self.truth)!r} must have a label of 1 or more at every pixel")
        if seeds is not None and (seeds.min() < 0 or not seeds.any()):
            raise InputError(f"{str(self.seeds)!r} must have scribbles of 1 or more, and 0 elsewhere")
        return AnnotatedImage(image, axes, human_labels, self.ignores_background or self.kind == "labelme", seeds)


def spread(examples: Sequence[T], limit: int | None) -> list[T]:
    """Select at most `limit` examples, evenly spread, since data sets are often sorted by kind."""
    count = len(examples) if limit is None else min(limit, len(examples))
    return [examples[i * len(examples) // count] for i in range(count)]


def list_bsds(folder: str | os.PathLike[str], split: str | None = None) -> list[Example]:
    """List a split (``train``, ``val`` or ``test``) of the Berkeley segmentation data set, BSDS500, sorted by name.

    The layout is ``images/<split>/NAME.jpg`` (or .png) with ``groundTruth/<split>/NAME.mat``. The split may be left out
    if there is only one.
    """
    layout = "images/<split>/NAME.jpg and groundTruth/<split>/NAME.mat"
    splits = [entry.name for entry in _list_entries(Path(folder), "images", layout) if os.path.isdir(entry)]
    if split is None and len(splits) > 1:
        raise InputError(f"{str(folder)!r} has the splits {', '.join(splits)}; choose one with --split")
    split = split if split is not None else splits[0] if splits else "train"
    if split not in splits:
        layout_or_splits = f"the splits are {', '.join(splits)}" if splits else f"the layout must be {layout}"
        raise InputError(f"{str(Path(folder, 'images', split))!r} is missing; {layout_or_splits}")
    _list_entries(Path(folder), f"groundTruth/{split}", layout)
    images = _list_images(Path(folder), f"images/{split}", PHOTOGRAPHS, layout)
    return [Example(i.stem, i, Path(folder, "groundTruth", split, f"{i.stem}.mat"), "bsds") for i in images]


def list_labelme(folder: str | os.PathLike[str]) -> list[Example]:
    """List a LabelMe collection, sorted by name: ``images/NAME.jpg`` with ``annotations/NAME.xml``.

    Polygons are painted from large to small. Pixels without a polygon are 0.
    """
    layout = "images/NAME.jpg and annotations/NAME.xml"
    images = _list_images(Path(folder), "images", PHOTOGRAPHS, layout)
    _list_entries(Path(folder), "annotations", layout)
    return [Example(i.stem, i, Path(folder, "annotations", f"{i.stem}.xml"), "labelme") for i in images]


def list_labelled_folder(folder: str | os.PathLike[str], ignores_background: bool = False) -> list[Example]:
    """List a folder of images with label images, 2D or 3D, sorted by name.

    The layout is ``images/NAME`` with any of the endings `IMAGES` and ``labels/NAME`` with any of `LABELS`. With
    `ignores_background`, pixels that are 0 are left out of every score; otherwise they are a region.
    """
    layout = f"images/NAME.png (or {', '.join(e for e in IMAGES if e != '.png')}) and labels/NAME.tif"
    images = _list_images(Path(folder), "images", IMAGES, layout)
    label_files = {(entry.stem, entry.suffix.lower()): entry for entry in _list_entries(Path(folder), "labels", layout)}
    examples = []
    for image in images:
        truths = [label_files[image.stem, ending] for ending in LABELS if (image.stem, ending) in label_files]
        truth = truths[0] if truths else Path(folder, "labels", f"{image.stem}.tif")
        examples.append(Example(image.stem, image, truth, "folder", ignores_background=ignores_background))
    return examples


def list_scribbles(folder: str | os.PathLike[str]) -> list[Example]:
    """List a data set for interactive segmentation, sorted by name; several examples may share an image.

    The layout is ``images/IMAGE.jpg`` (or .png) with ``scribbles/IMAGE_USER.png`` and ``labels/IMAGE_USER.png``, the
    wanted labels with the same numbers, at every pixel.
    """
    layout = "images/IMAGE.jpg, scribbles/IMAGE_USER.png and labels/IMAGE_USER.png"
    images = {image.stem: image for image in _list_images(Path(folder), "images", PHOTOGRAPHS, layout)}
    _list_entries(Path(folder), "labels", layout)
    examples = []
    for seeds in _list_images(Path(folder), "scribbles", LABELS, layout):
        stems = [stem for stem in images if seeds.stem == stem or seeds.stem.startswith(f"{stem}_")]
        if not stems:
            raise InputError(f"{str(seeds)!r} has no image; the layout must be {layout}")
        truth = Path(folder, "labels", seeds.name)
        examples.append(Example(seeds.stem, images[max(stems, key=len)], truth, "scribbles", seeds))
    return examples


def _list_entries(folder: Path, name: str, layout: str) -> list[Path]:
    """List a folder of a data set, sorted, without hidden files."""
    try:
        return sorted(entry for entry in (folder / name).iterdir() if not entry.name.startswith("."))
    except (OSError, ValueError) as error:  # the latter for a name that no folder can have
        missing = "cannot be opened" if isinstance(error, PermissionError) else "is missing"
        raise InputError(f"the folder {str(folder / name)!r} {missing}; the layout must be {layout}") from None


def _list_images(folder: Path, name: str, endings: Sequence[str], layout: str) -> list[Path]:
    """List the images in a folder of a data set, sorted by their stems, which must differ."""
    files = [e for e in _list_entries(folder, name, layout) if e.suffix.lower() in endings and not os.path.isdir(e)]
    if not files:
        raise InputError(f"there is no image in {str(folder / name)!r}; the layout must be {layout}")
    by_stem: dict[str, Path] = {}
    for file in files:
        if (other := by_stem.setdefault(file.stem, file)) != file:
            raise InputError(f"{str(other)!r} and {file.name!r} differ in their endings only; rename one of them")
    return [by_stem[stem] for stem in sorted(by_stem)]


def _decode(decoder: Callable[[Path], T], file: Path, format: str) -> T:
    """Decode a file; decoders may raise anything on a damaged one."""
    try:
        return decoder(file)
    except InputError as error:
        line = str(error)
    except Exception as error:
        why = next(iter(str(error).strip().splitlines()), type(error).__name__)
        line = f"{str(file)!r} cannot be read as {format}: {why}"
    # Some also leave the file open, and Python would warn of that later.
    gc.collect()
    raise InputError(line)


def _read_bsds(file: Path, shape: Shape) -> list[LabelImage]:
    """Read a cell ``groundTruth`` of structs with a field ``Segmentation``, one per annotator."""
    read = partial(loadmat, appendmat=False, variable_names=["groundTruth"])
    cells = _decode(read, file, "a MATLAB file").get("groundTruth")
    if not isinstance(cells, np.ndarray) or cells.dtype != object or cells.size == 0:
        raise InputError(f"{str(file)!r} holds no cell groundTruth of human segmentations")
    human_labels = []
    for cell in cells.flat:
        if "Segmentation" not in (cell.dtype.names or ()) or cell.size != 1:
            raise InputError(f"{str(file)!r} has an entry of groundTruth without one field Segmentation")
        human_labels.append(_check_labels(np.asarray(cell["Segmentation"].item()), file, shape))
    return human_labels


def _read_folder(file: Path, shape: Shape) -> list[LabelImage]:
    return [_check_labels(_decode(read_labels, file, "a label image"), file, shape)]


def _check_labels(labels: NDArray[Any], file: Path, shape: Shape) -> LabelImage:
    """Return labels of the image's shape as int32, also from doubles; numbers that are too large are replaced."""
    if labels.shape != shape:
        raise InputError(f"{str(file)!r} has labels of shape {labels.shape}, its image has the shape {shape}")
    kind = labels.dtype.kind
    if kind not in "bui" and not (kind == "f" and np.isfinite(labels).all() and (labels == np.rint(labels)).all()):
        raise InputError(f"{str(file)!r} must hold whole numbers as labels")
    range32 = np.iinfo(np.int32)
    if int(labels.min()) < range32.min or int(labels.max()) > range32.max:
        labels = np.unique(labels, return_inverse=True)[1].reshape(shape)
    return labels.astype(np.int32)


def _read_labelme(file: Path, shape: Shape) -> list[LabelImage]:
    """Paint the polygons of a file, numbered from 1 in that order."""
    root = _decode(lambda file: parse_xml(file.read_bytes()), file, "XML")
    lengths = (root.findtext(f"imagesize/{side}", "").strip() for side in ("nrows", "ncols"))
    size = tuple(int(length) for length in lengths if length.isdecimal())  # missing in many files
    if len(shape) != 2 or (len(size) == 2 and size != shape):
        drawn_on = f"an image of shape {size}" if len(size) == 2 else "a flat image"
        raise InputError(f"{str(file)!r} has polygons for {drawn_on}, its image has the shape {shape}")
    objects = [entry for entry in root.iter("object") if entry.findtext("deleted", "").strip() != "1"]
    outlines = [outline for entry in objects for outline in entry.findall("polygon") if len(outline.findall("pt")) > 2]
    polygons = [_read_corners(outline, file) for outline in outlines]
    labels = np.zeros(shape, np.int32)
    # Of equal areas the later in the file is painted later: the sort is stable.
    for number, corners in enumerate(sorted(polygons, key=_polygon_area, reverse=True), 1):
        labels[polygon(corners[:, 0], corners[:, 1], shape)] = number
    if not labels.any():
        raise InputError(f"{str(file)!r} has no polygon that covers a pixel of its image")
    return [labels]


def _read_corners(outline: ET.Element, file: Path) -> NDArray[np.float64]:
    """Read the (corners, 2) rows and columns of a polygon."""
    try:
        corners = np.array([[float(pt.findtext(axis, "")) for axis in "yx"] for pt in outline.findall("pt")])
    except ValueError:
        raise InputError(f"{str(file)!r} has a polygon with a corner that lacks a number x or y") from None
    if not (np.abs(corners) <= MAX_COORDINATE).all():  # false for NaN too
        raise InputError(f"{str(file)!r} has a polygon with a corner that is not finite or far outside of any image")
    return corners


def _polygon_area(corners: NDArray[np.float64]) -> float:
    """Compute the area of a polygon by the shoelace formula."""
    rows, columns = corners.T
    return float(abs(np.sum(rows * np.roll(columns, 1) - columns * np.roll(rows, 1))) / 2)
