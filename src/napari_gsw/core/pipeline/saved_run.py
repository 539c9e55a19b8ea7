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
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from napari_gsw.core.array_types import Arrays, Float64Array
from napari_gsw.core.blocks.block import BlockContext
from napari_gsw.core.errors import InputError
from napari_gsw.core.features.codebook import Codebook
from napari_gsw.core.features.input_maps import NO_MAPS, InputMaps
from napari_gsw.core.graph.region_graph import RegionGraph
from napari_gsw.core.image.block_grid import Grid
from napari_gsw.core.image.foreground_signal import SignalScale
from napari_gsw.core.image.lazy import is_lazy
from napari_gsw.core.image.normalized_image import IntensityRange
from napari_gsw.core.likelihood.conjugate import DirichletMultinomial, Gaussian, Likelihood
from napari_gsw.core.model import priors
from napari_gsw.core.model.external_field import ExternalField, ForegroundField
from napari_gsw.core.model.problem import Problem, SharedProblem
from napari_gsw.core.sampler.state import N_TRACED
from napari_gsw.core.settings import Settings, upgrade_names
from napari_gsw.core.sites.blocked_labels import BlockedLabels, CompressedArray

# Arrays of at most so many numbers are written into the tree: each one beside it costs an entry of its own.
MAX_INLINE = 256
# What arrays may hold: numbers, no objects.
DTYPES = frozenset(
    ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64")
)
# What the name of an array is made of, between slashes; other letters are replaced.
NAME_LETTERS = "A-Za-z0-9_ .,=+-"
# Deeper than any record of ours; what is deeper was not written by us.
MAX_DEPTH = 60


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


def plain_kind(record: type, stored: Mapping[str, str] | None = None) -> Kind:
    """Make the kind of a dataclass or named tuple that is stored field by field.

    Parameters
    ----------
    record : its type.
    stored : names in the file of the fields that have another name there, by their names in `record`.
    """
    names = (
        tuple(f.name for f in dataclasses.fields(record) if f.init)
        if dataclasses.is_dataclass(record)
        else tuple(record._fields)  # type: ignore[attr-defined]
    )
    to_stored = stored or {}
    from_stored = {old: new for new, old in to_stored.items()}

    def make(**values: Any) -> Any:
        return record(**{from_stored.get(name, name): value for name, value in values.items()})

    return Kind(record, lambda value: {to_stored.get(name, name): getattr(value, name) for name in names}, make)


