"""How a chain moves from sweep to sweep: temperatures, and the moves that are made beside the sweeps."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from napari_gsw.core.arrays import Floats, Mask
from napari_gsw.core.inputs import MOST_MOVES, real_number, whole_number


class Cooling(NamedTuple):
    """The inverse temperature b by the number of the sweep: the chain samples the posterior to the power b.

    b rises geometrically from coldness / hot to `coldness` over the first `sweeps` sweeps, and stays there.
    """

    coldness: float
    hot: float
    sweeps: int


class Moves(NamedTuple):
    """What a sweep looks at, and moves of whole clusters after it, beside `regroups`.

    See ``visit`` in :mod:`napari_gsw.core.sampler.moves.sweep_kernels` for `full`, and
    :mod:`napari_gsw.core.sampler.moves.split_merge_kernels` for the others.
    """

    splits: int  # how many
    scans: int  # how often a split is gone over before it is proposed
    near: float  # share of moves (regroups too) whose two anchors are the ends of an edge
    informed: float  # share of moves that draw what to merge by the marginal likelihood
    full: float = 1.0  # share of sweeps that weigh every cluster; the others weigh only those next door


class Schedule(NamedTuple):
    """What the loop over sweeps goes by."""

    cooling: Cooling
    full: float  # share of sweeps that weigh every cluster
    near: float  # share of whole-cluster moves whose first two anchors are the ends of an edge
    regroups: int  # whole-cluster moves after each sweep
    burn_in: int  # sweeps that the running sums leave out
    stop: Mask  # (1,) whoever sets it ends the loop after the sweep that is under way


# The temperature of the posterior itself, and no moves of whole clusters.
TEMPERATE = Cooling(1.0, 1.0, 0)
NO_MOVES = Moves(0, 0, 0.0, 0.0)
# Of moves that split and merge: how often a split is gone over, the share of near anchors, and that of informed moves.
SCANS, NEAR, INFORMED = 3, 0.5, 0.5
MOST_SCANS = 1000
# Temperatures are at most this, and at least one over it: what a score times one of them is stays far from infinity.
HOTTEST = 1e12


def annealed(temperature: float, sweeps: int) -> Cooling:
    """From a temperature down to 1 over some sweeps, by the same factor each.

    >>> annealed(4.0, 100)
    Cooling(coldness=1.0, hot=4.0, sweeps=100)
    """
    first = real_number("the temperature of annealing", temperature, 1 / HOTTEST, HOTTEST)
    return Cooling(1.0, first, whole_number("the sweeps of annealing", sweeps))


def split_moves(splits: int | Moves, full_scans: float | None = None) -> Moves:
    """So many split-merge moves after each sweep, half of them informed; or the record itself, checked.

    `full_scans` is the share of sweeps that weigh every cluster; None leaves it as it is, 1 in a new record.
    """
    if isinstance(splits, Moves):
        moves = splits
    else:
        count = whole_number("splits", splits, most=MOST_MOVES)
        moves = Moves(count, SCANS, NEAR, INFORMED) if count else NO_MOVES
    full = moves.full if full_scans is None else full_scans
    return Moves(
        whole_number("splits", moves.splits, most=MOST_MOVES),
        whole_number("scans", moves.scans, most=MOST_SCANS),
        real_number("near", moves.near, 0, 1),
        real_number("informed", moves.informed, 0, 1),
        real_number("full_scans", full, 0, 1, open_low=True),
    )


def geometric_ladder(replicas: int, hottest: float) -> Floats:
    """Inverse temperatures from 1 down to 1 / hottest, by the same factor each.

    >>> geometric_ladder(3, 4.0).tolist()
    [1.0, 0.5, 0.25]
    """
    count = whole_number("the replicas of a ladder", replicas, 1)
    top = real_number("the hottest temperature of a ladder", hottest, 1, HOTTEST)
    return np.asarray(top ** -np.linspace(0.0, 1.0, count) if count > 1 else np.ones(1))
