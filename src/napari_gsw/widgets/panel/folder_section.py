"""Apply to a folder: segment many images with these settings and scribbles."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from qtpy.QtWidgets import QFileDialog, QListWidget, QListWidgetItem, QProgressBar

from napari_gsw.batch.jobs import Record
from napari_gsw.batch.run import DONE, FAILED
from napari_gsw.core.errors import InputError
from napari_gsw.files.images import read_image, read_labels
from napari_gsw.widgets.common.collapsible import Section
from napari_gsw.widgets.common.labels import make_button, make_check_box, report_error
from napari_gsw.widgets.common.layouts import make_row
from napari_gsw.widgets.common.worker import make_worker
from napari_gsw.widgets.session.folder_run import FolderRun, PaintedImage
from napari_gsw.widgets.session.run_plan import RunPlan
from napari_gsw.widgets.session.session import Session

SENDER = "GSW segmentation"
TEACH_TIP = "Segment every image jointly with this one and its locked scribbles: a label means the same in all of them"


class FolderSection(Section):
    """Starts a batch of images with the plan and the preset of the form, and lists what has become of each."""

    def __init__(self, session: Session, plan: Callable[[], RunPlan], preset: Callable[[], str]) -> None:
        super().__init__(
            "Apply to a folder", "Segment every image of a folder with these settings", "widget.md#a-folder-of-images"
        )
        self.session, self._plan, self._preset = session, plan, preset
        self.run = FolderRun(session.connections, self)
        self.teach = make_check_box("Apply my scribbles to every image", TEACH_TIP)
        start_tip = "Choose the folder of the images, and then one for the results"
        stop_tip = "Stop and keep what is finished; start with the same folders to resume"
        self.start_button = make_button("Apply to a folder ...", start_tip, self._ask)
        self.stop_button = make_button("Stop", stop_tip, self.run.stop)
        self.bar = QProgressBar()
        self.bar.setFormat("%v of %m")
        self.list = QListWidget()
        self.list.setMaximumHeight(160)
        self.list.setToolTip("The result of each image; click a finished one to open it with its labels")
        self.list.itemClicked.connect(self._open_item)
        self.content.addWidget(self.teach)
        self.content.addLayout(make_row((self.start_button, 1), self.stop_button))
        self.content.addWidget(self.bar)
        self.content.addWidget(self.list)
        self.run.changed.connect(self._show)
        self.run.ended.connect(self._ended)
        self._result = ""
        self._show()

    def refresh(self) -> None:
        frame = self.session.frame
        self.teach.setEnabled(frame is not None and bool(frame.locks.any()))

    def _ask(self) -> None:
        folder = QFileDialog.getExistingDirectory(self, "Images to segment")
        if folder and (output := QFileDialog.getExistingDirectory(self, "Another folder, for the results", folder)):
            self.apply(Path(folder), Path(output))

    def apply(self, folder: Path, output: Path) -> None:
        """Start with the images of a folder, or report why that is impossible."""
        try:
            plan = self._plan()
            if plan.maps or plan.sites is not None:  # to leave them out without a word would give other labels
                raise InputError(
                    "layers of superpixels or evidence belong to this image alone: choose none of them, or give the "
                    "maps of the others to napari-gsw batch (--features, --boundaries, --foreground)"
                )
            painted = self._painted_image() if self.teach.isChecked() and self.teach.isEnabled() else None
            self._result = ""
            self.run.start(folder, output, self._preset(), plan.settings, plan.seed, painted)
        except InputError as reason:
            report_error(reason, SENDER)

    def _painted_image(self) -> PaintedImage:
        seg, position, frame = self.session.segmentation, self.session.position, self.session.frame
        array_run = self.session.array_run
        if seg is None or position is None or frame is None or array_run is None:
            raise InputError("no scribble can be applied: nothing is painted yet")
        source = seg.plan.source
        if source.is_image_list or source.is_chunked:
            raise InputError("scribbles on several images, or on a chunked image, cannot be applied to a folder")
        return PaintedImage(source.image(position), array_run.paint_locked(frame.locks, frame.numbers))

    def _show(self) -> None:
        records, running = self.run.rows, self.run.running
        self.start_button.setEnabled(not running)
        self.stop_button.setEnabled(running)
        self.bar.setVisible(bool(records))
        self.list.setVisible(bool(records))
        self.bar.setRange(0, max(1, len(records)))
        self.bar.setValue(self.run.finished)
        if self.list.count() != len(records):
            self.list.clear()
            self.list.addItems([""] * len(records))
        for index, record in enumerate(records):
            self.list.item(index).setText(describe_record(record))
        counts = f"{self.run.finished} of {len(records)}" if records else "many images at once"
        self.set_summary(self._result or counts)

    def _ended(self, result: str) -> None:
        self._result = result
        self._show()

    def _open_item(self, item: QListWidgetItem) -> None:
        """Open an image and its labels, which are read in a thread."""
        record = self.run.rows[self.list.row(item)]
        if record["status"] == DONE:
            name = str(record["name"])
            worker = make_worker(partial(_read, self.run.folder / name, self.run.output / str(record["labels"])))
            worker.returned.connect(partial(self._add_layers, name))
            worker.errored.connect(lambda reason: report_error(reason, SENDER))
            worker.start()

    def _add_layers(self, name: str, arrays: tuple[Any, Any]) -> None:
        if self.session.connections.is_open:
            self.session.viewer.add_image(arrays[0], name=name)
            self.session.viewer.add_labels(arrays[1], name=f"{name} labels")


def _read(image: Path, labels: Path) -> tuple[Any, Any]:
    return read_image(image)[0], read_labels(labels)


def describe_record(record: Record) -> str:
    """Describe what has become of an image.

    >>> describe_record({"name": "a.tif", "status": "done", "regions": 12, "seconds": 3.21, "reason": ""})
    'a.tif: 12 regions, 3.2 s'
    """
    if record["status"] == FAILED:
        return f"{record['name']}: failed, {record['reason']}"
    if record["status"] != DONE:
        return f"{record['name']}: waiting"
    return f"{record['name']}: {record['regions']} regions, {record['seconds']:.1f} s"
