"""What each array of a chain's state must be: the one table by which a state from anywhere is checked.

Kernels trust their arrays: a label out of range, a gap of no sweeps or a row that is too short would write where they
must not. So whatever comes from a file is held against this table first. What it calls for is what every chain has;
that labels, sums and log posteriors belong together is checked where the chain is put together again
(:mod:`napari_gsw.core.sampler.snapshot`).
"""

from __future__ import annotations

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
from napari_gsw.core.model.fingerprint import FINGERPRINT_BYTES
from napari_gsw.core.model.problem import Problem, log_posterior
from napari_gsw.core.partitions import canonical_labels
from napari_gsw.core.sampler.chain import Chain, count_clusters, make_chain, respects_seeds
from napari_gsw.core.sampler.draws import Draws, max_draws
from napari_gsw.core.sampler.options import MAX_SCANS, MAX_TEMPERATURE, SamplerOptions
from napari_gsw.core.sampler.state import BEST, NOW, USED, Annealing, Bonds, Moves, RunningSums

STATE_VERSION = 3
# Words of the inner state of a generator.
N_GENERATOR_WORDS = 4
MAX_SEED = 2**31 - 1
MAX_REPLICAS = 2**16

# Kinds of arrays: whole numbers, real numbers that are finite, words of 64 bits, bytes.
WHOLE, REAL, WORDS, BYTES = "whole", "real", "words", "bytes"
ARRAY_KINDS: Mapping[str, tuple[str, type, str]] = {  # kinds of dtype, the type to have, in words
    WHOLE: ("iu", np.int64, "whole numbers"),
    REAL: ("fiu", np.float64, "finite numbers"),
    WORDS: ("u", np.uint64, "unsigned words of 64 bits"),
    BYTES: ("u", np.uint8, "bytes"),
}


class Entry(NamedTuple):
    """What an array must be. A name in `shape` is a size, one in `high` a number before it in the table, or a size that
    it has to stay below."""

    kind: str
    shape: tuple[str | int, ...] = ()
    low: float = -math.inf
    high: float | str = math.inf
    exclusive_min: bool = False


# The sums, which other samplers have too.
SUM_ENTRIES: Mapping[str, Entry] = {
    "sweep": Entry(WHOLE, (), 0, MAX_INTEGER),
    "counted": Entry(WHOLE, (), 0, "sweep"),
    "best_sweep": Entry(WHOLE, (), 0, "sweep"),
    "log_posterior": Entry(REAL),
    "best_log_posterior": Entry(REAL),
    "best_labels": Entry(WHOLE, ("n",), 0, "n"),
    "together": Entry(WHOLE, ("m",), 0, "counted"),
}
CHAIN_ENTRIES: Mapping[str, Entry] = {
    **SUM_ENTRIES,
    "fingerprint": Entry(BYTES, (FINGERPRINT_BYTES,)),
    "gauss": Entry(REAL, ("slots",)),
    "moments": Entry(REAL, ("moments", "slots")),
    "labels": Entry(WHOLE, ("n",), 0, "slots"),
    "seeds": Entry(WHOLE, ("n",), -1, MAX_SEED),
    "generator": Entry(WORDS, (N_GENERATOR_WORDS,)),
    "bond_strength": Entry(REAL, ("m",), 0),
    "bond_high": Entry(REAL, (), 0, math.nextafter(1.0, 0.0)),
    "bond_low": Entry(REAL, (), 0, "bond_high"),
    "regroups": Entry(WHOLE, (), 0, MAX_MOVES),
    "burn_in": Entry(WHOLE, (), 0, MAX_INTEGER),
    "splits": Entry(WHOLE, (), 0, MAX_MOVES),
    "scans": Entry(WHOLE, (), 0, MAX_SCANS),
    "near": Entry(REAL, (), 0, 1),
    "informed": Entry(REAL, (), 0, 1),
    "full_scans": Entry(REAL, (), 0, 1, exclusive_min=True),
    "coldness": Entry(REAL, (), 1 / MAX_TEMPERATURE, MAX_TEMPERATURE),
    "hot": Entry(REAL, (), 1 / MAX_TEMPERATURE, MAX_TEMPERATURE),
    "cooling_sweeps": Entry(WHOLE, (), 0, MAX_INTEGER),
    "draws": Entry(WHOLE, ("draws", "n"), 0, "n"),
    "draw_gap": Entry(WHOLE, (), 1, MAX_INTEGER),
}
REPLICA_ENTRIES: Mapping[str, Entry] = {
    "ladder": Entry(REAL, ("replicas",), 1 / MAX_TEMPERATURE, 1),
    "exchanges": Entry(WHOLE, ("hotter", 2), 0, MAX_INTEGER),
    "hot_slots": Entry(WHOLE, ("hotter",), 1, "slot_limit"),
    "hot_labels": Entry(WHOLE, ("hotter", "n"), 0, "n"),
    "hot_generator": Entry(WORDS, ("hotter", N_GENERATOR_WORDS)),
    "hot_log_posterior": Entry(REAL, ("hotter",)),
    "hot_moments": Entry(REAL, ("moments", "all_hot_slots")),
    "hot_gauss": Entry(REAL, ("all_hot_slots",)),
}


