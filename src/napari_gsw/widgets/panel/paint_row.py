"""What a stroke of the brush means, in sight before a person paints: kept or a hint, and which labels there are."""

from __future__ import annotations

from qtpy.QtCore import Signal
from qtpy.QtWidgets import QButtonGroup, QHBoxLayout, QLabel, QPushButton, QWidget

from napari_gsw.widgets.kit.row_heading import RowHeading
from napari_gsw.widgets.kit.setting_control import Control
from napari_gsw.widgets.kit.tab_order import put_in_tab_order

KEEP = (
    "What you paint stays as you painted it, is outlined, and teaches the chain what else belongs to it; the eraser "
    "frees it"
)
HINT = "What you paint is where the chain goes on from; it may change it again"


class PaintRow(QWidget):  # type: ignore[misc]
    """Keep or hint, and whether the painted labels are all that there are.

    Signals
    -------
    keep_changed : whether strokes are kept from now on.

    Parameters
    ----------
    keep : whether strokes are kept. only_painted : the control of that setting.
    """

    keep_changed = Signal(bool)

    def __init__(self, keep: bool, only_painted: Control) -> None:
        super().__init__()
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(4)
        self.keep, self.hint = QPushButton("Keep"), QPushButton("Hint")
        self._group = QButtonGroup(self)
        row.addWidget(RowHeading("Strokes"))
        for button, tip in ((self.keep, KEEP), (self.hint, HINT)):
            button.setCheckable(True)
            button.setToolTip(tip)
            self._group.addButton(button)
            row.addWidget(button, 1)
        (self.keep if keep else self.hint).setChecked(True)
        self.keep.toggled.connect(self.keep_changed)
        words = QLabel("Only mine")  # as short as the narrowest panel
        words.setToolTip(only_painted.toolTip())
        row.addSpacing(6)
        row.addWidget(words)
        row.addWidget(only_painted, 1)
        put_in_tab_order(self.keep, self.hint, only_painted.box)

    def set_keep(self, keep: bool) -> None:
        """Press one of the two, as the user would."""
        (self.keep if keep else self.hint).setChecked(True)
