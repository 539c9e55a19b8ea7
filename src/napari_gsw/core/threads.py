"""Threads: the number of cores, priorities, and kernels beside the main thread.

Numba runs Python code while it returns the result of a kernel, and crashes the interpreter if Ctrl+C raises its
exception there. So long kernels run in another thread, and the main thread waits where it may be interrupted.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor, wait
from functools import cache
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:  # the command line counts cores before it needs numpy
    from napari_gsw.core.array_types import BoolArray

T = TypeVar("T")

# Lower priority of a thread; see nice(2).
NICE = 10
# More than chains that anybody runs at once.
MAX_THREADS = 1024


def count_cores() -> int:
    """Count the cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def lower_priority() -> None:
    """Lower the priority of the calling thread, on Linux."""
    if sys.platform == "linux":  # elsewhere a thread has no niceness of its own
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICE)


def run_in_threads(
    stops: Sequence[BoolArray], calls: Sequence[Callable[[], T]], executor: Executor | None = None
) -> list[T]:
    """Return the results of all calls, each computed in a thread beside this one; a single call may stay in this one.

    An error or Ctrl+C sets the flags `stops`, each (1,), which the calls check, waits for their end and clears the
    flags. A second Ctrl+C does not wait: the flags stay, and the calls end by themselves.
    """
    if executor is None and len(calls) == 1 and threading.current_thread() is not threading.main_thread():
        return [calls[0]()]
    futures: list[Future[T]] = []
    try:
        futures.extend((executor or _pool()).submit(call) for call in calls)
        return [future.result() for future in futures]
    except BaseException:
        for stop in stops:
            stop[0] = True
        for future in futures:
            future.cancel()
        wait(futures)
        for stop in stops:
            stop[0] = len(futures) < len(calls)  # a call that was submitted and not noted has to see the flag
        raise


@cache
def _pool() -> ThreadPoolExecutor:
    """Return a pool that starts a thread where none is idle: new ones for every call would cost a few per cent."""
    return ThreadPoolExecutor(MAX_THREADS, thread_name_prefix="napari-gsw")


if hasattr(os, "register_at_fork"):  # a forked process has the pool, but not its thread
    os.register_at_fork(after_in_child=_pool.cache_clear)
