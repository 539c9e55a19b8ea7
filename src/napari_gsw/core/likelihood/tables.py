"""All evidence of a problem as the tables and sparse rows that the sampler reads.

A cluster's log marginal (eq. 3 of the paper) is a sum over *words* of a function of the cluster's count of that word,
and what the moments of the channels add. Words are those of the histograms; and, so that the sampler has one loop for
all, the total of each histogram and the number of pixels behind the channels. The function of a word is tabulated for
every count that can occur, as far as memory allows; beyond that it is a formula.
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

# The columns of `Evidence.tail`: what a word adds to the log marginal at a count m that its table does not reach,
#     FACTOR log Gamma(BASE + UNIT m) + SHIFT + LOG_FACTOR log(1 + LOG_UNIT m) + SLOPE m.
# A word with a tail has FACTOR != 0; the last three are zero but for the pixels behind channels.
FACTOR, BASE, UNIT, SHIFT, LOG_FACTOR, LOG_UNIT, SLOPE = range(7)
TAIL = 7
# The columns of `Evidence.gauss`: kappa_0, a_0, the weight of a pixel, and b_0 of each channel.
KAPPA, SHAPE, PIXEL_WEIGHT, RATE = range(4)
GAUSS = 4

# Entries of the table of a word, and of all tables: at most 8 and 512 megabytes. What a word needs is an entry for
# every pixel it has, which a large picture has too many of; greater counts are so large that Stirling's series does as
# well as a table, though not as fast.
MAX_ENTRIES = 2**20
MAX_TOTAL_ENTRIES = 2**26


class LikelihoodTables(NamedTuple):
    """The data of n sites: D words (totals and pixel numbers among them), and C continuous channels."""

    site_start: Int64Array  # (n + 1,) where a site's words begin
    word: UInt32Array  # (nnz,)
    times: UInt32Array  # (nnz,)
    table: Float64Array  # contribution of a word to the log marginal by its count, the words one after the other
    table_start: NDArray[np.uint64]  # (D,)
    table_end: UInt32Array  # (D,) the first count of each word that its table does not reach
    tail: Float64Array  # (D, TAIL) the contribution of greater counts, by column; zeros where there are none
    moments: Float64Array  # (n, 2 C) weighted sums of each channel about its prior mean, then of their squares
    gauss: Float64Array  # (C, GAUSS) the prior of each channel, by column
    pixels: int  # a word that counts the pixels behind the moments; -1 without channels


class _Word(NamedTuple):
    """One word before memory is shared out."""

    greatest: int  # the greatest count that can occur
    table: Callable[[int], Float64Array]  # its contribution for counts 0, 1, ... below the one that is given
    tail: Float64Array  # (TAIL,) the same as a formula


def build_tables(blocks: Sequence[Likelihood], n: int) -> LikelihoodTables:
    """All blocks of n sites as the tables and sparse rows that the sampler reads.

    A histogram of words becomes its words and, as one word more, its total; the pixels behind a block of channels are a
    word too. Blocks of channels have the same pixels, so that the word of any of them counts them for all.
    """
    rows: list[csr_array] = []
    words: list[_Word] = []
    channels: list[Gaussian] = []
    pixels = -1
    for block in blocks:
        if block.n != n:
            raise InputError(f"every block of features must have one row for each of {n} sites, not {block.n}")
        if isinstance(block, DirichletMultinomial):
            rows += [block.counts, csr_array(block.counts.sum(axis=1).reshape(n, 1))]
            words += _histogram_words(block)
        elif isinstance(block, Gaussian):
            check_same_pixels([*channels, block])
            pixels = len(words) if pixels < 0 else pixels
            rows.append(csr_array(block.mass.reshape(n, 1)))
            words.append(_Word(int(block.mass.sum()), partial(_pixel_table, block), _pixel_tail(block)))
            channels.append(block)
    counts = hstack([csr_array((n, 0), dtype=np.int64), *rows], format="csr")
    most = MAX_ENTRIES
    while sum(min(word.greatest + 1, most) for word in words) > MAX_TOTAL_ENTRIES:
        most //= 2
    ends = np.array([min(word.greatest + 1, most) for word in words], np.int64)
    start = np.cumsum(ends) - ends
    table = np.empty(int(ends.sum()))
    tail = np.zeros((len(words), TAIL))
    for d, word in enumerate(words):
        table[start[d] : start[d] + ends[d]] = word.table(int(ends[d]))
        if word.greatest >= most:
            tail[d] = word.tail
    return LikelihoodTables(
        site_start=counts.indptr.astype(np.int64),
        word=counts.indices.astype(np.uint32),
        times=counts.data.astype(np.uint32),
        table=table,
        table_start=start.astype(np.uint64),
        table_end=ends.astype(np.uint32),
        tail=tail,
        moments=_moments(channels, n),
        gauss=np.concatenate([np.zeros((0, GAUSS)), *(_channel_priors(block) for block in channels)]),
        pixels=pixels,
    )


def check_same_pixels(blocks: Sequence[Gaussian]) -> None:
    """Refuse blocks of channels that count the pixels of a site differently."""
    if any(not np.array_equal(block.mass, blocks[0].mass) for block in blocks[1:]):
        raise InputError("blocks of continuous channels must have the same mass: the same pixels of every site")


def _moments(blocks: Sequence[Gaussian], n: int) -> Float64Array:
    """(n, 2 C) weighted sums of the channels of all blocks, then of their squares."""
    sums = [block.weight * block.sums for block in blocks]
    squares = [block.weight * block.squares for block in blocks]
    return np.ascontiguousarray(np.concatenate([np.zeros((n, 0)), *sums, *squares], axis=1))


def _channel_priors(block: Gaussian) -> Float64Array:
    """(C, GAUSS) what the kernels need of the prior of each channel, by column."""
    rows = np.empty((len(block.rate), GAUSS))
    rows[:, [KAPPA, SHAPE, PIXEL_WEIGHT]] = block.kappa, block.shape, block.weight
    rows[:, RATE] = block.rate
    return rows


def _histogram_words(block: DirichletMultinomial) -> list[_Word]:
    """Each word of a histogram, log Gamma(pi_d + s m) - log Gamma(pi_d), and their total, with phi and a minus."""
    totals, s = block.counts.sum(axis=0), block.weight
    bases, signs = [*block.concentration, block.phi], [*np.ones(len(totals)), -1.0]
    return [
        _Word(int(greatest), partial(_log_gamma_table, sign, base, s), _log_gamma_tail(sign, base, s))
        for greatest, sign, base in zip((*totals, totals.sum()), signs, bases, strict=True)
    ]


def _log_gamma_table(sign: float, base: float, weight: float, entries: int) -> Float64Array:
    """(entries,) sign (log Gamma(base + weight m) - log Gamma(base)) for m = 0, 1, ..."""
    return sign * log_rising_factorial(base, weight * np.arange(entries))


def _log_gamma_tail(sign: float, base: float, weight: float) -> Float64Array:
    """(TAIL,) the same by column."""
    tail = np.zeros(TAIL)
    tail[[FACTOR, BASE, UNIT, SHIFT]] = sign, base, weight, -sign * log_gamma(base)
    return tail


def _pixel_table(block: Gaussian, entries: int) -> Float64Array:
    """(entries,) the part of a cluster's log marginal that depends on its number of pixels alone, for 0, 1, ..."""
    half = block.weight * np.arange(entries) / 2
    one = log_rising_factorial(block.shape, half) - np.log1p(2 * half / block.kappa) / 2
    one -= half * np.log(2 * np.pi)
    table: Float64Array = len(block.rate) * one - half * np.log(block.rate).sum()
    return table


def _pixel_tail(block: Gaussian) -> Float64Array:
    """(TAIL,) the same by column."""
    channels, weight = len(block.rate), block.weight
    tail = np.zeros(TAIL)
    tail[[FACTOR, BASE, UNIT, SHIFT]] = channels, block.shape, weight / 2, -channels * log_gamma(block.shape)
    tail[[LOG_FACTOR, LOG_UNIT]] = -channels / 2, weight / block.kappa
    tail[SLOPE] = -weight / 2 * (channels * np.log(2 * np.pi) + np.log(block.rate).sum())
    return tail
