"""Ctrl+C, or the request of a system to end (SIGTERM), at a moment that suits.

Python raises KeyboardInterrupt wherever the program happens to be. If that is where a compiled kernel hands back what
it made, the interpreter crashes. So long work notes the signal and ends where it looks for it: between two jobs, or
when a segmentation reports how far it is.

SLURM, containers and ``timeout`` send SIGTERM before they kill. It is taken for Ctrl+C, with another exit code.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

# The signals that ask a program to end.
SIGNALS = (signal.SIGINT, signal.SIGTERM)

# A signal belongs to the process, and so does the note of it: its number, or 0.
_noted = 0


class Terminated(KeyboardInterrupt):
    """The system asks the program to end; whoever minds Ctrl+C minds this too."""


def make_interrupt(number: int) -> KeyboardInterrupt:
    """The exception that a signal stands for."""
    return Terminated() if number == signal.SIGTERM else KeyboardInterrupt()


def exit_code(reason: BaseException) -> int:
    """Of a program that was interrupted: 130 by Ctrl+C, 143 by the system."""
    return 128 + (signal.SIGTERM if isinstance(reason, Terminated) else signal.SIGINT)


@contextmanager
def handle_signals(handler: Callable[[int, FrameType | None], Any]) -> Iterator[None]:
    """Meanwhile both signals go to a handler. In a thread that hears no signals this does nothing."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = [(number, signal.signal(number, handler)) for number in SIGNALS]
    try:
        yield
    finally:
        for number, earlier in before:
            signal.signal(number, signal.SIG_DFL if earlier is None else earlier)


@contextmanager
def raise_on_sigterm() -> Iterator[None]:
    """Meanwhile SIGTERM interrupts as Ctrl+C does."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise make_interrupt(number)

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL if before is None else before)


@contextmanager
def defer_signals() -> Iterator[None]:
    """Meanwhile the first signal is only noted; a second one interrupts at once, come what may.

    In a thread that hears no signals this does nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def note_signal(number: int, frame: FrameType | None) -> None:
        global _noted
        if _noted:
            raise make_interrupt(number)
        _noted = number

    global _noted
    _noted = 0
    with handle_signals(note_signal):
        try:
            yield
        finally:
            _noted = 0


def raise_if_interrupted(*_: object) -> None:
    """Interrupt here if a signal was noted; takes what a report takes, to be given as one."""
    if _noted:
        raise make_interrupt(_noted)


def ignore_signals() -> None:
    """Of a worker: signals are for the process that hands out the work, which ends its workers itself."""
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)
