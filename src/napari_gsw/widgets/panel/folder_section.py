"""Apply to a folder: what is set, and what was painted, for many images; what has become of each."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from qtpy.QtWidgets import QCheckBox, QFileDialog, QHBoxLayout, QListWidget, QListWidgetItem, QProgressBar

from napari_gsw.batch.jobs import Record
from napari_gsw.batch.report import DONE, FAILED
from napari_gsw.core.errors import InputError
from napari_gsw.files.images import read_image, read_labels
from napari_gsw.widgets.common.collapsible import Section
from napari_gsw.widgets.common.labels import make_button, report_error
from napari_gsw.widgets.common.worker import make_worker
from napari_gsw.widgets.session.folder_run import FolderRun, PaintedImage
from napari_gsw.widgets.session.run_plan import RunPlan
from napari_gsw.widgets.session.session import Session

WHO = "GSW segmentation"


class FolderSection(Section):
    """A button, a bar and a list of images.

    Parameters
    ----------
    plan : what the form asks for; raises an InputError if that cannot be.
    preset : the name of the preset that was chosen last.
    """

    def __init__(self, session: Session, plan: Callable[[], RunPlan], preset: Callable[[], str]) -> None:
        super().__init__(
            "Apply to a folder", "Segment every image of a folder with what is set here", "widget.md#a-folder-of-images"
        )
        self.session, self._plan, self._preset = session, plan, preset
        self.run = FolderRun(session.connections, self)
        self.teach = QCheckBox("Teach them what I have painted")
        self.teach.setToolTip(
            "Segment every image together with this one and its locked strokes, so that labels mean the same in all"
        )
        self.start_button = make_button(
            "Apply to a folder ...", "Choose the folder of the images, and then one for the results", self._ask
        )
        self.stop_button = make_button(
            "Stop", "Stop; what is finished is kept, and the same folders go on from there", self.run.stop
        )
        self.bar = QProgressBar()
        self.bar.setFormat("%v of %m")
        self.list = QListWidget()
        self.list.setMaximumHeight(160)
        self.list.setToolTip("What has become of each image; click one that is done to open it with its labels")
        self.list.itemClicked.connect(self._open_item)
        row = QHBoxLayout()
        row.setSpacing(4)
        row.addWidget(self.start_button, 1)
        row.addWidget(self.stop_button)
        self.content.addWidget(self.teach)
        self.content.addLayout(row)
        self.content.addWidget(self.bar)
        self.content.addWidget(self.list)
        self.run.changed.connect(self._show)
        self.run.ended.connect(self._ended)
        self._said = ""
        self._show()

    def refresh(self) -> None:
        """Follow what is painted on the screen."""
        frame = self.session.frame
        self.teach.setEnabled(frame is not None and bool(frame.locks.any()))

    # ---- beginning

    def _ask(self) -> None:
        folder = QFileDialog.getExistingDirectory(self, "Images to segment")
        if not folder:
            return
        output = QFileDialog.getExistingDirectory(self, "Folder for the results, another one", folder)
        if output:
            self.apply(Path(folder), Path(output))

    def apply(self, folder: Path, output: Path) -> None:
        """Begin with the images of a folder; what cannot be done is said."""
        try:
            plan = self._plan()
            if plan.maps or plan.sites is not None:  # to leave them out without a word would give other labels
                raise InputError(
                    "layers of superpixels or evidence belong to this image alone: choose none of them, or give the "
                    "maps of the others to napari-gsw batch (--features, --boundaries, --foreground)"
                )
            lesson = self._lesson() if self.teach.isChecked() and self.teach.isEnabled() else None
            self._said = ""
            self.run.start(folder, output, self._preset(), plan.settings, plan.seed, lesson)
        except InputError as reason:
            report_error(reason, WHO)

    def _lesson(self) -> PaintedImage:
        """The image on the screen and what is locked on it."""
        seg, position, frame = self.session.segmentation, self.session.position, self.session.frame
        array_run = self.session.array_run
        if seg is None or position is None or frame is None or array_run is None:
            raise InputError("nothing is painted yet")
        if seg.plan.source.is_image_list or seg.plan.source.is_chunked:
            raise InputError("what is painted on several images, or on one in blocks, cannot be taught to a folder")
        paint = array_run.paint_locked(frame.locks, frame.numbers)
        return PaintedImage(seg.plan.source.image(position), paint)

    # ---- what becomes of it

    def _show(self) -> None:
        """Bring bar, list and buttons up to date."""
        rows, running = self.run.rows, self.run.running
        self.start_button.setEnabled(not running)
        self.stop_button.setEnabled(running)
        self.bar.setVisible(bool(rows))
        self.list.setVisible(bool(rows))
        self.bar.setRange(0, max(1, len(rows)))
        self.bar.setValue(self.run.finished)
        if self.list.count() != len(rows):
            self.list.clear()
            self.list.addItems([""] * len(rows))
        for k, row in enumerate(rows):
            self.list.item(k).setText(words_of(row))
        last = self._said or (f"{self.run.finished} of {len(rows)}" if rows else "many images at once")
        self.set_summary(last)

    def _ended(self, verdict: str) -> None:
        self._said = verdict
        self._show()

    def _open_item(self, item: QListWidgetItem) -> None:
        row = self.run.rows[self.list.row(item)]
        if row["status"] == DONE:
            self.open(row)

    def open(self, row: Record) -> None:
        """Open an image and its labels; they are read in a thread."""
        name, labels = str(row["name"]), self.run.output / str(row["labels"])
        work = partial(_read, self.run.folder / name, labels)
        worker = make_worker(work)
        worker.returned.connect(partial(self._place, name))
        worker.errored.connect(self._failed)
        worker.start()

    def _place(self, name: str, read: tuple[Any, Any]) -> None:
        if not self.session.connections.is_open:
            return
        image, labels = read
        viewer = self.session.viewer
        viewer.add_image(image, name=name)
        viewer.add_labels(labels, name=f"{name} labels")

    def _failed(self, reason: Exception) -> None:
        report_error(reason, WHO)


def _read(image: Path, labels: Path) -> tuple[Any, Any]:
    return read_image(image)[0], read_labels(labels)


def words_of(row: Record) -> str:
    """A row of the list.

    >>> words_of({"name": "a.tif", "status": "done", "regions": 12, "seconds": 3.21, "reason": ""})
    'a.tif: 12 regions, 3.2 s'
    """
    if row["status"] == FAILED:
        return f"{row['name']}: failed, {row['reason']}"
    if row["status"] != DONE:
        return f"{row['name']}: waiting"
    return f"{row['name']}: {row['regions']} regions, {row['seconds']:.1f} s"
