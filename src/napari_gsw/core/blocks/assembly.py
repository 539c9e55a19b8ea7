"""Build one problem for an image that does not fit into memory.

    lazy image --sample--> intensity range, codebooks             the same for every block
        --blocks, each with a halo--> Block                       in parallel; pixels are dropped here
            --stitched at borders--> BlockedLabels, RegionGraph, BlockFeatures

The chain samples the whole image as one problem: nothing in the model ends at a block border. Memory holds one block
for each worker, and a few hundred bytes for each site.

Superpixels of two blocks are made separately, but each block includes some pixels beyond its border. Where a superpixel
of one block and one of the other share more than half of their pixels near the border, their pieces become one site. A
piece that the border has cut off and that is too small joins the site across the border that it touches most.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import vstack

from napari_gsw.core.array_types import Float64Array, Int32Array, Int64Array
from napari_gsw.core.blocks.block import HIGH, LOW, Block, BlockContext, describe_block
from napari_gsw.core.errors import InputError
from napari_gsw.core.features.codebook import Codebook, load_builtin_codebook
from napari_gsw.core.features.input_maps import open_input_maps, sites_source
from napari_gsw.core.features.network import load_network
from napari_gsw.core.features.site_features import BlockFeatures
from napari_gsw.core.features.texture import compute_texture
from napari_gsw.core.features.words import choose_colour_codebook, choose_texture_codebook, smear_counts
from napari_gsw.core.graph.map_evidence import SiteMaps, merge_block_maps
from napari_gsw.core.graph.region_graph import RegionGraph, add_second_order, group_connected, merge_contacts
from napari_gsw.core.image import lazy
from napari_gsw.core.image.block_grid import Grid, spread_tiles
from napari_gsw.core.image.foreground_signal import estimate_signal_scale
from napari_gsw.core.image.lazy import LazyImage
from napari_gsw.core.image.normalized_image import check_image, estimate_denoised_range, estimate_range
from napari_gsw.core.image.spacing import face_areas, get_spacing, pixel_volume
from napari_gsw.core.partitions import canonical_labels
from napari_gsw.core.settings import Settings
from napari_gsw.core.sites.blocked_labels import BlockedLabels
from napari_gsw.core.special import sum_by_group, sum_sparse_by_group

# Number of tiles from which the intensity range and the codebooks are learnt, and pixels of each.
SAMPLES, SAMPLE_PIXELS = 64, 2**16
# Pixels that filters reach, and that the gain of a foreground signal reaches.
MIN_HALO, SIGNAL_HALO = 16, 64
# Learnt couplings need about ten thousand bytes a site.
MAX_LEARNT_SITES = 100_000
# Superpixels of two blocks with a larger intersection over union near the border are one.
MIN_OVERLAP = 0.5
# Pieces at a border with a smaller fraction of the pixels of a site join another.
MIN_PIECE = 0.25
# Spaces of the codebooks that learnt couplings use, by the names of their histograms.
PHOTO_SPACES = {"colour": "lab", "texture": "texture"}
# What the two pixels of a face across a border give together, by the plane of a border that is compared.
PLANES: Mapping[str, Callable[[NDArray[Any], NDArray[Any]], NDArray[Any]]] = {
    "channels": lambda a, b: np.linalg.norm((a - b).astype(np.float64), axis=-1),
    "drawn": lambda a, b: (a.astype(np.float64) + b) / 2,
    "marked": np.maximum,
}


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

    Sites, mask and input maps by name (`given`) are lazy or not; see :func:`napari_gsw.prepare`. `done` is called with
    the number of finished blocks.
    """
    for name, array in (("sites", sites), ("mask", mask)):
        if array is not None and tuple(array.shape) != image.shape:
            raise InputError(f"{name} must have the image's shape {image.shape}, not {tuple(array.shape)}")
    n_pixels, ndim = int(np.prod(image.shape)), len(image.shape)
    # Pixels of the mask are not counted, which would mean reading all of it: sites are as large as without one.
    volume = pixel_volume(get_spacing(settings, ndim))
    size = n_pixels / settings.site_count_for(n_pixels, volume)
    side = int(np.ceil((size * volume) ** (1 / ndim)))
    halo = max(MIN_HALO, 2 * side, SIGNAL_HALO if settings.signal == "objects" else 0)
    # Learnt couplings of volumes are refused elsewhere.
    network = bool(settings.coupling == "learnt" and ndim == 2 and load_network(settings.network, "photo"))
    band = max(2, side)
    context = BlockContext(image.array, image.letters, settings, grid, halo, band, size, sites, mask, network=network)
    context = _estimate_context(context, codebook, given or {})
    return assemble_blocks(context, lazy.map_blocks(describe_block, [(context, index) for index in grid], done))


