"""Data to measure on: problems of any size with a known truth, images as complex as a photograph, and slides."""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import numpy as np
import zarr
from numpy.typing import NDArray
from scipy import ndimage, sparse

from napari_gsw.core.array_types import Int32Array
from napari_gsw.core.likelihood.conjugate import DirichletMultinomial
from napari_gsw.core.model.priors import DirichletProcess
from napari_gsw.core.model.problem import Problem
from napari_gsw.core.threads import count_cores

WORDS, PIXELS_PER_SITE = 120, 60
# Concentration of the clusters' word frequencies: a site then has about 12 different words.
CONCENTRATION = 0.1
BETA, ALPHA, PHI = 0.02, 3.0, 50.0
# Histograms that are drawn for a cluster; the sites of a larger one repeat them, since a million would take minutes.
MAX_DRAWN = 2000
# Of an image: regions, the side of the coarse grid of the regions, and that of the repeated tile of texture.
REGIONS, COARSE, TILE = 12, 64, 256
# Of a slide: kinds of regions, amplitude of the stripes of a third of them, noise too weak to be removed, and chunk.
KINDS, STRIPES, NOISE, CHUNK = 12, 20.0, 4.0, 1024


class Planted(NamedTuple):
    """Data with a planted partition."""

    counts: sparse.csr_array  # (n, words)
    edges: Int32Array  # (m, 2)
    truth: Int32Array  # (n,)

    def make_problem(self) -> Problem:
        """Make the problem of these data."""
        blocks = (DirichletMultinomial(self.counts, PHI),)
        return Problem(len(self.truth), blocks, self.edges, np.full(len(self.edges), BETA), DirichletProcess(ALPHA))


