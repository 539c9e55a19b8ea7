"""Write the newest frames, or an earlier sweep, to the layers of a segmentation."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np
from napari.qt.threading import WorkerBase
from numpy.typing import NDArray
from qtpy.QtCore import QObject, QTimer, Signal

from napari_gsw.core.errors import InputError
from napari_gsw.core.posterior.region_table import Columns
from napari_gsw.widgets.common.worker import make_worker
from napari_gsw.widgets.layers.brush import Brush
from napari_gsw.widgets.layers.image_source import Position
from napari_gsw.widgets.layers.layer_metadata import MADE_BY, TABLE_AXES
from napari_gsw.widgets.layers.result_layers import TOGGLED, UNCERTAINTY_IMAGES
from napari_gsw.widgets.session.array_run import Frame
from napari_gsw.widgets.session.run_plan import Segmentation
from napari_gsw.widgets.session.run_worker import RunController

# Pixels of a frame that is drawn in one go, and milliseconds without a change of the detail after which every slice is
# drawn with it.
AT_ONCE, STILL = 1 << 23, 400


class LayerView(QObject):  # type: ignore[misc]
    """Draws the current segmentation."""

    changed = Signal()  # something else is displayed
    labels_added = Signal()  # the layer of labels has just been made or reused
    regions_added = Signal()  # or that of regions or objects
    # A position, and an image of what was painted there after its chain was begun and before its first frame, which
    # overwrites it.
    painted_late = Signal(object, object)

    def __init__(self, controller: RunController, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.controller, self.viewer = controller, controller.viewer
        self.drawn: dict[Position, Frame] = {}  # on the screen
        # An earlier sweep that the user looks at, and its labels.
        self.viewing: int | None = None
        self.viewed: NDArray[np.int64] | None = None
        # What watches the layers of labels and of regions for paint.
        self.brushes: list[Brush] = []
        self.region_brush: Brush | None = None
        self.outlines_sites = False  # whether outlines of the superpixels are wanted
        self._parts: deque[Callable[[], None]] = deque()  # what is left to draw of a large frame
        self._shown_tables: list[int] = []
        self._redraw_later = QTimer(self, singleShot=True, interval=STILL, timeout=self._redraw_others)

    @property
    def is_busy(self) -> bool:
        """True if the user is painting, so that nothing may be overwritten."""
        return any(brush is not None and brush.is_busy for brush in (*self.brushes, self.region_brush))

    # ---- drawing

    def collect(self) -> None:
        seg, run = self.controller.segmentation, self.controller.run
        if seg is not None and run is not None:
            seg.array_runs.update(run.array_runs)

    @property
    def is_urgent(self) -> bool:
        """True if a frame is drawn in part, or one waits that shows commands carried out since the last was drawn."""
        return bool(self._parts) or any(
            position in self.drawn and self.drawn[position].n_commands_done < frame.n_commands_done
            for position, frame in self._current_frames()
        )

    def _current_frames(self) -> list[tuple[Position, Frame]]:
        """Return the newest frames, but none from before a correction, which would show it undone for a moment."""
        runs = {} if self.controller.segmentation is None else self.controller.segmentation.array_runs
        frames = [(position, run, run.frame) for position, run in runs.items()]
        return [
            (position, frame)
            for position, run, frame in frames
            if frame is not None and frame.array_run is run and frame.n_commands_done >= run.n_commands_sent
        ]

    def draw(self, force: bool = False) -> bool:
        """Draw every frame that is new, or the next part of a large one; return whether there was anything."""
        seg, run = self.controller.segmentation, self.controller.run
        if seg is None or seg.plan.source.layer not in self.viewer.layers or self.is_busy:
            return False
        if force:
            self._parts.clear()
        elif self._parts:
            self._parts.popleft()()
            return True
        # The coarse preview of an array that has no frame yet.
        position, preview = (run and run.preview) or ((), None)
        is_drawn = seg.layers.show_preview(position, preview)
        for position, frame in self._current_frames():
            before = self.drawn.get(position)
            if force or before is not frame:
                self.drawn[position], is_drawn = frame, True
                self._parts.extend(self._list_parts(seg, position, frame, before, force))
                while self._parts:
                    self._parts.popleft()()
                    if frame.labels.size > AT_ONCE and not force:
                        return True  # the window handles its events before the next part
        return is_drawn

    def _list_parts(
        self, seg: Segmentation, position: Position, frame: Frame, before: Frame | None, force: bool
    ) -> list[Callable[[], None]]:
        """Return functions that write what differs from the frame before to the layers, or everything."""
        layers, wanted = seg.layers, self.controller.view.wanted
        parts: list[Callable[[], None]] = []
        if self.viewing is None:
            parts.append(partial(self.write, position, frame.labels))

        def is_new(name: str) -> bool:
            value = getattr(frame, name)
            return value is not None and (before is None or value is not getattr(before, name))

        for kind in UNCERTAINTY_IMAGES:
            if kind in wanted and is_new(kind):
                parts.append(partial(layers.show, kind, position, getattr(frame, kind)))
        if "regions" in wanted and is_new("regions"):
            parts.append(partial(self.write_regions, position, frame.regions))
        if frame.locked is not None and (force or is_new("locked")):
            parts.append(partial(layers.show, "locked", position, frame.locked))
        are_split = before is not None and len(frame.numbers) != len(before.numbers)
        if (before is None or are_split) and (self.outlines_sites or layers.of_kind("superpixels")):
            parts.append(partial(layers.show_sites, position, frame.array_run.sites))
        parts.append(partial(self._annotate, seg, position, frame))
        return parts

    def _annotate(self, seg: Segmentation, position: Position, frame: Frame) -> None:
        seg.layers.set_convergence(frame.has_converged, frame.verdict)
        for layer in seg.layers.label_layers if frame.provenance is not None else ():
            if not seg.plan.source.stack_shape:
                layer.metadata[MADE_BY] = frame.provenance
            else:
                made_by = layer.metadata.setdefault(MADE_BY, {"software": "napari-gsw", "parts": {}})
                made_by["parts"][" ".join(map(str, position))] = frame.provenance

    def write(self, position: Position, labels: Any) -> None:
        """Write a label image to its layer and remember it: later differences are paint."""
        seg = self.controller.segmentation
        assert seg is not None
        if is_first := not seg.layers.label_layers:
            self._reuse_layers(seg)
        late = None if is_first else seg.late_paint(position)
        seg.layers.show_labels(position, labels)
        seg.written[position] = labels
        if is_first:
            self.labels_added.emit()
        if late is not None:
            self.painted_late.emit(position, late)

    def write_regions(self, position: Position, regions: Any) -> None:
        """Write a label image of regions or objects to its layer and remember it, as :meth:`write` does."""
        seg = self.controller.segmentation
        assert seg is not None
        is_first = not seg.layers.of_kind("regions")
        seg.layers.show("regions", position, regions)
        seg.written_regions[position] = regions
        if is_first:
            self.regions_added.emit()

    def show_table(self) -> bool:
        if (seg := self.controller.segmentation) is None:
            return False
        frames = [run.frame for run in seg.array_runs.values()]
        tables = [frame.table for frame in frames if frame is not None and frame.table is not None]
        if not tables or (newest := [id(table) for table in tables]) == self._shown_tables:
            return False
        self._shown_tables = newest
        if not self.controller.is_sampling and any(TABLE_AXES in x.metadata for x in seg.layers.label_layers):
            return False  # a more detailed one is there
        seg.layers.show_table(tables)
        return True

    def _reuse_layers(self, seg: Segmentation) -> None:
        """Write to the layers of an earlier run with the same inputs, once there is a frame."""
        inputs = [seg.plan.sites, seg.plan.seeds, seg.plan.source.mask]
        seg.layers.reuse_layers([layer for layer in inputs if layer is not None])
        wanted = self.controller.view.wanted | ({"superpixels"} if self.outlines_sites else set())
        for kind in TOGGLED:
            for layer in seg.layers.of_kind(kind):
                layer.visible = kind in wanted
        if seg.layers.label_layers:
            self.viewer.layers.selection.active = seg.layers.label_layers[0]
        if seg.layers.of_kind("regions"):
            self.regions_added.emit()

    # ---- what is displayed

    def change_view(self, **changes: Any) -> None:
        """Change fields of :class:`~napari_gsw.widgets.session.array_run.DisplayOptions`, and what is displayed."""
        before, seg = self.controller.view, self.controller.segmentation
        self.controller.set_view(**changes)
        view = self.controller.view
        if seg is None:
            return
        for kind in view.wanted ^ before.wanted:
            for layer in seg.layers.of_kind(kind):
                layer.visible = kind in view.wanted
        seg.layers.set_outline_colour(view.ink)
        if view.ink == before.ink:
            self.redraw()
            if view.detail == before.detail:  # or else a slider is dragged
                self._redraw_others()

    def redraw(self) -> None:
        """Make the displayed frame anew; the others, whose tables are shown with its own, follow the last call."""
        if (position := self.controller.position) is not None and self.controller.is_resting:
            self.controller.redraw(position)
            self._redraw_later.start()

    def _redraw_others(self) -> None:
        self._redraw_later.stop()
        if (seg := self.controller.segmentation) is not None and self.controller.is_resting:
            self.controller.redraw(*(p for p in seg.array_runs if p != self.controller.position))

    # ---- earlier sweeps

    def view_sweep(self, sweep: float) -> None:
        position, array_run = self.controller.position, self.controller.array_run
        if position is None or array_run is None or self.is_busy:
            return
        self.viewing, self.viewed = array_run.interactive.history.nearest(sweep)
        self.write(position, array_run.paint_shown(self.viewed, self.controller.view.background))
        self.changed.emit()

    def leave_history(self) -> None:
        self.viewing = self.viewed = None

    def show_current(self) -> None:
        if self.viewing is not None:
            self.leave_history()
            self.drawn.clear()
            if self.controller.run is None:
                self.draw(force=True)
            self.changed.emit()

    def moved(self, event: Any = None) -> None:
        seg = self.controller.segmentation
        if seg is not None and seg.plan.source.stack_shape:
            self.show_current()
            self.changed.emit()

    def forget(self) -> None:
        """Forget all frames and the detail, which suits one image only."""
        self.controller.set_view(detail=None)
        self._parts.clear()
        self.drawn.clear()
        if (seg := self.controller.segmentation) is not None:
            seg.layers.remove("preview")
        self._shown_tables = []
        self.leave_history()


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
        self._timer = QTimer(self, singleShot=True, interval=STILL, timeout=self._begin)
        self._moves = QTimer(self, singleShot=True, interval=STILL, timeout=self.show)
        for timer in (self._timer, self._moves):
            controller.connections.stop_on_close(timer)
        controller.connections.on_close(lambda: None if self._worker is None else self._worker.quit())

    def update(self) -> None:
        """Measure new label images once they stop changing."""
        seg = self.controller.segmentation
        if seg is not self._segmentation:
            self._segmentation, self.tables = seg, {}
        if seg is not None and any(position not in seg.array_runs for position in self.tables):  # by Reset
            self.tables = {p: table for p, table in self.tables.items() if p in seg.array_runs}
            self.show()
        if self._find_unmeasured():
            self._timer.start()

    def measure_again(self) -> None:
        self.tables = {}  # the worker fills the one before
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
        is_live = self.controller.is_sampling or self.layer_view.viewing is not None
        if seg is None or is_live or seg.plan.source.is_chunked:
            return {}
        outlined = any(layer.visible for layer in seg.layers.of_kind("regions"))
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
        if jobs:
            self._worker = make_worker(_measure, jobs)
            self._worker.yielded.connect(partial(dict.update, self.tables))
            self._worker.finished.connect(self._finish)
            self._worker.start()

    def _finish(self) -> None:
        self._worker = None
        if self.tables:
            self.show()
        self.update()


def _measure(jobs: list[tuple[Position, Any, Callable[[], Tables]]]) -> Iterator[dict[Position, tuple[Any, Tables]]]:
    for position, image, measure in jobs:
        with suppress(InputError):  # the image has just been replaced
            yield {position: (image, measure())}
