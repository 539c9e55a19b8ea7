"""The word before a row of buttons."""

from __future__ import annotations

from qtpy.QtCore import QSize
from qtpy.QtWidgets import QLabel

# All that stand one below the other in the panel: each is as wide as the widest, so that the rows begin at one line.
WORDS = ("Image", "Where", "Preset *", "Strokes", "Regions", "Objects", "Show", "Range", "Detail")
# The theme makes its font a little larger than what is measured.
MARGIN = 10


class RowHeading(QLabel):  # type: ignore[misc]
    """As wide as any of `WORDS`, in whatever font a theme has, and whatever it says."""

    def sizeHint(self) -> QSize:
        widest = max(self.fontMetrics().horizontalAdvance(word) for word in WORDS)
        return QSize(widest + MARGIN, super().sizeHint().height())

    def minimumSizeHint(self) -> QSize:
        return self.sizeHint()
