"""Save and export: all results of a segmentation in a folder, and the segmentation of a folder of images."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from napari.utils.notifications import show_info
from qtpy.QtCore import Qt, Signal
from qtpy.QtGui import QImage
from qtpy.QtWidgets import QComboBox, QFileDialog, QListWidget, QListWidgetItem, QMainWindow, QProgressBar

from napari_gsw.batch.jobs import Record
from napari_gsw.batch.run import DONE, FAILED
from napari_gsw.core.errors import InputError
from napari_gsw.core.interactive.interactive_run import InteractiveRun
from napari_gsw.core.posterior.region_table import Columns
from napari_gsw.files import plots
from napari_gsw.files.geometry import Geometry, make_geometry, select_axes
from napari_gsw.files.images import read_image, read_labels
from napari_gsw.files.labels import write_label_file
from napari_gsw.files.output_folder import PROVENANCE, output_folder, sibling_name
from napari_gsw.files.results import REGION_TABLE, write_columns, write_trace
from napari_gsw.widgets.common.layouts import Section, make_form, make_row
from napari_gsw.widgets.common.text import make_button, make_check_box, report_error
from napari_gsw.widgets.common.worker import run_in_thread
from napari_gsw.widgets.layers.image_source import ImageListSource, ImageSource, Position
from napari_gsw.widgets.layers.result_layers import stack_tables
from napari_gsw.widgets.session.array_run import DisplayOptions
from napari_gsw.widgets.session.folder_run import FolderRun, PaintedImage
from napari_gsw.widgets.session.layer_view import TableUpdater
from napari_gsw.widgets.session.run_plan import RunPlan, Segmentation
from napari_gsw.widgets.session.session import Session

FORMATS = {"TIFF (ImageJ)": ".tif", "OME-TIFF": ".ome.tif", "OME-Zarr": ".zarr", "PNG (2D)": ".png", "NumPy": ".npy"}
SENDER = "GSW segmentation"
TEACH_TIP = "Segment every image jointly with this one and its locked scribbles: a label means the same in all of them"


class ExportSection(Section):
    """Writes everything into a folder, or the trace alone; the signal `written` comes from the writing thread."""

    written = Signal(str)

    def __init__(self, session: Session, trace_picture: Callable[[], QImage]) -> None:
        super().__init__("Save and export", "Write labels, plots and tables into a folder", "widget.md#saving")
        self.session, self._trace_picture = session, trace_picture
        self.format = QComboBox(toolTip="Format of the label image; File > Save Selected Layers has the same formats")
        for text, suffix in FORMATS.items():
            self.format.addItem(text, suffix)
        all_tip = "Labels, overlay, trace, uncertainty, table of regions and provenance, in a folder"
        self.all_button = make_button("Export all ...", all_tip, self._ask_folder)
        self.trace_button = make_button("Trace ...", "The trace as a table (.csv) or a figure (.png)", self._ask_trace)
        self.table_button = make_button("Table", "Open the table of regions, linked to the image", self.open_table)
        self.content.addLayout(make_form(("Labels as", self.format)))
        self.content.addLayout(make_row(self.all_button, self.trace_button, self.table_button))
        self.written_line = self.add_line("")
        self.written_line.hide()
        self.written.connect(self._announce)
        self.measuring = TableUpdater(session, session.layer_view, self)
        session.framed.connect(self.measuring.update)
        session.state_changed.connect(self.measuring.update)
        session.layer_view.changed.connect(self.measuring.move)
        session.image_moved.connect(self.measuring.measure_again)
        self.refresh()

    def refresh(self) -> None:
        has_result = self.session.array_run is not None
        for button in (self.all_button, self.trace_button):
            button.setEnabled(has_result)
        self.set_summary("labels, trace, overlay, provenance" if has_result else "nothing yet")

    def _announce(self, path: str) -> None:
        self.written_line.setText(f"Written to {path}")
        self.written_line.setVisible(True)
        show_info(f"GSW segmentation: written to {path}")

    def open_table(self) -> None:
        """Show the table in a dock of its own, below the image: beside it would be too narrow."""
        dock, _ = self.session.viewer.window.add_plugin_dock_widget("napari-gsw", "Table of regions")
        window = dock.parent()
        if isinstance(window, QMainWindow) and not dock.isFloating():
            window.addDockWidget(Qt.DockWidgetArea.BottomDockWidgetArea, dock)
        dock.show()  # which may have been hidden
        dock.raise_()

    def _ask_folder(self) -> None:
        if folder := QFileDialog.getExistingDirectory(self, "Export into a folder"):
            self.export(Path(folder))

    def export(self, folder: Path) -> None:
        """Write everything into a folder. The run does it between two sweeps, so that all of it is of one sample."""
        seg, position = self.session.segmentation, self.session.position
        if seg is None or position is None:
            return
        labels_name = f"labels{self.format.currentData()}"
        view, sampling = self.session.view, self.session.is_sampling

        def write(_: InteractiveRun) -> None:
            try:
                write_all(seg, view, sampling, folder, labels_name)
            except InputError:
                raise
            except Exception as reason:  # a full disk or a broken library must not end the run
                raise InputError(f"nothing was exported: {reason}") from reason
            self.written.emit(str(folder))

        self.session.submit(position, write)

    def _ask_trace(self) -> None:
        kinds = "Table (*.csv);;Figure (*.png)"
        if path := QFileDialog.getSaveFileName(self, "Save the trace", "trace.csv", kinds)[0]:
            self.save_trace(Path(path))

    def save_trace(self, path: Path) -> None:
        frame = self.session.frame
        if frame is None:
            return
        try:
            if path.suffix.lower() == ".png":
                if not self._trace_picture().save(str(path)):
                    raise OSError("the image cannot be written")
            else:
                table = path.with_suffix(".csv")
                if table != path and table.exists():  # the dialog has asked about another name
                    raise OSError(f"{table.name} exists already; give the name with its suffix")
                write_trace(frame.array_run.traces(), table)
        except OSError as reason:
            self.session.noticed.emit(f"the trace cannot be written to {path}: {reason.strerror or reason}")
        else:
            self.written.emit(str(path))


def make_label_geometry(source: ImageSource) -> Geometry:
    """Get where the labels of a source lie."""
    transform = source.geometry()
    scale, translate = transform["scale"].tolist(), transform["translate"].tolist()
    return make_geometry(len(source.label_shape), source.label_axes, scale, transform["units"], translate)


def write_all(seg: Segmentation, view: DisplayOptions, sampling: bool, folder: Path, labels_name: str) -> None:
    """Write all results of a segmentation into a folder, with the labels as they are on the screen.

    Labels and overlay of each of several images are in files that begin with 001, 002, ...
    """
    source = seg.plan.source
    if source.is_chunked and not labels_name.endswith(".zarr"):
        raise InputError("labels of an image this large are written as OME-Zarr; choose that format")
    with output_folder(folder, sibling_name(labels_name, PROVENANCE)) as scratch:
        all_labels: Any = None if source.is_chunked else np.zeros(source.label_shape, np.uint32)
        provenances: dict[str, Any] = {}
        tables: list[tuple[Position, list[Columns]]] = []
        for position, array_run in seg.array_runs.items():
            stem = "".join(f"{p:03d}." for p in position)
            result = array_run.result()
            made_by = dict(result.provenance)
            labels, clusters, shown = array_run.export(view, sampling)
            if shown is not None:
                made_by["shown"] = shown
            provenances[" ".join(map(str, position))] = made_by
            if source.is_chunked:
                all_labels = labels
            else:
                all_labels[source.index(position)] = labels
            write_trace(result.traces, scratch / f"{stem}trace.csv")
            plots.save_trace(result.traces, scratch / f"{stem}trace.png")
            if not source.is_image_list:
                plots.save_overlay(array_run.image, labels, scratch / f"{stem}overlay.png", array_run.axes)
                plots.save_uncertainty(result, scratch / f"{stem}uncertainty.png")
            tables.append((position, array_run.measuring(source, labels, clusters)()))
        provenance = {"software": "napari-gsw", "parts": provenances} if source.stack_shape else provenances[""]
        if not source.is_chunked:
            all_labels = all_labels.astype(np.uint16 if all_labels.max() <= np.iinfo(np.uint16).max else np.uint32)
        if isinstance(source, ImageListSource):
            images = seg.array_runs[()].images or []
            for number, (member, image) in enumerate(zip(source.members, images, strict=True)):
                plane, stem = source.plane(all_labels, number), f"{number + 1:03d}."
                whole = np.zeros(member.label_shape, plane.dtype)
                whole[member.index(())] = plane
                path = scratch / (stem + labels_name)
                write_label_file(whole, path, make_label_geometry(member), member.layer.name, provenance)
                plots.save_overlay(image, plane, scratch / f"{stem}overlay.png", member.axes)
        else:
            geometry = make_label_geometry(source)
            if source.is_chunked:  # the labels have the axes of the array alone
                geometry = select_axes(geometry, geometry.axes[-source.depth :])
            write_label_file(all_labels, scratch / labels_name, geometry, source.layer.name, provenance)
        for number in range(len(tables[0][1])):  # one table, or one for each of several images
            stem = f"{number + 1:03d}." if source.is_image_list else ""
            columns = [(position, of_images[number]) for position, of_images in tables]
            write_columns(stack_tables(source.stack_letters, columns), scratch / f"{stem}{REGION_TABLE}")


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
        self.bar = QProgressBar(format="%v of %m")
        self.list = QListWidget(toolTip="The result of each image; click a finished one to open it with its labels")
        self.list.setMaximumHeight(160)
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
        try:
            plan = self._plan()
            if plan.maps or plan.sites is not None:  # to leave them out without a word would give other labels
                raise InputError(
                    "layers of superpixels or evidence belong to this image alone: choose none of them, or give the "
                    "maps of the others to napari-gsw batch (--features, --boundaries, --foreground)"
                )
            painted, frame = None, self.session.frame
            if self.teach.isChecked() and self.teach.isEnabled() and frame is not None:
                seg, position = self.session.segmentation, self.session.position
                assert seg is not None
                assert position is not None
                source = seg.plan.source
                if source.is_image_list or source.is_chunked:
                    raise InputError("scribbles on several images, or a chunked image, cannot be applied to a folder")
                labels = seg.array_runs[position].paint_locked(frame.locks, frame.numbers)
                painted = PaintedImage(source.image(position), labels)
            self._result = ""
            self.run.start(folder, output, self._preset(), plan.settings, plan.seed, painted)
        except InputError as reason:
            report_error(reason, SENDER)

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
        record = self.run.rows[self.list.row(item)]
        if record["status"] == DONE:
            name = str(record["name"])
            image, labels = self.run.folder / name, self.run.output / str(record["labels"])

            def add_layers(arrays: tuple[Any, Any]) -> None:
                if self.session.connections.is_open:
                    self.session.viewer.add_image(arrays[0], name=name)
                    self.session.viewer.add_labels(arrays[1], name=f"{name} labels")

            run_in_thread(
                lambda: (read_image(image)[0], read_labels(labels)), add_layers, partial(report_error, source=SENDER)
            )


def describe_record(record: Record) -> str:
    """Describe what has become of an image.

    >>> describe_record({"name": "a.tif", "status": "done", "regions": 12, "seconds": 3.21, "reason": ""})
    'a.tif: 12 regions, 3.2 s'
    """
    text = "waiting"
    if record["status"] == FAILED:
        text = f"failed, {record['reason']}"
    elif record["status"] == DONE:
        text = f"{record['regions']} regions, {record['seconds']:.1f} s"
    return f"{record['name']}: {text}"
