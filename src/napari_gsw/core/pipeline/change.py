"""Corrections that a person has made to a chain, so that they can be undone and done again."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from napari_gsw.core.arrays import Longs, Mask
from napari_gsw.core.pipeline.edit_clamps import PixelChange
from napari_gsw.core.pipeline.kept_paint import PaintChange

# So many corrections can be undone; older ones are forgotten.
MOST_UNDO = 100


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
    paint : what it did to the pixels that are painted, if anything.
    """

    sites: NDArray[np.int64]
    before: Longs
    after: Longs
    held_before: Mask
    held_after: Mask
    at_rest: Longs | None = None
    pixels: PixelChange | None = None
    paint: PaintChange | None = None

    def refined(self, parents: Longs) -> Change:
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

    done: list[Change] = field(default_factory=list)
    undone: list[Change] = field(default_factory=list)

    def add(self, change: Change) -> None:
        """A correction was made; nothing can be done again after it."""
        self.done.append(change)
        del self.done[:-MOST_UNDO]
        self.undone.clear()

    def refine(self, parents: Longs) -> None:
        """Sites were cut; `parents` (n,) has the site of each piece."""
        self.done = [change.refined(parents) for change in self.done]
        self.undone = [change.refined(parents) for change in self.undone]

    def go_on(self) -> None:
        """The chain goes on by itself: an undo later takes back what was painted, not what the chain has found."""
        self.done = [replace(change, at_rest=None) for change in self.done]
