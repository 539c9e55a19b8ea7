"""*What's this?* for every control: what its tooltip says, or that of what it is a part of."""

from __future__ import annotations

from qtpy.QtWidgets import QAbstractButton, QAbstractItemView, QAbstractSlider, QAbstractSpinBox, QComboBox, QWidget

CONTROLS = (QAbstractButton, QComboBox, QAbstractSpinBox, QAbstractSlider, QAbstractItemView)


def controls_in(root: QWidget) -> list[QWidget]:
    """Everything in a widget that a person can operate, without the parts that Qt makes these of."""
    operated = (widget for widget in root.findChildren(QWidget) if isinstance(widget, CONTROLS))
    return [w for w in operated if not w.objectName().startswith("qt_") and not _is_inside_control(w, root)]


def explain(root: QWidget) -> None:
    """Give every control in a widget its *What's this?*, where it has none of its own."""
    for widget in controls_in(root):
        if not widget.whatsThis():
            widget.setWhatsThis(_explanation(widget, root))


def _explanation(widget: QWidget, root: QWidget) -> str:
    """The nearest tooltip, from the control outwards."""
    while widget is not None and widget is not root:
        if widget.toolTip():
            return str(widget.toolTip())
        widget = widget.parentWidget()
    return ""


def _is_inside_control(widget: QWidget, root: QWidget) -> bool:
    """Whether it is a part of another control, as the list of a combo box is, or a scroll bar."""
    parent = widget.parentWidget()
    while parent is not None and parent is not root:
        if isinstance(parent, CONTROLS) or parent.objectName().startswith("qt_scrollarea_"):
            return True
        parent = parent.parentWidget()
    return False
