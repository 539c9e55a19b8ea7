"""Saving while a run goes on: every now and then, in a thread of its own, so that the sampler does not wait."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Any, Self

from napari_gsw.core.errors import InputError
from napari_gsw.core.interactive.saved_session import SavedSession
from napari_gsw.core.pipeline.saved_run import SavedRun
from napari_gsw.files.session_file import save_session

# Seconds of work that may be lost.
EVERY = 30.0


class Autosave:
    """Saves a session again and again to one file; to be called between sweeps, as `keep` of :func:`segment`.

    What cannot be written (a full disk) is told to `tell`, once for each reason, and tried again: the run goes on.

    Parameters
    ----------
    path : of the file, see :func:`napari_gsw.save_session`.
    every : seconds from one save to the next.
    tell : called with a sentence when a save has failed.
    options : of :func:`napari_gsw.save_session`.

    Examples
    --------
    >>> with Autosave("run.zarr.zip") as keep:  # doctest: +SKIP
    ...     result = napari_gsw.segment(image, keep=keep)
    """

    def __init__(
        self, path: str | os.PathLike[str], every: float = EVERY, tell: Callable[[str], object] = print, **options: Any
    ) -> None:
        self.path, self.every, self.tell, self._options = path, every, tell, options
        self._thread = ThreadPoolExecutor(1, "gsw-autosave")
        self._saving: Future[None] | None = None
        self._guard = threading.Lock()
        self._waiting: SavedRun | SavedSession | None = None
        self._newest: Callable[[], SavedRun | SavedSession] | None = None
        self._began = -float("inf")
        self._complaint = ""
        self._closed = False

    def __call__(self, take: Callable[[], SavedRun | SavedSession]) -> None:
        """Save what `take` gives, if it is time to."""
        self._newest = take
        if self.due:
            self.save(take)

    @property
    def due(self) -> bool:
        """Whether the last save is long enough ago, and over."""
        with self._guard:
            idle = self._saving is None
        return idle and time.monotonic() - self._began >= self.every

    def save(self, take: Callable[[], SavedRun | SavedSession]) -> None:
        """Save what `take` gives now; does not wait for it. What waits for an earlier save gives way to it."""
        self._began = time.monotonic()
        session = take()  # here and now: the chain goes on meanwhile
        with self._guard:
            if self._closed:  # a worker that has not heard of it yet
                return
            self._waiting = session
            if self._saving is None:
                self._saving = self._thread.submit(self._work)

    def _work(self) -> None:
        """Save what waits, until nothing does."""
        while True:
            with self._guard:
                session, self._waiting = self._waiting, None
                if session is None:
                    self._saving = None
                    return
            self._save(session)

    def _save(self, session: SavedRun | SavedSession) -> None:
        try:
            save_session(self.path, session, **self._options)
            self._complaint = ""
        except Exception as reason:  # whatever it is: the next one may succeed, and nobody else would say it
            words = str(reason) if isinstance(reason, InputError) else f"the session could not be saved: {reason!r}"
            if words != self._complaint:
                self._complaint = words
                self.tell(words)

    def wait(self) -> None:
        """Until what is being saved is on the disk."""
        with self._guard:
            saving = self._saving
        if saving is not None:
            saving.result()

    def close(self) -> None:
        """Save how far the run has come in the end, and wait for it."""
        if self._newest is not None:
            self.save(self._newest)
        self._newest = None
        with self._guard:
            self._closed = True
        self._thread.shutdown()

    def leave(self, then: Callable[[], object]) -> None:
        """Take nothing more to save, and call `then` when what is being saved is on the disk; nobody waits for that.

        Unlike :meth:`close` it does not save how far the run has come since.
        """
        with self._guard:
            self._closed = True
            saving = self._saving
        self._newest = None
        if saving is None:
            then()
        else:
            saving.add_done_callback(lambda _: then())
        self._thread.shutdown(wait=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
