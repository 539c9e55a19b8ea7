"""The widget "Compare segmentations": choose Labels layers, read how well they agree, see where they do not."""

from __future__ import annotations

import csv
import io
import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import napari
import numpy as np
from napari.layers import Image, Labels
from napari.qt.threading import create_worker
from napari.utils.notifications import show_error
from numpy.typing import NDArray
from qtpy.QtCore import QEvent, Qt, QTimer
from qtpy.QtGui import QCloseEvent, QResizeEvent
from qtpy.QtWidgets import (
    QAbstractItemView,
    QApplication,
    QCheckBox,
    QComboBox,
    QDoubleSpinBox,
    QFileDialog,
    QFormLayout,
    QFrame,
    QHBoxLayout,
    QHeaderView,
    QLabel,
    QListWidget,
    QListWidgetItem,
    QPushButton,
    QScrollArea,
    QTableWidget,
    QTableWidgetItem,
    QVBoxLayout,
    QWidget,
)

from napari_gsw.core.errors import InputError
from napari_gsw.core.metrics import Scores, default_tolerance, disagreement, scores

# How often the step that the worker is at is shown, in milliseconds.
TICK = 100
# What happens to the list of layers, or to a layer in it, that can change what there is to choose from.
CHANGES = {"inserted", "removed", "changed", "reordered", "renamed", "data"}
# Where a layer lies in the world; the difference lies where the segmentation does.
SPACE = ("scale", "translate", "rotate", "shear", "affine", "units", "axis_labels")
# In the metadata of the layers that this panel made, so that nobody else's is written over.
MARK = "difference"
# A table with more rows than this scrolls.
ROWS = 8


class Column(NamedTuple):
    """A column of the table: what it is called, what it tells, and how a row is written."""

    header: str
    tip: str
    text: Callable[[Scores], str]


COLUMNS = (
    Column(
        "Rand ↑",
        "Rand index: the share of the pairs of pixels that are together in both or apart in both.\n"
        "0 to 1, higher is better. Over several references it is the probabilistic Rand index.",
        lambda row: f"{row.rand:.3f}",
    ),
    Column(
        "Adj.\nRand ↑",
        "Adjusted Rand index: the Rand index corrected for chance.\n"
        "0 for unrelated segmentations, 1 for equal ones, higher is better.",
        lambda row: f"{row.adjusted_rand:.3f}",
    ),
    Column(
        "VI ↓",
        "Variation of information in bits: what one segmentation leaves unknown about the other, both ways.\n"
        "0 for equal ones, lower is better.",
        lambda row: f"{row.variation_of_information:.3f}",
    ),
    Column(
        "Cover-\ning ↑",
        "How well the regions of the reference are covered: their best intersection over union, averaged by size.\n"
        "0 to 1, higher is better.",
        lambda row: f"{row.covering:.3f}",
    ),
    Column(
        "Bound.\nF ↑",
        "Harmonic mean of two shares: boundary pixels of the segmentation near the reference's, and the reverse.\n"
        "0 to 1, higher is better.",
        lambda row: f"{row.boundary_f:.3f}",
    ),
    Column(
        "Regions",
        "Number of labels of the segmentation / of the reference, where they are compared.\n"
        "Neither more nor fewer is better; the closer the two, the better.",
        lambda row: f"{_count(row.regions)} / {_count(row.reference_regions)}",
    ),
)


class Outcome(NamedTuple):
    """What a comparison found.

    Attributes
    ----------
    rows : one for each reference, and one for all if there are several.
    difference : share of the references that disagree at each pixel, of the segmentation's shape.
    """

    rows: list[Scores]
    difference: NDArray[np.float32]


class Failure(NamedTuple):
    """Why a comparison found nothing, in one sentence."""

    reason: str


class Stopped(Exception):
    """Somebody asked the worker to end."""


