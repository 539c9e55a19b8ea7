"""The mediator: between the form, the run in its thread, and the layers in the viewer.

It owns every connection and every clean-up. The states and what can be done in each are one table, `ALLOWED`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import napari
import numpy as np
from napari.layers import Layer
from napari.utils.notifications import show_info
from numpy.typing import NDArray
from qtpy.QtCore import QObject, QTimer, Signal

from napari_gsw.core.errors import InputError
from napari_gsw.core.pipeline.live_chain import LiveChain, Show
from napari_gsw.core.settings import Settings
from napari_gsw.widgets.kit.failure import sentence, tell
from napari_gsw.widgets.kit.link import Link
from napari_gsw.widgets.layers.result_layers import CLOUDS, ResultLayers
from napari_gsw.widgets.layers.source import Position, Source
from napari_gsw.widgets.session.array_run import Part
from napari_gsw.widgets.session.corrections import Corrections
from napari_gsw.widgets.session.pace import Pace
from napari_gsw.widgets.session.plan import Plan, Segmentation
from napari_gsw.widgets.session.run import Frame, Run

# How often the session looks whether there is something to draw, in milliseconds; how often it draws at most, and how
# often the trace and the counters have their turn, in seconds.
TICK = 20
DRAW_EVERY, LINES_EVERY = 0.05, 0.4
# How long to wait at the end for the sweeps that are under way, in seconds.
LAST_SWEEPS = 1.0

# What can be done in which state.
ALLOWED: dict[str, frozenset[str]] = {
    "no image": frozenset(),
    "ready": frozenset({"run", "step", "form"}),
    "running": frozenset({"pause", "stop"}),
    "paused": frozenset({"pause", "step", "stop"}),
    "done": frozenset({"run", "step", "reset", "form"}),
}
# What a person reads while a stage of the preparation goes on.
STAGES = {
    "preparing": "Reading the image",
    "superpixels": "Making superpixels",
    "features": "Counting words",
    "graph": "Building the graph",
    "start": "Starting the chain",
    "compiling": "Compiling (first time only)",
}


class Session(QObject):  # type: ignore[misc]
    """One panel's work on one viewer.

    Signals
    -------
    state_changed : the state has changed.
    framed : there is something new to read: counters, trace, region table.
    noticed : a sentence for the user.
    layer_gone : name of a picture ("boundary", "entropy", "regions", "sites") whose layer the user has removed.
    """

    state_changed = Signal()
    framed = Signal()
    noticed = Signal(str)
    layer_gone = Signal(str)

    def __init__(self, viewer: napari.Viewer, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.viewer = viewer
        self.state = "no image"
        self.ready = False
        self.run: Run | None = None
        self.show: Show = "current"
        self.wanted: set[str] = set()
        self.detail: float | None = None
        self.segmentation: Segmentation | None = None
        self.frames: dict[Position, Frame] = {}
        self.viewing: int | None = None
        self._viewed: NDArray[np.int64] | None = None
        self.corrections = Corrections(self)
        self._then: Callable[[], None] | None = None
        self._drawn: dict[Position, Frame] = {}
        self._errand = False
        self._auto_best = False
        self._pace = Pace(DRAW_EVERY, TICK / 1000)
        self._tables: list[int] = []
        self._next_lines = 0.0
        self._timer = QTimer(self)
        self._timer.setInterval(TICK)
        self._timer.timeout.connect(self._tick)
        self.link = Link()
        self.link.connect(viewer.layers.events.removed, self._layer_removed)
        self.link.connect(viewer.dims.events.current_step, self._moved)
        self.link.at_end(self._end)

    # ---- what the user asks for

    def may(self, what: str) -> bool:
        return what in ALLOWED[self.state]

    def start(self, plan: Plan, sweeps: int | None = None) -> None:
        """Begin a run, or go on from what is shown if there is something."""
        if self.run is not None:
            self._then = partial(self.start, plan, sweeps)
            return
        seg = self.segmentation
        if seg is None or seg.plan.source.key != plan.source.key:
            seg = self.fresh(plan)
        try:
            jobs = seg.jobs(plan)
        except InputError as reason:
            self.say(str(reason))
            return
        if self._auto_best:
            self.show, self._auto_best = "current", False
        self.live_again()
        self._launch(Run(jobs, plan.settings.sweeps if sweeps is None else sweeps, self.show))
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

    def step(self, plan: Plan) -> None:
        """One sweep: of the held chain, or of a run that ends with it."""
        if self.run is None:
            self.start(plan, 1)
        elif self.run.held:
            self.run.step()

    def stop(self) -> None:
        """End the run and keep what there is."""
        if self.run is not None:
            self.run.stop()

    def reset(self) -> None:
        """Forget the chains; the layers stay, empty, for the next run. Locks and paint go too."""
        if self.run is not None:
            self._then = self.reset
            self.run.stop()
            return
        if (seg := self.segmentation) is not None:
            seg.parts.clear()
            seg.written.clear()
            seg.layers.clear()
            self._forget()
            seg.plan = Plan(seg.plan.source, seg.plan.settings, -1)
        self.rest()

    def set_show(self, show: Show) -> None:
        """Draw the current or another state."""
        self.show, self._auto_best = show, False
        self.live_again()
        self._redraw()

    def set_wanted(self, wanted: set[str]) -> None:
        """Which pictures of uncertainty are on the screen."""
        self.wanted = set(wanted)
        if (seg := self.segmentation) is not None:
            for name, layer in seg.layers.clouds.items():
                layer.visible = name in wanted
            if seg.layers.regions is not None:
                seg.layers.regions.visible = "regions" in wanted
        self._redraw()

    def set_detail(self, detail: float | None) -> None:
        """How fine the regions are, from 0 to 1; None shows those of the clusters on the screen."""
        self.detail = detail
        self._redraw()

    def retune(self, settings: Settings) -> bool:
        """Hand settings to a running chain; False if they apply at the next run only."""
        if self.run is None or self._errand:
            return False
        try:
            for part in self.run.parts.values():
                part.live.check_tuning(settings)
        except InputError:
            return False
        for position in self.run.parts:
            self.order(position, lambda live: live.retune(settings))
        return True

    # ---- orders

    def order(self, position: Position, order: Callable[[LiveChain], object]) -> None:
        """Have something done to the chain of a part, by the run or, if none is on, by an errand."""
        seg = self.segmentation
        if seg is None or position not in seg.parts:
            return
        seg.parts[position].asked += 1
        if self.run is None:
            self._launch(Run([(position, seg.parts[position])], 0, self.show), errand=True)
        assert self.run is not None
        self.run.parts.setdefault(position, seg.parts[position])
        self.run.ask(position, order)

    # ---- looking back

    def look_ahead(self) -> None:
        """Stop looking back; the next frame is drawn."""
        self.viewing = self._viewed = None

    def view_sweep(self, sweep: float) -> None:
        """Show the state that was on the screen near a sweep."""
        part = self.part
        if part is None or self.corrections.busy:
            return
        self.viewing, self._viewed = part.live.memory.near(sweep)
        self.write(self._require_position(), part, part.paint(self._viewed))
        self.framed.emit()

    def live_again(self) -> None:
        """Show the chain as it is now."""
        if self.viewing is None:
            return
        self.viewing = self._viewed = None
        self._drawn.clear()
        if self.run is None:
            self._draw(force=True)
        self.framed.emit()

    def go_on_from_view(self) -> None:
        """Continue the chain from the state that is being looked at."""
        numbers, position = self._viewed, self.position
        if numbers is None or position is None:
            return
        self.corrections.note(position)
        self.viewing = self._viewed = None
        self.order(position, lambda live: live.go_back(numbers))
        self.framed.emit()

    # ---- where we are

    @property
    def position(self) -> Position | None:
        """The part on the screen, or else the one that runs."""
        seg = self.segmentation
        if seg is None or not seg.parts:
            return None
        layer, axes = seg.plan.source.layer, seg.plan.source.loop_axes
        if layer in self.viewer.layers and axes:
            point = np.asarray(self.viewer.dims.point)[-layer.ndim :]
            step = np.round(np.asarray(layer.world_to_data(point))).astype(int)
            shown = tuple(int(step[a]) for a in axes)
            if shown in seg.parts:
                return shown
        if self.run is not None and not self._errand:
            running = self.run.jobs[self.run.place][0]
            if running in seg.parts:
                return running
        return next(iter(seg.parts))

    def _require_position(self) -> Position:
        position = self.position
        assert position is not None
        return position

    @property
    def part(self) -> Part | None:
        position = self.position
        return None if position is None or self.segmentation is None else self.segmentation.parts[position]

    @property
    def frame(self) -> Frame | None:
        """The newest frame of the part on the screen."""
        position = self.position
        return None if position is None else self.frames.get(position)

    @property
    def stage(self) -> str:
        """What is going on before the first frame, in words; empty once the chain runs."""
        return "" if self.run is None or self._errand else STAGES.get(self.run.stage.name, "")

    @property
    def continues(self) -> bool:
        """Whether there is something to go on with."""
        return self.segmentation is not None and bool(self.segmentation.parts)

    def goes_on(self, source: Source | None) -> bool:
        """Whether a run on a source would go on with what there is."""
        seg = self.segmentation
        return seg is not None and bool(seg.parts) and source is not None and seg.plan.source.key == source.key

    # ---- the run

    def _launch(self, run: Run, errand: bool = False) -> None:
        self.run, self._errand = run, errand
        run.wanted, run.detail = frozenset(self.wanted), self.detail
        run.worker.finished.connect(self._finished)
        self._timer.start()
        run.worker.start()

    def _tick(self) -> None:
        """Take what is new from the run and draw it."""
        if self.run is None:
            return
        self._brief(self.run)
        while self.run.notices:
            self.say(self.run.notices.popleft())
        self._take()
        rate = max((part.rate for part in self.run.parts.values()), default=0.0)
        if not self._pace.due(1 / rate if rate else 0.0):
            return
        # One thing at a time, so that the window is never busy for long.
        if time.monotonic() > self._next_lines:
            self._next_lines = time.monotonic() + LINES_EVERY
            self.framed.emit()
        elif not self._draw() and not self._show_table():
            self.run.hungry = True
            return
        self._pace.drawn()
        self.run.hungry = True

    def _brief(self, run: Run) -> None:
        """Tell a run what is looked at."""
        run.show, run.wanted, run.detail = self.show, frozenset(self.wanted), self.detail

    def _take(self) -> None:
        """Take over what the run has made."""
        seg = self.segmentation
        if seg is not None and self.run is not None:
            seg.parts.update(self.run.parts)
            self.frames.update(self.run.newest)

    def _show_table(self) -> bool:
        """Show the table of regions if it is new; False if it is not."""
        seg = self.segmentation
        tables = [frame.table for frame in self.frames.values() if frame.table is not None]
        if seg is None or not tables or (newest := [id(table) for table in tables]) == self._tables:
            return False
        self._tables = newest
        seg.layers.show_table(tables)
        return True

    def _draw(self, force: bool = False) -> bool:
        """Draw every frame that is new; False if there was none."""
        seg, something = self.segmentation, False
        if seg is None or seg.plan.source.layer not in self.viewer.layers:
            return False
        if self.corrections.busy:
            return False  # a stroke in progress is never overwritten
        for position, frame in list(self.frames.items()):
            part = seg.parts.get(position)
            # A frame from before the last correction would show it undone for a moment.
            if frame.part is not part or frame.obeyed < part.asked:
                continue
            if self._drawn.get(position) is frame and not force:
                continue
            before, self._drawn[position], something = self._drawn.get(position), frame, True
            if self.viewing is None:
                self.write(position, part, frame.labels)
            for name in CLOUDS:
                image = getattr(frame, name)
                if image is not None and name in self.wanted and (before is None or image is not getattr(before, name)):
                    seg.layers.show_cloud(name, position, image)
            new = before is None or frame.regions is not before.regions
            if new and "regions" in self.wanted and frame.regions is not None:
                seg.layers.show_regions(position, frame.regions)
            if before is None or not np.array_equal(before.locks, frame.locks) or (frame.locks.any() and force):
                seg.layers.show_locks(position, part.paint_locked(frame.locks, frame.numbers))
            if frame.provenance is not None and seg.layers.labels is not None:
                self._sign(position, frame.provenance)
        return something

    def _sign(self, position: Position, made: dict[str, Any]) -> None:
        """Leave in the layer what made it, for whoever saves it."""
        seg = self.segmentation
        assert seg is not None
        assert seg.layers.labels is not None
        metadata = seg.layers.labels.metadata
        if not seg.plan.source.loop:
            metadata["napari-gsw"] = made
        else:
            parts = metadata.setdefault("napari-gsw", {"software": "napari-gsw", "parts": {}})["parts"]
            parts[" ".join(map(str, position))] = made

    def write(self, position: Position, part: Part, labels: NDArray[np.uint16]) -> None:
        seg = self.segmentation
        assert seg is not None
        new = seg.layers.labels is None
        seg.layers.show_labels(position, labels)
        seg.written[position] = labels
        if new:
            self.corrections.hold()

    def _redraw(self) -> None:
        """Have the pictures made again, without a sweep."""
        position = self.position
        if position is not None and (self.run is None or self._errand or self.run.held):
            if self.run is not None:
                self._brief(self.run)
            self.order(position, lambda live: None)

    def _finished(self) -> None:
        run, errand = self.run, self._errand
        if run is None:
            return
        self._take()
        self._draw()
        self._show_table()
        while run.notices:
            self.say(run.notices.popleft())
        self.run, self._errand = None, False
        self._timer.stop()
        if run.failure is not None:
            self._failed(run.failure)
        late = run.left()
        run.release()
        for position, order in late:  # a stroke that came as the run ended goes before anything else
            if self.segmentation is not None and position in self.segmentation.parts:
                self.segmentation.parts[position].asked -= 1
                self.order(position, order)
        if not errand and self._then is None:
            self._settle()
        elif self._then is not None and self.run is None:
            then, self._then = self._then, None
            self.rest()
            then()
            return
        self.framed.emit()

    def _settle(self) -> None:
        """After a run what a segmentation returns stays on the screen: the best state or the consensus."""
        seg = self.segmentation
        self.rest()
        if self.continues and self.show == "current":
            agreed = seg is not None and seg.plan.settings.consensus != "none"
            self.show, self._auto_best = "consensus" if agreed else "best", True
            for position in list(seg.parts) if seg is not None else []:
                self.order(position, lambda live: None)
        for layer in (seg.layers.labels, seg.layers.regions) if seg is not None else ():
            if layer is not None and layer in self.viewer.layers:
                layer.refresh(extent=False, highlight=False)  # with its thumbnail, which a run leaves alone
        self.state_changed.emit()

    def _failed(self, reason: Exception) -> None:
        self.noticed.emit(sentence(reason))
        tell(reason, "GSW segmentation")

    def say(self, text: str) -> None:
        self.noticed.emit(text)
        show_info(f"GSW segmentation: {text}")

    # ---- the viewer

    def fresh(self, plan: Plan) -> Segmentation:
        self.drop()
        layers = ResultLayers(self.viewer, plan.source)
        plan.source.layer.events.data.connect(self._image_replaced)
        # The plan before the first has a seed that nobody can choose: everything starts afresh.
        made = self.segmentation = Segmentation(Plan(plan.source, plan.settings, -1), layers)
        if plan.settings.view != "clusters":
            self.wanted.add("regions")
        return made

    def _forget(self) -> None:
        self.frames.clear()
        self._drawn.clear()
        self._tables = []
        self.corrections.forget()
        self.viewing = self._viewed = None

    def drop(self) -> None:
        """Let the segmentation go: its image or its label layer is no more. A run ends by itself."""
        if self.run is not None:
            self.run.stop()
        self.corrections.release()
        self._forget()
        if self.segmentation is not None:
            self.segmentation.plan.source.layer.events.data.disconnect(self._image_replaced)
        self.segmentation = None

    def _layer_removed(self, event: Any) -> None:
        seg, layer = self.segmentation, event.value
        if seg is None:
            return
        plan = seg.plan
        essential: list[Layer | None] = [plan.source.layer, *plan.source.channels, seg.layers.labels]
        if self.run is not None and not self._errand:
            essential += [plan.sites, plan.seeds, plan.source.mask]
        if any(layer is x for x in essential):
            self.drop()
            if self.run is None:
                self.rest()
            return
        for name, image in seg.layers.clouds.items():
            if image is layer:
                self.wanted.discard(name)
                self.layer_gone.emit(name)
        if layer is seg.layers.sites:
            self.layer_gone.emit("sites")
        if layer is seg.layers.regions:
            self.wanted.discard("regions")
            self.layer_gone.emit("regions")
        seg.layers.forget(layer)

    def _image_replaced(self, event: Any = None) -> None:
        """Other pixels are another image: what was found in the old ones stays in its layer and ends."""
        self.drop()
        if self.run is None:
            self.rest()

    def _moved(self, event: Any = None) -> None:
        if self.segmentation is not None and self.segmentation.plan.source.loop:
            self.viewing = self._viewed = None
            self.framed.emit()

    # ---- states and the end

    def _enter(self, state: str) -> None:
        self.state = state
        self.state_changed.emit()

    def rest(self) -> None:
        """The state when no run is on."""
        self._enter(("done" if self.continues else "ready") if self.ready else "no image")

    def set_ready(self, ready: bool) -> None:
        """Whether there is an image that can be segmented; of no matter while a run is on."""
        self.ready = ready
        if self.run is None or self._errand:
            self.rest()

    def _end(self) -> None:
        """What has to happen even if Qt has already destroyed the panel."""
        self._then = None
        if self.run is not None:
            self.run.stop()
            self.run.worker.quit()
            self.run.wait(LAST_SWEEPS)
        self.drop()

    def shut_down(self) -> None:
        """End the run and let go of the viewer; more than once does no harm."""
        if self.link.alive:
            self._timer.stop()
        self.link.cut()
