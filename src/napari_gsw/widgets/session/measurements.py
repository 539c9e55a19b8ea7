"""Measures what is on the screen when it has come to rest, in a thread of its own, and writes the table to the layers.

A run is never kept waiting: a table of many objects takes seconds. Each array is measured once for each picture of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from napari.qt.threading import WorkerBase
from qtpy.QtCore import QObject, QTimer, Signal

from napari_gsw.core.errors import InputError
from napari_gsw.core.posterior.label_table import Columns
from napari_gsw.widgets.common.dock_panel import Connections
from napari_gsw.widgets.common.worker import make_worker
from napari_gsw.widgets.layers.image_source import Position
from napari_gsw.widgets.session.layer_view import LayerView
from napari_gsw.widgets.session.run_plan import Segmentation
from napari_gsw.widgets.session.run_worker import CommandQueue

# How long nothing may change before it is measured, in milliseconds.
STILL = 250
# The tables of one array: one, or one for each of several images.
Tables = list[Columns]


class TableUpdater(QObject):  # type: ignore[misc]
    """Keeps the table of each array beside the picture that it is of.

    Signals
    -------
    measured : the table of something has been written to its layer.

    Attributes
    ----------
    tables : by position, the label image that was measured and its tables.
    """

    measured = Signal()

    def __init__(
        self, commands: CommandQueue, canvas: LayerView, connections: Connections, parent: QObject | None = None
    ) -> None:
        super().__init__(parent)
        self.commands, self.canvas = commands, canvas
        self.tables: dict[Position, tuple[Any, Tables]] = {}
        self._segmentation: Segmentation | None = None
        self._worker: WorkerBase | None = None
        self._again = False
        self._timer = QTimer(self)
        self._timer.setSingleShot(True)
        self._timer.setInterval(STILL)
        self._timer.timeout.connect(self._begin)
        self._moves = QTimer(self)
        self._moves.setSingleShot(True)
        self._moves.setInterval(STILL)
        self._moves.timeout.connect(self.show)
        connections.stop_on_close(self._timer)
        connections.stop_on_close(self._moves)
        connections.on_close(self._quit)

    def look(self) -> None:
        """Something may be new on the screen: wait until it is still."""
        seg = self.commands.segmentation
        if seg is not self._segmentation:
            self._segmentation = seg
            self.tables.clear()
        gone = [] if seg is None else [position for position in self.tables if position not in seg.array_runs]
        if gone:  # by a Reset
            for position in gone:
                del self.tables[position]
            self.show()
        if self._due():
            self._timer.start()

    def measure_again(self) -> None:
        """Pixels have another size, or lie elsewhere: what is being measured is out of date, too."""
        self._again = self._worker is not None
        self.tables.clear()
        self.look()

    def move(self) -> None:
        """Another array may be on the screen."""
        if len(self.tables) > 1:
            self._moves.start()

    def show(self) -> None:
        """Write the tables to the layers, that of the array on the screen last: of two rows napari tells the last."""
        seg, here = self.commands.segmentation, self.canvas.position
        if seg is not None and seg is self._segmentation:
            order = sorted(self.tables, key=lambda position: (position == here, position))
            seg.layers.show_region_table([(position, self.tables[position][1]) for position in order])
            self.measured.emit()

    def _due(self) -> dict[Position, Any]:
        """The label images that are shown and not measured yet."""
        seg = self.commands.segmentation
        if seg is None or self.commands.sampling or seg.plan.source.is_chunked or self.canvas.viewing is not None:
            return {}
        outlined = any(layer.visible for layer in seg.layers.pictures("regions"))
        pictures = seg.written_regions if outlined else seg.written
        known = {position: picture for position, (picture, _) in self.tables.items()}
        return {p: picture for p, picture in pictures.items() if p in seg.array_runs and known.get(p) is not picture}

    def _begin(self) -> None:
        due, seg = self._due(), self.commands.segmentation
        if seg is None or not due:
            return
        if self._worker is not None or self.commands.run is not None:
            self._timer.start()
            return
        jobs = []
        for position, picture in due.items():
            frame = self.canvas.frames.get(position)
            if frame is not None and frame.array_run is seg.array_runs[position]:
                measure = frame.array_run.measuring(seg.plan.source, picture, frame.numbers)
                jobs.append((position, picture, measure))
        if not jobs:
            return
        worker = make_worker(_measured, jobs)
        worker.yielded.connect(partial(self._take, seg))
        worker.finished.connect(self._ended)
        self._worker = worker
        worker.start()

    def _take(self, seg: Segmentation, one: tuple[Position, Any, Tables]) -> None:
        position, picture, tables = one
        if seg is self.commands.segmentation:
            self.tables[position] = picture, tables

    def _ended(self) -> None:
        self._worker = None
        if self._again:
            self._again = False
            self.tables.clear()
        else:
            self.show()
        self.look()

    def _quit(self) -> None:
        if self._worker is not None:
            self._worker.quit()


def _measured(jobs: list[tuple[Position, Any, Callable[[], Tables]]]) -> Iterator[tuple[Position, Any, Tables]]:
    """The tables of one array after the other."""
    for position, picture, measure in jobs:
        try:
            yield position, picture, measure()
        except InputError:  # of an image that has just been replaced
            continue
