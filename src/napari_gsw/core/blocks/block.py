"""One block of a large image -> its sites and what the rest of the way needs of its pixels."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from napari_gsw.core.array_types import ChannelImage, Float32Array, Float64Array, Int32Array, Sites
from napari_gsw.core.errors import InputError
from napari_gsw.core.features.codebook import Codebook, load_builtin_codebook
from napari_gsw.core.features.input_maps import NO_MAPS, InputMaps, make_sites, select_site_image
from napari_gsw.core.features.network import HALO, STRIDE, load_network
from napari_gsw.core.features.texture import compute_texture
from napari_gsw.core.features.words import bin_luminance, make_histograms, to_codebook_space, to_lab
from napari_gsw.core.graph.map_evidence import BlockMaps, summarize_block_maps
from napari_gsw.core.graph.region_graph import RegionGraph, build_region_graph
from napari_gsw.core.image import lazy
from napari_gsw.core.image.block_grid import Grid, Index, Slices, crop
from napari_gsw.core.image.denoise import REACH
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
from napari_gsw.core.sites.adjacency_kernels import sum_over_faces
from napari_gsw.core.sites.blocked_labels import CompressedArray
from napari_gsw.core.sites.site_values import mean_per_site
from napari_gsw.core.sites.superpixels import label_connected

# In a volume as much as in a plane would be several times the block.
REACH_IN_DEPTH = 16
# The two ends of a block along an axis.
HIGH, LOW = 1, 0


@dataclass(frozen=True, eq=False)
class BlockContext:
    """What the work on every block needs: the image, and what is the same all over it.

    Attributes
    ----------
    image : lazy array; `letters` names its axes, those of length 1 that are not space among them.
    grid : the blocks, in space.
    halo : pixels around a block that are looked at too; `band` those on either side of a border in which the sites of
        two blocks are compared.
    sites, mask : lazy or not, of the image's space, or None.
    site_size : pixels of a site.
    span, levels : of the image as a whole; `levels` where objects are looked at.
    network : whether learnt couplings look at the network that the settings name.
    maps : those that are given beside the image.
    counts : the histograms to make, of ``luminance``, ``colour``, ``texture``, ``photo_colour``, ``photo_texture``.
    books : their codebooks; luminance has none.
    """

    image: Any
    letters: str
    settings: Settings
    grid: Grid
    halo: int
    band: int
    site_size: float
    sites: Any = None
    mask: Any = None
    span: IntensityRange | None = None
    levels: SignalScale | None = None
    network: bool = False
    maps: InputMaps = NO_MAPS
    counts: tuple[str, ...] = ()
    books: dict[str, Codebook] = field(default_factory=dict)

    def pixels(self, part: Slices) -> NDArray[Any]:
        """(\\*part, C) the image's own values in a part of it."""
        index = [
            part["ZYX"[-len(part) :].index(a)] if a in "ZYX" else slice(None) if a in "CS" else 0 for a in self.letters
        ]
        kept = "".join(a for a in self.letters if a in "ZYXCS")
        values = select_channels(lazy.read(self.image, tuple(index)), kept)[0]  # type: ignore[arg-type]
        if find_nonfinite(values) is None or (self.sites is None and self.mask is None):
            return values
        seen = np.ones(values.shape[:-1], bool)
        for array in (self.sites, self.mask):
            if array is not None:
                seen &= lazy.read(array, part) != 0
        return fill_nonfinite(values, seen)

    def picture_of(self, values: NDArray[Any]) -> NormalizedImage:
        """Values (\\*part, C) as the model sees them; in this thread alone, since parts are side by side already."""
        if self.settings.signal == "objects":
            light = compute_signal(values.astype(np.float64), self.levels, self.spacing, threads=1)
            return signal_to_image(light, self.spacing)
        return replace(normalize_image(values, self.axes, self.span, threads=1), spacing=self.spacing)

    @property
    def axes(self) -> str:
        """Those of what :meth:`pixels` gives."""
        return "ZYX"[-len(self.grid.shape) :] + ("S" if "S" in self.letters else "C")

    @property
    def spacing(self) -> Spacing:
        """Distance between pixels along each axis, the smallest being 1; None for the same along all."""
        return get_spacing(self.settings, len(self.grid.shape))

    @property
    def noise_reach(self) -> int:
        """Pixels beyond a part that are looked at when its noise is taken off: all that count, or most in a volume."""
        noise = self.levels.noise if self.levels is not None else self.span.noise if self.span is not None else None
        return 0 if noise is None else REACH if len(self.grid.shape) == 2 else REACH_IN_DEPTH

    def reach(self, index: Index, axis: int) -> int:
        """Pixels on either side of the border after a block in which sites are compared."""
        here, there = self.grid.chunks[axis][index[axis] : index[axis] + 2]
        return min(self.band, here, there)


