"""Every tie between a widget and the rest of napari, and the one place that cuts them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

from qtpy.QtCore import QObject, QTimer


class Connection:
    """One of napari's events and the slot that hears it.

    napari is given a method of this plain object: to disconnect one of a Qt object, it looks at the object itself,
    which Qt may have deleted by then.
    """

    def __init__(self, signal: Any, slot: Callable[..., Any]) -> None:
        self.signal, self.slot = signal, slot
        signal.connect(self.hear)

    def hear(self, event: Any = None) -> None:
        owner = getattr(self.slot, "__self__", None)
        if not (isinstance(owner, QObject) and is_deleted(owner)):
            self.slot(event)

    def end(self) -> None:
        self.signal.disconnect(self.hear)


class Removals(Connection):
    """As a connection to the removal of layers; of a batch of them the slot hears once, at its end.

    Parameters
    ----------
    events : of the list of layers.
    """

    def __init__(self, events: Any, slot: Callable[..., Any]) -> None:
        self._batches = 0
        self._last: Any = None
        self._events = events
        events.begin_batch.connect(self.begin)
        events.end_batch.connect(self.end_batch)
        super().__init__(events.removed, slot)

    def hear(self, event: Any = None) -> None:
        if self._batches:
            self._last = event
        else:
            super().hear(event)

    def begin(self, event: Any = None) -> None:
        self._batches += 1

    def end_batch(self, event: Any = None) -> None:
        self._batches -= 1
        if not self._batches and self._last is not None:
            last, self._last = self._last, None
            super().hear(last)

    def end(self) -> None:
        super().end()
        self._events.begin_batch.disconnect(self.begin)
        self._events.end_batch.disconnect(self.end_batch)


class Link:
    """Connections to napari's events, and what else has to end, until it is cut.

    It is no Qt object, and touches none that is deleted, so that it can be cut in whatever order Qt deletes a window.

    Attributes
    ----------
    alive : whether it has not been cut yet.
    """

    def __init__(self) -> None:
        self.alive = True
        self._connections: list[Connection] = []
        self._endings = ExitStack()

    def connect(self, signal: Any, slot: Callable[..., Any]) -> None:
        """Connect a slot to one of napari's events until the link is cut. It is called with the event."""
        self._connections.append(Connection(signal, slot))

    def connect_layers(self, events: Any, slot: Callable[..., Any], *more: Any) -> None:
        """Connect a slot to the events of a list of layers: insertion, removal, another name, and `more` of them.

        Where many layers go at once, it is called when they are gone: what a form says need not follow each of them.
        """
        for signal in (events.inserted, events.renamed, *more):
            self.connect(signal, slot)
        self._connections.append(Removals(events, slot))

    def disconnect(self, signal: Any, slot: Callable[..., Any]) -> None:
        """Take one connection back; nothing happens if there is none."""
        for connection in [c for c in self._connections if c.signal is signal and c.slot == slot]:
            connection.end()
            self._connections.remove(connection)

    def at_end(self, ending: Callable[[], Any]) -> None:
        """Call something when the link is cut, in the reverse order of asking; it must not rely on Qt objects."""
        self._endings.callback(ending)

    def stop_at_end(self, timer: QTimer) -> None:
        """Stop a timer when the link is cut, if there still is one."""
        self.at_end(lambda: None if is_deleted(timer) else timer.stop())

    def cut(self, *_: object) -> None:
        """Let go of everything; more than once does no harm."""
        if not self.alive:
            return
        self.alive = False
        for connection in self._connections:
            connection.end()
        self._connections.clear()
        self._endings.close()  # all of them, even if one fails


def is_deleted(thing: QObject) -> bool:
    """Whether Qt has already deleted what a Python object stands for."""
    try:
        thing.objectName()
    except RuntimeError:
        return True
    return False
