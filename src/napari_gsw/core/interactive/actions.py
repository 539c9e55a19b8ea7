"""What a person did to a chain, in order, so that it can be done again: with the same image it gives the same labels.

A deed is one call of a method of :class:`~napari_gsw.core.interactive.interactive_run.InteractiveRun`, with the sweep after which it
came and the numbers that were on the screen then: those depend on how often somebody looked.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Concatenate, NamedTuple, ParamSpec, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from napari_gsw.core.array_types import BoolArray, Int32Array, Int64Array
from napari_gsw.core.errors import InputError
from napari_gsw.core.interactive.corrections import PaintChange, PixelChange
from napari_gsw.core.model.problem import Problem
from napari_gsw.core.pipeline.saved_run import Kind, plain_kind
from napari_gsw.core.posterior.object_edits import Edit, FixedPixels
from napari_gsw.core.sites.blocked_labels import CompressedArray
from napari_gsw.core.sites.scribbles import Scribble

P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True, eq=False)
class Action:
    """One thing that a person did.

    Attributes
    ----------
    sweep : sweeps before it.
    what : name of the method; `arguments` what it was called with, by name, as plain data.
    numbers : (n,) uint32 what was on the screen before it.
    """

    sweep: int
    what: str
    arguments: Mapping[str, Any]
    numbers: NDArray[np.uint32]


class Steered(Protocol):
    """A chain that remembers what is done to it: :class:`~napari_gsw.core.interactive.interactive_run.WatchedChain`."""

    problem: Problem
    numbers: Int64Array
    deeds: list[Action]
    acting: bool

    @property
    def sweep(self) -> int:
        """Sweeps that are done."""

    def advance(self, most: int | None = None) -> None:
        """Go on by `most` sweeps at most."""


C = TypeVar("C", bound=Steered)
# Deeds that may be done again; a file may name no others.
METHODS: set[str] = set()


class PlainStroke(NamedTuple):
    """A stroke without the image of the sites, which is that of the chain."""

    sites: Int64Array
    numbers: Int64Array
    pixels: Int64Array
    labels: Int64Array


class PlainEdit(NamedTuple):
    """An edit of objects whose picture is packed."""

    what: str
    where: Int64Array
    values: Int32Array
    shown: CompressedArray
    objects: bool
    unfinished: frozenset[int]


class PlainPixels(NamedTuple):
    """Fixed pixels, packed; `fixed` is one more than it was, since it may be -1."""

    fixed: CompressedArray
    names: CompressedArray
    sites: NDArray[np.int8]
    unfinished: frozenset[int]


def recorded(method: Callable[Concatenate[C, P], R]) -> Callable[Concatenate[C, P], R]:
    """Let a chain remember a call of the method, if it was not refused and is not part of another deed."""
    signature = inspect.signature(method)
    METHODS.add(method.__name__)

    @functools.wraps(method)
    def act(self: C, *args: P.args, **kwargs: P.kwargs) -> R:
        if self.acting:
            return method(self, *args, **kwargs)
        sweep, numbers = self.sweep, self.numbers.astype(np.uint32)
        self.acting = True
        try:
            answer = method(self, *args, **kwargs)
        finally:
            self.acting = False
        given = signature.bind(self, *args, **kwargs).arguments
        arguments = {name: encode_argument(value) for name, value in given.items() if name != "self"}
        self.deeds.append(Action(sweep, method.__name__, arguments, numbers))
        return answer

    return act  # type: ignore[return-value]


def replay_actions(live: Steered, deeds: Sequence[Action], sweep: int) -> None:
    """Do to a chain at its start what was done to another one like it, and go on until so many sweeps are done."""
    for one in deeds:
        if one.what not in METHODS:
            raise InputError(f"nobody can do {one.what!r} to a chain")
        _go_to(live, one.sweep)
        if one.numbers.shape != live.numbers.shape:
            raise InputError("what was done belongs to other sites")
        if not np.array_equal(live.numbers, one.numbers):  # in files of versions in which they depended on looks
            live.numbers = one.numbers.astype(np.int64)
        getattr(live, one.what)(**{name: _decode_argument(value, live) for name, value in one.arguments.items()})
    _go_to(live, sweep)


def _go_to(live: Steered, sweep: int) -> None:
    while live.sweep < sweep:
        live.advance(sweep - live.sweep)


def encode_argument(value: Any) -> Any:
    """An argument as plain data, in little memory."""
    match value:
        case Scribble():
            return PlainStroke(value.sites, value.numbers, value.pixels, value.labels)
        case Edit():
            return PlainEdit(*value[:3], CompressedArray.of(value.shown), value.objects, value.unfinished)
        case FixedPixels():
            return PlainPixels(
                CompressedArray.of(value.fixed + 1), CompressedArray.of(value.names), value.sites, value.unfinished
            )
        case np.ndarray():
            return value.copy()
    return value


def _decode_argument(value: Any, live: Steered) -> Any:
    """The argument that :func:`plain` was given."""
    match value:
        case PlainStroke():
            return Scribble(live.problem.site_image, *value)
        case PlainEdit():
            return Edit(*value[:3], value.shown.array(), value.objects, value.unfinished)
        case PlainPixels():
            fixed = value.fixed.array().astype(np.int32) - 1
            return FixedPixels(fixed, value.names.array(), value.sites, value.unfinished)
    return value


KINDS: Mapping[str, Kind] = {
    "deed": plain_kind(Action),
    "stroke": plain_kind(PlainStroke),
    "edit": plain_kind(PlainEdit),
    "fixed": plain_kind(PlainPixels),
}

# So many corrections can be undone; older ones are forgotten.
MAX_UNDO = 100


@dataclass(frozen=True, eq=False)
class Correction:
    """What a correction did to some sites, so that it can be undone and done again.

    Attributes
    ----------
    sites : (s,) sites.
    before, after : (s,) their numbers; 0 in `after` leaves a site to the chain.
    held_before, held_after : (s,) whether they were locked.
    at_rest : (n,) the numbers of all sites before, if the chain was at rest and has only settled since; or None.
    pixels : what it did to the pixels of objects that are fixed, if anything.
    paint : what it did to the pixels that are painted, if anything.
    """

    sites: NDArray[np.int64]
    before: Int64Array
    after: Int64Array
    held_before: BoolArray
    held_after: BoolArray
    at_rest: Int64Array | None = None
    pixels: PixelChange | None = None
    paint: PaintChange | None = None

    def refined(self, parents: Int64Array) -> Correction:
        """The same correction after sites were cut; `parents` (n,) has the site of each piece."""
        row = np.full(int(parents.max()) + 1, -1)
        row[self.sites] = np.arange(len(self.sites))
        rows = row[parents]
        sites = np.flatnonzero(rows >= 0)
        rows = rows[sites]
        return replace(
            self,
            sites=sites,
            before=self.before[rows],
            after=self.after[rows],
            held_before=self.held_before[rows],
            held_after=self.held_after[rows],
            at_rest=None if self.at_rest is None else self.at_rest[parents],
        )


@dataclass
class Log:
    """Corrections in the order in which they were made: done, and undone ones that can be done again."""

    done: list[Correction] = field(default_factory=list)
    undone: list[Correction] = field(default_factory=list)

    def add(self, change: Correction) -> None:
        """A correction was made; nothing can be done again after it."""
        self.done.append(change)
        del self.done[:-MAX_UNDO]
        self.undone.clear()

    def refine(self, parents: Int64Array) -> None:
        """Sites were cut; `parents` (n,) has the site of each piece."""
        self.done = [change.refined(parents) for change in self.done]
        self.undone = [change.refined(parents) for change in self.undone]

    def go_on(self) -> None:
        """The chain goes on by itself: an undo later takes back what was painted, not what the chain has found."""
        self.done = [replace(change, at_rest=None) for change in self.done]
