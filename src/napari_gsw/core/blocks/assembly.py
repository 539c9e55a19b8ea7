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

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, issparse, vstack

from napari_gsw.core.array_types import Float64Array, Int32Array, Int64Array, Sites
from napari_gsw.core.errors import InputError
from napari_gsw.core.features.codebook import (
    Codebook,
    bin_luminance,
    choose_colour_codebook,
    choose_texture_codebook,
    load_builtin_codebook,
    make_histograms,
    smear_counts,
    to_codebook_space,
    to_lab,
)
from napari_gsw.core.features.input_maps import InputMaps, make_sites, open_input_maps, select_site_image, sites_source
from napari_gsw.core.features.network import HALO, STRIDE, load_network
from napari_gsw.core.features.site_features import BlockFeatures, SiteMaps, summarize_sums_of_maps
from napari_gsw.core.features.texture import compute_texture
from napari_gsw.core.graph.region_graph import (
    RegionGraph,
    add_second_order,
    build_region_graph,
    group_connected,
    merge_contacts,
)
from napari_gsw.core.image import lazy
from napari_gsw.core.image.block_grid import Grid, Index, Slices, crop, spread_tiles
from napari_gsw.core.image.denoise import HALO as DENOISE_HALO
from napari_gsw.core.image.foreground_signal import SignalScale, compute_signal, estimate_signal_scale
from napari_gsw.core.image.lazy import LazyImage
from napari_gsw.core.image.normalized_image import (
    IntensityRange,
    NormalizedImage,
    check_image,
    estimate_range,
    fill_nonfinite,
    find_nonfinite,
    normalize_image,
    select_channels,
)
from napari_gsw.core.image.spacing import Spacing, face_areas, get_spacing, pixel_volume
from napari_gsw.core.partitions import canonical_labels
from napari_gsw.core.settings import Settings
from napari_gsw.core.sites.blocked_labels import BlockedLabels, CompressedArray
from napari_gsw.core.sites.site_values import mean_per_site, sum_over_faces
from napari_gsw.core.sites.superpixels import label_connected
from napari_gsw.core.special import sum_by_group, sum_sparse_by_group

# Number of tiles from which the intensity range and the codebooks are learnt, and pixels of each.
SAMPLES, SAMPLE_PIXELS = 64, 2**16
# Pixels that filters reach, and that the gain of a foreground signal reaches.
MIN_HALO, SIGNAL_HALO = 16, 64
# Pixels that denoising reads around a block of a volume: as many as in 2D would be several times the block.
REACH_IN_DEPTH = 16
# Learnt couplings need about ten thousand bytes a site.
MAX_LEARNT_SITES = 100_000
# Superpixels of two blocks with a larger intersection over union near the border are one.
MIN_OVERLAP = 0.5
# Pieces at a border with a smaller fraction of the pixels of a site join another.
MIN_PIECE = 0.25
# Spaces of the codebooks that learnt couplings use, by the names of their histograms.
PHOTO_SPACES = {"colour": "lab", "texture": "texture"}
# The two ends of a block along an axis.
HIGH, LOW = 1, 0
# What is summed over faces, and what the two pixels of a face across a border give together: difference in colour,
# boundary probability of the network, log odds of a map of boundaries.
FACE_SUMS: Mapping[str, Callable[[NDArray[Any], NDArray[Any]], NDArray[Any]]] = {
    "channels": lambda a, b: np.linalg.norm((a - b).astype(np.float64), axis=-1),
    "drawn": lambda a, b: (a.astype(np.float64) + b) / 2,
    "marked": np.maximum,
}


