"""Segment an image together with painted ones, so that labels mean the same in all of them."""

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
    """Files of an image and of a label image with its scribbles, 0 elsewhere."""

    image: Path
    painted: Path

    def read(self, axes: str) -> tuple[NDArray[Any], NDArray[Any]]:
        """Read the image, with its axes in the order of `axes` where both are known, and the scribbles."""
        image, file_axes = read_image(self.image)
        painted = read_labels(self.painted)
        shape = select_channels(image, check_image(image, file_axes))[0].shape[:-1]
        if painted.shape != shape:
            raise InputError(
                f"{self.painted.name!r} must have the shape of {self.image.name!r}: {shape}, not {painted.shape}"
            )
        if not painted.any():
            raise InputError(f"nothing is painted in {self.painted.name!r}: every pixel is 0")
        if "auto" not in (axes, file_axes) and sorted(axes) == sorted(file_axes):
            image = image.transpose([file_axes.index(letter) for letter in axes.upper()])
        return image, painted


def make_references(images: Sequence[str], painted: Sequence[str]) -> tuple[ReferenceImage, ...]:
    """Pair the files of images with those of their scribbles."""
    if len(images) != len(painted):
        raise InputError(f"each --teach needs its --image: there are {len(painted)} --teach, but {len(images)} --image")
    return tuple(ReferenceImage(Path(i).absolute(), Path(p).absolute()) for i, p in zip(images, painted, strict=True))


def segment_with_references(
    file: Path, image: Any, settings: Settings, seed: int, references: Sequence[ReferenceImage], report: Report | None
) -> MethodResult:
    """Segment the image of a file together with painted images; if it is one of them, with its own scribbles."""
    if is_lazy(image):
        raise InputError("it is read in blocks, and shared labels are for images in memory; raise block_pixels")
    loaded = [(reference, *reference.read(settings.axes)) for reference in references]
    own = next((painted for reference, _, painted in loaded if os.path.samefile(reference.image, file)), None)
    others = [(other, painted) for reference, other, painted in loaded if not os.path.samefile(reference.image, file)]
    images = [np.asarray(image), *(other for other, _ in others)]
    shared = segment(images, settings, seed=seed, seeds=[own, *(painted for _, painted in others)], report=report)
    provenance = {k: v for k, v in shared.provenance.items() if k not in ("images", "given")}
    provenance |= {"image": shared.provenance["images"][0], "given": {}, "teachers": [_describe(*x) for x in loaded]}
    first = replace(shared[0], provenance=provenance)
    return MethodResult(first.labels, provenance, first)


def _describe(reference: ReferenceImage, image: NDArray[Any], painted: NDArray[Any]) -> dict[str, str]:
    return {
        "image": reference.image.name,
        "image_sha256": hash_array(image),
        "painted": reference.painted.name,
        "painted_sha256": hash_array(painted),
    }
