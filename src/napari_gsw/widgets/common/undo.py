"""The undo stack of a viewer, shared by all docks."""

from __future__ import annotations

from typing import Protocol
from weakref import WeakKeyDictionary

import napari
from qtpy.QtCore import QObject, Signal

from napari_gsw.core.interactive.actions import MAX_UNDO
from napari_gsw.widgets.common.dock_panel import Connections

# Steps that keep chains in memory which nothing else needs: each may take as much memory as a run.
MAX_KEPT_CHAINS = 3
# napari has Ctrl+Y for two or three dimensions, so that it is not for redo.
UNDO_KEY, REDO_KEY = "Control-Z", "Control-Shift-Z"


class UndoStep(Protocol):
    """An action that can be undone."""

    @property
    def owner(self) -> object:
        """The object that can undo the step; its steps go with it."""

    @property
    def keeps_chains(self) -> bool:
        """Whether the step keeps chains in memory."""

    @property
    def is_obsolete(self) -> bool:
        """Whether there is nothing to undo: the action was refused, or its object is gone."""

    def undo(self) -> None: ...

    def redo(self) -> None: ...


class UndoStack(QObject):  # type: ignore[misc]
    """Actions that can be undone and redone.

    Qt's QUndoStack cannot forget the steps of one owner, nor bound those that keep chains.
    """

    changed = Signal()

    def __init__(self) -> None:
        super().__init__()
        self._done: list[UndoStep] = []
        self._undone: list[UndoStep] = []
        self._n_docks = 0

    @property
    def can_undo(self) -> bool:
        return any(not step.is_obsolete for step in self._done)

    @property
    def can_redo(self) -> bool:
        return any(not step.is_obsolete for step in self._undone)

    def push(self, step: UndoStep) -> None:
        """Add a step that was done; nothing can be redone after it."""
        self._undone.clear()
        self._done.append(step)
        del self._done[:-MAX_UNDO]
        keeping = [index for index, step in enumerate(self._done) if step.keeps_chains]
        if len(keeping) > MAX_KEPT_CHAINS:  # earlier steps cannot be undone without the one that goes
            del self._done[: keeping[-MAX_KEPT_CHAINS - 1] + 1]
        self.changed.emit()

    def undo(self) -> None:
        """Undo the newest step that is not obsolete."""
        if (step := _pop_valid(self._done)) is not None:
            self._undone.append(step)
            step.undo()
        self.changed.emit()

    def redo(self) -> None:
        """Redo the step that was undone last."""
        if (step := _pop_valid(self._undone)) is not None:
            self._done.append(step)
            step.redo()
        self.changed.emit()

    def forget(self, owner: object) -> None:
        """Drop the steps of an owner, without a signal: Qt may have deleted a dock by then."""
        self._done = [step for step in self._done if step.owner is not owner]
        self._undone = [step for step in self._undone if step.owner is not owner]

    def bind_undo_keys(self, viewer: napari.Viewer, connections: Connections) -> None:
        """Bind the keys in a viewer while a dock is open; layers with an undo of their own come first."""
        self._n_docks += 1
        if self._n_docks == 1:
            viewer.bind_key(UNDO_KEY, lambda _: self.undo(), overwrite=True)
            viewer.bind_key(REDO_KEY, lambda _: self.redo(), overwrite=True)
        connections.on_close(lambda: self._release_keys(viewer))

    def _release_keys(self, viewer: napari.Viewer) -> None:
        self._n_docks -= 1
        if self._n_docks == 0:
            viewer.bind_key(UNDO_KEY, None)
            viewer.bind_key(REDO_KEY, None)


def _pop_valid(steps: list[UndoStep]) -> UndoStep | None:
    """Drop obsolete steps from the end of a list and pop the next one."""
    while steps:
        step = steps.pop()
        if not step.is_obsolete:
            return step
    return None


_STACKS: WeakKeyDictionary[napari.Viewer, UndoStack] = WeakKeyDictionary()


def get_undo_stack(viewer: napari.Viewer) -> UndoStack:
    """Return the undo stack of a viewer."""
    return _STACKS.setdefault(viewer, UndoStack())
