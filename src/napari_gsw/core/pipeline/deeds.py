"""What a person did to a chain, in order, so that it can be done again: with the same image it gives the same labels.

A deed is one call of a method of :class:`~napari_gsw.core.pipeline.live_chain.LiveChain`, with the sweep after which it
came and the numbers that were on the screen then: those depend on how often somebody looked.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Concatenate, NamedTuple, ParamSpec, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from napari_gsw.core.arrays import Ints, Longs
from napari_gsw.core.errors import InputError
from napari_gsw.core.model.problem import Problem
from napari_gsw.core.posterior.held_pixels import HeldPixels
from napari_gsw.core.posterior.object_edits import Edit
from napari_gsw.core.record_tree import Kind, plain_kind
from napari_gsw.core.sites.mosaic import PackedArray
from napari_gsw.core.sites.strokes import Stroke

P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True, eq=False)
class Deed:
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
    """A chain that remembers what is done to it: :class:`~napari_gsw.core.pipeline.watched_chain.WatchedChain`."""

    problem: Problem
    numbers: Longs
    deeds: list[Deed]
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

    sites: Longs
    numbers: Longs
    pixels: Longs
    labels: Longs


class PlainEdit(NamedTuple):
    """An edit of objects whose picture is packed."""

    what: str
    where: Longs
    values: Ints
    shown: PackedArray
    objects: bool
    unfinished: frozenset[int]


class PlainPixels(NamedTuple):
    """Fixed pixels, packed; `fixed` is one more than it was, since it may be -1."""

    fixed: PackedArray
    names: PackedArray
    sites: NDArray[np.int8]
    unfinished: frozenset[int]


def deed(method: Callable[Concatenate[C, P], R]) -> Callable[Concatenate[C, P], R]:
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
        arguments = {name: plain(value) for name, value in given.items() if name != "self"}
        self.deeds.append(Deed(sweep, method.__name__, arguments, numbers))
        return answer

    return act  # type: ignore[return-value]


def do_again(live: Steered, deeds: Sequence[Deed], sweep: int) -> None:
    """Do to a chain at its start what was done to another one like it, and go on until so many sweeps are done."""
    for one in deeds:
        if one.what not in METHODS:
            raise InputError(f"nobody can do {one.what!r} to a chain")
        _go_to(live, one.sweep)
        if one.numbers.shape != live.numbers.shape:
            raise InputError("what was done belongs to other sites")
        if not np.array_equal(live.numbers, one.numbers):  # in files of versions in which they depended on looks
            live.numbers = one.numbers.astype(np.int64)
        getattr(live, one.what)(**{name: _revived(value, live) for name, value in one.arguments.items()})
    _go_to(live, sweep)


def _go_to(live: Steered, sweep: int) -> None:
    while live.sweep < sweep:
        live.advance(sweep - live.sweep)


def plain(value: Any) -> Any:
    """An argument as plain data, in little memory."""
    match value:
        case Stroke():
            return PlainStroke(value.sites, value.numbers, value.pixels, value.labels)
        case Edit():
            return PlainEdit(*value[:3], PackedArray.of(value.shown), value.objects, value.unfinished)
        case HeldPixels():
            return PlainPixels(
                PackedArray.of(value.fixed + 1), PackedArray.of(value.names), value.sites, value.unfinished
            )
        case np.ndarray():
            return value.copy()
    return value


def _revived(value: Any, live: Steered) -> Any:
    """The argument that :func:`plain` was given."""
    match value:
        case PlainStroke():
            return Stroke(live.problem.site_image, *value)
        case PlainEdit():
            return Edit(*value[:3], value.shown.array(), value.objects, value.unfinished)
        case PlainPixels():
            fixed = value.fixed.array().astype(np.int32) - 1
            return HeldPixels(fixed, value.names.array(), value.sites, value.unfinished)
    return value


KINDS: Mapping[str, Kind] = {
    "deed": plain_kind(Deed),
    "stroke": plain_kind(PlainStroke),
    "edit": plain_kind(PlainEdit),
    "fixed": plain_kind(PlainPixels),
}
