"""The keys of the panel, which work while the canvas has the focus."""

from __future__ import annotations

import weakref
from functools import partial
from typing import Any

import napari
import numpy as np
from napari.layers import Image, Labels, Layer
from qtpy.QtCore import QObject, QSize, QTimer
from qtpy.QtWidgets import QFrame, QSpinBox, QVBoxLayout, QWidget

from napari_gsw.core.errors import InputError
from napari_gsw.core.jit import cache_folder
from napari_gsw.core.settings import Settings
from napari_gsw.core.settings.presets import PRESETS
from napari_gsw.sample_data import PRESET_KEY, SCRIBBLES_KEY
from napari_gsw.widgets.common.collapsible import Section, make_scroll_area
from napari_gsw.widgets.common.dock_panel import Connections, DockPanel
from napari_gsw.widgets.common.labels import ElidedLabel, add_whats_this, format_sentence, muted_colour, warning_colour
from napari_gsw.widgets.common.layer_choosers import LayerCombo
from napari_gsw.widgets.common.preferences import get_preference
from napari_gsw.widgets.layers.image_source import ImageSource
from napari_gsw.widgets.layers.layer_metadata import SUPERPIXELS_OF, is_image, is_labels, unwrap_viewer
from napari_gsw.widgets.panel.display import STATES, Display
from napari_gsw.widgets.panel.export_section import ExportSection
from napari_gsw.widgets.panel.folder_section import FolderSection
from napari_gsw.widgets.panel.form import RunEstimate, SettingsForm
from napari_gsw.widgets.panel.image_chooser import ImageChooser
from napari_gsw.widgets.panel.open_session import PanelParts, SessionOpener
from napari_gsw.widgets.panel.rows import (
    SEVERAL,
    ConvergenceRow,
    EditRow,
    PaintRow,
    PresetRow,
    ProgressRow,
    QueryRow,
    RegionLabel,
    RunRow,
)
from napari_gsw.widgets.panel.scribbles_section import ScribblesSection
from napari_gsw.widgets.panel.session_section import RestoreRow, SessionSection, remember
from napari_gsw.widgets.panel.trace import TracePlot, TraceSection
from napari_gsw.widgets.session.run_plan import RunPlan, adapt_settings
from napari_gsw.widgets.session.session import KernelWarmUp, Session

# Keys that napari leaves free, and what they call; the docs and the tooltips name them.
KEYS = {
    "Control-Alt-R": "run_or_pause",
    "Control-Alt-N": "step",
    "Control-Alt-X": "stop",
    "Control-Alt-D": "next_display",
    "Control-Alt-L": "lock_painted",
}


def bind_keys(viewer: napari.Viewer, panel: Any, connections: Connections) -> None:
    """Let the keys call a panel's methods until its link is cut."""
    for key, name in KEYS.items():
        viewer.bind_key(key, lambda _, name=name: getattr(panel, name)(), overwrite=True)
        connections.on_close(partial(viewer.bind_key, key, None))


class NewLayers(QObject):  # type: ignore[misc]
    """Chooses an image that was just opened, the preset that a sample says suits it, its superpixels and its strokes.

    Parameters
    ----------
    session : what is worked on; while a run is on, nothing is taken.
    chooser, presets, sites, seeds : where the choices are made.
    """

    def __init__(
        self, session: Session, chooser: ImageChooser, presets: PresetRow, sites: LayerCombo, seeds: LayerCombo,
        connections: Connections,
    ) -> None:  # fmt: skip
        super().__init__()
        self._session, self._chooser, self._presets = session, chooser, presets
        self._sites, self._seeds = sites, seeds
        # Runs until the window has come to rest after an image was opened.
        self._opened = QTimer(self)
        self._opened.setSingleShot(True)
        connections.stop_on_close(self._opened)

    def take(self, event: Any) -> None:
        """Hear of a change of the list of layers, once every list of choices has followed it."""
        if event is None or event.type != "inserted":
            return
        new: Layer = event.value
        if is_image(new) and not self._session.commands.sampling and not self._opened.isActive():
            self._opened.start(0)  # of several that are opened together the first is meant
            strokes, before = self._seeds.value(), self._chooser.image.value()
            other_shape = before is not None and before.data.shape != new.data.shape
            if strokes is not None and (strokes.metadata.get(SCRIBBLES_KEY) or other_shape):
                self._seeds.choose(None)  # they are on another image; no run could begin with them
            self._chooser.image.choose(new)
            self.suit(new)
        elif isinstance(new, Labels):
            image = self._chooser.image.value()
            of_image = image is not None and new.metadata.get(SUPERPIXELS_OF) == str(image.unique_id)
            if of_image and self._session.can("form"):
                self._sites.choose(new)
            elif new.metadata.get(SCRIBBLES_KEY) and not self._session.commands.sampling:
                self._seeds.choose(new)

    def suit(self, image: Image | None) -> None:
        """Choose the preset that an image itself asks for, as those among the samples do."""
        wanted = "" if image is None else str(image.metadata.get(PRESET_KEY, ""))
        if wanted in PRESETS and not self._session.commands.sampling:
            self._presets.choose(wanted)


