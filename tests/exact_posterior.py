"""Exact laws of small problems, and what a chain visits of them."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import numpy as np

import napari_gsw as gsw
from napari_gsw.core.jit import njit
from napari_gsw.core.partitions import canonical_labels
from napari_gsw.core.sampler import bonds
from napari_gsw.core.sampler.chain import ENDLESS, Chain, start_chain, step
from napari_gsw.core.sampler.chain_kernels import advance
from napari_gsw.core.sampler.cluster_statistics import grow_state
from napari_gsw.core.sampler.moves.split_merge_kernels import split_or_merge
from napari_gsw.core.sampler.options import NO_ANNEALING, NO_MOVES, SamplerOptions
from napari_gsw.core.sampler.state import USED, Bonds, Moves, Schedule

BATCHES = 100


def partitions(n: int) -> np.ndarray:
    """All partitions of n sites as canonical labels, shape (Bell(n), n)."""
    rows = [(0,)]
    for _ in range(n - 1):
        rows = [(*row, k) for row in rows for k in range(max(row) + 2)]
    return np.array(rows)


def posterior(
    problem: gsw.Problem, seeds: np.ndarray | None = None, inverse_temperature: float = 1.0
) -> tuple[np.ndarray, np.ndarray]:
    """The support of a small posterior, and the probability of each partition, to the power `inverse_temperature`."""
    rows = partitions(problem.n)
    if seeds is not None:
        held = np.flatnonzero(seeds >= 0)
        same = seeds[held][:, None] == seeds[held]
        rows = rows[[np.array_equal(row[held][:, None] == row[held], same) for row in rows]]
    log_p = inverse_temperature * log_posteriors(problem, rows)
    inside = np.isfinite(log_p)
    p = np.exp(log_p[inside] - log_p[inside].max())
    return rows[inside], p / p.sum()


def log_posteriors(problem: gsw.Problem, rows: np.ndarray) -> np.ndarray:
    """:func:`napari_gsw.log_posterior` of many partitions (states, n): the evidence of each cluster is asked for once.

    It is a sum over clusters; what a cluster adds to its sites each by itself is known by the sites in it, as bits.
    """
    apart = np.arange(problem.n)
    codes = [(rows == cluster) @ (1 << apart) for cluster in range(problem.n)]
    sites, where = np.unique([np.zeros(len(rows), np.int64), *codes], return_inverse=True)
    together = np.where((sites[:, None] >> apart) & 1, problem.n, apart)
    evidence = np.array([sum(block.log_marginal(labels) for block in problem.likelihoods) for labels in together])
    bare = dataclasses.replace(problem, likelihoods=())
    values = np.array([gsw.log_posterior(bare, row) for row in rows])
    return values + evidence[0] + (evidence - evidence[0])[where].reshape(-1, len(rows)).sum(axis=0)


@njit
def _codes(target, made, state, draws, schedule, splits, rng, sweeps):
    """The partition after each sweep, as a number in base n. The burn-in never ends, so that no draws are kept."""
    codes = np.zeros(sweeps, np.int64)
    trace = np.zeros((1, 3))
    for t in range(sweeps):
        state = advance(target, made, state, draws, schedule, splits, rng, trace)
        for k in canonical_labels(state.labels):
            codes[t] = codes[t] * state.labels.size + k
    return codes


@njit
def _codes_of_splits(target, state, moves, inverse_temperature, rng, rounds):
    """The same of split-merge moves alone, without a sweep."""
    codes = np.zeros(rounds, np.int64)
    for t in range(rounds):
        for _ in range(moves.splits):
            if state.scratch.slots[USED] == state.clusters.size.size:
                state = grow_state(state, 2 * state.clusters.size.size)
            split_or_merge(target, state, moves, inverse_temperature, rng)
        for k in canonical_labels(state.labels):
            codes[t] = codes[t] * state.labels.size + k
    return codes


@dataclass
class Agreement:
    """Agreement of a long run with the exact law."""

    total_variation: float
    noise: float  # total variation that Monte-Carlo error alone would give
    pair_z: float  # largest z-score of P(i and j share a cluster)
    missed: float  # probability of the most probable partition that was never visited
    reached: int  # partitions visited
    support: int
    stray: int  # visits outside the support
    sweeps: int


def agrees(agreement: Agreement) -> bool:
    """Total variation and pairs within Monte-Carlo error, and no partition missed that ten visits were expected of.

    Of a long run it is one of probability 1e-4: visits that come in a row are worth less than as many apart.
    """
    inside = agreement.total_variation < 2.5 * agreement.noise + 1e-4 and agreement.pair_z < 5.0
    return agreement.stray == 0 and agreement.missed < max(1e-4, 10 / agreement.sweeps) and inside


def agreement(
    problem: gsw.Problem,
    made: Bonds | float = 10.0,
    sweeps: int = 200_000,
    seed: int = 0,
    seeds: np.ndarray | None = None,
    regroups: int | None = None,
    inverse_temperature: float = 1.0,
    moves: Moves = NO_MOVES,
    sweeping: bool = True,
) -> Agreement:
    """Run a chain and compare what it visits with the enumerated posterior.

    Errors come from the means of 100 batches, so that they know how the chain is correlated.
    """
    if not isinstance(made, Bonds):
        made = bonds.constant_bonds(problem, made)
    if regroups is None:
        regroups = int(np.isneginf(problem.tables.log_w[1:]).any())
    rows, exact = posterior(problem, seeds, inverse_temperature)
    annealing = NO_ANNEALING._replace(inverse_temperature=inverse_temperature)
    options = SamplerOptions(made, regroups, ENDLESS, annealing, moves)
    chain = start_chain(problem, options, seed, None, seeds)
    if sweeping:
        splits = moves if moves.splits else None
        schedule = Schedule(annealing, moves.full, moves.near, regroups, ENDLESS, chain.stop)
        codes = _codes(
            chain.target, made, chain.state, chain.draws.buffer, schedule, splits, chain.rng, sweeps
        )  # fmt: skip
    else:
        codes = _codes_of_splits(chain.target, chain.state, moves, inverse_temperature, chain.rng, sweeps)
    return compared(codes, rows, exact)


def chain_agreement(chain: Chain, sweeps: int) -> Agreement:
    """As :func:`agreement`, of any chain, sweep by sweep as its users see it."""
    n = chain.problem.n
    held = chain.seeds if (chain.seeds >= 0).any() else None
    base = n ** np.arange(n)[::-1]
    codes = np.empty(sweeps, np.int64)
    for t in range(sweeps):
        step(chain, 1)
        codes[t] = canonical_labels(chain.labels) @ base
    return compared(codes, *posterior(chain.problem, held))


def compared(codes: np.ndarray, rows: np.ndarray, exact: np.ndarray) -> Agreement:
    """Visits against a law: `codes` the visited states as numbers in base n, `rows` (states, n) with law `exact`."""
    n, sweeps = rows.shape[1], len(codes)
    known = rows @ (n ** np.arange(n)[::-1])
    order = np.argsort(known)
    place = order[np.minimum(np.searchsorted(known[order], codes), len(known) - 1)]
    stray = int((known[place] != codes).sum())
    batch = np.arange(sweeps) * BATCHES // sweeps
    share = np.bincount(batch * len(rows) + place, minlength=BATCHES * len(rows)).reshape(BATCHES, -1)
    share = share * BATCHES / sweeps
    found = share.mean(axis=0)
    error = share.std(axis=0, ddof=1) / np.sqrt(BATCHES)
    pairs = np.array([(rows[:, i] == rows[:, j]) for i in range(n) for j in range(i)], dtype=float).T
    pair_share = share @ pairs
    pair_error = pair_share.std(axis=0, ddof=1) / np.sqrt(BATCHES)
    gap = pair_share.mean(axis=0) - exact @ pairs
    return Agreement(
        total_variation=float(np.abs(found - exact).sum() / 2),
        noise=float(np.sqrt(2 / np.pi) * error.sum() / 2),
        pair_z=float(np.max(np.abs(gap) / np.maximum(pair_error, 1e-6))),
        missed=float(exact[found == 0].max(initial=0.0)),
        reached=int((found > 0).sum()),
        support=len(rows),
        stray=stray,
        sweeps=sweeps,
    )