@dataclass(frozen=True, eq=False)
class BlockContext:
    """The image, and what is the same for all its blocks."""

    image: Any  # lazy array
    letters: str  # its axes, including those of length 1 that are not space
    settings: Settings
    grid: Grid  # of the blocks, in space
    halo: int  # pixels around a block that are read, too
    band: int  # pixels on either side of a border in which the sites of two blocks are compared
    site_size: float  # pixels of a site
    sites: Any = None  # of the image's shape, lazy or not, or None
    mask: Any = None
    span: IntensityRange | None = None  # intensity range of the image, or scale of its foreground signal
    levels: SignalScale | None = None
    network: bool = False  # whether learnt couplings use the network that the settings name
    maps: InputMaps = field(default_factory=InputMaps)
    counts: tuple[str, ...] = ()  # histograms to make, by their names in BlockFeatures
    books: dict[str, Codebook] = field(default_factory=dict)  # their codebooks; luminance has none

    def pixels(self, part: Slices) -> NDArray[Any]:
        """Read the values of a part of the image, with channels last."""
        space = "ZYX"[-len(part) :]
        index = [part[space.index(a)] if a in "ZYX" else slice(None) if a in "CS" else 0 for a in self.letters]
        axes = "".join(a for a in self.letters if a in "ZYXCS")
        values = select_channels(lazy.read(self.image, tuple(index)), axes)[0]  # type: ignore[arg-type]
        if find_nonfinite(values) is None or (self.sites is None and self.mask is None):
            return values
        is_used = np.ones(values.shape[:-1], bool)
        for array in (self.sites, self.mask):
            if array is not None:
                is_used &= lazy.read(array, part) != 0
        return fill_nonfinite(values, is_used)

    def picture_of(self, values: NDArray[Any]) -> NormalizedImage:
        """Normalize values of a part of the image, in this thread alone, since blocks run in parallel."""
        if self.settings.signal == "objects":
            return compute_signal(values, self.levels, self.spacing, threads=1)
        return replace(normalize_image(values, self.axes, self.span, threads=1), spacing=self.spacing)

    @property
    def axes(self) -> str:
        """Axes of what :meth:`pixels` returns."""
        return "ZYX"[-len(self.grid.shape) :] + ("S" if "S" in self.letters else "C")

    @property
    def spacing(self) -> Spacing:
        """Distances between pixels along each axis, the smallest being 1; None if all are equal."""
        return get_spacing(self.settings, len(self.grid.shape))

    @property
    def noise_reach(self) -> int:
        """Pixels beyond a part that are read to denoise it: all that count, or most in a volume."""
        noise = self.levels.noise if self.levels is not None else self.span.noise if self.span is not None else None
        return 0 if noise is None else DENOISE_HALO if len(self.grid.shape) == 2 else REACH_IN_DEPTH


class BlockBorder(NamedTuple):
    """A block at one of its borders."""

    pieces: CompressedArray  # in the outermost plane
    band: CompressedArray  # sites on both sides of the border, before they are cut there
    planes: dict[str, NDArray[Any]]  # values in the outermost plane, by names of FACE_SUMS


class Contacts(NamedTuple):
    """Pieces that touch, from 0."""

    pairs: Int64Array  # (c, 2) pieces
    length: Float64Array  # (c,) area of the faces between them
    sums: Mapping[str, Float64Array]  # (c,) over the faces, by names of FACE_SUMS
    is_same: NDArray[np.bool_] = np.zeros(0, bool)  # (c,) across borders: whether the two are one site


@dataclass(frozen=True, eq=False)
class Block:
    """Description of a block with p pieces of sites."""

    pieces: CompressedArray  # 1..p of its pixels
    uncut: Int32Array  # (p + 1,) the site of each piece before sites were cut at the border
    mass: NDArray[np.int64]  # (p,) pixels
    sides: dict[tuple[int, int], BlockBorder]  # by axis and end
    sums: dict[str, Any] = field(default_factory=dict)  # (p, k) of each name over pixels; histograms are sparse
    contacts: Contacts | None = None  # within the block


