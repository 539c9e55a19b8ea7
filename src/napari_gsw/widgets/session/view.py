"""What a person wants to see of a run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from napari_gsw.core.pipeline.watched_chain import Show


@dataclass(frozen=True)
class View:
    """What a frame has to show.

    Attributes
    ----------
    show : the current or another state.
    wanted : which of "boundary", "entropy", "regions" are on the screen.
    detail : fineness of the regions from 0 to 1, or None for those of what is shown.
    background : whether the background is painted too.
    ink : the one colour of all outlines, or "own" if each has its own.
    """

    show: Show = "current"
    wanted: frozenset[str] = frozenset()
    detail: float | None = None
    background: bool = True
    ink: str = "own"

    def record(self, regions: bool) -> dict[str, Any]:
        """For the provenance of an export: the state, and the fineness if it is of `regions`."""
        return {"show": self.show, "detail": self.detail if regions else None, "regions": regions}
