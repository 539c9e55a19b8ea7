"""One run in a thread. This file alone knows threads.

The worker never hands frames over one by one: it leaves the newest one of each array in a slot, and whoever watches
takes it from there when it has time. So a slow screen never makes the chain wait, nor the other way round. What a
person does meanwhile goes into a queue; the worker obeys it, in order, before the next sweep.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace

import numpy as np
from qtpy.QtCore import QObject, Signal

from napari_gsw.core.errors import InputError
from napari_gsw.core.interactive.interactive_run import LIVE_SETTINGS, InteractiveRun
from napari_gsw.core.pipeline.preview import Preview
from napari_gsw.core.pipeline.stage import Stage
from napari_gsw.core.pipeline.warm_up import BACKGROUND
from napari_gsw.core.sampler import chain_kernels as kernels
from napari_gsw.core.settings import Settings
from napari_gsw.core.threads import count_cores, lower_priority
from napari_gsw.widgets.common.worker import make_worker, start_at_once
from napari_gsw.widgets.layers.image_source import Position
from napari_gsw.widgets.layers.lazy_labels import outline_if_large
from napari_gsw.widgets.session.array_run import ArrayRun, DisplayOptions, Frame, count_corrections, count_labels
from napari_gsw.widgets.session.run_plan import ArrayJob, ArrayRunMaker, Segmentation

# How long a held chain sleeps before it looks for something to do, in seconds.
NAP = 0.05
# How often the slower pictures are made anew while the chain runs, in seconds, and how many times longer than they
# take the chain is left alone afterwards.
UNCERTAINTY_EVERY, TABLE_EVERY, REST = 0.5, 1.0, 40.0
# And how many times longer than a frame of a large image took to paint, before somebody may have the next.
FRAME_REST = 20.0

# How long sweeps go on, in seconds, unless somebody wants something. While the window is painted nothing else of Python
# runs, for as long as that takes: sweeps that are under way go on, but the next ones cannot begin.
SWEEP_FOR = 0.5

Command = Callable[[InteractiveRun], object]


class PreparationStopped(Exception):
    """The user does not want to wait for the preparation any longer."""


class RunWorker:
    """A run over one or several arrays in the background.

    Attributes
    ----------
    errand : whether it only carries out orders, because no other run is on that could.
    stage : what it is doing now, one of the stages of the preparation, or "sampling".
    place : index of the array it is at.
    array_runs : the chains that there are, by position.
    newest : the newest frame of each array, by position.
    preview : position and labels of a coarse copy of the array that is being prepared, or None.
    notices : sentences for the user: orders that could not be carried out.
    failure : what has ended the run before its time, or None.
    frame_wanted : whether somebody waits for a frame: making one that nobody looks at would only cost time.
    view : what its frames show.
    keep : called between two sweeps, with whether a correction or the end of a run wants to be saved at once; or None.
    unsaved : whether it has made sweeps since it was last kept at once.
    abandoned : whether it was ended in the middle, by closing what shows it: it may go on another time.
    worker : napari's worker, with its signals.
    """

    def __init__(self, jobs: Sequence[ArrayJob], sweeps: int, commands_only: bool = False) -> None:
        self.jobs = list(jobs)
        self.sweeps, self.commands_only = sweeps, commands_only
        self.view = DisplayOptions()
        self.frame_wanted = True
        self._woken: set[Position] = set()  # chains of an errand that have to settle
        self.stage = Stage("preparing")
        self.place = 0
        self.array_runs: dict[Position, ArrayRun] = {p: job for p, job in self.jobs if isinstance(job, ArrayRun)}
        self.newest: dict[Position, Frame] = {}
        self.preview: tuple[Position, Preview] | None = None
        self.notices: deque[str] = deque()
        self.failure: Exception | None = None
        self.keep: Callable[[bool], None] | None = None
        self.stopping = self.abandoned = self.unsaved = False
        self._orders: deque[tuple[Position, Command]] = deque()
        self._go = threading.Event()
        self._go.set()
        self._wake = threading.Event()
        self._framed = threading.Condition()
        self._steps, self._stale = 0, False
        self._spent, self._timed, self._frame_due = 0.0, 0, 0.0
        # When the slower pictures of an array are due again.
        self._tables_due: dict[Position, float] = {}
        self._pictures_due: dict[Position, float] = {}
        self.worker = make_worker(self._guarded, end=self.abandon)

    # ---- called from the GUI thread

    def answers(self, position: Position, commands: int, seconds: float) -> bool:
        """Whether there is a frame of an array that has obeyed so many orders, now or within a moment."""

        def answered() -> bool:
            frame = self.newest.get(position)
            return frame is not None and frame.n_commands_done >= commands

        with self._framed:
            return self._framed.wait_for(answered, seconds)

    @property
    def held(self) -> bool:
        return not self._go.is_set()

    def pause(self) -> None:
        """Hold the chain after the sweep that is under way."""
        self._go.clear()
        self._interrupt()

    def resume(self) -> None:
        self._go.set()
        self._wake.set()

    def step(self) -> None:
        """One more sweep of a held chain."""
        self._steps += 1
        self._wake.set()

    def stop(self) -> None:
        """End after the sweep that is under way and keep what there is."""
        self.stopping = True
        self._go.set()
        self._wake.set()
        self._interrupt()

    def abandon(self) -> None:
        """End as by :meth:`stop`, but nobody will look at it: how far it came is kept, and no picture is made."""
        self.abandoned |= not self.stopping
        self.stop()

    def want_frame(self) -> None:
        """Somebody waits for a frame: the sweep that is under way is the last before it."""
        if not self.frame_wanted and time.monotonic() >= self._frame_due:
            self.frame_wanted = True
            self._interrupt()

    def _interrupt(self) -> None:
        for array_run in list(self.array_runs.values()):
            array_run.interactive.ensemble.interrupt()

    def submit(self, position: Position, order: Command) -> None:
        """Do something to the chain of an array before its next sweep."""
        self._orders.append((position, order))
        self._wake.set()
        self._interrupt()

    def wait(self, seconds: float) -> None:
        """Wait for the worker to end, though not for ever: the preparation of a large image takes its time."""
        end = time.monotonic() + seconds
        while self.worker.is_running and time.monotonic() < end:
            time.sleep(0.005)

    def pending_commands(self) -> list[tuple[Position, Command]]:
        """Orders that came too late for this run."""
        commands = list(self._orders)
        self._orders.clear()
        return commands

    def release(self) -> None:
        """Let the arrays go: napari keeps every worker as long as its window."""
        self.keep = None
        self.jobs.clear()
        self.array_runs.clear()
        self.newest.clear()

    # ---- in the worker's thread

    def _guarded(self) -> Iterator[None]:
        """Nothing may leave the worker by itself: napari swallows a RuntimeError and prints the others."""
        with ThreadPoolExecutor(count_cores(), "gsw", self._begin_thread) as self._threads:
            try:
                yield from self._work()
            except PreparationStopped:
                pass
            except Exception as reason:
                self.failure = reason
            finally:
                self.preview = None

    def _begin_thread(self) -> None:
        """Sweeps in threads of their own. Where they take all cores they step back when the screen needs one."""
        chains = [len(one.interactive.ensemble.chains) for one in list(self.array_runs.values())]
        if max(chains, default=1) >= count_cores():
            lower_priority()

    def _work(self) -> Iterator[None]:
        while BACKGROUND.is_compiling and not self.stopping:  # kernels compiled here would hold up the window
            yield
            time.sleep(NAP)
        for place, (position, job) in enumerate(self.jobs):
            self.place = place
            array_run = job if isinstance(job, ArrayRun) else self._prepared(position, job)
            yield
            if self._is_left():
                return
            interactive = array_run.interactive
            interactive.ensemble.executor, interactive.ensemble.interval = self._threads, SWEEP_FOR
            interactive.run_or_resume(self.sweeps)
            self.stage = Stage("sampling" if getattr(kernels.advance, "signatures", True) else "start")
            if not self.commands_only:  # which shows what its orders have changed, and nothing before
                self._publish(position)
            yield from self._sweep(position, interactive)
            if self._is_left():
                interactive.ensemble.executor = None
                self._save(True)
                return
            if self.sweeps and place and not self.stopping:
                before = self.array_runs[self.jobs[place - 1][0]]
                interactive.match_image(before.paint(before.interactive.shown("best")))
            interactive.ensemble.executor = None
            self._publish(position, last=True)
            self._save(not self.commands_only)
            if self.stopping:
                break
        self._obey()
        if self.commands_only:
            yield from self._settle_late()
        yield

    def _settle_late(self) -> Iterator[None]:
        """Orders for another chain, or that came when the errand was all but over, have woken theirs: let it settle."""
        while self._woken and not self.stopping:
            position = next(iter(self._woken))
            interactive = self.array_runs[position].interactive
            if interactive.sweep < interactive.target:
                interactive.ensemble.executor = self._threads
                yield from self._sweep(position, interactive)
                interactive.ensemble.executor = None
                self._publish(position, last=True)
            self._woken.discard(position)

    def _sweep(self, position: Position, interactive: InteractiveRun) -> Iterator[None]:
        """Advance a chain to its target, and do meanwhile what the user asks for."""
        while True:
            self._obey()
            if self.stopping or interactive.sweep >= interactive.target:
                return
            if self.held and not self._steps:
                if self._stale:  # what it came to rest at is worth a look
                    self._publish(position)
                self._wake.wait(NAP)
                self._wake.clear()
                yield
                continue
            most = None
            if self.held:
                self._steps -= 1
                most = 1
            first, began = interactive.sweep, time.perf_counter()
            interactive.advance(most)
            self.unsaved = True
            if self.stage.name == "sampling":  # the first step may have compiled
                self._spent += time.perf_counter() - began
                self._timed += interactive.sweep - first
            self.stage, self._stale = Stage("sampling"), True
            self._save(False)
            if self.frame_wanted:
                self._publish(position)
            yield

    def _prepared(self, position: Position, job: ArrayRunMaker) -> ArrayRun:
        def report(stage: Stage) -> None:
            if self.stopping:
                raise PreparationStopped
            self.stage = stage

        def show(preview: Preview) -> None:
            self.preview = position, preview

        array_run = self.array_runs[position] = job(report, show)
        if array_run.unusable:
            self.notices.append(f"{array_run.unusable:,} pixels are NaN or infinite: they are outside the image")
        return array_run

    def _obey(self) -> None:
        """Carry out what the user has asked for; what cannot be done is said and changes nothing."""
        changed: list[Position] = []
        corrected = False
        while self._orders:
            position, order = self._orders.popleft()
            array_run = self.array_runs[position]
            marks, corrections = len(array_run.interactive.log.corrections), len(array_run.interactive.log.actions)
            try:
                order(array_run.interactive)
                if self.commands_only and len(array_run.interactive.log.corrections) > marks:
                    array_run.interactive.wake()
                    self._woken.add(position)
                corrected |= len(array_run.interactive.log.actions) > corrections
            except InputError as reason:
                self.notices.append(str(reason))
            finally:  # also if it ends the run: an array that waits for an order is never drawn again
                array_run.n_commands_done += 1
            changed.append(position)
        for position in dict.fromkeys(changed):
            self._publish(position, last=not self._goes_on(position))
        if corrected:
            self._save(True)

    def _save(self, at_once: bool) -> None:
        """Have it kept, if somebody does: who closes the window takes that back at any time."""
        if (keep := self.keep) is not None:
            keep(at_once)
        self.unsaved &= not at_once

    def _is_left(self) -> bool:
        """Whether nobody will look any more at what it comes to."""
        return self.abandoned

    def _is_here(self, position: Position) -> bool:
        """Whether it is the array that the run is at."""
        return self.jobs[self.place][0] == position

    def _goes_on(self, position: Position) -> bool:
        """Whether sweeps follow at once, and with them another frame: this one need not have everything."""
        interactive = self.array_runs[position].interactive
        here = self._is_here(position) or position in self._woken
        return here and not self.held and not self.stopping and interactive.sweep < interactive.target

    def _publish(self, position: Position, last: bool = False) -> None:
        """Leave a frame of an array in its slot."""
        array_run, view = self.array_runs[position], self.view
        self.frame_wanted = self._stale = False
        if self._spent:
            array_run.rate = self._timed / self._spent
        interactive, now = array_run.interactive, time.monotonic()
        snapshot = interactive.snapshot
        numbers = interactive.shown(view.show)
        boundary = entropy = regions = region_outlines = table = None
        edited = array_run.pictured is not interactive.edits  # which has to be seen at once
        if view.wanted and (last or edited or now > self._pictures_due.get(position, 0.0)):
            array_run.pictured = interactive.edits
            boundary = array_run.boundary(snapshot.together) if "boundary" in view.wanted else None
            entropy = array_run.entropy(snapshot.together) if "entropy" in view.wanted else None
            if "regions" in view.wanted:
                regions = array_run.regions(numbers, view.detail, last and array_run.ends_with(view.show))
                array_run.n_regions = count_labels(regions)
                region_outlines = outline_if_large(regions)
            self._pictures_due[position] = _next(now, UNCERTAINTY_EVERY)
        if self.commands_only:  # a stroke is to be seen at once; its table comes when the chain has settled
            self._tables_due.setdefault(position, now + TABLE_EVERY)
        if last or now > self._tables_due.get(position, 0.0):
            table = array_run.table(numbers, snapshot.together)
            array_run.verdict, array_run.has_converged = (
                interactive.summary.diagnosis.summary,
                interactive.summary.has_converged,
            )
            self._tables_due[position] = _next(now, TABLE_EVERY)
        before = self.newest.get(position)
        if before is not None and before.array_run is array_run:  # a picture that nobody has taken yet is not lost
            boundary = before.boundary if boundary is None else boundary
            entropy = before.entropy if entropy is None else entropy
            if regions is None and "regions" in view.wanted:
                regions, region_outlines = before.regions, before.region_outlines
            table = before.table if table is None else table
        painting = time.monotonic()
        held = array_run.held_picture(numbers)
        frame = Frame(
            array_run=array_run,
            n_commands_done=array_run.n_commands_done,
            sweep=interactive.sweep,
            target=interactive.target,
            show=view.show,
            labels=array_run.paint_shown(numbers, view.background),
            numbers=numbers,
            locks=interactive.locks,
            n_clusters=int(np.count_nonzero(np.bincount(numbers))),
            best=snapshot.best.log_posterior,
            best_sweep=snapshot.best.sweep,
            traces=interactive.traces,
            marks=tuple(step["sweep"] for step in interactive.log.corrections),
            corrections=count_corrections(interactive.log.corrections),
            rate=array_run.rate,
            boundary=boundary,
            entropy=entropy,
            regions=regions,
            region_outlines=region_outlines,
            held=held,
            n_regions=0 if regions is None else array_run.n_regions,
            kind="object" if interactive.settings.view == "objects" and view.detail is None else "region",
            verdict=array_run.verdict,
            has_converged=array_run.has_converged,
            edits=interactive.edits,
            is_estimated=interactive.summary.is_estimated,
            table=table,
            provenance=array_run.provenance() if last else None,
        )
        self._frame_due = _next(painting, 0.0, FRAME_REST)
        with self._framed:
            self.newest[position], self.preview = frame, None
            self._framed.notify_all()


def _next(began: float, every: float, rest: float = REST) -> float:
    """When to do again what has just been done, so that it never takes more than a small share of the time."""
    return (now := time.monotonic()) + max(every, rest * (now - began))


# How long to wait at the end for the sweeps that are under way, in seconds.
LAST_SWEEPS = 1.0
# Settings of what is made of the states of a chain, which show at once even when it is at rest.
AT_ONCE = ("view", "neck", "min_region", "merge", "join")


class CommandQueue(QObject):  # type: ignore[misc]
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
        self.run: RunWorker | None = None
        self._view = DisplayOptions()

    # ---- how things stand

    @property
    def view(self) -> DisplayOptions:
        """What is to be shown; a run that is on hears of a change at once."""
        return self._view

    @view.setter
    def view(self, view: DisplayOptions) -> None:
        self._view = view
        if self.run is not None:
            self.run.view = view

    @property
    def sampling(self) -> bool:
        """Whether a run is on that is no errand."""
        return self.run is not None and not self.run.commands_only

    @property
    def resting(self) -> bool:
        """Whether no frame comes unless it is asked for."""
        return self.run is None or self.run.commands_only or self.run.held

    @property
    def stage(self) -> Stage | None:
        """What a run is doing; None if there is none."""
        return self.run.stage if self.run is not None and not self.run.commands_only else None

    # ---- orders

    def submit(self, position: Position, order: Command) -> None:
        """Have something done to the chain at a position, before its next sweep."""
        seg = self.segmentation
        if seg is None or position not in seg.array_runs:
            return
        array_run = seg.array_runs[position]
        array_run.n_commands_sent += 1
        run = RunWorker([(position, array_run)], 0, commands_only=True) if self.run is None else self.run
        run.array_runs.setdefault(position, array_run)
        run.submit(position, order)
        if self.run is None:  # it leaves with the order in its hands, or it would be back before it has heard of it
            self.launch(run)

    def answered(self, position: Position, seconds: float) -> bool:
        """Whether all that was asked of a chain is done and can be drawn, now or within a moment."""
        seg, run = self.segmentation, self.run
        if seg is None or run is None or position not in seg.array_runs:
            return False
        return run.answers(position, seg.array_runs[position].n_commands_sent, seconds)

    def redraw(self, *positions: Position) -> None:
        """Have the pictures at some positions made again, without a sweep."""
        for position in positions:
            self.submit(position, lambda interactive: None)

    def retune(self, settings: Settings) -> bool:
        """Hand a running chain the settings that may change; False if others differ, which apply at the next run."""
        if self.run is None or self.run.commands_only:
            return False
        all_taken = True
        wanted = {name: value for name, value in settings.to_dict().items() if name in LIVE_SETTINGS}
        for position, array_run in dict(self.run.array_runs).items():
            with suppress(InputError):
                array_run.interactive.settings.replace(**wanted)  # which may not go with the others as they still are
                self.submit(position, lambda interactive: interactive.retune(interactive.settings.replace(**wanted)))
            try:
                array_run.interactive.check_live_settings(settings)
            except InputError:
                all_taken = False
        return all_taken

    def remake(self, settings: Settings) -> None:
        """Have regions or objects of chains at rest made again as settings say; a chain that runs is changed."""
        seg = self.segmentation
        if seg is None or self.sampling:
            return
        wanted = {name: getattr(settings, name) for name in AT_ONCE}
        if settings.view != "clusters" and any(
            x.interactive.settings.view != settings.view for x in seg.array_runs.values()
        ):
            self.view = replace(self.view, wanted=self.view.wanted | {"regions"})
        for position, array_run in seg.array_runs.items():
            now = array_run.interactive.settings
            if self.run is not None or any(getattr(now, name) != value for name, value in wanted.items()):
                self.submit(position, lambda interactive: interactive.retune(interactive.settings.replace(**wanted)))

    # ---- the run

    def launch(self, run: RunWorker) -> None:
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
        pending_commands = run.pending_commands()
        run.release()
        for position, order in pending_commands:  # a stroke that came as the run ended goes before anything else
            if self.segmentation is not None and position in self.segmentation.array_runs:
                self.segmentation.array_runs[position].n_commands_sent -= 1
                self.submit(position, order)
        self.ended.emit(run)
