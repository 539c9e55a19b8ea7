"""Mediator between the form, the run in its thread, and the layers in the viewer; the table of its states."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import napari
import numpy as np
from napari.layers import Image, Layer
from napari.utils.notifications import show_info
from qtpy.QtCore import QObject, QTimer, Signal

from napari_gsw.core.errors import InputError
from napari_gsw.core.interactive.interactive_run import DisplayedState
from napari_gsw.core.pipeline.warm_up import BACKGROUND, compiling_stage
from napari_gsw.widgets.common.dock_panel import Connections
from napari_gsw.widgets.common.text import format_error, format_sentence, report_error
from napari_gsw.widgets.common.undo import get_undo_stack
from napari_gsw.widgets.layers.image_source import ImageSource, Position
from napari_gsw.widgets.layers.layer_metadata import get_layer_kind
from napari_gsw.widgets.layers.result_layers import TOGGLED, ResultLayers
from napari_gsw.widgets.session.array_run import ArrayRun
from napari_gsw.widgets.session.autosave import Autosaver
from napari_gsw.widgets.session.corrections import ActiveLearning, Corrections, ObjectEditor
from napari_gsw.widgets.session.layer_view import LayerView
from napari_gsw.widgets.session.run_plan import RunPlan, Segmentation
from napari_gsw.widgets.session.run_worker import RunController, RunWorker

# What can be done in each state.
ALLOWED: dict[str, frozenset[str]] = {
    "no image": frozenset(),
    "ready": frozenset({"run", "step", "form"}),
    "running": frozenset({"pause", "stop"}),
    "paused": frozenset({"pause", "step", "stop"}),
    "done": frozenset({"run", "step", "reset", "form"}),
}
# How many times longer than a frame took to paint the window rests afterwards, at most so many seconds. Without a
# graphics card, painting takes as much of the processor as the chain, which comes first except for some seconds after
# a start or a correction.
REST, EAGER_REST, MAX_REST, EAGER_FOR = 10.0, 0.8, 2.0, 4.0
# Milliseconds between two ticks; shortest time between two frames, and between two updates of trace and counters, in
# seconds. Milliseconds between two looks at the kernels that are compiled.
TICK, DRAW_EVERY, TEXT_EVERY, POLL_MS = 20, 0.05, 0.4, 250
# Properties that say where a layer lies.
PLACEMENT = ("scale", "translate", "rotate", "shear", "affine", "units")


class RefreshRate:
    """Decides when to draw the next frame, from how long the last one took to reach the screen.

    Qt does not report when a frame has been painted, but while it paints, no timer fires. So the time from a frame to
    the next tick, beyond the interval of ticks, is the cost of painting.
    """

    def __init__(self) -> None:
        self._drawn_at: float | None = None
        self._next = self._eager_until = 0.0

    def be_eager(self) -> None:
        self._eager_until = time.perf_counter() + EAGER_FOR

    @property
    def painted(self) -> bool:
        """First tick after a frame, when the next frame is requested; earlier, the chain would wait for painting."""
        return self._drawn_at is not None

    def due(self) -> bool:
        """Return whether to draw now; to be called at every tick."""
        now = time.perf_counter()
        if self._drawn_at is not None:
            cost = max(0.0, now - self._drawn_at - TICK / 1000)
            rest = (EAGER_REST if now < self._eager_until else REST) * cost
            self._next, self._drawn_at = max(self._drawn_at + DRAW_EVERY, now + min(rest, MAX_REST)), None
        return now >= self._next

    def drawn(self) -> None:
        self._drawn_at = time.perf_counter()


class KernelWarmUp(QObject):  # type: ignore[misc]
    """Compiles kernels while a dock is open."""

    changed = Signal()  # for each kernel, and at the end

    def __init__(self, connections: Connections, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._stage = compiling_stage()
        self._timer = QTimer(self, interval=POLL_MS, timeout=self._poll)
        BACKGROUND.begin()
        self._timer.start()
        connections.stop_on_close(self._timer)
        connections.on_close(BACKGROUND.end)

    def _poll(self) -> None:
        if (stage := compiling_stage()) != self._stage:
            self._stage = stage
            self.changed.emit()
        if not BACKGROUND.is_running:
            self._timer.stop()
            threading.Thread(target=_import_for_autosaves, name="napari-gsw imports").start()


def _import_for_autosaves() -> None:
    """Import what packs arrays before the first autosave, which would delay the first labels."""
    import numcodecs.zstd  # noqa: F401


class ResetStep:
    """A Reset as a step of the undo stack: undo and redo exchange the displayed state of a segmentation and another."""

    keeps_chains = True

    def __init__(self, owner: Session, segmentation: Segmentation) -> None:
        self.owner, self.segmentation = owner, segmentation
        # Plan, runs and detail that are not displayed.
        self.put_aside: tuple[RunPlan, dict[Position, ArrayRun], float | None]
        self.put_aside = segmentation.plan.unstarted(), {}, None

    @property
    def is_obsolete(self) -> bool:
        return self.owner.segmentation is not self.segmentation

    def undo(self) -> None:
        self.owner.exchange(self)

    redo = undo


class Session(RunController):
    """The work of one panel in one viewer; it connects the form, the run in its thread, and the layers."""

    state_changed = Signal()
    framed = Signal()  # counters, trace or region table have changed
    drawable = Signal()  # what was postponed may be drawn now
    noticed = Signal(str)  # a message for the user
    image_moved = Signal()  # or its pixel size has changed
    visibility_changed = Signal(str, bool)  # a kind of layer of TOGGLED, and whether it is visible now

    def __init__(self, viewer: napari.Viewer, connections: Connections, parent: QObject | None = None) -> None:
        super().__init__(viewer, connections, parent)
        self.ready = False  # whether there is an image that can be segmented
        self.layer_view = LayerView(self, self)
        self.steps = get_undo_stack(viewer)
        self.corrections = Corrections(self, self.layer_view, self.steps, self)
        self.active_learning = ActiveLearning(self.corrections, self)
        self.autosaver = Autosaver(self, self)
        self.editor = ObjectEditor(self.corrections, self)
        # What the user has asked for while a run was still ending.
        self._postponed: Callable[[], None] | None = None
        # Whether the end of a run has chosen the displayed state, so that the next one shows its progress again.
        self._show_chosen_by_end = False
        self._rate, self._text_due = RefreshRate(), 0.0
        self._timer = QTimer(self, interval=TICK, timeout=self._tick)
        self.launched.connect(self._timer.start)
        self.launched.connect(self._rate.be_eager)
        self.ending.connect(self._draw_last)
        self.ended.connect(self._ended)
        self.layer_view.changed.connect(self.framed)
        self.corrections.changed.connect(self._corrected)
        self.corrections.detached.connect(self._detached)
        self.framed.connect(self.active_learning.update)
        self.autosaver.refused.connect(self.show_message)
        self.editor.refused.connect(self.show_message)
        self.editor.layer_replaced.connect(self._forget_layer)
        self.steps.bind_undo_keys(viewer, connections)
        for layer in viewer.layers:
            self._watch(layer)
        connections.connect(viewer.layers.events.inserted, self._layer_inserted)
        connections.connect(viewer.layers.events.removed, self._layer_removed)
        connections.connect(viewer.dims.events.current_step, self.layer_view.moved)
        connections.on_close(self._close)
        connections.stop_on_close(self._timer)

    @property
    def state(self) -> str:
        """A key of ALLOWED."""
        if self.run is not None and self.is_sampling:
            return "paused" if self.run.is_paused else "running"
        return ("done" if self.continues else "ready") if self.ready else "no image"

    @property
    def continues(self) -> bool:
        """True if the next run continues the present one."""
        return self.segmentation is not None and bool(self.segmentation.array_runs)

    def can_continue(self, source: ImageSource | None) -> bool:
        seg = self.segmentation
        return self.continues and source is not None and seg is not None and seg.plan.source.key == source.key

    def can(self, what: str) -> bool:
        return what in ALLOWED[self.state]

    # ---- what the user asks for

    def _postpone(self, action: Callable[[], None]) -> bool:
        """End the run and have an action done afterwards; return False if there is no run."""
        if self.run is not None:
            self._postponed = action
            self.stop()
        return self.run is not None

    def start(self, plan: RunPlan, sweeps: int | None = None) -> None:
        if self._postpone(partial(self.start, plan, sweeps)):
            return
        try:
            jobs = self._get_segmentation(plan).jobs(plan)
        except InputError as reason:
            self.show_message(str(reason))
            return
        if self._show_chosen_by_end:
            self.set_view(show="current")
            self._show_chosen_by_end = False
        self.layer_view.show_current()
        self.launch(RunWorker(jobs, plan.settings.sweeps if sweeps is None else sweeps))
        self.state_changed.emit()

    def toggle_pause(self) -> None:
        if self.run is not None:
            if self.run.is_paused:
                self.run.resume()
            else:
                self.run.pause()
            self.state_changed.emit()

    def step(self, plan: RunPlan) -> None:
        if self.run is None or not self.is_sampling:
            self.start(plan, 1)
        elif self.run.is_paused:
            self.run.step()

    def reset(self) -> None:
        """Put the chains aside, with locks and paint; the layers stay, empty, for the next run."""
        if self.segmentation is not None:
            step = ResetStep(self, self.segmentation)
            self.exchange(step)
            self.steps.push(step)

    def exchange(self, step: ResetStep) -> None:
        if self._postpone(partial(self.exchange, step)):
            return
        if (seg := step.segmentation) is self.segmentation:
            displayed = seg.plan, seg.array_runs, self.view.detail
            (seg.plan, seg.array_runs, detail), step.put_aside = step.put_aside, displayed
            seg.written.clear()
            seg.written_regions.clear()
            seg.layers.clear()
            self._clear()
            self.set_view(detail=detail)
            self.layer_view.draw(force=True)
            self.layer_view.show_table()
        self.state_changed.emit()

    def adopt(self, plan: RunPlan, array_runs: dict[Position, ArrayRun]) -> None:
        """Show saved runs and be ready to continue them; a run that is on ends first."""
        if self._postpone(partial(self.adopt, plan, array_runs)):
            return
        self._drop()
        seg = self._get_segmentation(plan)
        seg.plan, seg.array_runs = plan, array_runs
        self._settle()
        self.redraw(*array_runs)

    def set_show(self, show: DisplayedState) -> None:
        self._show_chosen_by_end = False
        self.layer_view.show_current()
        self.layer_view.change_view(show=show)

    def paint_first(self, plan: RunPlan) -> None:
        if plan.source.is_chunked:
            self.show_message("an image this large cannot be painted on; give seeds as a Labels layer")
            return
        layers = self._get_segmentation(plan).layers
        if layers.labels is None:
            layers.show_labels(plan.source.positions[0], np.zeros(plan.source.space, np.uint16))
            self.corrections.attach_brush()
        assert layers.labels is not None
        self.viewer.layers.selection.active = layers.labels
        layers.labels.mode = "paint"

    def set_ready(self, ready: bool) -> None:
        self.ready = ready
        if not self.is_sampling:
            self.state_changed.emit()

    # ---- the run

    def _tick(self) -> None:
        if (run := self.run) is None:  # what is left of a large frame
            if not self.layer_view.draw() and not self.layer_view.is_busy:
                self._timer.stop()
            return
        self._show_notices(run)
        self.layer_view.collect()
        is_urgent, now = self.layer_view.is_urgent, time.perf_counter()
        if self._rate.painted:
            run.want_frame()
        if not self._rate.due() and not is_urgent:
            return
        # One thing at a time, so that the window is never busy for long; first what the user waits for. Trace and
        # counters come after a frame, or a slow screen would show nothing else.
        if not is_urgent and now > self._text_due:
            self._text_due = math.inf
            self.framed.emit()
            self.drawable.emit()  # together, so that the window is painted once for both
        else:
            self._text_due = min(self._text_due, now + TEXT_EVERY)
            if not self.layer_view.draw() and not self.layer_view.show_table():
                run.want_frame()
                return
        self._rate.drawn()

    def _corrected(self) -> None:
        """Draw the consequences of a correction first, and often."""
        self._text_due = time.perf_counter() + TEXT_EVERY
        self._rate.be_eager()

    def _draw_last(self) -> None:
        self.layer_view.collect()
        self.layer_view.draw()
        self.layer_view.show_table()
        assert self.run is not None
        self._show_notices(self.run)

    def _ended(self, run: RunWorker) -> None:
        if run.failure is not None:
            self.noticed.emit(format_error(run.failure))
            report_error(run.failure, "GSW segmentation")
        if self._postponed is not None and self.run is None:
            action, self._postponed = self._postponed, None
            self.state_changed.emit()
            action()
            return
        if self._postponed is None and not run.commands_only and not run.abandoned:
            self._settle()
        self.framed.emit()

    def _settle(self) -> None:
        """Show what a segmentation returns, the best state or the consensus, after a run."""
        seg = self.segmentation
        if seg is not None and self.continues and self.view.show == "current":
            has_draws = all(len(run.interactive.summary.draws) for run in seg.array_runs.values())
            has_consensus = has_draws and seg.plan.settings.consensus != "none"
            self.set_view(show="consensus" if has_consensus else "best")
            self._show_chosen_by_end = True
            self.redraw(*seg.array_runs)
        for layer in (*seg.layers.label_layers, *seg.layers.of_kind("regions")) if seg is not None else ():
            if layer in self.viewer.layers:
                layer.update_thumbnail()  # which is not updated during a run
        self.state_changed.emit()

    def _show_notices(self, run: RunWorker) -> None:
        while run.notices:
            self.show_message(run.notices.popleft())

    def show_message(self, text: str) -> None:
        self.noticed.emit(text)
        show_info(f"GSW segmentation: {format_sentence(text)}")

    # ---- the segmentation

    def _get_segmentation(self, plan: RunPlan) -> Segmentation:
        """Return the present segmentation, or a new one if the plan is for other arrays."""
        if (seg := self.segmentation) is not None and seg.plan.source.key == plan.source.key:
            return seg
        self._drop()
        seg = self.segmentation = Segmentation(plan.unstarted(), ResultLayers(self.viewer, plan.source))
        wanted = self.view.wanted | ({"regions"} if plan.settings.view != "clusters" else set())
        self.set_view(wanted=wanted, background=plan.settings.view != "objects")
        seg.layers.set_outline_colour(self.view.ink)
        return seg

    def _drop(self) -> None:
        """Let go of the segmentation, whose image or label layer is gone. A run ends by itself."""
        self.stop()
        self.corrections.detach_brush()
        self.editor.detach()
        self._clear()
        self.steps.forget(self.corrections)
        self.steps.forget(self)
        self.segmentation = None

    def _clear(self) -> None:
        self.active_learning.stop()
        self.layer_view.forget()

    def _drop_and_rest(self, message: str = "") -> None:
        if message:
            self.show_message(message)
        self._drop()
        self.state_changed.emit()

    def _detached(self) -> None:
        self._drop_and_rest("the label layer was given other data, so the run has let it go")

    # ---- layers

    def _layer_inserted(self, event: Any) -> None:
        self._watch(event.value)

    def _watch(self, layer: Layer) -> None:
        for signal, slot in self._find_slots(layer):
            self.connections.connect(signal, slot)

    def _find_slots(self, layer: Layer) -> Iterator[tuple[Any, Callable[[Any], None]]]:
        """Yield what has to be known of a layer: of ours the visibility, of an image its pixels and its place."""
        if get_layer_kind(layer) is not None:
            yield layer.events.visible, self._layer_toggled
        elif isinstance(layer, Image):
            yield layer.events.data, self._image_replaced
            for name in PLACEMENT:
                yield getattr(layer.events, name), self._image_placed

    def _is_image(self, layer: Layer) -> bool:
        return self.segmentation is not None and self.segmentation.is_of(layer)

    def _image_replaced(self, event: Any) -> None:
        """Let go of the segmentation of an image that was given other pixels; its layers stay."""
        if self._is_image(event.source):
            self._drop_and_rest(
                "the image was given other pixels, so its segmentation has ended; press Run for a new one"
            )

    def _image_placed(self, event: Any) -> None:
        if (seg := self.segmentation) is None or not self._is_image(event.source):
            return
        seg.layers.move_to_image()
        size = seg.plan.source.pixel_size
        if any(run.pixel_size != size for run in seg.array_runs.values()):
            for run in seg.array_runs.values():
                run.pixel_size = size
            self.layer_view.redraw()
        self.image_moved.emit()

    def _layer_removed(self, event: Any) -> None:
        layer: Layer = event.value
        for signal, slot in self._find_slots(layer):
            self.connections.disconnect(signal, slot)
        if (seg := self.segmentation) is None:
            return
        needed: list[Layer | None] = [*seg.plan.source.image_layers, *seg.layers.label_layers]
        if self.is_sampling:
            needed += [seg.plan.sites, seg.plan.seeds, seg.plan.source.mask]
        if any(layer is x for x in needed):
            self._drop_and_rest()
        else:
            self._forget_layer(layer)

    def _forget_layer(self, layer: Layer) -> None:
        seg, kind = self.segmentation, get_layer_kind(layer)
        if seg is None or layer not in seg.layers.all():
            return
        if kind == "regions":
            self.editor.release()
        seg.layers.forget(layer)
        if kind in TOGGLED:
            self.set_view(wanted=self.view.wanted - {kind})
            self.visibility_changed.emit(kind, False)

    def _layer_toggled(self, event: Any) -> None:
        seg, wanted, kind = self.segmentation, self.view.wanted, get_layer_kind(event.source)
        if seg is None or kind not in TOGGLED or event.source not in seg.layers.all():
            return
        is_visible = any(layer.visible for layer in seg.layers.of_kind(kind))
        if kind != "superpixels" and is_visible != (kind in wanted):
            if is_visible:
                self.layer_view.change_view(wanted=wanted | {kind})
            else:
                self.set_view(wanted=wanted - {kind})
        self.visibility_changed.emit(kind, is_visible)

    def _close(self) -> None:
        self._postponed = None
        self.end()
        self.autosaver.close()
        self._drop()
