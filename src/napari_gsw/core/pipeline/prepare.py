"""Image and settings -> a problem: superpixels, graph, features, couplings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from napari_gsw.core.array_types import BoolArray, Sites
from napari_gsw.core.blocks.assembly import assemble
from napari_gsw.core.errors import InputError, to_array, to_float_array
from napari_gsw.core.features.codebook import Codebook
from napari_gsw.core.features.input_maps import make_sites, open_input_maps, select_site_image
from napari_gsw.core.features.site_features import ImageFeatures, SiteFeatures
from napari_gsw.core.graph.couplings import compute_couplings, compute_joint_couplings, compute_link_couplings
from napari_gsw.core.graph.map_evidence import SiteMaps, compute_map_couplings, summarize_maps
from napari_gsw.core.graph.random_walk import make_transition_matrix, smooth_counts
from napari_gsw.core.graph.region_graph import (
    RegionGraph,
    add_links,
    build_region_graph,
    concatenate_graphs,
    find_links,
)
from napari_gsw.core.image.denoise import Progress
from napari_gsw.core.image.foreground_signal import make_signal_image, normalize_images
from napari_gsw.core.image.lazy import LazyImage, is_image_list, is_lazy, open_lazy_image
from napari_gsw.core.image.normalized_image import (
    NormalizedImage,
    fill_outside_mask,
    normalize_image,
    parse_axes,
    per_image,
)
from napari_gsw.core.image.spacing import format_spacing, get_spacing, pixel_volume
from napari_gsw.core.likelihood.conjugate import DirichletMultinomial, Gaussian, Likelihood
from napari_gsw.core.model import priors
from napari_gsw.core.model.external_field import make_foreground_field
from napari_gsw.core.model.problem import Problem, SharedProblem, number_consecutively
from napari_gsw.core.model.scribble_field import closes_labels
from napari_gsw.core.pipeline.prepare_objects import (
    NETWORK_SIGNAL,
    predict_object_signal,
    prepare_with_network,
    uses_object_network,
)
from napari_gsw.core.pipeline.stage import Report, Stage
from napari_gsw.core.settings import Settings
from napari_gsw.core.settings.presets import DEFAULT_PRESET, preset
from napari_gsw.core.sites.blocked_labels import BlockedLabels
from napari_gsw.core.sites.scribbles import split_sites
from napari_gsw.core.sites.site_values import check_label_image
from napari_gsw.core.sites.superpixels import check_mask, make_superpixels, validate_sites


def resolve_settings(settings: Settings | None, preset_name: str | None, changes: Mapping[str, Any]) -> Settings:
    """One Settings object from an object or a preset's name, and changes by keyword."""
    if settings is not None:
        if preset_name is not None:
            raise InputError("give a preset or a Settings object, not both")
        if not isinstance(settings, Settings):
            raise TypeError(f"settings must be a Settings object, not {type(settings).__name__}; preset= takes a name")
        return settings.replace(**changes)
    return preset(preset_name or DEFAULT_PRESET, **changes)