# The panels that are open, newest last, for the commands of the palette.
OPEN: list[weakref.ref[SegmentationPanel]] = []


class SegmentationPanel(DockPanel):
    """Runs chains on an image layer and shows them live in a Labels layer."""

    def __init__(self, napari_viewer: napari.Viewer) -> None:
        super().__init__(napari_viewer)
        self.viewer = viewer = unwrap_viewer(napari_viewer)
        self.session = Session(viewer, self.connections, self)
        self.form = SettingsForm(self)
        self._notice = cache_folder().notice
        self._plan_error = ""
        self._build()
        self.chooser.standing = self._standing_source
        self._source: ImageSource | None = None
        self._image: Image | None = None
        self._expectation: RunEstimate | None = None
        self.newcomers = NewLayers(
            self.session, self.chooser, self.presets, self.sites, self.seeds.seeds, self.connections
        )
        connections, layers = self.connections, viewer.layers.events
        connections.connect_layers(layers, self._layers_changed, layers.reordered)
        connections.connect(viewer.events.theme, self._theme_changed)
        connections.connect(viewer.cursor.events.position, self.region.show_region)
        bind_keys(viewer, self, connections)
        connections.on_close(partial(self.session.steps.forget, self.presets))
        this = weakref.ref(self)
        OPEN.append(this)
        connections.on_close(lambda: OPEN.remove(this) if this in OPEN else None)
        self.presets.choose(str(get_preference("preset")))
        self._theme_changed()
        self._layers_changed()
        self.newcomers.suit(self.chooser.image.value())
        self._open_sessions()
        self.warming = KernelWarmUp(connections, self)
        self.warming.changed.connect(self._framed)

    # ---- building

    def _build(self) -> None:
        self.inner = QWidget()
        column = QVBoxLayout(self.inner)
        column.setContentsMargins(6, 4, 6, 6)
        column.setSpacing(6)
        self.restore_row = RestoreRow()
        column.addWidget(self.restore_row)
        self.chooser = ImageChooser(self.viewer, self.connections)
        self.chooser.changed.connect(self._plan_changed)
        column.addWidget(self.chooser)
        self.presets = PresetRow(self.form, self.session.steps)
        column.addWidget(self.presets)
        self.run_row = RunRow(self)
        self.run_button, self.pause_button, self.step_button, self.stop_button, self.reset_button = (
            self.run_row.buttons.values()
        )
        column.addWidget(self.run_row)
        self.progress = ProgressRow(self.session)
        column.addWidget(self.progress)
        self.reason = ElidedLabel("reason", 2)
        column.addWidget(self.reason)
        self.paint_row = PaintRow(self.session.corrections.lock_strokes, self.form.controls["only_painted"])
        self.paint_row.keep_changed.connect(self.session.corrections.keep_strokes)
        column.addWidget(self.paint_row)
        self.query_row = QueryRow(self.session)
        column.addWidget(self.query_row)
        self.edit_row = EditRow(self.session)
        column.addWidget(self.edit_row)
        self.display = Display(self.session)
        column.addWidget(self.display)
        self.region = RegionLabel(self.session)
        column.addWidget(self.region)
        self.trace_section = TraceSection(self.session)
        self.trace_section.hovered.connect(self.region.show_text)
        column.addWidget(self.trace_section)
        self.agreement = ConvergenceRow()
        self.agreement.several_wanted.connect(self.run_several)
        column.addWidget(self.agreement)
        line = QFrame()
        line.setFrameShape(QFrame.Shape.HLine)
        column.addWidget(line)
        self._add_sections(column)
        column.addStretch()
        self.scroll = make_scroll_area(self.inner)
        self.inner.setMinimumWidth(280)
        frame = QVBoxLayout(self)
        frame.setContentsMargins(0, 0, 0, 0)
        frame.addWidget(self.scroll)
        self.form.changed.connect(self._settings_changed)
        self.form.forecast.answered.connect(self._plan_changed)
        self.session.state_changed.connect(self._state_changed)
        self.session.framed.connect(self._framed)
        self.session.noticed.connect(self._noticed)
        add_whats_this(self.inner)

    @property
    def trace(self) -> TracePlot:
        return self.trace_section.plot

    def sizeHint(self) -> QSize:
        return QSize(360, 720)

    def minimumSizeHint(self) -> QSize:
        return QSize(300, 200)

    def _add_sections(self, column: QVBoxLayout) -> None:
        self.sites = LayerCombo(is_labels, [("Make them", None)])
        self.sites.setToolTip("A Labels layer with superpixels, for example from the Superpixels widget; 0 is no site")
        self.sites.chosen.connect(self._sites_chosen)
        self._sites_layer: Any = None
        self.form.layouts["superpixels"].insertRow(0, "Layer", self.sites)
        self.seed = QSpinBox()
        self.seed.setRange(0, 2**31 - 1)
        self.seed.setValue(int(get_preference("seed")))
        self.seed.setToolTip("The same image, settings and seed give the same labels; another seed starts afresh")
        self.seed.valueChanged.connect(self._plan_changed)
        self.form.layouts["sampler"].addRow("Seed", self.seed)
        self.seeds = ScribblesSection(self.session, self.form.controls)
        self.seeds.changed.connect(self._plan_changed)
        self.seeds.canvas_wanted.connect(self._paint_first)
        self.export = ExportSection(self.session, self.trace_section.picture)
        self.export.measuring.measured.connect(self.region.update_region)
        self.saving = SessionSection(self.session)
        self.apply = FolderSection(self.session, self._checked_plan, lambda: self.form.preset)
        own = (self.seeds, self.export, self.apply, self.saving)
        self.sections: list[Section] = [*self.form.sections.values(), *own]
        for section in self.sections:
            column.addWidget(section)

    def _open_sessions(self) -> None:
        parts = (self.chooser, self.presets, self.paint_row, self.seed, self.sites, self.seeds.seeds, self._settings)
        self.opening = SessionOpener(self.viewer, self.session, PanelParts(*parts, self.form.maps), self)
        self.opening.said.connect(self._noticed)
        self.opening.opened.connect(remember)
        self.saving.chosen.connect(self.opening.open)
        self.session.autosaver.words = lambda: {"preset": self.form.preset}
        self.opening.offer(self.restore_row)

    # ---- what the user does

    def run(self) -> None:
        """Start, or go on."""
        if (plan := self._plan()) is not None and self.session.can("run"):
            self._notice = ""
            self.session.start(plan)

    def run_several(self) -> None:
        """Start several chains afresh; a run that is on ends first."""
        self.form.controls["chains"].set_value(SEVERAL)
        if (plan := self._plan()) is not None:
            self._notice = ""
            self.session.stop()
            self.session.start(plan)

    def pause(self) -> None:
        if self.session.can("pause"):
            self.session.toggle_pause()

    def run_or_pause(self) -> None:
        """One key for both."""
        self.pause() if self.session.can("pause") else self.run()

    def step(self) -> None:
        if self.session.can("step") and (plan := self._plan()) is not None:
            self._notice = ""
            self.session.step(plan)

    def stop(self) -> None:
        if self.session.can("stop"):
            self.session.stop()

    def reset(self) -> None:
        if self.session.can("reset"):
            self._notice = ""
            self.session.reset()

    def next_display(self) -> None:
        """Current, best, consensus if it is known, and round again."""
        is_estimated = self.session.frame is not None and self.session.frame.is_estimated
        names = [name for name in STATES if is_estimated or name != "consensus"]
        show = self.session.commands.view.show
        place = names.index(show) if show in names else -1
        self.session.set_show(names[(place + 1) % len(names)])
        self._state_changed()

    def lock_painted(self) -> None:
        self.session.corrections.lock_painted()

    def _paint_first(self) -> None:
        if (plan := self._plan()) is not None:
            self.session.paint_first(plan)

    # ---- the plan

    def _standing_source(self) -> ImageSource | None:
        """What the chains are of that there are."""
        seg = self.session.segmentation
        return seg.plan.source if seg is not None and seg.array_runs else None

    def _plan(self) -> RunPlan | None:
        """What the form asks for, or None with the reason on the screen."""
        try:
            return self._checked_plan()
        except InputError as reason:
            self._plan_error = str(reason)
            return None

    def _checked_plan(self) -> RunPlan:
        source = self.chooser.source()
        settings = self._settings(source)
        sites, seeds = self._check_layers(source)
        data = None if sites is None else np.array(sites.data)
        lock, maps = self.session.corrections.lock_strokes, self.form.maps.layers()
        return RunPlan(source, settings, self.seed.value(), sites, data, seeds, lock, maps, source.mask_data())

    def _check_layers(self, source: ImageSource) -> tuple[Labels | None, Labels | None]:
        """The layers of superpixels and of seeds, if there are any; an InputError if one does not fit the image."""
        sites, seeds = self.sites.value(), self.seeds.seeds.value()
        if sites is not None:
            source.check_sites(sites)
        if seeds is not None:
            source.check_labels(seeds)
        self.form.maps.check(source, self._settings(source))
        return sites, seeds

    def _settings(self, source: ImageSource) -> Settings:
        return adapt_settings(source, self.form.settings(axes=source.axes))

    def _plan_changed(self) -> None:
        """Say what a run would do, or why there can be none."""
        self._plan_error = ""
        if self._image is not (image := self.chooser.image.value()):  # what was said was about another one
            self._image, self._notice = image, ""
        self._source = source = None
        try:
            self._source = source = self.chooser.source()
            self.form.set_flat(source.depth == 2 and not source.is_image_list and not source.is_chunked)
            self._check_layers(source)
        except InputError as reason:
            self._plan_error = str(reason)
        self.session.set_ready(not self._plan_error)
        self._summarise(source)

    def _summarise(self, source: ImageSource | None) -> None:
        """Bring the heads of the sections up to date, and what a run would begin with."""
        array_run, sites = self.session.array_run, self.sites.value()
        pixels = None if source is None or sites is not None else source.pixels
        counted = self._expectation = None
        try:
            seg = self.session.segmentation
            if seg is not None and source is not None and seg.has_sites_of(source, self._settings(source), sites):
                counted = None if array_run is None else array_run.interactive.problem.n
            self._expectation = self.form.expectation(pixels, counted)
            self.form.summarize(self._expectation, "" if sites is None else sites.name)
        except InputError:  # said elsewhere; nothing is known of what a run would begin with
            self.form.clear_summaries()
        self.presets.mark(self.form.differences())
        self._framed()

    def _sites_chosen(self) -> None:
        if self._sites_layer is not None:
            self.connections.disconnect(self._sites_layer.events.paint, self._sites_painted)
        self._sites_layer = self.sites.value()
        if self._sites_layer is not None:
            self.connections.connect(self._sites_layer.events.paint, self._sites_painted)
        self._plan_changed()

    def _sites_painted(self, event: Any = None) -> None:
        if self.session.run is not None:
            self._notice = "The superpixels have changed: this applies at the next run."
            self._framed()

    def _settings_changed(self) -> None:
        self._notice = ""  # what was said was about other settings
        self._plan_changed()
        if not self._plan_error and not self.session.commands.sampling:
            self.session.commands.remake(self.form.settings())
        elif not self._plan_error:
            try:
                source = self.session.segmentation.plan.source if self.session.segmentation else None
                taken = source is not None and self.session.commands.retune(self._settings(source))
            except InputError:
                taken = False
            self._notice = "" if taken else "This applies at the next run."
            self._framed()

    # ---- what the session tells

    def _state_changed(self) -> None:
        session = self.session
        self.run_row.refresh(session, not self._plan_error, session.goes_on(self._source))
        idle = session.can("form") or session.state == "no image"
        self.chooser.setEnabled(idle)
        self.sites.setEnabled(idle)
        self.seed.setEnabled(idle)
        self._framed()

    def _framed(self) -> None:
        """Bring every line up to date."""
        session, frame = self.session, self.session.frame
        self.reason.set_text("\n".join(map(format_sentence, filter(None, (self._notice, self._plan_error)))))
        if session.segmentation is not None and not session.segmentation.is_of(self._image):
            frame = None
        self.progress.refresh(self._outlook(), frame)
        self.agreement.refresh(not self._plan_error and session.goes_on(self._source), frame)
        self.display.follow(frame)
        self.region.refresh()
        self.trace_section.refresh(frame)
        self.seeds.refresh()
        self.export.refresh()
        self.apply.refresh()
        self.saving.refresh()

    def _outlook(self) -> RunEstimate | None:
        """What a run would begin with, if there can be one."""
        return None if self.chooser.image.value() is None or self._plan_error else self._expectation

    def _noticed(self, text: str) -> None:
        self._notice = text
        self._framed()

    # ---- what the viewer tells

    def _layers_changed(self, event: Any = None) -> None:
        layers = list(self.viewer.layers)
        self.chooser.follow()
        seg = self.session.segmentation
        ours = [] if seg is None else seg.layers.all()
        self.sites.follow([x for x in layers if not any(x is y for y in ours)])
        self.seeds.seeds.follow(layers)
        self.form.maps.follow(layers)
        self.newcomers.take(event)
        self._plan_changed()

    def _theme_changed(self, event: Any = None) -> None:
        self.trace_section.follow_theme(self.viewer.theme)
        self.run_row.follow_theme(self.viewer.theme)
        ink = muted_colour(self.viewer.theme)
        for section in (self.trace_section, *self.sections):
            section.set_summary_colour(ink)
        self.region.setStyleSheet(f"QLabel {{ color: {ink}; }}")
        self.reason.setStyleSheet(f"QLabel {{ color: {warning_colour(self.viewer.theme)}; }}")

    def choose_image(self, layer: Image) -> None:
        """Choose an image layer, as the user would."""
        self.chooser.image.choose(layer)
