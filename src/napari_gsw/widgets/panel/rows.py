"""The buttons of a run: the first one stands out, for it is what a newcomer looks for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

from napari.layers import Layer
from napari.utils.theme import get_theme
from qtpy.QtCore import Qt, Signal
from qtpy.QtGui import QKeyEvent
from qtpy.QtWidgets import (
    QButtonGroup,
    QGridLayout,
    QHBoxLayout,
    QLabel,
    QProgressBar,
    QPushButton,
    QSizePolicy,
    QVBoxLayout,
    QWidget,
)

from napari_gsw.core.pipeline.stage import Stage
from napari_gsw.core.pipeline.warm_up import compiling_stage
from napari_gsw.core.settings import setting_fields
from napari_gsw.core.settings.presets import PRESETS
from napari_gsw.widgets.common.collapsible import RowHeading
from napari_gsw.widgets.common.labels import ElidedLabel, make_button
from napari_gsw.widgets.common.setting_widgets import SettingWidget, setting_title
from napari_gsw.widgets.common.tab_order import set_tab_order
from napari_gsw.widgets.common.undo import UndoStack
from napari_gsw.widgets.layers.cursor import NEEDED, describe_cluster_at, describe_region
from napari_gsw.widgets.layers.image_source import AxisGuess, AxisMeaning
from napari_gsw.widgets.panel.form import FormValues, RunEstimate, SettingsForm, count_clusters, count_sites, preset_tip
from napari_gsw.widgets.session.array_run import Frame
from napari_gsw.widgets.session.object_editor import EDIT_KEYS, Action
from napari_gsw.widgets.session.session import Session
from napari_gsw.widgets.table.outlines import find_row, has_table

RUN_TIPS = {
    "run": "Segment the image, or go on with what is shown (Ctrl+Alt+R)",
    "pause": "Hold the chain after the sweep that it is at, or let it go on (Ctrl+Alt+R)",
    "step": "One sweep (Ctrl+Alt+N)",
    "stop": "End the chain and keep what it has come to (Ctrl+Alt+X)",
    "reset": "Forget the chain, its paint and its locks, and start afresh; Ctrl+Z brings them back",
}
# The longest word of a button that has several, so that none changes its width.
WIDEST = {"run": "Continue", "pause": "Resume"}


class RunRow(QWidget):  # type: ignore[misc]
    """One button for each thing that can be done to a run.

    Parameters
    ----------
    slots : what each button does, by the names of `TIPS`.
    """

    def __init__(self, slots: Mapping[str, Callable[[], None]]) -> None:
        super().__init__()
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(4)
        self.buttons: dict[str, QPushButton] = {}
        for name, tip in RUN_TIPS.items():
            button = self.buttons[name] = make_button(name.capitalize(), tip, slots[name])
            if name in WIDEST:
                button.setText(WIDEST[name])
                button.setMinimumWidth(button.sizeHint().width())
                button.setText(name.capitalize())
            # The one with a colour of its own is two pixels lower than the others: all are as high as the row.
            button.setSizePolicy(QSizePolicy.Policy.Minimum, QSizePolicy.Policy.MinimumExpanding)
            row.addWidget(button, 1)
        self.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Fixed)

    def refresh(self, session: Session, possible: bool, goes_on: bool) -> None:
        """Follow a session.

        Parameters
        ----------
        possible : whether there can be a run. goes_on : whether it would go on with what is shown.
        """
        for name, button in self.buttons.items():
            button.setEnabled(session.can(name) and (possible or name not in ("run", "step")))
        self.buttons["pause"].setText("Resume" if session.state == "paused" else "Pause")
        self.buttons["run"].setText("Continue" if session.state == "done" and goes_on else "Run")

    def follow_theme(self, name: str) -> None:
        """Give Run the colour that a theme has for what matters now."""
        theme: Any = get_theme(name)
        colours = f"background-color: {theme.current.as_hex()}; color: {theme.text.as_hex()}"
        self.buttons["run"].setStyleSheet(f"QPushButton:enabled {{ {colours}; font-weight: 600; }}")


KEEP_TIP = (
    "What you paint stays as you painted it, is outlined, and teaches the chain what else belongs to it; the eraser "
    "frees it"
)
HINT_TIP = "What you paint is where the chain goes on from; it may change it again"


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

    def __init__(self, keep: bool, only_painted: SettingWidget) -> None:
        super().__init__()
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(4)
        self.keep, self.hint = QPushButton("Keep"), QPushButton("Hint")
        self._group = QButtonGroup(self)
        row.addWidget(RowHeading("Strokes"))
        for button, tip in ((self.keep, KEEP_TIP), (self.hint, HINT_TIP)):
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
        set_tab_order(self.keep, self.hint, only_painted.box)

    def set_keep(self, keep: bool) -> None:
        """Press one of the two, as the user would."""
        (self.keep if keep else self.hint).setChecked(True)


EDIT_TIPS: dict[Action, str] = {
    "accept": "Hold the {word} as it is: later runs leave it alone. Button: the selected label; key {key}: the {word} "
    "under the mouse",
    "merge": "Draw from one {word} into others to make them one (key {key}); the brush with a label that is there does "
    "the same",
    "cut": "Draw a line right across {a} {word} to make it two (key {key}); the eraser does the same",
    "delete": "{fate} Button: the selected label; key {key}: the {word} under the mouse",
    "draw": "Paint a new {word} (key {key}); press it again for the next one",
}
FATES = {
    "object": "The object becomes background.",
    "region": "The region goes to its neighbours.",
}
TOOLS: tuple[Action, ...] = ("merge", "cut", "draw")


class EditRow(QWidget):  # type: ignore[misc]
    """One button for each edit; those of the tools stay down while the tool is in hand."""

    def __init__(self, session: Session) -> None:
        super().__init__()
        self.session = session
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(4)
        self.heading = RowHeading()
        row.addWidget(self.heading)
        self.buttons: dict[Action, QPushButton] = {}
        for action in EDIT_TIPS:
            button = make_button(action.capitalize(), "", partial(session.editor.act, action))
            button.setCheckable(action in TOOLS)
            button.setMinimumWidth(0)
            self.buttons[action] = button
            row.addWidget(button, 1)
        session.editor.changed.connect(self.refresh)
        for signal in (session.framed, session.state_changed):
            signal.connect(self.refresh)
        self.refresh()

    def refresh(self) -> None:
        """Say what is edited, and which tool is in hand."""
        editor, frame = self.session.editor, self.session.frame
        word = "region" if frame is None else frame.kind
        self.setEnabled(editor.layer is not None and self.session.array_run is not None)
        self.heading.setText(f"{word.capitalize()}s")
        a = "an" if word == "object" else "a"
        for action, button in self.buttons.items():
            tip = EDIT_TIPS[action].format(word=word, a=a, key=EDIT_KEYS[action], fate=FATES[word])
            button.setToolTip(tip)
            button.setChecked(editor.tool == action)


QUERY_TIP = (
    "Go to the place whose label would teach most, and ask for it. Keys: 1 to 9 for that label, Enter or Y for the "
    "likeliest, N or Esc to skip; or paint it. Press again to stop"
)
QUERY_KEYS = "Keys 1-9, Enter: likeliest, N: skip"


class QueryRow(QWidget):  # type: ignore[misc]
    """Asks until the button is pressed again; the keys work on the canvas and in this row."""

    def __init__(self, session: Session) -> None:
        super().__init__()
        self.session, self.active_learning = session, session.active_learning
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        self.button = QPushButton("Ask me")
        self.button.setCheckable(True)
        self.button.setToolTip(QUERY_TIP)
        self.button.setFocusPolicy(Qt.FocusPolicy.NoFocus)  # Enter is an answer, not another click
        self.button.clicked.connect(self._clicked)
        self.line = ElidedLabel("question", 2)
        row.addWidget(self.button)
        row.addWidget(self.line, 1)
        self.setFocusPolicy(Qt.FocusPolicy.ClickFocus)
        # The layer whose keys are ours; the viewer's come after those of the layer that is selected.
        self._bound: list[Any] = []
        session.connections.on_close(self._unbind)
        self.active_learning.changed.connect(self._refresh)
        session.framed.connect(self._refresh)
        session.state_changed.connect(self._refresh)
        self._refresh()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Answers, while the row has the focus."""
        names = {Qt.Key.Key_Return: "Enter", Qt.Key.Key_Enter: "Enter", Qt.Key.Key_Escape: "Escape"}
        action = self._actions().get(names.get(event.key(), event.text().upper()))
        if self.active_learning.question is None or action is None:
            super().keyPressEvent(event)
        else:
            action()

    def _actions(self) -> dict[str, Callable[[], None]]:
        """What each key does."""
        active_learning = self.active_learning
        keys: dict[str, Callable[[], None]] = {
            str(digit): partial(active_learning.answer, digit) for digit in range(1, 10)
        }
        return keys | {
            "Enter": active_learning.answer,
            "Y": active_learning.answer,
            "N": active_learning.skip,
            "Escape": active_learning.skip,
        }

    def _clicked(self) -> None:
        if self.active_learning.active:
            self.active_learning.stop()
        else:
            self.active_learning.start()
            self.setFocus()

    def _refresh(self) -> None:
        active_learning = self.active_learning
        self.button.setChecked(active_learning.active)
        array_run = self.session.array_run
        is_chunked = self.session.segmentation is not None and self.session.segmentation.plan.source.is_chunked
        self.button.setEnabled(active_learning.active or (array_run is not None and not is_chunked))
        self.line.set_text(active_learning.text + (f"\n{QUERY_KEYS}" if active_learning.question is not None else ""))
        if active_learning.active:
            self._bind()
        else:
            self._unbind()

    # ---- keys on the canvas

    def _bind(self) -> None:
        seg = self.session.segmentation
        # Whichever of them is selected: it is asked before the viewer, and has keys of its own for its tools.
        layers: list[Layer] = [] if seg is None else [*seg.layers.all(), *seg.plan.source.image_layers]
        wanted = [self.session.viewer, *layers]
        if len(wanted) == len(self._bound) and all(a is b for a, b in zip(wanted, self._bound, strict=True)):
            return
        self._unbind()
        for thing in wanted:
            for key, action in self._actions().items():
                thing.bind_key(key, lambda _, action=action: action(), overwrite=True)
        self._bound = wanted

    def _unbind(self) -> None:
        """Give the keys back; it touches no Qt object."""
        for thing in self._bound:
            for key in self._actions():
                thing.bind_key(key, None)
        self._bound = []


