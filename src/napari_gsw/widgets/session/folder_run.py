"""Segment a folder of images with the settings of the window, by ``napari-gsw batch`` in a process of its own."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from qtpy.QtCore import QObject, QTimer, Signal

from napari_gsw.batch.images import BatchSpec, ReferenceImage, select_images
from napari_gsw.batch.jobs import Journal, Record
from napari_gsw.batch.run import DONE, FAILED, TITLE, make_report
from napari_gsw.core.errors import InputError
from napari_gsw.core.settings import Settings
from napari_gsw.core.settings.presets import DEFAULT_PRESET, shared_preset
from napari_gsw.files.output_folder import ensure_folder, replace_atomically
from napari_gsw.files.results import OutputOptions
from napari_gsw.methods import choose
from napari_gsw.widgets.common.dock_panel import Connections

# Milliseconds between two reads of the journal.
POLL_MS = 400
# Runs the command line in a Python process, wherever its script is installed.
COMMAND = "from napari_gsw.cli import main; raise SystemExit(main())"
# Files in the output folder of what was painted in the window.
TAUGHT_IMAGE, TAUGHT_PAINT = "taught-image.npy", "taught-paint.npy"


class PaintedImage(NamedTuple):
    """An image, with or without channels, and the labels that were painted on it, 0 for none."""

    image: NDArray[Any]
    paint: NDArray[np.integer]


class FolderRun(QObject):  # type: ignore[misc]
    """Segments every image of a folder with the settings of the window, or resumes a run that was stopped."""

    changed = Signal()  # an image is done or failed
    ended = Signal(str)  # with a summary of all images

    def __init__(self, connections: Connections, parent: QObject | None = None) -> None:
        super().__init__(parent)
        # One for each image, with the columns of batch.csv; `status` is `left` until the image is done or failed.
        self.rows: list[Record] = []
        self.folder = self.output = Path()
        self._process: subprocess.Popen[bytes] | None = None
        self._timer = QTimer(self, interval=POLL_MS, timeout=self._poll)
        connections.stop_on_close(self._timer)
        connections.on_close(self._abandon)

    @property
    def running(self) -> bool:
        return self._process is not None

    @property
    def finished(self) -> int:
        return sum(row["status"] in (DONE, FAILED) for row in self.rows)

    def start(
        self, folder: Path, output: Path, preset: str, settings: Settings, seed: int,
        painted: PaintedImage | None = None,
    ) -> None:  # fmt: skip
        if output.resolve() == folder.resolve():
            raise InputError("results go into another folder than the images")
        # Axes and spacing are those of each file.
        values = settings.replace(axes=Settings().axes, spacing=Settings().spacing).to_dict()
        teachers: tuple[ReferenceImage, ...] = ()
        if painted is not None:
            ensure_folder(output)
            teacher = ReferenceImage((output / TAUGHT_IMAGE).absolute(), (output / TAUGHT_PAINT).absolute())
            for path, array in zip(teacher, painted, strict=True):
                with replace_atomically(path) as new:
                    np.save(new, array)
            teachers, values = (teacher,), values | shared_preset(preset)
        choice, extras = choose("gsw", DEFAULT_PRESET, values), OutputOptions(table=True)
        spec = BatchSpec(folder, choice, seed, extras=extras, teachers=teachers)
        images = select_images(folder, output, spec.selection)
        if not images:
            raise InputError(f"there is no image in {str(folder)!r}")
        scratch = Path(tempfile.mkdtemp(prefix="napari-gsw-"))
        self._log, settings_file = scratch / "log.txt", scratch / "settings.json"
        settings_file.write_text(json.dumps({**choice.settings.to_dict(), "seed": seed}))
        command = [sys.executable, "-c", COMMAND, "batch", str(folder), "-o", str(output)]
        command += ["--settings", str(settings_file), "--resume", "--quiet", "--table"]
        for teacher in teachers:
            command += ["--teach", str(teacher.painted), "--image", str(teacher.image)]
        self.folder, self.output = folder, output
        self._names = [image.name for image in images]
        self._journal = Journal(TITLE, spec.depends_on(), output)
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self.rows = make_report(dict.fromkeys(self._names))
        self._timer.start()
        self.changed.emit()

    def stop(self) -> None:
        """End the process as Ctrl+C would: finished images are kept, and a later run resumes from there."""
        if self._process is not None:
            self._process.terminate()

    def _abandon(self) -> None:
        """End the process without waiting for it, because the window is closed."""
        process, self._process = self._process, None
        if process is not None:
            process.terminate()
            shutil.rmtree(self._log.parent, ignore_errors=True)
            threading.Thread(target=process.wait, name="napari-gsw-folder", daemon=True).start()

    def _poll(self) -> None:
        code = None if self._process is None else self._process.poll()
        known = self._journal.read()
        rows = make_report({name: known.get(name, (None, None))[0] for name in self._names})
        if rows != self.rows:
            self.rows = rows
            self.changed.emit()
        if code is not None:
            self._process = None
            self._timer.stop()
            summary = self._summarize(code)
            shutil.rmtree(self._log.parent, ignore_errors=True)
            self.ended.emit(summary)

    def _summarize(self, code: int) -> str:
        failed = sum(row["status"] == FAILED for row in self.rows)
        summary = f"{self.finished - failed} of {len(self.rows)} done" + (f", {failed} failed" if failed else "")
        if code != 0 and self.finished < len(self.rows):
            last = self._log.read_text(errors="replace").strip().splitlines()[-1:]
            return f"{summary}; stopped" + (f": {last[0]}" if last and code > 0 else "")
        return summary
