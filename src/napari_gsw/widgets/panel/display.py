"""What is shown: which state, regions and their fineness, uncertainty, superpixels."""

from __future__ import annotations

from qtpy.QtCore import Qt
from qtpy.QtWidgets import (
    QButtonGroup,
    QCheckBox,
    QComboBox,
    QGridLayout,
    QHBoxLayout,
    QLabel,
    QPushButton,
    QSlider,
    QVBoxLayout,
    QWidget,
)

from napari_gsw.core.interactive.interactive_run import DisplayedState
from napari_gsw.widgets.common.collapsible import RowHeading
from napari_gsw.widgets.common.preferences import get_preference
from napari_gsw.widgets.session.array_run import Frame
from napari_gsw.widgets.session.session import Session

# The first row of what can be shown, and the second: how far a plausible segmentation may be from the consensus.
STATES: dict[DisplayedState, str] = {
    "current": "The state that the chain is in now",
    "best": "The state of highest log posterior so far",
    "consensus": "The segmentation that is nearest, on average, to all that were seen since the burn-in",
}
BALL: dict[DisplayedState, str] = {
    "coarsest": "The segmentation with the fewest clusters among the 95 % nearest to the consensus",
    "finest": "The segmentation with the most clusters among the 95 % nearest to the consensus",
    "farthest": "The segmentation that differs most from the consensus among the 95 % nearest to it",
}
UNCERTAINTY_TIPS = {
    "boundary": "How probable a boundary is, pixel by pixel; known after the burn-in",
    "entropy": "How unsure the model is of each site, in bits; known after the burn-in",
}
# What outlines may be drawn in; the first gives each the colour of its number.
INKS = {"own": "Own colours", "white": "White", "yellow": "Yellow", "cyan": "Cyan", "black": "Black"}
# Steps of the slider from one region to every site on its own.
STEPS = 100


