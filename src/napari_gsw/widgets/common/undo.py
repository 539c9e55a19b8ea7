"""One list of what can be undone in a viewer, newest first, whichever dock did it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol
from weakref import WeakKeyDictionary

import napari
from qtpy.QtCore import QObject, Signal

from napari_gsw.core.interactive.actions import MAX_UNDO
from napari_gsw.widgets.common.dock_panel import Connections

# Steps that keep chains alive which nobody else needs, at most: each may take as much memory as a run.
MAX_KEPT_CHAINS = 3
# napari has Ctrl+Y for two or three dimensions, so that it is not for redo.
UNDO_KEY, REDO_KEY = "Control-Z", "Control-Shift-Z"


class UndoStep(Protocol):
    """Something that was done."""

    @property
    def owner(self) -> object:
        """Who can take it back; his steps go with him."""

    @property
    def keeps_chains(self) -> bool:
        """Whether it keeps chains alive."""

    @property
    def is_obsolete(self) -> bool:
        """Whether there is nothing to take back, since it was refused or what it was done to is gone."""

    def undo(self) -> None: ...

    def redo(self) -> None: ...


class UndoStack(QObject):  # type: ignore[misc]
    """What was done, and what was undone, each up to a bound.

    Signals
    -------
    changed : something can be undone or done again that could not before, or the reverse.
    """

    changed = Signal()

    def __init__(self) -> None:
        super().__init__()
        self._done: list[UndoStep] = []
        self._undone: list[UndoStep] = []
        self._docks = 0

    @property
    def can_undo(self) -> bool:
        return any(not step.is_obsolete for step in self._done)

    @property
    def can_redo(self) -> bool:
        return any(not step.is_obsolete for step in self._undone)

    def push(self, step: UndoStep) -> None:
        """Something was done; nothing can be done again after it."""
        self._undone.clear()
        self._done.append(step)
        del self._done[:-MAX_UNDO]
        keeps_chains = [place for place, one in enumerate(self._done) if one.keeps_chains]
        if len(keeps_chains) > MAX_KEPT_CHAINS:  # what came before it cannot be undone without it
            del self._done[: keeps_chains[-MAX_KEPT_CHAINS - 1] + 1]
        self.changed.emit()

    def undo(self) -> None:
        """Take back what was done last."""
        self._move(self._done, self._undone, lambda step: step.undo())

    def redo(self) -> None:
        """Do again what was undone last."""
        self._move(self._undone, self._done, lambda step: step.redo())

    def _move(self, here: list[UndoStep], there: list[UndoStep], act: Callable[[UndoStep], None]) -> None:
        while here:
            step = here.pop()
            if not step.is_obsolete:
                there.append(step)
                act(step)
                break
        self.changed.emit()

    def forget(self, owner: object) -> None:
        """The steps of an owner cannot be taken back any more; silent, since Qt may have destroyed a dock by then."""
        self._done = [step for step in self._done if step.owner is not owner]
        self._undone = [step for step in self._undone if step.owner is not owner]

    def bind_undo_keys(self, viewer: napari.Viewer, connections: Connections) -> None:
        """Listen to the keys of a viewer while a dock is open; layers with an undo of their own come first."""
        self._docks += 1
        if self._docks == 1:
            viewer.bind_key(UNDO_KEY, lambda _: self.undo(), overwrite=True)
            viewer.bind_key(REDO_KEY, lambda _: self.redo(), overwrite=True)
        connections.on_close(lambda: self._leave(viewer))

    def _leave(self, viewer: napari.Viewer) -> None:
        self._docks -= 1
        if self._docks == 0:
            viewer.bind_key(UNDO_KEY, None)
            viewer.bind_key(REDO_KEY, None)


_LISTS: WeakKeyDictionary[napari.Viewer, UndoStack] = WeakKeyDictionary()


def get_undo_stack(viewer: napari.Viewer) -> UndoStack:
    """The list of a viewer, the same for all of its docks."""
    return _LISTS.setdefault(viewer, UndoStack())