def describe_block(context: BlockContext, index: Index) -> Block:
    """Read a block with its surroundings and describe it."""
    settings, maps = context.settings, context.maps
    around, inside = context.grid.slices(index, context.halo), context.grid.slices(index)
    core = crop(around, inside)
    image = context.picture_of(context.pixels(around))
    sites = _make_block_sites(context, image, around)
    pieces, uncut = find_pieces(sites[core])
    block_image = NormalizedImage(np.ascontiguousarray(image.channels[core]), image.rgb, image.spacing)
    site_image = select_site_image(block_image, maps, settings, inside)
    graph = build_region_graph(site_image, pieces)
    planes = {"channels": site_image.channels}
    faces = {"channels": graph.contrast * graph.length}
    sums: dict[str, Any] = _sum_moments(block_image, pieces, inside, context.grid.shape)
    sums |= {name: _count_words(name, context, image, block_image, pieces, core) for name in context.counts}

    def sum_per_piece(values: NDArray[Any]) -> Float64Array:
        return mean_per_site(values, pieces) * graph.pixels[:, np.newaxis]

    if "features" in maps:
        values = maps["features"].convert(inside).astype(np.float64)
        sums |= {"features": sum_per_piece(values), "feature squares": sum_per_piece(np.square(values))}
    if "foreground" in maps:
        sums["foreground"] = sum_per_piece(maps["foreground"].convert(inside)[..., np.newaxis])
    if "boundaries" in maps:
        planes["marked"] = maps["boundaries"].convert(inside)
        faces["marked"] = sum_over_faces(
            planes["marked"], pieces, graph.edges, use_maximum=True, spacing=context.spacing
        )
    if context.network:
        network = load_network(settings.network, "photo")
        assert network is not None
        # It needs a wider halo, from a multiple of the stride on, so that coarse pixels are those of the whole image.
        wide = tuple(slice(s.start - s.start % STRIDE, s.stop) for s in context.grid.slices(index, HALO))
        read = context.grid.slices(index, HALO + STRIDE + context.noise_reach) if context.noise_reach else wide
        lab = to_lab(context.picture_of(context.pixels(read)))[crop(read, wide)]
        output = network.predict(np.ascontiguousarray(lab), n_threads=1)  # blocks run in parallel
        planes["drawn"] = output.fine[..., 0][crop(wide, inside)]
        faces["drawn"] = sum_over_faces(planes["drawn"], pieces, graph.edges)
        sums["embedding"] = sum_per_piece(output.embedding[crop(wide, inside)])
    sides = describe_borders(context, index, sites, pieces, planes)
    contacts = Contacts(graph.edges.astype(np.int64), graph.length, faces)
    return Block(CompressedArray.of(pieces), uncut, graph.pixels, sides, sums, contacts)


def find_pieces(sites: Sites) -> tuple[Sites, Int32Array]:
    """Find the connected pieces of the sites of a block, which are cut at its border.

    Returns the pieces 1..p in the order of their first pixel, 0 for none, and (p + 1,) the site of each; entry 0 is 0.
    """
    pieces = label_connected(np.ascontiguousarray(sites)) if sites.any() else np.zeros(sites.shape, np.int32)
    uncut = np.zeros(int(pieces.max()) + 1, np.int32)
    uncut[pieces.ravel()] = sites.ravel()
    return pieces, uncut


def describe_borders(
    context: BlockContext,
    index: Index,
    sites: Sites,
    pieces: Sites,
    planes: Mapping[str, NDArray[Any]] = {},
    halo: int | None = None,
) -> dict[tuple[int, int], BlockBorder]:
    """Describe the borders of a block: `sites` with a halo, its own `pieces`, and images of which borders are kept."""
    around = context.grid.slices(index, context.halo if halo is None else halo)
    inside = context.grid.slices(index)
    sides = {}
    for axis, end in itertools.product(range(pieces.ndim), (LOW, HIGH)):
        if index[axis] == (0 if end == LOW else context.grid.counts[axis] - 1):
            continue
        before = index if end == HIGH else (*index[:axis], index[axis] - 1, *index[axis + 1 :])
        border = inside[axis].stop if end == HIGH else inside[axis].start
        # Within a distance of the border that both blocks have.
        reach = min(context.band, *context.grid.chunks[axis][before[axis] : before[axis] + 2])
        strip = tuple(slice(border - reach, border + reach) if a == axis else s for a, s in enumerate(inside))
        plane = tuple(-end if a == axis else slice(None) for a in range(pieces.ndim))
        sides[axis, end] = BlockBorder(
            CompressedArray.of(pieces[plane]),
            CompressedArray.of(sites[crop(around, strip)]),
            {name: values[plane].copy() for name, values in planes.items()},
        )
    return sides


def _make_block_sites(context: BlockContext, image: NormalizedImage, around: Slices) -> Sites:
    """Make superpixels around a block, or read those that the user gave; 0 where there is none."""
    mask = None if context.mask is None else lazy.read(context.mask, around) != 0
    if mask is not None and not mask.any():
        return np.zeros(image.shape, np.int32)
    if context.sites is not None:
        sites = lazy.read(context.sites, around)
        if sites.dtype.kind not in "bui" or not 0 <= sites.min() <= sites.max() < 2**31:
            raise InputError("the label image must hold whole numbers in [0, 2147483647]")
        return (sites if mask is None else np.where(mask, sites, 0)).astype(np.int32)
    n_pixels = int(np.prod(image.shape)) if mask is None else int(mask.sum())
    n_sites = max(1, min(n_pixels, round(n_pixels / context.site_size)))
    # Focus is a property of the image, not of a block.
    settings = context.settings.replace(site_count=n_sites, refocus="no")
    return make_sites(image, context.maps, settings, mask, around)


