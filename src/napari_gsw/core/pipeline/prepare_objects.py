"""Prepare a problem whose sites and couplings come from a network that segments objects.

Sites are fragments of objects and blocks of background. A chain colours them, and touching sites of one colour are one
object. Apart from the couplings there is no likelihood, since the network has used the pixels.
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
from napari_gsw.core.posterior.objects import has_contrast, measure_contrast
from napari_gsw.core.settings import Settings, setting_fields
from napari_gsw.core.sites.fragments import find_fragments, make_object_sites, mark_fragments
from napari_gsw.core.sites.superpixels import check_mask, validate_sites

# With an object network, superpixels, features, prior and couplings are its own, and so is where objects end. Settings
# of these sections have no effect, except NETWORK_SETTINGS.
NETWORK_SECTIONS = ("superpixels", "features", "prior", "coupling")
NETWORK_SETTINGS = ("signal", "objects", "boundary_model", "network")
NETWORK_CUTS = ("neck", "distinction")
# Voxels of a volume up to which the network predicts every slice; more would take minutes.
MAX_VOXELS = 1 << 21
# Note among the maps of a problem whose signal is predicted by the network slice by slice.
NETWORK_SIGNAL: Mapping[str, Any] = {"inside": {"made_by": "network of objects, plane by plane"}}


def uses_object_network(settings: Settings) -> bool:
    """Return whether the settings ask for an object network."""
    return settings.objects == "network" and settings.signal == "objects" and settings.view == "objects"


def can_use_object_network(settings: Settings) -> bool:
    """Return whether an object network can run; the image must also be 2D and in memory."""
    return uses_object_network(settings) and settings.network != "none" and has_onnxruntime()


def is_replaced_by_network(name: str) -> bool:
    """Return whether a setting has no effect with an object network.

    >>> is_replaced_by_network("site_size"), is_replaced_by_network("network"), is_replaced_by_network("min_region")
    (True, False, False)
    """
    return name in NETWORK_CUTS or (setting_fields()[name].section in NETWORK_SECTIONS and name not in NETWORK_SETTINGS)


def describe_object_network(settings: Settings, problem: Problem) -> dict[str, str] | None:
    """Return name and hash of the object network for the provenance; None if none is asked for."""
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
    """Return (z, y, x) the network's probability of objects, to be used as signal of a volume; or None.

    It is for crowded objects that blur into each other's slices and hardly stand out. In other volumes their own signal
    says more, and in blurred noise the network sees blobs.
    """
    values, _ = select_channels(image, check_image(image, settings.axes))
    if values.ndim != 4 or values[..., 0].size > MAX_VOXELS:
        return None
    network = load_network(settings.network, "objects")
    if network is None:
        return None
    spacing = get_spacing(settings, 3)
    signal = make_signal_image(image, settings.axes, settings.calm, spacing).channels[..., 0]
    bright = measure.label(signal > OBJECT_SIGNAL / 2, connectivity=1).astype(np.int32)
    contrast = measure_contrast(bright, np.ones(bright.shape, bool), signal)
    if has_contrast(contrast, settings.distinction, 2) or not has_contrast(contrast, settings.distinction, 3):
        return None
    anisotropy = 1.0 if spacing is None else spacing[0] / min(spacing[1:])

    def report_slices(done: int, total: int) -> None:
        report(Stage("planes", done, total), None)

    inside = predict_slices(values, network, anisotropy, report_slices)
    return inside if (inside > 0.5).any() else None


def prepare_with_network(
    image: NDArray[Any],
    settings: Settings,
    sites: ArrayLike | None,
    mask: ArrayLike | None,
    beta: ArrayLike | None,
    split: Callable[[Sites, NormalizedImage], Sites],
    report: Report,
) -> Problem | None:
    """Prepare a finite 2D image in which the network finds an object; None if it finds none or cannot run.

    `split` splits sites with scribbles of several labels.
    """
    values, _ = select_channels(image, check_image(image, settings.axes))
    network = load_network(settings.network, "objects") if values.ndim == 3 else None
    if network is None:
        return None
    report(Stage("superpixels"), None)
    maps = predict_objects(values, network)
    if are_too_large(values, maps, network):
        return None
    fragments = find_fragments(maps[..., INSIDE], maps[..., CENTRE])
    signal = np.float32(OBJECT_SIGNAL) * maps[..., INSIDE]
    pixels = NormalizedImage(signal[..., np.newaxis], False)
    inside = check_mask(mask, pixels.shape)
    if not ((fragments > 0) & inside).any():
        return None
    site_image = make_object_sites(fragments, inside) if sites is None else validate_sites(sites, pixels.shape, mask)
    site_image = split(site_image, pixels)
    report(Stage("graph"), None)
    graph = build_region_graph(pixels, site_image)
    report(Stage("features"), None)
    if beta is None:
        model = load_object_model(settings.boundary_model)
        couplings = model.couplings(site_image, maps, graph, mark_fragments(site_image, fragments))
    else:
        couplings = to_float_array("beta", beta)
    return Problem(
        n=graph.n,
        likelihoods=(),
        edges=graph.edges,
        beta=couplings,
        prior=Potts(COLOURS),
        sites=site_image,
        graph=graph,
        settings=settings,
        signal=signal,
    )
