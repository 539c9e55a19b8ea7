"""How well the boundaries of two segmentations agree: the F measure of boundary pixels within a tolerance."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import ndimage

from napari_gsw.core.arrays import Mask
from napari_gsw.core.errors import InputError

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
    humans : one label image, or a list of them.
    tolerance : in pixels; None takes 0.75 % of the image's diagonal.
    where : pixels to compare; a boundary to a pixel outside is none.
    """
    found = np.asarray(segmentation)
    many = [np.asarray(h) for h in (humans if isinstance(humans, (list, tuple)) else [humans])]
    if not many:
        raise InputError("the boundary measure needs at least one human segmentation")
    if any(h.shape != found.shape for h in many):
        raise InputError(f"all segmentations must have the shape {found.shape}")
    edges = Boundaries(found, tolerance)
    for human in many:
        edges.add(human, None if where is None else np.asarray(where, dtype=bool))
    return edges.f()


def default_tolerance(shape: Sequence[int]) -> float:
    """Distance in pixels within which boundaries match, if nobody says otherwise: 0.75 % of the diagonal."""
    return BOUNDARY_TOLERANCE * float(np.linalg.norm(shape))


class Boundaries:
    """Precision and recall of a segmentation's boundary, one reference at a time.

    The distance to any of several boundaries is the least of the distances, so what lies near any reference is the
    union of what lies near each, and no distance is computed twice.
    """

    def __init__(self, found: NDArray[np.generic], tolerance: float | None) -> None:
        if tolerance is not None and not tolerance >= 0:
            raise InputError(f"the boundary tolerance must be 0 pixels or more, not {tolerance}")
        self._found = found
        self._reach = default_tolerance(found.shape) if tolerance is None else tolerance
        self._whole: tuple[Mask, Mask] | None = None
        self._edge = np.zeros(found.shape, bool)
        self._near = np.zeros(found.shape, bool)
        self._recalls: list[float] = []

    def add(self, reference: NDArray[np.generic], where: Mask | None) -> float:
        """Take in a reference, and return the F measure against it alone."""
        theirs = edge_of(reference, where)
        ours, near_ours = self._own(where)
        near_theirs = reached(theirs, self._reach)
        self._edge |= ours
        self._near |= near_theirs
        self._recalls.append(_share(near_ours, theirs))
        return _f(_share(near_theirs, ours), self._recalls[-1])

    def f(self) -> float:
        """The F measure against all references so far."""
        return _f(_share(self._near, self._edge), float(np.mean(self._recalls)))

    def _own(self, where: Mask | None) -> tuple[Mask, Mask]:
        """The segmentation's boundary, and what is near it; without a mask they are the same for every reference."""
        if where is None and self._whole is not None:
            return self._whole
        edge = edge_of(self._found, where)
        both = edge, reached(edge, self._reach)
        if where is None:
            self._whole = both
        return both


def edge_of(labels: NDArray[np.generic], where: Mask | None = None) -> Mask:
    """Pixels whose next neighbour along some axis has another label: boundaries one pixel wide."""
    edge = np.zeros(labels.shape, bool)
    for axis in range(labels.ndim):
        here = np.moveaxis(labels, axis, 0)
        change = here[:-1] != here[1:]
        if where is not None:
            inside = np.moveaxis(where, axis, 0)
            change &= inside[:-1] & inside[1:]
        np.moveaxis(edge, axis, 0)[:-1] |= change
    return edge


def reached(those: Mask, reach: float) -> Mask:
    """Pixels within reach of those."""
    if not those.any():
        return np.zeros(those.shape, bool)
    near: Mask = ndimage.distance_transform_edt(~those) <= reach
    return near


def _share(near: Mask, these: Mask) -> float:
    """Share of these pixels that are near; 1 if there are none to match."""
    return float(near[these].mean()) if these.any() else 1.0


def _f(precision: float, recall: float) -> float:
    return 0.0 if precision + recall == 0 else 2 * precision * recall / (precision + recall)
