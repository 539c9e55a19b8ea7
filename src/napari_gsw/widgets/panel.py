"""The GSW segmentation widget: choose an image, press Run, watch it form."""

from __future__ import annotations

from typing import Any

import napari
import numpy as np
from magicgui.widgets import create_widget
from napari.layers import Image, Labels
from napari.utils.notifications import show_error
from qtpy.QtCore import QEvent, QTimer
from qtpy.QtGui import QCloseEvent
from qtpy.QtWidgets import (
    QButtonGroup,
    QFormLayout,
    QHBoxLayout,
    QLabel,
    QProgressBar,
    QPushButton,
    QSpinBox,
    QVBoxLayout,
    QWidget,
)

from napari_gsw.core.errors import InputError
from napari_gsw.core.priors import from_settings
from napari_gsw.core.settings import DEFAULT_PRESET, PRESETS, knobs, preset
from napari_gsw.widgets.trace import TracePlot
from napari_gsw.widgets.worker import Frame, Run

# How often the newest frame is taken from the worker, in milliseconds.
TICK = 50
# Which buttons can be pressed in which state: run, pause, stop. The form can be changed while no chain runs.
ENABLED = {
    "no image": (False, False, False),
    "ready": (True, False, False),
    "running": (False, True, True),
    "paused": (False, True, True),
    "done": (True, False, False),
}
# What a person reads while a stage of the preparation goes on.
STAGES = {
    "preparing": "Preparing",
    "superpixels": "Making superpixels",
    "features": "Counting words",
    "graph": "Building the graph",
    "compiling": "Compiling (first time only)",
}