class BlockBorder(NamedTuple):
    """What a block knows at one of its borders.

    Attributes
    ----------
    pieces : the outermost plane of its own numbers.
    channels : (\\*plane, C) of these pixels.
    band : numbers of its sites, as they were before they were cut, on both sides of the border.
    drawn : (\\*plane,) probability of a boundary at these pixels, by the network; None without one.
    marked : (\\*plane,) log odds of a boundary at these pixels, by a map; None without one.
    """

    pieces: CompressedArray
    channels: ChannelImage
    band: CompressedArray
    drawn: Float32Array | None = None
    marked: Float32Array | None = None


@dataclass(frozen=True, eq=False)
class Block:
    """What is kept of a block of p pieces of sites.

    Attributes
    ----------
    pieces : numbers 1..p of its pixels.
    uncut : (p + 1,) the number that each piece had before sites were cut at the border.
    mass : (p,) pixels.
    sums, squares : (p, C + axes) of the channels and of the position from 0 to 1.
    edges, length, steps : (e, 2) pieces from 0 that touch, the faces between them, and the sum of differences there.
    words : histograms (p, words) by the codebook's name.
    sides : by axis and LOW or HIGH, where there is a neighbour.
    maps : what maps beside the image say of it; None without any.
    drawn, places : by the network, (e,) probability of a boundary summed over the faces, and (p, 8) sums of places;
        None without one.
    """

    pieces: CompressedArray
    uncut: Int32Array
    mass: NDArray[np.int64]
    sums: Float64Array
    squares: Float64Array
    edges: Int32Array
    length: Float64Array
    steps: Float64Array
    words: dict[str, csr_array]
    sides: dict[tuple[int, int], BlockBorder]
    maps: BlockMaps | None = None
    drawn: Float64Array | None = None
    places: Float64Array | None = None


def describe_block(context: BlockContext, index: Index) -> Block:
    """Read a block with its surroundings and describe it."""
    around, inside = context.grid.around(index, context.halo), context.grid.inside(index)
    core = crop(around, inside)
    shown = context.picture_of(context.pixels(around))
    sites = _sites(context, shown, around)
    cut = sites[core]
    pieces, uncut = find_pieces(cut)
    here = NormalizedImage(np.ascontiguousarray(shown.channels[core]), shown.rgb, shown.spacing)
    followed = select_site_image(here, context.maps, context.settings, inside)
    graph = build_region_graph(followed, pieces)
    sums, squares = _moments(here, pieces, inside, context.grid.shape)
    block = Block(
        pieces=CompressedArray.of(pieces),
        uncut=uncut,
        mass=graph.pixels,
        sums=sums,
        squares=squares,
        edges=graph.edges,
        length=graph.length,
        steps=graph.contrast * graph.length,
        words={name: _counts(name, context, shown, here, pieces, core) for name in context.counts},
        sides=describe_borders(context, index, sites, pieces, followed, around, inside),
    )
    if context.maps:
        block = with_maps(context, index, block, pieces, graph)
    return with_network(context, index, block, pieces) if context.network else block


def with_maps(context: BlockContext, index: Index, block: Block, pieces: Sites, graph: RegionGraph) -> Block:
    """The block of these pieces with what the maps beside the image say of it."""
    inside = context.grid.inside(index)
    sides = dict(block.sides)
    if context.maps.boundaries is not None:
        log_odds = context.maps.boundaries.log_odds(inside)
        for (axis, end), side in block.sides.items():
            plane = tuple(-1 * end if a == axis else slice(None) for a in range(pieces.ndim))
            sides[axis, end] = side._replace(marked=log_odds[plane].copy())
    return replace(block, sides=sides, maps=summarize_block_maps(context.maps, inside, pieces, graph, context.spacing))


def with_network(context: BlockContext, index: Index, block: Block, pieces: Sites) -> Block:
    """The block of these pieces with what the network says of it, which looks farther beyond the border than others."""
    network = load_network(context.settings.network, "photo")
    assert network is not None
    inside = context.grid.inside(index)
    # From a multiple of the stride on, so that coarse pixels are those of the image in memory.
    around = tuple(slice(s.start - s.start % STRIDE, s.stop) for s in context.grid.around(index, HALO))
    beyond = context.grid.around(index, HALO + STRIDE + context.noise_reach) if context.noise_reach else around
    seen = to_lab(context.picture_of(context.pixels(beyond)))[crop(beyond, around)]
    maps = network.predict(np.ascontiguousarray(seen), n_threads=1)  # blocks are side by side already
    drawn, places = (each[crop(around, inside)] for each in (maps.fine[..., 0], maps.embedding))
    sides = {}
    for (axis, end), side in block.sides.items():
        plane = tuple(-1 * end if a == axis else slice(None) for a in range(pieces.ndim))
        sides[axis, end] = side._replace(drawn=drawn[plane].copy())
    place_sums = mean_per_site(places, pieces) * block.mass[:, np.newaxis]
    return replace(block, sides=sides, drawn=sum_over_faces(drawn, pieces, block.edges), places=place_sums)


