"""All likelihood blocks of a problem as the tables and sparse rows that the sampler reads.

A cluster's log marginal, eq. (3) of the paper, is a sum over *words* of a function of the cluster's count of the word,
plus the contribution of channel moments. Words are those of the histograms. So that the sampler has one loop for all,
the total of each histogram and the number of pixels of the channels are words too. The function of a word is tabulated
for every possible count as far as memory allows, and is a formula beyond.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, hstack

from napari_gsw.core.array_types import Float64Array, Int64Array, UInt32Array
from napari_gsw.core.errors import InputError
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


class _Word(NamedTuple):
    max_count: int
    make_table: Callable[[int], Float64Array]  # contribution of counts 0, 1, ... below a number
    tail: Float64Array


def build_tables(blocks: Sequence[Likelihood], n: int) -> LikelihoodTables:
    """Build the tables of all blocks of n sites.

    Blocks of channels have the same pixels, so the word of the first of them counts the pixels of all.
    """
    columns: list[csr_array] = []
    words: list[_Word] = []
    channels: list[Gaussian] = []
    pixels = -1
    for block in blocks:
        if isinstance(block, DirichletMultinomial):
            columns += [block.counts, csr_array(block.counts.sum(axis=1).reshape(n, 1))]
            words += _histogram_words(block)
        elif isinstance(block, Gaussian):
            pixels = len(words) if pixels < 0 else pixels
            columns.append(csr_array(block.mass.reshape(n, 1)))
            words.append(_pixel_word(block))
            channels.append(block)
    counts = hstack([csr_array((n, 0), dtype=np.int64), *columns], format="csr")
    max_entries = MAX_ENTRIES
    while sum(min(word.max_count + 1, max_entries) for word in words) > MAX_TOTAL_ENTRIES:
        max_entries //= 2
    ends = np.array([min(word.max_count + 1, max_entries) for word in words], np.int64)
    start = np.cumsum(ends) - ends
    tables = [word.make_table(int(end)) for word, end in zip(words, ends, strict=True)]
    tails = [word.tail if word.max_count >= max_entries else np.zeros(TAIL) for word in words]
    sums = [block.weight * block.sums for block in channels]
    squares = [block.weight * block.squares for block in channels]
    return LikelihoodTables(
        site_start=counts.indptr.astype(np.int64),
        word=counts.indices.astype(np.uint32),
        times=counts.data.astype(np.uint32),
        table=np.concatenate([np.zeros(0), *tables]),
        table_start=start.astype(np.uint64),
        table_end=ends.astype(np.uint32),
        tail=np.reshape(tails, (len(words), TAIL)).astype(np.float64),
        moments=np.ascontiguousarray(np.concatenate([np.zeros((n, 0)), *sums, *squares], axis=1)),
        gauss=np.concatenate([np.zeros((0, GAUSS)), *(_channel_priors(block) for block in channels)]),
        pixels=pixels,
    )


def check_same_pixels(blocks: Sequence[Gaussian]) -> None:
    """Raise an InputError unless all blocks count the pixels of a site in the same way."""
    if any(not np.array_equal(block.mass, blocks[0].mass) for block in blocks[1:]):
        raise InputError("blocks of continuous channels must have the same mass: the same pixels of every site")


def _channel_priors(block: Gaussian) -> Float64Array:
    priors = np.empty((len(block.rate), GAUSS))
    priors[:, [KAPPA, SHAPE, PIXEL_WEIGHT]] = block.kappa, block.shape, block.weight
    priors[:, RATE] = block.rate
    return priors


def _histogram_words(block: DirichletMultinomial) -> list[_Word]:
    """Make a word of log Gamma(pi_d + s m) - log Gamma(pi_d) for each column, and of the total with phi and a minus."""
    totals, s = block.counts.sum(axis=0), block.weight
    bases, signs = [*block.concentration, block.phi], [*np.ones(len(totals)), -1.0]
    words = []
    for max_count, sign, base in zip((*totals, totals.sum()), signs, bases, strict=True):
        tail = np.zeros(TAIL)
        tail[[FACTOR, BASE, UNIT, SHIFT]] = sign, base, s, -sign * log_gamma(base)
        words.append(_Word(int(max_count), partial(_log_gamma_table, sign, base, s), tail))
    return words


def _log_gamma_table(sign: float, base: float, weight: float, n_entries: int) -> Float64Array:
    return sign * log_rising_factorial(base, weight * np.arange(n_entries))


def _pixel_word(block: Gaussian) -> _Word:
    """Make the word of the terms of a cluster's log marginal that depend only on its number of pixels."""
    channels, weight = len(block.rate), block.weight
    tail = np.zeros(TAIL)
    tail[[FACTOR, BASE, UNIT, SHIFT]] = channels, block.shape, weight / 2, -channels * log_gamma(block.shape)
    tail[[LOG_FACTOR, LOG_UNIT]] = -channels / 2, weight / block.kappa
    tail[SLOPE] = -weight / 2 * (channels * np.log(2 * np.pi) + np.log(block.rate).sum())
    return _Word(int(block.mass.sum()), partial(_pixel_table, block), tail)


def _pixel_table(block: Gaussian, n_entries: int) -> Float64Array:
    half = block.weight * np.arange(n_entries) / 2
    per_channel = log_rising_factorial(block.shape, half) - np.log1p(2 * half / block.kappa) / 2
    per_channel -= half * np.log(2 * np.pi)
    table: Float64Array = len(block.rate) * per_channel - half * np.log(block.rate).sum()
    return table
