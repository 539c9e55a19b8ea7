"""All likelihood blocks of a problem as the tables and sparse rows that the sampler reads.

A cluster's log marginal, eq. (3) of the paper, is a sum over *words* of a function of the cluster's count of the word,
plus the contribution of channel moments. Words are those of the histograms. So that the sampler has one loop for all,
the total of each histogram and the number of pixels of the channels are words too. The function of a word is tabulated
for every possible count as far as memory allows, and is a formula beyond.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, hstack

from napari_gsw.core.array_types import Float64Array, Int64Array, UInt32Array
from napari_gsw.core.likelihood.conjugate import DirichletMultinomial, Gaussian, Likelihood
from napari_gsw.core.special import log_gamma, log_rising_factorial

# Columns of `LikelihoodTables.tail`: contribution of a word at a count m beyond the end of its table,
#     FACTOR log Gamma(BASE + UNIT m) + SHIFT + LOG_FACTOR log(1 + LOG_UNIT m) + SLOPE m.
# A word with a tail has FACTOR != 0; the last three are 0 but for the pixels of channels.
FACTOR, BASE, UNIT, SHIFT, LOG_FACTOR, LOG_UNIT, SLOPE = range(7)
TAIL = 7
# Columns of `LikelihoodTables.gauss`: kappa_0, a_0, the weight of a pixel, and b_0 of each channel.
KAPPA, SHAPE, PIXEL_WEIGHT, RATE = range(4)
GAUSS = 4
# Entries of the table of a word, and of all tables: at most 8 and 512 megabytes. Larger counts occur in large images;
# Stirling's series is as accurate for them as a table, though slower.
MAX_ENTRIES = 2**20
MAX_TOTAL_ENTRIES = 2**26


class LikelihoodTables(NamedTuple):
    """The data of n sites: D words, totals and pixel numbers among them, and C continuous channels."""

    site_start: Int64Array  # (n + 1,) where the words of a site begin
    word: UInt32Array  # (nnz,)
    times: UInt32Array  # (nnz,)
    table: Float64Array  # contribution to the log marginal by count, word after word
    table_start: NDArray[np.uint64]  # (D,)
    table_end: UInt32Array  # (D,) first count beyond the table of each word
    tail: Float64Array  # (D, TAIL) contribution of larger counts, by column; zeros where there are none
    moments: Float64Array  # (n, 2 C) weighted sums of each channel about its prior mean, then of their squares
    gauss: Float64Array  # (C, GAUSS) the prior of each channel, by column
    pixels: int  # the word that counts the pixels of the moments; -1 without channels


def build_tables(blocks: Sequence[Likelihood], n: int) -> LikelihoodTables:
    """Build the tables of all blocks of n sites.

    Blocks of channels have the same pixels, so the word of the first of them counts the pixels of all.
    """
    columns: list[csr_array] = []
    words: list[tuple[int, Float64Array, Gaussian | None]] = []  # largest count, tail, block of a pixel number
    for block in blocks:
        if isinstance(block, DirichletMultinomial):
            totals = block.counts.sum(axis=0)
            columns += [block.counts, csr_array(block.counts.sum(axis=1).reshape(n, 1))]
            for count, base in zip(totals, block.concentration, strict=True):
                words.append((int(count), _gamma_tail(1.0, base, block.weight), None))
            words.append((int(totals.sum()), _gamma_tail(-1.0, block.phi, block.weight), None))
        else:
            size, weight = len(block.rate), block.weight
            tail = _gamma_tail(size, block.shape, weight / 2)
            tail[[LOG_FACTOR, LOG_UNIT]] = -size / 2, weight / block.kappa
            tail[SLOPE] = -weight / 2 * (size * np.log(2 * np.pi) + np.log(block.rate).sum())
            columns.append(csr_array(block.mass.reshape(n, 1)))
            words.append((int(block.mass.sum()), tail, block))
    counts = hstack([csr_array((n, 0), dtype=np.int64), *columns], format="csr")
    max_entries = MAX_ENTRIES
    while sum(min(most + 1, max_entries) for most, _, _ in words) > MAX_TOTAL_ENTRIES:
        max_entries //= 2
    ends = np.array([min(most + 1, max_entries) for most, _, _ in words], np.int64)
    channels = [block for block in blocks if isinstance(block, Gaussian)]
    tails = [tail if most >= max_entries else np.zeros(TAIL) for most, tail, _ in words]
    sums = [block.weight * block.sums for block in channels]
    squares = [block.weight * block.squares for block in channels]
    return LikelihoodTables(
        site_start=counts.indptr.astype(np.int64),
        word=counts.indices.astype(np.uint32),
        times=counts.data.astype(np.uint32),
        table=np.concatenate([np.zeros(0), *map(_make_table, words, ends)]),
        table_start=(np.cumsum(ends) - ends).astype(np.uint64),
        table_end=ends.astype(np.uint32),
        tail=np.reshape(tails, (len(words), TAIL)),
        moments=np.ascontiguousarray(np.concatenate([np.zeros((n, 0)), *sums, *squares], axis=1)),
        gauss=np.concatenate([np.zeros((0, GAUSS)), *map(_channel_priors, channels)]),
        pixels=next((d for d, word in enumerate(words) if word[2] is not None), -1),
    )


def _gamma_tail(factor: float, base: float, unit: float) -> Float64Array:
    """Make the tail of a word whose counts m contribute factor (log Gamma(base + unit m) - log Gamma(base))."""
    tail = np.zeros(TAIL)
    tail[[FACTOR, BASE, UNIT, SHIFT]] = factor, base, unit, -factor * log_gamma(base)
    return tail


def _make_table(word: tuple[int, Float64Array, Gaussian | None], n_entries: int) -> Float64Array:
    """Tabulate the contribution of counts 0, 1, ... of a word."""
    _, tail, block = word
    if block is None:
        return np.asarray(tail[FACTOR] * log_rising_factorial(tail[BASE], tail[UNIT] * np.arange(n_entries)))
    half = block.weight * np.arange(n_entries) / 2
    per_channel = log_rising_factorial(block.shape, half) - np.log1p(2 * half / block.kappa) / 2
    per_channel -= half * np.log(2 * np.pi)
    return np.asarray(len(block.rate) * per_channel - half * np.log(block.rate).sum())


def _channel_priors(block: Gaussian) -> Float64Array:
    priors = np.empty((len(block.rate), GAUSS))
    priors[:, [KAPPA, SHAPE, PIXEL_WEIGHT]] = block.kappa, block.shape, block.weight
    priors[:, RATE] = block.rate
    return priors
