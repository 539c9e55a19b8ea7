"""A run in a background thread, and the queue of commands for it.

The worker never sends frames: it leaves the newest one of each array in a slot, and the window takes it when it has
time. So a slow screen never delays the chain, nor the other way round. Commands of the user go into a queue; the worker
carries them out in order before the next sweep.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

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
from napari_gsw.widgets.common.worker import make_worker
from napari_gsw.widgets.layers.image_source import Position
from napari_gsw.widgets.session.array_run import ArrayRun, DisplayOptions, Frame, count_corrections, count_labels
from napari_gsw.widgets.session.run_plan import ArrayJob, ArrayRunMaker, Segmentation

# Seconds that a paused chain sleeps before it looks for commands.
NAP = 0.05
# Shortest intervals in seconds between two updates of the slower images and of the table, and how many times longer
# than an update took the chain runs before the next one.
UNCERTAINTY_EVERY, TABLE_EVERY, REST = 0.5, 1.0, 40.0
# The same for the frames of a large image.
FRAME_REST = 20.0
# Seconds that sweeps run without a look at Python, unless somebody wants something. While the window is painted, no
# other Python code runs: sweeps that are under way go on, but the next ones cannot begin.
SWEEP_FOR = 0.5
# Seconds to wait at the end for sweeps that are under way.
LAST_SWEEPS = 1.0
# Settings that decide how states are displayed, which show at once even when no chain runs.
AT_ONCE = ("view", "neck", "min_region", "merge", "join")

Command = Callable[[InteractiveRun], object]


class PreparationStopped(Exception):
    """The user has stopped the run during the preparation."""


class RunWorker:
    """A run over one or several arrays in the background.

    Attributes
    ----------
    commands_only : whether it only carries out commands, because no other run is there to do it.
    stage : a stage of the preparation, or "sampling".
    place : index of the current array.
    array_runs : the runs that exist, by position.
    newest : the newest frame of each array, by position.
    preview : position and labels of a coarse copy of the array that is being prepared, or None.
    notices : messages for the user: commands that could not be carried out.
    failure : the exception that ended the run, or None.
    frame_wanted : whether somebody waits for a frame. Other frames would only cost time.
    view : what its frames show.
    keep : saves the session between two sweeps if it is due, or at once if its argument is true; or None.
    unsaved : whether there are sweeps since it was last saved at once.
    abandoned : whether the window was closed during the run.
    worker : napari's worker.
    """

    def __init__(self, jobs: Sequence[ArrayJob], sweeps: int, commands_only: bool = False) -> None:
        self.jobs = list(jobs)
        self.sweeps, self.commands_only = sweeps, commands_only
        self.view = DisplayOptions()
        self.frame_wanted = True
        self.stage = Stage("preparing")
        self.place = 0
        self.array_runs: dict[Position, ArrayRun] = {p: job for p, job in self.jobs if isinstance(job, ArrayRun)}
        self.newest: dict[Position, Frame] = {}
        self.preview: tuple[Position, Preview] | None = None
        self.notices: deque[str] = deque()
        self.failure: Exception | None = None
        self.keep: Callable[[bool], None] | None = None
        self.stopping = self.abandoned = self.unsaved = False
        # Positions whose chains have to go on after a command, when there is no other run.
        self._woken: set[Position] = set()
        self._commands: deque[tuple[Position, Command]] = deque()
        self._go = threading.Event()
        self._go.set()
        self._wake = threading.Event()
        self._framed = threading.Condition()
        self._steps, self._stale = 0, False
        self._seconds, self._timed_sweeps, self._frame_due = 0.0, 0, 0.0
        self._tables_due: dict[Position, float] = {}
        self._images_due: dict[Position, float] = {}
        self.worker = make_worker(self._guard, end=self.abandon)

    # ---- called from the GUI thread

    def answers(self, position: Position, commands: int, seconds: float) -> bool:
        """Wait for a frame of an array that has carried out so many commands; return whether there is one in time."""

        def is_answered() -> bool:
            frame = self.newest.get(position)
            return frame is not None and frame.n_commands_done >= commands

        with self._framed:
            return self._framed.wait_for(is_answered, seconds)

    @property
    def held(self) -> bool:
        """Whether the run is paused."""
        return not self._go.is_set()

    def pause(self) -> None:
        """Pause after the current sweep."""
        self._go.clear()
        self._interrupt()

    def resume(self) -> None:
        """Go on after a pause."""
        self._go.set()
        self._wake.set()

    def step(self) -> None:
        """Run one sweep of a paused chain."""
        self._steps += 1
        self._wake.set()

    def stop(self) -> None:
        """End after the current sweep and keep the result."""
        self.stopping = True
        self.resume()
        self._interrupt()

    def abandon(self) -> None:
        """End as with :meth:`stop`, but without a last frame, which nobody would see."""
        self.abandoned |= not self.stopping
        self.stop()

    def want_frame(self) -> None:
        """Ask for a frame after the current sweep."""
        if not self.frame_wanted and time.monotonic() >= self._frame_due:
            self.frame_wanted = True
            self._interrupt()

    def _interrupt(self) -> None:
        for array_run in list(self.array_runs.values()):
            array_run.interactive.ensemble.interrupt()

    def submit(self, position: Position, command: Command) -> None:
        """Have a command carried out on the chain of an array before its next sweep."""
        self._commands.append((position, command))
        self._wake.set()
        self._interrupt()

    def wait(self, seconds: float) -> None:
        """Wait for the worker to end, but no longer than so many seconds."""
        end = time.monotonic() + seconds
        while self.worker.is_running and time.monotonic() < end:
            time.sleep(0.005)

    def take_pending_commands(self) -> list[tuple[Position, Command]]:
        """Return the commands that came too late for this run."""
        commands = list(self._commands)
        self._commands.clear()
        return commands

    def release(self) -> None:
        """Drop all arrays: napari keeps every worker as long as its window."""
        self.keep = None
        self.jobs.clear()
        self.array_runs.clear()
        self.newest.clear()

    # ---- in the worker's thread

    def _guard(self) -> Iterator[None]:
        """Run, and keep any exception: napari swallows a RuntimeError of a worker and prints the others."""
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
        """Let the screen go first where the sweeps take all cores."""
        n_chains = [len(run.interactive.ensemble.chains) for run in list(self.array_runs.values())]
        if max(n_chains, default=1) >= count_cores():
            lower_priority()

    def _work(self) -> Iterator[None]:
        while BACKGROUND.is_compiling and not self.stopping:  # compiling here would block the window
            yield
            time.sleep(NAP)
        previous: ArrayRun | None = None
        for place, (position, job) in enumerate(self.jobs):
            self.place = place
            array_run = job if isinstance(job, ArrayRun) else self._prepare(position, job)
            yield
            if self._is_abandoned():
                return
            interactive = array_run.interactive
            interactive.ensemble.executor, interactive.ensemble.interval = self._threads, SWEEP_FOR
            interactive.run_or_resume(self.sweeps)
            self.stage = Stage("sampling" if getattr(kernels.advance, "signatures", True) else "start")
            if not self.commands_only:  # which shows what its commands have changed, and nothing before
                self._publish(position)
            yield from self._sweep(position, interactive)
            interactive.ensemble.executor = None
            if self._is_abandoned():
                self._save(True)
                return
            if self.sweeps and previous is not None and not self.stopping:
                interactive.match_image(previous.paint(previous.interactive.shown("best")))
            self._publish(position, last=True)
            self._save(not self.commands_only)
            if self.stopping:
                break
            previous = array_run
        self._run_commands()
        while self._woken and not self.stopping:  # by commands for another chain, or that came at the very end
            position = next(iter(self._woken))
            interactive = self.array_runs[position].interactive
            if interactive.sweep < interactive.target:
                interactive.ensemble.executor = self._threads
                yield from self._sweep(position, interactive)
                interactive.ensemble.executor = None
                self._publish(position, last=True)
            self._woken.discard(position)
        yield

    def _sweep(self, position: Position, interactive: InteractiveRun) -> Iterator[None]:
        """Advance a chain to its target, and carry out commands meanwhile."""
        while True:
            self._run_commands()
            if self.stopping or interactive.sweep >= interactive.target:
                return
            if self.held and not self._steps:
                if self._stale:
                    self._publish(position)
                self._wake.wait(NAP)
                self._wake.clear()
                yield
                continue
            max_sweeps = None
            if self.held:
                self._steps -= 1
                max_sweeps = 1
            first, began = interactive.sweep, time.perf_counter()
            interactive.advance(max_sweeps)
            self.unsaved = True
            if self.stage.name == "sampling":  # the first step may have compiled
                self._seconds += time.perf_counter() - began
                self._timed_sweeps += interactive.sweep - first
            self.stage, self._stale = Stage("sampling"), True
            self._save(False)
            if self.frame_wanted:
                self._publish(position)
            yield

    def _prepare(self, position: Position, make: ArrayRunMaker) -> ArrayRun:
        def report(stage: Stage) -> None:
            if self.stopping:
                raise PreparationStopped
            self.stage = stage

        def show(preview: Preview) -> None:
            self.preview = position, preview

        array_run = self.array_runs[position] = make(report, show)
        if array_run.unusable:
            self.notices.append(f"{array_run.unusable:,} pixels are NaN or infinite: they are outside the image")
        return array_run

    def _run_commands(self) -> None:
        """Carry out commands in order. One that fails changes nothing and leaves a notice."""
        changed: dict[Position, None] = {}
        is_corrected = False
        while self._commands:
            position, command = self._commands.popleft()
            array_run = self.array_runs[position]
            interactive = array_run.interactive
            n_corrections, n_actions = len(interactive.log.corrections), len(interactive.log.actions)
            try:
                command(interactive)
                if self.commands_only and len(interactive.log.corrections) > n_corrections:
                    interactive.resume_after_correction()
                    self._woken.add(position)
                is_corrected |= len(interactive.log.actions) > n_actions
            except InputError as reason:
                self.notices.append(str(reason))
            finally:  # also if it ends the run: an array that waits for a command is never drawn again
                array_run.n_commands_done += 1
            changed[position] = None
        for position in changed:
            self._publish(position, last=not self._continues(position))
        if is_corrected:
            self._save(True)

    def _save(self, at_once: bool) -> None:
        if (keep := self.keep) is not None:  # which the window takes away when it is closed, at any time
            keep(at_once)
        self.unsaved &= not at_once

    def _is_abandoned(self) -> bool:
        return self.abandoned

    def _continues(self, position: Position) -> bool:
        """Return whether sweeps, and with them another frame, follow at once."""
        interactive = self.array_runs[position].interactive
        is_current = self.jobs[self.place][0] == position or position in self._woken
        return is_current and not self.held and not self.stopping and interactive.sweep < interactive.target

    def _publish(self, position: Position, last: bool = False) -> None:
        """Leave a frame of an array in its slot. Slower parts that are not due are those of the frame before."""
        array_run, view = self.array_runs[position], self.view
        self.frame_wanted = self._stale = False
        if self._seconds:
            array_run.rate = self._timed_sweeps / self._seconds
        interactive, now = array_run.interactive, time.monotonic()
        snapshot, summary = interactive.snapshot, interactive.summary
        numbers = interactive.shown(view.show)
        slow: dict[str, Any] = {}
        before = self.newest.get(position)
        if before is not None and before.array_run is array_run:  # nobody may have taken it yet
            wanted = ("regions", "n_regions") if "regions" in view.wanted else ()
            slow = {name: getattr(before, name) for name in ("boundary", "entropy", "table", *wanted)}
        is_edited = array_run.pictured is not interactive.edits
        if view.wanted and (last or is_edited or now > self._images_due.get(position, 0.0)):
            array_run.pictured = interactive.edits
            for name, make_image in (("boundary", array_run.boundary), ("entropy", array_run.entropy)):
                if name in view.wanted and (image := make_image(snapshot.together)) is not None:
                    slow[name] = image
            if "regions" in view.wanted:
                regions = array_run.regions(numbers, view.detail, last and array_run.ends_with(view.show))
                slow |= {"regions": regions, "n_regions": count_labels(regions)}
            self._images_due[position] = _next_time(now, UNCERTAINTY_EVERY)
        if self.commands_only:  # a scribble is displayed at once; its table follows when the chain has settled
            self._tables_due.setdefault(position, now + TABLE_EVERY)
        if last or now > self._tables_due.get(position, 0.0):
            slow["table"] = array_run.table(numbers, snapshot.together)
            array_run.verdict, array_run.has_converged = summary.diagnosis.summary, summary.has_converged
            self._tables_due[position] = _next_time(now, TABLE_EVERY)
        began = time.monotonic()
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
            held=array_run.held_picture(numbers),
            kind="object" if interactive.settings.view == "objects" and view.detail is None else "region",
            verdict=array_run.verdict,
            has_converged=array_run.has_converged,
            edits=interactive.edits,
            is_estimated=summary.is_estimated,
            provenance=array_run.provenance() if last else None,
            **slow,
        )
        self._frame_due = _next_time(began, 0.0, FRAME_REST)
        with self._framed:
            self.newest[position], self.preview = frame, None
            self._framed.notify_all()


def _next_time(began: float, every: float, rest: float = REST) -> float:
    """Return when to repeat what has just been done, so that it takes a small share of the time only."""
    return (now := time.monotonic()) + max(every, rest * (now - began))


class CommandQueue(QObject):  # type: ignore[misc]
    """Hands commands to the current run; if there is none, starts a run that only carries them out.

    Signals
    -------
    about_to_launch : a run exists and will begin.
    launched : it has begun.
    ending : it has ended, but its frames can still be taken.
    ended : it is gone; with the run. A command that came too late for it has started another.

    Attributes
    ----------
    segmentation : the current segmentation, or None.
    run : the current run, or None.
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

    @property
    def view(self) -> DisplayOptions:
        """What to display; the current run takes a change at once."""
        return self._view

    @view.setter
    def view(self, view: DisplayOptions) -> None:
        self._view = view
        if self.run is not None:
            self.run.view = view

    @property
    def sampling(self) -> bool:
        """Whether a run other than one of commands only is there."""
        return self.run is not None and not self.run.commands_only

    @property
    def resting(self) -> bool:
        """Whether frames come only if they are asked for."""
        return self.run is None or self.run.commands_only or self.run.held

    @property
    def stage(self) -> Stage | None:
        """What the run is doing; None if there is none."""
        return self.run.stage if self.run is not None and not self.run.commands_only else None

    # ---- commands

    def submit(self, position: Position, command: Command) -> None:
        """Have a command carried out on the chain at a position, before its next sweep."""
        seg = self.segmentation
        if seg is None or position not in seg.array_runs:
            return
        array_run = seg.array_runs[position]
        array_run.n_commands_sent += 1
        run = self.run or RunWorker([(position, array_run)], 0, commands_only=True)
        run.array_runs.setdefault(position, array_run)
        run.submit(position, command)
        if self.run is None:  # launched with its command, or it might end before it gets it
            self.launch(run)

    def answered(self, position: Position, seconds: float) -> bool:
        """Wait until all commands for a chain are done and can be drawn; return whether they are in time."""
        seg, run = self.segmentation, self.run
        if seg is None or run is None or position not in seg.array_runs:
            return False
        return run.answers(position, seg.array_runs[position].n_commands_sent, seconds)

    def redraw(self, *positions: Position) -> None:
        """Make the frames at some positions anew, without a sweep."""
        for position in positions:
            self.submit(position, lambda interactive: None)

    def retune(self, settings: Settings) -> bool:
        """Change the settings of a running chain that may change; return False if others differ, too."""
        if self.run is None or self.run.commands_only:
            return False
        all_taken = True
        values = {name: value for name, value in settings.to_dict().items() if name in LIVE_SETTINGS}
        for position, array_run in dict(self.run.array_runs).items():
            with suppress(InputError):
                array_run.interactive.settings.replace(**values)  # fails if they contradict the others
                self.submit(position, partial(_replace_settings, values=values))
            try:
                array_run.interactive.check_live_settings(settings)
            except InputError:
                all_taken = False
        return all_taken

    def remake(self, settings: Settings) -> None:
        """Make regions or objects of chains at rest anew by other settings; a chain that runs is changed."""
        seg = self.segmentation
        if seg is None or self.sampling:
            return
        values = {name: getattr(settings, name) for name in AT_ONCE}
        present = [run.interactive.settings for run in seg.array_runs.values()]
        if settings.view != "clusters" and any(before.view != settings.view for before in present):
            self.view = replace(self.view, wanted=self.view.wanted | {"regions"})
        for position, before in zip(list(seg.array_runs), present, strict=True):
            if self.run is not None or any(getattr(before, name) != value for name, value in values.items()):
                self.submit(position, partial(_replace_settings, values=values))

    # ---- the run

    def launch(self, run: RunWorker) -> None:
        """Begin a run; no other may be there."""
        assert self.run is None
        self.run = run
        run.view = self.view
        run.worker.finished.connect(self._finish)
        self.about_to_launch.emit()
        self.launched.emit()
        run.worker.start()

    def stop(self) -> None:
        """End the run after the current sweeps, if there is one."""
        if self.run is not None:
            self.run.stop()

    def end(self) -> None:
        """Stop, and wait a moment: nobody will be there when the run ends.

        The worker is not asked to quit, which would leave its generator before the session is saved. While an image is
        prepared or a kernel compiled, everything is saved already, so there is nothing to wait for.
        """
        if self.run is not None:
            self.run.abandon()
            if self.run.unsaved:
                self.run.wait(LAST_SWEEPS)
            self.run.keep = None

    def _finish(self) -> None:
        run = self.run
        if run is None:
            return
        self.ending.emit()
        self.run = None
        pending = run.take_pending_commands()
        run.release()
        for position, command in pending:  # before anything else that the user asks for
            if self.segmentation is not None and position in self.segmentation.array_runs:
                self.segmentation.array_runs[position].n_commands_sent -= 1
                self.submit(position, command)
        self.ended.emit(run)


def _replace_settings(interactive: InteractiveRun, values: Mapping[str, Any]) -> None:
    interactive.update_settings(interactive.settings.replace(**values))