# More would not fit into a narrow panel.
IN_A_ROW = 3


class PresetStep:
    """The choice of a preset, as a step that can be undone: it took the place of all that was in the form.

    Attributes
    ----------
    owner : the row. before, after : what was in the form.
    """

    keeps_chains = False
    is_obsolete = False

    def __init__(self, owner: PresetRow, before: FormValues, after: FormValues) -> None:
        self.owner, self.before, self.after = owner, before, after

    def undo(self) -> None:
        self.owner.put(self.before)

    def redo(self) -> None:
        self.owner.put(self.after)


class PresetRow(QWidget):  # type: ignore[misc]
    """A few buttons, of which one is pressed; it fills the form.

    Parameters
    ----------
    form : what a preset is put into. steps : what can be undone.
    """

    def __init__(self, form: SettingsForm, steps: UndoStack) -> None:
        super().__init__()
        self._form, self._steps = form, steps
        self._group = QButtonGroup(self)
        grid = QGridLayout(self)
        grid.setContentsMargins(0, 0, 0, 0)
        grid.setSpacing(4)
        self.heading = RowHeading("Preset")
        grid.addWidget(self.heading, 0, 0)
        for place, name in enumerate(PRESETS):
            button = QPushButton(name.capitalize())
            button.setCheckable(True)
            button.setToolTip(preset_tip(name))
            button.setProperty("preset", name)
            self._group.addButton(button)
            grid.addWidget(button, place // IN_A_ROW, 1 + place % IN_A_ROW)
            grid.setColumnStretch(1 + place % IN_A_ROW, 1)
        self._group.buttonClicked.connect(lambda button: self._clicked(button.property("preset")))

    def button(self, name: str) -> QPushButton:
        """The button of a preset."""
        return next(b for b in self._group.buttons() if b.property("preset") == name)

    def choose(self, name: str) -> None:
        """Press the button of a preset, and set every control as it says."""
        self.button(name).setChecked(True)
        self._form.choose_preset(name)

    def put(self, filling: FormValues) -> None:
        """Fill the form as it was."""
        self.button(filling.preset).setChecked(True)
        self._form.put(filling)

    def _clicked(self, name: str) -> None:
        before = self._form.filling()
        self.choose(name)
        after = self._form.filling()
        if after != before:
            self._steps.push(PresetStep(self, before, after))

    def mark(self, changes: list[str]) -> None:
        """Show which settings differ from the chosen preset: with a star where it moves nothing."""
        known = setting_fields()
        words = f"Changed: {', '.join(setting_title(name, known[name]) for name in changes)}." if changes else ""
        self.heading.setText("Preset *" if changes else "Preset")
        self.heading.setToolTip(words)
        for button in self._group.buttons():
            name, changed = button.property("preset"), button.isChecked() and bool(changes)
            tip = preset_tip(name)
            button.setToolTip(tip + (f"\n{words} Click to undo." if changed else ""))


AXIS_TIPS: dict[AxisMeaning, str] = {
    "channels": "The planes show the same place in different colours: they are segmented together",
    "time": "The planes show the same place at different times: each is segmented on its own",
    "depth": "The planes lie above each other: they are one volume",
}


class AxisRow(QWidget):  # type: ignore[misc]
    """Three answers, of which one is down.

    Signals
    -------
    answered : the user has chosen one of `TIPS`.
    """

    answered = Signal(str)

    def __init__(self) -> None:
        super().__init__()
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(4)
        self.words = QLabel()
        row.addWidget(self.words)
        self._group = QButtonGroup(self)
        self.buttons: dict[AxisMeaning, QPushButton] = {}
        for meaning, tip in AXIS_TIPS.items():
            button = self.buttons[meaning] = QPushButton(meaning.capitalize())
            button.setCheckable(True)
            button.setToolTip(tip)
            button.clicked.connect(lambda _, meaning=meaning: self.answered.emit(meaning))
            self._group.addButton(button)
            row.addWidget(button, 1)

    def ask(self, question: AxisGuess) -> None:
        """Ask about an image, with the likeliest answer down."""
        self.words.setText(f"{question.planes} planes:")
        self.buttons[question.guess].setChecked(True)


# As many as are needed to see a chain that has settled elsewhere, and as most computers have cores for.
SEVERAL = 4
SEVERAL_TIP = (
    f"Start {SEVERAL} chains afresh from different states, with these settings; locks stay. If they come to the same, "
    "the result does not hang on where one of them began. The best state of all is kept"
)
ONE_TIP = (
    "One chain can show that it still drifts, not that it has looked everywhere: another may settle at a better state. "
    "Only chains that began apart and came to the same say more"
)
ALL_TIP = (
    "Whether the chains, which began apart, agree on log posterior, number of clusters, their sizes and every edge "
    "(R-hat near 1, enough effective samples)"
)


class ConvergenceRow(QWidget):  # type: ignore[misc]
    """The line below the trace.

    Signals
    -------
    several_wanted : the user wants several chains.
    """

    several_wanted = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.line = ElidedLabel("verdict", 3)
        self.several = make_button(f"Run {SEVERAL} chains", SEVERAL_TIP, self.several_wanted.emit)
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(4)
        row.addWidget(self.line, 1)
        row.addWidget(self.several, 0, Qt.AlignmentFlag.AlignTop)
        self.refresh(False)

    def refresh(self, possible: bool, frame: Frame | None = None) -> None:
        """Follow a frame; `possible` is whether there can be a run."""
        if frame is None or not frame.verdict:
            self.line.set_text("")
            self.several.setVisible(False)
            return
        alone = len(frame.traces) == 1
        words, figures = split_figures(frame.verdict)
        self.line.set_text(words, "\n".join(filter(None, (figures, ONE_TIP if alone else ALL_TIP))))
        self.several.setVisible(alone)
        self.several.setEnabled(possible)


def split_figures(verdict: str) -> tuple[str, str]:
    """A verdict as a sentence without figures, and the figures for whoever wants them.

    >>> plain("one chain, not settled yet: run longer (log posterior: R-hat 1.30)")
    ('One chain, not settled yet: run longer.', 'Log posterior: R-hat 1.30.')
    >>> plain("4 chains agree (R-hat 1.01, 210 effective samples)")
    ('4 chains agree.', 'R-hat 1.01, 210 effective samples.')
    """
    before, _, rest = verdict.partition(" (")
    figures, _, after = rest.rpartition(")")
    return _sentence(before + after), _sentence(figures)


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}." if text else ""


