"""All evidence of a problem as the tables and sparse rows that the sampler reads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.special import gammaln

from napari_gsw.core.arrays import Counts, Floats, Longs
from napari_gsw.core.errors import InputError
from napari_gsw.core.evidence.likelihoods import DirichletMultinomial, Gaussian, Likelihood
from napari_gsw.core.evidence.rising_factorial import log_rising

# The columns of `Evidence.tail`: what a word adds to the log marginal at a count m that its table does not reach,
#     FACTOR log Gamma(BASE + UNIT m) + SHIFT + LOG_FACTOR log(1 + LOG_UNIT m) + SLOPE m.
FACTOR, BASE, UNIT, SHIFT, LOG_FACTOR, LOG_UNIT, SLOPE = range(7)
TAIL = 7
# The entries of `Evidence.gauss`: kappa_0, a_0, the weight of a pixel, and from RATE on the b_0 of each channel.
KAPPA, SHAPE, PIXEL_WEIGHT, RATE = 0, 1, 2, 3


class Evidence(NamedTuple):
    """The data of n sites: D words (totals and pixel numbers among them), and C continuous channels."""

    site_start: Longs  # (n + 1,) where a site's words begin
    word: Counts  # (nnz,)
    times: Counts  # (nnz,)
    table: Floats  # contribution of a word to the log marginal by its count, the words one after the other
    table_start: NDArray[np.uint64]  # (D,)
    table_end: Counts  # (D,) the first count of each word that its table does not reach
    tail: Floats  # (D, TAIL) the contribution of greater counts, by column; zeros where there are none
    moments: Floats  # (n, 2 C) weighted sums of each channel about its prior mean, then of their squares
    gauss: Floats  # (RATE + C,) the prior of the channels, by entry; without channels (RATE,)
    pixels: int  # the word that counts the pixels behind the moments; -1 without channels


# Entries of the table of a word, and of all tables: at most 8 and 512 megabytes. What a word needs is an entry for
# every pixel it has, which a large picture has too many of; greater counts are so large that Stirling's series does as
# well as a table, though not as fast.
MOST_ENTRIES = 2**20


ALL_ENTRIES = 2**26


def _log_gammas(base: float, weight: float, sign: float) -> Floats:
    """sign (log Gamma(base + weight m) - log Gamma(base)), as the kernels' `beyond` reads it."""
    return np.array([sign, base, weight, -sign * gammaln(base), 0.0, 0.0, 0.0])


def _log_gamma_table(formula: Floats, s: float, length: int) -> Floats:
    """What a word with counts 0, 1, ... adds to the log marginal, see :func:`_log_gammas`."""
    table: Floats = formula[FACTOR] * log_rising(formula[BASE], s * np.arange(length))
    return table


def pack_evidence(blocks: Sequence[Likelihood], n: int) -> Evidence:
    """All blocks as the tables and sparse rows that the sampler reads.

    A histogram of words becomes its words and, as one word more, its total; the channels' pixels are a word too.
    """
    rows: list[sparse.csr_array] = []
    needs: list[int] = []  # of each word, the greatest count
    fills: list[Callable[[int], Floats]] = []  # its table, of so many entries
    formulas: list[Floats] = []  # and what holds beyond
    moments, gauss, pixels = np.zeros((n, 0)), np.ones(RATE), -1
    for block in blocks:
        if block.n != n:
            raise InputError(f"every block of features must have one row for each of {n} sites, not {block.n}")
        if isinstance(block, DirichletMultinomial):
            s, pi = block.weight, block.concentration
            totals = np.asarray(block.counts.sum(axis=0)).ravel()
            rows += [block.counts, sparse.csr_array(np.asarray(block.counts.sum(axis=1)).reshape(n, 1))]
            needs += [int(most) for most in (*totals, totals.sum())]
            own = [_log_gammas(p, s, 1.0) for p in pi] + [_log_gammas(block.phi, s, -1.0)]
            formulas += own
            fills += [partial(_log_gamma_table, formula, s) for formula in own]
        elif isinstance(block, Gaussian):
            if pixels >= 0:
                raise InputError("a problem takes one block of continuous channels; put all channels into it")
            pixels = len(needs)
            rows.append(sparse.csr_array(block.mass.reshape(n, 1)))
            needs.append(int(block.mass.sum()))
            formulas.append(block.pixel_tail())
            fills.append(block.pixel_table)
            moments = block.weight * np.concatenate((block.sums, block.squares), axis=1)
            gauss = np.concatenate(([block.kappa, block.shape, block.weight], block.rate))
    counts = (
        sparse.csr_array(sparse.hstack(rows, format="csr")) if rows else sparse.csr_array(np.zeros((n, 0), np.int64))
    )
    counts.sort_indices()
    most = MOST_ENTRIES
    while sum(min(need + 1, most) for need in needs) > ALL_ENTRIES:
        most //= 2
    ends = np.array([min(need + 1, most) for need in needs], np.int64)
    start = np.cumsum(ends) - ends
    table = np.empty(int(ends.sum()))
    for first, length, fill in zip(start, ends, fills, strict=True):
        table[first : first + length] = fill(int(length))
    beyond = [formula if need >= most else np.zeros(TAIL) for formula, need in zip(formulas, needs, strict=True)]
    return Evidence(
        site_start=counts.indptr.astype(np.int64),
        word=counts.indices.astype(np.uint32),
        times=counts.data.astype(np.uint32),
        table=table,
        table_start=start.astype(np.uint64),
        table_end=ends.astype(np.uint32),
        tail=np.array(beyond, np.float64).reshape(len(needs), TAIL),
        moments=np.ascontiguousarray(moments),
        gauss=gauss,
        pixels=pixels,
    )
