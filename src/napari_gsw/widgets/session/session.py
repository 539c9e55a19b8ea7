"""The states of a session, and what can be done in each: one table."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

import napari
import numpy as np
from napari.layers import Layer
from napari.utils.notifications import show_info
from qtpy.QtCore import QObject, QTimer, Signal

from napari_gsw.core.errors import InputError
from napari_gsw.core.interactive.interactive_run import DisplayedState
from napari_gsw.core.pipeline.warm_up import BACKGROUND, compiling_stage
from napari_gsw.files.zarr_io import zarr_package
from napari_gsw.widgets.common.dock_panel import Connections
from napari_gsw.widgets.common.labels import format_error, format_sentence, report_error
from napari_gsw.widgets.common.undo import get_undo_stack
from napari_gsw.widgets.layers.image_source import ImageSource, Position
from napari_gsw.widgets.layers.layer_metadata import get_layer_kind
from napari_gsw.widgets.layers.result_layers import ResultLayers
from napari_gsw.widgets.session.active_learning import ActiveLearning
from napari_gsw.widgets.session.array_run import ArrayRun, Frame
from napari_gsw.widgets.session.autosave import Autosaver
from napari_gsw.widgets.session.corrections import Corrections, ResetStep, SegmentationState
from napari_gsw.widgets.session.layer_view import LayerView
from napari_gsw.widgets.session.object_editor import ObjectEditor
from napari_gsw.widgets.session.run_plan import RunPlan, Segmentation
from napari_gsw.widgets.session.run_worker import CommandQueue, RunWorker

ALLOWED: dict[str, frozenset[str]] = {
    "no image": frozenset(),
    "ready": frozenset({"run", "step", "form"}),
    "running": frozenset({"pause", "stop"}),
    "paused": frozenset({"pause", "step", "stop"}),
    "done": frozenset({"run", "step", "reset", "form"}),
}

# After a picture the painter rests so many times longer than it took to paint, at least and at most. Where there is no
# graphics card, painting takes as much of the processor as the chain does. At first, when most of the picture changes,
# a chain that makes a hundred sweeps a second can spare that, and is nice to look at; one that takes a tenth of a
# second for a sweep comes first. Later any chain does.
EAGER_REST, LEAST_REST, MOST_REST = 0.8, 10.0, 14.0
# Later pictures are so many times as far apart at least, even where painting costs nothing: they have to be made, too.
# With the time between two looks that is about ten a second.
CALM = 1.2
# For how long after a beginning or a correction pictures come first, in seconds.
EAGER_FOR = 4.0
# A sweep of so many seconds is worth a rest as long as the picture took.
QUICK_SWEEP = 0.01
# So many times what the picture before has cost, or what is next to nothing (in seconds), no picture costs by itself.
UNUSUAL, NOTHING = 8.0, 0.05


class RefreshRate:
    """Decides when the next picture is due, from how long the last one took to reach the screen.

    Qt does not say when a picture has been painted; but while it paints, it does not come back to us. So the time from
    a picture to the next look, beyond the usual time between two looks, is what painting has cost. Something else may
    have held the window up meanwhile: what is far above the picture before counts only when it comes again.

    Parameters
    ----------
    every : shortest time between two pictures at first, in seconds.
    usual : time between two looks when there is nothing to paint.
    lines : time from one turn of what is written beside the picture to the next.
    """

    def __init__(self, every: float, usual: float, lines: float) -> None:
        self.every, self.usual, self.lines = every, usual, lines
        self._lines_due = 0.0
        self._next = 0.0
        self._began: float | None = None
        self._cost = math.inf
        self._eager_until = 0.0

    def be_eager(self) -> None:
        """Much is going to change."""
        self._eager_until = time.perf_counter() + EAGER_FOR

    @property
    def painted(self) -> bool:
        """Whether this is the first look after a picture: a frame is asked for now, and not before.

        A chain that comes to a frame while the window is painted would have to wait until that is over.
        """
        return self._began is not None

    def due(self, sweep: float = 0.0) -> bool:
        """Whether to draw now; to be asked at every look. `sweep` is the time that a sweep takes, in seconds."""
        now = time.perf_counter()
        if self._began is not None:
            before, cost = self._cost, max(0.0, now - self._began - self.usual)
            self._cost = cost
            cost = before if cost > UNUSUAL * max(before, NOTHING) else cost
            eager = now < self._eager_until
            rest = min(max(sweep / QUICK_SWEEP, EAGER_REST if eager else LEAST_REST), MOST_REST)
            self._next = max(self._began + self.every * (1 if eager else CALM), now + rest * cost)
            self._began = None
        return now >= self._next

    def turn_of_lines(self) -> bool:
        """Whether it is the turn of what is written, which is then taken."""
        turn = time.perf_counter() > self._lines_due
        if turn:
            self.postpone_lines()
        return turn

    def postpone_lines(self) -> None:
        """What is written has its turn later."""
        self._lines_due = time.perf_counter() + self.lines

    def correct(self) -> None:
        """Somebody has stepped in: what follows from it is drawn first, and often."""
        self.postpone_lines()
        self.be_eager()

    def drawn(self) -> None:
        """A picture has just been handed to Qt."""
        self._began = time.perf_counter()


POLL_MS = 250


class KernelWarmUp(QObject):  # type: ignore[misc]
    """Warms up from the opening of a dock, and signals `changed` when another kernel is compiled or it is over."""

    changed = Signal()

    def __init__(self, connections: Connections, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._stage = compiling_stage()
        self._timer = QTimer(self)
        self._timer.setInterval(POLL_MS)
        self._timer.timeout.connect(self._poll)
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
    """Import zarr before the first autosave, which comes with the first labels and would take a second longer."""
    with suppress(ImportError, InputError):
        zarr_package()


# What can change of where a layer lies.
PLACE = ("scale", "translate", "rotate", "shear", "affine", "units")


class LayerEvents(QObject):  # type: ignore[misc]
    """Hears what happens to the layers of a segmentation while there is one.

    Signals
    -------
    image_replaced : an image was given other pixels.
    moved : an image has gone somewhere else, or its pixels have another size.
    eyes_changed : name of a picture ("boundary", "entropy", "regions", "sites"), and whether it is shown now.
    """

    image_replaced = Signal()
    moved = Signal()
    eyes_changed = Signal(str, bool)

    def __init__(
        self,
        viewer: napari.Viewer,
        connections: Connections,
        commands: CommandQueue,
        canvas: LayerView,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self.commands, self.canvas, self.connections = commands, canvas, connections
        connections.connect(viewer.layers.events.inserted, self._inserted)
        connections.connect(viewer.layers.events.removed, self._removed)
        canvas.layers_taken.connect(self._watch_taken)

    # ---- the image

    def tie(self, segmentation: Segmentation) -> None:
        """Hear what happens to the images of a segmentation."""
        for signal, slot in self._of_images(segmentation):
            self.connections.connect(signal, slot)

    def untie(self, segmentation: Segmentation | None) -> None:
        """Hear it no more; nothing happens if there is none."""
        for signal, slot in self._of_images(segmentation):
            self.connections.disconnect(signal, slot)

    def _of_images(self, segmentation: Segmentation | None) -> Iterator[tuple[Any, Any]]:
        for image in () if segmentation is None else segmentation.plan.source.image_layers:
            yield image.events.data, self._data_replaced
            for name in PLACE:
                yield getattr(image.events, name), self._moved

    def _data_replaced(self, event: Any = None) -> None:
        self.image_replaced.emit()

    def _moved(self, event: Any = None) -> None:
        """The image has gone somewhere else."""
        if (seg := self.commands.segmentation) is None:
            return
        seg.layers.place()
        size = seg.plan.source.pixel_size
        if any(one.pixel_size != size for one in seg.array_runs.values()):
            for one in seg.array_runs.values():
                one.pixel_size = size
            self.canvas.redraw()
        self.moved.emit()

    # ---- the eyes in napari's list of layers

    def _watch_taken(self) -> None:
        """Layers that an earlier run has left may be older than we are."""
        seg = self.commands.segmentation
        for layer in () if seg is None else seg.layers.all():
            self.connections.disconnect(layer.events.visible, self._eye)
            self.connections.connect(layer.events.visible, self._eye)

    def _inserted(self, event: Any) -> None:
        if get_layer_kind(event.value) is not None:
            self.connections.connect(event.value.events.visible, self._eye)

    def _removed(self, event: Any) -> None:
        self.connections.disconnect(event.value.events.visible, self._eye)

    def _eye(self, event: Any) -> None:
        """A picture was shown or hidden; of those of several images, the box stands for any."""
        layer: Layer = event.source
        seg, view = self.commands.segmentation, self.commands.view
        name = None if seg is None else seg.layers.find_name(layer)
        if seg is None or name is None:
            return
        shown = any(one.visible for one in seg.layers.pictures(name))
        if name != "sites" and shown != (name in view.wanted):
            if shown:
                self.canvas.change_view(wanted=view.wanted | {name})
            else:
                self.commands.view = replace(view, wanted=view.wanted - {name})
        self.eyes_changed.emit(name, shown)


# How often the session looks whether there is something to draw, in milliseconds; how often it draws at most, and how
# often the trace and the counters have their turn, in seconds.
TICK, DRAW_EVERY, LINES_EVERY = 20, 0.05, 0.4


class Session(QObject):  # type: ignore[misc]
    """One panel's work on one viewer.

    Signals
    -------
    state_changed : the state has changed.
    framed : there is something new to read: counters, trace, region table.
    drawable : what was put off may be drawn now: napari is not in the midst of anything.
    noticed : a sentence for the user.

    Attributes
    ----------
    state : one of those of `ALLOWED`.
    ready : whether there is an image that can be segmented.
    """

    state_changed = Signal()
    framed = Signal()
    drawable = Signal()
    noticed = Signal(str)

    def __init__(self, viewer: napari.Viewer, connections: Connections, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.viewer = viewer
        self.state = "no image"
        self.ready = False
        self.commands = CommandQueue(self)
        self.canvas = LayerView(viewer, self.commands, self)
        self.layer_events = LayerEvents(viewer, connections, self.commands, self.canvas, self)
        self.layer_events.image_replaced.connect(self._image_replaced)
        self.steps = get_undo_stack(viewer)
        self.corrections = Corrections(self.commands, self.canvas, self.steps, self)
        self.active_learning = ActiveLearning(viewer, self.commands, self.canvas, self.corrections, self)
        self.autosaver = Autosaver(self.commands, self)
        self.autosaver.refused.connect(self.show_message)
        self.editor = ObjectEditor(self.corrections, self)
        # What the user has asked for while a run was still ending.
        self._next: Callable[[], None] | None = None
        # Whether it was the end of a run that has chosen what is shown, so that the next one shows its progress again.
        self._show_chosen_by_end = False
        self._pace = RefreshRate(DRAW_EVERY, TICK / 1000, LINES_EVERY)
        self._timer = QTimer(self, interval=TICK, timeout=self._tick)
        self.commands.launched.connect(self._timer.start)
        self.commands.launched.connect(self._pace.be_eager)
        self.commands.ending.connect(self._ending)
        self.commands.ended.connect(self._ended)
        self.canvas.changed.connect(self.framed)
        self.corrections.changed.connect(self._pace.correct)
        self.framed.connect(self.active_learning.look)
        self.corrections.detached.connect(self._detached)
        self.editor.refused.connect(self.show_message)
        self.connections = connections
        self.steps.bind_undo_keys(viewer, connections)
        connections.connect(viewer.layers.events.removed, self._layer_removed)
        connections.connect(viewer.dims.events.current_step, self.canvas.moved)
        connections.on_close(self._end)
        connections.stop_on_close(self._timer)

    # ---- what the views read

    @property
    def run(self) -> RunWorker | None:
        return self.commands.run

    @property
    def segmentation(self) -> Segmentation | None:
        return self.commands.segmentation

    @property
    def position(self) -> Position | None:
        return self.canvas.position

    @property
    def array_run(self) -> ArrayRun | None:
        return self.canvas.array_run

    @property
    def frame(self) -> Frame | None:
        return self.canvas.frame

    @property
    def continues(self) -> bool:
        """Whether there is something to go on with."""
        return self.segmentation is not None and bool(self.segmentation.array_runs)

    def goes_on(self, source: ImageSource | None) -> bool:
        """Whether a run on a source would go on with what there is."""
        seg = self.segmentation
        return self.continues and source is not None and seg is not None and seg.plan.source.key == source.key

    def can(self, what: str) -> bool:
        return what in ALLOWED[self.state]

    # ---- what the user asks for

    def start(self, plan: RunPlan, sweeps: int | None = None) -> None:
        """Begin a run, or go on from what is shown if there is something."""
        if self.run is not None:
            self._next = partial(self.start, plan, sweeps)
            if self.run.commands_only:  # which may be settling after a correction
                self.run.stop()
            return
        try:
            jobs = self._segmentation_of(plan).jobs(plan)
        except InputError as reason:
            self.show_message(str(reason))
            return
        if self._show_chosen_by_end:
            self.commands.view = replace(self.commands.view, show="current")
            self._show_chosen_by_end = False
        self.canvas.show_current()
        self.commands.launch(RunWorker(jobs, plan.settings.sweeps if sweeps is None else sweeps))
        self._enter("running")

    def toggle_pause(self) -> None:
        if self.run is None:
            return
        if self.run.held:
            self.run.resume()
            self._enter("running")
        else:
            self.run.pause()
            self._enter("paused")

    def step(self, plan: RunPlan) -> None:
        """One sweep: of the held chain, or of a run that ends with it."""
        if self.run is None:
            self.start(plan, 1)
        elif self.run.held:
            self.run.step()

    def stop(self) -> None:
        """End the run and keep what there is."""
        self.commands.stop()

    def reset(self) -> None:
        """Put the chains aside; the layers stay, empty, for the next run. Locks and paint go too."""
        if (seg := self.segmentation) is not None:
            aside = SegmentationState(seg.plan.unstarted())
            step = ResetStep(self, seg, aside, self._exchange, lambda seg: self.segmentation is not seg)
            self._exchange(step)
            self.steps.push(step)

    def _exchange(self, step: ResetStep) -> None:
        """Show how the segmentation stood before a Reset, or how it stands after it."""
        if self.run is not None:
            self._next = partial(self._exchange, step)
            self.run.stop()
            return
        seg, aside = step.segmentation, step.aside
        if seg is self.segmentation:
            step.aside = SegmentationState(
                seg.plan, seg.array_runs, dict(self.canvas.frames), self.commands.view.detail
            )
            seg.plan, seg.array_runs = aside.plan, aside.array_runs
            seg.written.clear()
            seg.written_regions.clear()
            seg.layers.clear()
            self._clear()
            self.commands.view = replace(self.commands.view, detail=aside.detail)
            self.canvas.frames.update(aside.frames)
            self.canvas.draw(force=True)
            self.canvas.show_table()
        self._rest()

    def adopt(self, plan: RunPlan, array_runs: dict[Position, ArrayRun]) -> None:
        """Show runs that were saved, and be ready to go on with them; a run that is on ends first."""
        if self.run is not None:
            self._next = partial(self.adopt, plan, array_runs)
            self.run.stop()
            return
        self._drop()
        seg = self._segmentation_of(plan)
        seg.plan, seg.array_runs = plan, array_runs
        self._settle()
        self.commands.redraw(*array_runs)

    def set_show(self, show: DisplayedState) -> None:
        """Draw the current or another state."""
        self._show_chosen_by_end = False
        self.canvas.show_current()
        self.canvas.change_view(show=show)

    def paint_first(self, plan: RunPlan) -> None:
        """An empty label layer to paint on before the first run."""
        if plan.source.is_chunked:
            self.show_message("an image this large cannot be painted on; give seeds as a Labels layer")
            return
        layers = self._segmentation_of(plan).layers
        if layers.labels is None:
            layers.show_labels(plan.source.positions[0], np.zeros(plan.source.space, np.uint16))
            self.corrections.attach_brush()
        assert layers.labels is not None
        self.viewer.layers.selection.active = layers.labels
        layers.labels.mode = "paint"

    def set_ready(self, ready: bool) -> None:
        """Whether there is an image that can be segmented; of no matter while a run is on."""
        self.ready = ready
        if not self.commands.sampling:
            self._rest()

    # ---- the run

    def _tick(self) -> None:
        """Take what is new from the run and draw it."""
        if (run := self.run) is None:
            return
        self._say_notices(run)
        self.canvas.collect()
        rate = max((one.rate for one in list(run.array_runs.values())), default=0.0)
        answered = self.canvas.answered
        if self._pace.painted:
            run.want_frame()
        if not self._pace.due(1 / rate if rate else 0.0) and not answered:
            return
        # One thing at a time, so that the window is never busy for long; first what the user waits for.
        if not answered and self._pace.turn_of_lines():
            self.framed.emit()
            self.drawable.emit()  # with the words, so that the window is painted once for both
        elif not self.canvas.draw() and not self.canvas.show_table():
            run.want_frame()
            return
        self._pace.drawn()

    def _ending(self) -> None:
        """Draw what the run has left behind."""
        self.canvas.collect()
        self.canvas.draw()
        self.canvas.show_table()
        assert self.run is not None
        self._say_notices(self.run)

    def _ended(self, run: RunWorker) -> None:
        if self.run is None:
            self._timer.stop()
        if run.failure is not None:
            self.noticed.emit(format_error(run.failure))
            report_error(run.failure, "GSW segmentation")
        if self._next is None:
            if not run.commands_only and not run.abandoned:
                self._settle()
        elif self.run is None:
            action, self._next = self._next, None
            self._rest()
            action()
            return
        self.framed.emit()

    def _settle(self) -> None:
        """After a run what a segmentation returns stays on the screen: the best state or the consensus."""
        seg = self.segmentation
        self._rest()
        if seg is not None and self.continues and self.commands.view.show == "current":
            drawn = all(len(one.interactive.summary.draws) for one in seg.array_runs.values())
            agreed = drawn and seg.plan.settings.consensus != "none"
            self.commands.view = replace(self.commands.view, show="consensus" if agreed else "best")
            self._show_chosen_by_end = True
            self.commands.redraw(*seg.array_runs)
        for layer in (*seg.layers.label_layers, *seg.layers.pictures("regions")) if seg is not None else ():
            if layer in self.viewer.layers:
                layer.update_thumbnail()  # which a run leaves alone
        self.state_changed.emit()

    def _say_notices(self, run: RunWorker) -> None:
        while run.notices:
            self.show_message(run.notices.popleft())

    def show_message(self, text: str) -> None:
        self.noticed.emit(text)
        show_info(f"GSW segmentation: {format_sentence(text)}")

    # ---- the segmentation

    def _segmentation_of(self, plan: RunPlan) -> Segmentation:
        """The segmentation that a plan goes on with, or a new one if it asks for other arrays."""
        if (seg := self.segmentation) is not None and seg.plan.source.key == plan.source.key:
            return seg
        self._drop()
        seg = self.commands.segmentation = Segmentation(plan.unstarted(), ResultLayers(self.viewer, plan.source))
        wanted = self.commands.view.wanted | ({"regions"} if plan.settings.view != "clusters" else set())
        self.commands.view = replace(self.commands.view, wanted=wanted, background=plan.settings.view != "objects")
        seg.layers.set_outline_colour(self.commands.view.ink)
        self.layer_events.tie(seg)
        return seg

    def _drop(self) -> None:
        """Let the segmentation go: its image or its label layer is no more. A run ends by itself."""
        self.commands.stop()
        self.corrections.detach_brush()
        self.editor.detach()
        self._clear()
        self.corrections.forget()
        self.steps.forget(self)
        self.layer_events.untie(self.segmentation)
        self.commands.segmentation = None

    def _drop_and_rest(self) -> None:
        self._drop()
        if self.run is None:
            self._rest()

    def _clear(self) -> None:
        """Nothing is asked, and nothing is drawn."""
        self.active_learning.stop()
        self.canvas.forget()

    def _detached(self) -> None:
        self._drop_and_rest()
        self.show_message("the label layer was given other data, so the run has let it go")

    # ---- the viewer

    def _layer_removed(self, event: Any) -> None:
        if (seg := self.segmentation) is None:
            return
        layer, plan = event.value, seg.plan
        essential: list[Layer | None] = [*plan.source.image_layers, *seg.layers.label_layers]
        if self.commands.sampling:
            essential += [plan.sites, plan.seeds, plan.source.mask]
        if any(layer is x for x in essential):
            self._drop_and_rest()
        else:
            self.canvas.layer_removed(layer)

    def _image_replaced(self) -> None:
        """Other pixels are another image: what was drawn of the old ones stays and ends."""
        if self.segmentation is not None:
            self.show_message(
                "the image was given other pixels, so its segmentation has ended; press Run for a new one"
            )
        self._drop_and_rest()

    # ---- states and the end

    def _enter(self, state: str) -> None:
        self.state = state
        self.state_changed.emit()

    def _rest(self) -> None:
        """The state when no run is on."""
        self._enter(("done" if self.continues else "ready") if self.ready else "no image")

    def _end(self) -> None:
        """What has to happen even if Qt has already destroyed the panel."""
        self._next = None
        self.commands.end()
        self.autosaver.close()
        self._drop()
