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
from napari_gsw.core.posterior.region_table import Columns
from napari_gsw.widgets.kit.link import Link
from napari_gsw.widgets.kit.worker import make_worker
from napari_gsw.widgets.layers.source import Position
from napari_gsw.widgets.session.canvas import Canvas
from napari_gsw.widgets.session.orders import Orders
from napari_gsw.widgets.session.plan import Segmentation

# How long nothing may change before it is measured, in milliseconds.
STILL = 250
# The tables of one array: one, or one for each of several images.
Tables = list[Columns]


class Measuring(QObject):  # type: ignore[misc]
    """Keeps the table of each array beside the picture that it is of.

    Signals
    -------
    measured : the table of something has been written to its layer.

    Attributes
    ----------
    tables : by position, the label image that was measured and its tables.
    """

    measured = Signal()

    def __init__(self, orders: Orders, canvas: Canvas, link: Link, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.orders, self.canvas = orders, canvas
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
        link.stop_at_end(self._timer)
        link.stop_at_end(self._moves)
        link.at_end(self._quit)

    def look(self) -> None:
        """Something may be new on the screen: wait until it is still."""
        seg = self.orders.segmentation
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
        seg, here = self.orders.segmentation, self.canvas.position
        if seg is not None and seg is self._segmentation:
            order = sorted(self.tables, key=lambda position: (position == here, position))
            seg.layers.show_measures([(position, self.tables[position][1]) for position in order])
            self.measured.emit()

    def _due(self) -> dict[Position, Any]:
        """The label images that are shown and not measured yet."""
        seg = self.orders.segmentation
        if seg is None or self.orders.sampling or seg.plan.source.large or self.canvas.viewing is not None:
            return {}
        outlined = any(layer.visible for layer in seg.layers.pictures("regions"))
        pictures = seg.written_regions if outlined else seg.written
        known = {position: picture for position, (picture, _) in self.tables.items()}
        return {p: picture for p, picture in pictures.items() if p in seg.array_runs and known.get(p) is not picture}

    def _begin(self) -> None:
        due, seg = self._due(), self.orders.segmentation
        if seg is None or not due:
            return
        if self._worker is not None or self.orders.run is not None:
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
        if seg is self.orders.segmentation:
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
