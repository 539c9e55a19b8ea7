"""Kernels are compiled from the moment a dock opens, in the background, and it is said so."""

from __future__ import annotations

import threading
from contextlib import suppress

from qtpy.QtCore import QObject, QTimer, Signal

from napari_gsw.core.errors import InputError
from napari_gsw.core.pipeline.warm_up import BACKGROUND, compiling_stage
from napari_gsw.files.zarr_files import zarr_package
from napari_gsw.widgets.kit.link import Link

# How often to look how far it is, in milliseconds.
LOOK_EVERY = 250


class Warming(QObject):  # type: ignore[misc]
    """Begins with a dock, and says how far it is until all is compiled.

    Signals
    -------
    changed : another kernel is compiled, or it is over.
    """

    changed = Signal()

    def __init__(self, link: Link, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._stage = compiling_stage()
        self._timer = QTimer(self)
        self._timer.setInterval(LOOK_EVERY)
        self._timer.timeout.connect(self._look)
        BACKGROUND.begin()
        self._timer.start()
        link.stop_at_end(self._timer)
        link.at_end(BACKGROUND.end)

    def _look(self) -> None:
        stage = compiling_stage()
        if stage != self._stage:
            self._stage = stage
            self.changed.emit()
        if not BACKGROUND.going:
            self._timer.stop()
            threading.Thread(target=_import_for_autosaves, name="napari-gsw imports").start()


def _import_for_autosaves() -> None:
    """The first one is written when the first picture comes, which has enough to do without a second of imports."""
    with suppress(ImportError, InputError):
        zarr_package()
