"""The dock "GSW segmentation": settings, run, scribbles, display, trace, results and sessions."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import napari
import numpy as np
from napari.layers import Image, Labels, Layer
from qtpy.QtCore import QSize
from qtpy.QtWidgets import QFrame, QSpinBox, QWidget

from napari_gsw.core.errors import InputError
from napari_gsw.core.jit import cache_folder
from napari_gsw.core.settings import Settings
from napari_gsw.core.settings.presets import PRESETS
from napari_gsw.files.session_file import is_session
from napari_gsw.sample_data import PRESET_KEY, SCRIBBLES_KEY
from napari_gsw.widgets.common.dock_panel import DockPanel, make_timer
from napari_gsw.widgets.common.layouts import make_column, make_scroll_area
from napari_gsw.widgets.common.setting_widgets import get_preference
from napari_gsw.widgets.common.text import (
    WARNING,
    ElidedLabel,
    add_whats_this,
    format_sentence,
    muted_colour,
    readable_colour,
)
from napari_gsw.widgets.layers.image_source import ImageSource
from napari_gsw.widgets.layers.layer_metadata import SUPERPIXELS_OF, is_image
from napari_gsw.widgets.panel import rows
from napari_gsw.widgets.panel.display import STATES, Display
from napari_gsw.widgets.panel.export_section import ExportSection, FolderSection
from napari_gsw.widgets.panel.form import SettingsForm
from napari_gsw.widgets.panel.image_chooser import ImageChooser
from napari_gsw.widgets.panel.session_section import SessionOpener, SessionSection
from napari_gsw.widgets.panel.trace import TracePlot, TraceSection
from napari_gsw.widgets.session.run_plan import RunPlan, adapt_settings
from napari_gsw.widgets.session.session import KernelWarmUp, Session

# Keys that napari leaves free, and the methods that they call; docs and tooltips name them.
KEYS = {
    "Control-Alt-R": "run_or_pause",
    "Control-Alt-N": "step",
    "Control-Alt-X": "stop",
    "Control-Alt-D": "next_display",
    "Control-Alt-L": "lock_painted",
}
SEED_TIP = "Random seed: the same image, settings and seed give the same labels; another seed restarts the run"
# The panels that are open, newest last, for the commands of the palette.
OPEN: list[weakref.ref[SegmentationPanel]] = []


class SegmentationPanel(DockPanel):
    """Segments an image layer and shows the run live in a Labels layer."""

    def __init__(self, napari_viewer: napari.Viewer) -> None:
        super().__init__(napari_viewer)
        viewer = self.viewer
        self.session = Session(viewer, self.connections, self)
        self.form = SettingsForm(self)
        # What the user should know, why there can be no run, and what one would begin with.
        self._notice, self._plan_error, self._outlook = cache_folder().notice, "", ""
        self._source: ImageSource | None = None
        self._image: Image | None = None
        self._build()
        self._connect()
        self.presets.choose(str(get_preference("preset")))
        self._theme_changed()
        self._layers_changed()
        self._choose_preset_of(self.chooser.image.value())
        self.opening.offer_autosave()
        self.warming = KernelWarmUp(self.connections, self)
        self.warming.changed.connect(self._refresh)

    def _build(self) -> None:
        session, form = self.session, self.form
        self.opening = self.restore_row = SessionOpener(self.viewer, session, self._fill)
        self.chooser = ImageChooser(self.viewer, self.connections, self._current_source)
        self.presets = rows.PresetRow(form, session.steps)
        self.run_row = rows.RunRow(self)
        self.run_button, self.pause_button, self.step_button, self.stop_button, self.reset_button = (
            self.run_row.buttons.values()
        )
        self.progress = rows.ProgressRow(session)
        self.reason = ElidedLabel("reason", 2)
        self.paint_row = rows.PaintRow(session.corrections.lock_strokes, form.controls["only_painted"])
        self.query_row = rows.QueryRow(session)
        self.edit_row = rows.EditRow(session)
        self.display = Display(session)
        self.region = rows.RegionLabel(session)
        self.trace_section = TraceSection(session)
        self.agreement = rows.ConvergenceRow(self.run_several)
        self.seed = QSpinBox(maximum=2**31 - 1, value=int(get_preference("seed")), toolTip=SEED_TIP)
        form.layouts["sampler"].addRow("Seed", self.seed)
        self.seeds = rows.ScribblesSection(session, form.controls)
        self.sites, self.inputs = form.inputs["sites"], form.inputs | {"seeds": self.seeds.seeds}
        self.export = ExportSection(session, self.trace_section.picture)
        self.saving = SessionSection(session)
        self.apply = FolderSection(session, self._checked_plan, lambda: form.preset)
        self.sections = [*form.sections.values(), self.seeds, self.export, self.apply, self.saving]
        self.inner = QWidget()
        self.inner.setMinimumWidth(280)
        line = QFrame(frameShape=QFrame.Shape.HLine)
        column = make_column(
            self.restore_row, self.chooser, self.presets, self.run_row, self.progress, self.reason, self.paint_row,
            self.query_row, self.edit_row, self.display, self.region, self.trace_section, self.agreement, line,
            *self.sections, parent=self.inner, spacing=6,
        )  # fmt: skip
        column.setContentsMargins(6, 4, 6, 6)
        column.addStretch()
        self.scroll = make_scroll_area(self.inner)
        make_column(self.scroll, parent=self)
        add_whats_this(self.inner)

    def _connect(self) -> None:
        session, viewer, connections = self.session, self.viewer, self.connections
        plan_signals = (self.chooser.changed, self.form.forecast.answered, self.seed.valueChanged)
        for signal in (*plan_signals, self.seeds.seeds.chosen, self.sites.chosen):
            signal.connect(self._plan_changed)
        self.form.changed.connect(self._settings_changed)
        self.seeds.canvas_wanted.connect(lambda: self._begin("form", session.paint_first))
        self.paint_row.keep.toggled.connect(session.corrections.keep_strokes)
        self.trace_section.hovered.connect(self.region.show_text)
        self.export.measuring.measured.connect(self.region.refresh)
        self.saving.chosen.connect(self.opening.open)
        session.autosaver.describe_window = lambda: {"preset": self.form.preset}
        session.state_changed.connect(self._state_changed)
        session.framed.connect(self._refresh)
        for signal in (session.noticed, self.opening.noticed):
            signal.connect(self._show_notice)
        connections.connect_layers(viewer.layers.events, self._layers_changed, viewer.layers.events.reordered)
        connections.connect(viewer.layers.events, self._on_event)
        connections.connect(viewer.events.theme, self._theme_changed)
        connections.connect(viewer.cursor.events.position, self.region.show_region)
        # Runs until the window has come to rest after an image was opened.
        self._image_opened = connections.stop_on_close(make_timer(self, lambda: None))
        for key, name in KEYS.items():
            viewer.bind_key(key, lambda _, name=name: getattr(self, name)(), overwrite=True)
            connections.on_close(partial(viewer.bind_key, key, None))
        connections.on_close(partial(session.steps.forget, self.presets))
        this = weakref.ref(self)
        OPEN.append(this)
        connections.on_close(lambda: OPEN.remove(this) if this in OPEN else None)

    @property
    def trace(self) -> TracePlot:
        return self.trace_section.plot

    def sizeHint(self) -> QSize:
        return QSize(360, 720)

    def minimumSizeHint(self) -> QSize:
        return QSize(300, 200)

    # ---- what the user does

    def _begin(self, action: str, begin: Callable[[RunPlan], Any]) -> None:
        if self.session.can(action) and (plan := self._plan()) is not None:
            self._notice = ""
            begin(plan)

    def run(self) -> None:
        self._begin("run", self.session.start)

    def step(self) -> None:
        self._begin("step", self.session.step)

    def run_several(self) -> None:
        """Restart with several chains; the present run ends first."""
        self.form.controls["chains"].set_value(rows.SEVERAL)
        if (plan := self._plan()) is not None:
            self._notice = ""
            self.session.stop()
            self.session.start(plan)

    def pause(self) -> None:
        if self.session.can("pause"):
            self.session.toggle_pause()

    def run_or_pause(self) -> None:
        """Run, pause or resume: one key has all three."""
        self.pause() if self.session.can("pause") else self.run()

    def stop(self) -> None:
        if self.session.can("stop"):
            self.session.stop()

    def reset(self) -> None:
        if self.session.can("reset"):
            self._notice = ""
            self.session.reset()

    def next_display(self) -> None:
        """Show the current sample, the best one, the consensus if it is known, and the current one again."""
        is_estimated = self.session.frame is not None and self.session.frame.is_estimated
        names = [name for name in STATES if is_estimated or name != "consensus"]
        show = self.session.view.show
        index = names.index(show) if show in names else -1
        self.session.set_show(names[(index + 1) % len(names)])
        self._state_changed()

    def lock_painted(self) -> None:
        self.session.corrections.lock_painted()

    # ---- the plan of a run

    def _current_source(self) -> ImageSource | None:
        seg = self.session.segmentation
        return seg.plan.source if seg is not None and seg.array_runs else None

    def _plan(self) -> RunPlan | None:
        """Make the plan of a run; None where that is impossible, with the reason on the screen."""
        try:
            return self._checked_plan()
        except InputError as reason:
            self._plan_error = str(reason)
            return None

    def _checked_plan(self) -> RunPlan:
        source = self.chooser.source()
        self._check_layers(source)
        return self._make_plan(source)

    def _make_plan(self, source: ImageSource) -> RunPlan:
        settings, sites, seeds = self._settings(source), self.sites.value(), self.seeds.seeds.value()
        data = None if sites is None else np.array(sites.data)
        lock, maps = self.session.corrections.lock_strokes, self.form.maps()
        return RunPlan(source, settings, self.seed.value(), sites, data, seeds, lock, maps, source.mask_data())

    def _check_layers(self, source: ImageSource) -> None:
        """Raise an InputError if superpixels, seeds or maps do not fit the image."""
        if (sites := self.sites.value()) is not None:
            source.check_sites(sites)
        if (seeds := self.seeds.seeds.value()) is not None:
            source.check_labels(seeds)
        self.form.check_maps(source, self._settings(source))

    def _settings(self, source: ImageSource) -> Settings:
        return adapt_settings(source, self.form.settings(axes=source.axes))

    def _fill(
        self, source: ImageSource, values: dict[str, Any], seed: int, lock: bool, layers: Mapping[str, Any]
    ) -> RunPlan:
        """Show the choices of a session, whose image was checked; return the plan that they make."""
        self.chooser.choose(source)
        self.presets.put(values)
        self.seed.setValue(seed)
        self.paint_row.set_keep(lock)
        for name, combo in self.inputs.items():
            combo.choose(layers[name])
        return self._make_plan(source)

    def _plan_changed(self) -> None:
        """Show what a run would do, or why there can be none."""
        self._plan_error = ""
        if self._image is not (image := self.chooser.image.value()):  # the notice was about another one
            self._image, self._notice = image, ""
        self._source = source = None
        try:
            self._source = source = self.chooser.source()
            self.form.set_flat(source.depth == 2 and not source.is_image_list and not source.is_chunked)
            self._check_layers(source)
        except InputError as reason:
            self._plan_error = str(reason)
        self.session.set_ready(not self._plan_error)
        seg, array_run, sites, n_sites = self.session.segmentation, self.session.array_run, self.sites.value(), None
        if source is not None and not self._plan_error and seg is not None and array_run is not None:
            is_same = seg.has_sites_of(source, self._settings(source), sites)
            n_sites = array_run.interactive.problem.n if is_same else None
        n_pixels = None if source is None or sites is not None else source.pixels
        self._outlook = self.form.summarize(n_pixels, n_sites, "" if sites is None else sites.name)
        self.presets.refresh()
        self._refresh()

    def _settings_changed(self) -> None:
        self._notice = ""  # it was about other settings
        self._plan_changed()
        if self._plan_error:
            return
        if not self.session.is_sampling:
            self.session.apply_settings(self.form.settings())
            return
        try:
            seg = self.session.segmentation
            is_applied = seg is not None and self.session.apply_settings(self._settings(seg.plan.source))
        except InputError:
            is_applied = False
        self._show_notice("" if is_applied else "This applies at the next run.")

    # ---- what the session tells

    def _state_changed(self) -> None:
        session = self.session
        self.run_row.refresh(session, not self._plan_error, session.can_continue(self._source))
        is_idle = session.can("form") or session.state == "no image"
        for widget in (self.chooser, self.sites, self.seed):
            widget.setEnabled(is_idle)
        self._refresh()

    def _refresh(self) -> None:
        session, frame = self.session, self.session.frame
        can_run = not self._plan_error
        self.reason.set_text("\n".join(map(format_sentence, filter(None, (self._notice, self._plan_error)))))
        if session.segmentation is not None and not session.segmentation.is_of(self._image):
            frame = None
        self.progress.refresh(self._outlook if can_run and self._image is not None else "", frame)
        self.agreement.refresh(can_run and session.can_continue(self._source), frame)
        self.display.follow(frame)
        self.region.refresh()
        self.trace_section.refresh(frame)
        for section in (self.seeds, self.export, self.apply, self.saving):
            section.refresh()

    def _show_notice(self, text: str) -> None:
        self._notice = text
        self._refresh()

    # ---- what the viewer tells

    def _on_event(self, event: Any) -> None:
        """Follow strokes on superpixels; the list of layers emits the events of its layers, too."""
        if event.type == "paint" and event.sources[0] is self.sites.value() and self.session.run is not None:
            self._show_notice("The superpixels have changed: this applies at the next run.")

    def _layers_changed(self, event: Any = None) -> None:
        self.chooser.follow()
        seg = self.session.segmentation
        results = [] if seg is None else seg.layers.all()
        for combo in self.inputs.values():
            combo.follow(layer for layer in self.viewer.layers if layer not in results)
        if event is not None and event.type == "inserted":
            self._choose_new_layer(event.value)
        self._plan_changed()

    def _choose_new_layer(self, layer: Layer) -> None:
        is_sampling, image, seeds = self.session.is_sampling, self.chooser.image.value(), self.seeds.seeds
        if is_image(layer) and not is_sampling and not self._image_opened.isActive():
            self._image_opened.start()  # of several that are opened together the first is meant
            scribbles = seeds.value()
            has_other_shape = image is not None and image.data.shape != layer.data.shape
            if scribbles is not None and (scribbles.metadata.get(SCRIBBLES_KEY) or has_other_shape):
                seeds.choose(None)  # they are on another image; no run could begin with them
            self.chooser.image.choose(layer)
            self._choose_preset_of(layer)
        elif isinstance(layer, Labels):
            of_image = image is not None and layer.metadata.get(SUPERPIXELS_OF) == str(image.unique_id)
            if of_image and self.session.can("form"):
                self.sites.choose(layer)
            elif layer.metadata.get(SCRIBBLES_KEY) and not is_sampling:
                seeds.choose(layer)

    def _choose_preset_of(self, image: Image | None) -> None:
        """Choose the preset that an image itself asks for, as some samples do."""
        name = "" if image is None else str(image.metadata.get(PRESET_KEY, ""))
        if name in PRESETS and not self.session.is_sampling:
            self.presets.choose(name)

    def _theme_changed(self, event: Any = None) -> None:
        theme = self.viewer.theme
        self.trace_section.follow_theme(theme)
        self.run_row.follow_theme(theme)
        colour = f"QLabel {{ color: {muted_colour(theme)}; }}"
        for section in (self.trace_section, *self.sections):
            section.summary.setStyleSheet(colour)
        self.region.setStyleSheet(colour)
        self.reason.setStyleSheet(f"QLabel {{ color: {readable_colour(WARNING, theme)}; }}")


# ---- commands of napari's palette, which open the dock if needed


def open_panel(viewer: napari.Viewer | None = None) -> SegmentationPanel:
    """Return the newest open panel, or open one."""
    for ref in reversed(OPEN):
        if (panel := ref()) is not None:
            return panel
    viewer = viewer or napari.current_viewer()
    if viewer is None:
        raise RuntimeError("there is no viewer")
    widget = viewer.window.add_plugin_dock_widget("napari-gsw", "GSW segmentation")[1]
    return getattr(widget, "__wrapped__", widget)  # type: ignore[no-any-return]


def session_reader(path: str | list[str]) -> Callable[[str], list[tuple[None]]] | None:
    """Return the reader of a session file for npe2: it opens the session in the panel, which makes the layers."""

    def open_session(file: str) -> list[tuple[None]]:
        open_panel().opening.open(file)
        return [(None,)]  # there is no layer to add

    return open_session if isinstance(path, str) and is_session(path) else None


def _command(act: Callable[[SegmentationPanel], Any]) -> Callable[[], None]:
    """Return a command that does something in the panel."""

    def command() -> None:
        act(open_panel())

    return command


run_or_pause = _command(SegmentationPanel.run_or_pause)
step = _command(SegmentationPanel.step)
stop = _command(SegmentationPanel.stop)
reset = _command(SegmentationPanel.reset)
next_display = _command(SegmentationPanel.next_display)
lock_painted = _command(SegmentationPanel.lock_painted)
unlock_all = _command(lambda panel: panel.session.corrections.unlock())