def _sum_moments(
    image: NormalizedImage, pieces: Sites, inside: Slices, shape: tuple[int, ...]
) -> dict[str, Float64Array]:
    """Sum (p, C + axes) values and squares over each piece, of the channels and of the position from 0 to 1."""
    axes = (np.linspace(0, 1, n, dtype=np.float32)[part] for n, part in zip(shape, inside, strict=True))
    positions = np.broadcast_arrays(*np.meshgrid(*axes, indexing="ij", sparse=True))
    columns = [column.ravel().astype(np.float64) for column in (*np.moveaxis(image.channels, -1, 0), *positions)]
    flat, size = pieces.ravel(), int(pieces.max()) + 1
    return {
        "values": np.stack([np.bincount(flat, column, size)[1:] for column in columns], axis=1),
        "squares": np.stack([np.bincount(flat, column * column, size)[1:] for column in columns], axis=1),
    }


def _count_words(
    name: str, context: BlockContext, image: NormalizedImage, block_image: NormalizedImage, pieces: Sites, core: Slices
) -> csr_array:
    """Make the (p, words) histogram of a name in 32 bits; texture needs the surroundings of the block."""
    if name not in context.books:
        words, n_words = bin_luminance(block_image, context.settings.bins), context.settings.bins
    else:
        book = context.books[name]
        n_words = len(book.centres)
        if name in ("texture", "photo_texture"):
            words = book.words(compute_texture(image.luminance)[core])
        elif name == "photo_colour":
            words = book.words(to_lab(block_image))
        else:
            words = book.words(to_codebook_space(block_image, book.space))
    if not pieces.any():
        return csr_array(np.zeros((0, n_words), np.int32))
    return make_histograms(words, pieces, n_words).astype(np.int32)