class Comparison:
    """One comparison in the background. Of all in this file, this alone leaves the GUI thread.

    Nothing is raised out of the worker: napari loses a RuntimeError of some workers, and announces other exceptions on
    its own, beside the panel's one sentence.

    Attributes
    ----------
    step : what is being done now.
    worker : napari's worker; it returns an :class:`Outcome` or a :class:`Failure`.
    """

    def __init__(
        self, segmentation: Labels, references: Sequence[Labels], tolerance: float | None, ignore_background: bool
    ) -> None:
        self.layers = [segmentation, *references]
        self.name = segmentation.name
        self.references = [layer.name for layer in references]
        self.space = space(segmentation)
        self.step = ""
        self._options = {"ignore_background": ignore_background}
        self._tolerance = tolerance
        self._arrays = [_still(layer) for layer in self.layers]
        self.worker = create_worker(self._run, _start_thread=False)

    @property
    def title(self) -> str:
        """What the layer is called that shows where they differ."""
        many = len(self.references)
        return f"{self.name} vs {self.references[0] if many == 1 else f'{many} references'} [difference]"

    def _run(self) -> Outcome | Failure | None:
        try:
            return self._compare()
        except Stopped:
            return None
        except InputError as reason:
            return Failure(str(reason))
        except Exception as reason:
            logging.getLogger(__name__).exception("a comparison failed")
            return Failure((str(reason) or type(reason).__name__).splitlines()[0])
        finally:
            # napari keeps a worker as long as its window, so the pixels must not hang on it.
            self._arrays.clear()

    def _compare(self) -> Outcome:
        self._report("reading the layers")
        found, *many = (np.asarray(array) for array in self._arrays)
        for name, reference in zip(self.references, many, strict=True):
            if self._options["ignore_background"] and not reference.any():
                raise InputError(f"{name!r} has the label 0 everywhere; untick 'Ignore background' or choose another")
        rows = scores(found, many, tolerance=self._tolerance, report=self._report, **self._options)
        return Outcome(rows, disagreement(found, many, report=self._report, **self._options))

    def _report(self, step: str) -> None:
        if self.worker.abort_requested:
            raise Stopped
        self.step = step


class Link:
    """Every tie between a panel and the rest of napari, and the one place that cuts them.

    It is no Qt object, so that it can still do so when the panel has already been destroyed with its window.
    """

    def __init__(self) -> None:
        self.comparison: Comparison | None = None
        self._connections: list[tuple[Any, Callable[..., None]]] = []

    def connect(self, signal: Any, slot: Callable[..., None]) -> None:
        """Connect a slot to one of napari's events until the link is cut."""
        signal.connect(slot)
        self._connections.append((signal, slot))

    def cut(self, *_: object) -> None:
        """End the comparison and let go of the viewer; more than once does no harm."""
        if self.comparison is not None:
            self.comparison.worker.quit()
            self.comparison = None
        for signal, slot in self._connections:
            signal.disconnect(slot)
        self._connections.clear()


class ScoreTable(QTableWidget):  # type: ignore[misc]
    """One row of figures for each reference. Columns share the room, and scroll where there is too little of it."""

    def __init__(self) -> None:
        super().__init__(0, len(COLUMNS))
        for j, column in enumerate(COLUMNS):
            head = QTableWidgetItem(column.header)
            head.setToolTip(column.tip)
            self.setHorizontalHeaderItem(j, head)
        self.horizontalHeader().setSectionResizeMode(QHeaderView.ResizeMode.Fixed)
        self.horizontalHeader().setMinimumSectionSize(24)
        self.verticalHeader().setTextElideMode(Qt.TextElideMode.ElideMiddle)
        self.verticalHeader().setMaximumWidth(100)
        self.setStyleSheet("QHeaderView::section { border: none; }")
        self.setEditTriggers(QAbstractItemView.EditTrigger.NoEditTriggers)
        self.setHorizontalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)

    def fill(self, names: Sequence[str], rows: Sequence[Scores]) -> None:
        """Show these rows under these names."""
        self.setRowCount(len(rows))
        for i, (name, row) in enumerate(zip(names, rows, strict=True)):
            head = QTableWidgetItem(name)
            head.setToolTip(name)
            self.setVerticalHeaderItem(i, head)
            for j, column in enumerate(COLUMNS):
                cell = QTableWidgetItem(column.text(row))
                cell.setTextAlignment(Qt.AlignmentFlag.AlignCenter)
                self.setItem(i, j, cell)
        # A single row is named in the caption, and its figures just fit into a narrow dock.
        self.verticalHeader().setVisible(len(rows) > 1)
        self._share()
        frame = 2 * self.frameWidth() + self.horizontalScrollBar().sizeHint().height()
        heights = [self.rowHeight(i) for i in range(min(len(rows), ROWS))]
        self.setFixedHeight(self.horizontalHeader().sizeHint().height() + sum(heights) + frame)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._share()

    def _share(self) -> None:
        """Give each column what it needs, and an equal part of what is left."""
        letters = self.horizontalHeader().fontMetrics()
        heads = [max(map(letters.horizontalAdvance, column.header.splitlines())) + 8 for column in COLUMNS]
        needed = [max(head, self.sizeHintForColumn(j)) for j, head in enumerate(heads)]
        spare = max(0, self.viewport().width() - sum(needed)) // len(COLUMNS)
        for j, width in enumerate(needed):
            self.setColumnWidth(j, width + spare)