def split_arguments(
    beta: ArrayLike | None, codebook: Codebook | str | None, changes: dict[str, Any]
) -> tuple[ArrayLike | None, Codebook | None, dict[str, Any]]:
    """Two arguments that are settings when they are a number or a word, and data otherwise."""
    if beta is not None:
        values = to_array("beta", beta)
        if values.ndim == 0:
            beta, changes = None, changes | {"beta": values[()]}
    if isinstance(codebook, str):
        codebook, changes = None, changes | {"codebook": codebook}
    if "spacing" in changes:
        changes = changes | {"spacing": format_spacing(changes["spacing"])}
    return beta, codebook, changes


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
    """Image -> superpixels, features, graph, couplings: everything the chain needs.

    Parameters
    ----------
    image : 2D or 3D, grey, RGB, RGBA or with any number of channels, of any numeric type; see ``axes``. A dask or zarr
        array, a list of them from fine to coarse or an OME-Zarr group is read in blocks, of which only a few are in
        memory at a time; what is painted from its sites is lazy. A list or tuple of arrays in memory are several images
        that share their clusters, in one :class:`~napari_gsw.core.model.problem.SharedProblem`; `sites` and
        `mask` are then lists too, with None where an image has none.
    settings, preset, \\*\\*changes : a Settings object or the name of a preset, and single settings by name.
    sites : superpixels of the user's own, a label image of the image's shape with 0 for background.
    mask : non-zero where the image is to be segmented.
    seeds : label image of the image's shape; a site in which seeds of several labels meet is cut between them, if seeds
        steer at all (``steering``) and the image is not read in blocks.
    beta : instead of the setting, one number or an array with a coupling for each edge of ``problem.edges``.
    codebook : colour words, as the setting names them or as a :class:`Codebook`.
    features, boundaries, foreground : maps of the image's space beside it, in memory or lazy; features with any number
        of channels on the first or the last axis. See ``docs/evidence.md``.
    linked : of several images of one shape, such as slices or frames: couple sites of consecutive images that overlap.
    report : called with each :class:`~napari_gsw.core.pipeline.stage.Stage` as it begins, and as its blocks are done.
    """
    beta, codebook, changes = split_arguments(beta, codebook, changes)
    chosen = resolve_settings(settings, preset, changes)
    report = report or (lambda stage, snapshot: None)
    maps = {"features": features, "boundaries": boundaries, "foreground": foreground}
    if is_image_list(image):
        _refuse_maps(maps)
        chosen = chosen.replace(objects="classical")
        count = len(image)  # type: ignore[arg-type]
        each = tuple(per_image(v, count, name) for name, v in (("sites", sites), ("mask", mask), ("seeds", seeds)))
        return _prepare_several(image, chosen, each, beta, codebook, linked, report)  # type: ignore[arg-type]
    if linked:
        raise InputError("linked is for a list of several images of one shape")
    if is_lazy(image):
        given = {"sites": sites, "mask": mask, "codebook": codebook}
        return _prepare_lazy(open_lazy_image(image, chosen.axes), chosen, given, maps, beta, report)
    image = _finite(image, chosen.axes, sites, mask)
    seen, axes = image, chosen.axes
    if uses_object_network(chosen) and all(value is None for value in maps.values()):
        problem = prepare_with_network(
            image, chosen, sites, mask, beta, lambda own, pixels: _divided(own, pixels, chosen, seeds), report
        )
        if problem is not None:
            return problem
        inside = predict_object_signal(image, chosen, report)
        if inside is not None:
            seen, axes = inside, "ZYX"
    chosen = chosen.replace(objects="classical")  # what is done, for who reads the settings of the problem
    objects = chosen.signal == "objects"

    def calming(done: int, total: int) -> None:
        report(Stage("noise", done, total), None)

    pixels = _picture(seen, chosen.replace(axes=axes), objects, calming)
    beside = open_input_maps(maps, pixels.shape, chosen)
    report(Stage("superpixels"), None)
    finer = _finer(chosen, [seeds], [pixels.shape])
    own_sites = make_sites(pixels, beside, finer, mask) if sites is None else validate_sites(sites, pixels.shape, mask)
    own_sites = _divided(own_sites, pixels, chosen, seeds)
    report(Stage("graph"), None)
    graph = build_region_graph(select_site_image(pixels, beside, chosen), own_sites, chosen.neighbourhood)
    report(Stage("features"), None)
    looks = ImageFeatures([pixels], [own_sites], chosen, codebook)
    light = pixels.channels[..., 0] if objects else None
    said = summarize_maps(beside, own_sites, graph, chosen, pixels.spacing)
    problem = _problem(looks, graph, chosen, beta, said, sites=own_sites, signal=light)
    return problem if seen is image else replace(problem, maps={**problem.maps, **NETWORK_SIGNAL})


def _picture(image: NDArray[Any], settings: Settings, objects: bool, progress: Progress) -> NormalizedImage:
    """The image as the model sees it, with the spacing of its pixels."""
    spacing = get_spacing(settings, sum(letter in "ZYX" for letter in parse_axes(image, settings.axes)))
    if objects:
        return make_signal_image(image, settings.axes, settings.calm, spacing)
    return replace(normalize_image(image, settings.axes, calm=settings.calm, progress=progress), spacing=spacing)


def _refuse_maps(maps: Mapping[str, Any]) -> None:
    """Say that several images take no maps, if there are any."""
    for name, value in maps.items():
        if value is not None:
            raise InputError(f"{name} is for one image at a time, not for several that share their clusters")


def _finite(image: ArrayLike, axes: str, sites: ArrayLike | None, mask: ArrayLike | None) -> NDArray[Any]:
    """The image, of which pixels outside the mask or the given sites may have been NaN or infinite."""

    def seen(shape: tuple[int, ...]) -> BoolArray | None:
        inside = check_mask(mask, shape)
        own = None if sites is None else validate_sites(sites, shape, mask) > 0
        return inside if own is None else own

    return fill_outside_mask(image, axes, seen)


