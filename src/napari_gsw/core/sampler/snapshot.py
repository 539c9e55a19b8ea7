"""Immutable snapshots of a chain, and the stored form of its state with the checks of a state from a file.

Kernels trust their arrays: a label out of range or a row that is too short would write where they must not. So what
comes from a file is checked against the tables of entries first, and then whether its arrays belong together.
"""

from __future__ import annotations

import copyreg
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from napari_gsw.core.array_types import Arrays, Float64Array, Int32Array
from napari_gsw.core.errors import MAX_INTEGER, MAX_MOVES, InputError, to_array
from napari_gsw.core.likelihood.conjugate import Gaussian
from napari_gsw.core.model.problem import FINGERPRINT_BYTES, Problem, log_posterior
from napari_gsw.core.partitions import canonical_labels
from napari_gsw.core.sampler.chain import ENDLESS, Chain, Draws, count_clusters, make_chain, max_draws, respects_seeds
from napari_gsw.core.sampler.options import MAX_SCANS, MAX_TEMPERATURE, SamplerOptions
from napari_gsw.core.sampler.state import BEST, NOW, USED, Annealing, Bonds, Moves, RunningSums

STATE_VERSION = 3
# Stored names of the fields of Moves and Annealing.
MOVE_NAMES = ("splits", "scans", "near", "informed", "full_scans")
ANNEALING_NAMES = ("coldness", "hot", "cooling_sweeps")
# Words of the inner state of a generator.
N_GENERATOR_WORDS = 4
MAX_SEED = 2**31 - 1
MAX_REPLICAS = 2**16
# Relative difference of running sums of floats and of log posteriors from a new count.
DRIFT, LOG_DRIFT = 1e-6, 1e-4
WRONG = "the state of the chain has a wrong"


def _make_view(arrays: dict[str, Any]) -> MappingProxyType[str, Any]:
    return MappingProxyType(arrays)


# A state of a chain is a read-only view of a dictionary, which Python pickles and copies only if told how.
copyreg.pickle(MappingProxyType, lambda view: (_make_view, (dict(view),)))

# Kinds of dtype that are accepted for one, and its description.
ARRAY_KINDS: Mapping[type, tuple[str, str]] = {
    np.int64: ("iu", "whole numbers"),
    np.float64: ("fiu", "finite numbers"),
    np.uint64: ("u", "unsigned words of 64 bits"),
    np.uint8: ("u", "bytes"),
}


class Entry(NamedTuple):
    """Requirements of an array; names in `shape` are sizes, in `high` an earlier number or the last of a kind."""

    dtype: type
    shape: tuple[str | int, ...] = ()
    low: float = -math.inf
    high: float | str = math.inf


CHAIN_ENTRIES: Mapping[str, Entry] = {
    "sweep": Entry(np.int64, (), 0, MAX_INTEGER),
    "counted": Entry(np.int64, (), 0, "sweep"),
    "best_sweep": Entry(np.int64, (), 0, "sweep"),
    "log_posterior": Entry(np.float64),
    "best_log_posterior": Entry(np.float64),
    "best_labels": Entry(np.int64, ("n",), 0, "last_site"),
    "together": Entry(np.int64, ("m",), 0, "counted"),
    "fingerprint": Entry(np.uint8, (FINGERPRINT_BYTES,)),
    "gauss": Entry(np.float64, ("slots",)),
    "moments": Entry(np.float64, ("moments", "slots")),
    "labels": Entry(np.int64, ("n",), 0, "last_slot"),
    "seeds": Entry(np.int64, ("n",), -1, MAX_SEED),
    "generator": Entry(np.uint64, (N_GENERATOR_WORDS,)),
    "bond_strength": Entry(np.float64, ("m",), 0),
    "bond_high": Entry(np.float64, (), 0, math.nextafter(1.0, 0.0)),
    "bond_low": Entry(np.float64, (), 0, "bond_high"),
    "regroups": Entry(np.int64, (), 0, MAX_MOVES),
    "burn_in": Entry(np.int64, (), 0, MAX_INTEGER),
    "splits": Entry(np.int64, (), 0, MAX_MOVES),
    "scans": Entry(np.int64, (), 0, MAX_SCANS),
    "near": Entry(np.float64, (), 0, 1),
    "informed": Entry(np.float64, (), 0, 1),
    "full_scans": Entry(np.float64, (), math.nextafter(0.0, 1.0), 1),
    "coldness": Entry(np.float64, (), 1 / MAX_TEMPERATURE, MAX_TEMPERATURE),
    "hot": Entry(np.float64, (), 1 / MAX_TEMPERATURE, MAX_TEMPERATURE),
    "cooling_sweeps": Entry(np.int64, (), 0, MAX_INTEGER),
    "draws": Entry(np.int64, ("draws", "n"), 0, "last_site"),
    "draw_gap": Entry(np.int64, (), 1, MAX_INTEGER),
}
REPLICA_ENTRIES: Mapping[str, Entry] = {
    "ladder": Entry(np.float64, ("replicas",), 1 / MAX_TEMPERATURE, 1),
    "exchanges": Entry(np.int64, ("hotter", 2), 0, MAX_INTEGER),
    "hot_slots": Entry(np.int64, ("hotter",), 1, "n"),
    "hot_labels": Entry(np.int64, ("hotter", "n"), 0, "last_site"),
    "hot_generator": Entry(np.uint64, ("hotter", N_GENERATOR_WORDS)),
    "hot_log_posterior": Entry(np.float64, ("hotter",)),
    "hot_moments": Entry(np.float64, ("moments", "all_hot_slots")),
    "hot_gauss": Entry(np.float64, ("all_hot_slots",)),
}


