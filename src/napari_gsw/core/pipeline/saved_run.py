"""Records as plain data: a tree for JSON, and larger arrays beside it. Nothing that is read is executed.

    null, true, 3, 0.5, "text"                            themselves
    {"float": "nan"}                                      a float that JSON does not know
    {"array": name}                                       an array beside the tree
    {"values": [...], "dtype": ..., "shape": [...]}       a small array
    {"bytes": name}                                       bytes, as an array beside the tree
    {"list": [...]}, {"tuple": [...]}, {"set": [...]}     their entries
    {"map": {...}}                                        a dictionary with text as keys
    {"record": kind, "fields": {...}}                     a record of a kind in the reader's table

A record is made by its own constructor, which checks the values.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from napari_gsw.core.array_types import Arrays, Float64Array
from napari_gsw.core.blocks.assembly import BlockContext
from napari_gsw.core.errors import InputError
from napari_gsw.core.features.codebook import Codebook
from napari_gsw.core.features.input_maps import InputMaps
from napari_gsw.core.graph.region_graph import RegionGraph
from napari_gsw.core.image.block_grid import Grid
from napari_gsw.core.image.foreground_signal import SignalScale
from napari_gsw.core.image.normalized_image import IntensityRange
from napari_gsw.core.likelihood.conjugate import DirichletMultinomial, Gaussian, Likelihood
from napari_gsw.core.model import priors
from napari_gsw.core.model.external_field import ExternalField, ForegroundField
from napari_gsw.core.model.problem import Problem, SharedProblem
from napari_gsw.core.sampler.chain import Chain
from napari_gsw.core.sampler.snapshot import resume_chain
from napari_gsw.core.sampler.state import N_TRACED
from napari_gsw.core.settings import Settings, upgrade_names
from napari_gsw.core.sites.blocked_labels import BlockedLabels, CompressedArray

# Arrays with at most so many numbers are written into the tree: an array beside it costs a file entry.
MAX_INLINE = 256
# Arrays hold numbers, never objects.
DTYPES = frozenset(
    ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64")
)
# Allowed characters of array names, between slashes; others are replaced.
NAME_LETTERS = "A-Za-z0-9_ .,=+-"
# No record of ours is nested deeper.
MAX_DEPTH = 60
# More than any image has. Tables of these lengths are allocated before anything else is checked.
MAX_SITES, MAX_WORDS = 2**27, 2**20


class Kind(NamedTuple):
    """Conversion of one type of records: to its stored fields by name, and back by keyword."""

    type: type
    fields: Callable[[Any], Mapping[str, Any]]
    make: Callable[..., Any]


def plain_kind(record: type, stored: Mapping[str, str] | None = None) -> Kind:
    """Make the kind of a dataclass or named tuple that is stored field by field; `stored` names those renamed since."""
    fields = dataclasses.fields(record) if dataclasses.is_dataclass(record) else ()
    names = [f.name for f in fields if f.init] or list(getattr(record, "_fields", ()))
    stored_names = {name: (stored or {}).get(name, name) for name in names}
    present_names = {old: name for name, old in stored_names.items()}

    def make(**values: Any) -> Any:
        return record(**{present_names.get(name, name): value for name, value in values.items()})

    return Kind(record, lambda value: {old: getattr(value, name) for name, old in stored_names.items()}, make)


def encode_record(value: Any, kinds: Mapping[str, Kind], arrays: dict[str, NDArray[Any]]) -> Any:
    """Convert a value to a tree; larger arrays are added to `arrays`, named by their path in the tree."""
    kind_names = {kind.type: name for name, kind in reversed(list(kinds.items()))}
    written: dict[int, str] = {}  # names of arrays by their identity, so that shared ones are written once

    def add_array(array: NDArray[Any], path: str) -> str:
        name = path or "_"
        while name in arrays:
            name += "_"
        arrays[name] = array
        return name

    def encode(value: Any, path: str) -> Any:
        def encode_items(items: Mapping[Any, Any]) -> dict[Any, Any]:
            return {key: encode(item, f"{path}/{_safe_name(str(key))}".lstrip("/")) for key, item in items.items()}

        def encode_all(items: Iterable[Any]) -> list[Any]:
            return list(encode_items(dict(enumerate(items))).values())

        match value:
            case np.generic():
                return encode(value.item(), path)
            case None | bool() | int() | str():
                return value
            case float():
                return value if math.isfinite(value) else {"float": str(value)}
            case bytes():
                return {"bytes": add_array(np.frombuffer(value, np.uint8), path)}
            case np.ndarray() if value.dtype.name not in DTYPES:
                raise InputError(f"cannot save {path or 'this'}: an array of {value.dtype} does not hold plain numbers")
            case np.ndarray() if value.size <= MAX_INLINE:
                flat = [encode(number, path) for number in value.ravel().tolist()]
                return {"values": flat, "dtype": value.dtype.name, "shape": list(value.shape)}
            case np.ndarray():
                if id(value) not in written:
                    written[id(value)] = add_array(value, path)  # this keeps the array, and so its identity, alive
                return {"array": written[id(value)]}
            case _ if type(value) in kind_names:
                name = kind_names[type(value)]
                return {"record": name, "fields": encode_items(kinds[name].fields(value))}
            case set() | frozenset():
                return {"set": encode_all(sorted(value))}
            case list():
                return {"list": encode_all(value)}
            case tuple():
                return {"tuple": encode_all(value)}
            case Mapping() if all(isinstance(key, str) for key in value):
                return {"map": encode_items(value)}
        raise InputError(f"cannot save {path or 'this'}: a {type(value).__name__} is not plain data")

    return encode(value, "")


def _safe_name(text: str) -> str:
    """Replace the characters that a file name may not have.

    >>> _safe_name("Zelle ä (1)"), _safe_name(".."), _safe_name("")
    ('Zelle _ _1_', '__', '_')
    """
    safe = re.sub(f"[^{NAME_LETTERS}]", "_", text)
    return safe if safe.strip(".") else "_" * max(1, len(safe))


def decode_record(tree: Any, kinds: Mapping[str, Kind], arrays: Arrays) -> Any:
    """Convert a tree with arrays beside it back to its value; an InputError says what is wrong with it."""
    texts: dict[str, bytes] = {}  # by name, so that shared bytes stay shared

    def decode(tree: Any, depth: int) -> Any:
        if depth > MAX_DEPTH:
            raise InputError(f"the stored data is nested deeper than {MAX_DEPTH} levels")
        if tree is None or isinstance(tree, (bool, int, str)) or (isinstance(tree, float) and math.isfinite(tree)):
            return tree

        def decode_all(items: Iterable[Any]) -> list[Any]:
            return [decode(item, depth + 1) for item in items]

        match tree:
            case {"float": "nan" | "inf" | "-inf" as text}:
                return float(text)
            case {"array": str(name)} if name in arrays:
                return arrays[name]
            case {"bytes": str(name)} if name in arrays and arrays[name].dtype == np.uint8:
                if name not in texts:
                    texts[name] = arrays[name].tobytes()
                return texts[name]
            case {"values": list(values), "dtype": str(dtype), "shape": list(shape)} if dtype in DTYPES:
                numbers = decode_all(values)
                if len(numbers) > MAX_INLINE or not all(isinstance(x, (bool, int, float)) for x in numbers):
                    raise InputError(f"a small stored array does not hold up to {MAX_INLINE} numbers")
                try:
                    # Writable like all arrays for kernels: for a read-only one every kernel would be compiled again.
                    return np.array(numbers, dtype=dtype).reshape([int(length) for length in shape])
                except (ValueError, TypeError, OverflowError):
                    raise InputError(f"a small stored array is not {dtype} of shape {tuple(shape)}") from None
            case {"list": list(values)}:
                return decode_all(values)
            case {"tuple": list(values)}:
                return tuple(decode_all(values))
            case {"set": list(values)}:
                try:
                    return frozenset(decode_all(values))
                except TypeError:
                    raise InputError("a stored set has entries that no set can have") from None
            case {"map": dict(values)}:
                return dict(zip(values, decode_all(values.values()), strict=True))
            case {"record": str(name), "fields": dict(values)} if name in kinds:
                fields = dict(zip(values, decode_all(values.values()), strict=True))
                try:
                    return kinds[name].make(**fields)
                except InputError:
                    raise
                except (TypeError, ValueError, IndexError, KeyError, AttributeError, OverflowError) as reason:
                    raise InputError(f"the stored {name} is damaged: {' '.join(str(reason).split())}") from None
        raise InputError(f"the stored data has an entry of an unknown form: {str(tree)[:60]}")

    return decode(tree, 0)


@dataclass(frozen=True, eq=False)
class SavedRun:
    """A run at one moment.

    Attributes
    ----------
    problem, settings, seed : what is sampled, and how.
    states : state of each chain; see :mod:`napari_gsw.core.sampler.snapshot`.
    traces : (sweeps, 3) float64 of each chain.
    target : sweep at which the run ends.
    steps : actions meanwhile, ready for JSON; see :func:`napari_gsw.core.pipeline.provenance.make_provenance`.
    looks : shape, type and hash of the image, ready for JSON.
    given : arrays of the user that went in, by name; of several images a list each.
    live : :class:`napari_gsw.core.interactive.saved_session.InteractiveState` of an interactive run, or None.
    """

    problem: Problem
    settings: Settings
    seed: int
    states: tuple[Arrays, ...]
    traces: tuple[Float64Array, ...]
    target: int
    steps: tuple[Mapping[str, Any], ...] = ()
    looks: Mapping[str, Any] = field(default_factory=dict)
    given: Mapping[str, Any] = field(default_factory=dict)
    live: Any = None

    def __post_init__(self) -> None:
        check_saved_problem(self.problem)
        if not isinstance(self.settings, Settings):
            raise InputError("a saved run needs its settings")
        if not self.states or len(self.states) != len(self.traces):
            raise InputError("a saved run needs a state and a trace of each chain")
        for trace in self.traces:
            check_array("a trace", trace, "f", (None, N_TRACED), finite=False)

    @property
    def sweep(self) -> int:
        """Number of sweeps done."""
        return len(self.traces[0])

    def resume_chains(self) -> list[Chain]:
        """Make the chains again from their states."""
        chains = [resume_chain(self.problem, state) for state in self.states]
        if any(chain.sweep != len(trace) for chain, trace in zip(chains, self.traces, strict=True)):
            raise InputError("the traces of the saved run do not belong to its chains")
        return chains


def attach_image(saved: SavedRun, image: Any) -> SavedRun:
    """Return the run with the image that its blocks are read from, which a file does not hold."""
    context = saved.problem.block_context
    if context is None or context.image is not None:
        return saved
    problem = dataclasses.replace(saved.problem, block_context=dataclasses.replace(context, image=image))
    return dataclasses.replace(saved, problem=saved.problem.lend(problem))


def check_array(what: str, array: Any, kinds: str, shape: Sequence[int | None], finite: bool = True) -> None:
    """Raise an InputError unless an array has a dtype of these kinds and this shape, where None is any length."""
    fits = isinstance(array, np.ndarray) and array.dtype.kind in kinds and array.ndim == len(shape)
    if not fits or any(want is not None and want != have for want, have in zip(shape, array.shape, strict=True)):
        raise InputError(f"{what} has the wrong type or shape")
    if finite and array.dtype.kind == "f" and not np.isfinite(array).all():
        raise InputError(f"{what} must be finite, not NaN or infinite")


def check_saved_problem(problem: Any) -> None:
    """Check what the constructor of a problem trusts its callers to get right."""
    if not isinstance(problem, Problem):
        raise InputError("a saved run needs its problem")
    n, m = problem.n, len(problem.edges)
    for block in problem.likelihoods:
        if not isinstance(block, Likelihood) or block.n != n:
            raise InputError(f"a likelihood does not have a row for each of {n} sites")
    if not isinstance(problem.settings, Settings | None):
        raise InputError("the settings of the problem are damaged")
    if (graph := problem.graph) is not None:
        if not isinstance(graph, RegionGraph):
            raise InputError("the graph is damaged")
        check_array("the edges of the graph", graph.edges, "i", (m, 2))
        for name in ("length", "contrast", "order"):
            check_array(f"{name} of the graph's edges", getattr(graph, name), "fi", (m,))
        check_array("the pixel counts of the graph", graph.pixels, "i", (n,))
        check_array("the means of the graph", graph.means, "f", (n, None))
        if graph.n != n or (m and (graph.edges.min() < 0 or graph.edges.max() >= n)):
            raise InputError("the graph belongs to other sites")
    images = problem.site_images if isinstance(problem, SharedProblem) else (problem.sites,)
    signals = (problem.signals or ()) if isinstance(problem, SharedProblem) else (problem.signal,)
    for sites, signal in zip_longest(images, signals):
        _check_sites(sites, n)
        if signal is not None:
            check_array("the signal", signal, "f", () if sites is None else sites.shape)


def _check_sites(sites: Any, n: int) -> None:
    """Raise an InputError unless these are sites 1..n of an image, 0 for none."""
    if sites is None:
        return
    tables: Sequence[Any] = [sites]
    if isinstance(sites, BlockedLabels):
        if not len(sites.pieces) == len(sites.numbers) == math.prod(sites.grid.counts):
            raise InputError("the site image lacks blocks")
        for index, piece, numbers in zip(sites.grid, sites.pieces, sites.numbers, strict=True):
            shape = tuple(part.stop - part.start for part in sites.grid.slices(index))
            check_array("a block of the site image", numbers, "i", (None,))
            if piece.shape != shape or piece.dtype not in ("<u2", "<u4") or int(piece.array().max()) >= len(numbers):
                raise InputError("a block of the site image is damaged")
        tables = sites.numbers
    else:
        check_array("the site image", sites, "i", (None,) * np.ndim(sites))
    low, high = min(int(t.min(initial=0)) for t in tables), max(int(t.max(initial=0)) for t in tables)
    if low < 0 or high > n:
        raise InputError(f"the site image has numbers from {low} to {high}, not 0 to {n}")


def _make_counts(data: NDArray[Any], indices: NDArray[Any], indptr: NDArray[Any], shape: list[int]) -> csr_array:
    rows, words = shape
    if not 0 < words <= MAX_WORDS:
        raise InputError(f"a histogram has {words} words; the maximum is {MAX_WORDS}")
    for name, array, length in (("data", data, None), ("indices", indices, len(data)), ("indptr", indptr, rows + 1)):
        check_array(f"{name} of a histogram", array, "i", (length,))
    if indptr[-1] != len(data):
        raise InputError("the rows of a histogram are damaged")
    counts = csr_array((data, indices, indptr), shape=(rows, words))
    counts.check_format(full_check=True)
    return counts


def _problem_kind(record: type[Problem]) -> Kind:
    """Make the kind of a problem, which is stored without the image that its blocks are read from."""

    def fields(problem: Problem) -> dict[str, Any]:
        values = {f.name: getattr(problem, f.name) for f in dataclasses.fields(problem)}
        if (context := problem.block_context) is not None:
            # A mask has done its work. Sites that were given are those of the problem.
            sites = None if context.sites is None else True
            values["block_context"] = dataclasses.replace(context, image=None, sites=sites, mask=None, maps=InputMaps())
        return values

    def make(**values: Any) -> Problem:
        if not isinstance(values.get("n"), int) or values["n"] > MAX_SITES:
            raise InputError(f"the problem needs a number of sites of at most {MAX_SITES}")
        context = values.get("block_context")
        if context is not None and context.sites is not None:
            values["block_context"] = dataclasses.replace(context, sites=values["sites"])
        return record(**values)

    return Kind(record, fields, make)


_PLAIN: Mapping[str, type] = {
    "run": SavedRun, "words": DirichletMultinomial, "channels": Gaussian, "graph": RegionGraph, "field": ExternalField,
    "map field": ForegroundField, "mosaic": BlockedLabels, "packed": CompressedArray, "grid": Grid,
    "blocks": BlockContext, "span": IntensityRange, "levels": SignalScale, "codebook": Codebook, "Potts": priors.Potts,
    "FiniteDirichlet": priors.FiniteDirichlet, "DirichletProcess": priors.DirichletProcess,
    "PitmanYor": priors.PitmanYor, "TablePrior": priors.TablePrior, "Truncated": priors.Truncated,
    "Exactly": priors.Exactly,
}  # fmt: skip

KINDS: Mapping[str, Kind] = {
    **{name: plain_kind(record) for name, record in _PLAIN.items()},
    "problem": _problem_kind(Problem),
    "shared problem": _problem_kind(SharedProblem),
    "counts": Kind(
        csr_array,
        lambda rows: {"data": rows.data, "indices": rows.indices, "indptr": rows.indptr, "shape": list(rows.shape)},
        _make_counts,
    ),
    "maps": Kind(InputMaps, lambda maps: {}, InputMaps),
    "settings": Kind(Settings, Settings.to_dict, lambda **values: Settings(**upgrade_names(values))),
}
