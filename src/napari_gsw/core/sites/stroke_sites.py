"""Sites in which strokes of several labels meet are cut, so that nothing painted is outvoted."""

from __future__ import annotations

import numpy as np
from skimage import measure, segmentation

from napari_gsw.core.arrays import LabelImage, Longs, Pixels, Sites


def divided_sites(sites: Sites, strokes: LabelImage, channels: Pixels) -> tuple[Sites, Longs]:
    """Sites of which each has strokes of one label at most.

    A site that has more is cut by a watershed of the steps of colour in it, from its strokes. The largest piece keeps
    the site's number, the others take numbers after the last.

    Parameters
    ----------
    sites : (\\*shape,) 1..n, 0 where there is none.
    strokes : (\\*shape,) labels that were painted, 0 where nothing was.
    channels : (\\*shape, C) of the picture.

    Returns
    -------
    the sites (the same array if none has to be cut), and (n',) the old site of each new one, numbered from 0.

    Examples
    --------
    >>> sites, strokes = np.array([[1, 1, 1, 1, 2, 2]]), np.array([[3, 0, 0, 5, 5, 0]])
    >>> grey = np.array([[0.0, 0.0, 9.0, 9.0, 9.0, 9.0]])[..., np.newaxis]
    >>> divided_sites(sites, strokes, grey)[0].tolist()
    [[1, 1, 3, 3, 2, 2]]
    """
    from scipy import ndimage

    n = int(sites.max())
    mixed = mixed_sites(sites, strokes)
    parents = [np.arange(n)]
    if not len(mixed):
        return sites, parents[0]
    result, free = sites.copy(), n + 1
    boxes = ndimage.find_objects(np.where(np.isin(sites, mixed), sites, 0))
    for site in mixed.tolist():
        box = boxes[site - 1]
        inside = sites[box] == site
        pieces = cut(inside, np.where(inside, strokes[box], 0), channels[box])
        sizes = np.bincount(pieces[inside])
        for piece in np.argsort(-sizes, kind="stable")[1:].tolist():
            if sizes[piece]:
                result[box][pieces == piece] = free
                parents.append(np.array([site - 1]))
                free += 1
    return result, np.concatenate(parents)


def mixed_sites(sites: Sites, strokes: LabelImage) -> Longs:
    """Numbers of the sites (\\*shape,) in which strokes of several labels (\\*shape,) meet; 0 is no stroke.

    >>> mixed_sites(np.array([1, 1, 2, 2]), np.array([3, 5, 5, 5])).tolist()
    [1]
    """
    painted = (strokes != 0) & (sites > 0)
    pairs = np.unique(np.stack((sites[painted].astype(np.int64), strokes[painted].astype(np.int64))), axis=1)
    number, labels_in = np.unique(pairs[0], return_counts=True)
    return np.asarray(number[labels_in > 1])


def cut(inside: LabelImage, strokes: LabelImage, channels: Pixels) -> LabelImage:
    """Pieces 1, 2, ... of a part of an image, one around each stroke; 0 outside."""
    steps = np.zeros(inside.shape)
    for axis in range(inside.ndim):
        if inside.shape[axis] > 1:
            steps += np.square(np.gradient(channels.astype(np.float64), axis=axis)).sum(axis=-1)
    markers = measure.label(strokes, background=0, connectivity=1)
    pieces = segmentation.watershed(np.sqrt(steps), markers=markers, mask=inside)
    # What no stroke reaches (a site may have fallen apart) stays with the first piece.
    return np.asarray(np.where(inside & (pieces == 0), 1, pieces))
