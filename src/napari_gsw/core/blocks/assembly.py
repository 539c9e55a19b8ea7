"""Build one problem for an image that does not fit into memory.

    lazy image --sample--> intensity range, codebooks             the same for every block
        --blocks, each with a halo--> Block                       in parallel; pixels are dropped here
            --stitched at borders--> BlockedLabels, RegionGraph, BlockFeatures

The chain samples the whole image as one problem: nothing in the model ends at a block border. Memory holds one block
for each worker, and a few hundred bytes for each site.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import vstack

from napari_gsw.core.array_types import Float64Array
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

# Number of tiles from which the intensity range and the codebooks are learnt, and pixels of each.
SAMPLES, SAMPLE_PIXELS = 64, 2**16
# Pixels that filters reach, and that the gain of a foreground signal reaches.
MIN_HALO, SIGNAL_HALO = 16, 64
# Learnt couplings need about ten thousand bytes a site.
MAX_LEARNT_SITES = 100_000


class AssembledImage(NamedTuple):
    """Everything that a problem needs of a chunked image."""

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
    """Describe all blocks and combine them.

    Parameters
    ----------
    sites, mask : label image and mask of the image's shape, lazy or not; see :func:`napari_gsw.prepare`.
    done : called with the number of finished blocks.
    given : input maps by name, lazy or not.
    """
    for name, array in (("sites", sites), ("mask", mask)):
        if array is not None and tuple(array.shape) != image.shape:
            raise InputError(f"{name} must have the image's shape {image.shape}, not {tuple(array.shape)}")
    context = make_context(image, grid, settings, sites, mask)
    context = replace(context, maps=open_input_maps(given or {}, image.shape, settings, sample_tiles(context)))
    context = add_codebooks(context, codebook)
    blocks = lazy.map_blocks(describe_block, [(context, index) for index in grid], done)
    return assemble_blocks(context, blocks)


def make_context(image: LazyImage, grid: Grid, settings: Settings, sites: Any, mask: Any) -> BlockContext:
    """Make the context of the blocks, without what has to be estimated from pixels."""
    n_pixels, ndim = int(np.prod(image.shape)), len(image.shape)
    # Pixels of the mask are not counted, which would mean reading all of it: sites are as large as without one.
    volume = pixel_volume(get_spacing(settings, ndim))
    size = n_pixels / settings.site_count_for(n_pixels, volume)
    side = int(np.ceil((size * volume) ** (1 / ndim)))
    halo = max(MIN_HALO, 2 * side, SIGNAL_HALO if settings.signal == "objects" else 0)
    # Learnt couplings of volumes are refused elsewhere.
    network = bool(settings.coupling == "learnt" and ndim == 2 and load_network(settings.network, "photo"))
    band = max(2, side)
    return BlockContext(image.array, image.letters, settings, grid, halo, band, size, sites, mask, network=network)


def sample_tiles(context: BlockContext) -> list[Slices]:
    """Return tiles from which intensity range, codebooks and ranges of maps are estimated."""
    side = max(8, round(SAMPLE_PIXELS ** (1 / len(context.grid.shape))))
    return spread_tiles(context.grid.shape, SAMPLES, side)


def add_codebooks(context: BlockContext, codebook: Codebook | None) -> BlockContext:
    """Estimate the intensity range of the image and learn its codebooks from tiles that are spread over it."""
    settings = context.settings
    tiles = sample_tiles(context)
    samples = [context.pixels(tile) for tile in tiles]
    for sample in samples:
        check_image(sample, context.axes)
    rgb = "S" in context.letters and samples[0].shape[-1] == 3
    if settings.signal == "objects":
        levels = estimate_signal_scale(samples, rgb, settings.calm, context.spacing)
        sampled = context = replace(context, levels=levels)
    else:
        if settings.calm:
            span, samples = estimate_denoised_range(samples, rgb)
        else:
            span = estimate_range(samples, rgb)
        context = replace(context, span=span)
        sampled = replace(context, span=span._replace(noise=None))  # these tiles are denoised already
    context = replace(context, halo=context.halo + context.noise_reach)
    books, counts = {}, ["luminance"] if settings.likelihood == "luminance" else []
    if settings.likelihood == "words" or settings.texture_words > 0:
        images = [sampled.picture_of(sample) for sample in samples]
        masks = [np.ones(image.shape, bool) for image in images]
        if context.mask is not None:
            read = [lazy.read(context.mask, tile) != 0 for tile in tiles]
            masks = read if any(mask.any() for mask in read) else masks
    if settings.likelihood == "words":
        books["colour"] = choose_colour_codebook(images, masks, settings, codebook)
    if settings.texture_words > 0:
        textures = [compute_texture(image.luminance) for image in images]
        books["texture"] = choose_texture_codebook(textures, masks, settings.texture_words)
    if settings.coupling == "learnt":
        books |= load_photo_codebooks()
    return replace(context, books=books, counts=(*counts, *books))


def assemble_blocks(context: BlockContext, blocks: Sequence[Block]) -> AssembledImage:
    """Combine the sites, graphs and features of all blocks."""
    settings = context.settings
    site, touching = stitch_blocks(context, blocks)
    if not len(site):
        raise InputError("there is no site: every pixel is masked or 0 (background)")
    n, first, ndim = int(site.max()) + 1, count_pieces_before(blocks), len(context.grid.shape)
    numbers = [np.concatenate(([0], site[first[b] : first[b + 1]] + 1)).astype(np.int32) for b in range(len(blocks))]
    labels = BlockedLabels(context.grid, [block.pieces for block in blocks], numbers)
    mass = np.bincount(site, np.concatenate([b.mass for b in blocks]), n).astype(np.int64)
    sums = sum_by_group(np.concatenate([b.sums for b in blocks]), site, n)
    totals = sum_by_group(np.concatenate([b.squares for b in blocks]), site, n)
    words = {}
    for name in context.counts:
        counts = vstack([b.words.pop(name) for b in blocks], format="csr")
        words[name] = sum_sparse_by_group(counts, site, n).astype(np.int64)
    if "colour" in words:
        words["colour"] = smear_counts(words["colour"], context.books["colour"])
    maps = [b.maps for b in blocks if b.maps is not None]
    colours = sums[:, :-ndim]
    if context.maps.features is not None and sites_source(settings, context.maps) == "features":
        colours = sum_by_group(np.concatenate([b.sums for b in maps]), site, n) * context.maps.features.lab_per_unit
    means = colours / mass[:, np.newaxis]
    edges = np.concatenate([b.edges + start for b, start in zip(blocks, first[:-1], strict=True)] + [touching.pairs])
    edges = site[edges].astype(np.int64)
    length = np.concatenate([b.length for b in blocks] + [touching.length])
    steps = np.concatenate([b.steps for b in blocks] + [touching.steps])
    graph = merge_contacts(n, edges, length, steps, mass, means)
    if settings.neighbourhood == 2:
        graph = add_second_order(graph)
    if settings.coupling == "learnt" and n > MAX_LEARNT_SITES:
        raise InputError(
            f"coupling learnt is for at most {MAX_LEARNT_SITES:,} sites, not {n:,}; choose coupling contrast (preset "
            f"general), or larger sites (most_sites {MAX_LEARNT_SITES})"
        )

    def sum_along_edges(values: list[Float64Array]) -> Float64Array:
        """Sum over the faces of each edge what is given by contact, as the contrast is summed of steps."""
        mean = merge_contacts(n, edges, length, np.concatenate(values), mass, means).contrast
        return mean * graph.length[: len(mean)]

    rgb = "S" in context.letters and settings.signal != "objects" and sums.shape[1] == ndim + 3
    features = BlockFeatures(settings, rgb, ndim, mass, sums, totals, words)
    if context.network:
        edge_sums = sum_along_edges([*(b.drawn for b in blocks if b.drawn is not None), touching.drawn])
        places = sum_by_group(np.concatenate([b.places for b in blocks if b.places is not None]), site, n)
        features = replace(features, embedding_sums=places, edge_sums=edge_sums)
    if not context.maps:
        return AssembledImage(labels, graph, features, context)
    log_odds = None
    if context.maps.boundaries is not None:
        log_odds = sum_along_edges([*(b.edge_sums for b in maps), touching.marked])
    site_maps = merge_block_maps(context.maps, maps, site, mass, log_odds, settings)
    return AssembledImage(labels, graph, features, context, site_maps)
