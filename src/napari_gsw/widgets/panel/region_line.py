"""The line that tells about the region under the mouse, or about a sweep of the trace."""

from __future__ import annotations

from typing import Any

from napari_gsw.widgets.kit.still_line import StillLine
from napari_gsw.widgets.layers.hover import NEEDED, describe_label, hovered
from napari_gsw.widgets.session.session import Session
from napari_gsw.widgets.table.chosen_outlines import has_table, row_at

HINT = "Point at a region to learn about it."


class RegionLine(StillLine):
    """Two lines of text that never change their height."""

    def __init__(self, session: Session) -> None:
        super().__init__("region", 2)
        self.session = session
        # The run that the text is about; None if it is about none. The table that a region was last looked up in.
        self._subject: object = None
        self._table: object = None
        self.say(HINT)

    def tell(self, text: str) -> None:
        """Say something, or again what this line is for."""
        self._subject = self.session.array_run if text else None
        self._table = None
        self.say(text or HINT)

    def refresh(self) -> None:
        """Forget what was said about an earlier run, and look again at what was said of a region that has changed."""
        frame = self.session.frame
        if self._subject is not None and self._subject is not self.session.array_run:
            self.tell("")
        elif self._table is not None and frame is not None and frame.table is not self._table:
            self.look()

    def renew(self) -> None:
        """What is said of a region may be known better now."""
        if self._table is not None:
            self.look()

    def look(self, event: Any = None) -> None:
        """Tell about the region under the mouse."""
        seg, frame = self.session.segmentation, self.session.frame
        if seg is None or frame is None or frame.table is None or seg.layers.labels is None:
            return
        where = self.session.viewer.cursor.position
        text = self._region_at(where) or hovered(seg.layers.labels, where, frame.table, seg.plan.source.depth)
        if text:
            self.tell(text)
            self._table = frame.table

    def _region_at(self, where: Any) -> str:
        """What the table says of the region on the screen, which is measured when a run has come to rest."""
        seg, frame = self.session.segmentation, self.session.frame
        layer = None if seg is None else seg.layers.regions
        if layer is None or frame is None or not layer.visible or self.session.orders.sampling or not has_table(layer):
            return ""
        if not set(NEEDED) <= set(layer.features.columns):
            return ""  # somebody else's table
        row = row_at(layer, layer.features, where)
        return "" if row is None else describe_label(layer.features.iloc[row].to_dict(), frame.kind)