def encode_record(
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
        return encode_record(one, kinds, arrays, f"{path}/{_plain(str(name))}".lstrip("/"), known)

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
    if array.size > MAX_INLINE:
        if id(array) not in names:
            name = names[id(array)] = _free_name(path, arrays)
            arrays[name] = array  # which keeps it alive, and so its identity its own
        return {"array": names[id(array)]}
    flat = [encode_record(one, {}, arrays, path) for one in array.ravel().tolist()]
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


def decode_record(
    tree: Any, kinds: Mapping[str, Kind], arrays: Arrays, depth: int = 0, texts: dict[str, bytes] | None = None
) -> Any:
    """The value of a tree, or an InputError that says what is wrong with it.

    Parameters
    ----------
    tree, kinds : see :func:`described`. arrays : those beside the tree, by name.
    texts : the bytes that were made of some of them, which are the same wherever they are named.
    """
    known = {} if texts is None else texts
    if depth > MAX_DEPTH:
        raise InputError("it is nested deeper than anything that is saved")
    if tree is None or isinstance(tree, (bool, int, str)) or (isinstance(tree, float) and math.isfinite(tree)):
        return tree

    def inside(one: Any) -> Any:
        return decode_record(one, kinds, arrays, depth + 1, known)

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
    if len(values) > MAX_INLINE or not all(isinstance(x, (bool, int, float)) for x in values):
        raise InputError("a small array in it does not hold a few numbers")
    try:
        # Writable, as all arrays that go to kernels are: for a read-only one every kernel would be compiled again.
        return np.array(values, dtype=dtype).reshape([int(length) for length in shape])
    except (ValueError, TypeError, OverflowError):
        raise InputError(f"a small array in it is not {dtype} of shape {tuple(shape)}") from None


# More than any image has: for so many of them tables are made before anything else is known.
MAX_SITES, MAX_WORDS = 2**27, 2**20


@dataclass(frozen=True, eq=False)
class SavedRun:
    """A run at one moment.

    Attributes
    ----------
    problem : what is sampled.
    settings, seed : how.
    states : the state of each chain; see :mod:`napari_gsw.core.sampler.snapshot`.
    traces : (sweeps, 3) float64 of each chain.
    target : sweep at which it is to end.
    steps : what a person did meanwhile, ready for JSON; see :func:`napari_gsw.core.pipeline.provenance.make_provenance`.
    looks : shape, type and hash of the image, ready for JSON.
    given : arrays of the user's own that went in, by name; beside several images a list each.
    live : what a person saw of it and did to it (:class:`napari_gsw.core.interactive.interactive_state.InteractiveState`), or None.
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
            raise InputError("a saved run needs a state and a trace of each of its chains")
        for rows in self.traces:
            check_array("a trace", rows, "f", (None, N_TRACED), finite=False)

    @property
    def sweep(self) -> int:
        """Sweeps that are done."""
        return len(self.traces[0])


def check_array(what: str, array: Any, kinds: str, shape: Sequence[int | None], finite: bool = True) -> None:
    """Raise an InputError unless an array has a type of these kinds and this shape, where None is any length."""
    fits = isinstance(array, np.ndarray) and array.dtype.kind in kinds and array.ndim == len(shape)
    if not fits or any(want is not None and want != have for want, have in zip(shape, array.shape, strict=True)):
        raise InputError(f"{what} has another type or shape than it must have")
    if finite and array.dtype.kind == "f" and not np.isfinite(array).all():
        raise InputError(f"{what} must be finite, not NaN or infinite")


def check_saved_problem(problem: Any) -> None:
    """What the constructor of a problem leaves to those who make one from an image."""
    if not isinstance(problem, Problem):
        raise InputError("a saved run needs what is sampled")
    n, m = problem.n, len(problem.edges)
    for block in problem.likelihoods:
        if not isinstance(block, Likelihood) or block.n != n:
            raise InputError(f"a block of its evidence does not have a row for each of {n} sites")
    if problem.settings is not None and not isinstance(problem.settings, Settings):
        raise InputError("what is sampled has settings that are none")
    images = problem.site_images if isinstance(problem, SharedProblem) else (problem.sites,)
    for sites in images:
        _check_sites(sites, n)
    if (graph := problem.graph) is not None:
        if not isinstance(graph, RegionGraph):
            raise InputError("its graph is none")
        check_array("the edges of its graph", graph.edges, "i", (m, 2))
        for name in ("length", "contrast", "order"):
            check_array(f"the {name} of its boundaries", getattr(graph, name), "fi", (m,))
        check_array("the pixels of its sites", graph.pixels, "i", (n,))
        check_array("the means of its sites", graph.means, "f", (n, None))
        if graph.n != n or (m and (graph.edges.min() < 0 or graph.edges.max() >= n)):
            raise InputError("its graph belongs to other sites")
    signals = (problem.signals or ()) if isinstance(problem, SharedProblem) else (problem.signal,)
    for sites, signal in zip(images, signals, strict=False):
        if signal is not None:
            check_array("its signal", signal, "f", () if sites is None else sites.shape)


def _check_sites(sites: Any, n: int) -> None:
    """Raise an InputError unless these are sites 1..n of an image, 0 where there is none."""
    if sites is None:
        return
    if isinstance(sites, BlockedLabels):
        _check_mosaic(sites)
        least, most = (f(int(f(own)) for own in sites.numbers) for f in (min, max))
    else:
        check_array("the image of its sites", sites, "i", (None,) * np.ndim(sites))
        least, most = (int(sites.min()), int(sites.max())) if sites.size else (0, 0)
    if least < 0 or most > n:
        raise InputError(f"the image of its sites has numbers from {least} to {most}, not 0 to {n}")


def _check_mosaic(sites: BlockedLabels) -> None:
    if not len(sites.pieces) == len(sites.numbers) == math.prod(sites.grid.counts):
        raise InputError("the image of its sites lacks blocks")
    blocks = (sites.grid.inside(index) for index in sites.grid)
    for where, piece, numbers in zip(blocks, sites.pieces, sites.numbers, strict=True):
        shape = tuple(part.stop - part.start for part in where)
        check_array("a block of its sites", numbers, "i", (None,))
        if piece.shape != shape or piece.dtype not in ("<u2", "<u4") or int(piece.array().max()) >= len(numbers):
            raise InputError("a block of its sites is damaged")


# ---- the kinds of records that a saved run is made of


def _counts_fields(counts: csr_array) -> dict[str, Any]:
    return {"data": counts.data, "indices": counts.indices, "indptr": counts.indptr, "shape": list(counts.shape)}


def _counts(data: NDArray[Any], indices: NDArray[Any], indptr: NDArray[Any], shape: list[int]) -> csr_array:
    rows, words = shape
    if not 0 < words <= MAX_WORDS:
        raise InputError(f"a block of its evidence has {words} words")
    for name, array, length in (("numbers", data, None), ("words", indices, len(data)), ("rows", indptr, rows + 1)):
        check_array(f"the {name} of a block of its evidence", array, "i", (length,))
    if indptr[0] != 0 or indptr[-1] != len(data) or (np.diff(indptr) < 0).any():
        raise InputError("the rows of a block of its evidence are damaged")
    if len(indices) and not 0 <= indices.min() <= indices.max() < words:
        raise InputError("the words of a block of its evidence are damaged")
    return csr_array((data, indices, indptr), shape=(rows, words))


def _problem_kind(record: type[Problem]) -> Kind:
    """A problem without the image that its blocks are read from."""

    def fields(problem: Problem) -> dict[str, Any]:
        values = {f.name: getattr(problem, f.name) for f in dataclasses.fields(problem)}
        context = values["block_context"]
        if context is not None:
            # A mask has done its work. Sites that were given are those of the problem.
            sites = None if context.sites is None else True
            values["block_context"] = dataclasses.replace(context, image=None, sites=sites, mask=None, maps=NO_MAPS)
        return values

    def make(**values: Any) -> Problem:
        if not isinstance(values.get("n"), int) or values["n"] > MAX_SITES:
            raise InputError("the number of its sites is none")
        context = values.get("block_context")
        if context is not None and context.sites is not None:
            values["block_context"] = dataclasses.replace(context, sites=values["sites"])
        return record(**values)

    return Kind(record, fields, make)


KINDS: Mapping[str, Kind] = {
    "run": plain_kind(SavedRun),
    "problem": _problem_kind(Problem),
    "shared problem": _problem_kind(SharedProblem),
    "words": plain_kind(DirichletMultinomial),
    "counts": Kind(csr_array, _counts_fields, _counts),
    "channels": plain_kind(Gaussian),
    "graph": plain_kind(RegionGraph),
    "field": plain_kind(ExternalField),
    "map field": plain_kind(ForegroundField),
    "maps": Kind(InputMaps, lambda maps: {}, InputMaps),
    "settings": Kind(Settings, Settings.to_dict, lambda **values: Settings(**upgrade_names(values))),
    "mosaic": plain_kind(BlockedLabels),
    "packed": plain_kind(CompressedArray),
    "grid": plain_kind(Grid),
    "blocks": plain_kind(BlockContext),
    "span": plain_kind(IntensityRange),
    "levels": plain_kind(SignalScale),
    "codebook": plain_kind(Codebook),
} | {
    kind.__name__: plain_kind(kind)
    for kind in (
        priors.Potts,
        priors.FiniteDirichlet,
        priors.DirichletProcess,
        priors.PitmanYor,
        priors.TablePrior,
        priors.Truncated,
        priors.Exactly,
    )
}


def drop_lazy_arrays(given: Mapping[str, Any]) -> dict[str, Any]:
    """What a saved run keeps of the arrays that went in: those in memory. Lazy ones are files that stay what they are.

    A codebook is kept as it is.
    """
    return {name: value for name, value in given.items() if not is_lazy(value)}


def attach_image(saved: SavedRun, image: Any) -> SavedRun:
    """The run with the image that its blocks are read from, which a file does not hold."""
    context = saved.problem.block_context
    if context is None or context.image is not None:
        return saved
    problem = dataclasses.replace(saved.problem, block_context=dataclasses.replace(context, image=image))
    return dataclasses.replace(saved, problem=saved.problem.lend(problem))
