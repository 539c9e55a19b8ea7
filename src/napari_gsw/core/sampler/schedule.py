"""How a chain moves from sweep to sweep: temperatures, and the moves that are made beside the sweeps."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from napari_gsw.core.arrays import Floats
from napari_gsw.core.errors import InputError


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


# The temperature of the posterior itself, and no moves of whole clusters.
TEMPERATE = Cooling(1.0, 1.0, 0)
NO_MOVES = Moves(0, 0, 0.0, 0.0)
# Of moves that split and merge: how often a split is gone over, the share of near anchors, and that of informed moves.
SCANS, NEAR, INFORMED = 3, 0.5, 0.5


def annealed(temperature: float, sweeps: int) -> Cooling:
    """From a temperature down to 1 over some sweeps, by the same factor each.

    >>> annealed(4.0, 100)
    Cooling(coldness=1.0, hot=4.0, sweeps=100)
    """
    if not (np.isfinite(temperature) and temperature > 0):
        raise InputError(f"the temperature of annealing must be a number > 0, not {temperature!r}")
    if isinstance(sweeps, bool) or int(sweeps) != sweeps or sweeps < 0:
        raise InputError(f"the sweeps of annealing must be a whole number >= 0, not {sweeps!r}")
    return Cooling(1.0, float(temperature), int(sweeps))


def split_moves(splits: int | Moves, full_scans: float | None = None) -> Moves:
    """So many split-merge moves after each sweep, half of them informed; or the record itself, checked.

    `full_scans` is the share of sweeps that weigh every cluster; None leaves it as it is, 1 in a new record.
    """
    moves = splits if isinstance(splits, Moves) else Moves(splits, SCANS, NEAR, INFORMED) if splits else NO_MOVES
    for name, number in (("splits", moves.splits), ("scans", moves.scans)):
        if isinstance(number, bool) or int(number) != number or number < 0:
            raise InputError(f"{name} must be a whole number >= 0, not {number!r}")
    for name, share in (("near", moves.near), ("informed", moves.informed)):
        if not 0 <= share <= 1:
            raise InputError(f"{name} must be a share in [0, 1], not {share!r}")
    full = moves.full if full_scans is None else full_scans
    if not 0 < full <= 1:
        raise InputError(f"full_scans must be a share in (0, 1], not {full!r}")
    return Moves(int(moves.splits), int(moves.scans), float(moves.near), float(moves.informed), float(full))


def geometric_ladder(replicas: int, hottest: float) -> Floats:
    """Inverse temperatures from 1 down to 1 / hottest, by the same factor each.

    >>> geometric_ladder(3, 4.0).tolist()
    [1.0, 0.5, 0.25]
    """
    if replicas < 1 or not (np.isfinite(hottest) and hottest >= 1):
        raise InputError(f"a ladder needs a replica and a temperature >= 1, not {replicas!r} and {hottest!r}")
    return np.asarray(hottest ** -np.linspace(0.0, 1.0, replicas) if replicas > 1 else np.ones(1))
