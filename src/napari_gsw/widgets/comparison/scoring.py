"""One comparison of segmentations in the background: of which layers, whether they fit, and how they agree."""

from __future__ import annotations

import functools
import logging
from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from napari.layers import Labels
from numpy.typing import NDArray

from napari_gsw.core.errors import InputError
from napari_gsw.scores.objects import (
    ObjectCounts,
    compute_object_measures,
    count_matches,
    find_unmatched,
    mark_background,
)
from napari_gsw.scores.partitions import Scores, compute_disagreement, compute_scores
from napari_gsw.widgets.common.worker import make_worker
from napari_gsw.widgets.layers.layer_metadata import IMAGE_NAME, SLICED_ALONG, get_layer_kind

# Where a layer lies in the world; the difference lies where the segmentation does.
SPACE = ("scale", "translate", "rotate", "shear", "affine", "units", "axis_labels")


class ComparisonResult(NamedTuple):
    """Figures and picture of a comparison.

    Attributes
    ----------
    rows : one for each reference, and one for all if there are several.
    difference : share of the references that disagree at each pixel, of the segmentation's shape.
    object_rows : how well objects came out, by the names of
        :data:`~napari_gsw.scores.objects.INSTANCE_MEASURES`, in the order of `rows`; empty if no reference
        has a background, 0, that objects could lie on.
    missed, false : label images of the objects without a match; None where `object_rows` is empty.
    """

    rows: list[Scores]
    difference: NDArray[np.float32]
    object_rows: list[dict[str, float]]
    missed: NDArray[Any] | None = None
    false: NDArray[Any] | None = None


class ComparisonFailure(NamedTuple):
    """Why there is no result, in one sentence."""

    reason: str


class ComparisonStopped(Exception):
    """Somebody asked the worker to end."""


class Comparison:
    """One comparison in the background. Of all that belongs to the panel, this alone leaves the GUI thread.

    Nothing is raised out of the worker: napari loses a RuntimeError of some workers, and announces other exceptions on
    its own, beside the panel's one sentence.

    Attributes
    ----------
    step : what is being done now.
    worker : napari's worker; it returns a :class:`ComparisonResult` or a :class:`ComparisonFailure`.
    """

    def __init__(
        self, segmentation: Labels, references: Sequence[Labels], tolerance: float | None, ignore_background: bool
    ) -> None:
        self.layers = [segmentation, *references]
        self.name = segmentation.name
        self.references = [layer.name for layer in references]
        self.space = space(segmentation)
        self.ids = [str(layer.unique_id) for layer in self.layers]
        self.step = ""
        self._options = {"ignore_background": ignore_background}
        self._tolerance = tolerance
        # Axes of the arrays along which the labels of the segmentation mean nothing.
        self._sliced_along = sliced_along(segmentation)
        self._arrays = [_still(layer) for layer in self.layers]
        self.worker = make_worker(self._run)

    def title(self, kind: str) -> str:
        """What the layer is called that shows where they differ, or which objects are missed or false."""
        many = len(self.references)
        return f"{self.name} vs {self.references[0] if many == 1 else f'{many} references'} [{kind}]"

    def _run(self) -> ComparisonResult | ComparisonFailure | None:
        try:
            return self._compare()
        except ComparisonStopped:
            return None
        except InputError as reason:
            return ComparisonFailure(str(reason))
        except Exception as reason:
            logging.getLogger(__name__).exception("a comparison failed")
            return ComparisonFailure((str(reason) or type(reason).__name__).splitlines()[0])
        finally:
            # napari keeps a worker as long as its window, so the pixels must not hang on it.
            self._arrays.clear()

    @property
    def caption(self) -> str:
        """What stands above the figures."""
        slices = ", slice by slice" if self._sliced_along else ""
        against = self.references[0] if len(self.references) == 1 else "each reference"
        return f"{self.name} against {against}{slices}:"

    def _compare(self) -> ComparisonResult:
        self._report("reading the layers")
        labels, *references = (np.asarray(array) for array in self._arrays)
        for name, reference in zip(self.references, references, strict=True):
            if self._options["ignore_background"] and not reference.any():
                raise InputError(f"{name!r} has the label 0 everywhere; untick 'Ignore background' or choose another")
        has_objects = not self._options["ignore_background"] and any((one == 0).any() for one in references)
        missed, false = np.zeros(labels.shape, np.result_type(*references)), np.zeros_like(labels)
        difference = np.zeros(labels.shape, np.float32)
        # Of each reference, and of all together if there are several: figures of each part.
        rows: list[list[Scores]] = [[] for _ in range(len(references) + (len(references) > 1))]
        counts: list[list[ObjectCounts]] = []
        for part in parts(labels.shape, self._sliced_along):
            here, truths = labels[part], [one[part] for one in references]
            known = [k for k, truth in enumerate(truths) if not self._options["ignore_background"] or truth.any()]
            if known and (here.any() or not self._sliced_along):  # else it was never segmented, or nobody knows better
                some, reach = [truths[k] for k in known], self._tolerance
                figures = compute_scores(here, some, tolerance=reach, report=self._report, **self._options)
                for k, row in zip(known, figures, strict=False):
                    rows[k].append(row)
                if len(references) > 1:
                    rows[-1].append(figures[-1])
                difference[part] = compute_disagreement(here, some, report=self._report, **self._options)
            if has_objects:
                self._report("objects")
                objects = mark_background(here)
                counts.append([count_matches(objects, truth) for truth in truths])
                missed[part], false[part] = find_unmatched(objects, truths)
        if not all(rows):
            raise InputError(f"no slice of {self.name!r} has labels where a reference has; choose others")
        mean = [Scores(*np.mean(several, axis=0).tolist()) for several in rows]
        if not has_objects:
            return ComparisonResult(mean, difference, [])
        pooled = [functools.reduce(ObjectCounts.plus, several) for several in zip(*counts, strict=True)]
        if len(pooled) > 1:
            pooled.append(functools.reduce(ObjectCounts.plus, pooled))
        return ComparisonResult(mean, difference, [compute_object_measures(one) for one in pooled], missed, false)

    def _report(self, step: str) -> None:
        if self.worker.abort_requested:
            raise ComparisonStopped
        self.step = step


