"""Rows of the panel: run buttons, presets, scribbles, edits, queries, progress, convergence, regions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
from napari.layers import Layer
from napari.utils.theme import get_theme
from qtpy import QtWidgets
from qtpy.QtCore import Qt, Signal
from qtpy.QtGui import QKeyEvent
from qtpy.QtWidgets import QButtonGroup, QLabel, QPushButton, QWidget

from napari_gsw.core.pipeline.prepare import Stage
from napari_gsw.core.pipeline.warm_up import compiling_stage
from napari_gsw.core.settings.presets import PRESETS
from napari_gsw.widgets.common import layouts
from napari_gsw.widgets.common.layer_choosers import LayerCombo
from napari_gsw.widgets.common.layouts import RowHeading, Section, make_row
from napari_gsw.widgets.common.setting_widgets import SettingWidget
from napari_gsw.widgets.common.text import ElidedLabel, format_count, make_button, make_choice
from napari_gsw.widgets.common.undo import UndoStack, UndoStep
from napari_gsw.widgets.layers.cursor import NEEDED, describe_cluster_at, describe_region
from napari_gsw.widgets.layers.layer_metadata import is_labels
from napari_gsw.widgets.panel.form import PRESET_TIPS, SettingsForm
from napari_gsw.widgets.session.array_run import Frame
from napari_gsw.widgets.session.corrections import EDIT_KEYS, Action
from napari_gsw.widgets.session.session import Session
from napari_gsw.widgets.table.panel import find_row, has_table

RUN_TIPS = {
    "run": "Segment the image, or continue the run (Ctrl+Alt+R)",
    "pause": "Pause after the current sweep, or resume (Ctrl+Alt+R)",
    "step": "Run one sweep (Ctrl+Alt+N)",
    "stop": "Stop the run and keep the result (Ctrl+Alt+X)",
    "reset": "Reset the segmentation, its scribbles and its locks; Ctrl+Z brings them back",
}
# The longest text of a button that has several, so that none changes its width.
WIDEST = {"run": "Continue", "pause": "Resume"}


class RunRow(QWidget):  # type: ignore[misc]
    """One button for each action on a run; `panel` has the methods of the same names."""

    def __init__(self, panel: Any) -> None:
        super().__init__()
        self.buttons: dict[str, QPushButton] = {}
        for name, tip in RUN_TIPS.items():
            button = self.buttons[name] = make_button(WIDEST.get(name, name.capitalize()), tip, getattr(panel, name))
            if name in WIDEST:
                button.setMinimumWidth(button.sizeHint().width())
                button.setText(name.capitalize())
            # The one with a colour of its own is two pixels lower than the others: all are as high as the row.
            button.setSizePolicy(QtWidgets.QSizePolicy.Policy.Minimum, QtWidgets.QSizePolicy.Policy.MinimumExpanding)
        make_row(*((button, 1) for button in self.buttons.values()), parent=self)
        self.setSizePolicy(QtWidgets.QSizePolicy.Policy.Preferred, QtWidgets.QSizePolicy.Policy.Fixed)

    def refresh(self, session: Session, can_run: bool, continues: bool) -> None:
        """Show what a session allows; `continues` tells whether a run would continue the one on the screen."""
        for name, button in self.buttons.items():
            button.setEnabled(session.can(name) and (can_run or name not in ("run", "step")))
        self.buttons["pause"].setText("Resume" if session.state == "paused" else "Pause")
        self.buttons["run"].setText("Continue" if session.state == "done" and continues else "Run")

    def follow_theme(self, name: str) -> None:
        theme: Any = get_theme(name)
        colours = f"background-color: {theme.current.as_hex()}; color: {theme.text.as_hex()}"
        self.buttons["run"].setStyleSheet(f"QPushButton:enabled {{ {colours}; font-weight: 600; }}")


# More buttons would not fit into a narrow panel.
PRESETS_IN_ROW = 3


class PresetRow(QWidget):  # type: ignore[misc]
    """One button for each preset; the one that is pressed filled the form."""

    def __init__(self, form: SettingsForm, steps: UndoStack) -> None:
        super().__init__()
        self._form, self._steps = form, steps
        self.heading, group = RowHeading("Preset"), QButtonGroup(self)
        self.buttons = {name: make_choice(name.capitalize(), PRESET_TIPS[name], group) for name in PRESETS}
        for name, button in self.buttons.items():
            button.clicked.connect(partial(self._press, name))
        buttons = list(self.buttons.values())
        rows = [buttons[start : start + PRESETS_IN_ROW] for start in range(0, len(buttons), PRESETS_IN_ROW)]
        heads = [self.heading, *[None] * len(rows)]
        grid = layouts.make_grid(*([head, *row] for head, row in zip(heads, rows, strict=False)), parent=self)
        for column in range(PRESETS_IN_ROW):
            grid.setColumnStretch(1 + column, 1)

    def choose(self, name: str) -> None:
        self.put(self._form.preset_values(name))

    def put(self, values: dict[str, Any]) -> None:
        self.buttons[values["preset"]].setChecked(True)
        self._form.put(values)

    def _press(self, name: str, _checked: bool = True) -> None:
        before = self._form.values()
        self.choose(name)
        after = self._form.values()
        if after != before:
            self._steps.push(UndoStep(self, partial(self.put, before), partial(self.put, after)))

    def refresh(self) -> None:
        """Show which settings differ from the chosen preset: with a star, so that nothing moves."""
        titles = ", ".join(self._form.controls[name].title for name in self._form.differences())
        text = f"Changed: {titles}." if titles else ""
        self.heading.setText("Preset *" if titles else "Preset")
        self.heading.setToolTip(text)
        for name, button in self.buttons.items():
            more = f"\n{text} Click to undo." if titles and button.isChecked() else ""
            button.setToolTip(PRESET_TIPS[name] + more)


KEEP_TIP = "Scribbles stay as painted, and similar superpixels follow them; the eraser releases them"
HINT_TIP = "Scribbles are a starting value that later sweeps may change"


class PaintRow(QWidget):  # type: ignore[misc]
    """Buttons that keep scribbles or take them as a hint, and a check box that allows only the painted labels."""

    def __init__(self, keep: bool, only_painted: SettingWidget) -> None:
        super().__init__()
        group = QButtonGroup(self)
        self.keep, self.hint = make_choice("Keep", KEEP_TIP, group), make_choice("Hint", HINT_TIP, group)
        self.set_keep(keep)
        label = QLabel("Only mine", toolTip=only_painted.toolTip())  # as short as the narrowest panel
        row = make_row(RowHeading("Strokes"), (self.keep, 1), (self.hint, 1), label, (only_painted, 1), parent=self)
        row.insertSpacing(3, 6)
        layouts.set_tab_order(self.keep, self.hint, only_painted.box)

    def set_keep(self, keep: bool) -> None:
        (self.keep if keep else self.hint).setChecked(True)


PAINT_HINT = (
    "Paint, fill or erase on the result layer, also during a run: the superpixels under the brush take the label, a "
    "new label makes a new cluster, the eraser releases a superpixel."
)
SEEDS_TIP = "A Labels layer whose labels are locked when a run starts or restarts"


class ScribblesSection(Section):
    """Seeds, locks, undo and redo, and the settings of scribbles."""

    canvas_wanted = Signal()  # the user wants to paint before the first run

    def __init__(self, session: Session, controls: Mapping[str, SettingWidget]) -> None:
        super().__init__("Strokes and locks", "Correct a run by painting, and lock what is right", "widget.md#painting")
        self.session = session
        steps, lock_painted = session.steps, session.corrections.lock_painted
        self._rows: list[tuple[int, int]] | None = None  # label and number of superpixels of each lock
        self.seeds = LayerCombo(SEEDS_TIP, is_labels, [("None", None)])
        form = layouts.make_form(("Seeds", self.seeds))
        for control in (controls["steering"], controls["painted_detail"]):
            form.addRow(control.title, control)
            form.labelForField(control).setToolTip(control.toolTip())
        undo_tip = "Undo the last scribble, lock, edit, reset, preset or superpixel (Ctrl+Z)"
        unlock_tip = "Unlock the selected labels, or all if none is selected"
        paint_tip = "Make the label layer now, to paint seeds before the first run"
        self.canvas = make_button("Paint first", paint_tip, self.canvas_wanted.emit)
        self.lock_painted = make_button(
            "Lock painted", "Lock every superpixel painted so far (Ctrl+Alt+L)", lock_painted
        )
        self.lock_label = make_button("Lock label", "Lock the region of the layer's selected label", self._lock_label)
        self.undo = make_button("Undo", undo_tip, steps.undo)
        self.redo = make_button("Redo", "Redo what was undone (Ctrl+Shift+Z)", steps.redo)
        self.unlock = make_button("Unlock", unlock_tip, self._unlock)
        steps.changed.connect(self._count_steps)
        self.locks = QtWidgets.QListWidget(toolTip="Locked labels; select some and press Unlock")
        self.locks.setMaximumHeight(84)
        self.locks.setSelectionMode(QtWidgets.QListWidget.SelectionMode.ExtendedSelection)
        self.add_line(PAINT_HINT)
        self.content.addLayout(form)
        first_row, second_row = (self.canvas, self.lock_painted, self.lock_label), (self.undo, self.redo, self.unlock)
        self.content.addLayout(layouts.make_grid(first_row, second_row))
        self.content.addWidget(self.locks)
        self.refresh()

    def _lock_label(self) -> None:
        seg = self.session.segmentation
        if seg is not None and seg.layers.labels is not None:
            self.session.corrections.lock_label(int(seg.layers.labels.selected_label))

    def _unlock(self) -> None:
        selected = [self._rows[self.locks.row(item)][0] for item in self.locks.selectedItems()] if self._rows else []
        for label in selected or [None]:
            self.session.corrections.unlock(label)

    def refresh(self) -> None:
        """List the locks of the array on the screen."""
        frame, seeds = self.session.frame, self.seeds.value()
        facts = [format_count(frame.corrections, "correction")] if frame is not None and frame.corrections else []
        numbers: Any = [] if frame is None else frame.numbers[frame.locks]
        labels, counts = np.unique(numbers, return_counts=True)
        rows: list[tuple[int, int]] = list(zip(labels.tolist(), counts.tolist(), strict=True))
        if rows != self._rows:
            self._rows = rows
            self.locks.clear()
            self.locks.addItems([f"label {label}: {format_count(count, 'site')}" for label, count in rows])
            self.locks.setVisible(bool(rows))
        if rows:
            facts.append(f"{format_count(len(numbers), 'site')} locked")
        if seeds is not None:
            facts.append(f"seeds from {seeds.name}")
        self.set_summary(", ".join(facts) or "paint to correct")
        has_run = self.session.array_run is not None
        self.lock_painted.setEnabled(has_run)
        self.lock_label.setEnabled(has_run)
        self.unlock.setEnabled(bool(rows))
        self.canvas.setEnabled(not has_run and self.session.can("form"))
        self._count_steps()

    def _count_steps(self) -> None:
        self.undo.setEnabled(self.session.steps.can_undo)
        self.redo.setEnabled(self.session.steps.can_redo)


EDIT_TIPS: dict[Action, str] = {
    "accept": "Lock the {word}: later runs do not change it. Button: the selected label; key {key}: the {word} under "
    "the mouse",
    "merge": "Merge {word}s: draw from one into the others (key {key}), or paint with the label of one of them",
    "cut": "Split {a} {word}: draw a line across it (key {key}), or use the eraser",
    "delete": "{fate} Button: the selected label; key {key}: the {word} under the mouse",
    "draw": "Paint a new {word} (key {key}); press again for the next one",
}
FATES = {"object": "The object becomes background.", "region": "The region is divided among its neighbours."}
TOOLS: tuple[Action, ...] = ("merge", "cut", "draw")


class EditRow(QWidget):  # type: ignore[misc]
    """One button for each edit of objects or regions; the button of the active tool stays down."""

    def __init__(self, session: Session) -> None:
        super().__init__()
        self.session = session
        self.heading = RowHeading()
        self.buttons: dict[Action, QPushButton] = {}
        for action in EDIT_TIPS:
            button = self.buttons[action] = make_button(action.capitalize(), "", partial(session.editor.act, action))
            button.setCheckable(action in TOOLS)
            button.setMinimumWidth(0)
        make_row(self.heading, *((button, 1) for button in self.buttons.values()), parent=self)
        for signal in (session.editor.changed, session.framed, session.state_changed):
            signal.connect(self.refresh)
        self.refresh()

    def refresh(self) -> None:
        editor, frame = self.session.editor, self.session.frame
        word = "region" if frame is None else frame.kind
        self.setEnabled(editor.layer is not None and self.session.array_run is not None)
        self.heading.setText(f"{word.capitalize()}s")
        texts = {"word": word, "a": "an" if word == "object" else "a", "fate": FATES[word]}
        for action, button in self.buttons.items():
            button.setToolTip(EDIT_TIPS[action].format(key=EDIT_KEYS[action], **texts))
            button.setChecked(editor.tool == action)


QUERY_TIP = (
    "Show the place where a label helps most. Keys: 1 to 9 for a label, Enter or Y for the likeliest one, N or Esc to "
    "skip; or paint it. Press again to stop"
)
QUERY_KEYS = "Keys 1-9, Enter: likeliest, N: skip"
KEY_NAMES = {Qt.Key.Key_Return: "Enter", Qt.Key.Key_Enter: "Enter", Qt.Key.Key_Escape: "Escape"}


class QueryRow(QWidget):  # type: ignore[misc]
    """Active learning: asks for labels until its button is pressed again; its keys work here and on the canvas."""

    def __init__(self, session: Session) -> None:
        super().__init__()
        self.session, self.active_learning = session, session.active_learning
        answer, skip = self.active_learning.answer, self.active_learning.skip
        self._actions: dict[str, Callable[[], None]] = {str(n): partial(answer, n) for n in range(1, 10)}
        self._actions |= {"Enter": answer, "Y": answer, "N": skip, "Escape": skip}
        self.button = make_button("Ask me", QUERY_TIP, self._toggle)
        self.button.setCheckable(True)
        self.button.setFocusPolicy(Qt.FocusPolicy.NoFocus)  # Enter is an answer, not another click
        self.line = ElidedLabel("question", 2)
        make_row(self.button, (self.line, 1), parent=self)
        self.setFocusPolicy(Qt.FocusPolicy.ClickFocus)
        # The viewer and the layers that have our keys: those of the selected layer come before the viewer's.
        self._bound: list[Any] = []
        session.connections.on_close(partial(self._bind, []))
        for signal in (self.active_learning.changed, session.framed, session.state_changed):
            signal.connect(self._refresh)
        self._refresh()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        action = self._actions.get(KEY_NAMES.get(event.key(), event.text().upper()))
        if self.active_learning.question is None or action is None:
            super().keyPressEvent(event)
        else:
            action()

    def _toggle(self) -> None:
        if self.active_learning.active:
            self.active_learning.stop()
        else:
            self.active_learning.start()
            self.setFocus()

    def _refresh(self) -> None:
        learning, seg = self.active_learning, self.session.segmentation
        self.button.setChecked(learning.active)
        can_ask = self.session.array_run is not None and not (seg is not None and seg.plan.source.is_chunked)
        self.button.setEnabled(learning.active or can_ask)
        self.line.set_text(learning.text + (f"\n{QUERY_KEYS}" if learning.question is not None else ""))
        layers: list[Layer] = [] if seg is None else [*seg.layers.all(), *seg.plan.source.image_layers]
        self._bind([self.session.viewer, *layers] if learning.active else [])

    def _bind(self, keymaps: list[Any]) -> None:
        """Bind the keys of the viewer and of every layer that may be selected, which has keys for its own tools."""
        if [id(x) for x in keymaps] == [id(x) for x in self._bound]:
            return
        for key, action in self._actions.items():
            for keymap in self._bound:
                keymap.bind_key(key, None)
            for keymap in keymaps:
                keymap.bind_key(key, lambda _, action=action: action(), overwrite=True)
        self._bound = keymaps


# As many as are needed to see a chain that has converged elsewhere, and as most computers have cores for.
SEVERAL = 4
SEVERAL_TIP = (
    f"Restart with {SEVERAL} chains from different states; settings and locks stay. If the chains agree, the result "
    "does not depend on the start. The best sample of all chains is kept"
)
ONE_TIP = f"One chain cannot show convergence; run {SEVERAL} and compare"
ALL_TIP = (
    "Whether chains from different starts agree on log posterior, number and sizes of clusters, and every edge (R-hat "
    "near 1, enough effective samples)"
)


class ConvergenceRow(QWidget):  # type: ignore[misc]
    """The diagnostic summary, and a button where there is only one chain, which calls `run_several`."""

    def __init__(self, run_several: Callable[[], None]) -> None:
        super().__init__()
        self.line = ElidedLabel("verdict", 3)
        self.several = make_button(f"Run {SEVERAL} chains", SEVERAL_TIP, run_several)
        make_row((self.line, 1), self.several, parent=self).setAlignment(self.several, Qt.AlignmentFlag.AlignTop)
        self.refresh(False)

    def refresh(self, can_run: bool, frame: Frame | None = None) -> None:
        text, figures = split_figures("" if frame is None else frame.verdict)
        is_one = frame is not None and bool(text) and len(frame.traces) == 1
        tip = "\n".join(filter(None, (figures, ONE_TIP if is_one else ALL_TIP)))
        self.line.set_text(text, tip if text else "")
        self.several.setVisible(is_one)
        self.several.setEnabled(can_run)


def split_figures(summary: str) -> tuple[str, str]:
    """Split a diagnostic summary into a sentence and its figures.

    >>> split_figures("one chain, not settled yet: run longer (log posterior: R-hat 1.30)")
    ('One chain, not settled yet: run longer.', 'Log posterior: R-hat 1.30.')
    """
    before, _, rest = summary.partition(" (")
    figures, _, after = rest.rpartition(")")
    first, second = (f"{text[0].upper()}{text[1:]}." if text else "" for text in (before + after, figures))
    return first, second


REGION_HINT = "Point at a region to learn about it."


class RegionLabel(ElidedLabel):
    """Two lines about the region under the mouse, or about what another widget describes."""

    def __init__(self, session: Session) -> None:
        super().__init__("region", 2)
        self.session = session
        self.show_text("")

    def show_text(self, text: str, is_of_region: bool = False) -> None:
        self._subject = self.session.array_run if text else None  # the run that it is about
        self._is_of_region = is_of_region
        self.set_text(text or REGION_HINT)

    def refresh(self) -> None:
        """Clear what is about an earlier run, and look a region up again, of which more may be known."""
        if self._subject is not None and self._subject is not self.session.array_run:
            self.show_text("")
        elif self._is_of_region:
            self.show_region()

    def show_region(self, event: Any = None) -> None:
        """Describe what is under the mouse: a region by its table, which is measured at rest, or else the cluster."""
        seg, frame = self.session.segmentation, self.session.frame
        if seg is None or frame is None or frame.table is None or seg.layers.labels is None:
            return
        position, layer, text = self.session.viewer.cursor.position, seg.layers.regions, ""
        if (
            layer is not None and layer.visible and not self.session.is_sampling and has_table(layer)
            and set(NEEDED) <= set(layer.features.columns)  # and it is not the table of another plugin
        ):  # fmt: skip
            row = find_row(layer, layer.features, position)
            text = "" if row is None else describe_region(layer.features.iloc[row].to_dict(), frame.kind)
        text = text or describe_cluster_at(seg.layers.labels, position, frame.table, seg.plan.source.depth)
        if text:
            self.show_text(text, is_of_region=True)


STAGES = {
    "preparing": "Opening the image",
    "preview": "Segmenting a coarse copy",
    "planes": "Finding objects, slice by slice",
    "noise": "Denoising",
    "superpixels": "Making superpixels",
    "graph": "Building the graph",
    "features": "Computing features",
    "blocks": "Reading, making superpixels",
    "assembly": "Joining the blocks",
    "start": "Starting the chain",
    "compiling": "Compiling, once on this machine",
}


class ProgressRow(QWidget):  # type: ignore[misc]
    """Progress bar and counters of a session."""

    def __init__(self, session: Session) -> None:
        super().__init__()
        self.session = session
        self.bar = QtWidgets.QProgressBar(textVisible=True)
        self.status = ElidedLabel("status")
        layouts.make_column(self.bar, self.status, parent=self, spacing=6)

    def refresh(self, outlook: str, frame: Frame | None = None) -> None:
        """Show the present stage, else a frame, else what a run would begin with."""
        session, stage = self.session, self.session.stage
        if stage is None or stage.name != "sampling":  # every other stage waits for the compiler
            stage = compiling_stage() or stage
        if stage is not None and stage.name != "sampling":
            self._show(stage.done, stage.total, "%p %" if stage.total else "", describe_stage(stage))
        elif frame is None:
            self._show(0, 1, "", outlook)
        else:
            left = (frame.target - frame.sweep) / frame.rate if frame.rate else 0.0
            time_left = f", {format_time(left)} left" if session.state == "running" and left > 0 else ""
            run, text = session.run, format_count(frame.n_clusters, "cluster")
            if run is not None and len(run.jobs) > 1 and session.state in ("running", "paused"):
                text = f"Slice {run.job_index + 1} of {len(run.jobs)}. {text}"
            if frame.n_regions:
                text += f", {format_count(frame.n_regions, frame.kind)}"
            text += f", best {frame.best:,.1f}"
            tip = f"Best: log posterior of the best sample, found at sweep {frame.best_sweep:,}"
            if frame.rate:
                text, tip = f"{text}, {frame.rate:,.0f}/s", f"{tip}\n/s: sweeps a second"
            sweeps = f"{frame.sweep:,} / {frame.target:,} sweeps{time_left}"
            self._show(frame.sweep, max(frame.target, 1), sweeps, text, tip)

    def _show(self, value: int, maximum: int, bar_text: str, text: str, tip: str = "") -> None:
        """Fill the bar; Qt paints it, and the window around it, at every change unless it may wait for its turn."""
        self.bar.setUpdatesEnabled(False)
        self.bar.setRange(0, maximum)
        self.bar.setValue(value)
        self.bar.setFormat(bar_text)
        self.bar.setUpdatesEnabled(True)
        self.status.set_text(text, tip)


def describe_stage(stage: Stage) -> str:
    """Describe a stage of the preparation.

    >>> describe_stage(Stage("blocks", 12, 64)), describe_stage(Stage("features"))
    ('Reading, making superpixels: block 12 of 64', 'Computing features ...')
    """
    title = STAGES.get(stage.name, stage.name.replace("-", " ").capitalize())
    unit = "block " if stage.name == "blocks" else ""
    return f"{title}: {unit}{stage.done:,} of {stage.total:,}" if stage.total else f"{title} ..."


def format_time(seconds: float) -> str:
    """Format a duration for people.

    >>> format_time(4.2), format_time(200), format_time(8000)
    ('4 s', '3 min', '2.2 h')
    """
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