def find_pieces(cut: Sites) -> tuple[Sites, Int32Array]:
    """Connected pieces of the sites of a block, and the site of each.

    Parameters
    ----------
    cut : (\\*block,) int32 numbers of sites, 0 for none, as they are around the block but without what is outside.

    Returns
    -------
    pieces : (\\*block,) int32 1..p in the order of their first pixel, 0 for none.
    uncut : (p + 1,) int32 the number in `cut` of each piece; entry 0 is 0.
    """
    pieces = label_connected(np.ascontiguousarray(cut), None) if cut.any() else np.zeros(cut.shape, np.int32)
    uncut = np.zeros(int(pieces.max()) + 1, np.int32)
    uncut[pieces.ravel()] = cut.ravel()
    return pieces, uncut


def describe_borders(
    context: BlockContext,
    index: Index,
    sites: Sites,
    pieces: Sites,
    here: NormalizedImage,
    around: Slices,
    inside: Slices,
) -> dict[tuple[int, int], BlockBorder]:
    """What a block knows at its borders: `sites` around it, and its own `pieces` and channels."""
    sides = {}
    for axis in range(pieces.ndim):
        for end in (LOW, HIGH):
            last = index[axis] + 1 == context.grid.counts[axis]
            if (end == LOW and index[axis] == 0) or (end == HIGH and last):
                continue
            before = index if end == HIGH else (*index[:axis], index[axis] - 1, *index[axis + 1 :])
            reach = context.reach(before, axis)
            border = inside[axis].stop if end == HIGH else inside[axis].start
            strip = tuple(slice(border - reach, border + reach) if a == axis else s for a, s in enumerate(inside))
            plane = tuple(-1 * end if a == axis else slice(None) for a in range(pieces.ndim))
            sides[axis, end] = BlockBorder(
                CompressedArray.of(pieces[plane]),
                here.channels[plane].copy(),
                CompressedArray.of(sites[crop(around, strip)]),
            )
    return sides


def load_photo_codebooks() -> dict[str, Codebook]:
    """The words that learnt couplings look at."""
    return {"photo_colour": load_builtin_codebook("lab"), "photo_texture": load_builtin_codebook("texture")}


def _sites(context: BlockContext, shown: NormalizedImage, around: Slices) -> Sites:
    """Superpixels around a block, or the user's own; 0 where there is none."""
    mask = None if context.mask is None else lazy.read(context.mask, around) != 0
    if mask is not None and not mask.any():
        return np.zeros(shown.shape, np.int32)
    if context.sites is not None:
        own = lazy.read(context.sites, around)
        if own.dtype.kind not in "bui" or not 0 <= own.min() <= own.max() < 2**31:
            raise InputError("the label image must hold whole numbers in [0, 2147483647]")
        return (own if mask is None else np.where(mask, own, 0)).astype(np.int32)
    pixels = int(np.prod(shown.shape)) if mask is None else int(mask.sum())
    wanted = max(1, min(pixels, round(pixels / context.site_size)))
    # Whether it is out of focus is a question about an image, not about each of its blocks.
    settings = context.settings.replace(site_count=wanted, refocus="no")
    return make_sites(shown, context.maps, settings, mask, around)


def _moments(
    here: NormalizedImage, pieces: Sites, inside: Slices, shape: tuple[int, ...]
) -> tuple[Float64Array, Float64Array]:
    """(p, C + axes) sums and sums of squares over each piece, of the channels and of where its pixels are."""
    flat, p = pieces.ravel(), int(pieces.max())
    axes = range(pieces.ndim)
    places = [np.linspace(0, 1, n, dtype=np.float32)[s] for n, s in zip(shape, inside, strict=True)]
    columns = [here.channels[..., c] for c in range(here.channels.shape[-1])]
    columns += [
        np.broadcast_to(x.reshape([-1 if a == b else 1 for b in axes]), pieces.shape) for a, x in enumerate(places)
    ]
    sums, squares = np.zeros((p, len(columns))), np.zeros((p, len(columns)))
    for c, column in enumerate(columns):
        values = column.ravel().astype(np.float64)
        sums[:, c] = np.bincount(flat, values, p + 1)[1:]
        squares[:, c] = np.bincount(flat, values * values, p + 1)[1:]
    return sums, squares


def _counts(
    name: str, context: BlockContext, shown: NormalizedImage, here: NormalizedImage, pieces: Sites, core: Slices
) -> csr_array:
    """(p, words) histogram of the words of one codebook; what is behind a filter needs the block's surroundings."""
    if name == "luminance":
        return _histogram(bin_luminance(here, context.settings.bins), pieces, context.settings.bins)
    book = context.books[name]
    if name in ("texture", "photo_texture"):
        words = book.words(compute_texture(shown.luminance)[core])
    elif name == "photo_colour":
        words = book.words(to_lab(here))
    else:
        words = book.words(to_codebook_space(here, book.space))
    return _histogram(words, pieces, len(book.centres))


def _histogram(words: Int32Array, pieces: Sites, count: int) -> csr_array:
    """In 32 bits: there are many of them."""
    if not pieces.any():
        return csr_array(np.zeros((0, count), np.int32))
    return make_histograms(words, pieces, count).astype(np.int32)
