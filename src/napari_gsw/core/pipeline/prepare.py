"""Image and settings -> a problem: superpixels, graph, features, couplings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from napari_gsw.core.errors import InputError
from napari_gsw.core.evidence.codebook import Codebook
from napari_gsw.core.evidence.likelihoods import DirichletMultinomial, Likelihood
from napari_gsw.core.evidence.site_features import ImageFeatures, SiteFeatures
from napari_gsw.core.graph.couplings import couplings
from napari_gsw.core.graph.random_walk import smoothed_counts, walk_matrix
from napari_gsw.core.graph.region_graph import RegionGraph, region_graph
from napari_gsw.core.image.lazy import is_lazy
from napari_gsw.core.image.lazy_image import LazyImage, open_lazy
from napari_gsw.core.image.object_signal import signal_picture
from napari_gsw.core.image.picture import picture
from napari_gsw.core.model import priors
from napari_gsw.core.model.block_assembly import assemble
from napari_gsw.core.model.problem import Problem
from napari_gsw.core.pipeline.stage import Report, Stage
from napari_gsw.core.presets import DEFAULT_PRESET, preset
from napari_gsw.core.settings import Settings
from napari_gsw.core.sites.mosaic import Mosaic
from napari_gsw.core.sites.superpixels import given_sites, superpixels


def resolve(settings: Settings | None, preset_name: str | None, changes: Mapping[str, Any]) -> Settings:
    """One Settings object from an object or a preset's name, and changes by keyword."""
    if settings is not None:
        if preset_name is not None:
            raise InputError("give a preset or a Settings object, not both")
        return settings.replace(**changes)
    return preset(preset_name or DEFAULT_PRESET, **changes)


def _own(
    beta: ArrayLike | None, codebook: Codebook | str | None, changes: dict[str, Any]
) -> tuple[ArrayLike | None, Codebook | None, dict[str, Any]]:
    """Two arguments that are settings when they are a number or a word, and data otherwise."""
    if beta is not None and np.ndim(beta) == 0:
        beta, changes = None, changes | {"beta": beta}
    if isinstance(codebook, str):
        codebook, changes = None, changes | {"codebook": codebook}
    return beta, codebook, changes


def prepare(
    image: ArrayLike,
    settings: Settings | None = None,
    *,
    preset: str | None = None,
    sites: ArrayLike | None = None,
    mask: ArrayLike | None = None,
    beta: ArrayLike | None = None,
    codebook: Codebook | str | None = None,
    report: Report | None = None,
    **changes: Any,
) -> Problem:
    """Image -> superpixels, features, graph, couplings: everything the chain needs.

    Parameters
    ----------
    image : 2D or 3D, grey, RGB, RGBA or with any number of channels, of any numeric type; see ``axes``. A dask or zarr
        array, a list of them from fine to coarse or an OME-Zarr group is read in blocks, of which only a few are in
        memory at a time; what is painted from its sites is lazy.
    settings, preset, \\*\\*changes : a Settings object or the name of a preset, and single settings by name.
    sites : superpixels of the user's own, a label image of the image's shape with 0 for background.
    mask : non-zero where the image is to be segmented.
    beta : instead of the setting, one number or an array with a coupling for each edge of ``problem.edges``.
    codebook : colour words, as the setting names them or as a :class:`Codebook`.
    report : called with each :class:`~napari_gsw.core.pipeline.stage.Stage` as it begins, and as its blocks are done.
    """
    beta, codebook, changes = _own(beta, codebook, changes)
    chosen = resolve(settings, preset, changes)
    tell = report or (lambda stage, snapshot: None)
    prior = priors.from_settings(chosen)
    if is_lazy(image):
        return _prepare_lazy(open_lazy(image, chosen.axes), chosen, prior, sites, mask, beta, codebook, tell)
    objects = chosen.signal == "objects"
    seen = signal_picture(image, chosen.axes) if objects else picture(image, chosen.axes)
    tell(Stage("superpixels"), None)
    made = superpixels(seen, chosen, mask) if sites is None else given_sites(sites, seen.shape, mask)
    tell(Stage("graph"), None)
    graph = region_graph(seen, made, chosen.neighbourhood)
    tell(Stage("features"), None)
    words = ImageFeatures(seen, made, chosen, codebook)
    blocks = likelihoods(words, graph)
    strengths = couplings(graph, chosen, words) if beta is None else np.asarray(beta, dtype=np.float64)
    light = seen.channels[..., 0] if objects else None
    return Problem(graph.n, blocks, graph.edges, strengths, prior, made, graph, chosen, light)


def _prepare_lazy(
    image: LazyImage,
    settings: Settings,
    prior: priors.PartitionPrior,
    sites: Any,
    mask: Any,
    beta: ArrayLike | None,
    codebook: Codebook | None,
    tell: Report,
) -> Problem:
    grid = image.grid(settings.block_pixels)
    if len(grid) == 1:
        sites, mask = (None if a is None else np.asarray(a) for a in (sites, mask))
        whole = settings.replace(axes=image.axes)
        made = prepare(image.whole(), whole, sites=sites, mask=mask, beta=beta, codebook=codebook, report=tell)
        return replace(made, sites=Mosaic.whole(made.site_image), settings=settings)

    def done(blocks: int) -> None:
        tell(Stage("blocks", blocks, len(grid)), None)
        if blocks == len(grid):
            tell(Stage("assembly"), None)

    assembled = assemble(image, grid, settings, sites, mask, codebook, done)
    graph, features = assembled.graph, assembled.features
    blocks = likelihoods(features, graph)
    strengths = couplings(graph, settings, features) if beta is None else np.asarray(beta, dtype=np.float64)
    return Problem(
        graph.n,
        blocks,
        graph.edges,
        strengths,
        prior,
        assembled.sites,
        graph,
        settings,
        block_context=assembled.context,
    )


def named_codebook(settings: Settings) -> Codebook | None:
    """The codebook of the file that the settings name, if they name one."""
    return None if settings.codebook in ("auto", "shipped", "image") else Codebook.load(settings.codebook)


def likelihoods(words: SiteFeatures, graph: RegionGraph) -> tuple[Likelihood, ...]:
    """The blocks of the likelihood that the settings ask for, with one row for each site."""
    settings = words.settings
    histograms, blocks = [], []
    if settings.likelihood == "gaussian":
        blocks.append(words.channels)
    else:
        histograms.append((words.colour, settings.phi, settings.evidence))
        if settings.position > 0:
            blocks.append(words.place)
    if settings.texture_words > 0:
        histograms.append((words.texture, settings.texture_phi, settings.texture_evidence))
    if settings.graph_passes > 0:
        steps = walk_matrix(graph, settings.graph_scale)
        histograms = [(smoothed_counts(h, steps, settings.graph_passes), phi, s) for h, phi, s in histograms]
    return (*(DirichletMultinomial(h, phi, s) for h, phi, s in histograms), *blocks)
