"""The bar of a segmentation, and its Ctrl+C."""

from __future__ import annotations

import threading
from contextlib import ExitStack
from types import FrameType
from typing import TYPE_CHECKING

from napari_gsw.batch.interruption import handle_signals, make_interrupt

if TYPE_CHECKING:
    from napari_gsw.core.pipeline.stage import Stage
    from napari_gsw.core.sampler.snapshot import Snapshot


class SweepBar:
    """The bar of a segmentation, and its Ctrl+C: the first one ends the chain and keeps what it has found.

    Parameters
    ----------
    sweeps : how many the chain is to make.
    quiet : no bar.

    Attributes
    ----------
    stopped : the signal that came while the chain ran, Ctrl+C or the system's request to end; None without one.
    """

    def __init__(self, sweeps: int, quiet: bool) -> None:
        from tqdm import tqdm

        tqdm.set_lock(threading.RLock())  # its own is one for processes, too, which takes longer to import than a bar
        bar_format = (
            "{desc}: {percentage:3.0f}%|{bar}| {n_fmt}/{total_fmt}{unit} [{elapsed}<{remaining}, {rate_fmt}{postfix}]"
        )
        self.bar = tqdm(
            total=sweeps, desc="reading", disable=quiet, unit=" sweeps", bar_format=bar_format, dynamic_ncols=True
        )
        self.sweeps = sweeps
        self._unit = "sweeps"
        self.stopped: int | None = None
        self._handlers = ExitStack()
        self._stage = ""

    def __enter__(self) -> SweepBar:
        from napari_gsw.core.jit import PROGRESS

        self._handlers.enter_context(handle_signals(self._interrupt))
        PROGRESS.watchers.append(self._compiling)
        self._handlers.callback(PROGRESS.watchers.remove, self._compiling)
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
        self._handlers.close()

    def close(self) -> None:
        """Draw the bar for the last time."""
        self.bar.close()

    def report(self, stage: Stage, snapshot: Snapshot | None) -> bool:
        """Follow a segmentation; True when the user wants it to end."""
        if stage.name == "blocks":
            self._block(stage)
        elif stage.name != self._stage:
            if self._count_in("sweeps"):
                self.bar.reset(self.sweeps)
            self._stage = stage.name
            self.bar.set_description_str(stage.name)
            if snapshot is not None:  # the speed is that of the chain, without what came before it
                self.bar.reset()
        if snapshot is not None:
            best = f"{snapshot.best.log_posterior:,.1f}"
            self.bar.set_postfix_str(f"{snapshot.n_clusters} clusters, best {best}", refresh=False)
            self.bar.update(snapshot.sweep - self.bar.n)
        return self.stopped is not None

    def _compiling(self) -> None:
        """Say that a stage takes its time because of kernels that are not compiled yet."""
        from napari_gsw.core.pipeline.warm_up import compiling_stage

        stage = compiling_stage()
        self.bar.set_description_str(
            self._stage if stage is None else f"compiling, once on this machine, {stage.done} of {stage.total}"
        )

    def _count_in(self, unit: str) -> bool:
        """Change what the bar counts; False if it counts that already."""
        changed = self._unit != unit
        self._unit, self.bar.unit = unit, f" {unit}"
        return changed

    def _block(self, stage: Stage) -> None:
        """A large image comes in blocks, which have a bar of their own."""
        if self._count_in("blocks"):
            self.bar.reset(stage.total)
            self.bar.set_description_str("reading")
        self.bar.update(stage.done - self.bar.n)

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        if self.stopped is not None or self._stage != "sampling":
            raise make_interrupt(number)
        self.stopped = number
