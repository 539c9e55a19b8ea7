"""Background workers of napari that release what they hold when they are done."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Generator
from contextlib import suppress
from functools import partial
from typing import Any
from weakref import WeakMethod

from napari.qt.threading import GeneratorWorker, WorkerBase, create_worker
from qtpy.QtCore import QTimer

# Milliseconds after its end in which all slots of a worker have been called.
RELEASE_DELAY = 1000
SIGNALS = ("started", "finished", "returned", "errored", "warned", "yielded", "paused", "resumed", "aborted")


class EndingWorker(GeneratorWorker):  # type: ignore[misc]
    """Worker whose generator comes to its end when napari closes the window; napari's own stops where it is."""

    end: WeakMethod[Callable[[], object]] | None = None

    def quit(self) -> None:
        end = None if self.end is None else self.end()
        (end or super().quit)()


def make_worker(function: Callable[..., Any], *args: Any, end: Callable[[], object] | None = None) -> WorkerBase:
    """Make a worker of napari that has not started; a generator function becomes a worker that yields.

    napari lists every worker as long as its window is open, and with it all that its function and its slots hold: a
    chain, an image, a closed panel. So the function is dropped when the worker starts, and the slots when it is done.
    The method `end` brings a generator to its end when it has to quit.
    """
    work = [partial(function, *args)]

    def call() -> Any:
        return work.pop()()

    def generate() -> Generator[Any, Any, Any]:
        return (yield from work.pop()())

    if inspect.isgeneratorfunction(function):
        worker = create_worker(generate, _start_thread=False, _worker_class=EndingWorker)
        worker.end = None if end is None else WeakMethod(end)
    else:
        worker = create_worker(call, _start_thread=False)
    worker.finished.connect(lambda: QTimer.singleShot(RELEASE_DELAY, partial(_disconnect_all, worker)))
    return worker


def run_in_thread(
    work: Callable[[], Any], done: Callable[[Any], object], failed: Callable[[Exception], object]
) -> WorkerBase:
    """Call a function in a worker, then `done` with its result or `failed` with its error on the GUI thread.

    The error is a result of the worker: raised, napari would swallow a RuntimeError and print any other.
    """

    def guarded() -> tuple[Any, Exception | None]:
        try:
            return work(), None
        except Exception as reason:
            return None, reason

    worker = make_worker(guarded)
    worker.returned.connect(lambda outcome: done(outcome[0]) if outcome[1] is None else failed(outcome[1]))
    worker.start()
    return worker


def _disconnect_all(worker: WorkerBase) -> None:
    for name in SIGNALS:
        # There may be no such signal, no slot, or no Qt object. PySide6 warns where there is no slot, and fails if
        # warnings are errors.
        with suppress(AttributeError, TypeError, RuntimeError, SystemError), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            getattr(worker.signals, name).disconnect()