@dataclass(frozen=True, eq=False)
class State:
    """One partition that a chain has visited; as an array it is its labels.

    Attributes
    ----------
    sweep : int
        Number of sweeps before it; 0 is the start.
    labels : (n,) int32 array
        Clusters numbered 0, 1, ... in the order of their first site.
    log_posterior : float
        Up to a constant of the problem.
    """

    sweep: int
    labels: Int32Array
    log_posterior: float

    @property
    def n_clusters(self) -> int:
        """Number of clusters."""
        return int(self.labels.max()) + 1

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return np.array(self.labels, dtype=dtype, copy=copy)


@dataclass(frozen=True, eq=False)
class Snapshot(State):
    """A state of the chain with the results up to it.

    Attributes
    ----------
    best : State
        The state of highest log posterior so far.
    trace : (sweeps, 3) float array
        Log posterior, number of clusters and entropy of their sizes in bits, after each sweep since the last snapshot.
    together : (m,) float array
        Probability so far that the two ends of an edge share a cluster; NaN before the burn-in is over.
    draws : tuple of (d, n) int32 arrays
        For each chain, partitions after the burn-in, evenly spread over the sweeps.
    state : dict of str to array
        Plain arrays from which `sample` continues exactly.
    """

    best: State
    trace: Float64Array
    together: Float64Array
    draws: tuple[Int32Array, ...] = field(repr=False)
    state: Arrays = field(repr=False)


def make_snapshot(chain: Chain, trace: Float64Array) -> Snapshot:
    """Copy everything that matters of a chain."""
    return make_snapshot_from_sums(chain.sums, chain.labels, trace, (chain.draws.kept,), export_state(chain))


def make_snapshot_from_sums(
    sums: RunningSums, labels: Int32Array, trace: Float64Array, draws: tuple[Int32Array, ...], state: Mapping[str, Any]
) -> Snapshot:
    """Make a snapshot from the running sums and the labels (n,) of any sampler."""
    sweep, counted, best_sweep = (int(x) for x in sums.counted)
    value, best_value = (float(x) for x in sums.value)
    together = make_readonly(sums.together / counted if counted else np.full(len(sums.together), np.nan))
    best = State(best_sweep, make_readonly(canonical_labels(sums.best)), best_value)
    return Snapshot(
        sweep, make_readonly(canonical_labels(labels)), value, best, make_readonly(trace), together, draws, state
    )


def make_readonly(array: NDArray[Any]) -> NDArray[Any]:
    """Make an array read-only and return it."""
    array.setflags(write=False)
    return array


def export_state(chain: Chain) -> Arrays:
    """Return the whole state of a chain as plain arrays, ready for any file format."""
    used, options = int(chain.state.scratch.slots[USED]), chain.options
    arrays = {
        "version": STATE_VERSION,
        "fingerprint": chain.problem.fingerprint,
        "labels": chain.labels,
        "seeds": chain.seeds,
        "generator": generator_state(chain.rng),
        **export_sums(chain.sums),
        "moments": chain.state.clusters.moments[:, :used],
        "gauss": chain.state.clusters.gauss[:used],
        "bond_strength": options.bonds.strength,
        "bond_low": options.bonds.low,
        "bond_high": options.bonds.high,
        "regroups": options.regroups,
        "burn_in": options.burn_in,
        **dict(zip(MOVE_NAMES, options.moves, strict=True)),
        **dict(zip(ANNEALING_NAMES, options.annealing, strict=True)),
        "draw_gap": chain.draws.gap,
        **(_export_replicas(chain) if chain.hotter else {}),
    }
    copies = {name: make_readonly(np.array(value)) for name, value in arrays.items()}
    # The draws are many, but rows that are written once need no copy.
    return MappingProxyType(copies | {"draws": chain.draws.kept})


