"""Kernels beside the main thread.

Numba runs Python code while it hands back what a kernel has returned, and does not expect it to fail there. Ctrl+C
raises its exception in the main thread, wherever that is; in the middle of such a handover the interpreter crashes. So
what runs for long does so in a thread of its own, and the main one waits where it may be interrupted.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from functools import cache
from typing import TYPE_CHECKING, ParamSpec, TypeVar

if TYPE_CHECKING:  # the command line asks for the number of cores before it needs an array
    from napari_gsw.core.array_types import BoolArray

P = ParamSpec("P")
T = TypeVar("T")

# How far a thread steps back; see nice(2).
NICE = 10


def count_cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def lower_priority() -> None:
    """Give the calling thread less of the processor than the one that draws, where the system lets us."""
    if sys.platform == "linux":  # elsewhere a thread has no niceness of its own
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICE)


def run_in_thread(stop: BoolArray, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """``function(*args, **kwargs)``, in another thread if this is the main one.

    Parameters
    ----------
    stop : (1,) a flag that the function looks at now and then. Ctrl+C sets it, waits for the function to end, and takes
        it back. Who cannot wait presses Ctrl+C again: the flag then stays, and the function ends by itself.
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
