"""Data sets with human segmentations, in the layouts of their publishers.

:func:`bsds`, :func:`labelme`, :func:`labelled_folder` and :func:`scribbles` list the examples of a data set without
opening a file; :meth:`Example.read` opens the files of one. An example is a small record, so that another process can
do the reading.
"""

from __future__ import annotations

import gc
import os
import warnings
import xml.etree.ElementTree as ET
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.io import loadmat
from skimage.draw import polygon

from napari_gsw.core.array_types import LabelImage
from napari_gsw.core.errors import InputError
from napari_gsw.core.image.normalized_image import normalize_image
from napari_gsw.files.images import read_image, read_labels
from napari_gsw.files.untrusted import parse_xml

PHOTOGRAPHS = (".jpg", ".jpeg", ".png")
IMAGES = (*PHOTOGRAPHS, ".tif", ".tiff", ".bmp", ".npy")
LABELS = (".tif", ".tiff", ".png", ".npy")  # of several files for one image the first counts
FARTHEST = 1e6  # pixels; a polygon's corner beyond this, in any direction, is a slip

Shape = tuple[int, ...]
Content = TypeVar("Content")


class AnnotatedImage(NamedTuple):
    """An image and how people segment it.

    Attributes
    ----------
    image, axes : as :func:`napari_gsw.files.images.read_image` gives them.
    humans : int32 label images of the image's spatial shape, at least one.
    ignore_background : whether 0 marks pixels that nobody labelled, to be left out of a score; otherwise 0 is a region
        like any other.
    seeds : int32 label image of what a person has painted to say what is wanted, 0 elsewhere; None if nobody has.
    """

    image: NDArray[Any]
    axes: str
    human_labels: list[LabelImage]
    ignore_background: bool
    seeds: LabelImage | None = None


class Scorable(Protocol):
    """What can be read and scored: an image of a data set, or one that is drawn on the spot."""

    @property
    def name(self) -> str:
        """No two of a data set share it."""
        ...

    @property
    def has_objects(self) -> bool:
        """Whether the truth is of objects on a background, 0."""
        ...

    @property
    def files(self) -> tuple[Path, ...]:
        """All files that are read."""
        ...

    @property
    def painted(self) -> bool:
        """Whether a person has said by scribbles what is wanted."""
        ...

    def read(self) -> AnnotatedImage:
        """The image and its truth."""
        ...


@dataclass(frozen=True)
class Example:
    """One image of a data set and where its truth is, or should be.

    Attributes
    ----------
    name : the image's file name without its ending, or that of the scribbles on it; no two examples of a data set
        share it.
    kind : how the truth is stored: ``bsds``, ``labelme``, ``folder`` or ``scribbles``.
    seeds : the file of the scribbles on the image, where a data set has any.
    ignores_background : whether pixels that are 0 in the truth are nobody's, such as membranes between cells.
    """

    name: str
    image: Path
    truth: Path
    kind: str
    seeds: Path | None = None
    ignores_background: bool = False

    @property
    def has_objects(self) -> bool:
        """Whether the truth is of objects on a background, 0."""
        return self.kind == "folder" and not self.ignores_background

    @property
    def painted(self) -> bool:
        """Whether a person has said by scribbles what is wanted."""
        return self.seeds is not None

    @property
    def files(self) -> tuple[Path, ...]:
        """All files that are read."""
        return (self.image, self.truth, *([] if self.seeds is None else [self.seeds]))

    def read(self) -> AnnotatedImage:
        """Open the files; whatever is wrong with them is an InputError that names the file."""
        if not os.path.isfile(self.truth):
            raise InputError(f"{str(self.truth)!r}, the human segmentation of {self.image.name!r}, is missing")
        with warnings.catch_warnings():  # a decoder's remarks on a file are for its developers
            warnings.simplefilter("ignore")
            image, axes = _decoded(read_image, self.image, "an image")
            try:
                shape = normalize_image(image, axes).shape
            except (InputError, MemoryError) as reason:  # a damaged header may promise more pixels than fit
                raise InputError(f"{str(self.image)!r} cannot be used: {str(reason) or 'it is too large'}") from None
            human_labels = READERS[self.kind](self.truth, shape)
            seeds = None if self.seeds is None else _read_seeds(self.seeds, shape)
        return AnnotatedImage(image, axes, human_labels, self.ignores_background or self.kind == "labelme", seeds)


def list_bsds(folder: str | os.PathLike[str], split: str) -> list[Example]:
    """Examples of a split of the Berkeley segmentation data set, BSDS500, sorted by name.

    The layout is ``images/<split>/NAME.jpg`` (or .png) with ``groundTruth/<split>/NAME.mat``.

    Parameters
    ----------
    folder : of the data set.
    split : name of a folder in ``images``: ``train``, ``val`` or ``test``.
    """
    layout = "images/<split>/NAME.jpg and groundTruth/<split>/NAME.mat"
    splits = [entry.name for entry in _entries(Path(folder), "images", layout) if os.path.isdir(entry)]
    if split not in splits:
        layout_or_splits = f"the splits are {', '.join(splits)}" if splits else f"the layout must be {layout}"
        raise InputError(f"{str(Path(folder, 'images', split))!r} is missing; {layout_or_splits}")
    _entries(Path(folder), f"groundTruth/{split}", layout)
    images = _images(Path(folder), f"images/{split}", PHOTOGRAPHS, layout)
    return [Example(i.stem, i, Path(folder, "groundTruth", split, f"{i.stem}.mat"), "bsds") for i in images]


