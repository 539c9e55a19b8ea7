"""Prepare a problem from an image: superpixels, graph, features, couplings.

With a network that segments objects, sites are fragments of objects and blocks of background. A chain colours them, and
touching sites of one colour are one object. Apart from the couplings there is no likelihood, since the network has used
the pixels.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from importlib.metadata import version
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from skimage import measure

from napari_gsw.core.array_types import BoolArray, Sites
from napari_gsw.core.blocks.assembly import assemble
from napari_gsw.core.errors import InputError, to_array, to_float_array
from napari_gsw.core.features.codebook import Codebook
from napari_gsw.core.features.input_maps import MAP_NAMES, InputMaps, make_sites, open_input_maps, select_site_image
from napari_gsw.core.features.network import (
    CENTRE,
    INSIDE,
    Network,
    are_too_large,
    has_onnxruntime,
    load_network,
    predict_objects,
    predict_slices,
)
from napari_gsw.core.features.site_features import ImageFeatures, SiteFeatures, SiteMaps, summarize_maps
from napari_gsw.core.graph.boundary_model import COLOURS, load_object_model
from napari_gsw.core.graph.couplings import compute_couplings, compute_link_couplings, compute_map_couplings
from napari_gsw.core.graph.random_walk import make_transition_matrix, smooth_counts
from napari_gsw.core.graph.region_graph import (
    RegionGraph,
    add_links,
    build_region_graph,
    concatenate_graphs,
    find_links,
)
from napari_gsw.core.image.foreground_signal import OBJECT_SIGNAL, normalize_images
from napari_gsw.core.image.lazy import LazyImage, is_image_list, is_lazy, open_lazy_image
from napari_gsw.core.image.normalized_image import (
    NormalizedImage,
    fill_outside_mask,
    parse_axes,
    per_image,
    read_channels,
)
from napari_gsw.core.image.spacing import format_spacing, get_spacing, pixel_volume
from napari_gsw.core.likelihood.conjugate import DirichletMultinomial, Gaussian, Likelihood
from napari_gsw.core.model import priors
from napari_gsw.core.model.external_field import make_foreground_field
from napari_gsw.core.model.problem import Problem, SharedProblem, number_consecutively
from napari_gsw.core.model.scribble_field import closes_labels
from napari_gsw.core.posterior.objects import has_contrast, measure_contrast
from napari_gsw.core.sampler.snapshot import Snapshot
from napari_gsw.core.settings import Settings, setting_fields
from napari_gsw.core.settings.declaration import file_paths
from napari_gsw.core.settings.presets import DEFAULT_PRESET, preset
from napari_gsw.core.sites.blocked_labels import BlockedLabels
from napari_gsw.core.sites.scribbles import split_sites
from napari_gsw.core.sites.site_values import check_label_image
from napari_gsw.core.sites.superpixels import (
    check_mask,
    find_fragments,
    make_object_sites,
    mark_fragments,
    validate_sites,
)

# With an object network, superpixels, features, prior and couplings are its own, and so is where objects end. Settings
# of these sections have no effect, except NETWORK_SETTINGS.
NETWORK_SECTIONS = ("superpixels", "features", "prior", "coupling")
NETWORK_SETTINGS = ("signal", "objects", "boundary_model", "network")
NETWORK_CUTS = ("neck", "distinction")
# Voxels of a volume up to which the network predicts every slice; more would take minutes.
MAX_VOXELS = 1 << 21
# Note among the maps of a problem whose signal is predicted by the network slice by slice.
NETWORK_SIGNAL: Mapping[str, Any] = {"inside": {"made_by": "network of objects, plane by plane"}}


class Stage(NamedTuple):
    """A stage of a segmentation, and how many blocks or sweeps of it are done; a total of 0 is unknown.

    In order of time the names are ``planes`` (of a volume with objects), ``noise`` (of a large noisy image),
    ``superpixels``, ``graph``, ``features``, ``blocks`` and ``assembly`` (of a chunked image), ``start``, ``compiling``
    and ``sampling``, or the name of a method that has one step.
    """

    name: str
    done: int = 0
    total: int = 0


# Called during a segmentation with the stage and, while the chains run, the newest snapshot. Returning True ends the
# run there; the result is then that of the snapshot.
Report = Callable[[Stage, Snapshot | None], bool | None]


def resolve_arguments(
    settings: Settings | None,
    preset_name: str | None,
    beta: ArrayLike | None,
    codebook: Codebook | str | None,
    changes: Mapping[str, Any],
) -> tuple[Settings, ArrayLike | None, Codebook | None]:
    """Return the settings, or the preset, with changes by keyword; and `beta` and `codebook` if they are data."""
    changes = dict(changes)
    if beta is not None and (values := to_array("beta", beta)).ndim == 0:
        beta, changes["beta"] = None, values[()]
    if isinstance(codebook, str):
        codebook, changes["codebook"] = None, codebook
    if "spacing" in changes:
        changes["spacing"] = format_spacing(changes["spacing"])
    if settings is None:
        return preset(preset_name or DEFAULT_PRESET, **changes), beta, codebook
    if preset_name is not None:
        raise InputError("give a preset or a Settings object, not both")
    if not isinstance(settings, Settings):
        raise TypeError(f"settings must be a Settings object, not {type(settings).__name__}; preset= takes a name")
    return settings.replace(**changes), beta, codebook


def load_codebook(settings: Settings) -> Codebook | None:
    """Load the codebook of the file that the settings name, if they name one."""
    path = file_paths(settings).get("codebook")
    return None if path is None else Codebook.load(path)


def prepare(
    image: ArrayLike,
    settings: Settings | None = None,
    *,
    preset: str | None = None,
    sites: ArrayLike | None = None,
    mask: ArrayLike | None = None,
    seeds: ArrayLike | None = None,
    beta: ArrayLike | None = None,
    codebook: Codebook | str | None = None,
    features: Any = None,
    boundaries: Any = None,
    foreground: Any = None,
    linked: bool = False,
    report: Report | None = None,
    **changes: Any,
) -> Problem:
    r"""Prepare a segmentation problem from an image: superpixels, features, graph and couplings.

    Parameters
    ----------
    image : array-like or list of array-like
        2D or 3D, grey, RGB, RGBA or with any number of channels, of any numeric type; see the setting ``axes``. A dask
        or zarr array, a list of them from fine to coarse or an OME-Zarr group is read in blocks, of which only a few
        are in memory at a time, and what is painted from its sites is lazy. A list or tuple of arrays in memory is a
        joint segmentation (:class:`~napari_gsw.core.model.problem.SharedProblem`); `sites`, `mask` and `seeds` are
        then lists with None where an image has none.
    settings, preset, \*\*changes
        A Settings object or the name of a preset, and single settings by name.
    sites : array-like, optional
        Superpixels: a label image of the image's shape, 0 for background.
    mask : array-like, optional
        Non-zero where the image is to be segmented.
    seeds : array-like, optional
        Label image of the image's shape. A site with seeds of several labels is split between them, if ``steering``
        is above 0 and the image is not read in blocks.
    beta : float or array-like, optional
        A number replaces the setting; an array has a coupling for each edge of ``problem.edges``.
    codebook : str or Codebook, optional
        Colour words: a value of the setting, or a codebook.
    features, boundaries, foreground : array-like, optional
        Input maps of the image's shape, in memory or lazy; features have channels on the first or last axis. See
        ``docs/evidence.md``.
    linked : bool
        Couple overlapping sites of consecutive images, such as slices or frames, of a joint segmentation.
    report : callable, optional
        Called with each :class:`~napari_gsw.core.pipeline.prepare.Stage` as it begins, and as its blocks are done.
    """
    chosen, beta, codebook = resolve_arguments(settings, preset, beta, codebook, changes)
    report = report or (lambda stage, snapshot: None)
    maps = {"features": features, "boundaries": boundaries, "foreground": foreground}
    is_joint = is_image_list(image)
    if linked and not is_joint:
        raise InputError("linked is for a list of several images of one shape")
    if is_joint:
        for name, value in maps.items():
            if value is not None:
                raise InputError(f"{name} is for one image, not for a joint segmentation of several")
    elif is_lazy(image):
        lazy_image = open_lazy_image(image, chosen.axes)
        return _prepare_lazy(lazy_image, chosen, {"sites": sites, "mask": mask, **maps}, beta, codebook, report)
    images: list[NDArray[Any]] = list(image) if is_joint else [image]  # type: ignore[arg-type, list-item]
    inputs = {
        name: per_image(value, len(images), name) if is_joint else [value]
        for name, value in (("sites", sites), ("mask", mask), ("seeds", seeds))
    }
    images = [
        fill_outside_mask(array, chosen.axes, partial(_find_used, given, wanted))
        for array, given, wanted in zip(images, inputs["sites"], inputs["mask"], strict=True)
    ]
    options: dict[str, Any] = {"beta": beta, "codebook": codebook, "report": report, "linked": linked}
    used = chosen.replace(objects="classical")  # the method used, for readers of the problem's settings
    if not is_joint and uses_object_network(chosen) and all(value is None for value in maps.values()):
        values, _ = read_channels(images[0], chosen.axes)
        network = load_network(chosen.network, "objects")
        if network is not None and values.ndim == 3:
            problem = _prepare_fragments(values, network, chosen, inputs, beta, report)
            if problem is not None:
                return problem
        elif network is not None:
            predicted = _predict_object_signal(images[0], values, network, chosen, report)
            if predicted is not None:
                problem = _prepare_in_memory([predicted], used.replace(axes="ZYX"), inputs, maps, **options)
                return replace(problem, settings=used, maps={**problem.maps, **NETWORK_SIGNAL})
    return _prepare_in_memory(images, used, inputs, None if is_joint else maps, **options)


def _find_used(sites: ArrayLike | None, mask: ArrayLike | None, shape: tuple[int, ...]) -> BoolArray:
    return check_mask(mask, shape) if sites is None else validate_sites(sites, shape, mask) > 0


def _prepare_in_memory(
    images: Sequence[NDArray[Any]],
    settings: Settings,
    inputs: Mapping[str, Sequence[Any]],
    given_maps: Mapping[str, Any] | None,
    *,
    beta: ArrayLike | None,
    codebook: Codebook | None,
    report: Report,
    linked: bool,
) -> Problem:
    """Prepare one image, or without maps a joint segmentation; `inputs` has sites, mask and seeds of each image."""
    is_joint, has_objects = given_maps is None, settings.signal == "objects"
    spacing = get_spacing(settings, sum(axis in "ZYX" for axis in parse_axes(images[0], settings.axes)))
    common, progress = None if is_joint else spacing, partial(_report_part, report, "noise")
    pixels = normalize_images(images, settings.axes, has_objects, settings.calm, common, progress)
    pixels = [replace(p, spacing=spacing) for p in pixels]
    maps = InputMaps() if given_maps is None else open_input_maps(given_maps, pixels[0].shape, settings)
    report(Stage("superpixels"), None)
    site_images = _make_sites(pixels, maps, settings, inputs)
    report(Stage("graph"), None)
    graphs = [
        build_region_graph(select_site_image(p, maps, settings), sites, settings.neighbourhood)
        for p, sites in zip(pixels, site_images, strict=True)
    ]
    graph = concatenate_graphs(graphs)
    report(Stage("features"), None)
    features = ImageFeatures(pixels, site_images, settings, codebook)
    site_maps = summarize_maps(maps, site_images[0], graph.edges[graph.order == 1], settings, pixels[0].spacing)
    signals = [p.channels[..., 0] if has_objects else None for p in pixels]
    if not is_joint:
        found: dict[str, Any] = {"sites": site_images[0], "signal": signals[0]}
        return _make_problem(Problem, features, graph, settings, beta, site_maps, **found)
    links = find_links(pixels, site_images, graph) if linked else None
    found = {"site_images": number_consecutively(site_images), "signals": tuple(signals) if has_objects else None}
    return _make_problem(SharedProblem, features, graph, settings, beta, site_maps, graphs, links, **found)


def _report_part(report: Report, name: str, done: int, total: int) -> None:
    report(Stage(name, done, total), None)


def _make_sites(
    pixels: Sequence[NormalizedImage], maps: InputMaps, settings: Settings, inputs: Mapping[str, Sequence[Any]]
) -> list[Sites]:
    """Return the sites of each image, 1.. in each: given ones, or superpixels of one size in all images.

    Superpixels are finer where every label is painted, so that only outlines matter.
    """
    seeds = [
        None if s is None else np.asarray(check_label_image(s, p.shape, "seeds"))
        for s, p in zip(inputs["seeds"], pixels, strict=True)
    ]
    labels = set().union(*(np.unique(image).tolist() for image in seeds if image is not None)) - {0}
    detail, count = settings.painted_detail, settings.site_count
    if detail != 1 and settings.steering != 0 and closes_labels(settings, len(labels)):
        count = None if count is None else round(count * detail)
        settings = settings.replace(site_size=max(1, round(settings.site_size / detail)), site_count=count)
    masks = [check_mask(mask, p.shape) for p, mask in zip(pixels, inputs["mask"], strict=True)]
    counts = [int(mask.sum()) for mask in masks]
    n_sites = settings.site_count_for(sum(counts), pixel_volume(pixels[0].spacing))
    site_images = []
    for p, given, mask, painted, count in zip(pixels, inputs["sites"], masks, seeds, counts, strict=True):
        share = settings.replace(site_count=max(1, round(n_sites * count / sum(counts))))
        sites = make_sites(p, maps, share, mask) if given is None else validate_sites(given, p.shape, mask)
        if painted is not None and settings.steering > 0:
            sites = split_sites(sites, painted, p.channels)[0]
        site_images.append(sites)
    return site_images


def _prepare_lazy(
    image: LazyImage,
    settings: Settings,
    inputs: Mapping[str, Any],
    beta: ArrayLike | None,
    codebook: Codebook | None,
    report: Report,
) -> Problem:
    """Prepare a lazy image in blocks, or at once if it is one block; `inputs` are sites, mask and maps."""
    grid = image.grid(settings.block_pixels)
    if len(grid) == 1:
        in_memory: dict[str, Any] = {
            name: to_array("sites and mask", array) if name in ("sites", "mask") and array is not None else array
            for name, array in inputs.items()
        }
        alone = settings.replace(axes=image.axes)
        problem = prepare(image.read(), alone, beta=beta, codebook=codebook, report=report, **in_memory)
        assert problem.settings is not None
        settings = settings.replace(objects=problem.settings.objects)
        return replace(problem, sites=BlockedLabels.of(problem.site_image), settings=settings)

    def report_blocks(count: int) -> None:
        report(Stage("blocks", count, len(grid)), None)
        if count == len(grid):
            report(Stage("assembly"), None)

    settings = settings.replace(objects="classical")
    maps = {name: inputs[name] for name in MAP_NAMES}
    context, sites, graph, features, site_maps = assemble(
        image, grid, settings, inputs["sites"], inputs["mask"], codebook, report_blocks, maps
    )
    return _make_problem(Problem, features, graph, settings, beta, site_maps, sites=sites, block_context=context)


def uses_object_network(settings: Settings) -> bool:
    """Return whether the settings ask for an object network."""
    return settings.objects == "network" and settings.signal == "objects" and settings.view == "objects"


def can_use_object_network(settings: Settings) -> bool:
    """Return whether an object network can run; the image must also be 2D and in memory."""
    return uses_object_network(settings) and settings.network != "none" and has_onnxruntime()


def is_replaced_by_network(name: str) -> bool:
    """Return whether a setting has no effect with an object network."""
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
    return {"name": settings.network, "sha256": network.sha256, "onnxruntime": version("onnxruntime")}


def _predict_object_signal(
    image: NDArray[Any], values: NDArray[Any], network: Network, settings: Settings, report: Report
) -> NDArray[np.float32] | None:
    """Return (z, y, x) the network's probability of objects, to be used as signal of a volume; or None.

    It is for crowded objects that blur into each other's slices and hardly stand out. In other volumes their own signal
    says more, and in blurred noise the network sees blobs.
    """
    if values[..., 0].size > MAX_VOXELS:
        return None
    spacing = get_spacing(settings, 3)
    signal = normalize_images([image], settings.axes, True, settings.calm, spacing)[0].channels[..., 0]
    bright = measure.label(signal > OBJECT_SIGNAL / 2, connectivity=1).astype(np.int32)
    contrast = measure_contrast(bright, np.ones(bright.shape, bool), signal)
    if has_contrast(contrast, settings.distinction, 2) or not has_contrast(contrast, settings.distinction, 3):
        return None
    anisotropy = 1.0 if spacing is None else spacing[0] / min(spacing[1:])
    inside = predict_slices(values, network, anisotropy, partial(_report_part, report, "planes"))
    return inside if (inside > 0.5).any() else None


def _prepare_fragments(
    values: NDArray[Any],
    network: Network,
    settings: Settings,
    inputs: Mapping[str, Sequence[Any]],
    beta: ArrayLike | None,
    report: Report,
) -> Problem | None:
    """Prepare a 2D image of `values` (y, x, channels) in which the network finds an object; None if it finds none."""
    report(Stage("superpixels"), None)
    maps = predict_objects(values, network)
    if are_too_large(values, maps, network):
        return None
    (sites,), (mask,), (seeds,) = inputs["sites"], inputs["mask"], inputs["seeds"]
    fragments = find_fragments(maps[..., INSIDE], maps[..., CENTRE])
    signal = np.float32(OBJECT_SIGNAL) * maps[..., INSIDE]
    pixels = NormalizedImage(signal[..., np.newaxis], False)
    inside = check_mask(mask, pixels.shape)
    if not ((fragments > 0) & inside).any():
        return None
    site_image = make_object_sites(fragments, inside) if sites is None else validate_sites(sites, pixels.shape, mask)
    if seeds is not None and settings.steering > 0:
        seeds = np.asarray(check_label_image(seeds, pixels.shape, "seeds"))
        site_image = split_sites(site_image, seeds, pixels.channels)[0]
    report(Stage("graph"), None)
    graph = build_region_graph(pixels, site_image)
    report(Stage("features"), None)
    if beta is None:
        model = load_object_model(settings.boundary_model)
        beta = model.couplings(site_image, maps, graph, mark_fragments(site_image, fragments))
    couplings, prior = to_float_array("beta", beta), priors.Potts(COLOURS)
    origin: dict[str, Any] = {"sites": site_image, "graph": graph, "settings": settings, "signal": signal}
    return Problem(graph.n, (), graph.edges, couplings, prior, **origin)


def _make_problem(
    kind: type[Problem],
    features: SiteFeatures,
    graph: RegionGraph,
    settings: Settings,
    beta: ArrayLike | None,
    maps: SiteMaps,
    graphs: Sequence[RegionGraph] | None = None,
    links: RegionGraph | None = None,
    **origin: Any,
) -> Problem:
    """Make a problem of sites of some `origin`; `graphs` are those of the images of a joint segmentation."""
    likelihoods = build_likelihoods(features, graph, maps.features)
    if beta is not None:
        couplings = to_float_array("beta", beta)
    else:
        couplings = compute_couplings(graph, settings, features, graphs)
        if maps.edge_sums is not None:
            couplings = couplings + compute_map_couplings(maps.edge_sums, graph, settings)
    if links is not None:
        assert isinstance(features, ImageFeatures)
        within = couplings if beta is None else np.zeros(len(graph.edges))  # given ones include those of links
        graph, within = add_links(graph, within, links, compute_link_couplings(links, graph, settings, features))
        couplings = within if beta is None else couplings
    foreground = None if maps.foreground is None else make_foreground_field(maps.foreground, settings)
    known: dict[str, Any] = {"graph": graph, "settings": settings, "map_field": foreground, "maps": maps.notes}
    return kind(graph.n, likelihoods, graph.edges, couplings, priors.make_prior(settings), **known, **origin)


def build_likelihoods(
    features: SiteFeatures, graph: RegionGraph, added: Gaussian | None = None
) -> tuple[Likelihood, ...]:
    """Make the likelihoods that the settings ask for, with one row for each site, and add that of a feature map.

    Channels of the same data weight become one likelihood.
    """
    settings = features.settings
    histograms, gaussians = [], []
    if settings.likelihood == "gaussian":
        gaussians.append(features.channels)
    else:
        if settings.likelihood != "none":
            histograms.append((features.colour, settings.phi, settings.evidence))
        if settings.position > 0:
            gaussians.append(features.position)
    if settings.texture_words > 0:
        histograms.append((features.texture, settings.texture_phi, settings.texture_evidence))
    if settings.graph_passes > 0:
        steps = make_transition_matrix(graph, settings.graph_scale)
        histograms = [(smooth_counts(h, steps, settings.graph_passes), phi, s) for h, phi, s in histograms]
    if added is not None and gaussians and gaussians[0].evidence == added.evidence:
        (first,) = gaussians
        sums, squares = (np.hstack((getattr(first, name), getattr(added, name))) for name in ("sums", "squares"))
        variance = np.concatenate((first.variance, added.variance))
        gaussians = [replace(first, sums=sums, squares=squares, variance=variance)]
    elif added is not None:
        gaussians.append(added)
    return (*(DirichletMultinomial(h, phi, s) for h, phi, s in histograms), *gaussians)
