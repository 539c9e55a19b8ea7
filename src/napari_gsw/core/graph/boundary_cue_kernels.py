"""Compiled loops over the edges of the region graph: how far two sites, or what is around them, are apart."""

from __future__ import annotations

import numpy as np

from napari_gsw.core.arrays import Floats, Ints, Longs
from napari_gsw.core.jit import njit, zeros

# In place of no pixels as a divisor.
NOTHING = 1e-9
# In place of 0 as a divisor of 0.
TINY = 1e-300


@njit
def differences(sums: Floats, i: Longs, j: Longs, parts: Longs) -> Floats:
    """(m, parts) float64 of rows i and j of the sums: distance of colour words, of texture words, of mean colours, ...

    Parameters
    ----------
    sums : (rows, colour words + texture words + channels + ... + 1) float64, the last one the number of pixels.
    i, j : (m,) int64 rows.
    parts : (parts,) int64, where each of them ends; from the third on they are means.
    """
    out = np.empty((i.size, parts.size), np.float64)
    term = zeros(sums.shape[1], np.float64)
    for e in range(i.size):
        _compare(sums[i[e]], sums[j[e]], parts, term, out[e])
    return out


@njit
def surroundings(start: Ints, near: Ints, sums: Floats, around: Floats, i: Ints, j: Ints, parts: Longs) -> Floats:
    """(m, parts) differences, as :func:`differences`, of what is around i and not around j from the converse.

    Parameters
    ----------
    start, near : (n + 1,) and (nnz,) int32, the sites around each, in ascending order.
    sums, around : (n, columns) float64 of each site, and of all that are around it.
    i, j : (m,) int32 sites.
    parts : (parts,) int64.
    """
    out = np.empty((i.size, parts.size), np.float64)
    common, a, b, term = np.empty((4, sums.shape[1]), np.float64)
    for e in range(i.size):
        p, q = start[i[e]], start[j[e]]
        common[:] = 0
        while p < start[i[e] + 1] and q < start[j[e] + 1]:
            if near[p] == near[q]:
                site = near[p]
                for f in range(common.size):
                    common[f] += sums[site, f]
                p += 1
                q += 1
            elif near[p] < near[q]:
                p += 1
            else:
                q += 1
        for f in range(common.size):
            a[f] = around[i[e], f] - common[f]
            b[f] = around[j[e], f] - common[f]
        _compare(a, b, parts, term, out[e])
    return out


@njit
def _compare(a: Floats, b: Floats, parts: Longs, term: Floats, out: Floats) -> None:
    """Of two rows of sums, the distance in [0, 1] of their histograms (chi squared) and that of their means.

    Parameters
    ----------
    a, b : (columns,) float64. term : (columns,) scratch. out : (parts,), written.
    """
    last = a.size - 1
    left, right = np.divide(1.0, max(a[last], NOTHING)), np.divide(1.0, max(b[last], NOTHING))
    for f in range(parts[1]):
        x, y = a[f] * left, b[f] * right
        term[f] = np.divide((x - y) * (x - y), max(x + y, TINY))
    out[0] = _sum(term, 0, parts[0]) / 2
    out[1] = _sum(term, parts[0], parts[1]) / 2
    for part in range(2, parts.size):
        square = 0.0
        for f in range(parts[part - 1], parts[part]):
            step = a[f] * left - b[f] * right
            square += step * step
        out[part] = np.sqrt(square)


@njit
def _sum(term: Floats, first: int, end: int) -> float:
    """Sum of term[first:end], (terms,) float64, as four sums side by side: one alone waits for itself."""
    last_four = first + (end - first) // 4 * 4
    s = t = u = v = 0.0
    for f in range(first, last_four, 4):
        s += term[f]
        t += term[f + 1]
        u += term[f + 2]
        v += term[f + 3]
    for f in range(last_four, end):
        s += term[f]
    return (s + t) + (u + v)


@njit
def add_merges(sums: Floats, n: int, left: Longs, right: Longs) -> None:
    """Fill in the rows of sums (n + merges, columns) from n on: row n + s is the sum of rows left[s] and right[s].

    Parameters
    ----------
    left, right : (merges,) int64 rows that come before.
    """
    for s in range(left.size):
        for f in range(sums.shape[1]):
            sums[n + s, f] = sums[left[s], f] + sums[right[s], f]
