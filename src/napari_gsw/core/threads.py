"""Threads: the number of cores, priorities, and kernels beside the main thread.

Numba runs Python code while it returns the result of a kernel, and crashes the interpreter if Ctrl+C raises its
exception there. So long kernels run in another thread, and the main thread waits where it may be interrupted.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from functools import cache
from typing import TYPE_CHECKING, ParamSpec, TypeVar

if TYPE_CHECKING:  # the command line counts cores before it needs numpy
    from napari_gsw.core.array_types import BoolArray

P = ParamSpec("P")
T = TypeVar("T")

# Lower priority of a thread; see nice(2).
NICE = 10


def count_cores() -> int:
    """Count the cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def lower_priority() -> None:
    """Lower the priority of the calling thread, on Linux."""
    if sys.platform == "linux":  # elsewhere a thread has no niceness of its own
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICE)


def run_in_thread(stop: BoolArray, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Return ``function(*args, **kwargs)``, computed in another thread if this is the main one.

    Ctrl+C sets the flag `stop` (1,), which the function checks, waits for its end and clears the flag. A second Ctrl+C
    does not wait: the flag stays, and the function ends by itself.
    """
    if threading.current_thread() is not threading.main_thread():
        return function(*args, **kwargs)
    calls: list[Future[T]] = []
    try:
        calls.append(_thread().submit(function, *args, **kwargs))
        return calls[0].result()
    except BaseException:
        stop[0] = True
        wait(calls)
        stop[0] = not calls  # a call that was submitted and not noted goes on, and has to see the flag
        raise


@cache
def _thread() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(1, thread_name_prefix="napari-gsw")


if hasattr(os, "register_at_fork"):  # a forked process has the pool, but not its thread
    os.register_at_fork(after_in_child=_thread.cache_clear)
