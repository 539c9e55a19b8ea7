"""Progress bar of a segmentation, which Ctrl+C ends."""

from __future__ import annotations

import threading
from contextlib import ExitStack
from types import FrameType
from typing import TYPE_CHECKING, Any

from napari_gsw.batch.interruption import handle_signals, make_interrupt

if TYPE_CHECKING:
    from napari_gsw.core.pipeline.stage import Stage
    from napari_gsw.core.sampler.snapshot import Snapshot


class SweepBar:
    """Progress bar of a segmentation. The first Ctrl+C ends the chain and keeps its result.

    `stopped` is the signal that came while the chain ran, SIGINT or SIGTERM, or None.
    """

    def __init__(self, sweeps: int, quiet: bool) -> None:
        from tqdm import tqdm

        tqdm.set_lock(threading.RLock())  # its default is also for processes, and takes longer to import than a bar
        numbers = "{n_fmt}/{total_fmt}{unit} [{elapsed}<{remaining}, {rate_fmt}{postfix}]"
        options: dict[str, Any] = {"bar_format": f"{{desc}}: {{percentage:3.0f}}%|{{bar}}| {numbers}"}
        self.bar = tqdm(total=sweeps, desc="reading", disable=quiet, unit=" sweeps", dynamic_ncols=True, **options)
        self.sweeps = sweeps
        self.stopped: int | None = None
        self._handlers = ExitStack()
        self._unit, self._stage = "sweeps", ""

    def __enter__(self) -> SweepBar:
        from napari_gsw.core.jit import PROGRESS

        self._handlers.enter_context(handle_signals(self._interrupt))
        PROGRESS.watchers.append(self._show_compilation)
        self._handlers.callback(PROGRESS.watchers.remove, self._show_compilation)
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
        self._handlers.close()

    def close(self) -> None:
        """Draw the bar for the last time."""
        self.bar.close()

    def report(self, stage: Stage, snapshot: Snapshot | None) -> bool:
        """Show the progress of a segmentation; returns whether it is to end."""
        if stage.name == "blocks":  # a large image is read in blocks, which have a bar of their own
            self._count("blocks", stage.total)
            self.bar.set_description_str("reading")
            self.bar.update(stage.done - self.bar.n)
        elif stage.name != self._stage:
            self._count("sweeps", self.sweeps)
            self._stage = stage.name
            self.bar.set_description_str(stage.name)
            if snapshot is not None:  # the speed is that of the chain, without what came before it
                self.bar.reset()
        if snapshot is not None:
            best = f"{snapshot.best.log_posterior:,.1f}"
            self.bar.set_postfix_str(f"{snapshot.n_clusters} clusters, best {best}", refresh=False)
            self.bar.update(snapshot.sweep - self.bar.n)
        return self.stopped is not None

    def _count(self, unit: str, total: int) -> None:
        if unit != self._unit:
            self._unit, self.bar.unit = unit, f" {unit}"
            self.bar.reset(total)

    def _show_compilation(self) -> None:
        from napari_gsw.core.pipeline.warm_up import compiling_stage

        stage = compiling_stage()
        text = self._stage if stage is None else f"compiling, once on this machine, {stage.done} of {stage.total}"
        self.bar.set_description_str(text)

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        if self.stopped is not None or self._stage != "sampling":
            raise make_interrupt(number)
        self.stopped = number
