"""Sites that follow the image, or a map that is given beside it."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from napari_gsw.core.arrays import Sites
from napari_gsw.core.evidence.given_maps import GivenMaps
from napari_gsw.core.image.block_grid import Slices
from napari_gsw.core.image.picture import Picture
from napari_gsw.core.settings import Settings
from napari_gsw.core.sites.superpixels import check_mask, connected, flooded, superpixels

# What a component of variance 1, and a certain boundary, are worth in units of Lab.
COMPONENT, BOUNDARY = 20.0, 100.0


def followed_sites(
    picture: Picture, maps: GivenMaps, settings: Settings, mask: ArrayLike | None, part: Slices | None = None
) -> Sites:
    """Superpixels of what ``settings.sites_from`` names.

    Parameters
    ----------
    picture : the converted image, or a part of it.
    mask : (\\*shape,) true where sites are wanted; None for everywhere.
    part : where in the image the picture lies; None for all of it.
    """
    if settings.sites_from == "features" and maps.features is not None:
        channels = maps.features.channels(part)
        if maps.features.reduction.span is None:
            channels = channels * np.float32(COMPONENT)
        return superpixels(Picture(np.ascontiguousarray(channels), False, picture.spacing), settings, mask)
    if settings.sites_from == "boundaries" and maps.boundaries is not None:
        inside = check_mask(mask, picture.shape)
        height = BOUNDARY / (1 + np.exp(-maps.boundaries.log_odds(part)))
        groups = flooded(height, settings, inside, picture.spacing)
        return connected(np.where(groups == 0, groups.max() + 1, groups), inside)
    return superpixels(picture, settings, mask)