class SegmentationPanel(QWidget):  # type: ignore[misc]
    """Runs the chain on an image layer and shows it live in a Labels layer."""

    def __init__(self, napari_viewer: napari.Viewer) -> None:
        super().__init__()
        self.viewer = viewer = napari_viewer
        self.run: Run | None = None
        self.state = ""
        self._image: Image | None = None
        self._labels: Labels | None = None
        self._last: Frame | None = None
        self._build()
        self._timer = QTimer(self)
        self._timer.setInterval(TICK)
        self._timer.timeout.connect(self._tick)
        self._connections = [
            (viewer.layers.events.inserted, self._layers_changed),
            (viewer.layers.events.removed, self._layers_changed),
            (viewer.events.theme, self._theme_changed),
        ]
        for signal, slot in self._connections:
            signal.connect(slot)
        self._theme_changed()
        self._layers_changed()

    # ---- the form

    def _build(self) -> None:
        self.image = create_widget(annotation=Image, label="Image")
        self.image.changed.connect(self._image_chosen)
        self.presets = QButtonGroup(self)
        row = QHBoxLayout()
        row.setSpacing(4)
        for name in PRESETS:
            button = QPushButton(name.capitalize())
            button.setCheckable(True)
            button.setChecked(name == DEFAULT_PRESET)
            button.setToolTip(", ".join(f"{k} {v}" for k, v in PRESETS[name].items()))
            button.setProperty("preset", name)
            self.presets.addButton(button)
            row.addWidget(button)
        self.presets.buttonClicked.connect(self._preset_chosen)
        self.sweeps = self._spin("sweeps", 1, 10_000_000)
        self.seed = QSpinBox()
        self.seed.setRange(0, 2**31 - 1)
        self.seed.setToolTip("The same image, settings and seed give the same labels.")
        form = QFormLayout()
        form.setContentsMargins(0, 0, 0, 0)
        form.addRow("Image", self.image.native)
        form.addRow("Preset", row)
        numbers = QHBoxLayout()
        numbers.addWidget(self.sweeps, 2)
        numbers.addWidget(QLabel("Seed"))
        numbers.addWidget(self.seed, 1)
        form.addRow("Sweeps", numbers)

        self.run_button = QPushButton("Run")
        self.pause_button = QPushButton("Pause")
        self.stop_button = QPushButton("Stop")
        self.run_button.setToolTip("Segment the image")
        self.pause_button.setToolTip("Hold the chain where it is, or let it go on")
        self.stop_button.setToolTip("End the chain and keep what is shown")
        self.run_button.clicked.connect(self.start)
        self.pause_button.clicked.connect(self.toggle_pause)
        self.stop_button.clicked.connect(self.stop)
        buttons = QHBoxLayout()
        for button in (self.run_button, self.pause_button, self.stop_button):
            buttons.addWidget(button)
        self.bar = QProgressBar()
        self.bar.setFormat("%v / %m sweeps")
        self.status = QLabel()
        self.status.setWordWrap(True)
        self.trace = TracePlot()
        column = QVBoxLayout(self)
        column.addLayout(form)
        column.addLayout(buttons)
        column.addWidget(self.bar)
        column.addWidget(self.status)
        column.addWidget(self.trace, 1)

    def _spin(self, name: str, low: int, high: int) -> QSpinBox:
        box = QSpinBox()
        box.setRange(low, high)
        box.setGroupSeparatorShown(True)
        box.setValue(getattr(preset(DEFAULT_PRESET), name))
        box.setToolTip(knobs()[name].help)
        return box

    # ---- what the user does

    def start(self) -> None:
        """Begin a run on the chosen image."""
        layer = self.image.value
        try:
            image, axes = layer_image(layer)
            settings = preset(self.preset_name, sweeps=self.sweeps.value(), axes=axes)
        except InputError as reason:
            self.status.setText(str(reason))
            return
        self._image, self._labels, self._last = layer, None, None
        self.run = Run(image, settings, self.seed.value())
        self.run.worker.errored.connect(self._failed)
        self.run.worker.finished.connect(self._finished)
        self.bar.setRange(0, settings.sweeps)
        self.bar.setValue(0)
        self._enter("running")
        self._timer.start()
        self.run.worker.start()

    def toggle_pause(self) -> None:
        """Hold the chain, or let it go on."""
        if self.run is not None:
            self.run.worker.toggle_pause()
            self._enter("running" if self.state == "paused" else "paused")

    def stop(self) -> None:
        """End the run and keep what is shown."""
        if self.run is not None:
            self.run.worker.quit()

    @property
    def preset_name(self) -> str:
        return str(self.presets.checkedButton().property("preset"))

    # ---- what the run does

    def _tick(self) -> None:
        """Show the newest frame, if there is a new one."""
        frame = self.run.newest if self.run is not None else None
        if frame is None or frame is self._last:
            return
        self._last = frame
        if frame.snapshot is None or frame.labels is None:
            self.status.setText(f"{STAGES[frame.stage]} ...")
            return
        self._show_labels(frame.labels)
        snapshot, run = frame.snapshot, self.run
        assert run is not None
        self.bar.setValue(snapshot.sweep)
        shown = snapshot.best if frame.stage == "done" else snapshot
        self.status.setText(
            f"{shown.n_clusters} clusters of {len(snapshot.labels):,} sites, best "
            f"{snapshot.best.log_posterior:,.1f}, {frame.rate:,.0f} sweeps/s"
        )
        if self.trace.isVisible():
            self.trace.show_trace(run.trace[: snapshot.sweep])

    def _show_labels(self, labels: np.ndarray[Any, np.dtype[np.uint16]]) -> None:
        layer = self._image
        if layer is None:
            return
        if self._labels is None:
            name = f"{layer.name} [GSW]"
            space = slice(-labels.ndim, None)
            for found in self.viewer.layers:
                same = found.name == name and isinstance(found, Labels) and found.data.shape == labels.shape
                if same and found.data.dtype == labels.dtype:
                    self._labels = found
                    break
            else:
                self._labels = self.viewer.add_labels(
                    labels.copy(), name=name, opacity=0.5, scale=layer.scale[space], translate=layer.translate[space],
                    units=layer.units[space], axis_labels=layer.axis_labels[space],
                )  # fmt: skip
                return
        # In place: the layer keeps its look, and 16 bits go to the screen as they are.
        self._labels.data[...] = labels
        self._labels.refresh()

    def _finished(self) -> None:
        self._tick()
        self._timer.stop()
        self.run = None
        if self._image is None:
            self._image_chosen()
        else:
            self._enter("done")

    def _failed(self, reason: Exception) -> None:
        self.status.setText(str(reason))
        show_error(f"GSW segmentation: {reason}")

    # ---- what the viewer does

    def _layers_changed(self, event: Any = None) -> None:
        self.image.reset_choices()
        gone = [x for x in (self._image, self._labels) if x is not None and x not in self.viewer.layers]
        if gone:
            if self.run is not None:
                self.run.worker.quit()
            self._image = self._labels = None
        elif self.run is None:
            self._image_chosen()

    def _image_chosen(self, layer: Image | None = None) -> None:
        if self.run is None:
            self._enter("ready" if self.image.value is not None else "no image")
            self._describe()

    def _preset_chosen(self) -> None:
        self.sweeps.setValue(preset(self.preset_name).sweeps)
        self._describe()

    def _describe(self) -> None:
        """Say what a run would do, or why there can be none."""
        if self.image.value is None:
            self.status.setText("Open an image to segment.")
            return
        try:
            image, axes = layer_image(self.image.value)
        except InputError as reason:
            self._enter("no image")
            self.status.setText(str(reason))
            return
        settings = preset(self.preset_name)
        pixels = int(np.prod([s for s, a in zip(image.shape, axes, strict=True) if a in "ZYX"]))
        sites = max(1, pixels // settings.site_size)
        expected = from_settings(settings).expected_clusters(sites)
        self.status.setText(f"About {sites:,} sites; the prior expects {expected:.0f} clusters.")

    def _theme_changed(self, event: Any = None) -> None:
        self.trace.follow_theme(self.viewer.theme)

    def _enter(self, state: str) -> None:
        self.state = state
        run, pause, stop = ENABLED[state]
        self.run_button.setEnabled(run)
        self.pause_button.setEnabled(pause)
        self.stop_button.setEnabled(stop)
        self.pause_button.setText("Resume" if state == "paused" else "Pause")
        idle = state in ("ready", "done", "no image")
        for widget in (self.image.native, self.sweeps, self.seed, *self.presets.buttons()):
            widget.setEnabled(idle)

    # ---- the end

    def event(self, event: QEvent) -> bool:
        """Closing the dock takes the panel out of it without closing the panel."""
        if event.type() == QEvent.Type.ParentChange and self.parent() is None:
            self.shut_down()
        return bool(super().event(event))

    def closeEvent(self, event: QCloseEvent) -> None:
        self.shut_down()
        super().closeEvent(event)

    def shut_down(self) -> None:
        """End the run and let go of the viewer; more than once does no harm."""
        self._timer.stop()
        if self.run is not None:
            self.run.worker.quit()
        for signal, slot in self._connections:
            signal.disconnect(slot)
        self._connections.clear()


def layer_image(layer: Image) -> tuple[np.ndarray[Any, np.dtype[Any]], str]:
    """The pixels of an image layer and the order of their axes."""
    if layer.multiscale:
        raise InputError(f"{layer.name!r} is a pyramid; extract one of its levels to segment it")
    image = np.asarray(layer.data)
    space = image.ndim - int(layer.rgb)
    if image.size == 0:
        raise InputError(f"{layer.name!r} has no pixel")
    if space not in (2, 3):
        raise InputError(f"{layer.name!r} has {space} dimensions; two or three can be segmented")
    return image, "ZYX"[3 - space :] + ("S" if layer.rgb else "")