def _finer(settings: Settings, seeds: Sequence[ArrayLike | None], shapes: Sequence[tuple[int, ...]]) -> Settings:
    """The settings that superpixels are made by: finer ones where every label is painted and outlines are all."""
    painted = [check_label_image(s, shape, "seeds") for s, shape in zip(seeds, shapes, strict=True) if s is not None]
    numbers = set().union(*(np.unique(np.asarray(image)).tolist() for image in painted)) - {0}
    detail = settings.painted_detail
    if detail == 1 or settings.steering == 0 or not closes_labels(settings, len(numbers)):
        return settings
    count = None if settings.site_count is None else round(settings.site_count * detail)
    return settings.replace(site_size=max(1, round(settings.site_size / detail)), site_count=count)


def _divided(sites: Sites, pixels: NormalizedImage, settings: Settings, seeds: ArrayLike | None) -> Sites:
    """The sites, cut where seeds of several labels meet in one, if seeds steer."""
    if seeds is None or settings.steering == 0:
        return sites
    return split_sites(sites, np.asarray(check_label_image(seeds, sites.shape, "seeds")), pixels.channels)[0]


def _prepare_several(
    images: Sequence[NDArray[Any]],
    settings: Settings,
    each: tuple[Sequence[Any], ...],
    beta: ArrayLike | None,
    codebook: Codebook | None,
    linked: bool,
    report: Report,
) -> SharedProblem:
    """As :func:`prepare`, of several images that share their clusters; `each` has their sites, masks and seeds."""
    sites, masks, seeds = each
    images = [_finite(i, settings.axes, s, m) for i, s, m in zip(images, sites, masks, strict=True)]
    objects = settings.signal == "objects"
    pictures = normalize_images(images, settings.axes, objects, settings.calm)
    pictures = [replace(p, spacing=get_spacing(settings, len(p.shape))) for p in pictures]
    report(Stage("superpixels"), None)
    uncut = _sites_of_all(pictures, _finer(settings, seeds, [p.shape for p in pictures]), sites, masks)
    own_sites = [_divided(s, p, settings, one) for s, p, one in zip(uncut, pictures, seeds, strict=True)]
    report(Stage("graph"), None)
    graphs = [build_region_graph(p, s, settings.neighbourhood) for p, s in zip(pictures, own_sites, strict=True)]
    graph = concatenate_graphs(graphs)
    report(Stage("features"), None)
    features = ImageFeatures(pictures, own_sites, settings, codebook)
    blocks = build_likelihoods(features, graph)
    values = compute_joint_couplings(graphs, graph, settings, features) if beta is None else None
    if linked:
        links = find_links(pictures, own_sites, graphs)
        more = compute_link_couplings(links, graph, settings, features)
        inside = np.zeros(len(graph.edges)) if values is None else values
        graph, inside = add_links(graph, inside, links, more)
        values = None if values is None else inside
    return SharedProblem(
        n=graph.n,
        likelihoods=blocks,
        edges=graph.edges,
        beta=to_float_array("beta", beta) if values is None else values,
        prior=priors.make_prior(settings),
        graph=graph,
        settings=settings,
        site_images=number_consecutively(own_sites),
        signals=tuple(p.channels[..., 0] for p in pictures) if objects else None,
    )


def _sites_of_all(
    pictures: Sequence[NormalizedImage], settings: Settings, sites: Sequence[Any], masks: Sequence[Any]
) -> list[Sites]:
    """The sites of each image, 1.. in each: given ones, or superpixels of one size in all images."""
    inside = [check_mask(mask, p.shape) for p, mask in zip(pictures, masks, strict=True)]
    pixels = [int(np.prod(p.shape)) if i is None else int(i.sum()) for p, i in zip(pictures, inside, strict=True)]
    wanted = settings.site_count_for(sum(pixels), pixel_volume(pictures[0].spacing))
    own_sites = []
    for p, given, where, count in zip(pictures, sites, inside, pixels, strict=True):
        share = settings.replace(site_count=max(1, round(wanted * count / sum(pixels))))
        own_sites.append(make_superpixels(p, share, where) if given is None else validate_sites(given, p.shape, where))
    return own_sites


