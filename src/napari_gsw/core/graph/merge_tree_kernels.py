"""Compiled loops over the tree of merges.

Strategy
--------
A region is known by one of its sites, its *name*; its boundaries are a linked list of half-edges: 2 e and 2 e + 1 are
the two sides of edge e, filed under the names of its two ends. When two regions merge, the shorter list is moved into
the longer one, so that a half-edge is moved O(log m) times. A boundary that leads where the other region has one too is
joined with it: their lengths and their weighted sums add up. Nothing is ever searched for in the queue: a boundary
whose mean has changed is queued again, and an entry that no longer is what it says is passed over. Regions grow, and
with them the value of their boundaries; an entry that says too little is queued again when its turn comes.
"""

from __future__ import annotations

import heapq

import numpy as np

from napari_gsw.core.array_types import Float64Array, Int32Array, Int64Array
from napari_gsw.core.jit import arange, as_int64, full, njit, zeros


@njit
def _value(
    e: int, end: Int32Array, total: Float64Array, length: Float64Array, size: Float64Array, growth: float
) -> float:
    """The value of boundary e as its two regions are at this moment: its mean, plus what their growth adds."""
    mean: float = total[e] / length[e]
    if growth != 0:
        mean += growth * np.log(min(size[end[e, 0]], size[end[e, 1]]))
    return mean


@njit
def agglomerate(
    n: int, edges: Int32Array, total: Float64Array, length: Float64Array, size: Float64Array, growth: float
) -> tuple[Int64Array, Int64Array, Float64Array]:
    """Merge the two neighbouring regions with the boundary of least value until none is left.

    The value of a boundary is its mean, plus `growth` for each time that the smaller of its two regions has grown by e.

    Parameters
    ----------
    edges : (m, 2) int32 sites; two of one pair are taken as one boundary.
    total, length : (m,) float64 length of each boundary times its value, and its length; overwritten.
    size : (n,) float64 size of each site, above 0; overwritten. Not looked at if `growth` is 0.
    growth : 0 or more.

    Returns
    -------
    left, right : (merges,) int64 the nodes that merge, left < right; nodes below n are sites, node n + s is what merge
        s makes.
    height : (merges,) float64 value of the boundary between them, and never less than the one before.

    Of equal values, the boundary that has the edge with the smallest number comes first.
    """
    m = edges.shape[0]
    end = edges.copy()
    alive = full(m, 1, np.bool_)
    following = full(2 * m, -1, np.int64)
    first = full(n, -1, np.int64)
    entries = zeros(n, np.int64)  # of the list, dead ones included: what it costs to move it
    between: dict[int, int] = {}  # name * n + name, the smaller one first -> edge
    for e in range(m):
        a = min(end[e, 0], end[e, 1])
        b = max(end[e, 0], end[e, 1])
        key = as_int64(a) * n + b
        if key in between:
            other = between[key]
            total[other] += total[e]
            length[other] += length[e]
            alive[e] = False
            continue
        between[key] = as_int64(e)
        for side in range(2):
            following[2 * e + side] = first[end[e, side]]
            first[end[e, side]] = 2 * e + side
            entries[end[e, side]] += 1
    queue = [(_value(e, end, total, length, size, growth), e) for e in range(m) if alive[e]]
    heapq.heapify(queue)

    node = arange(n, np.int64)
    left = np.empty(max(n - 1, 0), np.int64)
    right = np.empty(max(n - 1, 0), np.int64)
    height = np.empty(max(n - 1, 0), np.float64)
    merges = 0
    while len(queue) > 0:
        value, e = heapq.heappop(queue)
        if not alive[e]:
            continue
        now = _value(e, end, total, length, size, growth)
        if value != now:
            if value < now:
                heapq.heappush(queue, (now, e))
            continue
        a = end[e, 0]
        b = end[e, 1]
        if entries[a] > entries[b]:
            a, b = b, a
        left[merges] = min(node[a], node[b])
        right[merges] = max(node[a], node[b])
        # The mean of two boundaries is never less than both, and no region shrinks, so heights grow by themselves but
        # for rounding.
        height[merges] = value if merges == 0 else max(value, height[merges - 1])
        node[b] = n + merges
        size[b] += size[a]
        merges += 1
        alive[e] = False

        h = first[a]
        while h >= 0:
            after = following[h]
            e = h // 2
            if alive[e]:
                c = end[e, 1 - h % 2]
                end[e, h % 2] = b
                key = as_int64(min(b, c)) * n + max(b, c)
                if key in between:
                    other = between[key]
                    kept = min(e, other)
                    gone = max(e, other)
                    total[kept] += total[gone]
                    length[kept] += length[gone]
                    alive[gone] = False
                    heapq.heappush(queue, (_value(kept, end, total, length, size, growth), kept))
                else:
                    kept = e
                between[key] = as_int64(kept)
                if kept == e:
                    following[h] = first[b]
                    first[b] = h
                    entries[b] += 1
            h = after
    return left[:merges], right[:merges], height[:merges]


@njit
def cut(n: int, left: Int64Array, right: Int64Array, merges: int) -> Int32Array:
    """(n,) int32 labels of the sites, numbered in the order of their first site, after the first `merges` merges.

    Parameters
    ----------
    left, right : int64, as of :func:`agglomerate`.
    """
    top = arange(n + merges, np.int64)  # the last node that each belongs to
    for s in range(merges - 1, -1, -1):
        top[left[s]] = top[n + s]
        top[right[s]] = top[n + s]
    number = full(n + merges, -1, np.int32)
    labels = np.empty(n, np.int32)
    count = 0
    for i in range(n):
        if number[top[i]] < 0:
            number[top[i]] = count
            count += 1
        labels[i] = number[top[i]]
    return labels


@njit
def meeting(n: int, left: Int64Array, right: Int64Array, edges: Int32Array) -> Int64Array:
    """(m,) int64 number of the merge by which the two ends of each edge (m, 2) int32 become one.

    As many as there are merges if they never do, -1 for a site and itself.

    The merges are replayed as a forest in which the smaller region hangs under the larger one, so that no path is
    longer than log2 n. Going up a path the merges are later and later; of the two ends, the one that was hung earlier
    goes up, and the merge that brings it to the other is the one wanted.
    """
    merges = left.size
    parent = arange(n, np.int64)
    hung = full(n, merges, np.int64)  # the merge that hung a site under its parent
    name = np.empty(n + merges, np.int64)
    size = full(n, 1, np.int64)
    name[:n] = arange(n, np.int64)
    for s in range(merges):
        a = name[left[s]]
        b = name[right[s]]
        if size[a] > size[b]:
            a, b = b, a
        parent[a] = b
        hung[a] = s
        size[b] += size[a]
        name[n + s] = b
    result = np.empty(edges.shape[0], np.int64)
    for e in range(edges.shape[0]):
        a = as_int64(edges[e, 0])
        b = as_int64(edges[e, 1])
        last = -1
        while a != b and last < merges:
            if hung[a] > hung[b]:
                a, b = b, a
            last = hung[a]
            a = parent[a]
        result[e] = last
    return result
