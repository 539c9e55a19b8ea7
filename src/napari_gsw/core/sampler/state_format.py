"""What each array of a chain's state must be: the one table by which a state from anywhere is checked.

Kernels trust their arrays: a label out of range, a gap of no sweeps or a row that is too short would write where they
must not. So whatever comes from a file is held against this table first. What it calls for is what every chain has;
that labels, sums and log posteriors belong together is checked where the chain is put together again
(:mod:`napari_gsw.core.sampler.snapshot`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from napari_gsw.core.arrays import Arrays
from napari_gsw.core.errors import InputError
from napari_gsw.core.inputs import MOST_MOVES, MOST_WHOLE, plain_array
from napari_gsw.core.model.fingerprint import LENGTH
from napari_gsw.core.model.problem import Problem
from napari_gsw.core.sampler.draws import most_draws
from napari_gsw.core.sampler.schedule import HOTTEST, MOST_SCANS

VERSION = 3
# Words of the inner state of a generator.
GENERATOR = 4
MOST_SEED = 2**31 - 1
MOST_REPLICAS = 2**16

# Kinds of arrays: whole numbers, real numbers that are finite, words of 64 bits, bytes.
WHOLE, REAL, WORDS, BYTES = "whole", "real", "words", "bytes"
KINDS: Mapping[str, tuple[str, type, str]] = {  # kinds of dtype, the type to have, in words
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
    open_low: bool = False


# The sums, which other samplers have too.
SUMS: Mapping[str, Entry] = {
    "sweep": Entry(WHOLE, (), 0, MOST_WHOLE),
    "counted": Entry(WHOLE, (), 0, "sweep"),
    "best_sweep": Entry(WHOLE, (), 0, "sweep"),
    "log_posterior": Entry(REAL),
    "best_log_posterior": Entry(REAL),
    "best_labels": Entry(WHOLE, ("n",), 0, "n"),
    "together": Entry(WHOLE, ("m",), 0, "counted"),
}
CHAIN: Mapping[str, Entry] = {
    **SUMS,
    "fingerprint": Entry(BYTES, (LENGTH,)),
    "gauss": Entry(REAL, ("slots",)),
    "moments": Entry(REAL, ("moments", "slots")),
    "labels": Entry(WHOLE, ("n",), 0, "slots"),
    "seeds": Entry(WHOLE, ("n",), -1, MOST_SEED),
    "generator": Entry(WORDS, (GENERATOR,)),
    "bond_strength": Entry(REAL, ("m",), 0),
    "bond_high": Entry(REAL, (), 0, math.nextafter(1.0, 0.0)),
    "bond_low": Entry(REAL, (), 0, "bond_high"),
    "regroups": Entry(WHOLE, (), 0, MOST_MOVES),
    "burn_in": Entry(WHOLE, (), 0, MOST_WHOLE),
    "splits": Entry(WHOLE, (), 0, MOST_MOVES),
    "scans": Entry(WHOLE, (), 0, MOST_SCANS),
    "near": Entry(REAL, (), 0, 1),
    "informed": Entry(REAL, (), 0, 1),
    "full_scans": Entry(REAL, (), 0, 1, open_low=True),
    "coldness": Entry(REAL, (), 1 / HOTTEST, HOTTEST),
    "hot": Entry(REAL, (), 1 / HOTTEST, HOTTEST),
    "cooling_sweeps": Entry(WHOLE, (), 0, MOST_WHOLE),
    "draws": Entry(WHOLE, ("draws", "n"), 0, "n"),
    "draw_gap": Entry(WHOLE, (), 1, MOST_WHOLE),
}
REPLICAS: Mapping[str, Entry] = {
    "ladder": Entry(REAL, ("replicas",), 1 / HOTTEST, 1),
    "exchanges": Entry(WHOLE, ("hotter", 2), 0, MOST_WHOLE),
    "hot_slots": Entry(WHOLE, ("hotter",), 1, "slot_limit"),
    "hot_labels": Entry(WHOLE, ("hotter", "n"), 0, "n"),
    "hot_generator": Entry(WORDS, ("hotter", GENERATOR)),
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
        version = int(_checked("version", Entry(WHOLE, (), 0, 2**31), state, {})[()])
    if version != VERSION:
        raise InputError(
            f"the state of the chain has format {version}, and this version of napari-gsw reads format {VERSION}; "
            "run the chain again, or continue it with the version that wrote it"
        )


def checked_state(problem: Problem, state: Arrays) -> dict[str, NDArray[Any]]:
    """The arrays of a chain's state by name, in the types that the chain has them in.

    An :class:`InputError` names the first one that is missing or is not what it must be, or says that the state belongs
    to another problem.
    """
    check_version(state)
    tables = {**CHAIN, **REPLICAS} if "ladder" in state else CHAIN
    for name in tables:
        if name not in state:
            raise InputError(f"the state of the chain lacks {name!r}")
    own = _checked("fingerprint", CHAIN["fingerprint"], state, {})
    if not np.array_equal(own, problem.fingerprint):
        raise InputError(
            "the state belongs to another problem: data, graph, couplings, prior or field are not those it came from"
        )
    n = problem.n
    numbers = {"n": n, "m": len(problem.edges), "moments": problem.evidence.moments.shape[1], "slot_limit": n + 1}
    arrays = checked_arrays(CHAIN, state, numbers, {"slots": (1, n), "draws": (0, most_draws(n))})
    if "ladder" in state:
        arrays |= checked_arrays(REPLICAS, state, numbers, {"replicas": (1, MOST_REPLICAS)})
        _check_replicas(arrays)
    return arrays


def checked_arrays(
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
        given = plain_array(f"{name!r} of the state", state[name])
        for axis, size in enumerate(entry.shape):
            if free and size in free and size not in numbers and given.ndim == len(entry.shape):
                low, high = free[str(size)]
                numbers[str(size)] = min(max(given.shape[axis], low), high)
                if size == "replicas":
                    numbers["hotter"] = numbers["replicas"] - 1
        arrays[name] = _checked(name, entry, state, numbers | _scalars(arrays))
        if name == "hot_slots":
            numbers["all_hot_slots"] = int(arrays[name].sum())
    return arrays


def _scalars(arrays: Arrays) -> dict[str, Any]:
    """The single numbers among arrays that are right, which later ones are measured by."""
    return {name: array[()] for name, array in arrays.items() if array.ndim == 0}


def _checked(name: str, entry: Entry, state: Arrays, numbers: Mapping[str, Any]) -> NDArray[Any]:
    """One array of a state in its own type, or an InputError that says what it must be."""
    given = plain_array(f"{name!r} of the state", state[name])
    kinds, dtype, words = KINDS[entry.kind]
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
        fits = fits and not (entry.open_low and given.min() <= entry.low)
    if not fits:
        bounds = ""
        if math.isfinite(entry.low):
            upper = f"{float(high):g}]" if high < math.inf else "infinity)"
            bounds = f" in {'(' if entry.open_low else '['}{entry.low:g}, {upper}"
        raise InputError(
            f"the state of the chain has a wrong {name!r}: it must be {words} of shape {shape}{bounds}, not "
            f"{given.dtype} of shape {given.shape}{_range(given)}"
        )
    return np.array(given, dtype=dtype, order="C")


def _range(given: NDArray[Any]) -> str:
    """From where to where the numbers of an array go, for a sentence."""
    return f" from {given.min():g} to {given.max():g}" if given.size and given.dtype.kind in "iuf" else ""


def _check_replicas(arrays: Arrays) -> None:
    """A ladder falls from 1, and the labels of each replica lie in its own slots."""
    ladder = arrays["ladder"]
    if ladder[0] != 1 or not (np.diff(ladder) < 0).all():
        raise InputError("the state of the chain has a wrong 'ladder': it must fall from 1")
    if (arrays["hot_labels"].max(axis=1, initial=0) >= arrays["hot_slots"]).any():
        raise InputError("the state of the chain has a wrong 'hot_labels': each row must lie in its own 'hot_slots'")