def _estimate_context(context: BlockContext, codebook: Codebook | None, given: Mapping[str, Any]) -> BlockContext:
    """Estimate the ranges of the image and of its maps, and learn codebooks, from tiles that are spread over it."""
    settings, shape = context.settings, context.grid.shape
    tiles = spread_tiles(shape, SAMPLES, max(8, round(SAMPLE_PIXELS ** (1 / len(shape)))))
    maps = open_input_maps(given, shape, settings, tiles)
    samples = [context.pixels(tile) for tile in tiles]
    for sample in samples:
        check_image(sample, context.axes)
    rgb = "S" in context.letters and samples[0].shape[-1] == 3
    if settings.signal == "objects":
        levels = estimate_signal_scale(samples, rgb, settings.calm, context.spacing)
        sampled = context = replace(context, maps=maps, levels=levels)
    else:
        if settings.calm:
            span, samples = estimate_denoised_range(samples, rgb)
        else:
            span = estimate_range(samples, rgb)
        context = replace(context, maps=maps, span=span)
        sampled = replace(context, span=span._replace(noise=None))  # these tiles are denoised already
    books: dict[str, Codebook] = {}
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
        books |= {f"photo_{name}": load_builtin_codebook(space) for name, space in PHOTO_SPACES.items()}
    counts = ("colour", *books) if settings.likelihood == "luminance" else tuple(books)
    return replace(context, halo=context.halo + context.noise_reach, books=books, counts=counts)


def assemble_blocks(context: BlockContext, blocks: Sequence[Block]) -> AssembledImage:
    """Combine the sites, graphs and features of all blocks."""
    settings = context.settings
    site, touching = stitch_blocks(context, blocks)
    if not len(site):
        raise InputError("there is no site: every pixel is masked or 0 (background)")
    n, first, ndim = int(site.max()) + 1, count_pieces_before(blocks), len(context.grid.shape)
    numbers = [np.concatenate(([0], site[first[b] : first[b + 1]] + 1)).astype(np.int32) for b in range(len(blocks))]
    labels = BlockedLabels(context.grid, [block.pieces for block in blocks], numbers)

    def sum_per_site(values: list[Any]) -> Float64Array:
        return sum_by_group(np.concatenate(values), site, n)

    mass = sum_per_site([b.mass for b in blocks]).astype(np.int64)
    sums, squares = sum_per_site([b.sums for b in blocks]), sum_per_site([b.squares for b in blocks])
    words: dict[str, Any] = {}
    for name in context.counts:
        counts = vstack([b.words.pop(name) for b in blocks], format="csr")
        words[name] = sum_sparse_by_group(counts, site, n).astype(np.int64)
    if "colour" in context.books:
        words["colour"] = smear_counts(words["colour"], context.books["colour"])
    maps = [b.maps for b in blocks if b.maps is not None]
    colours = sums[:, :-ndim]
    if "features" in context.maps and sites_source(settings, context.maps) == "features":
        colours = sum_per_site([b.sums for b in maps]) * context.maps["features"].lab_per_unit
    means = colours / mass[:, np.newaxis]
    edges = np.concatenate([b.edges + start for b, start in zip(blocks, first[:-1], strict=True)] + [touching.pairs])
    edges = site[edges].astype(np.int64)
    length = np.concatenate([b.length for b in blocks] + [touching.length])
    steps = np.concatenate([b.steps for b in blocks] + [touching.sums["channels"]])
    graph = merge_contacts(n, edges, length, steps, mass, means)
    if settings.neighbourhood == 2:
        graph = add_second_order(graph)
    if settings.coupling == "learnt" and n > MAX_LEARNT_SITES:
        raise InputError(
            f"coupling learnt is for at most {MAX_LEARNT_SITES:,} sites, not {n:,}; choose coupling contrast (preset "
            f"general), or larger sites (most_sites {MAX_LEARNT_SITES})"
        )

    def sum_along_edges(name: str, values: list[Float64Array]) -> Float64Array:
        """Sum over the faces of each edge what is given by contact, as the contrast is summed of steps."""
        by_contact = np.concatenate([*values, touching.sums[name]])
        mean = merge_contacts(n, edges, length, by_contact, mass, means).contrast
        return mean * graph.length[: len(mean)]

    rgb = "S" in context.letters and settings.signal != "objects" and sums.shape[1] == ndim + 3
    features = BlockFeatures(settings, rgb, ndim, mass, sums, squares, **words)
    if context.network:
        edge_sums = sum_along_edges("drawn", [b.drawn for b in blocks])
        features = replace(features, embedding_sums=sum_per_site([b.places for b in blocks]), edge_sums=edge_sums)
    if not context.maps:
        return AssembledImage(labels, graph, features, context)
    log_odds = sum_along_edges("marked", [b.edge_sums for b in maps]) if "boundaries" in context.maps else None
    site_maps = merge_block_maps(context.maps, maps, site, mass, log_odds, settings)
    return AssembledImage(labels, graph, features, context, site_maps)


