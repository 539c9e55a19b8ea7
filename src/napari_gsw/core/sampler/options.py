"""Options of a chain: bonds, temperatures, and moves beside the sweeps."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from napari_gsw.core.array_types import Float64Array
from napari_gsw.core.errors import MAX_MOVES, check_integer, check_number
from napari_gsw.core.model.problem import Problem
from napari_gsw.core.sampler.bonds import bonds_from_settings, constant_bonds
from napari_gsw.core.sampler.state import Annealing, Bonds, Moves
from napari_gsw.core.settings import Settings

NO_ANNEALING = Annealing(1.0, 1.0, 0)
NO_MOVES = Moves(0, 0, 0.0, 0.0)
# Split-merge moves: scans over a split, share of near anchors, and share of informed moves.
SCANS, NEAR, INFORMED = 3, 0.5, 0.5
MAX_SCANS = 1000
# Temperatures are at most this, and at least one over it: a score times one of them stays far from infinity.
MAX_TEMPERATURE = 1e12
# The paper's choice of lambda, for a problem that comes without settings.
PAPER_LAMBDA = 10.0


def make_annealing(temperature: float, sweeps: int) -> Annealing:
    """Anneal from a temperature down to 1, by the same factor each sweep."""
    first = check_number("the temperature of annealing", temperature, 1 / MAX_TEMPERATURE, MAX_TEMPERATURE)
    return Annealing(1.0, first, check_integer("the sweeps of annealing", sweeps))


def make_split_moves(splits: int | Moves, full_scans: float | None = None) -> Moves:
    """Make that many split-merge moves after each sweep, half of them informed; or check the given moves.

    `full_scans` is the share of sweeps that score every cluster; None keeps it.
    """
    if isinstance(splits, Moves):
        moves = splits
    else:
        moves = Moves(splits, SCANS, NEAR, INFORMED) if splits else NO_MOVES._replace(splits=splits)
    return Moves(
        check_integer("splits", moves.splits, most=MAX_MOVES),
        check_integer("scans", moves.scans, most=MAX_SCANS),
        check_number("near", moves.near, 0, 1),
        check_number("informed", moves.informed, 0, 1),
        check_number("full_scans", moves.full if full_scans is None else full_scans, 0, 1, exclusive_min=True),
    )


def make_ladder(replicas: int, max_temperature: float) -> Float64Array:
    """Return inverse temperatures from 1 down to 1 / max_temperature, by the same factor each.

    >>> make_ladder(3, 4.0).tolist()
    [1.0, 0.5, 0.25]
    """
    count = check_integer("the replicas of a ladder", replicas, 1)
    top = check_number("the hottest temperature of a ladder", max_temperature, 1, MAX_TEMPERATURE)
    return np.asarray(top ** -np.linspace(0.0, 1.0, count) if count > 1 else np.ones(1))


@dataclass(frozen=True, eq=False)
class SamplerOptions:
    """Options of a chain, which do not change its target distribution."""

    bonds: Bonds
    regroups: int = 0  # whole-cluster moves after each sweep
    burn_in: int = 0  # sweeps since the first start that the running sums leave out, at least those of annealing
    annealing: Annealing = NO_ANNEALING
    moves: Moves = NO_MOVES
    ladder: Float64Array | None = None  # inverse temperatures of replicas, from 1 downwards

    def __post_init__(self) -> None:
        object.__setattr__(self, "regroups", check_integer("regroups", self.regroups, most=MAX_MOVES))
        burn_in = check_integer("burn_in", self.burn_in)
        object.__setattr__(self, "burn_in", max(burn_in, self.annealing.sweeps))

    @classmethod
    def from_settings(cls, problem: Problem, settings: Settings, sweeps: int) -> SamplerOptions:
        """Make the options of a chain of that many sweeps from settings."""
        burn_in = int(settings.burn_in * sweeps)
        return cls(
            bonds=bonds_from_settings(problem, settings),
            regroups=int(needs_regroups(problem)) if settings.regroups is None else settings.regroups,
            burn_in=burn_in,
            annealing=make_annealing(settings.hot, burn_in) if settings.hot > 1 else NO_ANNEALING,
            moves=make_split_moves(settings.splits, settings.full_scans),
            ladder=make_ladder(settings.replicas, settings.hottest) if settings.replicas > 1 else None,
        )

    @classmethod
    def from_problem(cls, problem: Problem, sweeps: int) -> SamplerOptions:
        """Make options from the settings of a problem, or as in the paper if it was not made from an image."""
        if problem.settings is not None:
            return cls.from_settings(problem, problem.settings, sweeps)
        return cls(constant_bonds(problem, PAPER_LAMBDA), regroups=int(needs_regroups(problem)))

    def replace(self, **changes: Any) -> SamplerOptions:
        """Return a copy with the changes that are not None."""
        return replace(self, **{name: value for name, value in changes.items() if value is not None})


def needs_regroups(problem: Problem) -> bool:
    """Return whether the prior forbids sizes or numbers of clusters that single moves would have to pass."""
    log_v, log_w = problem.tables
    allowed = np.flatnonzero(np.isfinite(log_v[1:]))
    has_gap = len(allowed) > 0 and len(allowed) < allowed[-1] - allowed[0] + 1
    return bool(has_gap or np.isneginf(log_w[1:]).any())
