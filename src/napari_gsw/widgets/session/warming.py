"""Compilation beside an open dock."""

from __future__ import annotations

import threading
from contextlib import suppress

from qtpy.QtCore import QObject, QTimer, Signal

from napari_gsw.core.errors import InputError
from napari_gsw.core.pipeline.warm_up import BACKGROUND, compiling_stage
from napari_gsw.files.zarr_files import zarr_package
from napari_gsw.widgets.kit.link import Link

POLL_MS = 250


class Warming(QObject):  # type: ignore[misc]
    """Warms up from the opening of a dock, and signals `changed` when another kernel is compiled or it is over."""

    changed = Signal()

    def __init__(self, link: Link, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._stage = compiling_stage()
        self._timer = QTimer(self)
        self._timer.setInterval(POLL_MS)
        self._timer.timeout.connect(self._poll)
        BACKGROUND.begin()
        self._timer.start()
        link.stop_at_end(self._timer)
        link.at_end(BACKGROUND.end)

    def _poll(self) -> None:
        if (stage := compiling_stage()) != self._stage:
            self._stage = stage
            self.changed.emit()
        if not BACKGROUND.is_running:
            self._timer.stop()
            threading.Thread(target=_import_for_autosaves, name="napari-gsw imports").start()


def _import_for_autosaves() -> None:
    """Import zarr before the first autosave, which comes with the first labels and would take a second longer."""
    with suppress(ImportError, InputError):
        zarr_package()
