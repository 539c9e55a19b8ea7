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
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from napari_gsw.core.arrays import Arrays, Floats, Longs
from napari_gsw.core.errors import InputError
from napari_gsw.core.sampler.chain import Chain
from napari_gsw.core.sampler.records import TRACE
from napari_gsw.core.sampler.snapshot import exported, restored

# A burn-in that never ends: nobody asks for the sums of the hotter replicas.
NEVER = 2**62


@dataclass
class Tempered(Chain):
    """The first replica, and the hotter ones.

    Attributes
    ----------
    hotter : the other replicas, from cold to hot.
    exchanges : (replicas - 1, 2) exchanges of each pair of neighbours: how many were proposed, and how many were made.
    threads : replicas that are advanced at a time; the result does not depend on it.
    """

    hotter: list[Chain] = field(default_factory=list)
    exchanges: Longs = field(default_factory=lambda: np.zeros((0, 2), np.int64))
    threads: int = 1

    @property
    def replicas(self) -> list[Chain]:
        return [self, *self.hotter]

    @property
    def swap_rate(self) -> Floats:
        """(replicas - 1,) share of the proposed exchanges that were made; NaN where none was proposed."""
        proposed = np.where(self.exchanges[:, 0] > 0, self.exchanges[:, 0], np.nan)
        return np.asarray(self.exchanges[:, 1] / proposed)

    def advance(self, trace: Floats) -> None:
        for hot in self.hotter:
            hot.bonds, hot.regroups, hot.moves = self.bonds, self.regroups, self.moves
        if self.threads == 1 or not self.hotter:
            self._advance(trace, lambda *each: list(map(*each)))
        else:
            with ThreadPoolExecutor(min(self.threads, len(self.replicas))) as pool:
                self._advance(trace, lambda *each: list(pool.map(*each)))

    def _advance(self, trace: Floats, each: Any) -> None:
        rows = [np.empty((1, TRACE)) for _ in self.hotter]
        for t in range(len(trace)):
            self._exchange()
            each(Chain.advance, self.replicas, [trace[t : t + 1], *rows])
            self._share_best()

    def _exchange(self) -> None:
        replicas, sweep = self.replicas, int(self.posterior.counted[0])
        for r in range(sweep % 2, len(self.hotter), 2):
            cold, hot = replicas[r : r + 2]
            here, there = cold.posterior.value, hot.posterior.value
            self.exchanges[r, 0] += 1
            if math.log(1.0 - self.rng.random()) < (cold.coldness - hot.coldness) * (there[0] - here[0]):
                self.exchanges[r, 1] += 1
                here[0], there[0] = there[0], here[0]
                cold.labels, hot.labels = hot.labels, cold.labels
                cold.clusters, hot.clusters = hot.clusters, cold.clusters
                cold.work, hot.work = hot.work, cold.work

    def _share_best(self) -> None:
        """Let every replica know the best value of all, so that each notes only what is better still."""
        found = max(self.replicas, key=lambda replica: float(replica.posterior.value[1]))
        if found is not self:
            self.posterior.best[:] = found.posterior.best
            self.posterior.counted[2] = found.posterior.counted[2]
        for replica in self.replicas:
            replica.posterior.value[1] = found.posterior.value[1]

    def arrays(self) -> Arrays:
        """The hotter replicas: labels and generators in rows, what is known of their slots one after the other."""
        slots = [int(hot.work.slots[0]) for hot in self.hotter]
        moments = [hot.clusters.moments[:, :used] for hot, used in zip(self.hotter, slots, strict=True)]
        gauss = [hot.clusters.gauss[:used] for hot, used in zip(self.hotter, slots, strict=True)]
        none = self.clusters.moments[:, :0], self.clusters.gauss[:0]
        return {
            "ladder": np.array([r.cooling.coldness for r in self.replicas]) / self.cooling.coldness,
            "exchanges": self.exchanges,
            "hot_labels": np.array([hot.labels for hot in self.hotter]).reshape(-1, self.problem.n),
            "hot_generator": np.array([_words(hot.rng) for hot in self.hotter]),
            "hot_value": np.array([hot.posterior.value[0] for hot in self.hotter]),
            "hot_slots": np.array(slots, dtype=np.int64),
            "hot_moments": np.concatenate([none[0], *moments], axis=1),
            "hot_gauss": np.concatenate([none[1], *gauss]),
        }

    def renewed(self, chain: Chain) -> Chain:
        """All replicas in the state of `chain`; their generators go on."""
        ladder = [hot.cooling.coldness / self.cooling.coldness for hot in self.hotter]
        words = [_words(hot.rng) for hot in self.hotter]
        hotter = [_replica(chain, b, {"generator": w}) for b, w in zip(ladder, words, strict=True)]
        return _joined(chain, hotter, self.exchanges.copy(), self.threads)


def tempered(chain: Chain, ladder: ArrayLike, seed: int, threads: int = 1) -> Tempered:
    """A chain with hotter replicas of it, which all begin where it is.

    Parameters
    ----------
    ladder : inverse temperatures of the replicas, from 1 downwards; :func:`geometric_ladder` makes one.
    seed : of the replicas' own generators.
    """
    coldness = np.asarray(ladder, dtype=np.float64)
    decreasing = coldness.ndim == 1 and coldness.size > 0 and coldness[0] == 1 and (np.diff(coldness) < 0).all()
    if not decreasing or not (coldness > 0).all():
        raise InputError(f"a ladder is a list of inverse temperatures that falls from 1 and stays > 0, not {ladder!r}")
    hotter = []
    for r in range(1, coldness.size):
        own = np.random.Generator(np.random.SFC64(np.random.SeedSequence(seed, spawn_key=(0, r))))
        hotter.append(_replica(chain, float(coldness[r]), {"generator": _words(own)}))
    return _joined(chain, hotter, np.zeros((len(hotter), 2), np.int64), threads)


def reunited(chain: Chain, state: Arrays) -> Tempered:
    """The tempered chain whose state was exported, `chain` being its first replica."""
    hotter, end = [], 0
    best = float(chain.posterior.value[1])
    for r, coldness in enumerate(state["ladder"][1:].tolist()):
        begin, end = end, end + int(state["hot_slots"][r])
        own = {
            "labels": state["hot_labels"][r],
            "generator": state["hot_generator"][r],
            "value": np.array([state["hot_value"][r], best]),
            "moments": state["hot_moments"][:, begin:end],
            "gauss": state["hot_gauss"][begin:end],
        }
        hotter.append(_replica(chain, coldness, own))
    return _joined(chain, hotter, state["exchanges"].astype(np.int64), 1)


def _replica(chain: Chain, coldness: float, own: Mapping[str, NDArray[Any]]) -> Chain:
    """A copy of a chain at another temperature, with some arrays of its own."""
    base = {name: array for name, array in exported(chain).items() if name != "draws"}
    cooling = chain.cooling._replace(coldness=chain.cooling.coldness * coldness)
    return restored(
        chain.problem, chain.bonds, chain.regroups, NEVER, base | dict(own) | {"cooling": np.array(cooling)}
    )


def _joined(chain: Chain, hotter: list[Chain], exchanges: Longs, threads: int) -> Tempered:
    own = {f.name: getattr(chain, f.name) for f in fields(Chain)}
    return Tempered(**own, hotter=hotter, exchanges=exchanges, threads=threads)


def _words(rng: np.random.Generator) -> NDArray[np.uint64]:
    """The inner state of a generator."""
    return np.array(rng.bit_generator.state["state"]["state"])
