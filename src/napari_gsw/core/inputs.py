"""What a user gives, as a number or an array of the right type; or an InputError that names it."""

from __future__ import annotations

import math
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from napari_gsw.core.arrays import Floats
from napari_gsw.core.errors import InputError

# The largest whole number that kernels can still add to: more sweeps than anybody has time for.
MOST_WHOLE = 2**62
# Moves of whole clusters beside one sweep, which cannot be interrupted: a number from nowhere must not hang a chain.
MOST_MOVES = 10**6


def whole_number(name: str, number: Any, least: int = 0, most: int = MOST_WHOLE) -> int:
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


def real_number(name: str, number: Any, low: float, high: float, open_low: bool = False) -> float:
    """A number in [low, high], or in (low, high] if `open_low`, as a float; or an InputError that names it."""
    fits = isinstance(number, Real) and not isinstance(number, (bool, np.bool_))
    fits = fits and -math.inf < number < math.inf and low <= number <= high and not (open_low and number == low)
    if not fits:
        above = f"{'>' if open_low else '>='} {low:g}"
        within = f"in {'(' if open_low else '['}{low:g}, {high:g}]" if high < math.inf else above
        raise InputError(f"{name} must be a number {within}, not {number!r}")
    return float(number)


def plain_array(name: str, values: Any) -> NDArray[Any]:
    """An array of anything that makes one; rows of different lengths make none."""
    try:
        return np.asarray(values)
    except (ValueError, TypeError, OverflowError) as reason:
        raise InputError(f"{name} must be an array: {reason}") from None


def float_array(name: str, values: Any) -> Floats:
    """A float64 array from numbers of any real type, or an InputError that names it; not necessarily finite."""
    array = plain_array(name, values)
    if array.dtype.kind not in "buif":
        raise InputError(f"{name} must hold numbers, not {array.dtype}")
    with np.errstate(over="ignore"):  # a long double that is too large becomes infinite, and is refused as that
        return np.asarray(array, dtype=np.float64)


def random_seed(seed: Any) -> int:
    """A seed as an int: a whole number >= 0; None draws one, so that it can be recorded."""
    if seed is None:
        return int(np.random.SeedSequence().generate_state(1)[0])
    return whole_number("seed", seed, most=2**128)