class ComparisonPanel(QWidget):  # type: ignore[misc]
    """Compares a Labels layer with one or several others."""

    def __init__(self, napari_viewer: napari.Viewer) -> None:
        super().__init__()
        self.viewer = napari_viewer
        self.link = Link()
        self.outcome: Outcome | None = None
        self._layers: list[Labels] = []
        self._others: list[Labels] = []
        # What the user chose by hand; None while the panel may choose.
        self._picked: Labels | None = None
        self._ticked: list[Labels] | None = None
        # The comparison that the table shows, and the layer that shows where they differ.
        self._shown: Comparison | None = None
        self._drawn: Image | None = None
        self._build()
        self._timer = QTimer(self)
        self._timer.setInterval(TICK)
        self._timer.timeout.connect(self._tick)
        self.link.connect(self.viewer.layers.events, self._heard)
        self.destroyed.connect(self.link.cut)
        self._list()

    # ---- the form

    def _build(self) -> None:
        self.segmentation = QComboBox()
        self.segmentation.setToolTip("The Labels layer that is judged")
        # A long name must not widen the dock.
        self.segmentation.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon)
        self.segmentation.setMinimumContentsLength(10)
        self.segmentation.activated.connect(self._pick)
        self.references = QListWidget()
        self.references.setToolTip("The Labels layers that it is compared with; tick one or several")
        self.references.setTextElideMode(Qt.TextElideMode.ElideMiddle)
        self.references.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.references.setSelectionMode(QAbstractItemView.SelectionMode.NoSelection)
        self.references.setMinimumWidth(80)
        self.references.setSpacing(1)
        # The empty box that comes with the system cannot be seen on a dark background.
        self.references.setStyleSheet("QListView::indicator:unchecked { border: 1px solid #888; border-radius: 2px; }")
        self.references.setFixedHeight(92)
        self.references.itemChanged.connect(self._tick_changed)
        self.tolerance = QDoubleSpinBox()
        # One step below 0 stands for the default.
        self.tolerance.setRange(-0.5, 1000)
        self.tolerance.setSingleStep(0.5)
        self.tolerance.setDecimals(1)
        self.tolerance.setSuffix(" pixels")
        self.tolerance.setSpecialValueText("0.75 % of the diagonal")
        self.tolerance.setValue(self.tolerance.minimum())
        self.tolerance.setToolTip(
            "Boundaries match within this distance.\nOne step below 0 takes 0.75 % of the diagonal, as benchmarks do."
        )
        self.tolerance.valueChanged.connect(self._offer)
        self.ignore = QCheckBox("Ignore background (0) of references")
        self.ignore.setToolTip(
            "Leave out the pixels that have the label 0 in a reference, such as those that nobody labelled."
        )
        self.show_difference = QCheckBox("Show where they differ")
        self.show_difference.setChecked(True)
        self.show_difference.setToolTip(
            "A layer with the share of the references that see another region at each pixel.\n"
            "Regions are paired such that they share as many pixels as they can."
        )
        self.show_difference.toggled.connect(self._draw)
        form = QFormLayout()
        form.setContentsMargins(0, 0, 0, 0)
        form.setFieldGrowthPolicy(QFormLayout.FieldGrowthPolicy.AllNonFixedFieldsGrow)
        form.addRow("Segmentation", self.segmentation)
        form.addRow("References", self.references)
        form.addRow("Tolerance", self.tolerance)

        self.compare_button = QPushButton("Compare")
        self.compare_button.clicked.connect(self.toggle)
        self.status = QLabel()
        self.status.setWordWrap(True)
        self.caption = QLabel()
        self.caption.setWordWrap(True)
        self.table = ScoreTable()
        self.copy_button = QPushButton("Copy")
        self.copy_button.setToolTip("Copy the table, with all digits, to paste it into a spreadsheet")
        self.copy_button.clicked.connect(self.copy)
        self.save_button = QPushButton("Save CSV...")
        self.save_button.setToolTip("Save the table, with all digits, as a file")
        self.save_button.clicked.connect(self._save_as)
        buttons = QHBoxLayout()
        for button in (self.copy_button, self.save_button):
            buttons.addWidget(button)
        self.results = QWidget()
        found = QVBoxLayout(self.results)
        found.setContentsMargins(0, 0, 0, 0)
        found.addWidget(self.caption)
        found.addWidget(self.table)
        found.addLayout(buttons)
        self.results.setVisible(False)

        inside = QWidget()
        column = QVBoxLayout(inside)
        column.addLayout(form)
        for widget in (self.ignore, self.show_difference, self.compare_button, self.status, self.results):
            column.addWidget(widget)
        column.addStretch(1)
        scroll = QScrollArea()
        scroll.setWidgetResizable(True)
        scroll.setFrameShape(QFrame.Shape.NoFrame)
        scroll.setWidget(inside)
        whole = QVBoxLayout(self)
        whole.setContentsMargins(0, 0, 0, 0)
        whole.addWidget(scroll)

    # ---- what the user does

    def toggle(self) -> None:
        """Begin a comparison, or end the one that goes on."""
        if self.link.comparison is None:
            self.start()
        else:
            self.stop()

    def start(self) -> None:
        """Compare the chosen layers."""
        segmentation, references = self.chosen
        if segmentation is None or self.reason is not None:
            self._offer()
            return
        # What was compared stays chosen when layers come and go.
        self._picked, self._ticked = segmentation, references
        comparison = Comparison(segmentation, references, self._reach, self.ignore.isChecked())
        self.link.comparison = comparison
        comparison.worker.returned.connect(self._returned)
        comparison.worker.finished.connect(self._finished)
        self.compare_button.setText("Stop")
        self._lock(True)
        self.status.setText("comparing ...")
        self._timer.start()
        comparison.worker.start()

    def stop(self, why: str = "Stopped.") -> None:
        """End the comparison; the button comes back when the worker has noticed."""
        if self.link.comparison is not None:
            self._timer.stop()
            self.link.comparison.worker.quit()
            self.compare_button.setEnabled(False)
            self.status.setText(why)

    def copy(self) -> None:
        """Put the table on the clipboard, columns separated by tabs."""
        QApplication.clipboard().setText(self.written("\t"))

    def save(self, path: str | Path) -> None:
        """Write the table as a CSV file."""
        try:
            Path(path).write_text(self.written(","), encoding="utf-8")
        except OSError as reason:
            self._complain(f"the figures could not be saved: {reason.strerror or reason}; choose another place")
        else:
            self.status.setText(f"Saved {Path(path).name}.")

    def _save_as(self) -> None:
        dialog = QFileDialog(self, "Save the figures", "comparison.csv", "CSV (*.csv)")
        dialog.setAcceptMode(QFileDialog.AcceptMode.AcceptSave)
        dialog.setDefaultSuffix("csv")
        if dialog.exec():
            self.save(dialog.selectedFiles()[0])
        dialog.deleteLater()

    def _pick(self, index: int) -> None:
        self._picked = self._layers[index]
        self._list()

    def _tick_changed(self, item: QListWidgetItem) -> None:
        self._ticked = self._ticks()
        self._offer()

    # ---- what is chosen

    @property
    def chosen(self) -> tuple[Labels | None, list[Labels]]:
        """The segmentation and its references."""
        index = self.segmentation.currentIndex()
        return (self._layers[index] if index >= 0 else None), self._ticks()

    @property
    def reason(self) -> str | None:
        """Why what is chosen cannot be compared, or None."""
        segmentation, references = self.chosen
        if segmentation is None or not self._others:
            return "Open or make two Labels layers to compare them."
        if not references:
            return "Tick a reference to compare with."
        for layer in (segmentation, *references):
            if layer.multiscale:
                return f"{layer.name!r} is a pyramid; extract one of its levels to compare it."
        shape = tuple(segmentation.data.shape)
        other = [layer for layer in references if tuple(layer.data.shape) != shape]
        if other:
            told = ", ".join(f"{layer.name!r} is {_size(layer.data.shape)}" for layer in (segmentation, *other))
            return f"The shapes differ: {told}; choose layers of one shape."
        if 0 in shape:
            return f"{segmentation.name!r} has no pixel; choose another layer."
        return None

    @property
    def _reach(self) -> float | None:
        value = float(self.tolerance.value())
        return value if value >= 0 else None

    def _ticks(self) -> list[Labels]:
        states = (self.references.item(row).checkState() for row in range(self.references.count()))
        return [layer for layer, state in zip(self._others, states, strict=True) if state == Qt.CheckState.Checked]

    def written(self, delimiter: str) -> str:
        """The table as text, with all digits."""
        text = io.StringIO()
        table = csv.writer(text, delimiter=delimiter, lineterminator="\n")
        table.writerow(("segmentation", "reference", *Scores._fields))
        if self.outcome is not None and self._shown is not None:
            for name, row in zip(self._row_names(), self.outcome.rows, strict=True):
                table.writerow((self._shown.name, name, *(f"{figure:.10g}" for figure in row)))
        return text.getvalue()

    # ---- what the comparison does

    def _tick(self) -> None:
        if self.link.comparison is not None and self.link.comparison.step:
            self.status.setText(f"comparing ... {self.link.comparison.step}")

    def _returned(self, outcome: Outcome | Failure | None) -> None:
        comparison = self.link.comparison
        if comparison is None or outcome is None:
            return
        if isinstance(outcome, Failure):
            self._complain(outcome.reason)
            return
        self.outcome, self._shown, self._drawn = outcome, comparison, None
        self.status.setText("Done.")
        self._fill()
        self._draw()

    def _finished(self) -> None:
        """The worker is gone, whether it found something, failed or was stopped; what it said stays to be read."""
        if self.link.comparison is None:
            return
        self._timer.stop()
        self.link.comparison = None
        self.compare_button.setText("Compare")
        self._lock(False)
        said = self.status.text()
        self._list()  # layers may have come and gone meanwhile
        self.status.setText(said if self.reason is None else f"{said} {self.reason}")

    def _complain(self, reason: str) -> None:
        self.status.setText(reason)
        show_error(f"Compare segmentations: {reason}")

    def _row_names(self) -> list[str]:
        names = [] if self._shown is None else list(self._shown.references)
        return [*names, "all"] if len(names) > 1 else names

    def _fill(self) -> None:
        """Write what was found into the table."""
        if self.outcome is None or self._shown is None:
            return
        against = self._shown.references
        self.caption.setText(f"{self._shown.name} against {against[0] if len(against) == 1 else 'each reference'}:")
        self.table.fill(self._row_names(), self.outcome.rows)
        self.results.setVisible(True)

    def _draw(self, _: bool = True) -> None:
        """Show where they differ, in the layer that already does so if there is one, or hide it."""
        if self.outcome is None or self._shown is None:
            return
        wanted = self.show_difference.isChecked()
        if self._drawn is None or self._drawn not in self.viewer.layers:
            self._drawn = self._updated(self.outcome.difference, self._shown)
            if self._drawn is None and wanted:
                self._drawn = self._made(self.outcome.difference, self._shown)
        if self._drawn is not None:
            self._drawn.visible = wanted

    def _updated(self, difference: NDArray[np.float32], comparison: Comparison) -> Image | None:
        """The layer that showed this pair before, now with this difference, or None."""
        for layer in self.viewer.layers:
            if layer.name != comparison.title or layer.metadata.get("napari_gsw") != MARK:
                continue
            if layer.data.shape != difference.shape:
                self.viewer.layers.remove(layer)
                return None
            # In place: the layer keeps its look.
            layer.data[...] = difference
            for key, value in space(layer).items():
                if not np.array_equal(value, comparison.space[key]):
                    setattr(layer, key, comparison.space[key])
            layer.refresh()
            return layer
        return None

    def _made(self, difference: NDArray[np.float32], comparison: Comparison) -> Image:
        active = self.viewer.layers.selection.active
        layer = self.viewer.add_image(
            difference, name=comparison.title, colormap="magma", blending="additive", contrast_limits=(0, 1),
            metadata={"napari_gsw": MARK}, **comparison.space,
        )  # fmt: skip
        if active is not None:
            # Whoever paints goes on in the layer in hand.
            self.viewer.layers.selection.active = active
        return layer

    # ---- what the viewer does

    def _heard(self, event: Any) -> None:
        if event.type not in CHANGES:
            return
        comparison = self.link.comparison
        if comparison is None:
            self._list()
            return
        if any(layer not in self.viewer.layers for layer in comparison.layers):
            self.stop("Stopped, because a layer was removed.")

    def _list(self) -> None:
        """Offer the Labels layers that there are, topmost first, and keep what the user chose."""
        self._layers = layers = [layer for layer in list(self.viewer.layers)[::-1] if isinstance(layer, Labels)]
        if self._picked not in layers:
            self._picked = None
        segmentation = self._picked or natural_segmentation(layers, self.viewer.layers.selection.active)
        self._others = [layer for layer in layers if layer != segmentation]
        if self._ticked:
            # Ticks that were all lost with their layers are forgotten; no tick at all is a choice too.
            self._ticked = [layer for layer in self._ticked if layer in self._others] or None
        ticked = natural_references(segmentation, self._others) if self._ticked is None else self._ticked
        self.segmentation.blockSignals(True)
        self.segmentation.clear()
        self.segmentation.addItems([layer.name for layer in layers])
        self.segmentation.setCurrentIndex(layers.index(segmentation) if segmentation is not None else -1)
        self.segmentation.blockSignals(False)
        self.references.blockSignals(True)
        self.references.clear()
        for layer in self._others:
            item = QListWidgetItem(layer.name, self.references)
            item.setFlags(Qt.ItemFlag.ItemIsEnabled | Qt.ItemFlag.ItemIsUserCheckable)
            item.setCheckState(Qt.CheckState.Checked if layer in ticked else Qt.CheckState.Unchecked)
            item.setToolTip(layer.name if layer.multiscale else f"{layer.name}, {_size(layer.data.shape)}")
        self.references.blockSignals(False)
        self._offer()

    def _offer(self, _: float = 0.0) -> None:
        """Say what a comparison would do, or why there can be none."""
        if self.link.comparison is not None:
            return
        reason = self.reason
        self.compare_button.setEnabled(reason is None)
        if reason is None:
            shape, reach = self._layers[self.segmentation.currentIndex()].data.shape, self._reach
            reach = default_tolerance(shape) if reach is None else reach
            reason = f"{_size(shape)} pixels, boundaries within {_count(reach)} pixels."
        self.status.setText(reason)

    def _lock(self, locked: bool) -> None:
        for widget in (self.segmentation, self.references, self.tolerance, self.ignore):
            widget.setEnabled(not locked)

    # ---- the end

    def event(self, event: QEvent) -> bool:
        """Closing the dock takes the panel out of it without closing the panel."""
        if event.type() == QEvent.Type.ParentChange and self.parent() is None:
            self.shut_down()
        return bool(super().event(event))

    def closeEvent(self, event: QCloseEvent) -> None:
        self.shut_down()
        super().closeEvent(event)

    def shut_down(self) -> None:
        """End the comparison and let go of the viewer; more than once does no harm."""
        self._timer.stop()
        self.link.cut()