REGION_HINT = "Point at a region to learn about it."


class RegionLabel(ElidedLabel):
    """Two lines of text that never change their height."""

    def __init__(self, session: Session) -> None:
        super().__init__("region", 2)
        self.session = session
        # The run that the text is about; None if it is about none. The table that a region was last looked up in.
        self._subject: object = None
        self._table: object = None
        self.set_text(REGION_HINT)

    def tell(self, text: str) -> None:
        """Say something, or again what this line is for."""
        self._subject = self.session.array_run if text else None
        self._table = None
        self.set_text(text or REGION_HINT)

    def refresh(self) -> None:
        """Forget what was said about an earlier run, and look again at what was said of a region that has changed."""
        frame = self.session.frame
        if self._subject is not None and self._subject is not self.session.array_run:
            self.tell("")
        elif self._table is not None and frame is not None and frame.table is not self._table:
            self.look()

    def renew(self) -> None:
        """What is said of a region may be known better now."""
        if self._table is not None:
            self.look()

    def look(self, event: Any = None) -> None:
        """Tell about the region under the mouse."""
        seg, frame = self.session.segmentation, self.session.frame
        if seg is None or frame is None or frame.table is None or seg.layers.labels is None:
            return
        where = self.session.viewer.cursor.position
        text = self._region_at(where) or describe_cluster_at(
            seg.layers.labels, where, frame.table, seg.plan.source.depth
        )
        if text:
            self.tell(text)
            self._table = frame.table

    def _region_at(self, where: Any) -> str:
        """What the table says of the region on the screen, which is measured when a run has come to rest."""
        seg, frame = self.session.segmentation, self.session.frame
        layer = None if seg is None else seg.layers.regions
        if (
            layer is None
            or frame is None
            or not layer.visible
            or self.session.commands.sampling
            or not has_table(layer)
        ):
            return ""
        if not set(NEEDED) <= set(layer.features.columns):
            return ""  # somebody else's table
        row = find_row(layer, layer.features, where)
        return "" if row is None else describe_region(layer.features.iloc[row].to_dict(), frame.kind)


