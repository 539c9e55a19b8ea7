"""How well the boundaries of two segmentations agree: the F measure of boundary pixels within a tolerance."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import ndimage

from napari_gsw.core.arrays import Mask
from napari_gsw.core.errors import InputError

# Of the image's diagonal.
BOUNDARY_TOLERANCE = 0.0075


def boundary_f(
    segmentation: ArrayLike,
    humans: ArrayLike | Sequence[ArrayLike],
    tolerance: float | None = None,
    where: ArrayLike | None = None,
) -> float:
    """F measure of boundary pixels, matched within a tolerance.

    Precision: the share of the segmentation's boundary near any human's; recall: the share of a human's
    boundary near the segmentation's, averaged over humans. Nearness is a distance, not the one-to-one matching of
    the Berkeley benchmark, which makes the figure a little higher.

    Parameters
    ----------
    segmentation : label image of any number of dimensions.
    humans : one label image of the same shape, or a list of them.
    tolerance : in pixels; None takes 0.75 % of the image's diagonal.
    where : pixels to compare, bool of the same shape; a boundary to a pixel outside is none.
    """
    labels = np.asarray(segmentation)
    references = [np.asarray(h) for h in (humans if isinstance(humans, (list, tuple)) else [humans])]
    if not references:
        raise InputError("the boundary measure needs at least one human segmentation")
    if any(reference.shape != labels.shape for reference in references):
        raise InputError(f"all segmentations must have the shape {labels.shape}")
    boundaries = Boundaries(labels, tolerance)
    for reference in references:
        boundaries.add(reference, None if where is None else np.asarray(where, dtype=bool))
    return boundaries.f()


def default_tolerance(shape: Sequence[int]) -> float:
    """Distance in pixels within which boundaries match, if nobody says otherwise: 0.75 % of the diagonal."""
    return BOUNDARY_TOLERANCE * float(np.linalg.norm(shape))


class Boundaries:
    """Precision and recall of a segmentation's boundary, one reference at a time.

    The distance to any of several boundaries is the least of the distances, so what lies near any reference is the
    union of what lies near each, and no distance is computed twice.

    Parameters
    ----------
    labels : label image of the segmentation.
    tolerance : in pixels; None takes 0.75 % of the image's diagonal.
    """

    def __init__(self, labels: NDArray[np.generic], tolerance: float | None) -> None:
        if tolerance is not None and not tolerance >= 0:
            raise InputError(f"the boundary tolerance must be 0 pixels or more, not {tolerance}")
        self._labels = labels
        self._tolerance = default_tolerance(labels.shape) if tolerance is None else tolerance
        self._unmasked: tuple[Mask, Mask] | None = None
        self._edge = np.zeros(labels.shape, bool)
        self._near = np.zeros(labels.shape, bool)
        self._recalls: list[float] = []

    def add(self, reference: NDArray[np.generic], where: Mask | None) -> float:
        """Take in a reference, and return the F measure against it alone.

        Parameters
        ----------
        reference : label image of the segmentation's shape.
        where : pixels to compare, bool of the same shape; None for all.
        """
        reference_edge = edge_of(reference, where)
        own_edge, near_own = self._own_edge(where)
        near_reference = pixels_near(reference_edge, self._tolerance)
        self._edge |= own_edge
        self._near |= near_reference
        self._recalls.append(_share(near_own, reference_edge))
        return _f(_share(near_reference, own_edge), self._recalls[-1])

    def f(self) -> float:
        """The F measure against all references so far."""
        return _f(_share(self._near, self._edge), float(np.mean(self._recalls)))

    def _own_edge(self, where: Mask | None) -> tuple[Mask, Mask]:
        """The segmentation's boundary, and what is near it; without a mask they are the same for every reference."""
        if where is None and self._unmasked is not None:
            return self._unmasked
        edge = edge_of(self._labels, where)
        edge_and_near = edge, pixels_near(edge, self._tolerance)
        if where is None:
            self._unmasked = edge_and_near
        return edge_and_near


def edge_of(labels: NDArray[np.generic], where: Mask | None = None) -> Mask:
    """Pixels whose next neighbour along some axis has another label: boundaries one pixel wide.

    Parameters
    ----------
    labels : label image of any number of dimensions.
    where : pixels that count, bool of the same shape; None for all.

    Returns
    -------
    bool of the same shape.
    """
    edge = np.zeros(labels.shape, bool)
    for axis in range(labels.ndim):
        along = np.moveaxis(labels, axis, 0)
        change = along[:-1] != along[1:]
        if where is not None:
            inside = np.moveaxis(where, axis, 0)
            change &= inside[:-1] & inside[1:]
        np.moveaxis(edge, axis, 0)[:-1] |= change
    return edge


def pixels_near(edge: Mask, tolerance: float) -> Mask:
    """Pixels within a distance of the pixels of an edge; bool of the same shape."""
    if not edge.any():
        return np.zeros(edge.shape, bool)
    within: Mask = ndimage.distance_transform_edt(~edge) <= tolerance
    return within


def _share(matched: Mask, edge: Mask) -> float:
    """Share of an edge's pixels that are matched; 1 if there are none to match."""
    return float(matched[edge].mean()) if edge.any() else 1.0


def _f(precision: float, recall: float) -> float:
    return 0.0 if precision + recall == 0 else 2 * precision * recall / (precision + recall)
