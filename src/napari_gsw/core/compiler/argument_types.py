"""What kernels are compiled for, in words: of the values that one is called with, and of numba's types for them.

The two say the same of a value and of its type (a test compares them), so that what was compiled for a type is found
for a value without numba. What they have no words for is numba's alone.
"""

from __future__ import annotations

from typing import Any

import numpy as np

# Kinds of numbers that numpy and numba name alike.
NUMBERS = "biuf"
# What an integer of Python becomes.
LEAST, MOST = -(2**63), 2**63 - 1


# What was said of arrays, by type, dimensions and flags, and of records: a kernel may be called for every sweep.
_ARRAYS: dict[tuple[Any, ...], str] = {}
_RECORDS: dict[type, str] = {}


class NoWords(Exception):
    """A value or a type that only numba knows about."""


def words_of(value: object) -> str:
    """What a value is to a kernel."""
    kind = type(value)
    if kind is np.ndarray:
        key = value.dtype, value.ndim, value.flags.num  # type: ignore[attr-defined]
        return _ARRAYS.get(key) or _words_of_array(key, value)  # type: ignore[arg-type]
    if issubclass(kind, tuple):
        return f"{_RECORDS.get(kind) or _words_of_record(kind)}({', '.join([words_of(entry) for entry in value])})"  # type: ignore[attr-defined]
    if value is None:
        return "none"
    if kind is bool:
        return "bool"
    if kind is int and LEAST <= value <= MOST:  # type: ignore[operator]
        return "int64"
    if kind is float:
        return "float64"
    if isinstance(value, np.generic) and value.dtype.kind in NUMBERS:
        return value.dtype.name
    if kind is np.random.Generator:
        return "generator"
    raise NoWords


def _words_of_array(key: tuple[Any, ...], array: np.ndarray[Any, np.dtype[Any]]) -> str:
    dtype, flags = array.dtype, array.flags
    if dtype.kind not in NUMBERS or not dtype.isnative or not flags.aligned:
        raise NoWords
    layout = "C" if flags.c_contiguous else "F" if flags.f_contiguous else "A"
    _ARRAYS[key] = words = _words_of_layout(dtype.name, array.ndim, layout, flags.writeable)
    return words


def words_of_type(kind: Any) -> str:
    """What a value of one of numba's types is to a kernel."""
    name = type(kind).__name__
    if name == "Array" and kind.aligned:
        return _words_of_layout(words_of_type(kind.dtype), kind.ndim, kind.layout, kind.mutable)
    if name in ("Integer", "Float", "Boolean"):
        return str(kind)
    if name == "NoneType":
        return "none"
    if name in ("UniTuple", "Tuple"):
        return f"({', '.join([words_of_type(entry) for entry in kind.types])})"
    if name in ("NamedUniTuple", "NamedTuple"):
        entries = [words_of_type(entry) for entry in kind.types]
        return f"{_words_of_record(kind.instance_class)}({', '.join(entries)})"
    if name == "NumPyRandomGeneratorType":
        return "generator"
    raise NoWords


def _words_of_layout(dtype: str, dimensions: int, layout: str, writeable: bool) -> str:
    return f"{dtype}[{dimensions}{layout}{'' if writeable else ' constant'}]"


def _words_of_record(kind: type) -> str:
    """A record is known by its class, which must be one that another process finds by its name."""
    if kind is tuple:
        return ""
    if "<" in kind.__qualname__:
        raise NoWords
    _RECORDS[kind] = words = f"{kind.__module__}.{kind.__qualname__}"
    return words
