"""Ctrl+C at a moment that suits.

Python raises KeyboardInterrupt wherever the program happens to be. If that is where a compiled kernel hands back what
it made, the interpreter crashes. So long work notes the signal and ends where it looks for it: between two jobs, or
when a segmentation reports how far it is.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

# A signal belongs to the process, and so does the note of it.
_interrupted = threading.Event()


@contextmanager
def deferred() -> Iterator[None]:
    """Meanwhile the first Ctrl+C is only noted; a second one interrupts at once, come what may.

    In a thread that hears no signals this does nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def note_signal(number: int, frame: FrameType | None) -> None:
        if _interrupted.is_set():
            raise KeyboardInterrupt
        _interrupted.set()

    _interrupted.clear()
    handler = signal.signal(signal.SIGINT, note_signal)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler or signal.default_int_handler)
        _interrupted.clear()


def check(*_: object) -> None:
    """Interrupt here if Ctrl+C was noted; takes what a report takes, to be given as one."""
    if _interrupted.is_set():
        raise KeyboardInterrupt
