"""A correction of a chain as a step that can be undone: through the chain, as an order."""

from __future__ import annotations

from napari_gsw.core.pipeline.live_chain import LiveChain
from napari_gsw.widgets.layers.source import Position
from napari_gsw.widgets.session.canvas import Canvas
from napari_gsw.widgets.session.run import Order


class CorrectionStep:
    """One correction at a position.

    Attributes
    ----------
    owner : the corrections that it is one of. heavy : it keeps no chain alive that is not on the screen.
    """

    heavy = False

    def __init__(self, owner: object, canvas: Canvas, position: Position, live: LiveChain) -> None:
        self.owner, self._canvas, self._position, self._live = owner, canvas, position, live
        self._refused = False
        # Whether the chain has it among its corrections; None while it has not come to the chain.
        self._in_effect: bool | None = None

    @property
    def void(self) -> bool:
        seg = self._canvas.orders.segmentation
        array_run = None if seg is None else seg.array_runs.get(self._position)
        return self._refused or array_run is None or array_run.live is not self._live

    def first(self, order: Order) -> Order:
        """The order that makes the correction."""

        def act(live: LiveChain) -> None:
            before = len(live.marks)
            try:
                order(live)
            finally:  # it may have been refused, or have had nothing to do
                self._in_effect = len(live.marks) > before
                self._refused = not self._in_effect

        return act

    def undo(self) -> None:
        self._submit(self._take_back)

    def redo(self) -> None:
        self._submit(self._do_again)

    def _submit(self, order: Order) -> None:
        self._canvas.live_again()
        self._canvas.orders.submit(self._position, order)

    def _take_back(self, live: LiveChain) -> None:
        if self._in_effect:
            self._in_effect = not live.undo()

    def _do_again(self, live: LiveChain) -> None:
        if self._in_effect is False and not self._refused:
            self._in_effect = live.redo()