def list_labelme(folder: str | os.PathLike[str]) -> list[Example]:
    """Examples of a LabelMe collection, sorted by name: ``images/NAME.jpg`` with ``annotations/NAME.xml``.

    The polygons become a partition by painting them from large to small. Pixels without a polygon are 0.
    """
    layout = "images/NAME.jpg and annotations/NAME.xml"
    images = _images(Path(folder), "images", PHOTOGRAPHS, layout)
    _entries(Path(folder), "annotations", layout)
    return [Example(i.stem, i, Path(folder, "annotations", f"{i.stem}.xml"), "labelme") for i in images]


def list_labelled_folder(folder: str | os.PathLike[str], ignores_background: bool = False) -> list[Example]:
    """Examples of a folder of images with label images, sorted by name.

    The layout is ``images/NAME`` with any of the endings `IMAGES` and ``labels/NAME`` with any of `LABELS`. The labels
    have the spatial shape of the image, 2D or 3D; their background is a region, unless it is to be ignored: then the
    regions are no objects on it, and pixels that are 0 are left out of every score.
    """
    layout = f"images/NAME.png (or {', '.join(e for e in IMAGES if e != '.png')}) and labels/NAME.tif"
    images = _images(Path(folder), "images", IMAGES, layout)
    label_files = {(entry.stem, entry.suffix.lower()): entry for entry in _entries(Path(folder), "labels", layout)}
    examples = []
    for image in images:
        truths = [label_files[image.stem, ending] for ending in LABELS if (image.stem, ending) in label_files]
        truth = truths[0] if truths else Path(folder, "labels", f"{image.stem}.tif")
        examples.append(Example(image.stem, image, truth, "folder", ignores_background=ignores_background))
    return examples


def list_scribbles(folder: str | os.PathLike[str]) -> list[Example]:
    """Examples of a data set for interactive segmentation, sorted by name; several may share an image.

    The layout is ``images/IMAGE.jpg`` (or .png) with ``scribbles/IMAGE_USER.png``, what a person has painted, and
    ``labels/IMAGE_USER.png``, what they wanted: the same numbers, and one at every pixel.
    """
    layout = "images/IMAGE.jpg, scribbles/IMAGE_USER.png and labels/IMAGE_USER.png"
    images = {image.stem: image for image in _images(Path(folder), "images", PHOTOGRAPHS, layout)}
    _entries(Path(folder), "labels", layout)
    examples = []
    for seeds in _images(Path(folder), "scribbles", LABELS, layout):
        stems = [stem for stem in images if seeds.stem == stem or seeds.stem.startswith(f"{stem}_")]
        if not stems:
            raise InputError(f"{str(seeds)!r} has no image; the layout must be {layout}")
        truth = Path(folder, "labels", seeds.name)
        examples.append(Example(seeds.stem, images[max(stems, key=len)], truth, "scribbles", seeds))
    return examples


def list_files(examples: Sequence[Scorable]) -> dict[str, tuple[Path, ...]]:
    """The files of each example, by its name."""
    return {e.name: e.files for e in examples}


def _entries(folder: Path, name: str, layout: str) -> list[Path]:
    """What is in a folder of a data set, sorted; hidden files are the business of the system that left them."""
    try:
        return sorted(entry for entry in (folder / name).iterdir() if not entry.name.startswith("."))
    except (OSError, ValueError) as reason:  # the latter for a name that no folder can have
        missing = "cannot be opened" if isinstance(reason, PermissionError) else "is missing"
        raise InputError(f"the folder {str(folder / name)!r} {missing}; the layout must be {layout}") from None


def _images(folder: Path, name: str, endings: Sequence[str], layout: str) -> list[Path]:
    """The images in a folder of a data set, sorted by their stems, of which no two are the same."""
    files = [e for e in _entries(folder, name, layout) if e.suffix.lower() in endings and not os.path.isdir(e)]
    if not files:
        raise InputError(f"there is no image in {str(folder / name)!r}; the layout must be {layout}")
    by_stem: dict[str, Path] = {}
    for file in files:
        if (other := by_stem.setdefault(file.stem, file)) != file:
            raise InputError(f"{str(other)!r} and {file.name!r} differ in their endings only; rename one of them")
    return [by_stem[stem] for stem in sorted(by_stem)]


