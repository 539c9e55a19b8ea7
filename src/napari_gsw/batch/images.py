"""The images of a batch: select them; read, segment and write each, alone or together with painted images.

:func:`segment_image` does all of it. A cluster runs it in steps, so that the chains of an image can run in different
places: :func:`prepare_image`, :func:`run_chain` for each chain, :func:`conclude_image`.
"""

from __future__ import annotations

import os
import socket
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatch
from functools import cache
from itertools import chain, count
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from napari_gsw.batch import interruption
from napari_gsw.batch.jobs import Record
from napari_gsw.core.errors import InputError
from napari_gsw.core.image.lazy import is_lazy
from napari_gsw.core.image.normalized_image import read_channels
from napari_gsw.core.model import priors
from napari_gsw.core.model.problem import Problem
from napari_gsw.core.pipeline.prepare import load_codebook, prepare
from napari_gsw.core.pipeline.provenance import describe_image, hash_array, make_provenance
from napari_gsw.core.pipeline.segment import ChainRun, combine_chains, list_codebook_arrays, sample_chain
from napari_gsw.core.pipeline.segment import segment as segment_by_gsw
from napari_gsw.core.pipeline.warm_up import warm_up
from napari_gsw.core.posterior.result import MethodResult, make_result
from napari_gsw.core.settings.declaration import file_paths
from napari_gsw.core.versions import package_version
from napari_gsw.files.images import find_map_file, is_zarr, open_map_file, read_image, read_labels
from napari_gsw.files.output_folder import PROVENANCE, base_name, output_folder, provenance_digest, sibling_name
from napari_gsw.files.results import SIBLING_FILES, OutputOptions, check_outputs, write_results
from napari_gsw.methods import METHODS, Choice, open_image_for, segment

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


class ReferenceImage(NamedTuple):
    """Files of an image and of a label image with its scribbles, 0 elsewhere."""

    image: Path
    painted: Path

    def read(self, axes: str) -> tuple[NDArray[Any], NDArray[Any]]:
        """Read the image, with its axes in the order of `axes` where both are known, and the scribbles."""
        image, file_axes = read_image(self.image)
        painted = read_labels(self.painted)
        shape = read_channels(image, file_axes)[0].shape[:-1]
        if painted.shape != shape:
            raise InputError(
                f"{self.painted.name!r} must have the shape of {self.image.name!r}: {shape}, not {painted.shape}"
            )
        if not painted.any():
            raise InputError(f"nothing is painted in {self.painted.name!r}: every pixel is 0")
        if "auto" not in (axes, file_axes) and sorted(axes) == sorted(file_axes):
            image = image.transpose([file_axes.index(letter) for letter in axes.upper()])
        return image, painted


