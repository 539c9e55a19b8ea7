"""Save the session on demand, during runs and after every correction; list sessions that can be restored."""

from __future__ import annotations

import hashlib
import itertools
import os
import platform
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import platformdirs
import psutil
from qtpy.QtCore import QCoreApplication, QObject, QThread, Signal

from napari_gsw.core.errors import InputError
from napari_gsw.core.interactive.saved_session import SavedImage, SavedSession
from napari_gsw.files.session_file import SUFFIX, Autosave, read_title, save_session
from napari_gsw.widgets.common.setting_widgets import get_preference
from napari_gsw.widgets.layers.image_source import Position
from napari_gsw.widgets.layers.saved_layers import describe_source, make_saved_image
from napari_gsw.widgets.session.array_run import ArrayRun
from napari_gsw.widgets.session.run_plan import Segmentation, format_position
from napari_gsw.widgets.session.run_worker import RunController

# Key in the saved window state: whether the chains had not reached their targets.
RUNNING = "running"
# Number of autosaves that are kept; older ones are removed when a new one is begun.
MAX_KEPT = 8
# Machine, process, start time of the process, counter. Other files in the folder belong to the user.
NAME = re.compile(rf"(?:([0-9a-f]{{8}})-)?(\d+)-(\d+)-\d+{re.escape(SUFFIX)}")
# Machines may share a home folder, and processes of another machine cannot be listed. Seconds after which an autosave
# of another machine counts as abandoned (runs are saved twice a minute), and after which it may be removed.
SILENCE, FORGOTTEN = 600.0, 30 * 86_400.0
_counter = itertools.count()
# Autosaves that this process writes to.
_own_paths: set[Path] = set()
# Released autosaves that are still being written.
_released: set[Autosave] = set()


