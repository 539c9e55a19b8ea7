"""A comparison of segmentations in the background, and the choice of the layers to compare."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np
from napari.layers import Labels
from numpy.typing import NDArray

from napari_gsw.core.errors import InputError
from napari_gsw.scores.objects import (
    compute_object_measures,
    count_matches,
    find_unmatched,
    mark_background,
    pool_counts,
)
from napari_gsw.scores.partitions import Scores, compute_disagreement, compute_scores
from napari_gsw.widgets.common.worker import make_worker
from napari_gsw.widgets.layers.layer_metadata import IMAGE_NAME, SLICED_ALONG, Kind, get_layer_kind, get_placement


class ComparisonStopped(Exception):
    """Raised when the worker was asked to end."""


class Comparison:
    """A comparison in a worker, whose scores are here when it has returned; it returns a sentence if it has failed.

    Nothing is raised out of the worker: napari loses a RuntimeError of some workers, and announces other exceptions
    itself, beside the sentence in the panel. `step` says what is being done now.
    """

    def __init__(
        self, segmentation: Labels, references: Sequence[Labels], tolerance: float | None, ignore_background: bool
    ) -> None:
        self.layers = [segmentation, *references]
        self.name = segmentation.name
        self.references = [layer.name for layer in references]
        self.placement = get_placement(segmentation)
        self.ids = [str(layer.unique_id) for layer in self.layers]
        self.step = ""
        self._tolerance, self._ignores_background = tolerance, ignore_background
        self._sliced_along = segmentation.metadata.get(SLICED_ALONG, ())
        is_one = len(references) == 1
        self.title = f"{self.name} vs {self.references[0] if is_one else f'{len(references)} references'}"
        slices = ", slice by slice" if self._sliced_along else ""
        self.caption = f"{self.name} against {self.references[0] if is_one else 'each reference'}{slices}:"
        self.rows: list[Scores] = []  # one for each reference, and one for all if there are several
        self.object_rows: list[dict[str, float]] = []  # of objects; empty if no reference has a background, 0
        # The fraction of the references that disagree at each pixel; the objects without a match.
        self.images: dict[Kind, NDArray[Any] | None] = {"difference": None, "missed": None, "false": None}
        # The pixels as they are now; those on a disk or yet to be computed are left to the worker.
        self._arrays = [x.data.copy() if type(x.data) is np.ndarray else x.data for x in self.layers]
        self.worker = make_worker(self._run)

    def _run(self) -> str | None:
        try:
            self._compare()
        except ComparisonStopped:
            pass
        except InputError as reason:
            return str(reason)
        except Exception as reason:
            logging.getLogger(__name__).exception("a comparison failed")
            return (str(reason) or type(reason).__name__).splitlines()[0]
        finally:
            self._arrays.clear()  # napari keeps a worker as long as its window
        return None

    def _compare(self) -> None:
        self._report("reading the layers")
        labels, *references = (np.asarray(array) for array in self._arrays)
        options: dict[str, Any] = {"ignore_background": self._ignores_background, "report": self._report}
        for name, reference in zip(self.references, references, strict=True):
            if self._ignores_background and not reference.any():
                raise InputError(f"{name!r} has the label 0 everywhere; untick 'Ignore background' or choose another")
        has_objects = not self._ignores_background and any((reference == 0).any() for reference in references)
        missed, false = np.zeros(labels.shape, np.result_type(*references)), np.zeros_like(labels)
        difference = np.zeros(labels.shape, np.float32)
        # Scores of each part by reference, and of all references together if there are several.
        rows: list[list[Scores]] = [[] for _ in range(len(references) + (len(references) > 1))]
        counts: list[list[dict[str, float]]] = []
        ranges: list[Any] = [
            range(n) if axis in self._sliced_along else (slice(None),) for axis, n in enumerate(labels.shape)
        ]
        for index in product(*ranges):
            part, truths = labels[index], [reference[index] for reference in references]
            labelled = [k for k, truth in enumerate(truths) if not self._ignores_background or truth.any()]
            if labelled and (part.any() or not self._sliced_along):  # else not segmented, or without a truth
                known = [truths[k] for k in labelled]
                scores = compute_scores(part, known, tolerance=self._tolerance, **options)
                for k, row in zip(labelled, scores, strict=False):
                    rows[k].append(row)
                if len(references) > 1:
                    rows[-1].append(scores[-1])
                difference[index] = compute_disagreement(part, known, **options)
            if has_objects:
                self._report("objects")
                objects = mark_background(part)
                counts.append([count_matches(objects, truth) for truth in truths])
                missed[index], false[index] = find_unmatched(objects, truths)
        if not all(rows):
            raise InputError(f"no slice of {self.name!r} has labels where a reference has; choose others")
        if has_objects:
            pooled = [pool_counts(of_parts) for of_parts in zip(*counts, strict=True)]
            pooled += [pool_counts(pooled)] if len(pooled) > 1 else []
            self.object_rows = [compute_object_measures(x) for x in pooled]
            self.images |= {"missed": missed, "false": false}
        self.images["difference"] = difference
        self.rows = [Scores(*np.mean(scores, axis=0).tolist()) for scores in rows]

    def _report(self, step: str) -> None:
        if self.worker.abort_requested:
            raise ComparisonStopped
        self.step = step


def guess_segmentation(layers: Sequence[Labels], active: Any) -> Labels | None:
    """Return the layer that the user probably wants to evaluate.

    This is a result of GSW, of the image of the active layer or else the topmost: the regions if they are visible, for
    those are exported then, or else the clusters. Without a result it is the active or topmost layer that is no truth.
    The layers are topmost first.
    """
    regions = [layer for layer in layers if get_layer_kind(layer) == "regions" and layer.visible]
    results = [*regions, *(layer for layer in layers if get_layer_kind(layer) == "segmentation")]
    if results:
        images = [layer.metadata.get(IMAGE_NAME) for layer in results if layer is active]
        return next((layer for layer in results if layer.metadata.get(IMAGE_NAME) in images), results[0])
    candidates = [layer for layer in layers if not _is_truth(layer)] or list(layers)
    return next((layer for layer in candidates if layer is active), candidates[0] if candidates else None)


def guess_references(segmentation: Labels | None, others: Sequence[Labels]) -> list[Labels]:
    """Return the layers that the user probably wants to compare with.

    These are layers named truth of the same shape, preferably with the name of the image; without one, the topmost
    other layer, preferably of the same shape.
    """
    if segmentation is None or not others:
        return []
    fitting = [layer for layer in others if layer.data.shape == segmentation.data.shape]
    truths = [layer for layer in fitting if _is_truth(layer)]
    image = segmentation.metadata.get(IMAGE_NAME, segmentation.name.split(" [")[0])
    return [layer for layer in truths if image in layer.name] or truths or fitting[:1] or list(others[:1])


def _is_truth(layer: Labels) -> bool:
    return "truth" in layer.name.lower()


def explain_mismatch(segmentation: Labels, references: Sequence[Labels]) -> str | None:
    """Return why layers cannot be compared, or None."""
    for layer in (segmentation, *references):
        if layer.multiscale:
            return f"{layer.name!r} is a pyramid; extract one of its levels to compare it."
    shape = tuple(segmentation.data.shape)
    others = [layer for layer in references if tuple(layer.data.shape) != shape]
    if others:
        shapes = ", ".join(f"{layer.name!r} is {format_shape(layer.data.shape)}" for layer in (segmentation, *others))
        return f"The shapes differ: {shapes}; choose layers of one shape."
    if 0 in shape:
        return f"{segmentation.name!r} has no pixel; choose another layer."
    return None


def compared_shape(segmentation: Labels) -> tuple[int, ...]:
    """Return the shape of what is compared in one piece: slices, if each was segmented by itself."""
    axes = segmentation.metadata.get(SLICED_ALONG, ())
    return tuple(n for axis, n in enumerate(segmentation.data.shape) if axis not in axes)


def format_shape(shape: Sequence[int]) -> str:
    """Return a shape as text, such as 240 x 320."""
    return " x ".join(map(str, shape))