@dataclass(frozen=True)
class BatchSpec:
    """Images, method and outputs of a batch."""

    image_folder: Path
    choice: Choice  # method and settings
    seed: int = 0  # of every image
    selection: Selection = field(default_factory=Selection)
    format: str = "tif"  # of the labels: tif, png or zarr
    extras: OutputOptions = field(default_factory=OutputOptions)
    teachers: tuple[ReferenceImage, ...] = ()  # painted images, with which every image is segmented together
    maps: Mapping[str, str] = field(default_factory=dict)  # files by name, with {stem} for the name of an image

    def __post_init__(self) -> None:
        method = self.choice.method
        if self.format not in LABEL_FORMATS:
            raise InputError(f"format must be one of {', '.join(LABEL_FORMATS)}, not {self.format!r}")
        if isinstance(self.seed, bool) or int(self.seed) != self.seed or self.seed < 0:
            raise InputError(f"seed must be a whole number >= 0, not {self.seed!r}")
        if METHODS[method].needs_seeds:
            raise InputError(f"{method} needs seeds, and a batch has none; segment the images one by one")
        if METHODS[method].samples:  # refuse once what is wrong with every image
            priors.make_prior(self.choice.settings)
            load_codebook(self.choice.settings)
        if self.teachers and method != "gsw":
            raise InputError(f"{method} cannot be taught; painted images are for the method gsw")
        for name, pattern in self.maps.items():
            if name not in METHODS[method].arrays:
                raise InputError(f"{method} takes no {name}")
            if "{stem}" not in pattern:
                raise InputError(f"{name} must name a file for each image, such as maps/{{stem}}.tif, not {pattern!r}")
        if self.maps and self.teachers:
            raise InputError("maps are for one image at a time, not for images that are segmented with a painted one")
        for teacher in self.teachers:
            teacher.read(self.choice.settings.axes)
        # Absolute paths, for processes that may run elsewhere.
        files = {name: os.path.abspath(file) for name, file in file_paths(self.choice.settings).items()}
        settings = self.choice.settings.replace(**files)
        object.__setattr__(self, "choice", replace(self.choice, settings=settings))
        object.__setattr__(self, "seed", int(self.seed))
        object.__setattr__(self, "maps", {name: os.path.abspath(file) for name, file in self.maps.items()})

    def make_task(self, image: BatchImage, output: Path, overwrite: bool = False) -> ImageTask:
        """Make the task of one image."""
        return ImageTask(self, image, Path(os.path.abspath(output)), overwrite, package_version())

    def list_files(self, image: BatchImage) -> tuple[Path, ...]:
        """List the files that are read for an image; it is segmented again when one of them has changed."""
        painted = (file for teacher in self.teachers for file in teacher)
        maps = map(find_map_file, self.map_files(image).values())
        return image.path, *map(Path, file_paths(self.choice.settings).values()), *painted, *maps

    def depends_on(self) -> dict[str, Any]:
        """Return everything else that the results depend on, ready for JSON."""
        return {
            "folder": os.path.realpath(self.image_folder),  # images are named by their paths within it
            "settings": {"axes": self.choice.settings.axes, **self.choice.to_dict()},
            "seed": self.seed,
            "format": self.format,
            "extras": vars(self.extras),
            **({"maps": dict(self.maps)} if self.maps else {}),
            **({"teachers": [list(map(str, teacher)) for teacher in self.teachers]} if self.teachers else {}),
        }

    def map_files(self, image: BatchImage) -> dict[str, Path]:
        """Return the files of the maps of an image by name."""
        return {name: Path(pattern.replace("{stem}", image.path.stem)) for name, pattern in self.maps.items()}


class ImageTask(NamedTuple):
    """Everything that a process needs to segment one image."""

    spec: BatchSpec
    image: BatchImage
    output: Path  # folder of all results, which exists
    overwrite: bool
    version: str  # of the package; another one could give other labels

    @property
    def stem(self) -> PurePosixPath:
        """Path of the labels within the output folder, without an ending."""
        return PurePosixPath(self.image.stem)

    def check(self) -> None:
        """Refuse a task whose results could not be written, as far as that shows without opening the image."""
        samples = METHODS[self.spec.choice.method].samples
        labels = self.output / f"{self.stem}.{self.spec.format}"
        check_outputs(labels, self.spec.extras, samples, overwrite=self.overwrite)

    def open(self) -> tuple[Any, Choice]:
        """Open the image, and complete the settings with its axes and spacing."""
        host = socket.gethostname()
        if package_version() != self.version:
            raise InputError(
                f"the worker on {host} has napari-gsw {package_version()}, not {self.version}; "
                'install the same everywhere: pip install "napari-gsw[batch]"'
            )
        if not os.path.isdir(self.output):
            raise InputError(
                f"the worker on {host} does not see the output folder {str(self.output)!r}; "
                "all workers need the same file system"
            )
        image, axes = open_image_for(self.image.path, self.spec.choice)
        return image, self.spec.choice.with_axes(axes, self.image.path)

    def has_separable_chains(self) -> bool:
        """Return whether the chains can run in different places; images that may be read in blocks stay in one."""
        choice = self.spec.choice
        is_plain = not self.spec.teachers and not self.spec.maps and not is_zarr(self.image.path)
        # Chains that end by agreement have to be compared meanwhile.
        is_independent = choice.settings.chains > 1 and choice.settings.stop != "agreement"
        return choice.method == "gsw" and is_independent and is_plain


# A prepared image, the settings with its axes, and the seconds that it took.
PreparedImage = tuple[Problem, Choice, float]
# Compiles or loads the kernels once in a process, so that no image's time includes it.
_warm_up_once = cache(warm_up)


def segment_image(task: ImageTask) -> Record:
    """Read, segment and write one image."""
    if METHODS[task.spec.choice.method].samples:
        _warm_up_once()
    began = time.perf_counter()
    image, choice = task.open()
    if task.spec.teachers:
        outcome = _segment_with_references(task, image, choice)
    else:
        maps = {name: open_map_file(file, is_lazy(image)) for name, file in task.spec.map_files(task.image).items()}
        outcome = segment(image, choice, task.spec.seed, report=interruption.raise_if_interrupted, **maps)
    return _write_image(task, image, choice, outcome, began)


