"""The exception for errors of the user, and checks of arguments that raise it.

NumPy is imported within the functions, so that the settings and the command line start without it.
"""

from __future__ import annotations

import math
from numbers import Real
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from napari_gsw.core.array_types import Float64Array

# The largest integer to which kernels can still add.
MAX_INTEGER = 2**62
# Largest number of whole-cluster moves per sweep, which cannot be interrupted.
MAX_MOVES = 10**6


class InputError(ValueError):
    """An input cannot be used; the message is one line that says what to do.

    All checks raise this exception and no other. The command line, the window and batches show its message, and leave
    tracebacks to defects of the program.
    """


def check_integer(name: str, number: Any, least: int = 0, most: int = MAX_INTEGER) -> int:
    """Convert an integer in [least, most] to int, or raise an InputError."""
    import numpy as np

    try:
        fits = not isinstance(number, (bool, np.bool_)) and not np.ndim(number)
        fits = fits and int(number) == number and int(number) >= least
    except (TypeError, ValueError, OverflowError):
        fits = False
    if not fits:
        raise InputError(f"{name} must be a whole number >= {least}, not {number!r}")
    if int(number) > most:
        largest = str(most) if most <= MAX_INTEGER else f"{most:g}"
        raise InputError(f"{name} must be a whole number in [{least}, {largest}]")
    return int(number)


def check_number(name: str, number: Any, low: float, high: float, exclusive_min: bool = False) -> float:
    """Convert a number in [low, high], or in (low, high] if `exclusive_min`, to float, or raise an InputError."""
    fits = isinstance(number, Real) and not isinstance(number, bool)
    fits = fits and -math.inf < number < math.inf and low <= number <= high and not (exclusive_min and number == low)
    if not fits:
        above = f"{'>' if exclusive_min else '>='} {low:g}"
        within = f"in {'(' if exclusive_min else '['}{low:g}, {high:g}]" if high < math.inf else above
        raise InputError(f"{name} must be a number {within}, not {number!r}")
    return float(number)


def to_array(name: str, values: Any) -> NDArray[Any]:
    """Convert anything array-like to an array, or raise an InputError."""
    import numpy as np

    if isinstance(values, np.ma.MaskedArray) and values.mask.any():
        raise InputError(f"{name} has a mask of its own: give its data, and what to leave out by mask=")
    try:
        return np.asarray(values)
    except (ValueError, TypeError, OverflowError) as reason:
        raise InputError(f"{name} must be an array: {reason}") from None


def to_float_array(name: str, values: Any) -> Float64Array:
    """Convert real numbers, finite or not, to a float64 array, or raise an InputError."""
    import numpy as np

    array = to_array(name, values)
    if array.dtype.kind not in "buif":
        raise InputError(f"{name} must hold numbers, not {array.dtype}")
    with np.errstate(over="ignore"):  # a long double that is too large becomes infinite, which is refused later
        return np.asarray(array, dtype=np.float64)


def check_seed(seed: Any) -> int:
    """Convert an integer >= 0 to int; draw a seed for None, so that it can be recorded."""
    if seed is None:
        import numpy as np

        return int(np.random.SeedSequence().generate_state(1)[0])
    return check_integer("seed", seed, most=2**128)