def assemble(
    image: LazyImage,
    grid: Grid,
    settings: Settings,
    sites: Any = None,
    mask: Any = None,
    codebook: Codebook | None = None,
    done: Callable[[int], None] = lambda blocks: None,
    given: Mapping[str, Any] | None = None,
) -> tuple[BlockContext, BlockedLabels, RegionGraph, BlockFeatures, SiteMaps]:
    """Describe all blocks of a chunked image and combine them into all that a problem needs.

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
    blocks = lazy.map_blocks(describe_block, [(context, index) for index in grid], done)
    return context, *combine_blocks(context, blocks)


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
        span, samples = estimate_range(samples, rgb, settings.calm)
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


def combine_blocks(
    context: BlockContext, blocks: Sequence[Block]
) -> tuple[BlockedLabels, RegionGraph, BlockFeatures, SiteMaps]:
    """Combine the sites, graphs and features of all blocks."""
    settings, maps, ndim = context.settings, context.maps, len(context.grid.shape)
    site, borders = stitch_blocks(context, blocks)
    if not len(site):
        raise InputError("there is no site: every pixel is masked or 0 (background)")
    n = int(site.max()) + 1
    if settings.coupling == "learnt" and n > MAX_LEARNT_SITES:
        raise InputError(
            f"coupling learnt is for at most {MAX_LEARNT_SITES:,} sites, not {n:,}; choose coupling contrast (preset "
            f"general), or larger sites (most_sites {MAX_LEARNT_SITES})"
        )
    mass = sum_by_group(np.concatenate([b.mass for b in blocks]), site, n).astype(np.int64)
    sums: dict[str, Any] = {}
    for name in list(blocks[0].sums):
        parts = [b.sums.pop(name) for b in blocks]
        if issparse(parts[0]):
            sums[name] = sum_sparse_by_group(vstack(parts, format="csr"), site, n).astype(np.int64)
        else:
            sums[name] = sum_by_group(np.concatenate(parts), site, n)
    colours = sums["values"][:, :-ndim]
    if "features" in maps and sites_source(settings, maps) == "features":
        colours = sums["features"] * maps["features"].lab_per_unit
    means = colours / mass[:, np.newaxis]
    before = np.cumsum([0, *(len(b.mass) for b in blocks)])
    inner = [
        b.contacts._replace(pairs=b.contacts.pairs + k) for b, k in zip(blocks, before, strict=False) if b.contacts
    ]
    contacts = _join_contacts([*inner, borders])
    edges = site[contacts.pairs].astype(np.int64)

    def merge(name: str) -> RegionGraph:
        return merge_contacts(n, edges, contacts.length, contacts.sums[name], mass, means)

    graph = touching = merge("channels")
    if settings.neighbourhood == 2:
        graph = add_second_order(graph)
    drawn, marked = (
        merge(name).contrast * touching.length if is_present else None
        for name, is_present in (("drawn", context.network), ("marked", "boundaries" in maps))
    )
    words = {name: sums[name] for name in context.counts}
    if "colour" in context.books:
        words["colour"] = smear_counts(words["colour"], context.books["colour"])
    rgb = "S" in context.letters and settings.signal != "objects" and sums["values"].shape[1] == ndim + 3
    embedding = sums["embedding"] / mass[:, np.newaxis] if "embedding" in sums else None
    network: dict[str, Any] = {"embedding": embedding, "edge_sums": drawn}
    features = BlockFeatures(settings, rgb, ndim, mass, sums["values"], sums["squares"], **words, **network)
    labels = label_pieces(context, blocks, site + 1)
    return labels, graph, features, summarize_sums_of_maps(maps, sums, mass, marked, settings)


def stitch_blocks(context: BlockContext, blocks: Sequence[Block]) -> tuple[Int32Array, Contacts]:
    """Return the site 0, 1, ... of each piece of all blocks, numbered by first piece, and contacts across borders."""
    mass = np.concatenate([block.mass for block in blocks])
    before = np.cumsum([0, *(len(block.mass) for block in blocks)])
    borders = [Contacts(np.zeros((0, 2), np.int64), np.zeros(0), {})]
    for index in context.grid:
        for axis, area in enumerate(face_areas(context.spacing, len(context.grid.shape))):
            after = context.grid.after(index, axis)
            if after is not None:
                a, b = context.grid.place(index), context.grid.place(after)
                contacts = _find_border_contacts(blocks[a], blocks[b], axis, area, context.sites is not None)
                borders.append(contacts._replace(pairs=contacts.pairs + before[[a, b]]))
    touching = _join_contacts(borders)
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


def label_pieces(context: BlockContext, blocks: Sequence[Block], labels: NDArray[np.integer]) -> BlockedLabels:
    """Make a label image from the label (pieces,) of each piece of all blocks."""
    tables = np.split(labels.astype(np.int32), np.cumsum([len(block.mass) for block in blocks])[:-1])
    numbers = [np.append(np.int32(0), table) for table in tables]
    return BlockedLabels(context.grid, [block.pieces for block in blocks], numbers)


def _join_contacts(parts: Sequence[Contacts]) -> Contacts:
    pairs, length, sums, is_same = zip(*parts, strict=True)
    nothing = [np.zeros(len(faces)) for faces in length]
    joined = {
        name: np.concatenate([s.get(name, zeros) for s, zeros in zip(sums, nothing, strict=True)]) for name in FACE_SUMS
    }
    return Contacts(np.concatenate(pairs), np.concatenate(length), joined, np.concatenate(is_same))


def _find_border_contacts(a: Block, b: Block, axis: int, area: float, are_given: bool) -> Contacts:
    """Find contacts across the border of two blocks, with pieces numbered from 0 in each.

    Sites that the user gave (`are_given`) are the same if their numbers are.
    """
    side, opposite = a.sides[axis, HIGH], b.sides[axis, LOW]
    p, q = side.pieces.array().astype(np.int64), opposite.pieces.array().astype(np.int64)
    both = (p > 0) & (q > 0)
    stride = len(b.uncut)
    key, index, length = np.unique(p[both] * stride + q[both], return_inverse=True, return_counts=True)
    pairs = np.stack(np.divmod(key, stride), axis=1)
    left, right = a.uncut[pairs[:, 0]].astype(np.int64), b.uncut[pairs[:, 1]].astype(np.int64)
    if are_given:
        is_same = left == right
    else:
        is_same = _compute_overlap(side.band.array(), opposite.band.array(), left, right) > MIN_OVERLAP
    sums: dict[str, Float64Array] = {}
    for name, plane in side.planes.items():
        values = FACE_SUMS[name](plane[both], opposite.planes[name][both]).astype(np.float64)
        sums[name] = np.asarray(area * np.bincount(index, values, len(pairs)), np.float64)
    return Contacts(pairs - 1, area * length.astype(np.float64), sums, is_same)


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
