"""Choice of what the layers show: sample or consensus, detail of regions, uncertainty, superpixels, outlines."""

from __future__ import annotations

from qtpy.QtCore import QSignalBlocker, Qt
from qtpy.QtWidgets import QButtonGroup, QComboBox, QGridLayout, QHBoxLayout, QLabel, QPushButton, QSlider, QWidget

from napari_gsw.core.interactive.interactive_run import DisplayedState
from napari_gsw.widgets.common.layouts import RowHeading, make_column, make_grid, make_row
from napari_gsw.widgets.common.setting_widgets import get_preference
from napari_gsw.widgets.common.text import format_count, make_check_box, make_choice
from napari_gsw.widgets.session.array_run import Frame
from napari_gsw.widgets.session.session import Session

# The rows of what can be shown: states of the chain, and the bounds of the credible ball.
STATES: dict[DisplayedState, str] = {
    "current": "The current sample of the chain (Ctrl+Alt+D)",
    "best": "The sample with the highest log posterior so far (Ctrl+Alt+D)",
    "consensus": "The segmentation nearest, on average, to all samples since the burn-in (Ctrl+Alt+D)",
}
BALL: dict[DisplayedState, str] = {
    "coarsest": "The segmentation with the fewest clusters among the 95 % nearest to the consensus; after burn-in",
    "finest": "The segmentation with the most clusters among the 95 % nearest to the consensus; after burn-in",
    "farthest": "The segmentation that differs most from the consensus among the 95 % nearest to it; after burn-in",
}
REGIONS_TIP = "Outlines of regions (connected parts of clusters) or of objects"
SITES_TIP = "Outlines of the superpixels that are sampled"
BACKGROUND_TIP = "Show the background too, so that its label can be painted"
UNCERTAINTY_TIPS = {
    "boundary": "Boundary probability of each pixel; after burn-in",
    "entropy": "Neighbour entropy (0 to 1 bit); after burn-in",
}
# What outlines may be drawn in; the first gives each region the colour of its label.
OUTLINE_COLOURS = {"own": "Own colours", "white": "White", "yellow": "Yellow", "cyan": "Cyan", "black": "Black"}
# Steps of the slider from one region to a region for every superpixel.
STEPS = 100
DETAIL_TIP = "Detail of the regions, from coarse to fine (merge threshold of their boundaries); after burn-in"