def _decoded(decoder: Callable[[Path], Content], file: Path, format: str) -> Content:
    """What a decoder makes of a file. Decoders raise whatever they like on a broken one."""
    try:
        return decoder(file)
    except InputError as reason:
        line = str(reason)
    except Exception as reason:
        why = next(iter(str(reason).strip().splitlines()), type(reason).__name__)
        line = f"{str(file)!r} cannot be read as {format}: {why}"
    # Some also leave the file open, and Python would remark on that later, wherever it happens to clean up.
    gc.collect()
    raise InputError(line)


def _cells(file: Path) -> Any:
    """The array of objects ``groundTruth`` of a MATLAB file; None without one."""
    return loadmat(file, appendmat=False, variable_names=["groundTruth"]).get("groundTruth")


def _tree(file: Path) -> ET.Element:
    return parse_xml(file.read_bytes())


def _read_bsds(file: Path, shape: Shape) -> list[LabelImage]:
    """The segmentations of all people: a cell ``groundTruth`` of structs with a field ``Segmentation``."""
    cells = _decoded(_cells, file, "a MATLAB file")
    if not isinstance(cells, np.ndarray) or cells.dtype != object or cells.size == 0:
        raise InputError(f"{str(file)!r} holds no cell groundTruth of human segmentations")
    human_labels = []
    for cell in cells.flat:
        if "Segmentation" not in (cell.dtype.names or ()) or cell.size != 1:
            raise InputError(f"{str(file)!r} has an entry of groundTruth without one field Segmentation")
        human_labels.append(_checked(np.asarray(cell["Segmentation"].item()), file, shape))
    return human_labels


def _read_folder(file: Path, shape: Shape) -> list[LabelImage]:
    return [_checked(_decoded(read_labels, file, "a label image"), file, shape)]


def _read_wanted(file: Path, shape: Shape) -> list[LabelImage]:
    """What a person wanted who painted scribbles: their numbers, one at every pixel."""
    (labels,) = _read_folder(file, shape)
    if labels.min() < 1:
        raise InputError(f"{str(file)!r} must have a label of 1 or more at every pixel")
    return [labels]


def _read_seeds(file: Path, shape: Shape) -> LabelImage:
    """Scribbles, as int32."""
    if not os.path.isfile(file):
        raise InputError(f"{str(file)!r}, the scribbles, is missing")
    labels = _checked(_decoded(read_labels, file, "a label image"), file, shape)
    if labels.min() < 0 or not labels.any():
        raise InputError(f"{str(file)!r} must have scribbles of 1 or more, and 0 elsewhere")
    return labels


def _checked(labels: NDArray[Any], file: Path, shape: Shape) -> LabelImage:
    """Labels of the image's shape as int32, also from MATLAB's doubles; numbers too large for that are replaced."""
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
    """The one partition that a file's polygons make, numbered from 1 in the order of painting."""
    root = _decoded(_tree, file, "XML")
    lengths = (root.findtext(f"imagesize/{side}", "").strip() for side in ("nrows", "ncols"))
    size = tuple(int(length) for length in lengths if length.isdecimal())  # many files do not tell
    if len(shape) != 2 or (len(size) == 2 and size != shape):
        drawn_on = f"an image of shape {size}" if len(size) == 2 else "a flat image"
        raise InputError(f"{str(file)!r} has polygons for {drawn_on}, its image has the shape {shape}")
    objects = [entry for entry in root.iter("object") if entry.findtext("deleted", "").strip() != "1"]
    outlines = [outline for entry in objects for outline in entry.findall("polygon") if len(outline.findall("pt")) > 2]
    labels = np.zeros(shape, np.int32)
    # Of equal areas the later in the file is painted later: the sort is stable.
    for number, corners in enumerate(sorted((_corners(o, file) for o in outlines), key=_area, reverse=True), 1):
        labels[polygon(corners[:, 0], corners[:, 1], shape)] = number
    if not labels.any():
        raise InputError(f"{str(file)!r} has no polygon that covers a pixel of its image")
    return [labels]


def _corners(outline: ET.Element, file: Path) -> NDArray[np.float64]:
    """Corners of a polygon, row and column, shape (corners, 2); the file tells x, the column, first."""
    try:
        corners = np.array([[float(pt.findtext(axis, "")) for axis in "yx"] for pt in outline.findall("pt")])
    except ValueError:
        raise InputError(f"{str(file)!r} has a polygon with a corner that lacks a number x or y") from None
    if not (np.abs(corners) <= FARTHEST).all():  # false for NaN too
        raise InputError(f"{str(file)!r} has a polygon with a corner that is not finite or far outside of any image")
    return corners


def _area(corners: NDArray[np.float64]) -> float:
    """Area of a polygon by the shoelace formula.

    >>> _area(np.array([[0.0, 0.0], [0.0, 4.0], [3.0, 4.0]]))
    6.0
    """
    rows, columns = corners.T
    return float(abs(np.sum(rows * np.roll(columns, 1) - columns * np.roll(rows, 1))) / 2)


Reader = Callable[[Path, Shape], list[LabelImage]]
READERS: Mapping[str, Reader] = {
    "bsds": _read_bsds, "labelme": _read_labelme, "folder": _read_folder, "scribbles": _read_wanted,
}  # fmt: skip
