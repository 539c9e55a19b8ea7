"""Describe one block of a chunked image: its superpixels, features and borders."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from napari_gsw.core.array_types import Float32Array, Float64Array, Int32Array, Sites
from napari_gsw.core.errors import InputError
from napari_gsw.core.features.codebook import Codebook
from napari_gsw.core.features.input_maps import InputMaps, make_sites, select_site_image
from napari_gsw.core.features.network import HALO, STRIDE, load_network
from napari_gsw.core.features.texture import compute_texture
from napari_gsw.core.features.words import bin_luminance, make_histograms, to_codebook_space, to_lab
from napari_gsw.core.graph.map_evidence import BlockMaps, summarize_block_maps
from napari_gsw.core.graph.region_graph import build_region_graph
from napari_gsw.core.image import lazy
from napari_gsw.core.image.block_grid import Grid, Index, Slices, crop
from napari_gsw.core.image.denoise import HALO as DENOISE_HALO
from napari_gsw.core.image.foreground_signal import SignalScale, compute_signal, signal_to_image
from napari_gsw.core.image.normalized_image import (
    IntensityRange,
    NormalizedImage,
    fill_nonfinite,
    find_nonfinite,
    normalize_image,
    select_channels,
)
from napari_gsw.core.image.spacing import Spacing, get_spacing
from napari_gsw.core.settings import Settings
from napari_gsw.core.sites.blocked_labels import CompressedArray
from napari_gsw.core.sites.site_values import mean_per_site, sum_over_faces
from napari_gsw.core.sites.superpixels import label_connected

# In a volume, as much as in 2D would be several times the block.
REACH_IN_DEPTH = 16
# The two ends of a block along an axis.
HIGH, LOW = 1, 0


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
            signal = compute_signal(values.astype(np.float64), self.levels, self.spacing, threads=1)
            return signal_to_image(signal, self.spacing)
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
    # channels in the outermost plane; boundary probability of the network (drawn), log odds of a map (marked), if any
    planes: dict[str, NDArray[Any]]


@dataclass(frozen=True, eq=False)
class Block:
    """Description of a block with p pieces of sites."""

    pieces: CompressedArray  # 1..p of its pixels
    uncut: Int32Array  # (p + 1,) the site of each piece before sites were cut at the border
    mass: NDArray[np.int64]  # (p,) pixels
    sides: dict[tuple[int, int], BlockBorder]  # by axis and end
    sums: Any = None  # (p, C + axes) of the channels and of the position from 0 to 1
    squares: Any = None
    edges: Any = None  # (e, 2) pieces that touch within the block
    length: Any = None  # (e,) faces between them, and the sum of colour differences there
    steps: Any = None
    words: dict[str, csr_array] = field(default_factory=dict)  # (p, words) histograms
    maps: BlockMaps | None = None
    drawn: Any = None  # (e,) sum of the network's boundary probability, and (p, 8) of its embedding
    places: Any = None


def describe_block(context: BlockContext, index: Index) -> Block:
    """Read a block with its surroundings and describe it."""
    around, inside = context.grid.around(index, context.halo), context.grid.inside(index)
    core = crop(around, inside)
    image = context.picture_of(context.pixels(around))
    sites = _make_block_sites(context, image, around)
    pieces, uncut = find_pieces(sites[core])
    block_image = NormalizedImage(np.ascontiguousarray(image.channels[core]), image.rgb, image.spacing)
    site_image = select_site_image(block_image, context.maps, context.settings, inside)
    graph = build_region_graph(site_image, pieces)
    sums, squares = _compute_moments(block_image, pieces, inside, context.grid.shape)
    planes = {"channels": site_image.channels}
    maps = drawn = None
    network_values: dict[str, Float64Array] = {}
    if context.maps:
        if "boundaries" in context.maps:
            planes["marked"] = context.maps["boundaries"].log_odds(inside)
        maps = summarize_block_maps(context.maps, inside, pieces, graph, context.spacing)
    if context.network:
        drawn, places = _apply_network(context, index)
        planes["drawn"] = drawn
        network_values = {
            "drawn": sum_over_faces(drawn, pieces, graph.edges),
            "places": mean_per_site(places, pieces) * graph.pixels[:, np.newaxis],
        }
    return Block(
        pieces=CompressedArray.of(pieces),
        uncut=uncut,
        mass=graph.pixels,
        sides=describe_borders(context, index, sites, pieces, planes),
        sums=sums,
        squares=squares,
        edges=graph.edges,
        length=graph.length,
        steps=graph.contrast * graph.length,
        words={name: _count_words(name, context, image, block_image, pieces, core) for name in context.counts},
        maps=maps,
        **network_values,
    )


def _apply_network(context: BlockContext, index: Index) -> tuple[Float32Array, Float32Array]:
    """Compute boundary probability and embedding by the network, which needs a wider halo than the rest."""
    network = load_network(context.settings.network, "photo")
    assert network is not None
    # From a multiple of the stride on, so that coarse pixels are those of the image in memory.
    around = tuple(slice(s.start - s.start % STRIDE, s.stop) for s in context.grid.around(index, HALO))
    denoised = context.grid.around(index, HALO + STRIDE + context.noise_reach) if context.noise_reach else around
    lab = to_lab(context.picture_of(context.pixels(denoised)))[crop(denoised, around)]
    maps = network.predict(np.ascontiguousarray(lab), n_threads=1)  # blocks run in parallel
    core = crop(around, context.grid.inside(index))
    return maps.fine[..., 0][core], maps.embedding[core]


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
    around = context.grid.around(index, context.halo if halo is None else halo)
    inside = context.grid.inside(index)
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


def _compute_moments(
    image: NormalizedImage, pieces: Sites, inside: Slices, shape: tuple[int, ...]
) -> tuple[Float64Array, Float64Array]:
    """Compute (p, C + axes) sums and sums of squares over each piece, of the channels and of the position."""
    axes = (np.linspace(0, 1, n, dtype=np.float32)[part] for n, part in zip(shape, inside, strict=True))
    positions = np.broadcast_arrays(*np.meshgrid(*axes, indexing="ij", sparse=True))
    flat, size = pieces.ravel(), int(pieces.max()) + 1
    sums, squares = [], []
    for column in (*np.moveaxis(image.channels, -1, 0), *positions):
        values = column.ravel().astype(np.float64)
        sums.append(np.bincount(flat, values, size)[1:])
        squares.append(np.bincount(flat, values * values, size)[1:])
    return np.stack(sums, axis=1), np.stack(squares, axis=1)


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
