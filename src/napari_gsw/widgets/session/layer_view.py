"""Write the newest frames, or an earlier sweep, to the layers of a segmentation."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from napari.layers import Layer
from numpy.typing import NDArray
from qtpy.QtCore import QObject, QTimer, Signal

from napari_gsw.widgets.layers.brush import Brush
from napari_gsw.widgets.layers.image_source import Position
from napari_gsw.widgets.layers.layer_metadata import MADE_BY, TABLE_AXES
from napari_gsw.widgets.layers.result_layers import UNCERTAINTY_IMAGES, PreviewLayer
from napari_gsw.widgets.session.array_run import Frame
from napari_gsw.widgets.session.run_plan import Segmentation
from napari_gsw.widgets.session.run_worker import RunController

# Pixels of a frame that is drawn in one go; milliseconds between the parts of a larger one; and milliseconds without a
# change of the detail after which every slice is drawn with it.
AT_ONCE, BETWEEN_PARTS, STILL = 1 << 23, 10, 400


class LayerView(QObject):  # type: ignore[misc]
    """Draws the current segmentation."""

    changed = Signal()  # something else is displayed
    layers_taken = Signal()  # layers of an earlier run are written to from now on
    labels_added = Signal()  # the layer of labels has just been made or reused
    regions_added = Signal()  # or that of regions or objects
    # A position, and an image of what was painted there after its chain was begun and before its first frame, which
    # overwrites it.
    painted_late = Signal(object, object)
    layer_gone = Signal(str)  # "boundary", "entropy", "regions" or "sites": its layer was removed by the user

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
        self.preview_layer = PreviewLayer(self.viewer)
        # What is left to draw of a large frame, and of which segmentation.
        self._parts: tuple[Segmentation | None, deque[Callable[[], None]]] = None, deque()
        self._next_part = QTimer(self, singleShot=True, interval=BETWEEN_PARTS, timeout=self._draw_part)
        self._shown_tables: list[int] = []
        self._redraw_later = QTimer(self, singleShot=True, interval=STILL, timeout=self._redraw_others)

    @property
    def is_busy(self) -> bool:
        """True if the user is painting, so that nothing may be overwritten."""
        return any(brush is not None and brush.is_busy for brush in (*self.brushes, self.region_brush))

    # ---- drawing

    def collect(self) -> None:
        """Take the arrays that the run has prepared, and the newest frames."""
        seg, run = self.controller.segmentation, self.controller.run
        if seg is not None and run is not None:
            seg.array_runs.update(run.array_runs)
            for array_run in seg.array_runs.values():
                array_run.frame = array_run.newest or array_run.frame

    @property
    def answered(self) -> bool:
        """True if a frame waits that shows commands carried out since the last one was drawn."""
        return any(
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
        """Draw every frame that is new; return whether there was one."""
        seg, run = self.controller.segmentation, self.controller.run
        if seg is None or seg.plan.source.layer not in self.viewer.layers or self.is_busy:
            return False
        # The coarse preview of an array that has no frame yet.
        position, preview = (run and run.preview) or ((), None)
        is_drawn = preview is not self.preview_layer.preview
        if preview is None:
            self.preview_layer.remove()
        elif is_drawn:
            self.preview_layer.show(seg.plan.source, position, preview)
        for position, frame in self._current_frames():
            before = self.drawn.get(position)
            if force or before is not frame:
                self.drawn[position], is_drawn = frame, True
                self._draw_frame(seg, position, frame, before, force)
        return is_drawn

    def _draw_frame(
        self, seg: Segmentation, position: Position, frame: Frame, before: Frame | None, force: bool
    ) -> None:
        """Write what differs from the frame before to the layers; everything if there was none."""
        self._draw_parts()
        layers, wanted = seg.layers, self.controller.view.wanted
        if self.viewing is None:
            self.write(position, frame.labels)

        def is_new(name: str) -> bool:
            value = getattr(frame, name)
            return value is not None and (before is None or value is not getattr(before, name))

        parts: list[Callable[[], None]] = [
            partial(layers.show, name, position, getattr(frame, name))
            for name in UNCERTAINTY_IMAGES
            if name in wanted and is_new(name)
        ]
        parts.append(partial(layers.set_convergence, frame.has_converged, frame.verdict))
        if "regions" in wanted and is_new("regions"):
            parts.append(partial(self.write_regions, position, frame.regions))
        if frame.locked is not None and (force or is_new("locked")):
            parts.append(partial(layers.show, "locked", position, frame.locked.labels))
        are_split = before is not None and len(frame.numbers) != len(before.numbers)
        if (before is None or are_split) and (self.outlines_sites or layers.pictures("sites")):
            parts.append(partial(layers.show_sites, position, frame.array_run.sites))
        if frame.provenance is not None:  # for the file writer
            for metadata in [labels.metadata for labels in layers.label_layers]:
                if not seg.plan.source.stack_shape:
                    metadata[MADE_BY] = frame.provenance
                else:
                    made_by = metadata.setdefault(MADE_BY, {"software": "napari-gsw", "parts": {}})
                    made_by["parts"][" ".join(map(str, position))] = frame.provenance
        self._parts = seg, deque(parts)
        if frame.labels.size > AT_ONCE and not force:
            self._next_part.start()
        else:
            self._draw_parts()

    def _draw_part(self) -> None:
        """Draw the next part of a large frame; the window handles its events before the one after it."""
        seg, parts = self._parts
        if not parts:
            return
        if seg is None or seg is not self.controller.segmentation or seg.plan.source.layer not in self.viewer.layers:
            parts.clear()
        elif not self.is_busy:
            parts.popleft()()
        self._next_part.start()

    def _draw_parts(self) -> None:
        parts = self._parts[1]
        while parts:
            parts.popleft()()

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
        is_first = not seg.layers.pictures("regions")
        seg.layers.show("regions", position, regions)
        seg.written_regions[position] = regions
        if is_first:
            self.regions_added.emit()

    def show_table(self) -> bool:
        """Show the table of regions; return False if it is not new."""
        if (seg := self.controller.segmentation) is None:
            return False
        frames = [run.frame for run in seg.array_runs.values()]
        tables = [frame.table for frame in frames if frame is not None and frame.table is not None]
        if not tables or (newest := [id(table) for table in tables]) == self._shown_tables:
            return False
        self._shown_tables = newest
        if not self.controller.is_sampling and any(TABLE_AXES in labels.metadata for labels in seg.layers.label_layers):
            return False  # a more detailed one is there
        seg.layers.show_table(tables)
        return True

    def _reuse_layers(self, seg: Segmentation) -> None:
        """Write to the layers of an earlier run with the same inputs, once there is a frame."""
        inputs = [seg.plan.sites, seg.plan.seeds, seg.plan.source.mask]
        seg.layers.reuse_layers([layer for layer in inputs if layer is not None])
        for name in ("regions", *UNCERTAINTY_IMAGES):
            for layer in seg.layers.pictures(name):
                layer.visible = name in self.controller.view.wanted
        for layer in seg.layers.pictures("sites"):
            layer.visible = self.outlines_sites
        self.layers_taken.emit()
        if seg.layers.label_layers:
            self.viewer.layers.selection.active = seg.layers.label_layers[0]
        if seg.layers.pictures("regions"):
            self.regions_added.emit()

    # ---- what is displayed

    def change_view(self, **changes: Any) -> None:
        """Change fields of :class:`~napari_gsw.widgets.session.array_run.DisplayOptions`, and what is displayed."""
        before, seg, position = self.controller.view, self.controller.segmentation, self.controller.position
        self.controller.set_view(**changes)
        view = self.controller.view
        if seg is None:
            return
        for name in view.wanted ^ before.wanted:
            for layer in seg.layers.pictures(name):
                layer.visible = name in view.wanted
        seg.layers.set_outline_colour(view.ink)
        if position is None or not self.controller.is_resting or view.ink != before.ink:
            return
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
            self.controller.redraw(*(position for position in seg.array_runs if position != self.controller.position))

    def layer_removed(self, layer: Layer) -> None:
        if (seg := self.controller.segmentation) is None:
            return
        name = seg.layers.find_name(layer)
        if name is not None:
            self.controller.set_view(wanted=self.controller.view.wanted - {name})
            self.layer_gone.emit(name)
        seg.layers.forget(layer)

    # ---- earlier sweeps

    def view_sweep(self, sweep: float) -> None:
        """Show the state that was displayed near a sweep."""
        position, array_run = self.controller.position, self.controller.array_run
        if position is None or array_run is None or self.is_busy:
            return
        self.viewing, self.viewed = array_run.interactive.history.nearest(sweep)
        self.write(position, array_run.paint_shown(self.viewed, self.controller.view.background))
        self.changed.emit()

    def leave_history(self) -> None:
        self.viewing = self.viewed = None

    def show_current(self) -> None:
        if self.viewing is None:
            return
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
        self._parts[1].clear()
        self.drawn.clear()
        self.preview_layer.remove()
        self._shown_tables = []
        self.leave_history()
