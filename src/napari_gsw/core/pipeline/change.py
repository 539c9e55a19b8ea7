"""Corrections that a person has made to a chain, so that they can be undone and done again."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from napari_gsw.core.arrays import Longs, Mask
from napari_gsw.core.pipeline.edit_clamps import PixelChange


@dataclass(frozen=True, eq=False)
class Change:
    """What a correction did to some sites, so that it can be undone and done again.

    Attributes
    ----------
    sites : (s,) sites.
    before, after : (s,) their numbers; 0 in `after` leaves a site to the chain.
    held_before, held_after : (s,) whether they were locked.
    at_rest : (n,) the numbers of all sites before, if the chain was at rest and has only settled since; or None.
    pixels : what it did to the pixels of objects that are fixed, if anything.
    """

    sites: NDArray[np.int64]
    before: Longs
    after: Longs
    held_before: Mask
    held_after: Mask
    at_rest: Longs | None = None
    pixels: PixelChange | None = None


@dataclass
class Log:
    """Corrections in the order in which they were made: done, and undone ones that can be done again."""

    done: list[Change] = field(default_factory=list)
    undone: list[Change] = field(default_factory=list)

    def go_on(self) -> None:
        """The chain goes on by itself: an undo later takes back what was painted, not what the chain has found."""
        self.done = [replace(change, at_rest=None) for change in self.done]
