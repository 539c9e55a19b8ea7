"""Sites that follow the image, or a map that is given beside it."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from napari_gsw.core.arrays import Sites
from napari_gsw.core.evidence.given_maps import FeatureMap, GivenMaps
from napari_gsw.core.image.block_grid import Slices
from napari_gsw.core.image.picture import Picture
from napari_gsw.core.settings import Settings
from napari_gsw.core.sites.superpixels import basins, check_mask, superpixels

# What a component of variance 1, and a certain boundary, are worth in units of Lab.
COMPONENT, BOUNDARY = 20.0, 100.0


def followed_picture(picture: Picture, maps: GivenMaps, settings: Settings, part: Slices | None = None) -> Picture:
    """What sites follow and the contrast between them is measured on: the image, or features in its place.

    Parameters
    ----------
    picture : the converted image, or the `part` of it.
    """
    if settings.sites_from != "features" or maps.features is None:
        return picture
    channels = maps.features.channels(part) * np.float32(followed_unit(maps.features))
    return Picture(np.ascontiguousarray(channels), False, picture.spacing)


def followed_unit(features: FeatureMap) -> float:
    """What a unit of the channels of features is worth in units of Lab."""
    return COMPONENT if features.reduction.span is None else 1.0


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
    if settings.sites_from == "features":
        return superpixels(followed_picture(picture, maps, settings, part), settings, mask)
    if settings.sites_from == "boundaries" and maps.boundaries is not None:
        inside = check_mask(mask, picture.shape)
        height = BOUNDARY / (1 + np.exp(-maps.boundaries.log_odds(part)))
        return basins(height.astype(np.float32), settings, inside, picture.spacing)
    return superpixels(picture, settings, mask)