def make_planted(n: int, n_clusters: int, seed: int = 1) -> Planted:
    """Make a triangulated grid of `n` sites, numbered in scan order and divided into about square clusters."""
    rng = np.random.default_rng(seed)
    rows = next(r for r in range(math.isqrt(n), 0, -1) if n % r == 0)  # as square as the divisors of n allow
    truth = label_blocks(rows, n // rows, n_clusters)
    frequencies = rng.dirichlet(np.full(WORDS, CONCENTRATION), n_clusters)
    histograms, histogram_index = [], np.empty(n, np.int64)
    n_drawn = 0
    for k, size in enumerate(np.bincount(truth, minlength=n_clusters).tolist()):
        count = min(size, MAX_DRAWN)
        histograms.append(sparse.csr_array(rng.multinomial(PIXELS_PER_SITE, frequencies[k], count)))
        histogram_index[truth == k] = n_drawn + np.arange(size) % max(count, 1)
        n_drawn += count
    counts = sparse.vstack(histograms, format="csr")[histogram_index]
    return Planted(counts, triangulate_grid(rows, n // rows), truth)


def triangulate_grid(rows: int, columns: int) -> Int32Array:
    """Return the (m, 2) edges to the right, down and to the lower right, sorted like those of a region graph."""
    site = np.arange(rows * columns, dtype=np.int32).reshape(rows, columns)
    pairs = [(site[:, :-1], site[:, 1:]), (site[:-1], site[1:]), (site[:-1, :-1], site[1:, 1:])]
    left, right = (np.concatenate([pair[end].ravel() for pair in pairs]) for end in (0, 1))
    order = np.lexsort((right, left))
    return np.stack((left[order], right[order]), axis=1)


def label_blocks(rows: int, columns: int, n_clusters: int) -> Int32Array:
    """Label the sites of a grid by bands of rows, each divided into blocks of equal width."""
    n_bands = max(1, min(rows, round(math.sqrt(n_clusters * rows / columns))))
    row, column = np.divmod(np.arange(rows * columns), columns)
    band = row * n_bands // rows
    first = np.arange(n_bands + 1) * n_clusters // n_bands
    n_blocks = first[band + 1] - first[band]
    return np.asarray(first[band] + column * n_blocks // columns, dtype=np.int32)


def make_photograph(rows: int, columns: int, seed: int = 0) -> NDArray[np.uint8]:
    """Make an RGB image (rows, columns, 3) with smooth regions, shading, texture and noise.

    The scene does not depend on the size; the grain has a fixed width in pixels.
    """
    rng = np.random.default_rng(seed)
    y = np.linspace(0, COARSE - 1, rows, dtype=np.float32)[:, np.newaxis]
    x = np.linspace(0, COARSE - 1, columns, dtype=np.float32)[np.newaxis]

    def draw_field(width: float) -> NDArray[np.float32]:
        field = ndimage.gaussian_filter(rng.normal(size=(COARSE, COARSE)), width)
        coarse = np.asarray(field / field.std()).astype(np.float32)
        return ndimage.map_coordinates(coarse, np.broadcast_arrays(y, x), order=1, output=np.float32)

    region = np.zeros((rows, columns), np.int8)
    highest = draw_field(8.0)
    for k in range(1, REGIONS):  # one field at a time, since a large image has no room for all
        field = draw_field(8.0)
        region[field > highest] = k
        np.maximum(highest, field, out=highest)
    tile = ndimage.gaussian_filter(rng.normal(size=(TILE, TILE)), 1.5, mode="wrap")
    repeats = (-(-rows // TILE), -(-columns // TILE))
    grain = np.tile((tile / tile.std()).astype(np.float32), repeats)[:rows, :columns]
    shading = 14 * draw_field(12.0) + rng.uniform(0, 22, REGIONS).astype(np.float32)[region] * grain
    colours = rng.uniform(40, 215, (REGIONS, 3)).astype(np.float32)
    image = np.empty((rows, columns, 3), np.uint8)
    for c in range(3):
        noisy = colours[region, c] + shading + 5 * rng.standard_normal(region.shape, np.float32)
        image[..., c] = np.clip(noisy, 0, 255)
    return image


def write_slide(image: Path, boundaries: Path, side: int, noise: float = NOISE) -> None:
    """Write a zarr image of regions, some striped, with noise, and a map of their boundaries, chunk by chunk."""
    pixels = zarr.create_array(str(image), shape=(side, side, 3), chunks=(CHUNK, CHUNK, 3), dtype="u1")
    lines = zarr.create_array(str(boundaries), shape=(side, side), chunks=(CHUNK, CHUNK), dtype="f4")
    colours = np.random.default_rng(0).integers(30, 225, (KINDS, 3))

    def write_chunk(corner: tuple[int, int]) -> None:
        y, x = (np.arange(c, min(c + CHUNK, side)) for c in corner)
        a = np.sin(y / 211)[:, np.newaxis] + np.sin((y[:, np.newaxis] + x) / 317)
        b = np.sin(x / 263)[np.newaxis] + np.sin((y[:, np.newaxis] - x) / 389)
        kind = np.digitize(a, [-0.8, 0, 0.8]) * 3 + np.digitize(b, [-0.5, 0.5])
        stripes = (kind % 3 == 0) * STRIPES * np.sin(x / 3)
        grain = np.random.default_rng(corner).normal(0, noise, (len(y), len(x), 3))
        chunk = tuple(slice(c, c + CHUNK) for c in corner)
        pixels[chunk] = np.clip(colours[kind] + stripes[..., np.newaxis] + grain, 0, 255).astype(np.uint8)
        edge = np.zeros(kind.shape, bool)
        edge[1:] |= kind[1:] != kind[:-1]
        edge[:, 1:] |= kind[:, 1:] != kind[:, :-1]
        lines[chunk] = np.where(edge, 0.9, 0.05)

    with ThreadPoolExecutor(count_cores()) as pool:
        list(pool.map(write_chunk, [(y, x) for y in range(0, side, CHUNK) for x in range(0, side, CHUNK)]))
