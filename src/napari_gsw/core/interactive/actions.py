"""Log of what a user did to a run; the same actions on the same image give the same labels."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Concatenate, NamedTuple, ParamSpec, TypeVar

import numpy as np
from numpy.typing import NDArray

from napari_gsw.core.array_types import BoolArray, Int64Array
from napari_gsw.core.interactive.corrections import LabelChange
from napari_gsw.core.model.problem import Problem
from napari_gsw.core.posterior.object_edits import Edit, FixedPixels
from napari_gsw.core.settings import Settings
from napari_gsw.core.sites.blocked_labels import CompressedArray
from napari_gsw.core.sites.scribbles import Scribble

P = ParamSpec("P")
R = TypeVar("R")

# Number of corrections that can be undone.
MAX_UNDO = 100
# Splits after which values of the sites before them can still be mapped.
MAX_SITE_MAPS = 8
# Names of methods that may be replayed; a file may name no others.
METHODS: set[str] = set()
# Present names of methods that files of format 1 know under another name.
RENAMED_METHODS = {
    "retune": "update_settings",
    "adopt": "set_fixed_pixels",
    "go_back": "revert_to",
    "wake": "resume_after_correction",
}


class InitialState(NamedTuple):
    """What a run began with: the problem without a field, settings, and label images (or None).

    `closed` says whether the painted labels are the only ones; None leaves it to the settings.
    """

    problem: Problem
    settings: Settings
    seeds: Any
    init: Any
    closed: bool | None


@dataclass(frozen=True, eq=False)
class Action:
    """Call of a recorded method: the sweep after which it came, its name and arguments.

    `labels` (n,) are those on the screen before: in old files they depend on how often the run was drawn.
    """

    sweep: int
    method: str
    arguments: Mapping[str, Any]
    labels: NDArray[np.uint32]


@dataclass(frozen=True, eq=False)
class Correction:
    """Change of some sites that can be undone and redone.

    Labels and locks are those of its sites (s,).
    """

    sites: NDArray[np.int64]
    before: Int64Array
    after: Int64Array  # 0 frees a site
    locked_before: BoolArray
    locked_after: BoolArray
    at_rest: Int64Array | None = None  # (n,) labels before, if the run was at rest and has only settled since
    pixels: LabelChange | None = None  # of fixed pixels
    paint: LabelChange | None = None  # of painted pixels

    def split_sites(self, parents: Int64Array) -> Correction:
        """Return the same correction of split sites; `parents` (n,) has the site of each piece."""
        index = np.full(int(parents.max()) + 1, -1)
        index[self.sites] = np.arange(len(self.sites))
        rows = index[parents]
        sites = np.flatnonzero(rows >= 0)
        rows = rows[sites]
        return replace(
            self,
            sites=sites,
            before=self.before[rows],
            after=self.after[rows],
            locked_before=self.locked_before[rows],
            locked_after=self.locked_after[rows],
            at_rest=None if self.at_rest is None else self.at_rest[parents],
        )


@dataclass
class ActionLog:
    """All that was done to a run."""

    actions: list[Action] = field(default_factory=list)  # to be replayed
    steps: list[dict[str, Any]] = field(default_factory=list)  # runs, settings, splits, corrections; for the provenance
    done: list[Correction] = field(default_factory=list)  # can be undone, the newest last
    undone: list[Correction] = field(default_factory=list)  # can be redone
    # By the number of sites before a split (as text), (n,) the site then of each site now.
    site_parents: dict[str, Int64Array] = field(default_factory=dict)

    def copy(self) -> ActionLog:
        """Copy the lists, but not their entries."""
        return ActionLog(
            list(self.actions), list(self.steps), list(self.done), list(self.undone), dict(self.site_parents)
        )

    @property
    def corrections(self) -> list[dict[str, Any]]:
        """The steps that changed sites or locks."""
        return [step for step in self.steps if "locked" in step]

    def add_correction(self, correction: Correction) -> None:
        """Add a correction; what was undone before cannot be redone after it."""
        self.done.append(correction)
        del self.done[:-MAX_UNDO]
        self.undone.clear()

    def split_sites(self, parents: Int64Array, n_before: int) -> None:
        """Map everything to the pieces of split sites; `parents` (n,) has the site of each piece."""
        self.done = [correction.split_sites(parents) for correction in self.done]
        self.undone = [correction.split_sites(parents) for correction in self.undone]
        kept = list(self.site_parents.items())[-MAX_SITE_MAPS:]
        self.site_parents = {n: line[parents] for n, line in kept} | {str(n_before): parents}

    def forget_rest(self) -> None:
        """Let an undo revert the corrections so far only, without what followed from them."""
        self.done = [replace(correction, at_rest=None) for correction in self.done]


def recorded(method: Callable[Concatenate[Any, P], R]) -> Callable[Concatenate[Any, P], R]:
    """Log calls of a method of a run, unless it is refused or part of another action."""
    signature = inspect.signature(method)
    METHODS.add(method.__name__)

    @functools.wraps(method)
    def call(self: Any, *args: P.args, **kwargs: P.kwargs) -> R:
        if self.is_acting:
            return method(self, *args, **kwargs)
        sweep, labels = self.sweep, self.display_labels.astype(np.uint32)
        self.is_acting = True
        try:
            result = method(self, *args, **kwargs)
        finally:
            self.is_acting = False
        given = signature.bind(self, *args, **kwargs).arguments
        arguments = {name: pack_argument(value) for name, value in given.items() if name != "self"}
        self.log.actions.append(Action(sweep, method.__name__, arguments, labels))
        return result

    return call  # type: ignore[return-value]


def pack_argument(value: Any) -> Any:
    """Return an argument that takes little memory: without the site image, and with compressed label images."""
    packed: Any = value
    if isinstance(value, Scribble):
        packed = replace(value, site_image=None)  # type: ignore[arg-type]
    elif isinstance(value, Edit):
        packed = value._replace(shown=CompressedArray.of(value.shown))  # type: ignore[arg-type]
    elif isinstance(value, FixedPixels):  # in which the background is -1
        fixed: Any = CompressedArray.of(value.fixed + 1)
        packed = replace(value, fixed=fixed, names=CompressedArray.of(value.names))  # type: ignore[arg-type]
    elif isinstance(value, np.ndarray):
        packed = value.copy()
    return packed


def unpack_argument(packed: Any, problem: Problem) -> Any:
    """Return the argument that :func:`pack_argument` was given."""
    value: Any = packed
    if isinstance(packed, Scribble):
        return replace(packed, site_image=problem.site_image)
    if isinstance(packed, Edit):
        return packed._replace(shown=value.shown.array())
    if isinstance(packed, FixedPixels):
        return replace(packed, fixed=value.fixed.array().astype(np.int32) - 1, names=value.names.array())
    return value
