"""Ctrl+C and SIGTERM at a safe moment.

Python raises KeyboardInterrupt wherever the program is. Where a compiled kernel returns its result, that crashes the
interpreter. So long work notes the signal, and ends between two jobs or when a segmentation reports its progress.

SLURM, containers and ``timeout`` send SIGTERM before they kill. It acts as Ctrl+C, with another exit code.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from types import FrameType
from typing import Any

SIGNALS = (signal.SIGINT, signal.SIGTERM)

# The signal that was noted, or 0. Signals belong to the process, and so does this.
_noted = 0


class Terminated(KeyboardInterrupt):
    """The system asks the program to end."""


def interrupt(number: int, frame: FrameType | None = None) -> None:
    """Raise the exception for a signal."""
    raise Terminated if number == signal.SIGTERM else KeyboardInterrupt


def exit_code(error: BaseException) -> int:
    """Return the exit code of an interrupted program: 130 for Ctrl+C, 143 for SIGTERM."""
    return 128 + (signal.SIGTERM if isinstance(error, Terminated) else signal.SIGINT)


@contextmanager
def handle_signals(
    handler: Callable[[int, FrameType | None], Any], signals: Sequence[signal.Signals] = SIGNALS
) -> Iterator[None]:
    """Let a handler receive signals within the block; outside the main thread do nothing."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = [(number, signal.signal(number, handler)) for number in signals]
    try:
        yield
    finally:
        for number, earlier in before:
            signal.signal(number, signal.SIG_DFL if earlier is None else earlier)


def raise_on_sigterm() -> AbstractContextManager[None]:
    """Let SIGTERM interrupt the block as Ctrl+C does."""
    return handle_signals(interrupt, [signal.SIGTERM])


@contextmanager
def defer_signals() -> Iterator[None]:
    """Note the first signal within the block; a second one interrupts at once."""

    def note_signal(number: int, frame: FrameType | None) -> None:
        global _noted
        if _noted:
            interrupt(number)
        _noted = number

    global _noted
    with handle_signals(note_signal):
        try:
            yield
        finally:
            if threading.current_thread() is threading.main_thread():
                _noted = 0


def raise_if_interrupted(*_: object) -> None:
    """Interrupt if a signal was noted; takes the arguments of a progress report, to serve as one."""
    if _noted:
        interrupt(_noted)


def ignore_signals() -> None:
    """Ignore signals in a worker, which is ended by the process that started it."""
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)
