"""The one way from settings to how a chain moves."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from napari_gsw.core.arrays import Floats
from napari_gsw.core.inputs import MOST_MOVES, whole_number
from napari_gsw.core.model.problem import Problem
from napari_gsw.core.sampler import bonds as bonding
from napari_gsw.core.sampler.records import Bonds
from napari_gsw.core.sampler.schedule import (
    NO_MOVES,
    TEMPERATE,
    Cooling,
    Moves,
    Schedule,
    annealed,
    geometric_ladder,
    split_moves,
)
from napari_gsw.core.settings import Settings

# The paper's choice of lambda, for a problem that comes without settings.
PAPER_LAMBDA = 10.0


@dataclass(frozen=True, eq=False)
class SamplerOptions:
    """How a chain moves; where it settles does not depend on it.

    Attributes
    ----------
    bonds : how edges are bonded in a sweep.
    regroups : whole-cluster moves after each sweep.
    burn_in : sweeps, counted from the first start of the chain, that the running sums leave out; at least those of
        `cooling`, since the sums are of one law.
    cooling : temperatures by the number of the sweep.
    moves : split-merge moves after each sweep, and the share of sweeps that weigh every cluster.
    ladder : inverse temperatures of replicas that exchange their states, from 1 downwards; None for one chain.
    """

    bonds: Bonds
    regroups: int = 0
    burn_in: int = 0
    cooling: Cooling = TEMPERATE
    moves: Moves = NO_MOVES
    ladder: Floats | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "regroups", whole_number("regroups", self.regroups, most=MOST_MOVES))
        object.__setattr__(self, "burn_in", whole_number("burn_in", self.burn_in))
        object.__setattr__(self, "burn_in", max(self.burn_in, self.cooling.sweeps))

    @classmethod
    def from_settings(cls, problem: Problem, settings: Settings, sweeps: int) -> SamplerOptions:
        """What the settings say of a chain of so many sweeps: bonds, moves, burn-in, annealing, tempering."""
        burn_in = int(settings.burn_in * sweeps)
        return cls(
            bonds=bonding.from_settings(problem, settings),
            regroups=int(needs_regroups(problem)) if settings.regroups is None else settings.regroups,
            burn_in=burn_in,
            cooling=annealed(settings.hot, burn_in) if settings.hot > 1 else TEMPERATE,
            moves=split_moves(settings.splits, settings.full_scans),
            ladder=geometric_ladder(settings.replicas, settings.hottest) if settings.replicas > 1 else None,
        )

    @classmethod
    def of_problem(cls, problem: Problem, sweeps: int) -> SamplerOptions:
        """By the settings with which a problem was prepared; as in the paper if it was not made from an image."""
        if problem.settings is not None:
            return cls.from_settings(problem, problem.settings, sweeps)
        return cls(bonding.fixed(problem, PAPER_LAMBDA), regroups=int(needs_regroups(problem)))

    def replace(self, **changes: Any) -> SamplerOptions:
        """A copy with some of them changed; a change of None is no change."""
        return replace(self, **{name: value for name, value in changes.items() if value is not None})

    @property
    def schedule(self) -> Schedule:
        """What the loop over sweeps reads; nobody stops it."""
        never = np.zeros(1, bool)
        return Schedule(self.cooling, self.moves.full, self.moves.near, self.regroups, self.burn_in, never)


def needs_regroups(problem: Problem) -> bool:
    """Whether the prior forbids some sizes, or numbers of clusters between others, which single moves may not cross."""
    log_v, log_w = problem.tables
    allowed = np.flatnonzero(np.isfinite(log_v[1:]))
    gap = len(allowed) > 0 and len(allowed) < allowed[-1] - allowed[0] + 1
    return bool(gap or np.isneginf(log_w[1:]).any())
