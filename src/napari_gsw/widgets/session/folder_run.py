"""What is set in the window, applied to a folder of images by ``napari-gsw batch`` in a process of its own."""

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

from napari_gsw.batch.jobs import Journal, Record
from napari_gsw.batch.report import DONE, FAILED, make_report
from napari_gsw.batch.run import TITLE
from napari_gsw.batch.selection import select_images
from napari_gsw.batch.spec import BatchOptions, BatchSpec
from napari_gsw.batch.teaching import ReferenceImage
from napari_gsw.core.errors import InputError
from napari_gsw.core.settings import Settings
from napari_gsw.core.settings.presets import DEFAULT_PRESET, shared_preset
from napari_gsw.files.output_folder import ensure_folder, replace_atomically
from napari_gsw.files.results import OutputOptions
from napari_gsw.methods import choose
from napari_gsw.widgets.common.dock_panel import Connections

# Milliseconds from one look at the journal to the next.
LOOK = 400
# What a process of Python runs: the command line, wherever its script lies.
COMMAND = "from napari_gsw.cli import main; raise SystemExit(main())"
# Files of what was painted in the window, in the folder of the results.
TAUGHT_IMAGE, TAUGHT_PAINT = "taught-image.npy", "taught-paint.npy"


class PaintedImage(NamedTuple):
    """An image (\\*shape, C or none) on which somebody has painted, and the labels (\\*shape,), 0 where nothing is."""

    image: NDArray[Any]
    paint: NDArray[np.integer]


class FolderRun(QObject):  # type: ignore[misc]
    """Segments every image of a folder with the settings of the window; a run that was stopped goes on.

    Attributes
    ----------
    rows : one for each image, with the columns of ``batch.csv``; `status` is `left` until something has become of it.

    Signals
    -------
    changed : something has become of an image.
    ended : with a sentence about what has become of all.
    """

    changed = Signal()
    ended = Signal(str)

    def __init__(self, connections: Connections, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.rows: list[Record] = []
        self.folder = self.output = Path()
        self._process: subprocess.Popen[bytes] | None = None
        self._looking = QTimer(self)
        self._looking.timeout.connect(self._look)
        connections.stop_on_close(self._looking)
        connections.on_close(self._leave)

    @property
    def running(self) -> bool:
        return self._process is not None

    @property
    def finished(self) -> int:
        """Images of which something has become, be it a failure."""
        return sum(row["status"] in (DONE, FAILED) for row in self.rows)

    def start(
        self, folder: Path, output: Path, preset: str, settings: Settings, seed: int, lesson: PaintedImage | None = None
    ) -> None:
        """Begin; an InputError says why nothing was begun."""
        order = self._order(folder, output, preset, settings, seed, lesson)
        images = select_images(folder, output, order.selection)
        if not images:
            raise InputError(f"there is no image in {str(folder)!r}")
        desk = tempfile.mkdtemp(prefix="napari-gsw-")
        self._sayings, recipe = Path(desk) / "said.txt", Path(desk) / "settings.json"
        recipe.write_text(json.dumps({**order.choice.settings.to_dict(), "seed": seed}))
        words = [sys.executable, "-c", COMMAND, "batch", str(folder), "-o", str(output), "--settings", str(recipe)]
        words += ["--resume", "--quiet", "--table"]
        for teacher in order.teachers:
            words += ["--teach", str(teacher.painted), "--image", str(teacher.image)]
        self.folder, self.output = folder, output
        self._names = [image.name for image in images]
        self._journal = Journal.of(TITLE, order.depends_on(), BatchOptions(output))
        with self._sayings.open("wb") as said:
            self._process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=said, stderr=said)
        self.rows = make_report(self._names, {})
        self._looking.start(LOOK)
        self.changed.emit()

    def stop(self) -> None:
        """End it as Ctrl+C would: what is finished is kept, and a later run goes on from there."""
        if self._process is not None:
            self._process.terminate()

    def _leave(self) -> None:
        """The window is closed: the process ends by itself, and nobody waits for it."""
        process, self._process = self._process, None
        if process is not None:
            process.terminate()
            shutil.rmtree(self._sayings.parent, ignore_errors=True)
            threading.Thread(target=process.wait, name="napari-gsw-folder", daemon=True).start()

    def _order(
        self, folder: Path, output: Path, preset: str, settings: Settings, seed: int, lesson: PaintedImage | None
    ) -> BatchSpec:
        """What ``batch`` is asked for; axes and spacing are those of each file."""
        if output.resolve() == folder.resolve():
            raise InputError("results go into another folder than the images")
        values = settings.replace(axes=Settings().axes, spacing=Settings().spacing).to_dict()
        teachers: tuple[ReferenceImage, ...] = ()
        if lesson is not None:
            ensure_folder(output)
            teacher = ReferenceImage((output / TAUGHT_IMAGE).absolute(), (output / TAUGHT_PAINT).absolute())
            for path, array in zip(teacher, lesson, strict=True):
                with replace_atomically(path) as new:
                    np.save(new, array)
            teachers, values = (teacher,), values | shared_preset(preset)
        return BatchSpec(
            folder, choose("gsw", DEFAULT_PRESET, values), seed, extras=OutputOptions(table=True), teachers=teachers
        )

    def _look(self) -> None:
        """Read what the process has written down, and see whether it has ended."""
        process = self._process
        ended = process is None or process.poll() is not None
        outcomes = {name: outcome for name, (outcome, _) in self._journal.read().items() if outcome is not None}
        rows = make_report(self._names, outcomes)
        if rows != self.rows:
            self.rows = rows
            self.changed.emit()
        if process is not None and ended:
            self._process = None
            self._looking.stop()
            verdict = self._verdict(process.returncode)
            shutil.rmtree(self._sayings.parent, ignore_errors=True)
            self.ended.emit(verdict)

    def _verdict(self, code: int) -> str:
        failed = sum(row["status"] == FAILED for row in self.rows)
        done = self.finished - failed
        words = f"{done} of {len(self.rows)} done" + (f", {failed} failed" if failed else "")
        if code != 0 and self.finished < len(self.rows):
            last = self._sayings.read_text(errors="replace").strip().splitlines()[-1:]
            return f"{words}; stopped" + (f": {last[0]}" if last and code > 0 else "")
        return words
