"""What was painted on one image, applied to another: the two are one problem with shared clusters."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from napari_gsw.core.errors import InputError
from napari_gsw.core.image.lazy import is_lazy
from napari_gsw.core.image.normalized_image import check_image, select_channels
from napari_gsw.core.pipeline.provenance import hash_array
from napari_gsw.core.pipeline.segment import segment
from napari_gsw.core.pipeline.stage import Report
from napari_gsw.core.posterior.result import MethodResult
from napari_gsw.core.settings import Settings
from napari_gsw.files.images import read_image, read_labels


class ReferenceImage(NamedTuple):
    """An image on which somebody has painted.

    Attributes
    ----------
    image : its file.
    painted : file of a label image of its shape: what was painted, 0 elsewhere.
    """

    image: Path
    painted: Path

    def read(self, axes: str) -> tuple[NDArray[Any], NDArray[Any]]:
        """The image, with its axes in the order of `axes` where both are known, and the paint."""
        image, own_axes = read_image(self.image)
        paint = read_labels(self.painted)
        shape = select_channels(image, check_image(image, own_axes))[0].shape[:-1]
        if paint.shape != shape:
            raise InputError(
                f"{self.painted.name!r} must have the shape of {self.image.name!r}: {shape}, not {paint.shape}"
            )
        if not paint.any():
            raise InputError(f"nothing is painted in {self.painted.name!r}: every pixel is 0")
        if "auto" not in (axes, own_axes) and sorted(axes) == sorted(own_axes):
            image = image.transpose([own_axes.index(letter) for letter in axes.upper()])
        return image, paint


def make_references(images: Sequence[str], painted: Sequence[str]) -> tuple[ReferenceImage, ...]:
    """Teachers from the files of images and, in the same order, of what was painted on them."""
    if len(images) != len(painted):
        raise InputError(f"what is painted needs its image: {len(painted)} --teach, but {len(images)} --image")
    return tuple(ReferenceImage(Path(i).absolute(), Path(p).absolute()) for i, p in zip(images, painted, strict=True))


def segment_with_references(
    file: Path, image: Any, settings: Settings, seed: int, teachers: Sequence[ReferenceImage], report: Report | None
) -> MethodResult:
    """Segment an image together with those on which somebody has painted.

    Parameters
    ----------
    file, image : the image and where it was read from; if it is itself a teacher, it is segmented with its own paint.
    settings, seed, report : as for :func:`napari_gsw.segment`.
    """
    if is_lazy(image):
        raise InputError("it is read in blocks, and shared labels are for images in memory; raise block_pixels")
    lessons = [(teacher, *teacher.read(settings.axes)) for teacher in teachers]
    own = next((paint for teacher, _, paint in lessons if os.path.samefile(teacher.image, file)), None)
    others = [lesson for lesson in lessons if not os.path.samefile(lesson[0].image, file)]
    images = [np.asarray(image), *(other for _, other, _ in others)]
    shared = segment(images, settings, seed=seed, seeds=[own, *(paint for _, _, paint in others)], report=report)
    record = {k: v for k, v in shared.provenance.items() if k not in ("images", "given")}
    looks = shared.provenance["images"]
    record |= {"image": looks[0], "given": {}, "teachers": [_named(*lesson) for lesson in lessons]}
    first = replace(shared[0], provenance=record)
    return MethodResult(first.labels, record, first)


def _named(teacher: ReferenceImage, image: NDArray[Any], paint: NDArray[Any]) -> dict[str, str]:
    """A teacher as the provenance names it."""
    return {
        "image": teacher.image.name,
        "image_sha256": hash_array(image),
        "painted": teacher.painted.name,
        "painted_sha256": hash_array(paint),
    }
