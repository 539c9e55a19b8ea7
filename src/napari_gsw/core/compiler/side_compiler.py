"""Kernels are compiled in processes beside this one, which finds them on disk.

While numba compiles, the other threads of its process hardly run, a window among them, and it compiles one kernel after
the other. So does it read one: a process that compiles, too, reads what another has compiled between two kernels.

A process beside is ordered a kernel and the types of its arguments, says how many kernels it has compiled so
far (one kernel calls others), and when it is done.

Numba is imported when something is ordered: a process is started before this one takes the time for that.
"""

from __future__ import annotations

import gc
import importlib
import os
import pickle
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from pickle import PicklingError
from typing import Any, NamedTuple

from napari_gsw.core.threads import cores

SCRIPT = f"from {__name__} import serve; serve()"
DONE = "done"
# Numba tries what a call may mean, and writes a message for each that it does not; nobody reads its colours there.
PLAIN = {"NUMBA_DISABLE_ERROR_MESSAGE_HIGHLIGHTING": "1"}
# Processes at the same time: the sampler is half of all there is to compile.
MOST = 2
# Seconds after which a process ends that nobody has ordered anything of.
PATIENCE = 30.0
# New objects after which Python looks for cycles. Numba makes millions, and nearly all of them are needed to the end:
# at Python's own 700, looking for them takes a fifteenth of the time.
MANY = 400_000


class Order(NamedTuple):
    """A kernel by the name of its module and its own, and types of its arguments."""

    module: str
    name: str
    types: tuple[Any, ...]


def serve() -> None:
    """In the other process: compile what is ordered on the standard input until that ends.

    A function that is named on the command line, after its module and a colon, is called first: what it compiles will
    be ordered.
    """
    from napari_gsw.core.compiler.compilation import COMPILATION

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl+C is for whoever has started it, who ends it
    import_numba_without_blas()
    COMPILATION.watchers.append(lambda: print(COMPILATION.count, flush=True))
    for name in sys.argv[1:]:
        module, _, function = name.partition(":")
        with suppress(Exception), seldom_collected():
            getattr(importlib.import_module(module), function)()
    while True:
        bored = threading.Timer(PATIENCE, os._exit, (0,))
        bored.daemon = True
        bored.start()
        try:
            order: Order = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        bored.cancel()
        with suppress(Exception), seldom_collected():  # whoever has ordered it meets the same error, and tells it
            getattr(importlib.import_module(order.module), order.name).compile(order.types)
        print(DONE, flush=True)


def import_numba_without_blas() -> None:
    """For a process of our own: numba looks for BLAS, and imports all of ``scipy.linalg``, but no kernel of ours asks.

    Where numba has imported that already, or does so in another place, nothing changes.
    """
    missing = "scipy.linalg"
    if missing in sys.modules:
        return
    sys.modules[missing] = None  # type: ignore[assignment]
    try:
        importlib.import_module("numba.np.arraymath")
    except ImportError:
        pass
    finally:
        del sys.modules[missing]


@contextmanager
def seldom_collected() -> Iterator[None]:
    """While much is compiled, Python looks for cycles seldom."""
    usual = gc.get_threshold()
    gc.set_threshold(MANY, *usual[1:])
    try:
        yield
    finally:
        gc.set_threshold(*usual)


class Helper:
    """One process that compiles; `functions` are called in it at once, see :func:`serve`."""

    def __init__(self, *functions: str) -> None:
        self._counted = 0
        self._process = subprocess.Popen(
            [sys.executable, "-c", SCRIPT, *functions],
            env=os.environ | PLAIN | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),
        )  # fmt: skip
        self.end = self._process.terminate

    @property
    def lives(self) -> bool:
        """Whether it can be ordered something."""
        return self._process.poll() is None

    def compile(self, order: bytes) -> None:
        """Until it is done, or has ended; what it compiles is counted here. `order` is a pickled :class:`Order`."""
        from napari_gsw.core.compiler.compilation import COMPILATION

        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with suppress(OSError, ValueError):  # a pipe that is broken, or closed; half of a line
            self._process.stdin.write(order)
            self._process.stdin.flush()
            for line in self._process.stdout:
                if (word := line.decode().strip()) == DONE:
                    return
                COMPILATION.add(count=int(word) - self._counted)
                self._counted = int(word)
        self.close()

    def close(self) -> None:
        """It is of no use any more."""
        self.end()
        with suppress(OSError, ValueError):  # what was not sent yet; what is closed already
            self._process.communicate()


class SideCompiler:
    """Up to two processes that compile what threads of this one need; they are started when there is something."""

    def __init__(self) -> None:
        self._change = threading.Condition()
        self._helpers: set[Helper] = set()
        self._free: list[Helper] = []
        self._going: dict[Path, threading.Event] = {}

    def compile(self, kernel: Any, types: tuple[Any, ...]) -> None:
        """Until the kernel is in the cache; at once if it is, or if this process had better compile it for itself."""
        from numba.core.serialize import dumps

        from napari_gsw.core.compiler.kernel_cache import kept_path

        path = kept_path(kernel, types)
        if path is None or path.exists() or not _is_possible() or not _is_known(kernel):
            return
        with self._change:
            ahead = self._going.get(path)
            over = self._going.setdefault(path, threading.Event())
        if ahead is not None:
            ahead.wait()
            return
        try:
            with suppress(PicklingError, TypeError):  # what cannot be sent is compiled here
                self._order(dumps(Order(kernel.py_func.__module__, kernel.py_func.__name__, types)))
        finally:
            with self._change:
                del self._going[path]
            over.set()

    def start(self, function: str) -> bool:
        """Start a process that begins by a function (see :func:`serve`); False if there is one, or cannot be."""
        with self._change, suppress(OSError):
            if not self._helpers and _is_possible():
                self._helpers.add(helper := Helper(function))
                self._free.append(helper)
                return True
        return False

    def end(self) -> None:
        """Nobody needs what is being compiled; whoever waits for it goes on at once."""
        with self._change:
            for helper in self._helpers:
                helper.end()  # whoever has ordered something of it closes it
            while self._free:
                self._close(self._free.pop())

    def _order(self, order: bytes) -> None:
        from napari_gsw.core.compiler.compilation import COMPILATION

        helper = self._taken()
        if helper is None:
            return
        COMPILATION.add(depth=1)
        try:
            helper.compile(order)
        finally:
            COMPILATION.add(depth=-1)
            with self._change:
                if helper.lives:
                    self._free.append(helper)
                else:
                    self._close(helper)
                self._change.notify()

    def _taken(self) -> Helper | None:
        """A process that has nothing to do, started if need be; None if that is not possible."""
        with self._change:
            self._change.wait_for(lambda: self._free or len(self._helpers) < MOST)
            while self._free:
                if (helper := self._free.pop()).lives:
                    return helper
                self._close(helper)
            with suppress(OSError):
                self._helpers.add(helper := Helper())
                return helper
            return None

    def _close(self, helper: Helper) -> None:
        helper.close()
        self._helpers.discard(helper)


def _is_possible() -> bool:
    """Whether there is a core for it, and a Python to run."""
    is_python = Path(sys.executable or "").stem.lower().startswith("python")  # a bundle would open its window again
    return is_python and cores() > 1


def _is_known(kernel: Any) -> bool:
    """Whether the other process would find the kernel by its name."""
    module = sys.modules.get(kernel.py_func.__module__)
    return getattr(module, kernel.py_func.__name__, None) is kernel
