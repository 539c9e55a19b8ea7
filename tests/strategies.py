"""Arguments of careless, unlucky and malicious callers, for the fuzz tests.

`make fuzz` tries ten thousand of them for each function.
"""

from __future__ import annotations

import math
import os
from numbers import Real

import numpy as np
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.internal.conjecture import providers

import napari_gsw as gsw

# Hypothesis also tries numbers that it reads in the modules that happen to be loaded: then the examples of a function
# would depend on which other tests ran before.
if hasattr(providers, "_get_local_constants"):
    providers._get_local_constants = lambda: providers._local_constants
EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES", "100"))
fuzzed = settings(
    max_examples=EXAMPLES,
    deadline=None,
    database=None,
    derandomize="FUZZ_EXAMPLES" not in os.environ,
    suppress_health_check=list(HealthCheck),
    phases=(Phase.explicit, Phase.generate),  # the smallest example takes too long to find
    print_blob=True,
)

DTYPES = ("bool", "int8", "uint8", "int32", "uint32", "int64", "uint64", "float16", "float32", "float64", "longdouble",
          ">i4", ">f8", "complex64", "datetime64[s]", "U3", "object")  # fmt: skip
NUMERIC = DTYPES[:13]
SPECIAL = (0.0, 1.0, -1.0, 0.5, 1e-320, 1e-100, 1e9, 1e30, 1e100, 1e307, -1e307, math.inf, -math.inf, math.nan)

# Not st.floats(): that also tries well-known numbers in the order of a set with NaN in it, which is another one in
# every process, and so would be the examples.
any_floats = st.builds(lambda digits, power: digits * 10.0**power, st.integers(-999, 999), st.integers(-320, 300))
numbers = st.one_of(
    st.sampled_from((*SPECIAL, 0, 1, 2, 3, 7, -1, -3, 2**31, 2**63, 2**64, 10**30, True, False, None)),
    any_floats,
    st.integers(-5, 20),
)
junk = st.one_of(
    numbers,
    st.sampled_from(("", "text", b"bytes", 1j, (), [], [[1], [2, 3]], {}, object, np.float32(2), np.int8(-3))),
    st.builds(lambda shape, dtype: np.ones(shape, dtype), st.sampled_from(((), (0,), (1,), (3,), (2, 2))),
              st.sampled_from(("int64", "float64", "bool"))),
)  # fmt: skip


def is_large(value):
    """Return whether so many of something would take long."""
    number = value.item() if isinstance(value, np.ndarray) and value.ndim == 0 else value
    return isinstance(number, Real) and number > 20


def some_of(names, **sizes):
    """Some of the names, each once: in an order that is drawn too, where a set of text has another in every process."""
    return st.lists(st.sampled_from(names), unique=True, **sizes)


def refused(function, *args, **more):
    """Return the result of a call; None if it was refused with a message. Anything else that is raised is a defect."""
    try:
        return function(*args, **more)
    except (gsw.InputError, TypeError):
        return None


@st.composite
def arrays(draw, shape=None, dtypes=DTYPES, most_axes=5, most=6):
    """An array of any type and layout; its numbers are ordinary ones, with something special here and there."""
    if shape is None:
        shape = tuple(draw(st.lists(st.integers(0, most), max_size=most_axes)))
    dtype = np.dtype(draw(st.sampled_from(dtypes)))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    scale = draw(st.sampled_from((1.0, 3.0, 255.0, 1e-30, 1e20)))
    values = rng.random(shape) * scale
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        low = draw(st.sampled_from((0, 0, 0, -2, int(info.min))))
        high = draw(st.sampled_from((2, 5, 100, int(info.max))))
        array = rng.integers(max(low, int(info.min)), high, shape, dtype=dtype.newbyteorder("="), endpoint=True)
        array = np.asarray(array).astype(dtype)
    elif dtype.kind in "bfc":
        with np.errstate(over="ignore"):
            array = np.asarray(values > scale / 2 if dtype.kind == "b" else values).astype(dtype)
    elif dtype.kind == "O":
        array = np.asarray(values).astype(object)
    else:
        array = np.asarray(values * 10 % 10).astype(np.int64).astype(dtype)
    if dtype.kind == "f" and array.size and draw(st.integers(0, 3)) == 0:
        with np.errstate(over="ignore"):
            array.reshape(-1)[draw(st.integers(0, array.size - 1))] = draw(st.sampled_from(SPECIAL))
    return laid_out(draw, array)