class StageWords(NamedTuple):
    """What a person reads while a stage of the preparation goes on, and what it is counted in."""

    title: str
    unit: str = ""


STAGES = {
    "preparing": StageWords("Opening the image"),
    "preview": StageWords("Looking at a coarse copy"),
    "planes": StageWords("Looking at planes"),
    "noise": StageWords("Taking off noise"),
    "superpixels": StageWords("Making superpixels"),
    "graph": StageWords("Building the graph"),
    "features": StageWords("Counting words"),
    "blocks": StageWords("Reading, making superpixels", "block"),
    "assembly": StageWords("Joining the blocks"),
    "start": StageWords("Starting the chain"),
    "compiling": StageWords("Compiling, once on this machine"),
}


class ProgressRow(QWidget):  # type: ignore[misc]
    """Bar and counters of a session."""

    def __init__(self, session: Session) -> None:
        super().__init__()
        self.session = session
        self.bar = QProgressBar()
        self.bar.setTextVisible(True)
        self.status = ElidedLabel("status")
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(6)
        column.addWidget(self.bar)
        column.addWidget(self.status)

    def refresh(self, expectation: RunEstimate | None, frame: Frame | None = None) -> None:
        """Follow a frame; `expectation` is what to speak of where there is none."""
        stage = self.session.commands.stage
        if stage is None or stage.name != "sampling":  # whatever it does, this is what it waits for
            stage = compiling_stage() or stage
        if stage is not None and stage.name != "sampling":
            self._fill_bar(stage.done, stage.total, "%p %" if stage.total else "")
            self.status.set_text(describe_stage(stage))
        elif frame is None:
            self._fill_bar(0, 1, "")
            self.status.set_text("" if expectation is None else describe_expectation(expectation))
        else:
            self._show_frame(frame)

    def _show_frame(self, frame: Frame) -> None:
        left = (frame.target - frame.sweep) / frame.rate if frame.rate else 0.0
        running = self.session.state == "running" and left > 0
        sweeps = f"{frame.sweep:,} / {frame.target:,} sweeps{f', {_time(left)} left' if running else ''}"
        self._fill_bar(frame.sweep, max(frame.target, 1), sweeps)
        run, many = self.session.run, ""
        if run is not None and len(run.jobs) > 1 and self.session.state in ("running", "paused"):
            many = f"Slice {run.place + 1} of {len(run.jobs)}. "
        speed = f", {frame.rate:,.0f}/s" if frame.rate else ""
        plural = "" if frame.n_clusters == 1 else "s"
        regions = f", {frame.n_regions} {frame.kind}{'' if frame.n_regions == 1 else 's'}" if frame.n_regions else ""
        words = f"{many}{frame.n_clusters} cluster{plural}{regions}, best {frame.best:,.1f}{speed}"
        more = f"Best: log posterior of the best state, of sweep {frame.best_sweep:,}"
        self.status.set_text(words, more + ("\n/s: sweeps a second" if frame.rate else ""))

    def _fill_bar(self, value: int, most: int, text: str) -> None:
        """Qt paints a progress bar, and the window around it, at every change; here it may wait for its turn."""
        self.bar.setUpdatesEnabled(False)
        self.bar.setRange(0, most)
        self.bar.setValue(value)
        self.bar.setFormat(text)
        self.bar.setUpdatesEnabled(True)


def describe_stage(stage: Stage) -> str:
    """What goes on, in words.

    >>> describe_stage(Stage("blocks", 12, 64)), describe_stage(Stage("features"))
    ('Reading, making superpixels: block 12 of 64', 'Counting words ...')
    """
    words = STAGES.get(stage.name, StageWords(stage.name.replace("-", " ").capitalize()))
    if not stage.total:
        return f"{words.title} ..."
    unit = f"{words.unit} " if words.unit else ""
    return f"{words.title}: {unit}{stage.done:,} of {stage.total:,}"


def describe_expectation(expectation: RunEstimate) -> str:
    """What a run would begin with, in words; nothing if it is not known.

    >>> describe_expectation(Expectation(1000, False, 18.2))
    'About 1,000 sites; the prior expects 18 clusters.'
    """
    if expectation.sites is None or expectation.clusters is None:
        return ""
    return f"{count_sites(expectation).capitalize()}; the prior expects {count_clusters(expectation)}."


def _time(seconds: float) -> str:
    """A time as a person says it.

    >>> _time(4.2), _time(200), _time(8000)
    ('4 s', '3 min', '2.2 h')
    """
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