def _prepare_lazy(
    image: LazyImage,
    settings: Settings,
    given: Mapping[str, Any],
    maps: Mapping[str, Any],
    beta: ArrayLike | None,
    report: Report,
) -> Problem:
    """As :func:`prepare`, of a lazy image: in blocks, unless it is small enough to be taken at once.

    `given` has its sites, its mask and its codebook, `maps` what else is beside it.
    """
    sites, mask, codebook = given["sites"], given["mask"], given["codebook"]
    grid = image.grid(settings.block_pixels)
    if len(grid) == 1:
        sites, mask = (None if a is None else to_array("sites and mask", a) for a in (sites, mask))
        at_once = settings.replace(axes=image.axes)
        beside = {"sites": sites, "mask": mask, "codebook": codebook, **maps}
        problem = prepare(image.read_all(), at_once, beta=beta, report=report, **beside)
        assert problem.settings is not None
        done = settings.replace(objects=problem.settings.objects)
        return replace(problem, sites=BlockedLabels.of(problem.site_image), settings=done)

    settings = settings.replace(objects="classical")

    def blocks_done(count: int) -> None:
        report(Stage("blocks", count, len(grid)), None)
        if count == len(grid):
            report(Stage("assembly"), None)

    assembled = assemble(image, grid, settings, sites, mask, codebook, blocks_done, maps)
    origin = {"sites": assembled.sites, "block_context": assembled.context}
    return _problem(assembled.features, assembled.graph, settings, beta, assembled.maps, **origin)


def _problem(
    features: SiteFeatures,
    graph: RegionGraph,
    settings: Settings,
    beta: ArrayLike | None,
    maps: SiteMaps,
    **origin: Any,
) -> Problem:
    """What is sampled, from the features and the graph of the sites; `origin` says where they came from."""
    if beta is None:
        values = compute_couplings(graph, settings, features)
        if maps.edge_sums is not None:
            values = values + compute_map_couplings(maps.edge_sums, graph, settings)
    else:
        values = to_float_array("beta", beta)
    return Problem(
        n=graph.n,
        likelihoods=add_feature_channels(build_likelihoods(features, graph), maps.features),
        edges=graph.edges,
        beta=values,
        prior=priors.make_prior(settings),
        graph=graph,
        settings=settings,
        map_field=None if maps.foreground is None else make_foreground_field(maps.foreground, settings),
        maps=maps.notes,
        **origin,
    )


def add_feature_channels(blocks: tuple[Likelihood, ...], more: Gaussian | None) -> tuple[Likelihood, ...]:
    """The blocks with one of channels that a user gives; channels of the same weight are one block."""
    if more is None:
        return blocks
    for b, block in enumerate(blocks):
        if isinstance(block, Gaussian) and block.evidence == more.evidence:
            return (*blocks[:b], _joined(block, more), *blocks[b + 1 :])
    return (*blocks, more)


def _joined(one: Gaussian, other: Gaussian) -> Gaussian:
    """Two blocks of the same weight and prior as one with the channels of both."""
    return replace(
        one,
        sums=np.concatenate((one.sums, other.sums), axis=1),
        squares=np.concatenate((one.squares, other.squares), axis=1),
        variance=np.concatenate((one.variance, other.variance)),
    )


def load_codebook(settings: Settings) -> Codebook | None:
    """The codebook of the file that the settings name, if they name one."""
    return None if settings.codebook in ("auto", "shipped", "image") else Codebook.load(settings.codebook)


def build_likelihoods(words: SiteFeatures, graph: RegionGraph) -> tuple[Likelihood, ...]:
    """The blocks of the likelihood that the settings ask for, with one row for each site."""
    settings = words.settings
    histograms, blocks = [], []
    if settings.likelihood == "gaussian":
        blocks.append(words.channels)
    elif settings.likelihood == "none":
        if settings.position > 0:
            blocks.append(words.position)
    else:
        histograms.append((words.colour, settings.phi, settings.evidence))
        if settings.position > 0:
            blocks.append(words.position)
    if settings.texture_words > 0:
        histograms.append((words.texture, settings.texture_phi, settings.texture_evidence))
    if settings.graph_passes > 0:
        steps = make_transition_matrix(graph, settings.graph_scale)
        histograms = [(smooth_counts(h, steps, settings.graph_passes), phi, s) for h, phi, s in histograms]
    return (*(DirichletMultinomial(h, phi, s) for h, phi, s in histograms), *blocks)
