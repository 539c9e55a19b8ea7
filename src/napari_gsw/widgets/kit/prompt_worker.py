"""Workers that begin at once."""

from __future__ import annotations

from napari.qt.threading import WorkerBase
from qtpy.QtCore import QThreadPool


def start_at_once(worker: WorkerBase) -> None:
    """As the worker's own start, which lets the event loop go round before: with a screen to paint that takes long."""
    workers, forget = getattr(worker, "_worker_set", None), getattr(worker, "_set_discard", None)
    finished = getattr(worker, "_finished", None)
    if workers is None or forget is None or finished is None:  # names of its own that it may change
        worker.start()
        return
    workers.add(worker)  # so that napari waits for it at the end
    finished.connect(forget)
    QThreadPool.globalInstance().start(worker)