class Display(QWidget):  # type: ignore[misc]
    """The controls of what the layers show."""

    def __init__(self, session: Session) -> None:
        super().__init__()
        self.session, self._change_view = session, session.layer_view.change_view
        self._frame: Frame | None = None
        self.state_buttons = QButtonGroup(self)
        rows = [self._make_show_row("Show", STATES), self._make_show_row("Range", BALL)]
        make_column(*rows, self._make_detail_row(), self._make_layer_grid(), parent=self)
        self.state_buttons.buttonClicked.connect(lambda button: session.set_show(button.property("show")))
        session.visibility_changed.connect(self._visibility_changed)
        self._want_layers()
        self._colour_outlines()

    def _make_show_row(self, title: str, states: dict[DisplayedState, str]) -> QHBoxLayout:
        buttons = []
        for name, tip in states.items():
            button = make_choice(name.capitalize(), tip, self.state_buttons)
            button.setChecked(name == "current")
            button.setProperty("show", name)
            buttons.append((button, 1))
        return make_row(RowHeading(title), *buttons)

    def _make_detail_row(self) -> QHBoxLayout:
        self.detail = QSlider(Qt.Orientation.Horizontal, toolTip=DETAIL_TIP, maximum=STEPS, value=STEPS // 2)
        self.detail.valueChanged.connect(self._detail_moved)
        auto_tip = "Regions as the settings of the result say"
        self.auto_detail = QPushButton("Auto", toolTip=auto_tip, checkable=True, checked=True)
        self.auto_detail.toggled.connect(
            lambda auto: self._change_view(detail=None if auto else self.detail.value() / STEPS)
        )
        self.detail_count = QLabel(toolTip="Number of outlined regions")
        # As wide as it will ever be, so that the slider does not jump under the mouse.
        self.detail_count.setMinimumWidth(self.detail_count.fontMetrics().horizontalAdvance("00,000 regions"))
        heading = RowHeading("Detail", toolTip=DETAIL_TIP)
        return make_row(heading, (self.detail, 1), self.detail_count, self.auto_detail)

    def _make_layer_grid(self) -> QGridLayout:
        """Lay the check boxes out two by two: side by side they would not fit into a narrow dock.

        Outlines are on the left; the uncertainty has the room that is left, since its boxes have more text.
        """
        self.layer_boxes = {"regions": make_check_box("Regions", REGIONS_TIP, self._want_layers)}
        for name, tip in UNCERTAINTY_TIPS.items():
            is_wanted = bool(get_preference(name))
            self.layer_boxes[name] = make_check_box(name.capitalize(), tip, self._want_layers, is_wanted)
        self.show_sites = make_check_box("Superpixels", SITES_TIP, self._show_sites)
        self.background = make_check_box(
            "Background", BACKGROUND_TIP, lambda on: self._change_view(background=on), True
        )
        self.outline_colour = QComboBox(toolTip="The colour of the outlines of regions and superpixels")
        for name, title in OUTLINE_COLOURS.items():
            self.outline_colour.addItem(title, name)
        self.outline_colour.setCurrentIndex(max(0, self.outline_colour.findData(get_preference("outlines"))))
        self.outline_colour.currentIndexChanged.connect(self._colour_outlines)
        label = QLabel("Outlines")
        label.setBuddy(self.outline_colour)
        regions, boundary, entropy = self.layer_boxes.values()
        grid = make_grid((regions,), (self.show_sites,), spacing=(12, 2))
        for row, box in enumerate((boundary, entropy)):
            grid.addWidget(box, row, 1)
        grid.addWidget(self.background, 2, 0)
        grid.setColumnStretch(1, 1)
        grid.addLayout(make_row(label, (self.outline_colour, 1)), 2, 1)
        return grid

    def follow(self, frame: Frame | None) -> None:
        self._frame = frame
        view = self.session.view
        is_estimated = frame is not None and frame.is_estimated
        # Until the others are known the best sample stands for them.
        show = view.show if is_estimated or view.show == "current" else "current" if frame is None else "best"
        for button in self.state_buttons.buttons():
            button.setChecked(button.property("show") == show)
            button.setEnabled(is_estimated or button.property("show") in ("current", "best"))
        for name, box in self.layer_boxes.items():
            _check_quietly(box, name in view.wanted)
        _check_quietly(self.background, view.background)
        _check_quietly(self.auto_detail, view.detail is None)
        self.detail.setEnabled(is_estimated)
        self.auto_detail.setEnabled(is_estimated)
        if view.detail is None:  # so that any value that the slider is moved to is another one
            with QSignalBlocker(self.detail):
                self.detail.setValue(STEPS // 2)
        kind, count = ("region", 0) if frame is None else (frame.kind, frame.n_regions)
        self.layer_boxes["regions"].setText(f"{kind.capitalize()}s")
        self.detail_count.setText(format_count(count, kind) if count else "")
        # The uncertainty is marked where more sweeps, or more chains, may still change it.
        is_open = frame is not None and not frame.has_converged
        reason = f"\nNot settled: {frame.verdict}" if frame is not None and is_open and frame.verdict else ""
        for name, tip in UNCERTAINTY_TIPS.items():
            self.layer_boxes[name].setText(f"{name.capitalize()}{' (unsettled)' if is_open else ''}")
            self.layer_boxes[name].setToolTip(tip + reason)

    def _visibility_changed(self, name: str, shown: bool) -> None:
        if name == "superpixels":
            self.session.layer_view.outlines_sites = shown
        _check_quietly(self.show_sites if name == "superpixels" else self.layer_boxes[name], shown)

    def _want_layers(self) -> None:
        self._change_view(wanted=frozenset(name for name, box in self.layer_boxes.items() if box.isChecked()))

    def _colour_outlines(self) -> None:
        self._change_view(ink=self.outline_colour.currentData())

    def _detail_moved(self) -> None:
        """Show the regions too, since whoever moves the slider wants to see what it does."""
        _check_quietly(self.auto_detail, False)
        self._change_view(detail=self.detail.value() / STEPS, wanted=self.session.view.wanted | {"regions"})
        self.follow(self._frame)

    def _show_sites(self, on: bool) -> None:
        self.session.layer_view.outlines_sites = on  # also of what is made later
        seg = self.session.segmentation
        if seg is None or self.session.position is None:
            return
        layers = seg.layers.of_kind("superpixels")
        for layer in layers:
            layer.visible = on
        if on and not layers:
            for run_position, array_run in seg.array_runs.items():
                seg.layers.show_sites(run_position, array_run.sites)


def _check_quietly(button: QWidget, on: bool) -> None:
    with QSignalBlocker(button):
        button.setChecked(on)
