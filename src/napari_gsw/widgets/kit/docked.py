"""A widget that ends its work when its dock is closed."""

from __future__ import annotations

from qtpy.QtCore import QEvent
from qtpy.QtGui import QCloseEvent
from qtpy.QtWidgets import QWidget

from napari_gsw.widgets.kit.link import Link


class Docked(QWidget):  # type: ignore[misc]
    """Cuts its link however the dock goes away.

    Attributes
    ----------
    link : what ties the widget to the viewer, and what has to end with it.
    """

    def __init__(self) -> None:
        super().__init__()
        self.link = Link()
        self.destroyed.connect(self.link.cut)

    def event(self, event: QEvent) -> bool:
        """Closing the dock takes the panel out of it without closing the panel."""
        if event.type() == QEvent.Type.ParentChange and self.parent() is None:
            self.shut_down()
        return bool(super().event(event))

    def closeEvent(self, event: QCloseEvent) -> None:
        self.shut_down()
        super().closeEvent(event)

    def shut_down(self) -> None:
        """End what is going on and let go of the viewer; more than once does no harm."""
        self.link.cut()