class Display(QWidget):  # type: ignore[misc]
    """The rows of what is shown."""

    def __init__(self, session: Session) -> None:
        super().__init__()
        self.session = session
        self._frame: Frame | None = None
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(4)
        self.shows = QButtonGroup(self)
        column.addLayout(self._show_row("Show", STATES))
        column.addLayout(self._show_row("Range", BALL))
        self.shows.buttonClicked.connect(lambda button: self.session.set_show(button.property("show")))
        column.addLayout(self._detail_row())
        column.addLayout(self._layers_row())
        session.canvas.layer_gone.connect(self._layer_gone)
        session.layer_events.eyes_changed.connect(self._eyes_changed)
        self._boxes_toggled()
        self._ink_chosen()

    def _show_row(self, title: str, states: dict[DisplayedState, str]) -> QHBoxLayout:
        row = QHBoxLayout()
        row.setSpacing(4)
        row.addWidget(RowHeading(title))
        for name, tip in states.items():
            button = QPushButton(name.capitalize())
            button.setCheckable(True)
            button.setChecked(name == "current")
            button.setToolTip(f"{tip} (Ctrl+Alt+D)" if states is STATES else f"{tip}; known after the burn-in")
            button.setProperty("show", name)
            self.shows.addButton(button)
            row.addWidget(button, 1)
        return row

    def _detail_row(self) -> QHBoxLayout:
        tip = "Regions from coarse to fine, by how probable their boundaries are; known after the burn-in"
        self.detail = QSlider(Qt.Orientation.Horizontal)
        self.detail.setRange(0, STEPS)
        self.detail.setValue(STEPS // 2)
        self.detail.setToolTip(tip)
        self.detail.valueChanged.connect(self._detail_moved)
        self.auto_detail = QPushButton("Auto")
        self.auto_detail.setCheckable(True)
        self.auto_detail.setChecked(True)
        self.auto_detail.setToolTip("Regions as the settings of the result say")
        self.auto_detail.toggled.connect(self._auto_toggled)
        row = QHBoxLayout()
        row.setSpacing(4)
        heading = RowHeading("Detail")
        heading.setToolTip(tip)
        # As wide as it will ever be, so that the slider does not jump under the mouse.
        self.detail_count = QLabel()
        self.detail_count.setMinimumWidth(self.detail_count.fontMetrics().horizontalAdvance("00,000 regions"))
        self.detail_count.setToolTip("How many regions are outlined")
        row.addWidget(heading)
        row.addWidget(self.detail, 1)
        row.addWidget(self.detail_count)
        row.addWidget(self.auto_detail)
        return row

    def _layers_row(self) -> QGridLayout:
        self.layer_boxes = {
            "regions": _check("Regions", "Outlines of regions (connected parts of clusters) or of objects"),
            **{name: _check(name.capitalize(), tip) for name, tip in UNCERTAINTY_TIPS.items()},
        }
        self.show_sites = _check("Superpixels", "Outlines of the sites that are sampled")
        # Two by two: side by side they would not fit beside each other in a narrow dock. Outlines on the left; the
        # pictures of uncertainty have the room that is left, since more is said of them.
        grid = QGridLayout()
        grid.setVerticalSpacing(2)
        for name, box in self.layer_boxes.items():
            box.setChecked(name != "regions" and bool(get_preference(name)))
            box.toggled.connect(self._boxes_toggled)
        self.show_sites.toggled.connect(self._sites_toggled)
        for place, box in enumerate(
            (self.layer_boxes["regions"], self.show_sites, *list(self.layer_boxes.values())[1:])
        ):
            grid.addWidget(box, place % 2, place // 2)
        self.background = _check("Background", "Paint the background too, so that one can paint with its label")
        self.background.setChecked(True)
        self.background.toggled.connect(lambda on: self.session.canvas.change_view(background=on))
        grid.addWidget(self.background, 2, 0)
        grid.addLayout(self._ink_row(), 2, 1)
        grid.setColumnStretch(1, 1)
        grid.setHorizontalSpacing(12)
        return grid

    def _ink_row(self) -> QHBoxLayout:
        self.ink = QComboBox()
        for name, title in INKS.items():
            self.ink.addItem(title, name)
        self.ink.setCurrentIndex(max(0, self.ink.findData(get_preference("outlines"))))
        self.ink.setToolTip("The colour of the outlines of regions and superpixels")
        self.ink.currentIndexChanged.connect(self._ink_chosen)
        label = QLabel("Outlines")
        label.setBuddy(self.ink)
        row = QHBoxLayout()
        row.setSpacing(4)
        row.addWidget(label)
        row.addWidget(self.ink, 1)
        return row

    def follow(self, frame: Frame | None) -> None:
        """Follow a frame of the image that is chosen, or none."""
        self._frame = frame
        self.refresh()

    def refresh(self) -> None:
        """Follow the session."""
        session, frame = self.session, self._frame
        is_estimated = frame is not None and frame.is_estimated
        view = session.commands.view
        # Until the others are known the best state stands for them.
        show = view.show if is_estimated or view.show == "current" else "current" if frame is None else "best"
        for button in self.shows.buttons():
            button.setChecked(button.property("show") == show)
            button.setEnabled(is_estimated or button.property("show") in ("current", "best"))
        self._refresh_detail(frame, is_estimated)
        for name, box in self.layer_boxes.items():
            _set_quietly(box, name in session.commands.view.wanted)
        _set_quietly(self.background, session.commands.view.background)
        kind = "region" if frame is None else frame.kind
        self.layer_boxes["regions"].setText(f"{kind.capitalize()}s")
        self._say_settled(frame)

    def _refresh_detail(self, frame: Frame | None, is_estimated: bool) -> None:
        """Follow the fineness that is shown, and tell how many regions it has."""
        automatic = self.session.commands.view.detail is None
        self.detail.setEnabled(is_estimated)
        self.auto_detail.setEnabled(is_estimated)
        _set_quietly(self.auto_detail, automatic)
        if automatic:  # so that any place that it is moved to is another
            self.detail.blockSignals(True)
            self.detail.setValue(STEPS // 2)
            self.detail.blockSignals(False)
        count = 0 if frame is None else frame.n_regions
        self.detail_count.setText(f"{count:,} {frame.kind}{'' if count == 1 else 's'}" if count and frame else "")

    def _say_settled(self, frame: Frame | None) -> None:
        """Say beside the pictures of uncertainty when more sweeps, or more chains, may still change them."""
        for name, tip in UNCERTAINTY_TIPS.items():
            open_question = frame is not None and not frame.has_converged
            self.layer_boxes[name].setText(f"{name.capitalize()}{' (unsettled)' if open_question else ''}")
            why = f"\nNot settled: {frame.verdict}" if frame is not None and open_question and frame.verdict else ""
            self.layer_boxes[name].setToolTip(tip + why)

    def _boxes_toggled(self) -> None:
        self.session.canvas.change_view(wanted=frozenset(n for n, box in self.layer_boxes.items() if box.isChecked()))

    def _ink_chosen(self) -> None:
        self.session.canvas.change_view(ink=self.ink.currentData())

    def _detail_moved(self) -> None:
        """Who moves the slider wants to see what it does."""
        _set_quietly(self.auto_detail, False)
        wanted = self.session.commands.view.wanted | {"regions"}
        self.session.canvas.change_view(detail=self.detail.value() / STEPS, wanted=wanted)
        self.refresh()

    def _auto_toggled(self, on: bool) -> None:
        self.session.canvas.change_view(detail=None if on else self.detail.value() / STEPS)

    def _sites_toggled(self, on: bool) -> None:
        self.session.canvas.outlines_sites = on  # also of what is made later
        seg, position = self.session.segmentation, self.session.position
        if seg is None or position is None:
            return
        shown = seg.layers.pictures("sites")
        for layer in shown:
            layer.visible = on
        if on and not shown:
            for place, array_run in seg.array_runs.items():
                seg.layers.show_sites(place, array_run.sites)

    def _layer_gone(self, name: str) -> None:
        self._eyes_changed(name, False)

    def _eyes_changed(self, name: str, shown: bool) -> None:
        if name == "sites":
            self.session.canvas.outlines_sites = shown
        _set_quietly(self.show_sites if name == "sites" else self.layer_boxes[name], shown)


def _check(text: str, tip: str) -> QCheckBox:
    box = QCheckBox(text)
    box.setToolTip(tip)
    return box


def _set_quietly(button: QCheckBox | QPushButton, on: bool) -> None:
    button.blockSignals(True)
    button.setChecked(on)
    button.blockSignals(False)
