"""The undo stack of a viewer, shared by all docks."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import napari
from qtpy.QtCore import QObject, Signal

from napari_gsw.core.interactive.action_log import MAX_UNDO
from napari_gsw.widgets.common.dock_panel import Connections

# Steps that keep chains in memory which nothing else needs: each may take as much memory as a run.
MAX_KEPT_CHAINS = 3
# napari has Ctrl+Y for two or three dimensions, so that it is not for redo.
UNDO_KEY, REDO_KEY = "Control-Z", "Control-Shift-Z"


class UndoStep(NamedTuple):
    """An action that can be undone. Other classes with these attributes are steps, too."""

    owner: object  # its steps go with it
    undo: Callable[[], object]
    redo: Callable[[], object]
    keeps_chains: bool = False  # in memory
    is_obsolete: bool = False  # nothing to undo: the action was refused, or its object is gone


class UndoStack(QObject):  # type: ignore[misc]
    """Actions that can be undone and redone.

    Qt's QUndoStack cannot forget the steps of one owner, nor bound those that keep chains.
    """

    changed = Signal()

    def __init__(self) -> None:
        super().__init__()
        self._done: list[Any] = []
        self._undone: list[Any] = []
        self._n_docks = 0

    @property
    def can_undo(self) -> bool:
        return not all(step.is_obsolete for step in self._done)

    @property
    def can_redo(self) -> bool:
        return not all(step.is_obsolete for step in self._undone)

    def push(self, step: Any) -> None:
        """Add a step that was done; nothing can be redone after it."""
        self._undone.clear()
        self._done.append(step)
        del self._done[:-MAX_UNDO]
        keeping = [index for index, step in enumerate(self._done) if step.keeps_chains]
        if len(keeping) > MAX_KEPT_CHAINS:  # earlier steps cannot be undone without the one that goes
            del self._done[: keeping[-MAX_KEPT_CHAINS - 1] + 1]
        self.changed.emit()

    def undo(self) -> None:
        self._move(self._done, self._undone, "undo")

    def redo(self) -> None:
        self._move(self._undone, self._done, "redo")

    def _move(self, steps: list[Any], others: list[Any], action: str) -> None:
        while steps and steps[-1].is_obsolete:
            steps.pop()
        if steps:
            step = steps.pop()
            others.append(step)
            getattr(step, action)()
        self.changed.emit()

    def forget(self, owner: object) -> None:
        """Drop the steps of an owner, without a signal: Qt may have deleted a dock by then."""
        for steps in (self._done, self._undone):
            steps[:] = [step for step in steps if step.owner is not owner]

    def bind_undo_keys(self, viewer: napari.Viewer, connections: Connections) -> None:
        """Bind the keys in a viewer while a dock is open; layers with an undo of their own come first."""

        def count_docks(change: int) -> None:
            self._n_docks += change
            for key, action in ((UNDO_KEY, self.undo), (REDO_KEY, self.redo)):
                act = (lambda _, action=action: action()) if self._n_docks else None
                viewer.bind_key(key, act, overwrite=True)

        count_docks(1)
        connections.on_close(partial(count_docks, -1))


_STACKS: WeakKeyDictionary[napari.Viewer, UndoStack] = WeakKeyDictionary()


def get_undo_stack(viewer: napari.Viewer) -> UndoStack:
    """Return the undo stack of a viewer."""
    return _STACKS.setdefault(viewer, UndoStack())
