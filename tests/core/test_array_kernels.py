"""What a kernel begins with is what numpy makes."""

import numpy as np
import pytest

from napari_gsw.core.array_kernels import counting, full, zeros
from napari_gsw.core.jit import jit


def made(n, m):
    return (
        zeros(n, np.int64),
        zeros((n, m), np.uint32),
        zeros((2, n, m), np.float32),
        full(n, -1, np.int32),
        full((n, m), np.inf, np.float32),
        full(n, 1, np.bool_),
        counting(n, np.int32),
    )


@pytest.mark.parametrize("function", [made, jit(made)], ids=["Python", "compiled"])
@pytest.mark.parametrize(("n", "m"), [(5, 3), (0, 4), (1, 1)])
def test_they_are_those_of_numpy(function, n, m):
    expected = (
        np.zeros(n, np.int64),
        np.zeros((n, m), np.uint32),
        np.zeros((2, n, m), np.float32),
        np.full(n, -1, np.int32),
        np.full((n, m), np.inf, np.float32),
        np.ones(n, np.bool_),
        np.arange(n, dtype=np.int32),
    )
    for array, other in zip(function(n, m), expected, strict=True):
        np.testing.assert_array_equal(array, other, strict=True)
