"""All of a run at one moment as one record: what is sampled, how far each chain is, what went in.

A run that goes on from it goes on bit for bit as if it had never stopped (:func:`napari_gsw.resume`). Its arrays are
those of the run itself, which nobody writes to, so that taking such a record costs next to nothing.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from napari_gsw.core.arrays import Arrays, Floats
from napari_gsw.core.errors import InputError
from napari_gsw.core.evidence.codebook import Codebook
from napari_gsw.core.evidence.given_maps import NO_MAPS, GivenMaps
from napari_gsw.core.evidence.likelihoods import DirichletMultinomial, Gaussian, Likelihood
from napari_gsw.core.graph.region_graph import RegionGraph
from napari_gsw.core.image.block_grid import Grid
from napari_gsw.core.image.lazy import is_lazy
from napari_gsw.core.image.object_signal import SignalLevels
from napari_gsw.core.image.picture import Span
from napari_gsw.core.model import priors
from napari_gsw.core.model.block import BlockContext
from napari_gsw.core.model.field import Field
from napari_gsw.core.model.map_field import MapField
from napari_gsw.core.model.problem import Problem
from napari_gsw.core.model.shared_problem import SharedProblem
from napari_gsw.core.record_tree import Kind, plain_kind
from napari_gsw.core.sampler.records import TRACE
from napari_gsw.core.settings import Settings, present_names
from napari_gsw.core.sites.mosaic import Mosaic, PackedArray
from napari_gsw.core.sparse_rows import SparseRows

# More than any image has: for so many of them tables are made before anything else is known.
MOST_SITES, MOST_WORDS = 2**27, 2**20


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
    steps : what a person did meanwhile, ready for JSON; see :func:`napari_gsw.core.pipeline.provenance.provenance`.
    looks : shape, type and hash of the image, ready for JSON.
    given : arrays of the user's own that went in, by name; beside several images a list each.
    live : what a person saw of it and did to it (:class:`napari_gsw.core.pipeline.live_record.LiveRecord`), or None.
    """

    problem: Problem
    settings: Settings
    seed: int
    states: tuple[Arrays, ...]
    traces: tuple[Floats, ...]
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
            check_array("a trace", rows, "f", (None, TRACE), finite=False)

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
    if isinstance(sites, Mosaic):
        _check_mosaic(sites)
        least, most = (f(int(f(own)) for own in sites.numbers) for f in (min, max))
    else:
        check_array("the image of its sites", sites, "i", (None,) * np.ndim(sites))
        least, most = (int(sites.min()), int(sites.max())) if sites.size else (0, 0)
    if least < 0 or most > n:
        raise InputError(f"the image of its sites has numbers from {least} to {most}, not 0 to {n}")


def _check_mosaic(sites: Mosaic) -> None:
    if not len(sites.pieces) == len(sites.numbers) == math.prod(sites.grid.counts):
        raise InputError("the image of its sites lacks blocks")
    blocks = (sites.grid.inside(index) for index in sites.grid)
    for where, piece, numbers in zip(blocks, sites.pieces, sites.numbers, strict=True):
        shape = tuple(part.stop - part.start for part in where)
        check_array("a block of its sites", numbers, "i", (None,))
        if piece.shape != shape or piece.dtype not in ("<u2", "<u4") or int(piece.array().max()) >= len(numbers):
            raise InputError("a block of its sites is damaged")


# ---- the kinds of records that a saved run is made of


def _counts_fields(counts: SparseRows) -> dict[str, Any]:
    return {"data": counts.data, "indices": counts.indices, "indptr": counts.indptr, "shape": list(counts.shape)}


def _counts(data: NDArray[Any], indices: NDArray[Any], indptr: NDArray[Any], shape: list[int]) -> SparseRows:
    rows, words = shape
    if not 0 < words <= MOST_WORDS:
        raise InputError(f"a block of its evidence has {words} words")
    for name, array, length in (("numbers", data, None), ("words", indices, len(data)), ("rows", indptr, rows + 1)):
        check_array(f"the {name} of a block of its evidence", array, "i", (length,))
    if indptr[0] != 0 or indptr[-1] != len(data) or (np.diff(indptr) < 0).any():
        raise InputError("the rows of a block of its evidence are damaged")
    if len(indices) and not 0 <= indices.min() <= indices.max() < words:
        raise InputError("the words of a block of its evidence are damaged")
    return SparseRows(data, indices, indptr, words)


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
        if not isinstance(values.get("n"), int) or values["n"] > MOST_SITES:
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
    "counts": Kind(SparseRows, _counts_fields, _counts),
    "channels": plain_kind(Gaussian),
    "graph": plain_kind(RegionGraph),
    "field": plain_kind(Field),
    "map field": plain_kind(MapField),
    "maps": Kind(GivenMaps, lambda maps: {}, GivenMaps),
    "settings": Kind(Settings, Settings.to_dict, lambda **values: Settings(**present_names(values))),
    "mosaic": plain_kind(Mosaic),
    "packed": plain_kind(PackedArray),
    "grid": plain_kind(Grid),
    "blocks": plain_kind(BlockContext),
    "span": plain_kind(Span),
    "levels": plain_kind(SignalLevels),
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


def in_memory(given: Mapping[str, Any]) -> dict[str, Any]:
    """What a saved run keeps of the arrays that went in: those in memory. Lazy ones are files that stay what they are.

    A codebook is kept as it is.
    """
    return {name: value for name, value in given.items() if not is_lazy(value)}


def with_image(saved: SavedRun, image: Any) -> SavedRun:
    """The run with the image that its blocks are read from, which a file does not hold."""
    context = saved.problem.block_context
    if context is None or context.image is not None:
        return saved
    problem = dataclasses.replace(saved.problem, block_context=dataclasses.replace(context, image=image))
    return dataclasses.replace(saved, problem=saved.problem.lend(problem))
