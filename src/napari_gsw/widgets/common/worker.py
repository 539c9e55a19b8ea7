"""Work in a thread beside the window: what it holds is let go when it is done, and it can begin at once."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Generator
from contextlib import suppress
from functools import partial
from typing import Any
from weakref import WeakMethod

from napari.qt.threading import GeneratorWorker, WorkerBase, create_worker
from qtpy.QtCore import QThreadPool, QTimer

# Milliseconds after its end in which everybody has heard of it.
HEARD = 1000
SIGNALS = ("started", "finished", "returned", "errored", "warned", "yielded", "paused", "resumed", "aborted")


class EndingWorker(GeneratorWorker):  # type: ignore[misc]
    """One that is told to come to its end when napari asks it to quit, as at the end of the window.

    napari's own leaves its generator where it is, for good.
    """

    end: WeakMethod[Callable[[], object]] | None = None

    def quit(self) -> None:
        end = None if self.end is None else self.end()
        if end is None:
            super().quit()
        else:
            end()


def make_worker(function: Callable[..., Any], *args: Any, end: Callable[[], object] | None = None) -> WorkerBase:
    """A worker of napari's that has not begun; a generator function becomes one that yields.

    napari lists every worker for as long as its window is open, and with it whatever its function and its slots hold: a
    chain, a picture, a panel that was closed. So the function is given away when it begins, and the slots when it is
    over.

    Parameters
    ----------
    end : method by which a generator comes to its end when it has to quit; None leaves it where it is.
    """
    work = [partial(function, *args)]

    def call() -> Any:
        return work.pop()()

    def generate() -> Generator[Any, Any, Any]:
        return (yield from work.pop()())

    if not inspect.isgeneratorfunction(function):
        worker = create_worker(call, _start_thread=False)
    else:
        worker = create_worker(generate, _start_thread=False, _worker_class=EndingWorker)
        worker.end = None if end is None else WeakMethod(end)
    worker.finished.connect(lambda: QTimer.singleShot(HEARD, partial(_let_go, worker)))
    return worker


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


def _let_go(worker: WorkerBase) -> None:
    """Cut all that would hear of a worker that has nothing more to say."""
    for name in SIGNALS:
        # None of that name, nobody connected, deleted; PySide6 warns where nobody is, and fails if warnings are errors.
        with suppress(AttributeError, TypeError, RuntimeError, SystemError), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            getattr(worker.signals, name).disconnect()