def _segment_with_references(task: ImageTask, image: Any, choice: Choice) -> MethodResult:
    """Segment an image together with painted ones; if it is one of them, with its own scribbles."""
    if is_lazy(image):
        raise InputError("it is read in blocks, and shared labels are for images in memory; raise block_pixels")
    images, described = [np.asarray(image)], []
    seeds: list[NDArray[Any] | None] = [None]
    for reference in task.spec.teachers:
        other, painted = reference.read(choice.settings.axes)
        if not os.path.samefile(reference.image, task.image.path):
            images.append(other)
            seeds.append(painted)
        elif seeds[0] is None:
            seeds[0] = painted
        files = {"image": reference.image.name, "image_sha256": hash_array(other)}
        described.append({**files, "painted": reference.painted.name, "painted_sha256": hash_array(painted)})
    report = interruption.raise_if_interrupted
    shared = segment_by_gsw(images, choice.settings, seed=task.spec.seed, seeds=seeds, report=report)
    provenance = {k: v for k, v in shared.provenance.items() if k not in ("images", "given")}
    provenance |= {"image": shared.provenance["images"][0], "given": {}, "teachers": described}
    first = replace(shared[0], provenance=provenance)
    return MethodResult(first.labels, provenance, first)


def prepare_image(task: ImageTask) -> PreparedImage:
    """Read an image and prepare the problem that its chains sample."""
    _warm_up_once()
    began = time.perf_counter()
    image, choice = task.open()
    problem = prepare(image, choice.settings, codebook=load_codebook(choice.settings))
    return problem, choice, time.perf_counter() - began


def run_chain(task: ImageTask, prepared: PreparedImage, number: int) -> tuple[ChainRun, float]:
    """Run one of the chains; returns it and the seconds that it took."""
    _warm_up_once()
    began = time.perf_counter()
    problem, choice, _ = prepared
    return sample_chain(problem, choice.settings, task.spec.seed, number), time.perf_counter() - began


def conclude_image(task: ImageTask, prepared: PreparedImage, *runs: tuple[ChainRun, float]) -> Record:
    """Combine the chains and write the result; the time is that of the slowest chain."""
    problem, choice, seconds = prepared
    began = time.perf_counter() - seconds - max(seconds for _, seconds in runs)
    image, _ = task.open()
    summary = combine_chains(problem, choice.settings, [run for run, _ in runs])
    codebook = list_codebook_arrays(load_codebook(choice.settings))
    result = make_result(summary, make_provenance(describe_image(image), summary, task.spec.seed, codebook))
    return _write_image(task, image, choice, MethodResult(result.labels, result.provenance, result), began)


def has_all_files(output: Path, record: Record) -> bool:
    """Return whether all files of a record are in the output folder and still belong to it."""
    try:
        (provenance,) = (file for file in record["files"] if file.endswith(PROVENANCE))
        is_complete = all(os.path.exists(output / file) for file in record["files"])
        return is_complete and provenance_digest(output / provenance) == record["provenance"]
    except (KeyError, TypeError, ValueError, OSError):
        return False


def _write_image(task: ImageTask, image: Any, choice: Choice, outcome: MethodResult, began: float) -> Record:
    """Write all files of an image, or none, and return its record."""
    stem, in_blocks, result = task.stem, is_lazy(image), outcome.result
    folder = task.output / stem.parent
    name = f"{stem.name}.{'zarr' if in_blocks else task.spec.format}"
    manifest = sibling_name(name, PROVENANCE)
    geometry = choice.read_geometry(task.image.path)
    with output_folder(folder, manifest, task.overwrite) as scratch:
        remarks = write_results(image, choice.settings.axes, outcome, scratch, name, task.spec.extras, geometry)
        if in_blocks and task.spec.format != "zarr":
            remarks.append(f"read in blocks: written as {name}")
        files = sorted(file.name for file in scratch.iterdir())
    return {
        "regions": int(outcome.provenance["regions"]) if result is None else result.n_regions,
        "clusters": None if result is None else result.n_clusters,
        "sites": None if result is None else result.n_sites,
        "best_log_posterior": None if result is None else result.snapshot.best.log_posterior,
        "seconds": round(time.perf_counter() - began, 3),
        "labels": str(stem.with_name(name if name in files else f"{stem.name}.tif")),  # PNG does not hold all
        "remarks": "; ".join(remarks),
        "files": [str(stem.with_name(file)) for file in files],
        "provenance": provenance_digest(folder / manifest),
    }
