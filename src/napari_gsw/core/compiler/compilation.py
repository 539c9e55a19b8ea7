"""What is being compiled at this moment, and how much was, for whoever waits for it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any


class Compilation:
    """Counts the kernels that this process compiles; what is read from the cache does not count.

    Attributes
    ----------
    count : kernels that are compiled, each as often as it was for other types.
    depth : kernels that are being compiled now: one, and those that wait for it.
    watchers : called, in whatever thread compiles, when a kernel is begun and when it is compiled.
    beside : called with a kernel and the types of its arguments before this process compiles it or has numba read it
        from the cache, so that somebody else can compile it; None if nobody does.
    """

    def __init__(self) -> None:
        self.count = self.depth = 0
        self.watchers: list[Callable[[], None]] = []
        self.beside: Callable[[Any, tuple[Any, ...]], None] | None = None
        self._lock = threading.Lock()

    def add(self, count: int = 0, depth: int = 0) -> None:
        """So many more are compiled, and are being compiled, here or in a process beside this one."""
        with self._lock:
            self.count += count
            self.depth += depth
        for watcher in list(self.watchers):
            watcher()


# That of this process.
COMPILATION = Compilation()