def natural_segmentation(layers: Sequence[Labels], active: object) -> Labels | None:
    """The layer that a person most likely wants to judge.

    A result of GSW, of the image of the active layer or else the topmost: the regions if they are on the screen, for
    those are what is exported then, or else the clusters. Without one the active or topmost layer that is no truth.

    Parameters
    ----------
    layers : topmost first.
    """
    regions = [layer for layer in layers if get_layer_kind(layer) == "regions" and layer.visible]
    ours = [*regions, *(layer for layer in layers if get_layer_kind(layer) == "segmentation")]
    images = [one.metadata.get(IMAGE_NAME) for one in ours if one == active]
    if ours:
        return next((one for one in ours if one.metadata.get(IMAGE_NAME) in images), ours[0])
    other = [layer for layer in layers if not _is_truth(layer)]
    for candidates in (other, layers):
        for layer in candidates:
            if layer == active:
                return layer
        if candidates:
            return candidates[0]
    return None


def sliced_along(segmentation: Labels) -> tuple[int, ...]:
    """Axes of a layer along which each slice was segmented by itself."""
    return tuple(segmentation.metadata.get(SLICED_ALONG, ()))


def compared_shape(segmentation: Labels) -> tuple[int, ...]:
    """Shape of what is compared in one piece."""
    along = sliced_along(segmentation)
    return tuple(n for axis, n in enumerate(segmentation.data.shape) if axis not in along)


def parts(shape: Sequence[int], sliced_along: Sequence[int]) -> Iterator[tuple[Any, ...]]:
    """Indices of what is compared by itself: each slice along some axes of an array, or all of it.

    >>> [part for part in parts((2, 5, 7), [0])]
    [(0, slice(None, None, None), slice(None, None, None)), (1, slice(None, None, None), slice(None, None, None))]
    """
    everything = slice(None)
    return product(*(range(n) if axis in sliced_along else (everything,) for axis, n in enumerate(shape)))


def natural_references(segmentation: Labels | None, others: Sequence[Labels]) -> list[Labels]:
    """The layers that a person most likely wants to compare with.

    What is called a truth and has the shape of the segmentation, preferably the one that has its image's name too;
    without a truth the next layer, preferably of that shape.

    Parameters
    ----------
    others : all other layers, topmost first.
    """
    if segmentation is None or not others:
        return []
    fitting = [layer for layer in others if layer.data.shape == segmentation.data.shape]
    truths = [layer for layer in fitting if _is_truth(layer)]
    image = segmentation.metadata.get(IMAGE_NAME, segmentation.name.split(" [")[0])
    return [layer for layer in truths if image in layer.name] or truths or fitting[:1] or list(others[:1])


def obstacle(segmentation: Labels, references: Sequence[Labels]) -> str | None:
    """Why these layers cannot be compared, or None."""
    for layer in (segmentation, *references):
        if layer.multiscale:
            return f"{layer.name!r} is a pyramid; extract one of its levels to compare it."
    shape = tuple(segmentation.data.shape)
    other = [layer for layer in references if tuple(layer.data.shape) != shape]
    if other:
        shapes = ", ".join(f"{layer.name!r} is {size(layer.data.shape)}" for layer in (segmentation, *other))
        return f"The shapes differ: {shapes}; choose layers of one shape."
    if 0 in shape:
        return f"{segmentation.name!r} has no pixel; choose another layer."
    return None


def space(layer: Any) -> dict[str, Any]:
    """Where a layer lies in the world, as its constructor takes it."""
    return {key: layer.affine.affine_matrix if key == "affine" else getattr(layer, key) for key in SPACE}


def place(layer: Any, where: dict[str, Any]) -> None:
    """Put a layer where :func:`space` says, and touch nothing that is so already."""
    for key, value in space(layer).items():
        if not np.array_equal(value, where[key]):
            setattr(layer, key, where[key])


def size(shape: Sequence[int]) -> str:
    """A shape as a person reads it.

    >>> size((240, 320))
    '240 x 320'
    """
    return " x ".join(str(length) for length in shape)


def _is_truth(layer: Labels) -> bool:
    return "truth" in layer.name.lower()


def _still(layer: Labels) -> Any:
    """The pixels of a layer as they are now; what is on a disk or yet to be computed is left to the worker."""
    return layer.data.copy() if type(layer.data) is np.ndarray else layer.data
