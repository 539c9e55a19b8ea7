"""Opening a session in the panel: read the file, find the image, fill the form, show the runs.

Files are read and chains made in a thread; layers and the form belong to the window.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import napari
import numpy as np
from qtpy.QtCore import QObject, Qt, QTimer, Signal
from qtpy.QtWidgets import QMessageBox, QSpinBox

from napari_gsw.core.errors import InputError
from napari_gsw.core.features.input_maps import MAP_NAMES
from napari_gsw.core.interactive.saved_session import SavedSession
from napari_gsw.core.settings import Settings
from napari_gsw.core.settings.presets import DEFAULT_PRESET, PRESETS
from napari_gsw.files.session_file import open_session
from napari_gsw.widgets.common.labels import format_error, report_error
from napari_gsw.widgets.common.layer_choosers import LayerCombo
from napari_gsw.widgets.common.worker import make_worker
from napari_gsw.widgets.layers.image_source import ImageSource
from napari_gsw.widgets.layers.saved_layers import add_input_layer, add_map_layer, find_image_layers, restore_source
from napari_gsw.widgets.panel.form import FormValues, MapRows
from napari_gsw.widgets.panel.image_chooser import ImageChooser
from napari_gsw.widgets.panel.rows import PaintRow, PresetRow
from napari_gsw.widgets.panel.session_section import RestoreRow
from napari_gsw.widgets.session.autosave import RUNNING
from napari_gsw.widgets.session.autosave_files import all_written, autosave_folder, discard_autosave, list_restorable
from napari_gsw.widgets.session.run_plan import RunPlan, check_same_pixels, check_same_shape, restore_runs, saved_inputs
from napari_gsw.widgets.session.session import Session

# What may have been given beside the image, as Labels layers; maps are image layers.
GIVEN = ("mask", "sites", "seeds")
# Milliseconds after which to look again whether what was left is on the disk.
LOOK_AGAIN = 100
Given = Mapping[str, Any]


class PanelParts(NamedTuple):
    """The parts of the panel that a session is put on.

    Attributes
    ----------
    settings : what the form says for a source.
    """

    chooser: ImageChooser
    presets: PresetRow
    paint_row: PaintRow
    seed: QSpinBox
    sites: LayerCombo
    seeds: LayerCombo
    settings: Callable[[ImageSource], Settings]
    maps: MapRows

    def lay_out(self, source: ImageSource, filling: FormValues, seed: int, lock: bool, layers: Given) -> RunPlan:
        """Choose what a session worked on, and fill the form as it was; returns the plan that it makes."""
        self.chooser.choose(source)
        self.presets.put(filling)
        self.seed.setValue(seed)
        self.paint_row.set_keep(lock)
        sites, seeds = layers["sites"], layers["seeds"]
        self.sites.choose(sites)
        self.seeds.choose(seeds)
        for name in MAP_NAMES:
            self.maps.combos[name].choose(layers[name])
        data = None if sites is None else np.array(sites.data)
        maps = self.maps.layers()
        return RunPlan(source, self.settings(source), seed, sites, data, seeds, lock, maps, source.mask_data())


class SessionOpener(QObject):  # type: ignore[misc]
    """Opens sessions, one at a time.

    Signals
    -------
    said : what goes on, for a line of the panel; empty when it is over.
    opened : the file that was opened.
    """

    said = Signal(str)
    opened = Signal(str)

    def __init__(
        self, viewer: napari.Viewer, session: Session, desk: PanelParts, parent: QObject | None = None
    ) -> None:
        super().__init__(parent)
        self.viewer, self.session, self.desk = viewer, session, desk
        self.is_busy = False
        self._look_again = QTimer(self)
        self._look_again.setSingleShot(True)
        self._look_again.setInterval(LOOK_AGAIN)

    def open(self, path: str) -> None:
        """Open a session; what cannot be done is said."""
        if self.is_busy:
            return
        self.is_busy = True
        self.said.emit(f"Opening {Path(path).name} ...")
        self._in_thread(lambda: open_session(path), lambda session: self._place(Path(path), session))

    def offer(self, row: RestoreRow) -> None:
        """Offer what was saved by itself, if nobody works on it any more."""
        row.wanted.connect(self.open)
        row.unwanted.connect(lambda path: discard_autosave(Path(path)))
        self._look_again.timeout.connect(lambda: self._offer_newest(row))
        self._offer_newest(row)

    def _offer_newest(self, row: RestoreRow) -> None:
        """The newest may still be on its way to the disk: a dock was closed a moment ago."""
        if not all_written():
            self._look_again.start()
        elif self.session.segmentation is None:
            for path, title in islice(list_restorable(), 1):
                row.offer(str(path), title)

    def _place(self, path: Path, session: SavedSession) -> None:
        """The image, and if it is still the one that was segmented, the form and the chains."""
        images, words = session.images, session.window
        if not images:
            raise InputError("the session does not say which image it is of")
        layers = find_image_layers(self.viewer, images, path, lambda place: self._may_open(place, path))
        bare = restore_source(words.get("source") or headless_words(session), layers, None)
        check_same_shape(bare, session)
        self._in_thread(lambda: check_same_pixels(bare, session), lambda _: self._lay_out(path, session, bare))

    def _may_open(self, place: Path, path: Path) -> bool:
        """Ask before an image outside the folder of a session is opened; autosaves are our own files."""
        if path.resolve().parent == autosave_folder().resolve():
            return True
        text = f"The session {path.name!r} names an image in another folder:\n\n{place}\n\nOpen this image?"
        buttons = QMessageBox.StandardButton.Yes | QMessageBox.StandardButton.No
        box = QMessageBox(QMessageBox.Icon.Question, "Open a session", text, buttons, self.viewer.window._qt_window)
        box.setTextFormat(Qt.TextFormat.PlainText)  # the path comes from the file
        return bool(box.exec() == QMessageBox.StandardButton.Yes)

    def _lay_out(self, path: Path, session: SavedSession, bare: ImageSource) -> None:
        words = session.window
        given: dict[str, Any] = {n: add_input_layer(self.viewer, bare, n, saved_inputs(session, n)) for n in GIVEN}
        given |= {n: add_map_layer(self.viewer, bare, n, saved_inputs(session, n)) for n in MAP_NAMES}
        source = dataclasses.replace(bare, mask=given["mask"])
        first = next(iter(session.runs.values()))
        filling = FormValues(preset_name(words), _values(first.settings))
        plan = self.desk.lay_out(source, filling, first.seed, bool(words.get("lock", True)), given)

        def show(runs: Any) -> None:
            if words.get(RUNNING):
                for run in runs.values():
                    run.interactive.pause()
            self.session.adopt(plan, runs)
            self._over("")
            self.opened.emit(str(path))

        self._in_thread(lambda: restore_runs(plan, session), show)

    def _in_thread(self, work: Callable[[], Any], then: Callable[[Any], None]) -> None:
        """Do something off the GUI thread, and go on with its result on it."""
        outcome: list[tuple[Any, Exception | None]] = []

        def guarded() -> None:
            try:
                outcome.append((work(), None))
            except Exception as reason:
                outcome.append((None, reason))

        def finished() -> None:
            result, failure = outcome.pop()
            try:
                if failure is not None:
                    raise failure
                then(result)
            except Exception as reason:
                self._over(format_error(reason))
                if not isinstance(reason, InputError):
                    report_error(reason, "GSW segmentation")

        worker = make_worker(guarded)
        worker.finished.connect(finished)
        worker.start()

    def _over(self, text: str) -> None:
        self.is_busy = False
        self.said.emit(text)


def preset_name(words: Any) -> str:
    """The preset that was chosen, if there is one of that name."""
    name = words.get("preset")
    return name if name in PRESETS else DEFAULT_PRESET


def _values(settings: Settings) -> dict[str, Any]:
    return {name: value for name, value in settings.to_dict().items() if name != "axes"}


def headless_words(session: SavedSession) -> dict[str, Any]:
    """What a session of the command line says of its image: all of it, with the axes of its settings."""
    run = session.run
    axes = run.settings.axes
    depth = 2 if run.problem.sites is None else len(run.problem.sites.shape)
    channel_axis = axes.index("C") if "C" in axes else None
    return {
        "channel_axis": channel_axis, "depth": depth, "slices": "volume", "where": "image", "step": [],
        "corners": [[], []], "several": False,
    }  # fmt: skip