def _export_replicas(chain: Chain) -> dict[str, Any]:
    """Return the state of the hotter replicas: labels and generators in rows, statistics of all slots in a row."""
    states = [hot.state for hot in chain.hotter]
    slots = [int(state.scratch.slots[USED]) for state in states]
    clusters = [(state.clusters, used) for state, used in zip(states, slots, strict=True)]
    return {
        "ladder": chain.ladder,
        "exchanges": chain.exchanges,
        "hot_labels": [state.labels for state in states],
        "hot_generator": [generator_state(hot.rng) for hot in chain.hotter],
        "hot_log_posterior": [state.sums.value[NOW] for state in states],
        "hot_slots": slots,
        "hot_moments": np.concatenate([c.moments[:, :used] for c, used in clusters], axis=1),
        "hot_gauss": np.concatenate([c.gauss[:used] for c, used in clusters]),
    }


def export_sums(sums: RunningSums) -> dict[str, Any]:
    """Return the running sums by name."""
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


def generator_state(rng: np.random.Generator) -> NDArray[np.uint64]:
    """Return the inner state of a generator."""
    return np.array(rng.bit_generator.state["state"]["state"])


def resume_chain(problem: Problem, state: Arrays, **changes: Any) -> Chain:
    """Check a state and restore its chain, with its replicas; `changes` are new options."""
    arrays = check_state(problem, state)
    chain = _restore_chain(problem, arrays, **changes)
    check_consistent(chain)
    end = 0
    for r, factor in enumerate(arrays["ladder"][1:].tolist() if "ladder" in arrays else ()):
        begin, end = end, end + int(arrays["hot_slots"][r])
        own = {
            "labels": arrays["hot_labels"][r],
            "generator": arrays["hot_generator"][r],
            "log_posterior": arrays["hot_log_posterior"][r],
            "moments": arrays["hot_moments"][:, begin:end],
            "gauss": arrays["hot_gauss"][begin:end],
            "draws": arrays["draws"][:0],
            "coldness": arrays["coldness"] * factor,
        }
        hot = _restore_chain(problem, arrays | own, **changes | {"burn_in": ENDLESS})
        check_consistent(hot)
        chain.hotter.append(hot)
    chain.exchanges = arrays.get("exchanges", chain.exchanges)
    return chain


def _restore_chain(problem: Problem, state: Arrays, **changes: Any) -> Chain:
    options = SamplerOptions(
        bonds=Bonds(state["bond_strength"].astype(np.float64), float(state["bond_low"]), float(state["bond_high"])),
        regroups=int(state["regroups"]),
        burn_in=int(state["burn_in"]),
        annealing=Annealing(*(state[name].item() for name in ANNEALING_NAMES)),
        moves=Moves(*(state[name].item() for name in MOVE_NAMES)),
    )
    rng = np.random.Generator(np.random.SFC64(0))
    inner = dict(rng.bit_generator.state)
    inner["state"] = {"state": state["generator"].astype(np.uint64)}
    rng.bit_generator.state = inner
    sums = RunningSums(
        value=np.array([state["log_posterior"], state["best_log_posterior"]], np.float64),
        best=state["best_labels"].astype(np.int32),
        together=state["together"].astype(np.int64),
        counted=np.array([state["sweep"], state["counted"], state["best_sweep"]], np.int64),
    )
    labels, seeds, gauss = state["labels"].astype(np.int32), state["seeds"].astype(np.int32), state["gauss"]
    chain = make_chain(problem, options.replace(**changes), seeds, labels, sums, rng, gauss.size)
    chain.state.clusters.moments[:, : gauss.size] = state["moments"]
    chain.state.clusters.gauss[: gauss.size] = gauss
    chain.draws = Draws(problem.n, state["draws"], int(state["draw_gap"]))
    return chain


def check_version(state: Arrays) -> None:
    """Refuse what is no state, and a state of another format."""
    if not isinstance(state, Mapping):
        raise InputError(f"state must be the arrays of a snapshot by name, not {type(state).__name__}")
    version = int(_check_array("version", Entry(np.int64, (), 0, 2**31), state, {})[()]) if "version" in state else 1
    if version != STATE_VERSION:
        raise InputError(
            f"the state of the chain has format {version}, but this version of napari-gsw reads format "
            f"{STATE_VERSION}; run the chain again, or continue it with the version that wrote it"
        )


