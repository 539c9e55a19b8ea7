"""An image that does not fit into memory -> sites, graph and features, block by block.

    lazy image --sample--> span, words                    the same for every block
        \\--blocks, each with a halo--> Block             in parallel; pixels are forgotten here
            \\--stitched across borders--> Mosaic, RegionGraph, BlockFeatures

What comes out is one problem for the whole image, which the chain samples as any other: nothing of the model is cut at
a border. In memory are at any time a block for each worker, and a few hundred bytes for each site.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import vstack

from napari_gsw.core.blocks.block import Block, BlockContext, describe_block, load_photo_codebooks
from napari_gsw.core.blocks.stitching import count_pieces_before, stitch_blocks
from napari_gsw.core.errors import InputError
from napari_gsw.core.features.codebook import Codebook
from napari_gsw.core.features.input_maps import open_input_maps, sites_source
from napari_gsw.core.features.network import load_network
from napari_gsw.core.features.site_features import BlockFeatures
from napari_gsw.core.features.texture import compute_texture
from napari_gsw.core.features.words import choose_colour_codebook, choose_texture_codebook, smear_counts
from napari_gsw.core.graph.map_evidence import SiteMaps, merge_block_maps
from napari_gsw.core.graph.region_graph import RegionGraph, add_second_order, merge_contacts
from napari_gsw.core.image import lazy
from napari_gsw.core.image.block_grid import Grid, Slices, spread_tiles
from napari_gsw.core.image.foreground_signal import estimate_signal_scale
from napari_gsw.core.image.lazy import LazyImage
from napari_gsw.core.image.normalized_image import check_image, estimate_denoised_range, estimate_range
from napari_gsw.core.image.spacing import get_spacing, pixel_volume
from napari_gsw.core.settings import Settings
from napari_gsw.core.sites.blocked_labels import BlockedLabels
from napari_gsw.core.special import sum_by_group, sum_sparse_by_group

# Parts of an image from which its span and its words are learnt: how many, and pixels of each.
SAMPLES, SAMPLE_PIXELS = 64, 2**16
# Pixels that filters reach, and what a signal's gain reaches.
LEAST_HALO, SIGNAL_HALO = 16, 64
# Learnt couplings look at some ten thousand bytes a site.
MAX_LEARNT_SITES = 100_000


class AssembledImage(NamedTuple):
    """A large image as the model sees it."""

    sites: BlockedLabels
    graph: RegionGraph
    features: BlockFeatures
    context: BlockContext
    maps: SiteMaps = SiteMaps()


def assemble(
    image: LazyImage,
    grid: Grid,
    settings: Settings,
    sites: Any = None,
    mask: Any = None,
    codebook: Codebook | None = None,
    done: Callable[[int], None] = lambda blocks: None,
    given: Mapping[str, Any] | None = None,
) -> AssembledImage:
    """Go over the blocks and put together what they say.

    Parameters
    ----------
    sites, mask : of the image's space, lazy or not; see :func:`napari_gsw.prepare`.
    done : called with the number of finished blocks.
    given : maps beside the image by name, lazy or not.
    """
    for name, array in (("sites", sites), ("mask", mask)):
        if array is not None and tuple(array.shape) != image.shape:
            raise InputError(f"{name} must have the image's shape {image.shape}, not {tuple(array.shape)}")
    context = block_context(image, grid, settings, sites, mask)
    context = replace(context, maps=open_input_maps(given or {}, image.shape, settings, sample_tiles(context)))
    context = with_codebooks(context, codebook)
    blocks = lazy.map_blocks(describe_block, [(context, index) for index in grid], done)
    return assemble_blocks(context, blocks)


def block_context(image: LazyImage, grid: Grid, settings: Settings, sites: Any, mask: Any) -> BlockContext:
    """The context of an image's blocks, without what has to be looked for in its pixels."""
    pixels = int(np.prod(image.shape))
    # The mask's pixels are not counted, which would mean to read it all: sites are then as large as without one.
    volume = pixel_volume(get_spacing(settings, len(image.shape)))
    size = pixels / settings.site_count_for(pixels, volume)
    across = int(np.ceil((size * volume) ** (1 / len(image.shape))))
    halo = max(LEAST_HALO, 2 * across, SIGNAL_HALO if settings.signal == "objects" else 0)
    # Volumes have no learnt couplings, which is said where these are asked for.
    network = settings.coupling == "learnt" and len(image.shape) == 2 and load_network(settings.network, "photo")
    return BlockContext(
        image.array, image.letters, settings, grid, halo, max(2, across), size, sites, mask, network=bool(network)
    )


def sample_tiles(context: BlockContext) -> list[Slices]:
    """Parts of the image from which its span, its words and the ranges of maps are learnt."""
    side = max(8, round(SAMPLE_PIXELS ** (1 / len(context.grid.shape))))
    return spread_tiles(context.grid.shape, SAMPLES, side)


