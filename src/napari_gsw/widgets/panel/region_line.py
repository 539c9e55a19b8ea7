"""The line that tells about the region under the mouse, or about a sweep of the trace."""

from __future__ import annotations

from typing import Any

from napari_gsw.widgets.kit.still_line import StillLine
from napari_gsw.widgets.layers.hover import hovered
from napari_gsw.widgets.session.session import Session

HINT = "Point at a region to learn about it."


class RegionLine(StillLine):
    """Two lines of text that never change their height."""

    def __init__(self, session: Session) -> None:
        super().__init__("region", 2)
        self.session = session
        # The run that the text is about; None if it is about none.
        self._subject: object = None
        self.say(HINT)

    def tell(self, text: str) -> None:
        """Say something, or again what this line is for."""
        self._subject = self.session.array_run if text else None
        self.say(text or HINT)

    def refresh(self) -> None:
        """Forget what was said about an earlier run."""
        if self._subject is not None and self._subject is not self.session.array_run:
            self.tell("")

    def look(self, event: Any = None) -> None:
        """Tell about the region under the mouse."""
        seg, frame = self.session.segmentation, self.session.frame
        if seg is None or frame is None or frame.table is None or seg.layers.labels is None:
            return
        where = self.session.viewer.cursor.position
        text = hovered(seg.layers.labels, where, frame.table, seg.plan.source.depth)
        if text:
            self.tell(text)
