"""The values of a map of probabilities, in whatever range they come -> log odds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from napari_gsw.core.arrays import Floats32
from napari_gsw.core.errors import InputError

# No pixel of a map is ever surer than this.
LEAST_DOUBT = 0.01
# Values on both sides of 0..1 and within this are taken for log odds.
MOST_LOGIT = 50.0


class ValueRange(NamedTuple):
    """What the values of a map mean.

    Attributes
    ----------
    low, high : values that mean certainly not and certainly.
    logits : whether values are log odds already; `low` and `high` mean nothing then.
    guessed : whether nobody has said so.
    """

    low: float = 0.0
    high: float = 1.0
    logits: bool = False
    guessed: bool = False

    @property
    def words(self) -> str:
        """The range for a person.

        >>> ValueRange(0.0, 255.0, guessed=True).words
        '0 to 255 (guessed)'
        """
        text = "log odds" if self.logits else f"{self.low:g} to {self.high:g}"
        return f"{text} (guessed)" if self.guessed else text

    def log_odds(self, values: NDArray[Any]) -> Floats32:
        """Log odds of values of any shape and type, float32, never surer than `LEAST_DOUBT`."""
        most = np.log((1 - LEAST_DOUBT) / LEAST_DOUBT)
        if self.logits:
            return np.clip(values.astype(np.float64), -most, most).astype(np.float32)
        share = (values.astype(np.float64) - self.low) / (self.high - self.low)
        share = np.clip(share, LEAST_DOUBT, 1 - LEAST_DOUBT)
        return np.log(share / (1 - share)).astype(np.float32)


def range_named(setting: str, text: str) -> ValueRange | None:
    """The range that a setting declares; None for auto.

    >>> range_named("boundaries_range", "0, 255")
    ValueRange(low=0.0, high=255.0, logits=False, guessed=False)
    """
    word = text.strip().lower()
    if word == "auto":
        return None
    if word == "logits":
        return ValueRange(logits=True)
    try:
        low, high = (float(part) for part in word.split(","))
        if not np.isfinite([low, high]).all() or low == high:
            raise ValueError
    except ValueError:
        raise InputError(f"{setting} must be auto, logits, or two different numbers LOW,HIGH, not {text!r}") from None
    return ValueRange(low, high)


def guessed_range(parts: Sequence[NDArray[Any]]) -> ValueRange:
    """The range of a map of probabilities, from parts of any shape that stand for all of it.

    What lies in 0..1 is a probability. Whole numbers of 8 bits go to 255. Floats on both sides of 0..1 are log odds, if
    they are not large. Anything else goes from its smallest value to its largest.
    """
    low, high = min(float(p.min()) for p in parts), max(float(p.max()) for p in parts)
    if low >= 0 and high <= 1:
        return ValueRange(guessed=True)
    if parts[0].dtype == np.uint8:
        return ValueRange(0.0, 255.0, guessed=True)
    if parts[0].dtype.kind == "f" and low < 0 and high > 1 and max(-low, high) <= MOST_LOGIT:
        return ValueRange(logits=True, guessed=True)
    return ValueRange(low, high, guessed=True) if low < high else ValueRange(low, low + 1, guessed=True)


def refuse_constant(name: str, parts: Iterable[NDArray[Any]]) -> None:
    """Raise an InputError if all values are the same; no more parts are looked at than it takes to know."""
    rest = iter(parts)
    start = next(rest)
    first = start.flat[0]
    if (start == first).all() and all((part == first).all() for part in rest):
        raise InputError(f"{name} is {first:g} everywhere and says nothing; leave it out")
