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


# Names of types of numbers, which numpy takes long to make; "" for what kernels know nothing about.
_NAMES: dict[np.dtype[Any], str] = {}


class NoWords(Exception):
    """A value or a type that only numba knows about."""


def words_of(value: object) -> str:
    """What a value is to a kernel."""
    kind = type(value)
    if kind is np.ndarray:
        return _words_of_array(value)  # type: ignore[arg-type]
    if value is None:
        return "none"
    if kind is bool:
        return "bool"
    if kind is int and LEAST <= value <= MOST:  # type: ignore[operator]
        return "int64"
    if kind is float:
        return "float64"
    if isinstance(value, tuple):
        return _words_of_tuple(kind, [words_of(entry) for entry in value])
    if isinstance(value, np.generic) and value.dtype.kind in NUMBERS:
        return value.dtype.name
    if kind is np.random.Generator:
        return "generator"
    raise NoWords


def _words_of_array(array: np.ndarray[Any, np.dtype[Any]]) -> str:
    dtype, flags = array.dtype, array.flags
    if dtype not in _NAMES:
        _NAMES[dtype] = dtype.name if dtype.kind in NUMBERS and dtype.isnative else ""
    name = _NAMES[dtype]
    if not name or not flags.aligned:
        raise NoWords
    layout = "C" if flags.c_contiguous else "F" if flags.f_contiguous else "A"
    return _words_of_layout(name, array.ndim, layout, flags.writeable)


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
        return _words_of_tuple(tuple, [words_of_type(entry) for entry in kind.types])
    if name in ("NamedUniTuple", "NamedTuple"):
        return _words_of_tuple(kind.instance_class, [words_of_type(entry) for entry in kind.types])
    if name == "NumPyRandomGeneratorType":
        return "generator"
    raise NoWords


def _words_of_layout(dtype: str, dimensions: int, layout: str, writeable: bool) -> str:
    return f"{dtype}[{dimensions}{layout}{'' if writeable else ' constant'}]"


def _words_of_tuple(kind: type, entries: list[str]) -> str:
    """A record is known by its class, which must be one that another process finds by its name."""
    if kind is tuple:
        return f"({', '.join(entries)})"
    if "<" in kind.__qualname__:
        raise NoWords
    return f"{kind.__module__}.{kind.__qualname__}({', '.join(entries)})"