def check_version(state: Arrays) -> None:
    """Refuse what is no state, and a state of another format."""
    if not isinstance(state, Mapping):
        raise InputError(f"state must be the arrays of a snapshot by name, not {type(state).__name__}")
    version = 1
    if "version" in state:
        version = int(_check_array("version", Entry(WHOLE, (), 0, 2**31), state, {})[()])
    if version != STATE_VERSION:
        raise InputError(
            f"the state of the chain has format {version}, and this version of napari-gsw reads format {STATE_VERSION}; "
            "run the chain again, or continue it with the version that wrote it"
        )


def check_state(problem: Problem, state: Arrays) -> dict[str, NDArray[Any]]:
    """The arrays of a chain's state by name, in the types that the chain has them in.

    An :class:`InputError` names the first one that is missing or is not what it must be, or says that the state belongs
    to another problem.
    """
    check_version(state)
    tables = {**CHAIN_ENTRIES, **REPLICA_ENTRIES} if "ladder" in state else CHAIN_ENTRIES
    for name in tables:
        if name not in state:
            raise InputError(f"the state of the chain lacks {name!r}")
    own = _check_array("fingerprint", CHAIN_ENTRIES["fingerprint"], state, {})
    if not np.array_equal(own, problem.fingerprint):
        raise InputError(
            "the state belongs to another problem: data, graph, couplings, prior or field are not those it came from"
        )
    n = problem.n
    numbers = {"n": n, "m": len(problem.edges), "moments": problem.evidence.moments.shape[1], "slot_limit": n + 1}
    arrays = check_arrays(CHAIN_ENTRIES, state, numbers, {"slots": (1, n), "draws": (0, max_draws(n))})
    if "ladder" in state:
        arrays |= check_arrays(REPLICA_ENTRIES, state, numbers, {"replicas": (1, MAX_REPLICAS)})
        _check_replicas(arrays)
    return arrays


def check_arrays(
    table: Mapping[str, Entry],
    state: Arrays,
    numbers: dict[str, int],
    free: Mapping[str, tuple[int, int]] | None = None,
) -> dict[str, NDArray[Any]]:
    """The arrays that a table names, checked against it.

    Parameters
    ----------
    numbers : sizes by name; those that arrays bring along are added to it.
    free : sizes that the arrays say themselves, with the least and the most that they may be.
    """
    arrays: dict[str, NDArray[Any]] = {}
    for name, entry in table.items():
        if name not in state:
            raise InputError(f"the state of the chain lacks {name!r}")
        given = to_array(f"{name!r} of the state", state[name])
        for axis, size in enumerate(entry.shape):
            if free and size in free and size not in numbers and given.ndim == len(entry.shape):
                low, high = free[str(size)]
                numbers[str(size)] = min(max(given.shape[axis], low), high)
                if size == "replicas":
                    numbers["hotter"] = numbers["replicas"] - 1
        arrays[name] = _check_array(name, entry, state, numbers | _scalars(arrays))
        if name == "hot_slots":
            numbers["all_hot_slots"] = int(arrays[name].sum())
    return arrays