class BorderContacts(NamedTuple):
    """Pieces on the two sides of borders that touch, numbered through all blocks."""

    pairs: Int64Array  # (c, 2) pieces
    length: Float64Array  # (c,) area of the faces between them
    is_same: NDArray[np.bool_]  # (c,) whether the two are one site
    sums: Mapping[str, Float64Array]  # (c,) colour differences (channels), network (drawn) and map (marked) on faces


def stitch_blocks(context: BlockContext, blocks: Sequence[Block]) -> tuple[Int32Array, BorderContacts]:
    """Return the site 0, 1, ... of each piece of all blocks, numbered by first piece, and all contacts."""
    mass = np.concatenate([block.mass for block in blocks])
    touching = _find_contacts(context, blocks)
    site = group_connected(len(mass), touching.pairs[touching.is_same])
    if context.sites is None:
        pixels = np.bincount(site, mass)
        ends = site[touching.pairs]
        across = np.concatenate((ends, ends[:, ::-1]))
        length = np.tile(touching.length, 2)
        small = (across[:, 0] != across[:, 1]) & (pixels[across[:, 0]] < MIN_PIECE * context.site_size)
        across, length = across[small], length[small]
        # The longest contact of each is written last.
        order = np.lexsort((across[:, 1], length))
        target = np.arange(len(pixels))
        target[across[order, 0]] = across[order, 1]
        site = group_connected(len(pixels), np.stack((np.arange(len(pixels)), target), axis=1))[site]
    return canonical_labels(site), touching


def count_pieces_before(blocks: Sequence[Block]) -> Int64Array:
    """Return (blocks + 1,) the number of the first piece of each block."""
    return np.concatenate(([0], np.cumsum([len(block.mass) for block in blocks]))).astype(np.int64)


def _find_contacts(context: BlockContext, blocks: Sequence[Block]) -> BorderContacts:
    """Find all pieces that touch across borders."""
    first = count_pieces_before(blocks)
    areas = face_areas(context.spacing, len(context.grid.shape))
    nothing = np.zeros(0)
    borders = [BorderContacts(np.zeros((0, 2), np.int64), nothing, np.zeros(0, bool), dict.fromkeys(PLANES, nothing))]
    for index in context.grid:
        for axis, area in enumerate(areas):
            after = context.grid.after(index, axis)
            if after is not None:
                a, b = context.grid.place(index), context.grid.place(after)
                contacts = _find_border_contacts(blocks[a], blocks[b], axis, area, context.sites is not None)
                borders.append(contacts._replace(pairs=contacts.pairs + np.array([first[a], first[b]])))
    pairs, length, is_same, sums = zip(*borders, strict=True)
    joined = {name: np.concatenate([values[name] for values in sums]) for name in PLANES}
    return BorderContacts(np.concatenate(pairs), np.concatenate(length), np.concatenate(is_same), joined)


def _find_border_contacts(a: Block, b: Block, axis: int, area: float, are_given: bool) -> BorderContacts:
    """Find contacts across the border of two blocks, with pieces numbered from 0 in each.

    Sites that the user gave (`are_given`) are the same if their numbers are.
    """
    side, opposite = a.sides[axis, HIGH], b.sides[axis, LOW]
    p, q = side.pieces.array().astype(np.int64), opposite.pieces.array().astype(np.int64)
    both = (p > 0) & (q > 0)
    stride = len(b.uncut)
    key, index, length = np.unique(p[both] * stride + q[both], return_inverse=True, return_counts=True)
    pairs = np.stack((key // stride, key % stride), axis=1)
    left, right = a.uncut[pairs[:, 0]].astype(np.int64), b.uncut[pairs[:, 1]].astype(np.int64)
    if are_given:
        is_same = left == right
    else:
        is_same = _compute_overlap(side.band.array(), opposite.band.array(), left, right) > MIN_OVERLAP
    sums: dict[str, Float64Array] = {}
    for name, combine in PLANES.items():
        values = np.zeros(int(both.sum()))
        if name in side.planes:
            values = combine(side.planes[name][both], opposite.planes[name][both]).astype(np.float64)
        sums[name] = np.asarray(area * np.bincount(index, values, len(key)), np.float64)
    return BorderContacts(pairs - 1, area * length.astype(np.float64), is_same, sums)


def _compute_overlap(
    a: NDArray[np.integer], b: NDArray[np.integer], left: Int64Array, right: Int64Array
) -> Float64Array:
    """Compute the intersection over union of superpixels `left` of image `a` and `right` of image `b`."""
    x, y = a.ravel().astype(np.int64), b.ravel().astype(np.int64)
    stride = int(y.max(initial=0)) + 1
    key, count = np.unique(x * stride + y, return_counts=True)
    wanted = left * stride + right
    at = np.minimum(np.searchsorted(key, wanted), len(key) - 1)
    shared = np.where(key[at] == wanted, count[at], 0)
    sizes = np.bincount(x, minlength=int(left.max(initial=0)) + 1)[left]
    sizes = sizes + np.bincount(y, minlength=int(right.max(initial=0)) + 1)[right]
    return np.asarray(shared / np.maximum(sizes - shared, 1))
