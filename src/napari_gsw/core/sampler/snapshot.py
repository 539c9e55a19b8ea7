"""What is known of a chain at one moment: immutable, and complete enough to go on from.

A chain's whole state is data: plain arrays by name, one name a quantity, with the version of the format among them.
What each must be is the table of :mod:`napari_gsw.core.sampler.state_format`.

==========================================================  =====================================================
name                                                        what it is
==========================================================  =====================================================
version, fingerprint (16,)                                  of this table, and of the problem
labels (n,), seeds (n,)                                     slot of each site, and clamps
generator                                                   inner state of the random generator
sweep, counted, best_sweep                                  sweeps done, counted in the sums, and of the best state
log_posterior, best_log_posterior, best_labels (n,)         of the state now, and the best state
together (m,)                                               sweeps in which the ends of an edge shared a cluster
moments (2 C, slots), gauss (slots,)                        sums of floats, which depend on the order of the moves
bond_strength (m,), bond_low, bond_high                     bonds
regroups, burn_in, splits, scans, near, informed,           moves beside the sweeps
full_scans
coldness, hot, cooling_sweeps                               temperatures
draws (d, n), draw_gap                                      partitions that were kept
ladder, exchanges, hot_...                                  of a tempered chain, its hotter replicas
==========================================================  =====================================================
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from napari_gsw.core.arrays import Arrays, Floats, Ints
from napari_gsw.core.errors import InputError
from napari_gsw.core.evidence.likelihoods import Gaussian
from napari_gsw.core.model.partition_kernels import canonical
from napari_gsw.core.model.problem import Problem, log_posterior
from napari_gsw.core.sampler.chain import Chain, assembled, counted_clusters
from napari_gsw.core.sampler.clamps import are_held
from napari_gsw.core.sampler.draws import Draws
from napari_gsw.core.sampler.options import SamplerOptions
from napari_gsw.core.sampler.records import BEST, NOW, USED, Bonds, RunningSums
from napari_gsw.core.sampler.schedule import Cooling, Moves
from napari_gsw.core.sampler.state_format import VERSION

# How far running sums of floats may be from a new count, as a share of the sum of all, and log posteriors from theirs.
DRIFT, LOG_DRIFT = 1e-6, 1e-4
WRONG = "the state of the chain has a wrong"


@dataclass(frozen=True, eq=False)
class State:
    """One partition that a chain has visited. As an array it is its labels.

    Attributes
    ----------
    sweep : number of sweeps before it; 0 is the start.
    labels : (n,) int32, clusters numbered 0, 1, ... in the order of their first site.
    log_posterior : up to a constant of the problem.
    """

    sweep: int
    labels: Ints
    log_posterior: float

    @property
    def n_clusters(self) -> int:
        return int(self.labels.max()) + 1

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return np.array(self.labels, dtype=dtype, copy=copy)


@dataclass(frozen=True, eq=False)
class Snapshot(State):
    """A state of the chain with all that is known up to it: a complete result that needs nothing else.

    Attributes
    ----------
    best : the state of highest log posterior so far.
    trace : (sweeps since the last snapshot, 3) log posterior, number of clusters and entropy of the clusters' sizes in
        bits after each of them.
    together : (m,) probability so far that the two ends of an edge share a cluster; NaN before the burn-in is over.
    draws : (d, n) partitions seen after the burn-in, evenly spread over the sweeps; for each chain that it speaks for.
    state : plain arrays from which :func:`sample` continues exactly; see :mod:`napari_gsw.core.sampler.snapshot`.
    """

    best: State
    trace: Floats
    together: Floats
    draws: tuple[Ints, ...] = field(repr=False)
    state: Arrays = field(repr=False)


def snapshot(chain: Chain, trace: Floats) -> Snapshot:
    """An immutable copy of everything that matters of a chain."""
    return snapshot_of(chain.sums, chain.labels, trace, (chain.draws.kept,), exported(chain))


def snapshot_of(
    sums: RunningSums, labels: Ints, trace: Floats, draws: tuple[Ints, ...], state: Mapping[str, Any]
) -> Snapshot:
    """A snapshot from the running sums and the labels (n,) of any sampler."""
    sweep, counted, best_sweep = (int(x) for x in sums.counted)
    value, best_value = (float(x) for x in sums.value)
    share = sums.together / counted if counted else np.full(len(sums.together), np.nan)
    best = State(best_sweep, frozen(canonical(sums.best)), best_value)
    return Snapshot(sweep, frozen(canonical(labels)), value, best, frozen(trace), frozen(share), draws, state)


def exported(chain: Chain) -> Arrays:
    """The whole state of a chain as plain arrays, ready for any file format."""
    used, options = int(chain.walker.work.slots[USED]), chain.options
    splits, scans, near, informed, full_scans = options.moves
    coldness, hot, cooling_sweeps = options.cooling
    arrays = {
        "version": VERSION,
        "fingerprint": chain.problem.fingerprint,
        "labels": chain.labels,
        "seeds": chain.seeds,
        "generator": generator_words(chain.rng),
        **exported_sums(chain.sums),
        "moments": chain.walker.clusters.moments[:, :used],
        "gauss": chain.walker.clusters.gauss[:used],
        "bond_strength": options.bonds.strength,
        "bond_low": options.bonds.low,
        "bond_high": options.bonds.high,
        "regroups": options.regroups,
        "burn_in": options.burn_in,
        "splits": splits,
        "scans": scans,
        "near": near,
        "informed": informed,
        "full_scans": full_scans,
        "coldness": coldness,
        "hot": hot,
        "cooling_sweeps": cooling_sweeps,
        "draw_gap": chain.draws.gap,
        **chain.arrays(),
    }
    copies = {name: frozen(np.array(value)) for name, value in arrays.items()}
    # The draws are many, but rows that are written once need no copy.
    return MappingProxyType(copies | {"draws": chain.draws.kept})


def exported_sums(sums: RunningSums) -> dict[str, Any]:
    """The running sums by name, one name a quantity."""
    (now, best), (sweep, counted, best_sweep) = sums.value, sums.counted
    return {
        "sweep": sweep,
        "counted": counted,
        "best_sweep": best_sweep,
        "log_posterior": now,
        "best_log_posterior": best,
        "best_labels": sums.best,
        "together": sums.together,
    }


def restored_sums(state: Arrays) -> RunningSums:
    """The running sums that :func:`exported_sums` wrote."""
    return RunningSums(
        value=np.array([state["log_posterior"], state["best_log_posterior"]], np.float64),
        best=state["best_labels"].astype(np.int32),
        together=state["together"].astype(np.int64),
        counted=np.array([state["sweep"], state["counted"], state["best_sweep"]], np.int64),
    )


def restored(problem: Problem, state: Arrays, **changes: Any) -> Chain:
    """The chain whose state was exported; of a tempered one the first replica.

    Parameters
    ----------
    state : as :func:`~napari_gsw.core.sampler.state_format.checked_state` gives it: kernels trust these arrays.
    changes : options that are to be others than the chain had.
    """
    gauss, options = state["gauss"], restored_options(state).replace(**changes)
    labels, seeds = state["labels"].astype(np.int32), state["seeds"].astype(np.int32)
    rng = generator(state["generator"])
    chain = assembled(problem, options, seeds, labels, restored_sums(state), rng, gauss.size)
    chain.walker.clusters.moments[:, : gauss.size] = state["moments"]
    chain.walker.clusters.gauss[: gauss.size] = gauss
    chain.draws = Draws(problem.n, state["draws"], int(state["draw_gap"]))
    return chain


def check_consistent(chain: Chain) -> None:
    """Refuse a chain whose arrays are each what they must be, but do not belong together.

    Sums of floats have drifted from what a new count gives, by far less than is allowed here, unless the evidence is so
    strong that rounding is all that is left of the spread of a cluster.
    """
    problem, sums, clusters = chain.problem, chain.sums, chain.walker.clusters
    if not are_held(chain.labels, chain.seeds):
        raise InputError(f"{WRONG} 'seeds': sites with the same seed must share a cluster, and with others must not")
    used = int(chain.walker.work.slots[USED])
    counted = counted_clusters(problem, chain.labels, used)
    scale = np.abs(problem.evidence.moments).sum(axis=0)[:, np.newaxis]
    if (np.abs(clusters.moments[:, :used] - counted.moments[:, :used]) > DRIFT * scale).any():
        raise InputError(f"{WRONG} 'moments': they are not the sums over the clusters of its labels")
    channels = [block for block in problem.likelihoods if isinstance(block, Gaussian)]
    gauss, own = clusters.gauss[:used], counted.gauss[:used]
    lost = sum(block.rounding(chain.labels) for block in channels)
    if (np.abs(gauss - own) > LOG_DRIFT * (1 + np.abs(own)) + lost).any():
        raise InputError(f"{WRONG} 'gauss': it does not follow from the moments")
    for name, labels, value in (
        ("log_posterior", chain.labels, sums.value[NOW]),
        ("best_log_posterior", sums.best, sums.value[BEST]),
    ):
        exact = log_posterior(problem, labels)
        drift = LOG_DRIFT * (1 + abs(exact)) + sum(block.rounding(labels) for block in channels)
        if not (np.isfinite(exact) and abs(value - exact) <= drift):
            raise InputError(f"{WRONG} {name!r}: it is {value:g}, and that of its labels {exact:g}")


def restored_options(state: Arrays) -> SamplerOptions:
    """How the chain moved whose state this is; a ladder is in its replicas."""
    return SamplerOptions(
        bonds=Bonds(state["bond_strength"].astype(np.float64), float(state["bond_low"]), float(state["bond_high"])),
        regroups=int(state["regroups"]),
        burn_in=int(state["burn_in"]),
        cooling=Cooling(float(state["coldness"]), float(state["hot"]), int(state["cooling_sweeps"])),
        moves=Moves(
            int(state["splits"]),
            int(state["scans"]),
            float(state["near"]),
            float(state["informed"]),
            float(state["full_scans"]),
        ),
    )


def generator(words: NDArray[Any]) -> np.random.Generator:
    """The generator whose inner state was exported."""
    rng = np.random.Generator(np.random.SFC64(0))
    inner = dict(rng.bit_generator.state)
    inner["state"] = {"state": words.astype(np.uint64)}
    rng.bit_generator.state = inner
    return rng


def generator_words(rng: np.random.Generator) -> NDArray[np.uint64]:
    """The inner state of a generator."""
    return np.array(rng.bit_generator.state["state"]["state"])


def frozen(array: NDArray[Any]) -> NDArray[Any]:
    """The array itself, which nobody can write to from now on."""
    array.setflags(write=False)
    return array
