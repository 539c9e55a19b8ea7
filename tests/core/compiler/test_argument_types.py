"""What kernels are compiled for is said alike of values and of numba's types."""

from __future__ import annotations

from typing import NamedTuple

import numba
import numpy as np
import pytest

from napari_gsw.core.compiler.argument_types import NoWords, words_of, words_of_type


class Pair(NamedTuple):
    """Two of a kind, or not."""

    first: object
    second: object


ARRAY = np.arange(24.0).reshape(4, 6)
READ_ONLY = np.zeros(3, np.int32)
READ_ONLY.setflags(write=False)
UNALIGNED = np.frombuffer(b"\0" * 25, np.uint8)[1:].view(np.float64)
SAID = {
    "float64[2C]": ARRAY,
    "float64[2F]": ARRAY.T,
    "float64[2A]": ARRAY[:, ::2],
    "uint8[3C]": np.zeros((2, 2, 2), np.uint8),
    "bool[1C]": np.zeros(2, bool),
    "float32[0C]": np.zeros((), np.float32),
    "int64[1C]": np.zeros(0, np.int64),
    "int32[1C constant]": READ_ONLY,
    "int64": 7,
    "bool": True,
    "float64": 0.5,
    "int8": np.int8(7),
    "float32": np.float32(7),
    "none": None,
    "generator": np.random.default_rng(0),
    "(float64, float64)": (0.5, 1.0),
    "(float64, (int64, none))": (0.5, (1, None)),
    "()": (),
    f"{__name__}.Pair(float64[1C], int64)": Pair(np.zeros(2), 7),
    f"{__name__}.Pair(bool, bool)": Pair(True, False),
    f"{__name__}.Pair({__name__}.Pair(int64, int64), none)": Pair(Pair(1, 2), None),
}


@pytest.mark.parametrize("words", SAID)
def test_a_value_and_its_type_are_in_the_same_words(words):
    assert words_of(SAID[words]) == words
    assert words_of_type(numba.typeof(SAID[words])) == words


@pytest.mark.parametrize(("same", "other"), [(np.float64(1), 1.0), (np.int64(1), 1), (np.bool_(True), True)])
def test_numbers_of_numpy_are_those_of_python_where_numba_takes_them_for_the_same(same, other):
    assert numba.typeof(same) == numba.typeof(other)
    assert words_of(same) == words_of(other)


def local_record():
    class Local(NamedTuple):
        only: int

    return Local(3)


@pytest.mark.parametrize(
    "value",
    [
        2**63, -(2**63) - 1, 1j, np.complex64(1), "text", [1], {1: 2}, np.zeros(2, ">f8"), np.zeros(2, object),
        np.zeros(2, "datetime64[s]"), np.ma.zeros(2), np.array("text"), object(), (1, "text"), local_record(),
        np.random.RandomState(0), np.datetime64(1, "s"), UNALIGNED,
    ],
    ids=lambda value: type(value).__name__,
)  # fmt: skip
def test_there_are_no_words_for_what_only_numba_knows(value):
    with pytest.raises(NoWords):
        words_of(value)


@pytest.mark.parametrize(
    "kind",
    [
        numba.types.unicode_type, numba.types.complex64, numba.types.List(numba.int64), numba.typeof(local_record()),
        numba.typeof(np.zeros(2, "datetime64[s]")), numba.types.Array(numba.int8, 1, "C", aligned=False),
        numba.types.Omitted(3), numba.types.IntegerLiteral(3),
    ],
    ids=str,
)  # fmt: skip
def test_nor_for_its_types(kind):
    with pytest.raises(NoWords):
        words_of_type(kind)
