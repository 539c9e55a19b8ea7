"""The mediator: between the form, the run in its thread, and the layers in the viewer.

It wires its parts together, and knows when what may be done: the states and what is allowed in each are one table,
`ALLOWED`. The parts do not know it.

    orders       what is to be done to the chains, and the run that does it
    canvas       what is on the screen
    ties         what happens to the layers there
    corrections  what a person paints, locks and undoes
    asking       what a person is asked about
    editor       what a person does to objects and regions
    keeper       saves all of it
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import napari
import numpy as np
from napari.layers import Layer
from napari.utils.notifications import show_info
from qtpy.QtCore import QObject, QTimer, Signal

from napari_gsw.core.errors import InputError
from napari_gsw.core.pipeline.watched_chain import Show
from napari_gsw.widgets.kit.failure import as_sentence, report_failure, sentence
from napari_gsw.widgets.kit.link import Link
from napari_gsw.widgets.kit.undo_list import undo_list
from napari_gsw.widgets.layers.several_layers import layers_of
from napari_gsw.widgets.layers.source import Position, Source
from napari_gsw.widgets.session.array_run import ArrayRun
from napari_gsw.widgets.session.asking import Asking
from napari_gsw.widgets.session.canvas import Canvas
from napari_gsw.widgets.session.corrections import Corrections
from napari_gsw.widgets.session.frame import Frame
from napari_gsw.widgets.session.keeper import Keeper
from napari_gsw.widgets.session.layer_ties import LayerTies
from napari_gsw.widgets.session.object_editor import ObjectEditor
from napari_gsw.widgets.session.orders import Orders
from napari_gsw.widgets.session.pace import Pace
from napari_gsw.widgets.session.plan import Plan, Segmentation
from napari_gsw.widgets.session.run import Run
from napari_gsw.widgets.session.standing import ResetStep, Standing
from napari_gsw.widgets.session.states import ALLOWED

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

    def __init__(self, viewer: napari.Viewer, link: Link, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.viewer = viewer
        self.state = "no image"
        self.ready = False
        self.orders = Orders(self)
        self.canvas = Canvas(viewer, self.orders, self)
        self.ties = LayerTies(viewer, link, self.orders, self.canvas, self)
        self.ties.image_replaced.connect(self._image_replaced)
        self.steps = undo_list(viewer)
        self.corrections = Corrections(self.orders, self.canvas, self.steps, self)
        self.asking = Asking(viewer, self.orders, self.canvas, self.corrections, self)
        self.keeper = Keeper(self.orders, self)
        self.keeper.refused.connect(self.say)
        self.editor = ObjectEditor(self.corrections, self)
        # What the user has asked for while a run was still ending.
        self._next: Callable[[], None] | None = None
        # Whether it was the end of a run that has chosen what is shown, so that the next one shows its progress again.
        self._show_chosen_by_end = False
        self._pace = Pace(DRAW_EVERY, TICK / 1000, LINES_EVERY)
        self._timer = QTimer(self, interval=TICK, timeout=self._tick)
        self.orders.launched.connect(self._timer.start)
        self.orders.launched.connect(self._pace.be_eager)
        self.orders.ending.connect(self._ending)
        self.orders.ended.connect(self._ended)
        self.canvas.changed.connect(self.framed)
        self.corrections.changed.connect(self._pace.correct)
        self.framed.connect(self.asking.look)
        self.corrections.detached.connect(self._detached)
        self.editor.refused.connect(self.say)
        self.link = link
        self.steps.serve(viewer, link)
        link.connect(viewer.layers.events.removed, self._layer_removed)
        link.connect(viewer.dims.events.current_step, self.canvas.moved)
        link.at_end(self._end)
        link.stop_at_end(self._timer)

    # ---- what the views read

    @property
    def run(self) -> Run | None:
        return self.orders.run

    @property
    def segmentation(self) -> Segmentation | None:
        return self.orders.segmentation

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

    def goes_on(self, source: Source | None) -> bool:
        """Whether a run on a source would go on with what there is."""
        seg = self.segmentation
        return self.continues and source is not None and seg is not None and seg.plan.source.key == source.key

    def may(self, what: str) -> bool:
        return what in ALLOWED[self.state]

    # ---- what the user asks for

    def start(self, plan: Plan, sweeps: int | None = None) -> None:
        """Begin a run, or go on from what is shown if there is something."""
        if self.run is not None:
            self._next = partial(self.start, plan, sweeps)
            if self.run.errand:  # which may be settling after a correction
                self.run.stop()
            return
        try:
            jobs = self._segmentation_of(plan).jobs(plan)
        except InputError as reason:
            self.say(str(reason))
            return
        if self._show_chosen_by_end:
            self.orders.view = replace(self.orders.view, show="current")
            self._show_chosen_by_end = False
        self.canvas.live_again()
        self.orders.launch(Run(jobs, plan.settings.sweeps if sweeps is None else sweeps))
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
        self.orders.stop()

    def reset(self) -> None:
        """Put the chains aside; the layers stay, empty, for the next run. Locks and paint go too."""
        if (seg := self.segmentation) is not None:
            aside = Standing(seg.plan.unstarted())
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
            step.aside = Standing(seg.plan, seg.array_runs, dict(self.canvas.frames), self.orders.view.detail)
            seg.plan, seg.array_runs = aside.plan, aside.array_runs
            seg.written.clear()
            seg.written_regions.clear()
            seg.layers.clear()
            self._clear()
            self.orders.view = replace(self.orders.view, detail=aside.detail)
            self.canvas.frames.update(aside.frames)
            self.canvas.draw(force=True)
            self.canvas.show_table()
        self._rest()

    def adopt(self, plan: Plan, array_runs: dict[Position, ArrayRun]) -> None:
        """Show runs that were saved, and be ready to go on with them; a run that is on ends first."""
        if self.run is not None:
            self._next = partial(self.adopt, plan, array_runs)
            self.run.stop()
            return
        self._drop()
        seg = self._segmentation_of(plan)
        seg.plan, seg.array_runs = plan, array_runs
        self._settle()
        self.orders.redraw(*array_runs)

    def set_show(self, show: Show) -> None:
        """Draw the current or another state."""
        self._show_chosen_by_end = False
        self.canvas.live_again()
        self.canvas.change_view(show=show)

    def paint_first(self, plan: Plan) -> None:
        """An empty label layer to paint on before the first run."""
        if plan.source.large:
            self.say("an image this large cannot be painted on; give seeds as a Labels layer")
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
        if not self.orders.sampling:
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

    def _ended(self, run: Run) -> None:
        if self.run is None:
            self._timer.stop()
        if run.failure is not None:
            self.noticed.emit(sentence(run.failure))
            report_failure(run.failure, "GSW segmentation")
        if self._next is None:
            if not run.errand and not run.abandoned:
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
        if seg is not None and self.continues and self.orders.view.show == "current":
            drawn = all(len(one.live.summary.draws) for one in seg.array_runs.values())
            agreed = drawn and seg.plan.settings.consensus != "none"
            self.orders.view = replace(self.orders.view, show="consensus" if agreed else "best")
            self._show_chosen_by_end = True
            self.orders.redraw(*seg.array_runs)
        for layer in (*seg.layers.label_layers, *seg.layers.pictures("regions")) if seg is not None else ():
            if layer in self.viewer.layers:
                layer.renew_thumbnail()  # which a run leaves alone
        self.state_changed.emit()

    def _say_notices(self, run: Run) -> None:
        while run.notices:
            self.say(run.notices.popleft())

    def say(self, text: str) -> None:
        self.noticed.emit(text)
        show_info(f"GSW segmentation: {as_sentence(text)}")

    # ---- the segmentation

    def _segmentation_of(self, plan: Plan) -> Segmentation:
        """The segmentation that a plan goes on with, or a new one if it asks for other arrays."""
        if (seg := self.segmentation) is not None and seg.plan.source.key == plan.source.key:
            return seg
        self._drop()
        seg = self.orders.segmentation = Segmentation(plan.unstarted(), layers_of(self.viewer, plan.source))
        wanted = self.orders.view.wanted | ({"regions"} if plan.settings.view != "clusters" else set())
        self.orders.view = replace(self.orders.view, wanted=wanted, background=plan.settings.view != "objects")
        seg.layers.set_ink(self.orders.view.ink)
        self.ties.tie(seg)
        return seg

    def _drop(self) -> None:
        """Let the segmentation go: its image or its label layer is no more. A run ends by itself."""
        self.orders.stop()
        self.corrections.detach_brush()
        self.editor.detach()
        self._clear()
        self.corrections.forget()
        self.steps.forget(self)
        self.ties.untie(self.segmentation)
        self.orders.segmentation = None

    def _drop_and_rest(self) -> None:
        self._drop()
        if self.run is None:
            self._rest()

    def _clear(self) -> None:
        """Nothing is asked, and nothing is drawn."""
        self.asking.stop()
        self.canvas.forget()

    def _detached(self) -> None:
        self._drop_and_rest()
        self.say("the label layer was given other data, so the run has let it go")

    # ---- the viewer

    def _layer_removed(self, event: Any) -> None:
        if (seg := self.segmentation) is None:
            return
        layer, plan = event.value, seg.plan
        essential: list[Layer | None] = [*plan.source.image_layers, *seg.layers.label_layers]
        if self.orders.sampling:
            essential += [plan.sites, plan.seeds, plan.source.mask]
        if any(layer is x for x in essential):
            self._drop_and_rest()
        else:
            self.canvas.layer_removed(layer)

    def _image_replaced(self) -> None:
        """Other pixels are another image: what was drawn of the old ones stays and ends."""
        if self.segmentation is not None:
            self.say("the image was given other pixels, so its segmentation has ended; press Run for a new one")
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
        self.orders.end()
        self.keeper.close()
        self._drop()
