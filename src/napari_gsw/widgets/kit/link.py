"""Every tie between a widget and the rest of napari, and the one place that cuts them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class Link:
    """Connections to napari's events, and what else has to end, until it is cut.

    It is no Qt object, so that it can still do so when the widget has already been destroyed with its window.

    Attributes
    ----------
    alive : whether it has not been cut yet.
    """

    def __init__(self) -> None:
        self.alive = True
        self._connections: list[tuple[Any, Callable[..., Any]]] = []
        self._endings: list[Callable[[], Any]] = []

    def connect(self, signal: Any, slot: Callable[..., Any]) -> None:
        """Connect a slot to one of napari's events until the link is cut."""
        signal.connect(slot)
        self._connections.append((signal, slot))

    def at_end(self, ending: Callable[[], Any]) -> None:
        """Call something when the link is cut, in the reverse order of asking."""
        self._endings.append(ending)

    def cut(self, *_: object) -> None:
        """Let go of everything; more than once does no harm."""
        if not self.alive:
            return
        self.alive = False
        for signal, slot in self._connections:
            signal.disconnect(slot)
        self._connections.clear()
        for ending in reversed(self._endings):
            ending()
        self._endings.clear()
