"""Records as plain data: a tree that JSON can hold, and arrays by name beside it. Nothing in it is ever executed.

    null, true, 3, 0.5, "word"                            themselves
    {"float": "nan"}                                      a float that JSON does not know
    {"array": name}                                       an array beside the tree
    {"values": [...], "dtype": ..., "shape": [...]}       a small array
    {"bytes": name}                                       bytes, as an array beside the tree
    {"list": [...]}, {"tuple": [...]}, {"set": [...]}     their entries
    {"map": {...}}                                        a dictionary whose keys are words
    {"record": kind, "fields": {...}}                     a record of a kind that the reader knows

A reader names the kinds that it takes; each is made again by its own constructor, which checks what it is given.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from napari_gsw.core.arrays import Arrays
from napari_gsw.core.errors import InputError

# Arrays of at most so many numbers are written into the tree: each one beside it costs an entry of its own.
MOST_INLINE = 256
# What arrays may hold: numbers, no objects.
DTYPES = frozenset(
    ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64")
)
# What the name of an array is made of, between slashes; other letters are replaced.
NAME_LETTERS = "A-Za-z0-9_ .,=+-"
# Deeper than any record of ours; what is deeper was not written by us.
MOST_DEPTH = 60


class Kind(NamedTuple):
    """How records of one kind are taken apart and made again.

    Attributes
    ----------
    type : of the records.
    fields : what has to be known of a record, by name.
    make : the record from these, by name.
    """

    type: type
    fields: Callable[[Any], Mapping[str, Any]]
    make: Callable[..., Any]


def plain_kind(record: type) -> Kind:
    """The kind of a dataclass or named tuple that is the sum of its fields."""
    names = (
        tuple(f.name for f in dataclasses.fields(record) if f.init)
        if dataclasses.is_dataclass(record)
        else tuple(record._fields)  # type: ignore[attr-defined]
    )
    return Kind(record, lambda value: {name: getattr(value, name) for name in names}, record)


def described(
    value: Any,
    kinds: Mapping[str, Kind],
    arrays: dict[str, NDArray[Any]],
    path: str = "",
    names: dict[int, str] | None = None,
) -> Any:
    """The tree of a value; its larger arrays go into `arrays` under names that say where they were.

    Parameters
    ----------
    value : numbers, words, arrays, lists, tuples, sets, dictionaries and records of known kinds, nested as they are.
    kinds : the known kinds by name.
    path : name of the value's own place.
    names : of the arrays that are in `arrays` already, by their identity: what occurs twice is written once.
    """
    known = {} if names is None else names

    def inside(name: object, one: Any) -> Any:
        return described(one, kinds, arrays, f"{path}/{_plain(str(name))}".lstrip("/"), known)

    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {"float": str(value)}
    if isinstance(value, bytes):
        name = _free_name(path, arrays)
        arrays[name] = np.frombuffer(value, np.uint8)
        return {"bytes": name}
    if isinstance(value, np.ndarray):
        return _described_array(value, arrays, path, known)
    for name, kind in kinds.items():
        if type(value) is kind.type:
            return {"record": name, "fields": {key: inside(key, one) for key, one in kind.fields(value).items()}}
    if isinstance(value, (set, frozenset)):
        return {"set": [inside(k, one) for k, one in enumerate(sorted(value))]}
    if isinstance(value, (list, tuple)):
        word = "list" if isinstance(value, list) else "tuple"
        return {word: [inside(k, one) for k, one in enumerate(value)]}
    if isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
        return {"map": {key: inside(key, one) for key, one in value.items()}}
    raise InputError(f"{path or 'this'} cannot be saved: a {type(value).__name__} is not plain data")


def _described_array(array: NDArray[Any], arrays: dict[str, NDArray[Any]], path: str, names: dict[int, str]) -> Any:
    if array.dtype.name not in DTYPES:
        raise InputError(f"{path or 'this'} cannot be saved: an array of {array.dtype} is not of plain numbers")
    if array.size > MOST_INLINE:
        if id(array) not in names:
            name = names[id(array)] = _free_name(path, arrays)
            arrays[name] = array  # which keeps it alive, and so its identity its own
        return {"array": names[id(array)]}
    flat = [described(one, {}, arrays, path) for one in array.ravel().tolist()]
    return {"values": flat, "dtype": array.dtype.name, "shape": list(array.shape)}


def _plain(word: str) -> str:
    """A word as a part of a name that every file may have.

    >>> _plain("Zelle ä (1)"), _plain(".."), _plain("")
    ('Zelle _ _1_', '__', '_')
    """
    plain = re.sub(f"[^{NAME_LETTERS}]", "_", word)
    return plain if plain.strip(".") else "_" * max(1, len(plain))


def _free_name(path: str, arrays: Mapping[str, Any]) -> str:
    """The name that an array has by its place, or one like it if two places have the same."""
    name = path or "_"
    while name in arrays:
        name += "_"
    return name


def rebuilt(
    tree: Any, kinds: Mapping[str, Kind], arrays: Arrays, depth: int = 0, texts: dict[str, bytes] | None = None
) -> Any:
    """The value of a tree, or an InputError that says what is wrong with it.

    Parameters
    ----------
    tree, kinds : see :func:`described`. arrays : those beside the tree, by name.
    texts : the bytes that were made of some of them, which are the same wherever they are named.
    """
    known = {} if texts is None else texts
    if depth > MOST_DEPTH:
        raise InputError("it is nested deeper than anything that is saved")
    if tree is None or isinstance(tree, (bool, int, str)) or (isinstance(tree, float) and math.isfinite(tree)):
        return tree

    def inside(one: Any) -> Any:
        return rebuilt(one, kinds, arrays, depth + 1, known)

    match tree:
        case {"float": "nan" | "inf" | "-inf" as word}:
            return float(word)
        case {"array": str(name)} if name in arrays:
            return arrays[name]
        case {"bytes": str(name)} if name in arrays and arrays[name].dtype == np.uint8:
            if name not in known:
                known[name] = arrays[name].tobytes()
            return known[name]
        case {"values": list(values), "dtype": str(dtype), "shape": list(shape)} if dtype in DTYPES:
            return _rebuilt_array([inside(one) for one in values], dtype, shape)
        case {"list": list(values)}:
            return [inside(one) for one in values]
        case {"tuple": list(values)}:
            return tuple(inside(one) for one in values)
        case {"set": list(values)}:
            try:
                return frozenset(inside(one) for one in values)
            except TypeError:
                raise InputError("a set in it holds what no set does") from None
        case {"map": dict(values)}:
            return {key: inside(one) for key, one in values.items()}
        case {"record": str(name), "fields": dict(fields)} if name in kinds:
            values = {key: inside(one) for key, one in fields.items()}
            try:
                return kinds[name].make(**values)
            except InputError:
                raise
            except (TypeError, ValueError, IndexError, KeyError, AttributeError, OverflowError) as reason:
                raise InputError(f"its {name} is damaged: {' '.join(str(reason).split())}") from None
    raise InputError(f"it holds what is never saved: {str(tree)[:60]}")


def _rebuilt_array(values: list[Any], dtype: str, shape: list[Any]) -> NDArray[Any]:
    if len(values) > MOST_INLINE or not all(isinstance(x, (bool, int, float)) for x in values):
        raise InputError("a small array in it does not hold a few numbers")
    try:
        # Writable, as all arrays that go to kernels are: for a read-only one every kernel would be compiled again.
        return np.array(values, dtype=dtype).reshape([int(length) for length in shape])
    except (ValueError, TypeError, OverflowError):
        raise InputError(f"a small array in it is not {dtype} of shape {tuple(shape)}") from None
