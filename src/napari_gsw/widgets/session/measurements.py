"""Measure the displayed labels in a thread once they stop changing, and write the table to the layers.

A table of many objects takes seconds, so a run never waits for it. Each array is measured once for each label image.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from napari.qt.threading import WorkerBase
from qtpy.QtCore import QObject, QTimer, Signal

from napari_gsw.core.errors import InputError
from napari_gsw.core.posterior.region_table import Columns
from napari_gsw.widgets.common.worker import make_worker
from napari_gsw.widgets.layers.image_source import Position
from napari_gsw.widgets.session.layer_view import LayerView
from napari_gsw.widgets.session.run_plan import Segmentation
from napari_gsw.widgets.session.run_worker import RunController

# Milliseconds without a change after which labels are measured.
STILL = 250
# The tables of one array: one, or one for each of several images.
Tables = list[Columns]


class TableUpdater(QObject):  # type: ignore[misc]
    """Keeps the table of each array up to date with the displayed labels."""

    measured = Signal()  # a table has been written to its layer

    def __init__(self, controller: RunController, layer_view: LayerView, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.controller, self.layer_view = controller, layer_view
        self.tables: dict[Position, tuple[Any, Tables]] = {}  # with the label image that was measured
        self._segmentation: Segmentation | None = None
        self._worker: WorkerBase | None = None
        self._is_outdated = False
        self._timer = QTimer(self, singleShot=True, interval=STILL, timeout=self._begin)
        self._moves = QTimer(self, singleShot=True, interval=STILL, timeout=self.show)
        controller.connections.stop_on_close(self._timer)
        controller.connections.stop_on_close(self._moves)
        controller.connections.on_close(lambda: None if self._worker is None else self._worker.quit())

    def update(self) -> None:
        """Measure new label images once they stop changing."""
        seg = self.controller.segmentation
        if seg is not self._segmentation:
            self._segmentation = seg
            self.tables.clear()
        removed = [] if seg is None else [position for position in self.tables if position not in seg.array_runs]
        if removed:  # by Reset
            for position in removed:
                del self.tables[position]
            self.show()
        if self._find_unmeasured():
            self._timer.start()

    def measure_again(self) -> None:
        """Measure everything again: the pixel size or the position of the image has changed."""
        self._is_outdated = self._worker is not None
        self.tables.clear()
        self.update()

    def move(self) -> None:
        if len(self.tables) > 1:
            self._moves.start()

    def show(self) -> None:
        """Write the tables to the layers, the displayed array last: of two rows with one label napari uses the last."""
        seg, current = self.controller.segmentation, self.controller.position
        if seg is not None and seg is self._segmentation:
            positions = sorted(self.tables, key=lambda position: (position == current, position))
            seg.layers.show_region_table([(position, self.tables[position][1]) for position in positions])
            self.measured.emit()

    def _find_unmeasured(self) -> dict[Position, Any]:
        seg = self.controller.segmentation
        if (
            seg is None
            or self.controller.is_sampling
            or seg.plan.source.is_chunked
            or self.layer_view.viewing is not None
        ):
            return {}
        outlined = any(layer.visible for layer in seg.layers.pictures("regions"))
        images = seg.written_regions if outlined else seg.written
        measured = {position: image for position, (image, _) in self.tables.items()}
        return {p: image for p, image in images.items() if p in seg.array_runs and measured.get(p) is not image}

    def _begin(self) -> None:
        images, seg = self._find_unmeasured(), self.controller.segmentation
        if seg is None or not images:
            return
        if self._worker is not None or self.controller.run is not None:
            self._timer.start()
            return
        jobs = []
        for position, image in images.items():
            array_run = seg.array_runs[position]
            if (frame := array_run.frame) is not None and frame.array_run is array_run:
                jobs.append((position, image, array_run.measuring(seg.plan.source, image, frame.numbers)))
        if not jobs:
            return
        self._worker = make_worker(_measure, jobs)
        self._worker.yielded.connect(partial(self._store, seg))
        self._worker.finished.connect(self._finish)
        self._worker.start()

    def _store(self, seg: Segmentation, result: tuple[Position, Any, Tables]) -> None:
        position, image, tables = result
        if seg is self.controller.segmentation:
            self.tables[position] = image, tables

    def _finish(self) -> None:
        self._worker = None
        if self._is_outdated:
            self._is_outdated = False
            self.tables.clear()
        else:
            self.show()
        self.update()


def _measure(jobs: list[tuple[Position, Any, Callable[[], Tables]]]) -> Iterator[tuple[Position, Any, Tables]]:
    for position, image, measure in jobs:
        try:
            yield position, image, measure()
        except InputError:  # the image has just been replaced
            continue
