"""Processes that do one job at a time, each for itself: one that dies takes nobody else's job with it.

A worker is a fresh process (spawned, so that it shares nothing but what it is sent) at the other end of a pipe. It says
that it is ready, and then answers each job with its outcome. What the system does to it, it does to its pipe: a worker
that was killed is one whose pipe has ended.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import islice
from multiprocessing.connection import Connection, wait
from typing import Any

from napari_gsw.core.errors import InputError

# Seconds that a process has to end when it is told to.
GRACE = 5.0
SPAWN = multiprocessing.get_context("spawn")


class Died(Exception):
    """The process of a worker has ended without a word."""


class Worker:
    """A process that calls `work` with one value after another.

    Attributes
    ----------
    ear : our end of the pipe; readable when there is something to hear.
    name : of the job at hand; None if there is none.
    ready : whether it has begun: until then it is importing.
    """

    def __init__(self, work: Callable[[Any], Any]) -> None:
        self.ear, other = SPAWN.Pipe()
        self.name: str | None = None
        self.ready = False
        # A daemon, so that a program that ends in a hurry does not wait for it.
        self.process = SPAWN.Process(target=_serve, args=(other, work), daemon=True)
        self.process.start()
        other.close()  # or the pipe would not end with the process

    def give(self, name: str, value: Any) -> None:
        self.name = name
        with suppress(OSError):  # it is dead already, which its pipe will tell to whoever listens
            self.ear.send(value)

    def hear(self) -> Any:
        """The next message; :class:`Died` if there will be none."""
        try:
            return self.ear.recv()
        except (EOFError, OSError):
            raise Died from None

    def dismiss(self) -> None:
        """Tell the process to end; a job at hand stays unfinished."""
        if self.name is not None:
            self.process.terminate()
        self.ear.close()

    def await_end(self) -> None:
        self.process.join(GRACE)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()
        self.process.close()


def parallel(
    work: Callable[[Any], Any], jobs: Mapping[str, Any], count: int, died: Callable[[], Any]
) -> Iterator[tuple[str, Any]]:
    """(name, what `work` returned) for each job as they come, from `count` processes at most.

    Parameters
    ----------
    work : a function of a module, which does not raise.
    died : makes the outcome of a job whose process has died; another process takes its place.
    """
    queue = iter(jobs.items())
    workers: list[Worker] = []
    begun = False
    with _one_thread_each():
        try:
            for name, value in islice(queue, count):
                workers.append(Worker(work))
                workers[-1].give(name, value)
            while busy := {w.ear: w for w in workers if w.name is not None}:
                for ear in wait(list(busy)):
                    worker = busy[ear]  # type: ignore[index]
                    try:
                        outcome = worker.hear()
                    except Died:
                        if not begun:
                            raise InputError(
                                "no process could be started; in a script, what calls this must stand below "
                                "if __name__ == '__main__':, and jobs=1 needs no process"
                            ) from None
                        outcome = died()
                        workers.remove(worker)
                        worker.dismiss()
                        worker.await_end()
                    else:
                        begun = True
                        if not worker.ready:
                            worker.ready = True
                            continue
                    name = str(worker.name)
                    worker.name = None
                    for next_name, value in islice(queue, 1):
                        if worker not in workers:
                            worker = Worker(work)
                            workers.append(worker)
                        worker.give(next_name, value)
                    yield name, outcome
        finally:
            for worker in workers:
                worker.dismiss()
            for worker in workers:
                worker.await_end()


def _serve(ear: Connection, work: Callable[[Any], Any]) -> None:
    """The life of a worker."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl+C is for the process that hands out the work
    try:
        ear.send(None)
        while True:
            ear.send(work(ear.recv()))
    except (EOFError, OSError):
        return  # whoever handed out the work is gone


@contextmanager
def _one_thread_each() -> Iterator[None]:
    """Processes started meanwhile calculate on one core each: there are as many of them as there are cores."""
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
    before = {name: os.environ.get(name) for name in names}
    os.environ.update({name: "1" for name, value in before.items() if value is None})
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