def _scalars(arrays: Arrays) -> dict[str, Any]:
    """The single numbers among arrays that are right, which later ones are measured by."""
    return {name: array[()] for name, array in arrays.items() if array.ndim == 0}


def _check_array(name: str, entry: Entry, state: Arrays, numbers: Mapping[str, Any]) -> NDArray[Any]:
    """One array of a state in its own type, or an InputError that says what it must be."""
    given = to_array(f"{name!r} of the state", state[name])
    kinds, dtype, words = ARRAY_KINDS[entry.kind]
    shape = tuple(numbers.get(size, size) if isinstance(size, str) else size for size in entry.shape)
    high = entry.high
    if isinstance(high, str):  # a size is to stay below, a number is not
        high = numbers[high] - 1 if high in ("n", "slots", "slot_limit") else numbers[high]
    wide = entry.kind not in (WORDS, BYTES) or given.dtype.itemsize == np.dtype(dtype).itemsize
    fits = given.shape == shape and given.dtype.kind in kinds and wide
    if fits and entry.kind == REAL:
        fits = bool(np.isfinite(given).all())
    if fits and given.size and entry.kind in (WHOLE, REAL):
        fits = bool(given.min() >= entry.low and given.max() <= high)
        fits = fits and not (entry.exclusive_min and given.min() <= entry.low)
    if not fits:
        bounds = ""
        if math.isfinite(entry.low):
            upper = f"{float(high):g}]" if high < math.inf else "infinity)"
            bounds = f" in {'(' if entry.exclusive_min else '['}{entry.low:g}, {upper}"
        raise InputError(
            f"the state of the chain has a wrong {name!r}: it must be {words} of shape {shape}{bounds}, not "
            f"{given.dtype} of shape {given.shape}{_format_range(given)}"
        )
    return np.array(given, dtype=dtype, order="C")


def _format_range(given: NDArray[Any]) -> str:
    """From where to where the numbers of an array go, for a sentence."""
    return f" from {given.min():g} to {given.max():g}" if given.size and given.dtype.kind in "iuf" else ""


def _check_replicas(arrays: Arrays) -> None:
    """A ladder falls from 1, and the labels of each replica lie in its own slots."""
    ladder = arrays["ladder"]
    if ladder[0] != 1 or not (np.diff(ladder) < 0).all():
        raise InputError("the state of the chain has a wrong 'ladder': it must fall from 1")
    if (arrays["hot_labels"].max(axis=1, initial=0) >= arrays["hot_slots"]).any():
        raise InputError("the state of the chain has a wrong 'hot_labels': each row must lie in its own 'hot_slots'")


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
    labels: Int32Array
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
    trace: Float64Array
    together: Float64Array
    draws: tuple[Int32Array, ...] = field(repr=False)
    state: Arrays = field(repr=False)


def make_snapshot(chain: Chain, trace: Float64Array) -> Snapshot:
    """An immutable copy of everything that matters of a chain."""
    return make_snapshot_from_sums(chain.sums, chain.labels, trace, (chain.draws.kept,), export_state(chain))