def natural_segmentation(layers: Sequence[Labels], active: object) -> Labels | None:
    """The layer that a person most likely wants to judge.

    A result of GSW, the active or else the topmost one; else the active or topmost layer that is no truth.

    Parameters
    ----------
    layers : topmost first.
    """
    ours = [layer for layer in layers if "[GSW]" in layer.name]
    other = [layer for layer in layers if not _is_truth(layer)]
    for candidates in (ours, other, layers):
        for layer in candidates:
            if layer == active:
                return layer
        if candidates:
            return candidates[0]
    return None


def natural_references(segmentation: Labels | None, others: Sequence[Labels]) -> list[Labels]:
    """The layers that a person most likely wants to compare with.

    What is called a truth and has the shape of the segmentation, preferably the one that has its name too; without
    a truth the next layer, preferably of that shape.

    Parameters
    ----------
    others : all other layers, topmost first.
    """
    if segmentation is None or not others:
        return []
    fitting = [layer for layer in others if layer.data.shape == segmentation.data.shape]
    truths = [layer for layer in fitting if _is_truth(layer)]
    stem = segmentation.name.split(" [")[0]
    return [layer for layer in truths if stem in layer.name] or truths or fitting[:1] or list(others[:1])


def space(layer: Any) -> dict[str, Any]:
    """Where a layer lies in the world, as its constructor takes it."""
    return {key: layer.affine.affine_matrix if key == "affine" else getattr(layer, key) for key in SPACE}


def _is_truth(layer: Labels) -> bool:
    return "truth" in layer.name.lower()


def _still(layer: Labels) -> Any:
    """The pixels of a layer as they are now; what is on a disk or yet to be computed is left to the worker."""
    return layer.data.copy() if type(layer.data) is np.ndarray else layer.data


def _size(shape: Sequence[int]) -> str:
    return " x ".join(str(length) for length in shape)


def _count(number: float) -> str:
    return f"{number:.1f}".removesuffix(".0")
