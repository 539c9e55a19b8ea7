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
from napari_gsw.core.pipeline.live_chain import LiveChain
from napari_gsw.core.posterior.region_table import Columns
from napari_gsw.files import plots
from napari_gsw.files.folders import output_folder
from napari_gsw.files.geometry import Geometry, geometry, spatial
from napari_gsw.files.label_formats import companion
from napari_gsw.files.labels import put_labels
from napari_gsw.files.ownership import PROVENANCE
from napari_gsw.files.results import TABLE, write_trace
from napari_gsw.files.tables import put_columns
from napari_gsw.widgets.kit.section import Section
from napari_gsw.widgets.layers.several_images import SeveralImages
from napari_gsw.widgets.layers.source import Position, Source
from napari_gsw.widgets.layers.stacked_tables import stacked_tables
from napari_gsw.widgets.session.array_run import ArrayRun
from napari_gsw.widgets.session.measuring import Measuring
from napari_gsw.widgets.session.plan import Segmentation
from napari_gsw.widgets.session.session import Session
from napari_gsw.widgets.session.view import View

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
        self.measuring = Measuring(session.orders, session.canvas, session.link, self)
        session.framed.connect(self.measuring.look)
        session.state_changed.connect(self.measuring.look)
        session.canvas.changed.connect(self.measuring.move)
        session.ties.moved.connect(self.measuring.measure_again)
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
        view, sampling = self.session.orders.view, self.session.orders.sampling

        def order(_: LiveChain) -> None:
            try:
                write_all(seg, view, sampling, folder, f"labels{ending}")
            except InputError:
                raise
            except Exception as reason:  # a full disk or a broken library must not end the chain
                raise InputError(f"nothing was exported: {reason}") from reason
            self.written.emit(str(folder))

        self.session.orders.submit(position, order)

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


def geometry_of(source: Source) -> Geometry | None:
    """Where the labels of a source lie; several images have a place each."""
    if source.several:
        return None
    place = source.geometry()
    scale, translate = place["scale"].tolist(), place["translate"].tolist()
    return geometry(len(source.label_shape), source.label_axes, scale, place["units"], translate)


def write_all(seg: Segmentation, view: View, sampling: bool, folder: Path, labels_name: str) -> None:
    """Write what is known of every array of a segmentation into a folder, and the labels as they are on the screen."""
    source = seg.plan.source
    where = geometry_of(source)
    if source.large and not labels_name.endswith(".zarr"):
        raise InputError("labels of an image this large are written as OME-Zarr; choose that format")
    with output_folder(folder, companion(labels_name, PROVENANCE)) as scratch:
        all_labels: Any = None if source.large else np.zeros(source.label_shape, np.uint32)
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
            if source.large and where is not None:
                all_labels, where = labels, spatial(where, source.depth)
            else:
                all_labels[source.index(position)] = labels
            provenances[" ".join(map(str, position))] = made_by
            write_trace(result.traces, scratch / f"{stem}trace.csv")
            plots.save_trace(result.traces, scratch / f"{stem}trace.png")
            if not source.several:
                plots.save_overlay(array_run.image, labels, scratch / f"{stem}overlay.png", array_run.axes)
                plots.save_uncertainty(result, scratch / f"{stem}uncertainty.png")
            tables.append((position, array_run.final_tables(source, labels, clusters)))
        provenance = provenances[""] if not source.loop else {"software": "napari-gsw", "parts": provenances}
        if not source.large:
            all_labels = all_labels.astype(np.uint16 if all_labels.max() <= np.iinfo(np.uint16).max else np.uint32)
        if isinstance(source, SeveralImages):
            put_several(source, seg.array_runs[()], all_labels, scratch, labels_name, provenance)
        else:
            put_labels(all_labels, scratch / labels_name, where, source.layer.name, provenance)
        for number in range(len(tables[0][1])):  # one table, or one for each of several images
            stem = f"{number + 1:03d}." if source.several else ""
            rows = [(position, several[number]) for position, several in tables]
            put_columns(stacked_tables(source.loop_letters, rows), scratch / f"{stem}{TABLE}")


def put_several(
    source: SeveralImages,
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
        put_labels(plane, scratch / (stem + labels_name), geometry_of(one), one.layer.name, provenance)
        plots.save_overlay(image, own, scratch / f"{stem}overlay.png", one.axes)
