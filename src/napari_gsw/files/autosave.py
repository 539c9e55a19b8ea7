"""Save a run repeatedly while it goes on, in a thread of its own."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import Any, Self

from napari_gsw.core.errors import InputError
from napari_gsw.core.interactive.saved_session import SavedSession
from napari_gsw.core.pipeline.saved_run import SavedRun
from napari_gsw.files.session_file import save_session

INTERVAL = 30.0  # seconds

Take = Callable[[], SavedRun | SavedSession]


class Autosave:
    """Save a session repeatedly to one file; pass it as `keep` to :func:`napari_gsw.segment`.

    Parameters
    ----------
    path : path-like
        File, see :func:`napari_gsw.save_session`.
    every : float
        Seconds between two saves.
    tell : callable
        Called with a message when saving has failed, once for each reason; saving is tried again.
    **options
        Of :func:`napari_gsw.save_session`.

    Examples
    --------
    >>> with Autosave("run.zarr.zip") as keep:  # doctest: +SKIP
    ...     result = napari_gsw.segment(image, keep=keep)
    """

    def __init__(
        self, path: str | os.PathLike[str], every: float = INTERVAL, tell: Callable[[str], object] = print,
        **options: Any,
    ) -> None:  # fmt: skip
        self.path, self.every, self.tell, self._options = path, every, tell, options
        self._executor = ThreadPoolExecutor(1, "gsw-autosave")
        self._lock = threading.Lock()
        self._last: Future[None] | None = None
        self._newest: Take | None = None
        self._began = -float("inf")
        self._message = ""

    def __call__(self, take: Take) -> None:
        """Save what `take` returns, if it is time."""
        self._newest = take
        if self.due:
            self.save(take)

    @property
    def due(self) -> bool:
        """True if the last save is finished and long enough ago."""
        is_idle = self._last is None or self._last.done()
        return is_idle and time.monotonic() - self._began >= self.every

    def save(self, take: Take) -> None:
        """Save what `take` returns now, without waiting; it replaces a session that still waits to be saved."""
        self._began = time.monotonic()
        session = take()  # in this thread, since the chain goes on meanwhile
        with self._lock, suppress(RuntimeError):  # closed: a worker may call once more
            future = self._executor.submit(self._save, session)
            if self._last is not None:
                self._last.cancel()
            self._last = future

    def _save(self, session: SavedRun | SavedSession) -> None:
        try:
            save_session(self.path, session, **self._options)
            self._message = ""
        except Exception as error:  # any: the next save may succeed, and nobody else would report it
            text = str(error) if isinstance(error, InputError) else f"the session could not be saved: {error!r}"
            if text != self._message:
                self._message = text
                self.tell(text)

    def wait(self) -> None:
        """Wait until the last save is finished."""
        if self._last is not None:
            self._last.result()

    def close(self) -> None:
        """Save the last state and wait for it."""
        if self._newest is not None:
            self.save(self._newest)
        self._newest = None
        self._executor.shutdown()

    def leave(self, then: Callable[[], object]) -> None:
        """Accept no further saves, do not save the last state, and call `then` when the current save is finished."""
        self._executor.shutdown(wait=False)
        self._newest = None
        with self._lock:
            last = self._last
        if last is None:
            then()
        else:
            last.add_done_callback(lambda _: then())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
