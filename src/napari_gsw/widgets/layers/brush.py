"""The brush on a labels layer: what a person paints, and undo and redo in place of napari's."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from napari.layers import Labels as NapariLabels
from qtpy.QtCore import QTimer

from napari_gsw.core.array_types import PointArray

# The cursor while the user changes the size of the brush, which paints nothing.
RESIZING = "circle_frozen"


class Brush:
    """Watches a layer until it is detached.

    napari's undo writes old pixels over labels that have changed since. While a layer is watched, its undo and redo
    are replaced; afterwards napari's history starts empty.

    It calls `painted` after a stroke, a fill or a polygon, with the path of the brush's centre, (p, ndim) in pixels;
    `confirmed` with the path of a stroke that has changed no pixel, of which napari gives no notice; `replaced` when
    the layer was given an array that `fits` refuses, others being taken as paint; and `undo` and `redo` in place of its
    own.
    """

    def __init__(
        self,
        layer: NapariLabels,
        painted: Callable[[PointArray], None],
        replaced: Callable[[], None],
        undo: Callable[[], None],
        redo: Callable[[], None],
        confirmed: Callable[[PointArray], None] = lambda path: None,
        fits: Callable[[NapariLabels], bool] = lambda layer: False,
    ) -> None:
        self.layer = layer
        self._painted, self._replaced, self._confirmed, self._fits = painted, replaced, confirmed, fits
        self._path: list[Any] = []
        self._has_changed = False
        self._is_pending = False
        self._is_attached = True
        layer.events.paint.connect(self._on_paint)
        layer.events.data.connect(self._on_data)
        layer.mouse_drag_callbacks.append(self._follow)
        layer.undo, layer.redo = undo, redo

    @property
    def is_busy(self) -> bool:
        """True if a stroke is under way or not delivered yet: nothing may overwrite it."""
        return self._is_pending or bool(getattr(self.layer, "_block_history", False))

    def _follow(self, layer: NapariLabels, event: Any) -> Iterator[None]:
        if layer.cursor == RESIZING:
            return
        self._path = [layer.world_to_data(event.position)]
        self._has_changed = False
        yield
        while event.type == "mouse_move":
            self._path.append(layer.world_to_data(event.position))
            yield
        if layer.mode == "paint":
            QTimer.singleShot(0, partial(self._confirm, np.asarray(self._path, float)))

    def _on_paint(self, event: Any) -> None:
        """Wait for the end of the event: napari may announce paint before it is on the layer."""
        self._deliver()  # a stroke before this one is on the layer by now
        self._is_pending = self._has_changed = True
        QTimer.singleShot(0, self._deliver)

    def _confirm(self, path: PointArray) -> None:
        if self._is_attached and not self._has_changed:  # napari has announced any paint by now
            self._confirmed(path)

    def _deliver(self) -> None:
        if not self._is_attached or not self._is_pending:
            return
        self._is_pending = False
        has_path = self.layer.mode in ("paint", "erase") and self._path
        path = np.asarray(self._path, float) if has_path else np.empty((0, self.layer.ndim))
        self._path = []
        self._painted(path)

    def _on_data(self, event: Any) -> None:
        if self._fits(self.layer):
            self._painted(np.empty((0, self.layer.ndim)))
        else:
            self._replaced()

    def detach(self) -> None:
        self._is_attached = False
        self.layer.events.paint.disconnect(self._on_paint)
        self.layer.events.data.disconnect(self._on_data)
        if self._follow in self.layer.mouse_drag_callbacks:
            self.layer.mouse_drag_callbacks.remove(self._follow)
        for name in ("undo", "redo"):
            self.layer.__dict__.pop(name, None)
        reset = getattr(self.layer, "_reset_history", None)
        if reset is not None:
            reset()
