"""Processes that do one job at a time, each for itself: one that dies takes nobody else's job with it.

A worker is a fresh process (spawned, so that it shares nothing but what it is sent) at the other end of a pipe. It says
that it is ready, and then answers each job with what its work returned. What the system does to it, it does to its
pipe: a worker that was killed is one whose pipe has ended.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import islice
from multiprocessing.connection import Connection, wait
from typing import Any

from napari_gsw.core.errors import InputError
from napari_gsw.jobs.interruption import ignore_signals

# Seconds that a process has to end when it is told to.
GRACE = 5.0
SPAWN = multiprocessing.get_context("spawn")


class WorkerDied(Exception):
    """The process of a worker has ended without a word."""


class Worker:
    """A process that calls `work` with one value after another.

    Attributes
    ----------
    pipe : our end of it; readable when there is a message.
    job : name of the job at hand; None if there is none.
    ready : whether it has begun: until then it is importing.
    process : the process itself.
    """

    def __init__(self, work: Callable[[Any], Any]) -> None:
        self.pipe, far_end = SPAWN.Pipe()
        self.job: str | None = None
        self.ready = False
        # A daemon, so that a program that ends in a hurry does not wait for it.
        self.process = SPAWN.Process(target=_serve, args=(far_end, work), daemon=True)
        self.process.start()
        far_end.close()  # or the pipe would not end with the process

    def send(self, job: str, value: Any) -> None:
        """Let it work on a job: its name, and the value that the work needs."""
        self.job = job
        with suppress(OSError):  # it is dead already, which its pipe will tell to whoever listens
            self.pipe.send(value)

    def receive(self) -> Any:
        """The next message; :class:`WorkerDied` if there will be none."""
        try:
            return self.pipe.recv()
        except (EOFError, OSError):
            raise WorkerDied from None

    def dismiss(self) -> None:
        """Tell the process to end; a job at hand stays unfinished."""
        if self.job is not None:
            self.process.kill()  # it ignores what asks it to end, see `_serve`
        self.pipe.close()

    def await_end(self) -> None:
        """Wait until the process has ended; one that does not end by itself is killed."""
        self.process.join(GRACE)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()
        self.process.close()


def parallel(
    work: Callable[[Any], Any], jobs: Mapping[str, Any], count: int, answer_if_died: Callable[[], Any]
) -> Iterator[tuple[str, Any]]:
    """The name of each job and what `work` returned of it, as they come.

    Parameters
    ----------
    work : a function of a module, which does not raise.
    jobs : name -> what the work needs.
    count : processes at a time, at most.
    answer_if_died : makes the answer of a job whose process has died; another process takes its place.
    """
    queue = iter(jobs.items())
    workers: list[Worker] = []
    any_ready = False
    with _one_thread_each():
        try:
            for name, value in islice(queue, count):
                workers.append(Worker(work))
                workers[-1].send(name, value)
            while busy := {w.pipe: w for w in workers if w.job is not None}:
                for pipe in wait(list(busy)):
                    worker = busy[pipe]  # type: ignore[index]
                    try:
                        answer = worker.receive()
                    except WorkerDied:
                        if not any_ready:
                            raise InputError(
                                "no process could be started; in a script, what calls this must stand below "
                                "if __name__ == '__main__':, and jobs=1 needs no process"
                            ) from None
                        answer = answer_if_died()
                        workers.remove(worker)
                        worker.dismiss()
                        worker.await_end()
                    else:
                        any_ready = True
                        if not worker.ready:
                            worker.ready = True
                            continue
                    name = str(worker.job)
                    worker.job = None
                    for next_name, value in islice(queue, 1):
                        if worker not in workers:
                            worker = Worker(work)
                            workers.append(worker)
                        worker.send(next_name, value)
                    yield name, answer
        finally:
            for worker in workers:
                worker.dismiss()
            for worker in workers:
                worker.await_end()


def _serve(pipe: Connection, work: Callable[[Any], Any]) -> None:
    """The life of a worker."""
    ignore_signals()
    try:
        pipe.send(None)
        while True:
            pipe.send(work(pipe.recv()))
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
