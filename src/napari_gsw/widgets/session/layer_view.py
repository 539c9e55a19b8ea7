"""What is on the screen: the newest frames, or a moment of the past, written to the layers of a segmentation."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import napari
import numpy as np
from napari.layers import Layer
from numpy.typing import NDArray
from qtpy.QtCore import QObject, QTimer, Signal

from napari_gsw.widgets.layers.brush import Brush
from napari_gsw.widgets.layers.image_source import Position
from napari_gsw.widgets.layers.layer_metadata import MADE_BY, TABLE_AXES
from napari_gsw.widgets.layers.lazy_labels import OutlinedLabels
from napari_gsw.widgets.layers.result_layers import UNCERTAINTY_IMAGES, PreviewLayer
from napari_gsw.widgets.session.array_run import ArrayRun, Frame
from napari_gsw.widgets.session.run_plan import RunPlan, Segmentation
from napari_gsw.widgets.session.run_worker import CommandQueue

# Pixels of a picture that is drawn in one go, and milliseconds between the parts of a larger one; and milliseconds
# without a change of the fineness after which every slice is drawn with it.
AT_ONCE, BETWEEN_PARTS, STILL = 1 << 23, 10, 400


class LayerView(QObject):  # type: ignore[misc]
    """Draws the segmentation that the orders work on.

    Signals
    -------
    changed : something else is looked at.
    layers_taken : layers that an earlier run has left are written to from now on.
    labels_added, regions_added : the layer of labels, or of regions or objects, has just been made or taken.
    painted_late : a position, and (\\*shape,) what was painted there after its chain was begun and before its first
        picture, which goes over it.
    layer_gone : name of a picture ("boundary", "entropy", "regions", "sites") whose layer the user has removed.

    Attributes
    ----------
    frames : the newest frame at each position.
    drawn : the frame that is on the screen at each position.
    viewing, viewed : the sweep that the user looks back at, and its numbers; None if it is the present.
    outlines_sites : whether the outlines of the superpixels are wanted.
    brushes, region_brush : what watches the layers of labels and of regions for paint, if anything does.
    """

    changed = Signal()
    layers_taken = Signal()
    labels_added = Signal()
    regions_added = Signal()
    painted_late = Signal(object, object)
    layer_gone = Signal(str)

    def __init__(self, viewer: napari.Viewer, commands: CommandQueue, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.viewer, self.commands = viewer, commands
        self.frames: dict[Position, Frame] = {}
        self.drawn: dict[Position, Frame] = {}
        self.viewing: int | None = None
        self.viewed: NDArray[np.int64] | None = None
        self.brushes: list[Brush] = []
        self.region_brush: Brush | None = None
        self.preview_layer = PreviewLayer(viewer)
        # What is left to draw of a large picture, and of which segmentation.
        self._parts: tuple[Segmentation | None, deque[Callable[[], None]]] = None, deque()
        self._next_part = QTimer(self)
        self._next_part.setSingleShot(True)
        self._next_part.setInterval(BETWEEN_PARTS)
        self._next_part.timeout.connect(self._draw_part)
        self._shown_tables: list[int] = []
        self.outlines_sites = False
        # Positions whose pictures are to be made again when they are looked at, or when nobody has moved for a while.
        self._outdated: set[Position] = set()
        self._catch_up = QTimer(self)
        self._catch_up.setSingleShot(True)
        self._catch_up.timeout.connect(self._redraw_outdated)

    # ---- where we are

    @property
    def is_busy(self) -> bool:
        """Whether a stroke is under way, which nothing may overwrite."""
        return any(brush is not None and brush.is_busy for brush in (*self.brushes, self.region_brush))

    @property
    def position(self) -> Position | None:
        """The array on the screen, or else the one that runs."""
        seg, run = self.commands.segmentation, self.commands.run
        if seg is None or not seg.array_runs:
            return None
        layer, axes = seg.plan.source.layer, seg.plan.source.stack_axes
        if layer in self.viewer.layers and axes:
            point = np.asarray(self.viewer.dims.point)[-layer.ndim :]
            step = np.round(np.asarray(layer.world_to_data(point))).astype(int)
            shown = tuple(int(step[a]) for a in axes)
            if shown in seg.array_runs:
                return shown
        if run is not None and not run.commands_only:
            running = run.jobs[run.place][0]
            if running in seg.array_runs:
                return running
        return next(iter(seg.array_runs))

    @property
    def array_run(self) -> ArrayRun | None:
        """The chain of the array on the screen."""
        seg, position = self.commands.segmentation, self.position
        return None if seg is None or position is None else seg.array_runs[position]

    @property
    def frame(self) -> Frame | None:
        """The newest frame of the array on the screen."""
        position = self.position
        return None if position is None else self.frames.get(position)

    # ---- drawing

    def collect(self) -> None:
        """Take over what the run has left behind."""
        seg, run = self.commands.segmentation, self.commands.run
        if seg is not None and run is not None:
            seg.array_runs.update(run.array_runs)
            self.frames.update(run.newest)

    @property
    def answered(self) -> bool:
        """Whether a frame waits that shows what the user has asked for since the last one was drawn."""
        seg = self.commands.segmentation
        if seg is None:
            return False
        for position, frame in self.frames.items():
            before, array_run = self.drawn.get(position), seg.array_runs.get(position)
            new = before is not None and before.n_commands_done < frame.n_commands_done
            if new and array_run is frame.array_run and frame.n_commands_done >= array_run.n_commands_sent:
                return True
        return False

    def draw(self, force: bool = False) -> bool:
        """Draw every frame that is new; False if there was none."""
        seg = self.commands.segmentation
        if seg is None or seg.plan.source.layer not in self.viewer.layers:
            return False
        if self.is_busy:
            return False  # a stroke in progress is never overwritten
        something = self._draw_preview(seg)
        for position, frame in list(self.frames.items()):
            array_run = seg.array_runs.get(position)
            # A frame from before the last correction would show it undone for a moment.
            if frame.array_run is not array_run or frame.n_commands_done < array_run.n_commands_sent:
                continue
            before = self.drawn.get(position)
            if before is frame and not force:
                continue
            self.drawn[position], something = frame, True
            self._draw_frame(seg, position, frame, before, force)
        return something

    def _draw_preview(self, seg: Segmentation) -> bool:
        """Show the coarse picture of an array that has no other yet, or take it away; whether anything was done."""
        position, preview = (self.commands.run and self.commands.run.preview) or ((), None)
        if preview is self.preview_layer.preview:
            return False
        if preview is None:
            self.preview_layer.remove()
        else:
            self.preview_layer.show(seg.plan.source, position, preview)
        return True

    def _draw_frame(
        self, seg: Segmentation, position: Position, frame: Frame, before: Frame | None, force: bool
    ) -> None:
        """Write what differs from the frame before to the layers; all of it if there was none."""
        self._finish()
        layers, wanted = seg.layers, self.commands.view.wanted
        if self.viewing is None:
            self.write(position, frame.labels)
        parts: list[Callable[[], None]] = []
        for name in UNCERTAINTY_IMAGES:
            image = getattr(frame, name)
            if image is not None and name in wanted and (before is None or image is not getattr(before, name)):
                parts.append(partial(layers.show, name, position, image))
        parts.append(partial(layers.set_convergence, frame.has_converged, frame.verdict))
        new = before is None or frame.regions is not before.regions
        if new and "regions" in wanted and frame.regions is not None:
            parts.append(partial(self.write_regions, position, frame.regions, frame.region_outlines))
        if frame.held is not None and (force or before is None or frame.held is not before.held):
            parts.append(partial(layers.show, "locked", position, frame.held.labels, frame.held.outlines))
        cut = before is not None and len(frame.numbers) != len(before.numbers)
        if (before is None or cut) and (self.outlines_sites or layers.pictures("sites")):
            parts.append(partial(layers.show_sites, position, frame.array_run.sites))
        if frame.provenance is not None:
            for labels in layers.label_layers:
                _sign(labels, seg.plan, position, frame.provenance)
        self._parts = seg, deque(parts)
        if frame.labels.size > AT_ONCE and not force:
            self._next_part.start()
        else:
            self._finish()

    def _draw_part(self) -> None:
        """Draw the next part of a large picture; the window answers before the one after it."""
        seg, parts = self._parts
        if not parts:
            return
        if seg is None or seg is not self.commands.segmentation or seg.plan.source.layer not in self.viewer.layers:
            parts.clear()  # it is gone
        elif not self.is_busy:
            parts.popleft()()
        self._next_part.start()

    def _finish(self) -> None:
        """Draw what is left of a picture."""
        parts = self._parts[1]
        while parts:
            parts.popleft()()

    def write(self, position: Position, labels: Any) -> None:
        """Write a label image where it belongs, and keep it: what differs from it later is paint."""
        seg = self.commands.segmentation
        assert seg is not None
        if new := not seg.layers.label_layers:
            self._take_over(seg)
        late = None if new else seg.late_paint(position)
        seg.layers.show_labels(position, labels)
        seg.written[position] = labels
        if new:
            self.labels_added.emit()
        if late is not None:
            self.painted_late.emit(position, late)

    def write_regions(self, position: Position, regions: Any, outlines: OutlinedLabels | None = None) -> None:
        """Write a label image of regions or objects where it belongs, and keep it, as :meth:`write` does."""
        seg = self.commands.segmentation
        assert seg is not None
        new = not seg.layers.pictures("regions")
        seg.layers.show("regions", position, regions, outlines)
        seg.written_regions[position] = regions
        if new:
            self.regions_added.emit()

    def show_table(self) -> bool:
        """Show the table of regions if it is new; False if it is not."""
        seg = self.commands.segmentation
        tables = [frame.table for frame in self.frames.values() if frame.table is not None]
        if seg is None or not tables or (newest := [id(table) for table in tables]) == self._shown_tables:
            return False
        self._shown_tables = newest
        if not self.commands.sampling and any(TABLE_AXES in labels.metadata for labels in seg.layers.label_layers):
            return False  # at rest there is a fuller one
        seg.layers.show_table(tables)
        return True

    def _take_over(self, seg: Segmentation) -> None:
        """Show a segmentation on the layers that an earlier one of the same has left: not before it has a picture."""
        given = [seg.plan.sites, seg.plan.seeds, seg.plan.source.mask]
        seg.layers.reuse_layers([layer for layer in given if layer is not None])
        for name in ("regions", *UNCERTAINTY_IMAGES):
            for layer in seg.layers.pictures(name):
                layer.visible = name in self.commands.view.wanted
        for layer in seg.layers.pictures("sites"):
            layer.visible = self.outlines_sites
        self.layers_taken.emit()
        if seg.layers.label_layers:
            self.viewer.layers.selection.active = seg.layers.label_layers[0]
        if seg.layers.pictures("regions"):
            self.regions_added.emit()

    # ---- what is shown

    def change_view(self, **changes: Any) -> None:
        """Show another state, other pictures or another detail: fields of :class:`View` by name."""
        before = self.commands.view
        self.commands.view = view = replace(before, **changes)
        if (seg := self.commands.segmentation) is not None:
            for name in view.wanted ^ before.wanted:
                for layer in seg.layers.pictures(name):
                    layer.visible = name in view.wanted
            seg.layers.set_outline_colour(view.ink)
        position = self.position
        if seg is None or position is None or not self.commands.resting or view.ink != before.ink:
            return
        if view.detail != before.detail:
            self.redraw()  # a slider is dragged
            return
        self._outdated = set()
        self.commands.redraw(position, *(place for place in seg.array_runs if place != position))

    def redraw(self) -> None:
        """Make the picture on the screen again, and others when they are looked at or nothing else is to be done."""
        seg, position = self.commands.segmentation, self.position
        if seg is None or position is None or not self.commands.resting:
            return
        self._outdated = {place for place in seg.array_runs if place != position}
        self._catch_up.start(STILL)  # all of them at last: their tables stand beside each other
        self.commands.redraw(position)

    def _redraw_outdated(self) -> None:
        """One slice after the other: what is asked for meanwhile comes first."""
        if self._outdated and self.commands.resting:
            if self.commands.run is None or not self.commands.run.commands_only:
                self.commands.redraw(self._outdated.pop())
            self._catch_up.start(BETWEEN_PARTS)

    def layer_removed(self, layer: Layer) -> None:
        """A picture that the user has removed is not wanted any more."""
        seg = self.commands.segmentation
        if seg is None:
            return
        name = seg.layers.find_name(layer)
        if name is not None:
            self.commands.view = replace(self.commands.view, wanted=self.commands.view.wanted - {name})
            self.layer_gone.emit(name)
        seg.layers.forget(layer)

    # ---- looking back

    def view_sweep(self, sweep: float) -> None:
        """Show the state that was on the screen near a sweep."""
        position, array_run = self.position, self.array_run
        if position is None or array_run is None or self.is_busy:
            return
        self.viewing, self.viewed = array_run.interactive.history.nearest(sweep)
        self.write(position, array_run.paint_shown(self.viewed, self.commands.view.background))
        self.changed.emit()

    def leave_history(self) -> None:
        """Stop looking back; the next frame is drawn."""
        self.viewing = self.viewed = None

    def show_current(self) -> None:
        """Show the chain as it is now."""
        if self.viewing is None:
            return
        self.leave_history()
        self.drawn.clear()
        if self.commands.run is None:
            self.draw(force=True)
        self.changed.emit()

    def moved(self, event: Any = None) -> None:
        """The user has gone to another slice."""
        seg = self.commands.segmentation
        if seg is not None and seg.plan.source.stack_shape:
            self.show_current()  # what was looked back at stays in no slice
            if (position := self.position) in self._outdated and self.commands.resting:
                self._outdated.discard(position)
                self.commands.redraw(position)
            self.changed.emit()

    def forget(self) -> None:
        """Nothing is drawn yet, and no fineness is chosen: what suits one image says nothing of another."""
        self.commands.view = replace(self.commands.view, detail=None)
        self._parts[1].clear()
        self.frames.clear()
        self.drawn.clear()
        self.preview_layer.remove()
        self._shown_tables = []
        self._outdated = set()
        self.leave_history()


def _sign(labels: Layer, plan: RunPlan, position: Position, provenance: dict[str, Any]) -> None:
    """Leave in the layer what made it, for whoever saves it."""
    if not plan.source.stack_shape:
        labels.metadata[MADE_BY] = provenance
    else:
        parts = labels.metadata.setdefault(MADE_BY, {"software": "napari-gsw", "parts": {}})["parts"]
        parts[" ".join(map(str, position))] = provenance
