"""Importing much at once."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def loading() -> Iterator[None]:
    """For what a command imports: Python does not look for cycles meanwhile.

    It would do so again and again while the modules come in, through more of them each time, and to no end: what is
    imported stays. That is a twelfth of what a segmentation takes where all is compiled. Nor does it look at it later.
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.freeze()
            gc.enable()
