"""Keeps the session: saves it when it is asked to, and by itself while the chains run and after every correction."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from qtpy.QtCore import QCoreApplication, QObject, QThread, Signal

from napari_gsw.core.errors import InputError
from napari_gsw.core.interactive.saved_session import SavedImage, SavedSession
from napari_gsw.files.autosave import Autosave
from napari_gsw.files.session_file import save_session
from napari_gsw.widgets.common.preferences import get_preference
from napari_gsw.widgets.layers.image_source import Position
from napari_gsw.widgets.layers.saved_layers import describe_source, make_saved_image
from napari_gsw.widgets.session import autosave_files
from napari_gsw.widgets.session.array_run import ArrayRun
from napari_gsw.widgets.session.run_plan import Segmentation, format_position
from napari_gsw.widgets.session.run_worker import CommandQueue

# Among the words of the window: whether the chains were on their way to their targets.
RUNNING = "running"


class Autosaver(QObject):  # type: ignore[misc]
    """Saves what is worked on.

    Signals
    -------
    written : where a session was saved to; sent from the thread that wrote it.
    refused : why an autosave failed; likewise.
    """

    written = Signal(str)
    refused = Signal(str)

    def __init__(self, commands: CommandQueue, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.commands = commands
        # What else the window wants to have saved, ready for JSON.
        self.words: Callable[[], Mapping[str, Any]] = dict
        self._autosave: Autosave | None = None
        self._path: Path | None = None
        self._images: tuple[SavedImage, ...] = ()
        self._window: dict[str, Any] = {}
        self._segmentation: Segmentation | None = None
        commands.about_to_launch.connect(self._launching)

    def save(self, path: Path, embed: bool = False) -> list[str]:
        """Save to a file; with the image in it, if it is wanted. It is done between two sweeps.

        Returns the names of images that are neither in it nor in a file of their own.
        """
        seg, position = self.commands.segmentation, self._any_position()
        if seg is None or position is None:
            raise InputError("there is nothing to save yet: press Run first")
        images, window = self._description(seg, embed)
        run = self.commands.run
        window[RUNNING] = run is not None and not run.stopping

        def order(_: object) -> None:
            save_session(
                path, _make_session(seg.array_runs, images, window), overwrite=True
            )  # the file dialog has asked
            self.written.emit(str(path))

        self.commands.submit(position, order)
        return [image.name for image in images if image.pixels is None and not image.paths]

    def _any_position(self) -> Position | None:
        seg = self.commands.segmentation
        return next(iter(seg.array_runs), None) if seg is not None else None

    def _description(self, seg: Segmentation, embed: bool = False) -> tuple[tuple[SavedImage, ...], dict[str, Any]]:
        source = seg.plan.source
        images = tuple(make_saved_image(layer, embed) for layer in source.image_layers)
        return images, {"source": describe_source(source), "lock": seg.plan.lock, **self.words()}

    # ---- by itself

    def _launching(self) -> None:
        """A run or an errand is about to begin: from now on it is kept."""
        seg = self.commands.segmentation
        if seg is None or not get_preference("autosave"):
            return
        if seg is not self._segmentation:
            self._leave()
            self._path = autosave_files.new_autosave()
            self._autosave = Autosave(self._path, tell=self._refuse)
            self._segmentation = seg
        self._images, self._window = self._description(seg)
        run = self.commands.run
        assert run is not None
        run.keep = lambda at_once: self._keep(run.array_runs, run.abandoned or not run.stopping, at_once)

    def _keep(self, running: Mapping[Position, ArrayRun], going: bool, at_once: bool) -> None:
        """Called by the run between two sweeps, with the chains that it has come to; `going` unless it was stopped."""
        autosave, seg = self._autosave, self._segmentation
        if autosave is None or seg is None or not (at_once or autosave.due):
            return
        images, window = self._images, {**self._window, RUNNING: going}
        autosave.save(lambda: _make_session({**seg.array_runs, **running}, images, window))

    def _refuse(self, reason: str) -> None:
        """Pass on why an autosave failed, if the window is still there to hear of it."""
        with suppress(RuntimeError):
            self.refused.emit(reason)

    def close(self) -> None:
        """Let go of what is worked on; its autosave stays and can be restored.

        Events go on while the rest of it is written, if there are any; whoever ends them waits for it, because nothing
        can be written any more once Python ends.
        """
        autosave = self._autosave
        self._leave()
        app = QCoreApplication.instance()
        if app is None or not QThread.currentThread().loopLevel():
            autosave_files.wait_for_released()
            if autosave is not None:
                autosave.close()  # its thread, too
        elif not autosave_files.all_written():
            with suppress(TypeError, RuntimeError):  # once is enough
                app.aboutToQuit.disconnect(autosave_files.wait_for_released)
            app.aboutToQuit.connect(autosave_files.wait_for_released)

    def _leave(self) -> None:
        """Let go of what is worked on, without waiting: it may be restored once it is on the disk."""
        if self._autosave is not None and self._path is not None:
            autosave_files.release_autosave(self._path, self._autosave)
        self._autosave = self._path = self._segmentation = None


def _make_session(
    array_runs: Mapping[Position, ArrayRun], images: tuple[SavedImage, ...], window: Mapping[str, Any]
) -> SavedSession:
    """All chains of a segmentation as they are now; to be called where their sweeps are made."""
    runs = {format_position(position): run.interactive.save() for position, run in list(array_runs.items())}
    return SavedSession(runs, images, window)
