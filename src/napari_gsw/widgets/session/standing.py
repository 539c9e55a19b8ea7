"""How a segmentation stands: what Reset puts aside, and what undo brings back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from napari_gsw.widgets.layers.source import Position
from napari_gsw.widgets.session.array_run import ArrayRun
from napari_gsw.widgets.session.frame import Frame
from napari_gsw.widgets.session.plan import Plan, Segmentation


@dataclass(eq=False)
class Standing:
    """The plan of the last run, the chains, the newest frame of each, and the fineness that is shown."""

    plan: Plan
    array_runs: dict[Position, ArrayRun] = field(default_factory=dict)
    frames: dict[Position, Frame] = field(default_factory=dict)
    detail: float | None = None


@dataclass(eq=False)
class ResetStep:
    """A Reset: whoever undoes it exchanges how the segmentation stands now for how it stood, and back again.

    Attributes
    ----------
    owner : the session. aside : what is not on the screen.
    exchange : puts another standing on the screen, when no run is on, and hands over the one that was there.
    is_void : whether the segmentation is gone.
    """

    owner: object
    segmentation: Segmentation
    aside: Standing
    exchange: Callable[[ResetStep], None]
    is_void: Callable[[Segmentation], bool]
    heavy: bool = True

    @property
    def void(self) -> bool:
        return self.is_void(self.segmentation)

    def undo(self) -> None:
        self.exchange(self)

    def redo(self) -> None:
        self.exchange(self)