def make_snapshot_from_sums(
    sums: RunningSums, labels: Int32Array, trace: Float64Array, draws: tuple[Int32Array, ...], state: Mapping[str, Any]
) -> Snapshot:
    """A snapshot from the running sums and the labels (n,) of any sampler."""
    sweep, counted, best_sweep = (int(x) for x in sums.counted)
    value, best_value = (float(x) for x in sums.value)
    share = sums.together / counted if counted else np.full(len(sums.together), np.nan)
    best = State(best_sweep, make_readonly(canonical_labels(sums.best)), best_value)
    return Snapshot(
        sweep,
        make_readonly(canonical_labels(labels)),
        value,
        best,
        make_readonly(trace),
        make_readonly(share),
        draws,
        state,
    )


def export_state(chain: Chain) -> Arrays:
    """The whole state of a chain as plain arrays, ready for any file format."""
    used, options = int(chain.walker.work.slots[USED]), chain.options
    splits, scans, near, informed, full_scans = options.moves
    coldness, hot, cooling_sweeps = options.annealing
    arrays = {
        "version": STATE_VERSION,
        "fingerprint": chain.problem.fingerprint,
        "labels": chain.labels,
        "seeds": chain.seeds,
        "generator": generator_state(chain.rng),
        **export_sums(chain.sums),
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
    copies = {name: make_readonly(np.array(value)) for name, value in arrays.items()}
    # The draws are many, but rows that are written once need no copy.
    return MappingProxyType(copies | {"draws": chain.draws.kept})


def export_sums(sums: RunningSums) -> dict[str, Any]:
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


def restore_sums(state: Arrays) -> RunningSums:
    """The running sums that :func:`exported_sums` wrote."""
    return RunningSums(
        value=np.array([state["log_posterior"], state["best_log_posterior"]], np.float64),
        best=state["best_labels"].astype(np.int32),
        together=state["together"].astype(np.int64),
        counted=np.array([state["sweep"], state["counted"], state["best_sweep"]], np.int64),
    )


def restore_chain(problem: Problem, state: Arrays, **changes: Any) -> Chain:
    """The chain whose state was exported; of a tempered one the first replica.

    Parameters
    ----------
    state : as :func:`~napari_gsw.core.sampler.snapshot.check_state` gives it: kernels trust these arrays.
    changes : options that are to be others than the chain had.
    """
    gauss, options = state["gauss"], restore_options(state).replace(**changes)
    labels, seeds = state["labels"].astype(np.int32), state["seeds"].astype(np.int32)
    rng = make_generator(state["generator"])
    chain = make_chain(problem, options, seeds, labels, restore_sums(state), rng, gauss.size)
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
    if not respects_seeds(chain.labels, chain.seeds):
        raise InputError(f"{WRONG} 'seeds': sites with the same seed must share a cluster, and with others must not")
    used = int(chain.walker.work.slots[USED])
    counted = count_clusters(problem, chain.labels, used)
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


def restore_options(state: Arrays) -> SamplerOptions:
    """How the chain moved whose state this is; a ladder is in its replicas."""
    return SamplerOptions(
        bonds=Bonds(state["bond_strength"].astype(np.float64), float(state["bond_low"]), float(state["bond_high"])),
        regroups=int(state["regroups"]),
        burn_in=int(state["burn_in"]),
        annealing=Annealing(float(state["coldness"]), float(state["hot"]), int(state["cooling_sweeps"])),
        moves=Moves(
            int(state["splits"]),
            int(state["scans"]),
            float(state["near"]),
            float(state["informed"]),
            float(state["full_scans"]),
        ),
    )


def make_generator(words: NDArray[Any]) -> np.random.Generator:
    """The generator whose inner state was exported."""
    rng = np.random.Generator(np.random.SFC64(0))
    inner = dict(rng.bit_generator.state)
    inner["state"] = {"state": words.astype(np.uint64)}
    rng.bit_generator.state = inner
    return rng


def generator_state(rng: np.random.Generator) -> NDArray[np.uint64]:
    """The inner state of a generator."""
    return np.array(rng.bit_generator.state["state"]["state"])


def make_readonly(array: NDArray[Any]) -> NDArray[Any]:
    """The array itself, which nobody can write to from now on."""
    array.setflags(write=False)
    return array