def laid_out(draw, array):
    """The same values in memory as they may come: Fortran, with gaps, backwards, read-only."""
    layout = draw(st.sampled_from(("plain", "fortran", "gaps", "backwards", "read-only", "list")))
    if layout == "fortran":
        array = np.array(array, order="F")
    elif layout == "gaps" and array.ndim:
        array = np.repeat(array, 2, axis=-1)[..., ::2]
    elif layout == "backwards" and array.ndim:
        array = array[::-1].copy()[::-1]
    elif layout == "read-only":
        array = array.copy()
        array.setflags(write=False)
    elif layout == "list" and array.dtype.kind in "bif" and array.dtype.itemsize <= 8:
        return array.tolist()
    return array


@st.composite
def images(draw, most=7):
    """An image that is mostly one: two or three axes, perhaps with channels, of any numeric type."""
    if draw(st.integers(0, 9)) == 0:
        return draw(arrays(most=4))
    space = draw(st.lists(st.integers(1, most), min_size=2, max_size=2))
    shape = draw(st.sampled_from((space, [*space, 3], [*space, 4], [2, *space], [*space, 2], [2, *space, 3])))
    image = draw(arrays(tuple(shape), NUMERIC))
    return np.asarray(image)


@st.composite
def beside(draw, shape):
    """A label image or a mask beside an image of this shape in space: mostly right, sometimes not."""
    kind = draw(st.integers(0, 9))
    if kind == 0:
        return draw(junk)
    if kind == 1:
        return draw(arrays(most=3, most_axes=3))
    return draw(arrays(shape, ("int32", "uint8", "bool", "int64", "uint64", "float32")))


@st.composite
def priors(draw, n):
    """A partition prior, also with limits, for n sites."""
    prior = draw(st.sampled_from((
        gsw.Potts(1), gsw.Potts(3), gsw.Potts(10**60), gsw.FiniteDirichlet(4, 0.3), gsw.FiniteDirichlet(2, 1e-90),
        gsw.DirichletProcess(1.0), gsw.DirichletProcess(1e-90), gsw.DirichletProcess(1e9), gsw.PitmanYor(0.5, 0.3),
        gsw.PitmanYor(1.0, -0.5), gsw.PitmanYor(-0.2, 0.9),
    )))  # fmt: skip
    kind = draw(st.integers(0, 5))
    if kind == 0:
        return prior.truncated(draw(st.integers(0, n)))
    if kind == 1:
        return prior.truncated(1, draw(st.integers(1, n + 1)))
    if kind == 2:
        logs = st.sampled_from((0.0, 0.3, -0.7, -math.inf, 5.0, -1e11, 40.0))
        return gsw.TablePrior(*(draw(st.lists(logs, min_size=n + 1, max_size=n + 2)) for _ in range(2)))
    return prior


@st.composite
def blocks(draw, n):
    """Data of n sites: words, channels, both, or none."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    evidence = draw(st.sampled_from((None, 0.1, 4.0, 1e9)))
    made = []
    for _ in range(draw(st.integers(0, 2))):
        high = draw(st.sampled_from((1, 4, 60, 10**6)))
        counts = rng.integers(0, high, (n, draw(st.integers(0, 5)))) * (rng.random((n, 1)) < 0.9)
        phi = draw(st.sampled_from((1e-99, 0.5, 50.0, 1e9)))
        made.append(gsw.DirichletMultinomial(counts, phi, evidence))
    if draw(st.booleans()):
        each = draw(st.integers(1, 3))
        values = rng.normal(size=(n * each, draw(st.integers(1, 3)))) * draw(st.sampled_from((0.0, 1e-120, 1.0, 1e90)))
        kappa, spread = draw(st.sampled_from((1e-99, 0.01, 1e9))), draw(st.sampled_from((1e-6, 0.05, 1e9)))
        shape = draw(st.sampled_from((None, 1.0001, 3.0)))
        site = np.arange(n * each) // each
        made.append(gsw.Gaussian.from_pixels(values, site, n, evidence, kappa, shape, spread))
    return tuple(made)


@st.composite
def problems(draw, most=8):
    """A small problem: single sites, parts that hang together by nothing, edges that come twice, strong couplings."""
    n = draw(st.integers(1, most))
    sites = st.integers(0, n - 1)
    edges = (
        draw(st.lists(st.tuples(sites, sites).filter(lambda pair: pair[0] != pair[1]), max_size=2 * n)) if n > 1 else []
    )
    if edges and draw(st.booleans()):
        edges += edges[:2]
    beta = draw(st.lists(st.sampled_from((0.0, 0.02, 1.0, -0.5, 30.0, 1e6, -1e6, 1e-300)), min_size=len(edges),
                         max_size=len(edges)))  # fmt: skip
    return gsw.Problem(n, draw(blocks(n)), edges, beta, draw(priors(n)))
