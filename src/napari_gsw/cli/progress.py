"""The bar of a segmentation, and its Ctrl+C."""

from __future__ import annotations

import signal
from types import FrameType

from napari_gsw.core.chain import Snapshot


class Progress:
    """The bar of a segmentation, and its Ctrl+C: the first one ends the chain and keeps what it has found."""

    def __init__(self, sweeps: int, quiet: bool) -> None:
        from tqdm import tqdm

        form = (
            "{desc}: {percentage:3.0f}%|{bar}| {n_fmt}/{total_fmt} sweeps [{elapsed}<{remaining}, {rate_fmt}{postfix}]"
        )
        self.bar = tqdm(
            total=sweeps, desc="reading", disable=quiet, unit=" sweeps", bar_format=form, dynamic_ncols=True
        )
        self.stopped = False
        self._stage = ""

    def __enter__(self) -> Progress:
        self._before = signal.signal(signal.SIGINT, self._interrupt)
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
        signal.signal(signal.SIGINT, self._before)

    def close(self) -> None:
        self.bar.close()

    def report(self, stage: str, snapshot: Snapshot | None) -> bool:
        if stage != self._stage:
            self._stage = stage
            self.bar.set_description_str(stage)
            if snapshot is not None:  # the speed is that of the chain, without what came before it
                self.bar.reset()
        if snapshot is not None:
            best = f"{snapshot.best.log_posterior:,.1f}"
            self.bar.set_postfix_str(f"{snapshot.n_clusters} clusters, best {best}", refresh=False)
            self.bar.update(snapshot.sweep - self.bar.n)
        return self.stopped

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        if self.stopped or self._stage != "sampling":
            raise KeyboardInterrupt
        self.stopped = True
