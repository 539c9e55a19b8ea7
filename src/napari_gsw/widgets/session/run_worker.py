"""A run in a background thread, and the queue of commands for it.

The worker never sends frames: it leaves the newest one of each array in a slot, and the window draws it when it has
time. So a slow screen never delays the chain, nor the other way round. Commands of the user go into a queue; the worker
carries them out in order before the next sweep.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from typing import Any

import napari
import numpy as np
from qtpy.QtCore import QObject, Signal

from napari_gsw.core.errors import InputError
from napari_gsw.core.interactive.interactive_run import LIVE_SETTINGS, InteractiveRun
from napari_gsw.core.pipeline.prepare import Stage
from napari_gsw.core.pipeline.segment import Preview
from napari_gsw.core.pipeline.warm_up import BACKGROUND
from napari_gsw.core.sampler import chain_kernels as kernels
from napari_gsw.core.settings import Settings
from napari_gsw.core.threads import count_cores, lower_priority
from napari_gsw.widgets.common.dock_panel import Connections
from napari_gsw.widgets.common.worker import make_worker
from napari_gsw.widgets.layers.cursor import get_view_position
from napari_gsw.widgets.layers.image_source import Position
from napari_gsw.widgets.layers.result_layers import UNCERTAINTY_IMAGES
from napari_gsw.widgets.session.array_run import ArrayRun, DisplayOptions, Frame, count_labels
from napari_gsw.widgets.session.run_plan import ArrayJob, ArrayRunMaker, Segmentation

# Seconds that a paused chain sleeps before it looks for commands.
NAP = 0.05
# Shortest intervals in seconds between two updates of the slower images and of the table, and how many times longer
# than an update took the chain runs before the next one; the same for frames of a large image.
UNCERTAINTY_EVERY, TABLE_EVERY, REST, FRAME_REST = 0.5, 1.0, 40.0, 20.0
# Seconds that sweeps run without a look at Python, unless somebody wants something. While the window is painted, no
# other Python code runs: sweeps that are under way go on, but the next ones cannot begin.
SWEEP_FOR = 0.5
# Seconds to wait at the end for sweeps that are under way.
LAST_SWEEPS = 1.0
# Parts of a frame that are made less often than the others, and last those that are there only if wanted.
SLOW_PARTS = ("boundary", "entropy", "table", "verdict", "has_converged", "rate", "regions", "n_regions")
# Settings that decide how states are displayed, which show at once even when no chain runs.
AT_ONCE = ("view", "neck", "min_region", "merge", "join")

Command = Callable[[InteractiveRun], object]


class PreparationStopped(Exception):
    """The user has stopped the run during the preparation."""


class RunWorker:
    """A run over one or several arrays in the background."""

    def __init__(self, jobs: Sequence[ArrayJob], sweeps: int, commands_only: bool = False) -> None:
        self.jobs, self.job_index = list(jobs), 0  # the latter is the index of the current array
        self.sweeps = sweeps
        self.commands_only = commands_only  # it only carries out commands, because no other run is there to do it
        self.view = DisplayOptions()
        self.frame_wanted = True  # other frames would only cost time
        self.stage = Stage("preparing")
        self.array_runs: dict[Position, ArrayRun] = {p: job for p, job in self.jobs if isinstance(job, ArrayRun)}
        self.preview: tuple[Position, Preview] | None = None  # of the array that is being prepared
        self.notices: deque[str] = deque()  # for the user: commands that could not be carried out
        self.failure: Exception | None = None  # which ended the run
        # Saves the session between two sweeps if it is due, or at once if its argument is true.
        self.keep: Callable[[bool], None] | None = None
        self.is_paused = self.stopping = False
        self.abandoned = False  # the window was closed during the run
        self.unsaved = False  # there are sweeps since it was last saved at once
        self._commands: deque[tuple[Position, Command]] = deque()
        self._wake = threading.Event()
        self._steps = 0  # single sweeps that are wanted
        self._stale = False  # whether the chain has swept since its last frame
        self._seconds, self._timed_sweeps = 0.0, 0
        # When the next frame may be made, and with which of its slower parts. A scribble is displayed at once; its
        # table follows when the chain has settled.
        self._frame_due, self._images_due = 0.0, 0.0
        self._table_due = time.monotonic() + TABLE_EVERY if commands_only else 0.0
        self.worker = make_worker(self._guard, end=self.abandon)

    # ---- called from the GUI thread

    def pause(self) -> None:
        self.is_paused = True
        self._interrupt()

    def resume(self) -> None:
        self.is_paused = False
        self._wake.set()

    def step(self) -> None:
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
        if not self.frame_wanted and time.monotonic() >= self._frame_due:
            self.frame_wanted = True
            self._interrupt()

    def _interrupt(self) -> None:
        for array_run in list(self.array_runs.values()):
            array_run.interactive.ensemble.interrupt()

    def submit(self, position: Position, command: Command) -> None:
        self._commands.append((position, command))
        self._wake.set()
        self._interrupt()

    def release(self) -> list[tuple[Position, Command]]:
        """Drop all arrays, which napari keeps as long as its window, and return commands that came too late."""
        late = list(self._commands)
        self.keep = None
        for container in (self._commands, self.jobs, self.array_runs):
            container.clear()
        return late

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
        for index, (position, job) in enumerate(self.jobs):  # to which commands may add
            self.job_index = index
            array_run = job if isinstance(job, ArrayRun) else self._prepare(position, job)
            yield
            interactive = array_run.interactive
            if not self.commands_only or not self.job_index:
                interactive.run_or_resume(self.sweeps)
            elif interactive.sweep >= interactive.target:
                continue
            self.stage = Stage("sampling" if getattr(kernels.advance, "signatures", True) else "start")
            if not self.commands_only:  # which shows what its commands have changed, and nothing before
                self._images_due = self._table_due = 0.0
                self._publish(position)
            yield from self._sweep(position, interactive)
            if self.abandoned:
                self._save(True)
                return
            if self.sweeps and previous is not None and not self.stopping:
                interactive.match_image(previous.paint(previous.interactive.shown("best")))
            self._publish(position, last=True)
            self._save(not self.commands_only)
            self._run_commands()  # which came at the very end
            if self.stopping:
                break
            previous = array_run
        yield

    def _sweep(self, position: Position, interactive: InteractiveRun) -> Iterator[None]:
        interactive.ensemble.executor, interactive.ensemble.interval = self._threads, SWEEP_FOR
        while True:
            self._run_commands()
            if self.stopping or interactive.sweep >= interactive.target:
                interactive.ensemble.executor = None
                return
            if self.is_paused and not self._steps:
                if self._stale:
                    self._publish(position)
                self._wake.wait(NAP)
                self._wake.clear()
                yield
                continue
            max_sweeps = None
            if self.is_paused:
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
                    self.jobs.append((position, array_run))
                is_corrected |= len(interactive.log.actions) > n_actions
            except InputError as reason:
                self.notices.append(str(reason))
            finally:  # also if it ends the run: an array that waits for a command is never drawn again
                array_run.n_commands_done += 1
            changed[position] = None
        end = None if self.commands_only else self.job_index + 1
        running = [] if self.is_paused or self.stopping else [p for p, _ in self.jobs[self.job_index : end]]
        for position in changed:
            interactive = self.array_runs[position].interactive
            has_more_sweeps = position in running and interactive.sweep < interactive.target
            self._publish(position, last=not has_more_sweeps)  # or else another frame follows at once
        if is_corrected:
            self._save(True)

    def _save(self, at_once: bool) -> None:
        if (keep := self.keep) is not None:  # which the window takes away when it is closed, at any time
            keep(at_once)
        self.unsaved &= not at_once

    def _publish(self, position: Position, last: bool = False) -> None:
        """Leave a frame of an array in its slot. Slower parts that are not due are those of the frame before."""
        array_run, view, began = self.array_runs[position], self.view, time.monotonic()
        self.frame_wanted = self._stale = False
        interactive, before = array_run.interactive, array_run.frame
        snapshot, summary, corrections = interactive.snapshot, interactive.summary, interactive.log.corrections
        locks, edits = interactive.locks, interactive.edits
        numbers = interactive.map_to_current_sites(interactive.shown(view.show))
        if before is not None and before.array_run is not array_run:
            before = None
        names = SLOW_PARTS if "regions" in view.wanted else SLOW_PARTS[:-2]
        slow = {} if before is None else {name: getattr(before, name) for name in names}
        if self._seconds:
            slow["rate"] = self._timed_sweeps / self._seconds
        if view.wanted and (last or before is None or before.edits is not edits or began > self._images_due):
            for name in UNCERTAINTY_IMAGES:
                if name in view.wanted and (image := array_run.uncertainty(name, snapshot.together)) is not None:
                    slow[name] = image
            if "regions" in view.wanted:
                regions = array_run.regions(numbers, view.detail, last and array_run.ends_with(view.show))
                slow |= {"regions": regions, "n_regions": count_labels(regions)}
            self._images_due = _next_time(began, UNCERTAINTY_EVERY)
        if last or began > self._table_due:
            slow["table"] = array_run.table(numbers, snapshot.together)
            slow |= {"verdict": summary.diagnosis.summary, "has_converged": summary.has_converged}
            self._table_due = _next_time(began, TABLE_EVERY)
        locked, locked_numbers = None, np.where(locks, numbers, 0)
        if before is not None and before.edits is edits:
            is_same = np.array_equal(np.where(before.locks, before.numbers, 0), locked_numbers)
            locked = before.locked if is_same else None
        has_locked = locks.any() or edits is not None or (before is not None and before.locked is not None)
        if locked is None and has_locked:
            locked = array_run.paint_locked(locks, locked_numbers, edits)
        began = time.monotonic()
        array_run.frame = Frame(
            array_run=array_run,
            n_commands_done=array_run.n_commands_done,
            sweep=interactive.sweep,
            target=interactive.target,
            show=view.show,
            labels=array_run.paint_shown(numbers, view.background),
            numbers=numbers,
            locks=locks,
            n_clusters=int(np.count_nonzero(np.bincount(numbers))),
            best=snapshot.best.log_posterior,
            best_sweep=snapshot.best.sweep,
            traces=interactive.traces,
            marks=tuple(step["sweep"] for step in corrections),
            corrections=max(0, sum(-1 if x["what"] == "undo" else x["what"] != "steering" for x in corrections)),
            locked=locked,
            kind="object" if interactive.settings.view == "objects" and view.detail is None else "region",
            edits=edits,
            is_estimated=summary.is_estimated,
            provenance=array_run.provenance() if last else None,
            **slow,
        )
        self._frame_due = _next_time(began, 0.0, FRAME_REST)
        self.preview = None


def _next_time(began: float, every: float, rest: float = REST) -> float:
    """Return when to repeat what has just been done, so that it takes a small share of the time only."""
    return (now := time.monotonic()) + max(every, rest * (now - began))


class RunController(QObject):  # type: ignore[misc]
    """The segmentation and its run; hands it commands, and starts one that only carries them out if there is none."""

    launched = Signal()  # a run exists and is about to begin
    ending = Signal()  # it has ended, but its frames can still be taken
    ended = Signal(object)  # with the run, which is gone; a command that came too late for it has started another

    def __init__(self, viewer: napari.Viewer, connections: Connections, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.viewer, self.connections = viewer, connections
        self.segmentation: Segmentation | None = None
        self.run: RunWorker | None = None
        self.view = DisplayOptions()

    def set_view(self, **changes: Any) -> None:
        """Change fields of `view`; the current run takes them at once."""
        self.view = replace(self.view, **changes)
        if self.run is not None:
            self.run.view = self.view

    @property
    def is_sampling(self) -> bool:
        """True if a run other than one of commands only is there."""
        return self.run is not None and not self.run.commands_only

    @property
    def is_resting(self) -> bool:
        """True if frames come only if they are asked for."""
        return self.run is None or self.run.commands_only or self.run.is_paused

    @property
    def stage(self) -> Stage | None:
        return self.run.stage if self.run is not None and self.is_sampling else None

    def get_array_run(self, position: Position | None) -> ArrayRun | None:
        return None if self.segmentation is None or position is None else self.segmentation.array_runs.get(position)

    @property
    def position(self) -> Position | None:
        """The displayed array, or else the one that runs."""
        seg, run = self.segmentation, self.run
        if seg is None or not seg.array_runs:
            return None
        layer, axes = seg.plan.source.layer, seg.plan.source.stack_axes
        if layer in self.viewer.layers and axes:
            step = get_view_position(self.viewer, layer)["step"]
            if (displayed := tuple(step[a] for a in axes)) in seg.array_runs:
                return displayed
        running = run.jobs[run.job_index][0] if run is not None and self.is_sampling else None
        return running if running in seg.array_runs else next(iter(seg.array_runs))

    @property
    def array_run(self) -> ArrayRun | None:
        return self.get_array_run(self.position)

    @property
    def frame(self) -> Frame | None:
        array_run = self.array_run
        return None if array_run is None else array_run.frame

    # ---- commands

    def submit(self, position: Position, command: Command) -> None:
        """Have a command carried out on the chain at a position, before its next sweep."""
        if (array_run := self.get_array_run(position)) is None:
            return
        array_run.n_commands_sent += 1
        run = self.run or RunWorker([(position, array_run)], 0, commands_only=True)
        run.array_runs.setdefault(position, array_run)
        run.submit(position, command)
        if self.run is None:  # launched with its command, or it might end before it gets it
            self.launch(run)

    def redraw(self, *positions: Position) -> None:
        for position in positions:
            self.submit(position, lambda interactive: None)

    def apply_settings(self, settings: Settings) -> bool:
        """Change settings that may change now: of running chains how they move, of others how they are displayed.

        Return False if others of a running chain differ, too.
        """
        seg, is_sampling = self.segmentation, self.is_sampling
        if seg is None:
            return False
        values = {name: getattr(settings, name) for name in (LIVE_SETTINGS if is_sampling else AT_ONCE)}
        runs = dict(self.run.array_runs if self.run is not None and is_sampling else seg.array_runs)
        if not is_sampling and any(
            settings.view not in ("clusters", x.interactive.settings.view) for x in runs.values()
        ):
            self.set_view(wanted=self.view.wanted | {"regions"})
        for position, array_run in runs.items():
            before = array_run.interactive.settings
            with suppress(InputError):
                changed = before.replace(**values) != before  # fails if they contradict the others
                if changed or self.run is not None:
                    self.submit(position, lambda run: run.update_settings(run.settings.replace(**values)))
        return not any(array_run.interactive.frozen_settings(settings) for array_run in runs.values())

    # ---- the run

    def launch(self, run: RunWorker) -> None:
        assert self.run is None
        self.run = run
        run.view = self.view
        run.worker.finished.connect(self._finish)
        self.launched.emit()
        run.worker.start()

    def stop(self) -> None:
        if self.run is not None:
            self.run.stop()

    def end(self) -> None:
        """Stop, and wait a moment: nobody will be there when the run ends.

        The worker is not asked to quit, which would leave its generator before the session is saved. While an image is
        prepared or a kernel compiled, everything is saved already, so there is nothing to wait for.
        """
        if (run := self.run) is not None:
            run.abandon()
            last = time.monotonic() + LAST_SWEEPS
            while run.unsaved and run.worker.is_running and time.monotonic() < last:
                time.sleep(0.005)
            run.keep = None

    def _finish(self) -> None:
        run = self.run
        if run is None:
            return
        self.ending.emit()
        self.run = None
        for position, command in run.release():  # before anything else that the user asks for
            if (array_run := self.get_array_run(position)) is not None:
                array_run.n_commands_sent -= 1
                self.submit(position, command)
        self.ended.emit(run)