class Autosaver(QObject):  # type: ignore[misc]
    """Saves the current segmentation."""

    # Emitted from the thread that saves.
    written = Signal(str)  # path of a saved session
    refused = Signal(str)  # why an autosave failed

    def __init__(self, controller: RunController, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.controller = controller
        # Returns more state of the window to be saved, ready for JSON.
        self.describe_window: Callable[[], Mapping[str, Any]] = dict
        self._autosave: Autosave | None = None
        self._segmentation: Segmentation | None = None
        controller.launched.connect(self._begin)

    def save(self, path: Path, embed: bool = False) -> list[str]:
        """Save to a file between two sweeps, with the image in it if `embed`.

        Return the names of images that are neither embedded nor in a file of their own.
        """
        seg = self.controller.segmentation
        if seg is None or not seg.array_runs:
            raise InputError("there is nothing to save yet: press Run first")
        images, window = self._describe(seg, embed)
        run = self.controller.run
        window[RUNNING] = run is not None and not run.stopping

        def write(_: object) -> None:
            # The file dialog has asked before it overwrites a file.
            save_session(path, _make_session(seg.array_runs, images, window), overwrite=True)
            self.written.emit(str(path))

        self.controller.submit(next(iter(seg.array_runs)), write)
        return [image.name for image in images if image.pixels is None and not image.paths]

    def _describe(self, seg: Segmentation, embed: bool = False) -> tuple[tuple[SavedImage, ...], dict[str, Any]]:
        source = seg.plan.source
        images = tuple(make_saved_image(layer, embed) for layer in source.image_layers)
        return images, {"source": describe_source(source), "lock": seg.plan.lock, **self.describe_window()}

    def _begin(self) -> None:
        """Have a run save its chains between two sweeps when that is due."""
        seg, run = self.controller.segmentation, self.controller.run
        if seg is None or run is None or not get_preference("autosave"):
            return
        if seg is not self._segmentation or self._autosave is None:
            self._release()
            self._autosave = Autosave(new_autosave(), tell=self._refuse)
            self._segmentation = seg
        autosave, (images, window) = self._autosave, self._describe(seg)

        def keep(at_once: bool) -> None:
            if at_once or autosave.due:
                state = {**window, RUNNING: run.abandoned or not run.stopping}
                autosave.save(lambda: _make_session({**seg.array_runs, **run.array_runs}, images, state))

        run.keep = keep

    def _refuse(self, reason: str) -> None:
        with suppress(RuntimeError):  # the window is closed
            self.refused.emit(reason)

    def close(self) -> None:
        """Release the autosave, after which nothing can be written.

        While an event loop runs, it is written in the background and Python waits for it at exit.
        """
        autosave = self._autosave
        self._release()
        app = QCoreApplication.instance()
        if app is None or not QThread.currentThread().loopLevel():
            wait_for_released()
            if autosave is not None:
                autosave.close()
        elif not all_written():
            with suppress(TypeError, RuntimeError):  # it was not connected yet
                app.aboutToQuit.disconnect(wait_for_released)
            app.aboutToQuit.connect(wait_for_released)

    def _release(self) -> None:
        """Stop using the autosave: it can be restored once it is written, which happens in the background."""
        if (autosave := self._autosave) is not None:

            def finish() -> None:
                _own_paths.discard(Path(autosave.path))
                _released.discard(autosave)

            _released.add(autosave)
            autosave.leave(finish)
        self._autosave = self._segmentation = None


def _make_session(
    array_runs: Mapping[Position, ArrayRun], images: tuple[SavedImage, ...], window: Mapping[str, Any]
) -> SavedSession:
    """Save the state of all chains; to be called in the thread that advances them."""
    runs = {format_position(position): run.interactive.save() for position, run in list(array_runs.items())}
    return SavedSession(runs, images, window)


def autosave_folder() -> Path:
    """Return the user's folder of autosaves."""
    return Path(platformdirs.user_data_dir("napari-gsw", appauthor=False)) / "autosaves"


def new_autosave() -> Path:
    """Return a new path, named after this process, and remove old autosaves that no process writes."""
    process = psutil.Process()
    path = autosave_folder() / f"{_machine()}-{process.pid}-{int(process.create_time())}-{next(_counter)}{SUFFIX}"
    _own_paths.add(path)
    for old in [old for old in _list_abandoned() if not _is_written(old, FORGOTTEN)][MAX_KEPT - 1 :]:
        with suppress(OSError):  # it is open elsewhere, or not ours to remove
            old.unlink(missing_ok=True)
    return path


def all_written() -> bool:
    """Return whether all released autosaves are written."""
    return not _released


def wait_for_released() -> None:
    """Wait until all released autosaves are written."""
    for autosave in list(_released):
        autosave.close()


def discard_autosave(path: Path) -> None:
    """Remove an autosave."""
    _own_paths.discard(path)
    path.unlink(missing_ok=True)


def list_restorable() -> Iterator[tuple[Path, str]]:
    """Yield the autosaves that no window uses with their titles, newest first; each is opened when it is asked for."""
    for path in _list_abandoned():
        if (title := read_title(path)) is not None:
            yield path, title


def _list_abandoned() -> list[Path]:
    """Return autosaves of ended processes or closed windows, newest first."""
    try:
        paths = [path for path in autosave_folder().iterdir() if NAME.fullmatch(path.name) and path not in _own_paths]
        return sorted((path for path in paths if not _is_written(path)), key=lambda path: -path.stat().st_mtime)
    except OSError:  # a home that cannot be read, or another process that cleans up
        return []


@cache
def _machine() -> str:
    return hashlib.sha256(platform.node().encode()).hexdigest()[:8]


def _is_written(path: Path, silence: float = SILENCE) -> bool:
    """Return whether another process still writes a file; on another machine, whether it did in the last seconds."""
    name = NAME.fullmatch(path.name)
    assert name is not None
    machine, pid, began = name[1] or _machine(), int(name[2]), int(name[3])
    if machine != _machine():
        return time.time() - path.stat().st_mtime < silence
    if pid == os.getpid():
        return False
    try:
        return int(psutil.Process(pid).create_time()) == began
    except psutil.Error:
        return False