def with_codebooks(context: BlockContext, codebook: Codebook | None) -> BlockContext:
    """The context with the span of the image and its codebooks, learnt from parts that are spread over it."""
    settings = context.settings
    where = sample_tiles(context)
    parts = [context.pixels(part) for part in where]
    for part in parts:
        check_image(part, context.axes)
    rgb = "S" in context.letters and parts[0].shape[-1] == 3
    if settings.signal == "objects":
        seen = context = replace(context, levels=estimate_signal_scale(parts, rgb, settings.calm, context.spacing))
    else:
        span, parts = estimate_denoised_range(parts, rgb) if settings.calm else (estimate_range(parts, rgb), parts)
        context = replace(context, span=span)
        seen = replace(context, span=span._replace(noise=None))  # which has been taken off these parts
    context = replace(context, halo=context.halo + context.noise_reach)
    books, counts = {}, ["luminance"] if settings.likelihood == "luminance" else []
    if settings.likelihood == "words" or settings.texture_words > 0:
        pictures = [seen.picture_of(part) for part in parts]
        inside = [
            np.ones(p.shape, bool) if context.mask is None else lazy.read(context.mask, w) != 0
            for p, w in zip(pictures, where, strict=True)
        ]
        if not any(part.any() for part in inside):
            inside = [np.ones(p.shape, bool) for p in pictures]
    if settings.likelihood == "words":
        books["colour"] = choose_colour_codebook(pictures, inside, settings, codebook)
    if settings.texture_words > 0:
        books["texture"] = choose_texture_codebook(
            [compute_texture(p.luminance) for p in pictures], inside, settings.texture_words
        )
    if settings.coupling == "learnt":
        books |= load_photo_codebooks()
    return replace(context, books=books, counts=(*counts, *books))


def assemble_blocks(context: BlockContext, blocks: Sequence[Block]) -> AssembledImage:
    """Sites, graph and features of the whole image."""
    site, touching = stitch_blocks(context, blocks)
    if not len(site):
        raise InputError("there is no site: every pixel is masked or 0 (background)")
    n, first = int(site.max()) + 1, count_pieces_before(blocks)
    numbers = [np.concatenate(([0], site[first[b] : first[b + 1]] + 1)).astype(np.int32) for b in range(len(blocks))]
    mosaic = BlockedLabels(context.grid, [block.pieces for block in blocks], numbers)
    mass = np.bincount(site, np.concatenate([b.mass for b in blocks]), n).astype(np.int64)
    sums = sum_by_group(np.concatenate([b.sums for b in blocks]), site, n)
    totals = sum_by_group(np.concatenate([b.squares for b in blocks]), site, n)
    words = {}
    for name in context.counts:
        words[name] = sum_sparse_by_group(vstack([b.words.pop(name) for b in blocks], format="csr"), site, n).astype(
            np.int64
        )
    if "colour" in words:
        words["colour"] = smear_counts(words["colour"], context.books["colour"])
    edges = np.concatenate([b.edges + start for b, start in zip(blocks, first[:-1], strict=True)] + [touching.pairs])
    length = np.concatenate([b.length for b in blocks] + [touching.length])
    steps = np.concatenate([b.steps for b in blocks] + [touching.steps])
    ndim = len(context.grid.shape)
    pieces = [b.maps for b in blocks if b.maps is not None]
    looks = sums[:, :-ndim]
    if context.maps.features is not None and sites_source(context.settings, context.maps) == "features":
        looks = sum_by_group(np.concatenate([b.sums for b in pieces]), site, n) * context.maps.features.lab_per_unit
    means = looks / mass[:, np.newaxis]
    graph = merge_contacts(n, site[edges].astype(np.int64), length, steps, mass, means)
    if context.settings.neighbourhood == 2:
        graph = add_second_order(graph)
    if context.settings.coupling == "learnt" and n > MAX_LEARNT_SITES:
        raise InputError(
            f"coupling learnt is for at most {MAX_LEARNT_SITES:,} sites, not {n:,}; choose coupling contrast (preset "
            f"general), or larger sites (most_sites {MAX_LEARNT_SITES})"
        )
    rgb = "S" in context.letters and context.settings.signal != "objects" and sums.shape[1] == ndim + 3
    features = BlockFeatures(context.settings, rgb, ndim, mass, sums, totals, words)
    if context.network:
        along = np.concatenate([*(b.drawn for b in blocks if b.drawn is not None), touching.drawn])
        # The mean of what is summed over the faces, as the contrast is of the steps.
        drawn = merge_contacts(n, site[edges].astype(np.int64), length, along, mass, means).contrast
        places = sum_by_group(np.concatenate([b.places for b in blocks if b.places is not None]), site, n)
        features = replace(features, embedding_sums=places, edge_sums=drawn * graph.length[: len(drawn)])
    edge_sums = None
    if context.maps.boundaries is not None:
        along = np.concatenate([*(b.edge_sums for b in pieces), touching.marked])
        marked = merge_contacts(n, site[edges].astype(np.int64), length, along, mass, means).contrast
        edge_sums = marked * graph.length[: len(marked)]
    maps = (
        merge_block_maps(context.maps, pieces, site, mass, edge_sums, context.settings) if context.maps else SiteMaps()
    )
    return AssembledImage(mosaic, graph, features, context, maps)
