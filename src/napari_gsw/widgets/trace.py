"""The trace: log posterior above, number of clusters below, in napari's colours."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyqtgraph as pg
from napari.utils.theme import get_theme
from numpy.typing import NDArray
from qtpy.QtCore import QSize

# Colours that read on a dark and on a light background.
LINE = "#4c9be8"
BEST = "#f28e2b"


class TracePlot(pg.GraphicsLayoutWidget):  # type: ignore[misc]
    """Two linked plots that follow a chain."""

    def __init__(self) -> None:
        super().__init__()
        self.setMinimumHeight(180)
        self.upper = self.addPlot(row=0, col=0)
        self.lower = self.addPlot(row=1, col=0)
        self.lower.setXLink(self.upper)
        self.ci.layout.setRowStretchFactor(0, 2)
        self.ci.layout.setRowStretchFactor(1, 1)
        self.ci.setContentsMargins(0, 4, 8, 0)
        for plot, name in ((self.upper, "log posterior"), (self.lower, "clusters")):
            plot.setLabel("left", name)
            plot.getAxis("left").setWidth(64)
            plot.setMenuEnabled(False)
            plot.hideButtons()
            plot.setDownsampling(auto=True, mode="peak")
            plot.setClipToView(True)
        self.upper.getAxis("bottom").setStyle(showValues=False)
        self.lower.setLabel("bottom", "sweep")
        self.value = self.upper.plot(pen=pg.mkPen(LINE, width=1))
        self.best = self.upper.plot(pen=None, symbol="o", symbolSize=7, symbolBrush=BEST, symbolPen=None)
        self.count = self.lower.plot(pen=pg.mkPen(LINE, width=1), stepMode="right")

    def sizeHint(self) -> QSize:
        """Small enough to leave the picture most of the window; the dock can be made wider."""
        return QSize(320, 260)

    def show_trace(self, trace: NDArray[np.float64]) -> None:
        """Draw rows of log posterior and number of clusters, one for each sweep."""
        sweep = np.arange(1, len(trace) + 1)
        self.value.setData(sweep, trace[:, 0])
        self.count.setData(sweep, trace[:, 1])
        top = int(np.argmax(trace[:, 0])) if len(trace) else None
        self.best.setData([] if top is None else [sweep[top]], [] if top is None else [trace[top, 0]])
        if len(trace) > 1:
            # The climb of the first sweeps would flatten everything after it.
            late = trace[len(trace) // 20 :, 0]
            room = 0.08 * (float(np.ptp(late)) or 1.0)
            self.upper.setYRange(float(late.min()) - room, float(late.max()) + room, padding=0)

    def follow_theme(self, name: str) -> None:
        """Take background and text colour from one of napari's themes."""
        theme: Any = get_theme(name)
        self.setBackground(theme.background.as_hex())
        pen = pg.mkPen(theme.text.as_hex())
        for plot in (self.upper, self.lower):
            for side in ("left", "bottom"):
                plot.getAxis(side).setPen(pen)
                plot.getAxis(side).setTextPen(pen)
