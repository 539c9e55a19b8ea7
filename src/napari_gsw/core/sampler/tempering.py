"""Parallel tempering: replicas of a chain at several temperatures that exchange their states.

Replica r samples the posterior to the power b_r, with 1 = b_0 > b_1 > ... The hotter a replica, the more easily it
leaves a mode. Before every sweep neighbouring replicas r and s propose to exchange their states, which they do with
probability min(1, exp((b_r - b_s) (L_s - L_r))), L being their log posteriors; even and odd pairs take turns. This
leaves the law of every replica as it is, so that the first one is an ordinary exact chain that jumps further.

:class:`Tempered` *is* its first replica: a chain like any other to whoever advances it or looks at it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from napari_gsw.core.array_types import Arrays, Float64Array, Int64Array
from napari_gsw.core.errors import InputError, to_float_array
from napari_gsw.core.sampler.chain import Chain
from napari_gsw.core.sampler.options import MAX_TEMPERATURE
from napari_gsw.core.sampler.snapshot import (
    N_GENERATOR_WORDS,
    check_consistent,
    export_state,
    generator_state,
    restore_chain,
)
from napari_gsw.core.sampler.state import BEST, BEST_SWEEP, N_TRACED, NOW, USED, ChainState

# A burn-in that never ends: nobody asks for the sums of the hotter replicas.
ENDLESS = 2**62
# Columns of `exchanges`.
PROPOSED, ACCEPTED = 0, 1


@dataclass
class TemperedChain(Chain):
    """The first replica, and the hotter ones.

    Attributes
    ----------
    hotter : the other replicas, from cold to hot.
    exchanges : (replicas - 1, 2) exchanges of each pair of neighbours: how many were proposed, and how many were made.
    threads : replicas that are advanced at a time; the result does not depend on it.
    """

    hotter: list[Chain] = field(default_factory=list)
    exchanges: Int64Array = field(default_factory=lambda: np.zeros((0, 2), np.int64))
    threads: int = 1

    @property
    def replicas(self) -> list[Chain]:
        return [self, *self.hotter]

    @property
    def swap_rate(self) -> Float64Array:
        """(replicas - 1,) share of the proposed exchanges that were made; NaN where none was proposed."""
        proposed = np.where(self.exchanges[:, PROPOSED] > 0, self.exchanges[:, PROPOSED], np.nan)
        return np.asarray(self.exchanges[:, ACCEPTED] / proposed)

    def advance(self, trace: Float64Array) -> None:
        for hot in self.hotter:  # they move as the first one does, each at its own temperature
            hot.options = replace(self.options, annealing=hot.options.annealing, burn_in=ENDLESS)
        if self.threads == 1 or not self.hotter:
            self._advance(trace, lambda *each: list(map(*each)))
        else:
            with ThreadPoolExecutor(min(self.threads, len(self.replicas))) as pool:
                self._advance(trace, lambda *each: list(pool.map(*each)))

    def _advance(self, trace: Float64Array, each: Any) -> None:
        rows = [np.empty((1, N_TRACED)) for _ in self.hotter]
        for t in range(len(trace)):
            self._exchange()
            each(Chain.advance, self.replicas, [trace[t : t + 1], *rows])
            self._share_best()
            if self.stop[0]:
                break

    def _exchange(self) -> None:
        replicas = self.replicas
        for r in range(self.sweep % 2, len(self.hotter), 2):
            cold, hot = replicas[r : r + 2]
            here, there = cold.sums.value, hot.sums.value
            self.exchanges[r, PROPOSED] += 1
            if math.log(1.0 - self.rng.random()) < (cold.coldness - hot.coldness) * (there[NOW] - here[NOW]):
                self.exchanges[r, ACCEPTED] += 1
                here[NOW], there[NOW] = there[NOW], here[NOW]
                # The states change places; what each replica has seen stays with it.
                a, b = cold.walker, hot.walker
                cold.walker = ChainState(b.labels, b.clusters, b.work, a.sums)
                hot.walker = ChainState(a.labels, a.clusters, a.work, b.sums)

    def _share_best(self) -> None:
        """Let every replica know the best value of all, so that each notes only what is better still."""
        leader = max(self.replicas, key=lambda replica: float(replica.sums.value[BEST]))
        if leader is not self:
            self.sums.best[:] = leader.sums.best
            self.sums.counted[BEST_SWEEP] = leader.sums.counted[BEST_SWEEP]
        for replica in self.replicas:
            replica.sums.value[BEST] = leader.sums.value[BEST]

    def arrays(self) -> Arrays:
        """The hotter replicas: labels and generators in rows, what is known of their slots one after the other."""
        slots = [int(hot.walker.work.slots[USED]) for hot in self.hotter]
        each = [(hot.walker.clusters, used) for hot, used in zip(self.hotter, slots, strict=True)]
        own = self.walker.clusters
        return {
            "ladder": np.array([r.options.annealing.coldness for r in self.replicas]) / self.options.annealing.coldness,
            "exchanges": self.exchanges,
            "hot_labels": np.array([hot.labels for hot in self.hotter], np.int32).reshape(-1, self.problem.n),
            "hot_generator": np.array([generator_state(h.rng) for h in self.hotter], np.uint64).reshape(
                -1, N_GENERATOR_WORDS
            ),
            "hot_log_posterior": np.array([hot.sums.value[NOW] for hot in self.hotter], np.float64),
            "hot_slots": np.array(slots, dtype=np.int64),
            "hot_moments": np.concatenate([own.moments[:, :0], *(c.moments[:, :used] for c, used in each)], axis=1),
            "hot_gauss": np.concatenate([own.gauss[:0], *(c.gauss[:used] for c, used in each)]),
        }

    def renewed(self, chain: Chain) -> Chain:
        """All replicas in the state of `chain`; their generators go on."""
        ladder = [hot.options.annealing.coldness / self.options.annealing.coldness for hot in self.hotter]
        words = [generator_state(hot.rng) for hot in self.hotter]
        hotter = [_make_replica(chain, b, {"generator": w}) for b, w in zip(ladder, words, strict=True)]
        return _join_replicas(chain, hotter, self.exchanges.copy(), self.threads)


def add_replicas(chain: Chain, ladder: ArrayLike, seed: int, threads: int = 1) -> TemperedChain:
    """A chain with hotter replicas of it, which all begin where it is.

    Parameters
    ----------
    ladder : inverse temperatures of the replicas, from 1 downwards; :func:`geometric_ladder` makes one.
    seed : of the replicas' own generators.
    """
    coldness = to_float_array("ladder", ladder)
    decreasing = coldness.ndim == 1 and coldness.size > 0 and coldness[0] == 1 and (np.diff(coldness) < 0).all()
    if not decreasing or coldness[-1] < 1 / MAX_TEMPERATURE:
        raise InputError(
            "a ladder is a list of inverse temperatures that falls from 1 and stays > 0 (and not below "
            f"{1 / MAX_TEMPERATURE:g}), not {ladder!r}"
        )
    hotter = []
    for r in range(1, coldness.size):
        own = np.random.Generator(np.random.SFC64(np.random.SeedSequence(seed, spawn_key=(0, r))))
        hotter.append(_make_replica(chain, float(coldness[r]), {"generator": generator_state(own)}))
    return _join_replicas(chain, hotter, np.zeros((len(hotter), 2), np.int64), threads)


def restore_replicas(chain: Chain, state: Arrays) -> TemperedChain:
    """The tempered chain whose checked state this is, `chain` being its first replica."""
    hotter, end = [], 0
    for r, coldness in enumerate(state["ladder"][1:].tolist()):
        begin, end = end, end + int(state["hot_slots"][r])
        own = {
            "labels": state["hot_labels"][r],
            "generator": state["hot_generator"][r],
            "log_posterior": state["hot_log_posterior"][r],
            "moments": state["hot_moments"][:, begin:end],
            "gauss": state["hot_gauss"][begin:end],
        }
        hotter.append(_make_replica(chain, coldness, own))
        check_consistent(hotter[-1])
    return _join_replicas(chain, hotter, state["exchanges"], 1)


def _make_replica(chain: Chain, coldness: float, own: Mapping[str, NDArray[Any]]) -> Chain:
    """A copy of a chain at another temperature, with some arrays of its own; it keeps no draws."""
    state = dict(export_state(chain)) | {"draws": chain.draws.kept[:0]} | dict(own)
    annealing = chain.options.annealing
    return restore_chain(
        chain.problem, state, burn_in=ENDLESS, annealing=annealing._replace(coldness=annealing.coldness * coldness)
    )


def _join_replicas(chain: Chain, hotter: list[Chain], exchanges: Int64Array, threads: int) -> TemperedChain:
    own = {f.name: getattr(chain, f.name) for f in fields(Chain)}
    return TemperedChain(**own, hotter=hotter, exchanges=exchanges, threads=threads)