def check_state(problem: Problem, state: Arrays) -> dict[str, NDArray[Any]]:
    """Check each array of a chain's state and convert it to the dtype in the chain.

    An `InputError` names the first array that is missing or wrong, or says that the state belongs to another problem.
    """
    check_version(state)
    table = {**CHAIN_ENTRIES, **REPLICA_ENTRIES} if "ladder" in state else CHAIN_ENTRIES
    for name in table:
        if name not in state:
            raise InputError(f"the state of the chain lacks {name!r}")
    fingerprint = _check_array("fingerprint", CHAIN_ENTRIES["fingerprint"], state, {})
    if not np.array_equal(fingerprint, problem.fingerprint):
        raise InputError(
            "the state belongs to another problem: data, graph, couplings, prior or field are not those it came from"
        )

    def count(name: str, low: int, high: int) -> int:
        shape = to_array(f"{name!r} of the state", state[name]).shape
        return min(max(shape[0], low), high) if shape else low

    n, slots = problem.n, count("gauss", 1, problem.n)
    replicas = count("ladder", 1, MAX_REPLICAS) if "ladder" in state else 1
    sizes: dict[str, Any] = {"n": n, "last_site": n - 1, "slots": slots, "last_slot": slots - 1}
    sizes |= {"m": len(problem.edges), "moments": problem.evidence.moments.shape[1]}
    sizes |= {"draws": count("draws", 0, max_draws(n)), "replicas": replicas, "hotter": replicas - 1}
    arrays: dict[str, NDArray[Any]] = {}
    for name, entry in table.items():
        arrays[name] = _check_array(name, entry, state, sizes)
        if arrays[name].ndim == 0:
            sizes[name] = arrays[name][()]
        if name == "hot_slots":
            sizes["all_hot_slots"] = int(arrays[name].sum())
    if "ladder" in state:
        ladder = arrays["ladder"]
        if ladder[0] != 1 or not (np.diff(ladder) < 0).all():
            raise InputError(f"{WRONG} 'ladder': it must fall from 1")
        if (arrays["hot_labels"].max(axis=1, initial=0) >= arrays["hot_slots"]).any():
            raise InputError(f"{WRONG} 'hot_labels': each row must lie in its own 'hot_slots'")
    return arrays


def _check_array(name: str, entry: Entry, state: Arrays, numbers: Mapping[str, Any]) -> NDArray[Any]:
    """Check one array of a state and convert it to its dtype."""
    given = to_array(f"{name!r} of the state", state[name])
    kinds, description = ARRAY_KINDS[entry.dtype]
    shape = tuple(numbers[size] if isinstance(size, str) else size for size in entry.shape)
    high = numbers[entry.high] if isinstance(entry.high, str) else entry.high
    fits = given.shape == shape and given.dtype.kind in kinds
    if kinds == "u":
        fits = fits and given.dtype.itemsize == np.dtype(entry.dtype).itemsize
    elif fits and given.size:
        fits = bool(np.isfinite(given).all() and given.min() >= entry.low and given.max() <= high)
    if not fits:
        upper = f"{float(high):g}]" if high < math.inf else "infinity)"
        bounds = f" in [{entry.low:g}, {upper}" if math.isfinite(entry.low) else ""
        raise InputError(
            f"{WRONG} {name!r}: it must be {description} of shape {shape}{bounds}, not {given.dtype} of shape "
            f"{given.shape}"
        )
    return np.array(given, dtype=entry.dtype, order="C")


def check_consistent(chain: Chain) -> None:
    """Refuse a chain whose arrays are each valid, but do not belong together.

    Sums of floats drift from a new count by far less than is allowed here, unless the data weight is so large that only
    rounding is left of the spread of a cluster.
    """
    problem, sums, clusters = chain.problem, chain.sums, chain.state.clusters
    if not respects_seeds(chain.labels, chain.seeds):
        raise InputError(f"{WRONG} 'seeds': sites with the same seed must share a cluster, and with others must not")
    used = int(chain.state.scratch.slots[USED])
    counted = count_clusters(problem, chain.labels, used)
    scale = np.abs(problem.evidence.moments).sum(axis=0)[:, np.newaxis]
    if (np.abs(clusters.moments[:, :used] - counted.moments[:, :used]) > DRIFT * scale).any():
        raise InputError(f"{WRONG} 'moments': they are not the sums over the clusters of its labels")
    channels = [block for block in problem.likelihoods if isinstance(block, Gaussian)]
    gauss, exact_gauss = clusters.gauss[:used], counted.gauss[:used]
    rounding = sum(block.rounding(chain.labels) for block in channels)
    if (np.abs(gauss - exact_gauss) > LOG_DRIFT * (1 + np.abs(exact_gauss)) + rounding).any():
        raise InputError(f"{WRONG} 'gauss': it does not follow from the moments")
    for name, labels, value in (
        ("log_posterior", chain.labels, sums.value[NOW]),
        ("best_log_posterior", sums.best, sums.value[BEST]),
    ):
        exact = log_posterior(problem, labels)
        drift = LOG_DRIFT * (1 + abs(exact)) + sum(block.rounding(labels) for block in channels)
        if not (np.isfinite(exact) and abs(value - exact) <= drift):
            raise InputError(f"{WRONG} {name!r}: it is {value:g}, and that of its labels {exact:g}")
