"""Save and export: everything that a segmentation has come to, with what made it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from napari.utils.notifications import show_info
from numpy.typing import NDArray
from qtpy.QtCore import Qt, Signal
from qtpy.QtGui import QImage
from qtpy.QtWidgets import QComboBox, QFileDialog, QFormLayout, QHBoxLayout, QMainWindow, QPushButton

from napari_gsw.core.errors import InputError
from napari_gsw.core.interactive.interactive_run import InteractiveRun
from napari_gsw.core.posterior.label_table import Columns
from napari_gsw.files import plots
from napari_gsw.files.geometry import Geometry, make_geometry, select_last_axes
from napari_gsw.files.labels import write_label_file
from napari_gsw.files.output_folder import PROVENANCE, output_folder, sibling_name
from napari_gsw.files.results import REGION_TABLE, write_columns, write_trace
from napari_gsw.widgets.common.collapsible import Section
from napari_gsw.widgets.layers.image_source import ImageListSource, ImageSource, Position
from napari_gsw.widgets.layers.result_layers import stack_tables
from napari_gsw.widgets.session.array_run import ArrayRun, DisplayOptions
from napari_gsw.widgets.session.measurements import TableUpdater
from napari_gsw.widgets.session.run_plan import Segmentation
from napari_gsw.widgets.session.session import Session

FORMATS = {
    "TIFF (ImageJ)": ".tif",
    "OME-TIFF": ".ome.tif",
    "OME-Zarr": ".zarr",
    "PNG (2D)": ".png",
    "NumPy": ".npy",
}


class ExportSection(Section):
    """Labels in a format of the user's choice, overlay, trace, uncertainty, regions and provenance, in one folder.

    Signals
    -------
    written : where it went; sent from the thread that wrote it.
    """

    written = Signal(str)

    def __init__(self, session: Session, trace_picture: Callable[[], QImage]) -> None:
        super().__init__("Save and export", "Write labels, pictures and tables into a folder", "widget.md#saving")
        self.session, self._trace_picture = session, trace_picture
        self.format = QComboBox()
        for text, ending in FORMATS.items():
            self.format.addItem(text, ending)
        self.format.setToolTip("The format of the label image; File > Save Selected Layers knows the same ones")
        self.all_button = QPushButton("Export all ...")
        self.all_button.setToolTip("Labels, overlay, trace, uncertainty, table of regions and provenance, in a folder")
        self.trace_button = QPushButton("Trace ...")
        self.trace_button.setToolTip("The trace as a table (.csv) or as a picture (.png)")
        self.table_button = QPushButton("Table")
        self.table_button.setToolTip("Open the table of regions: a row for each label, tied to the picture")
        self.all_button.clicked.connect(self._ask_folder)
        self.table_button.clicked.connect(self.open_table)
        self.trace_button.clicked.connect(self._ask_trace)
        form = QFormLayout()
        form.setContentsMargins(0, 0, 0, 0)
        form.addRow("Labels as", self.format)
        row = QHBoxLayout()
        row.setSpacing(4)
        row.addWidget(self.all_button)
        row.addWidget(self.trace_button)
        row.addWidget(self.table_button)
        self.content.addLayout(form)
        self.content.addLayout(row)
        self.written_line = self.add_line("")
        self.written_line.setVisible(False)
        self.written.connect(self._announce)
        self.measuring = TableUpdater(session.commands, session.canvas, session.connections, self)
        session.framed.connect(self.measuring.look)
        session.state_changed.connect(self.measuring.look)
        session.canvas.changed.connect(self.measuring.move)
        session.layer_events.moved.connect(self.measuring.measure_again)
        self.refresh()

    def refresh(self) -> None:
        something = self.session.array_run is not None
        self.all_button.setEnabled(something)
        self.trace_button.setEnabled(something)
        self.set_summary("labels, trace, overlay, provenance" if something else "nothing yet")

    def _announce(self, where: str) -> None:
        self.written_line.setText(f"Written to {where}")
        self.written_line.setVisible(True)
        show_info(f"GSW segmentation: written to {where}")

    def open_table(self) -> None:
        """Show the table in a dock of its own, below the picture: beside it would be too narrow."""
        dock, _ = self.session.viewer.window.add_plugin_dock_widget("napari-gsw", "Table of regions")
        window = dock.parent()
        if isinstance(window, QMainWindow) and not dock.isFloating():
            window.addDockWidget(Qt.DockWidgetArea.BottomDockWidgetArea, dock)
        dock.show()  # which may have been hidden
        dock.raise_()

    # ---- everything

    def _ask_folder(self) -> None:
        folder = QFileDialog.getExistingDirectory(self, "Export into a folder")
        if folder:
            self.export(Path(folder))

    def export(self, folder: Path) -> None:
        """Write everything into a folder. The chain does it between two sweeps, so that all of it is one state."""
        seg, position = self.session.segmentation, self.session.position
        if seg is None or position is None:
            return
        ending = str(self.format.currentData())
        view, sampling = self.session.commands.view, self.session.commands.sampling

        def order(_: InteractiveRun) -> None:
            try:
                write_all(seg, view, sampling, folder, f"labels{ending}")
            except InputError:
                raise
            except Exception as reason:  # a full disk or a broken library must not end the chain
                raise InputError(f"nothing was exported: {reason}") from reason
            self.written.emit(str(folder))

        self.session.commands.submit(position, order)

    # ---- the trace alone

    def _ask_trace(self) -> None:
        path, _ = QFileDialog.getSaveFileName(self, "Save the trace", "trace.csv", "Table (*.csv);;Picture (*.png)")
        if path:
            self.save_trace(Path(path))

    def save_trace(self, path: Path) -> None:
        """Write the trace as .csv, or as it is drawn as .png."""
        frame = self.session.frame
        if frame is None:
            return
        try:
            if path.suffix.lower() == ".png":
                if not self._trace_picture().save(str(path)):
                    raise OSError("the picture cannot be written")
            else:
                table = path.with_suffix(".csv")
                if table != path and table.exists():  # the dialog has asked about another name
                    raise OSError(f"{table.name} is there already; give the name with its ending")
                write_trace(frame.array_run.traces(), table)
        except OSError as reason:
            self.session.noticed.emit(f"the trace cannot be written to {path}: {reason.strerror or reason}")
            return
        self.written.emit(str(path))


def geometry_of(source: ImageSource) -> Geometry | None:
    """Where the labels of a source lie; several images have a place each."""
    if source.is_image_list:
        return None
    place = source.geometry()
    scale, translate = place["scale"].tolist(), place["translate"].tolist()
    return make_geometry(len(source.label_shape), source.label_axes, scale, place["units"], translate)


def write_all(seg: Segmentation, view: DisplayOptions, sampling: bool, folder: Path, labels_name: str) -> None:
    """Write what is known of every array of a segmentation into a folder, and the labels as they are on the screen."""
    source = seg.plan.source
    where = geometry_of(source)
    if source.is_chunked and not labels_name.endswith(".zarr"):
        raise InputError("labels of an image this large are written as OME-Zarr; choose that format")
    with output_folder(folder, sibling_name(labels_name, PROVENANCE)) as scratch:
        all_labels: Any = None if source.is_chunked else np.zeros(source.label_shape, np.uint32)
        provenances: dict[str, Any] = {}
        tables: list[tuple[Position, list[Columns]]] = []
        for position, array_run in seg.array_runs.items():
            stem = "".join(f"{p:03d}." for p in position)
            result = array_run.result()
            made_by, labels, clusters = dict(result.provenance), None, None
            if array_run.is_final(view, sampling):
                labels = array_run.final()
            else:
                labels, clusters = array_run.seen(view)
                made_by["shown"] = view.record(array_run.exports_regions(view))
            if source.is_chunked and where is not None:
                all_labels, where = labels, select_last_axes(where, source.depth)
            else:
                all_labels[source.index(position)] = labels
            provenances[" ".join(map(str, position))] = made_by
            write_trace(result.traces, scratch / f"{stem}trace.csv")
            plots.save_trace(result.traces, scratch / f"{stem}trace.png")
            if not source.is_image_list:
                plots.save_overlay(array_run.image, labels, scratch / f"{stem}overlay.png", array_run.axes)
                plots.save_uncertainty(result, scratch / f"{stem}uncertainty.png")
            tables.append((position, array_run.final_tables(source, labels, clusters)))
        provenance = provenances[""] if not source.stack_shape else {"software": "napari-gsw", "parts": provenances}
        if not source.is_chunked:
            all_labels = all_labels.astype(np.uint16 if all_labels.max() <= np.iinfo(np.uint16).max else np.uint32)
        if isinstance(source, ImageListSource):
            put_several(source, seg.array_runs[()], all_labels, scratch, labels_name, provenance)
        else:
            write_label_file(all_labels, scratch / labels_name, where, source.layer.name, provenance)
        for number in range(len(tables[0][1])):  # one table, or one for each of several images
            stem = f"{number + 1:03d}." if source.is_image_list else ""
            rows = [(position, is_image_list[number]) for position, is_image_list in tables]
            write_columns(stack_tables(source.stack_letters, rows), scratch / f"{stem}{REGION_TABLE}")


def put_several(
    source: ImageListSource,
    array_run: ArrayRun,
    labels: NDArray[np.integer],
    scratch: Path,
    labels_name: str,
    provenance: dict[str, Any],
) -> None:
    """The labels (images, y, x) and the overlay of each of several images, in files that begin with 001, 002, ..."""
    assert array_run.images is not None
    for number, (one, image) in enumerate(zip(source.members, array_run.images, strict=True)):
        own, stem = source.plane(labels, number), f"{number + 1:03d}."
        plane = np.zeros(one.label_shape, own.dtype)
        plane[one.index(())] = own
        write_label_file(plane, scratch / (stem + labels_name), geometry_of(one), one.layer.name, provenance)
        plots.save_overlay(image, own, scratch / f"{stem}overlay.png", one.axes)
