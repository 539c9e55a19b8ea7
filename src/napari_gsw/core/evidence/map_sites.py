"""Sites that follow the image, or a map that is given beside it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

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


def followed(settings: Settings, given: GivenMaps | Mapping[str, Any]) -> str:
    """What sites follow, image, features or boundaries, if these maps are given (by name: None for none).

    A map of boundaries is followed unless it has no weight: sites of the image would lie across what it parts.

    >>> followed(Settings(), {"boundaries": np.zeros((2, 2))}), followed(Settings(), {"features": np.zeros((2, 2))})
    ('boundaries', 'image')
    """
    if settings.sites_from != "auto":
        return settings.sites_from
    boundaries = given.boundaries if isinstance(given, GivenMaps) else given.get("boundaries")
    return "image" if boundaries is None or not settings.boundaries_weight else "boundaries"


def followed_picture(picture: Picture, maps: GivenMaps, settings: Settings, part: Slices | None = None) -> Picture:
    """What sites follow and the contrast between them is measured on: the image, or features in its place.

    Parameters
    ----------
    picture : the converted image, or the `part` of it.
    """
    if maps.features is None or followed(settings, maps) != "features":
        return picture
    channels = maps.features.channels(part) * np.float32(followed_unit(maps.features))
    return Picture(np.ascontiguousarray(channels), False, picture.spacing)


def followed_unit(features: FeatureMap) -> float:
    """What a unit of the channels of features is worth in units of Lab."""
    return COMPONENT if features.reduction.span is None else 1.0


def followed_sites(
    picture: Picture, maps: GivenMaps, settings: Settings, mask: ArrayLike | None, part: Slices | None = None
) -> Sites:
    """Superpixels of what is followed.

    Parameters
    ----------
    picture : the converted image, or a part of it.
    mask : (\\*shape,) true where sites are wanted; None for everywhere.
    part : where in the image the picture lies; None for all of it.
    """
    follows = followed(settings, maps)
    if follows == "features":
        return superpixels(followed_picture(picture, maps, settings, part), settings, mask)
    if follows == "boundaries" and maps.boundaries is not None:
        inside = check_mask(mask, picture.shape)
        height = BOUNDARY / (1 + np.exp(-maps.boundaries.log_odds(part)))
        return basins(height.astype(np.float32), settings, inside, picture.spacing)
    return superpixels(picture, settings, mask)
