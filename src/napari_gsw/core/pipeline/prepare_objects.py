"""Image -> a problem whose sites and couplings come from a network that knows objects.

Sites are fragments of objects and blocks of background; the state of a chain colours them, and touching sites of one
colour are one object. There is no likelihood beside the couplings: the network has seen the pixels.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from skimage import measure

from napari_gsw.core.array_types import Sites
from napari_gsw.core.errors import to_float_array
from napari_gsw.core.features.network import has_onnxruntime, load_network, onnxruntime_version
from napari_gsw.core.features.object_network import CENTRE, INSIDE, are_too_large, predict_objects, predict_slices
from napari_gsw.core.graph.object_model import COLOURS, load_object_model
from napari_gsw.core.graph.region_graph import build_region_graph
from napari_gsw.core.image.foreground_signal import OBJECT_SIGNAL, make_signal_image
from napari_gsw.core.image.normalized_image import NormalizedImage, check_image, select_channels
from napari_gsw.core.image.spacing import get_spacing
from napari_gsw.core.model.priors import Potts
from napari_gsw.core.model.problem import Problem
from napari_gsw.core.pipeline.stage import Report, Stage
from napari_gsw.core.posterior.object_contrast import has_contrast, measure_contrast
from napari_gsw.core.settings import Settings, setting_fields
from napari_gsw.core.sites.fragments import find_fragments, make_object_sites, mark_fragments
from napari_gsw.core.sites.superpixels import check_mask, validate_sites

# Where a network sees the objects, sites, evidence and couplings are its own, and so is where an object ends. Of the
# settings of these sections it asks a few alone.
NETWORK_SECTIONS = ("superpixels", "features", "prior", "coupling")
NETWORK_SETTINGS = ("signal", "objects", "boundary_model", "network")
NETWORK_CUTS = ("neck", "distinction")
# Of a larger volume the network does not look at every plane: it would take minutes.
MAX_VOXELS = 1 << 21
# What a problem notes beside the maps that were given, where its light is what a network sees plane by plane.
NETWORK_SIGNAL: Mapping[str, Any] = {"inside": {"made_by": "network of objects, plane by plane"}}


def uses_object_network(settings: Settings) -> bool:
    """Whether the settings ask for objects that a network sees."""
    return settings.objects == "network" and settings.signal == "objects" and settings.view == "objects"


def can_use_object_network(settings: Settings) -> bool:
    """Whether a network is asked for and can be computed; the image has to be flat and in memory beside that."""
    return uses_object_network(settings) and settings.network != "none" and has_onnxruntime()


def is_replaced_by_network(name: str) -> bool:
    """Whether a setting has no effect where a network sees the objects.

    >>> network_settles("site_size"), network_settles("network"), network_settles("min_region")
    (True, False, False)
    """
    in_its_place = setting_fields()[name].section in NETWORK_SECTIONS and name not in NETWORK_SETTINGS
    return in_its_place or name in NETWORK_CUTS


def describe_object_network(settings: Settings, problem: Problem) -> dict[str, str] | None:
    """Which network has seen the objects, and its hash, for the provenance; None where none is asked for."""
    if not uses_object_network(settings) or settings.network == "none":
        return None
    network = load_network(settings.network, "objects")
    if network is None:
        return {"name": settings.network, "unused": "onnxruntime is missing"}
    if not problem.has_fragments and not NETWORK_SIGNAL.keys() <= problem.maps.keys():
        return {
            "name": settings.network,
            "unused": "the image is not flat and in memory, its objects stand out without it, or it has seen none",
        }
    return {"name": settings.network, "sha256": network.sha256, "onnxruntime": onnxruntime_version()}


def predict_object_signal(image: NDArray[Any], settings: Settings, report: Report) -> NDArray[np.float32] | None:
    """(z, y, x) what the network sees inside of objects, in a volume in place of the light that they shine with.

    That is for crowded objects which shine into each other's planes, so that they hardly stand out. None for all other
    images, or if the network cannot look or sees no object.
    """
    values, _ = select_channels(image, check_image(image, settings.axes))
    if values.ndim != 4 or values[..., 0].size > MAX_VOXELS:
        return None
    network = load_network(settings.network, "objects")
    if network is None:
        return None
    spacing = get_spacing(settings, 3)
    depth = 1.0 if spacing is None else spacing[0] / min(spacing[1:])

    def looked_at(done: int, planes: int) -> None:
        report(Stage("planes", done, planes), None)

    # Where objects stand out well, their own light says more; and in blurred noise a network sees blobs.
    light = make_signal_image(image, settings.axes, settings.calm, spacing).channels[..., 0]
    bright = measure.label(light > OBJECT_SIGNAL / 2, connectivity=1).astype(np.int32)
    measured = measure_contrast(bright, np.ones(bright.shape, bool), light)
    if has_contrast(measured, settings.distinction, 2) or not has_contrast(measured, settings.distinction, 3):
        return None
    inside = predict_slices(values, network, depth, looked_at)
    return inside if (inside > 0.5).any() else None


def prepare_with_network(
    image: NDArray[Any],
    settings: Settings,
    sites: ArrayLike | None,
    mask: ArrayLike | None,
    beta: ArrayLike | None,
    divided: Callable[[Sites, NormalizedImage], Sites],
    report: Report,
) -> Problem | None:
    """The problem of a flat image in which the network sees an object; None if it sees none or cannot look.

    Parameters
    ----------
    image : in memory, finite.
    sites, mask, beta : as for :func:`napari_gsw.core.pipeline.prepare.prepare`.
    divided : cuts sites where strokes of several labels meet in one.
    """
    values, _ = select_channels(image, check_image(image, settings.axes))
    network = load_network(settings.network, "objects") if values.ndim == 3 else None
    if network is None:
        return None
    report(Stage("superpixels"), None)
    maps = predict_objects(values, network)
    if are_too_large(values, maps, network):
        return None
    pieces = find_fragments(maps[..., INSIDE], maps[..., CENTRE])
    light = np.float32(OBJECT_SIGNAL) * maps[..., INSIDE]
    pixels = NormalizedImage(light[..., np.newaxis], False)
    inside = check_mask(mask, pixels.shape)
    if not (pieces > 0 if inside is None else (pieces > 0) & inside).any():
        return None
    own_sites = make_object_sites(pieces, inside) if sites is None else validate_sites(sites, pixels.shape, mask)
    own_sites = divided(own_sites, pixels)
    report(Stage("graph"), None)
    graph = build_region_graph(pixels, own_sites)
    report(Stage("features"), None)
    if beta is None:
        model = load_object_model(settings.boundary_model)
        couplings = model.couplings(own_sites, maps, graph, mark_fragments(own_sites, pieces))
    else:
        couplings = to_float_array("beta", beta)
    return Problem(
        n=graph.n,
        likelihoods=(),
        edges=graph.edges,
        beta=couplings,
        prior=Potts(COLOURS),
        sites=own_sites,
        graph=graph,
        settings=settings,
        signal=light,
    )
