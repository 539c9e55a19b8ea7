"""The one exception that a user can cause, and the sentence it carries."""

from __future__ import annotations

import math
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from napari_gsw.core.array_types import Float64Array


class InputError(ValueError):
    """Something the user gave cannot be used; the message is one line that says what to do.

    Every check of the package raises this and nothing else, so that the command line, the widget and a
    batch can show the sentence and leave tracebacks to real defects.
    """


# The largest whole number that kernels can still add to: more sweeps than anybody has time for.
MAX_INTEGER = 2**62
# Moves of whole clusters beside one sweep, which cannot be interrupted: a number from nowhere must not hang a chain.
MAX_MOVES = 10**6


def check_integer(name: str, number: Any, least: int = 0, most: int = MAX_INTEGER) -> int:
    """A whole number in [least, most] as an int, or an InputError that names it."""
    try:
        fits = not isinstance(number, (bool, np.bool_)) and not np.ndim(number)
        fits = fits and int(number) == number and int(number) >= least
    except (TypeError, ValueError, OverflowError):
        fits = False
    if not fits:
        raise InputError(f"{name} must be a whole number >= {least}, not {number!r}")
    if int(number) > most:
        raise InputError(f"{name} must be a whole number in [{least}, {most}]")
    return int(number)


def check_number(name: str, number: Any, low: float, high: float, exclusive_min: bool = False) -> float:
    """A number in [low, high], or in (low, high] if `open_low`, as a float; or an InputError that names it."""
    fits = isinstance(number, Real) and not isinstance(number, (bool, np.bool_))
    fits = fits and -math.inf < number < math.inf and low <= number <= high and not (exclusive_min and number == low)
    if not fits:
        above = f"{'>' if exclusive_min else '>='} {low:g}"
        within = f"in {'(' if exclusive_min else '['}{low:g}, {high:g}]" if high < math.inf else above
        raise InputError(f"{name} must be a number {within}, not {number!r}")
    return float(number)


def to_array(name: str, values: Any) -> NDArray[Any]:
    """An array of anything that makes one; rows of different lengths make none."""
    try:
        return np.asarray(values)
    except (ValueError, TypeError, OverflowError) as reason:
        raise InputError(f"{name} must be an array: {reason}") from None


def to_float_array(name: str, values: Any) -> Float64Array:
    """A float64 array from numbers of any real type, or an InputError that names it; not necessarily finite."""
    array = to_array(name, values)
    if array.dtype.kind not in "buif":
        raise InputError(f"{name} must hold numbers, not {array.dtype}")
    with np.errstate(over="ignore"):  # a long double that is too large becomes infinite, and is refused as that
        return np.asarray(array, dtype=np.float64)


def check_seed(seed: Any) -> int:
    """A seed as an int: a whole number >= 0; None draws one, so that it can be recorded."""
    if seed is None:
        return int(np.random.SeedSequence().generate_state(1)[0])
    return check_integer("seed", seed, most=2**128)
