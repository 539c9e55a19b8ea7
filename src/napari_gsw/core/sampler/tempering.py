"""Parallel tempering: replicas of a chain at several temperatures that exchange their states.

Replica r samples the posterior to the power b_r, with 1 = b_0 > b_1 > ... The hotter a replica, the more easily it
leaves a mode. Before every sweep neighbouring replicas r and s propose to exchange their states, and do so with
probability min(1, exp((b_r - b_s) (L_s - L_r))), L being their log posteriors; even and odd pairs take turns. This
leaves the distribution of every replica invariant, so that the first one is an ordinary chain that mixes better.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
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

# A burn-in that never ends: the sums of the hotter replicas are not used.
ENDLESS = 2**62
# Columns of `exchanges`.
PROPOSED, ACCEPTED = 0, 1


@dataclass
class TemperedChain(Chain):
    """The first replica, with the hotter ones."""

    hotter: list[Chain] = field(default_factory=list)  # from cold to hot
    # (replicas - 1, 2) proposed and accepted exchanges of each pair of neighbours
    exchanges: Int64Array = field(default_factory=lambda: np.zeros((0, 2), np.int64))

    @property
    def replicas(self) -> list[Chain]:
        """All replicas, from cold to hot."""
        return [self, *self.hotter]

    @property
    def swap_rate(self) -> Float64Array:
        """(replicas - 1,) share of the proposed exchanges that were accepted; NaN where none was proposed."""
        proposed = np.where(self.exchanges[:, PROPOSED] > 0, self.exchanges[:, PROPOSED], np.nan)
        return np.asarray(self.exchanges[:, ACCEPTED] / proposed)

    def advance(self, trace: Float64Array) -> None:
        """Advance all replicas; the trace is that of the first."""
        for hot in self.hotter:  # the first one's moves, each at its own temperature
            hot.options = replace(self.options, annealing=hot.options.annealing, burn_in=ENDLESS)
        for t in range(len(trace)):
            self._exchange()
            super().advance(trace[t : t + 1])
            for hot in self.hotter:
                hot.advance(np.empty((1, N_TRACED)))
            # Every replica has the best value of all, so that it records only what is better still.
            best = max(self.replicas, key=lambda replica: float(replica.sums.value[BEST]))
            if best is not self:
                self.sums.best[:] = best.sums.best
                self.sums.counted[BEST_SWEEP] = best.sums.counted[BEST_SWEEP]
            for replica in self.replicas:
                replica.sums.value[BEST] = best.sums.value[BEST]
            if self.stop[0]:
                break

    def _exchange(self) -> None:
        """Propose to exchange the states of every other pair of neighbours."""
        replicas = self.replicas
        for r in range(self.sweep % 2, len(self.hotter), 2):
            cold, hot = replicas[r : r + 2]
            a, b = cold.state, hot.state
            self.exchanges[r, PROPOSED] += 1
            difference = cold.inverse_temperature - hot.inverse_temperature
            if math.log(1.0 - self.rng.random()) < difference * (b.sums.value[NOW] - a.sums.value[NOW]):
                self.exchanges[r, ACCEPTED] += 1
                a.sums.value[NOW], b.sums.value[NOW] = b.sums.value[NOW], a.sums.value[NOW]
                # The states change places; the sums stay.
                cold.state = ChainState(b.labels, b.clusters, b.scratch, a.sums)
                hot.state = ChainState(a.labels, a.clusters, a.scratch, b.sums)

    def _ladder(self) -> list[float]:
        first = self.options.annealing.inverse_temperature
        return [replica.options.annealing.inverse_temperature / first for replica in self.replicas]

    def arrays(self) -> Arrays:
        """Return the state of the hotter replicas: labels and generators in rows, statistics of all slots in a row."""
        slots = [int(hot.state.scratch.slots[USED]) for hot in self.hotter]
        clusters = [(hot.state.clusters, used) for hot, used in zip(self.hotter, slots, strict=True)]
        first = self.state.clusters
        generators = np.array([generator_state(hot.rng) for hot in self.hotter], np.uint64)
        return {
            "ladder": np.array(self._ladder()),
            "exchanges": self.exchanges,
            "hot_labels": np.array([hot.labels for hot in self.hotter], np.int32).reshape(-1, self.problem.n),
            "hot_generator": generators.reshape(-1, N_GENERATOR_WORDS),
            "hot_log_posterior": np.array([hot.sums.value[NOW] for hot in self.hotter], np.float64),
            "hot_slots": np.array(slots, dtype=np.int64),
            "hot_moments": np.concatenate([first.moments[:, :0], *(c.moments[:, :k] for c, k in clusters)], axis=1),
            "hot_gauss": np.concatenate([first.gauss[:0], *(c.gauss[:k] for c, k in clusters)]),
        }

    def renewed(self, chain: Chain) -> Chain:
        """Return all replicas in the state of `chain`; their generators continue."""
        hotter = [
            _make_replica(chain, b, {"generator": generator_state(hot.rng)})
            for b, hot in zip(self._ladder()[1:], self.hotter, strict=True)
        ]
        return _join_replicas(chain, hotter, self.exchanges.copy())


def add_replicas(chain: Chain, ladder: ArrayLike, seed: int) -> TemperedChain:
    """Add replicas that start in the state of a chain, with generators from a seed.

    The `ladder` has their inverse temperatures, from 1 downwards, as `make_ladder` makes them.
    """
    inverse = to_float_array("ladder", ladder)
    is_ladder = inverse.ndim == 1 and inverse.size > 0 and inverse[0] == 1 and (np.diff(inverse) < 0).all()
    if not is_ladder or inverse[-1] < 1 / MAX_TEMPERATURE:
        raise InputError(
            "a ladder is a list of inverse temperatures that falls from 1 and stays > 0 (and not below "
            f"{1 / MAX_TEMPERATURE:g}), not {ladder!r}"
        )
    hotter = []
    for r in range(1, inverse.size):
        rng = np.random.Generator(np.random.SFC64(np.random.SeedSequence(seed, spawn_key=(0, r))))
        hotter.append(_make_replica(chain, float(inverse[r]), {"generator": generator_state(rng)}))
    return _join_replicas(chain, hotter, np.zeros((len(hotter), 2), np.int64))


def restore_replicas(chain: Chain, state: Arrays) -> TemperedChain:
    """Restore the replicas from a checked state, `chain` being the first."""
    hotter, end = [], 0
    for r, inverse_temperature in enumerate(state["ladder"][1:].tolist()):
        begin, end = end, end + int(state["hot_slots"][r])
        arrays = {
            "labels": state["hot_labels"][r],
            "generator": state["hot_generator"][r],
            "log_posterior": state["hot_log_posterior"][r],
            "moments": state["hot_moments"][:, begin:end],
            "gauss": state["hot_gauss"][begin:end],
        }
        hotter.append(_make_replica(chain, inverse_temperature, arrays))
        check_consistent(hotter[-1])
    return _join_replicas(chain, hotter, state["exchanges"])


def _make_replica(chain: Chain, inverse_temperature: float, arrays: Mapping[str, NDArray[Any]]) -> Chain:
    """Copy a chain to another temperature, with some other arrays and without draws."""
    state = dict(export_state(chain)) | {"draws": chain.draws.kept[:0]} | dict(arrays)
    annealing = chain.options.annealing
    annealing = annealing._replace(inverse_temperature=annealing.inverse_temperature * inverse_temperature)
    return restore_chain(chain.problem, state, burn_in=ENDLESS, annealing=annealing)


def _join_replicas(chain: Chain, hotter: list[Chain], exchanges: Int64Array) -> TemperedChain:
    first = {f.name: getattr(chain, f.name) for f in fields(Chain)}
    return TemperedChain(**first, hotter=hotter, exchanges=exchanges)
