"""One comparison of segmentations in the background: of which layers, whether they fit, and how they agree."""

from __future__ import annotations

import functools
import logging
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from napari.layers import Labels
from numpy.typing import NDArray

from napari_gsw.core.errors import InputError
from napari_gsw.evaluation.instance_scores import (
    ObjectCounts,
    instance_measures,
    object_counts,
    unmatched,
    with_background,
)
from napari_gsw.evaluation.partition_scores import Scores, disagreement, scores
from napari_gsw.widgets.kit.worker import make_worker
from napari_gsw.widgets.layers.kinds import IMAGE_NAME, kind_of

# Where a layer lies in the world; the difference lies where the segmentation does.
SPACE = ("scale", "translate", "rotate", "shear", "affine", "units", "axis_labels")


class ComparisonResult(NamedTuple):
    """Figures and picture of a comparison.

    Attributes
    ----------
    rows : one for each reference, and one for all if there are several.
    difference : share of the references that disagree at each pixel, of the segmentation's shape.
    object_rows : how well objects came out, by the names of
        :data:`~napari_gsw.evaluation.instance_scores.INSTANCE_MEASURES`, in the order of `rows`; empty if no reference
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
        self._arrays = [_still(layer) for layer in self.layers]
        self.worker = make_worker(self._run)

    def title(self, kind: str) -> str:
        """What the layer is called that shows where they differ, or which objects are missed or false."""
        many = len(self.references)
        return f"{self.name} vs {self.references[0] if many == 1 else f'{many} references'} [{kind}]"

    @property
    def caption(self) -> str:
        """What stands above the figures."""
        return f"{self.name} against {self.references[0] if len(self.references) == 1 else 'each reference'}:"

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

    def _compare(self) -> ComparisonResult:
        self._report("reading the layers")
        labels, *references = (np.asarray(array) for array in self._arrays)
        for name, reference in zip(self.references, references, strict=True):
            if self._options["ignore_background"] and not reference.any():
                raise InputError(f"{name!r} has the label 0 everywhere; untick 'Ignore background' or choose another")
        rows = scores(labels, references, tolerance=self._tolerance, report=self._report, **self._options)
        difference = disagreement(labels, references, report=self._report, **self._options)
        if self._options["ignore_background"] or not any((reference == 0).any() for reference in references):
            return ComparisonResult(rows, difference, [])
        self._report("objects")
        objects = with_background(labels)
        counts = [object_counts(objects, reference) for reference in references]
        if len(counts) > 1:
            counts.append(functools.reduce(ObjectCounts.plus, counts))
        return ComparisonResult(
            rows, difference, [instance_measures(one) for one in counts], *unmatched(objects, references)
        )

    def _report(self, step: str) -> None:
        if self.worker.abort_requested:
            raise ComparisonStopped
        self.step = step


def natural_segmentation(layers: Sequence[Labels], active: object) -> Labels | None:
    """The layer that a person most likely wants to judge.

    A result of GSW, the active or else the topmost one; else the active or topmost layer that is no truth.

    Parameters
    ----------
    layers : topmost first.
    """
    ours = [layer for layer in layers if kind_of(layer) == "segmentation"]
    other = [layer for layer in layers if not _is_truth(layer)]
    for candidates in (ours, other, layers):
        for layer in candidates:
            if layer == active:
                return layer
        if candidates:
            return candidates[0]
    return None


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
