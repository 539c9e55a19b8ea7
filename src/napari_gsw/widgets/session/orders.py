"""What is to be done to the chains, and the one run in the background that does it."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

from qtpy.QtCore import QObject, Signal

from napari_gsw.core.errors import InputError
from napari_gsw.core.pipeline.live_chain import TUNABLE
from napari_gsw.core.pipeline.stage import Stage
from napari_gsw.core.settings import Settings
from napari_gsw.widgets.kit.worker import start_at_once
from napari_gsw.widgets.layers.source import Position
from napari_gsw.widgets.session.plan import Segmentation
from napari_gsw.widgets.session.run import Order, Run
from napari_gsw.widgets.session.view import View

# How long to wait at the end for the sweeps that are under way, in seconds.
LAST_SWEEPS = 1.0
# Settings of what is made of the states of a chain, which show at once even when it is at rest.
AT_ONCE = ("view", "neck", "min_region", "merge", "join")


class Orders(QObject):  # type: ignore[misc]
    """Hands orders to the run that is on; if there is none, it sends an errand that carries them out.

    Signals
    -------
    about_to_launch : a run or an errand is there and will begin. launched : it has begun.
    ending : it is over, but what it has left behind can still be taken.
    ended : it is gone, with the run that was. An order that came too late for it has sent an errand.

    Attributes
    ----------
    segmentation : what is worked on, or None.
    run : the run or the errand that is on, or None.
    """

    about_to_launch = Signal()
    launched = Signal()
    ending = Signal()
    ended = Signal(object)

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.segmentation: Segmentation | None = None
        self.run: Run | None = None
        self._view = View()

    # ---- how things stand

    @property
    def view(self) -> View:
        """What is to be shown; a run that is on hears of a change at once."""
        return self._view

    @view.setter
    def view(self, view: View) -> None:
        self._view = view
        if self.run is not None:
            self.run.view = view

    @property
    def sampling(self) -> bool:
        """Whether a run is on that is no errand."""
        return self.run is not None and not self.run.errand

    @property
    def resting(self) -> bool:
        """Whether no frame comes unless it is asked for."""
        return self.run is None or self.run.errand or self.run.held

    @property
    def stage(self) -> Stage | None:
        """What a run is doing; None if there is none."""
        return self.run.stage if self.run is not None and not self.run.errand else None

    # ---- orders

    def submit(self, position: Position, order: Order) -> None:
        """Have something done to the chain at a position, before its next sweep."""
        seg = self.segmentation
        if seg is None or position not in seg.array_runs:
            return
        array_run = seg.array_runs[position]
        array_run.submitted += 1
        run = Run([(position, array_run)], 0, errand=True) if self.run is None else self.run
        run.array_runs.setdefault(position, array_run)
        run.submit(position, order)
        if self.run is None:  # it leaves with the order in its hands, or it would be back before it has heard of it
            self.launch(run)

    def answered(self, position: Position, seconds: float) -> bool:
        """Whether all that was asked of a chain is done and can be drawn, now or within a moment."""
        seg, run = self.segmentation, self.run
        if seg is None or run is None or position not in seg.array_runs:
            return False
        return run.answers(position, seg.array_runs[position].submitted, seconds)

    def redraw(self, *positions: Position) -> None:
        """Have the pictures at some positions made again, without a sweep."""
        for position in positions:
            self.submit(position, lambda live: None)

    def retune(self, settings: Settings) -> bool:
        """Hand a running chain the settings that may change; False if others differ, which apply at the next run."""
        if self.run is None or self.run.errand:
            return False
        all_taken = True
        wanted = {name: value for name, value in settings.to_dict().items() if name in TUNABLE}
        for position, array_run in dict(self.run.array_runs).items():
            with suppress(InputError):
                array_run.live.settings.replace(**wanted)  # which may not go with the others as they still are
                self.submit(position, lambda live: live.retune(live.settings.replace(**wanted)))
            try:
                array_run.live.check_tuning(settings)
            except InputError:
                all_taken = False
        return all_taken

    def remake(self, settings: Settings) -> None:
        """Have regions or objects of chains at rest made again as settings say; a chain that runs is retuned."""
        seg = self.segmentation
        if seg is None or self.sampling:
            return
        wanted = {name: getattr(settings, name) for name in AT_ONCE}
        if settings.view != "clusters" and any(x.live.settings.view != settings.view for x in seg.array_runs.values()):
            self.view = replace(self.view, wanted=self.view.wanted | {"regions"})
        for position, array_run in seg.array_runs.items():
            now = array_run.live.settings
            if self.run is not None or any(getattr(now, name) != value for name, value in wanted.items()):
                self.submit(position, lambda live: live.retune(live.settings.replace(**wanted)))

    # ---- the run

    def launch(self, run: Run) -> None:
        """Begin a run; no other may be on."""
        assert self.run is None
        self.run = run
        run.view = self.view
        run.worker.finished.connect(self._finished)
        self.about_to_launch.emit()
        self.launched.emit()
        start_at_once(run.worker)

    def stop(self) -> None:
        """End the run after the sweeps that are under way, if one is on."""
        if self.run is not None:
            self.run.stop()

    def end(self) -> None:
        """Stop, and wait a moment for it: nobody will be there any more when it ends.

        The worker is not made to quit: it would leave the generator where it is, before how far it came is kept. While
        an image is prepared, or a kernel compiled, nothing has come of it that is not kept, and nobody waits.
        """
        if self.run is not None:
            self.run.abandon()
            if self.run.unsaved:
                self.run.wait(LAST_SWEEPS)
            self.run.keep = None

    def _finished(self) -> None:
        run = self.run
        if run is None:
            return
        self.ending.emit()
        self.run = None
        late_orders = run.late_orders()
        run.release()
        for position, order in late_orders:  # a stroke that came as the run ended goes before anything else
            if self.segmentation is not None and position in self.segmentation.array_runs:
                self.segmentation.array_runs[position].submitted -= 1
                self.submit(position, order)
        self.ended.emit(run)
