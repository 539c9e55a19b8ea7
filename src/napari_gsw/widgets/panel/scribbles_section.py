"""Seeds and locks: what the chain has to heed."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from napari.layers import Layer
from qtpy.QtCore import Signal
from qtpy.QtWidgets import QFormLayout, QGridLayout, QListWidget

from napari_gsw.core.settings import setting_fields
from napari_gsw.widgets.common.collapsible import Section
from napari_gsw.widgets.common.labels import make_button
from napari_gsw.widgets.common.layer_choosers import LayerCombo
from napari_gsw.widgets.common.setting_widgets import SettingWidget, setting_title
from napari_gsw.widgets.layers.layer_metadata import is_labels
from napari_gsw.widgets.session.session import Session


class ScribblesSection(Section):
    """Paint corrects and teaches the chain; locks hold it; any Labels layer can be seeds.

    Parameters
    ----------
    controls : those of the settings, of which two are about strokes.

    Signals
    -------
    changed : another layer of seeds.
    canvas_wanted : the user wants to paint before the first run.
    """

    changed = Signal()
    canvas_wanted = Signal()

    def __init__(self, session: Session, controls: Mapping[str, SettingWidget]) -> None:
        super().__init__(
            "Strokes and locks", "Correct and teach the chain by painting, and hold what is right", "widget.md#painting"
        )
        self.session = session
        self.seeds = LayerCombo(self._fits, [("None", None)])
        self.seeds.setToolTip("A Labels layer whose labels are clamped when a run starts afresh")
        self.seeds.chosen.connect(self.changed)
        row = QFormLayout()
        row.setContentsMargins(0, 0, 0, 0)
        row.addRow("Seeds", self.seeds)
        for name in ("steering", "painted_detail"):
            row.addRow(setting_title(name, setting_fields()[name]), controls[name])
            row.labelForField(controls[name]).setToolTip(controls[name].toolTip())
        corrections = session.corrections
        self.canvas = make_button(
            "Paint first", "Make the label layer now, to paint seeds before the first run", self.canvas_wanted.emit
        )
        self.lock_painted = make_button(
            "Lock painted", "Hold every site painted so far where it is (Ctrl+Alt+L)", corrections.lock_painted
        )
        self.lock_label = make_button(
            "Lock label", "Hold the whole region of the layer's selected label", self._lock_label
        )
        self.undo = make_button(
            "Undo", "Take back the last stroke, lock, edit, Reset, preset or superpixel (Ctrl+Z)", session.steps.undo
        )
        self.redo = make_button("Redo", "Do it again (Ctrl+Shift+Z)", session.steps.redo)
        session.steps.changed.connect(self._count_steps)
        self.unlock = make_button("Unlock", "Let the chosen locks go; all, if none is chosen", self._unlock)
        self.locks = QListWidget()
        self.locks.setMaximumHeight(84)
        self.locks.setSelectionMode(QListWidget.SelectionMode.ExtendedSelection)
        self.locks.setToolTip("What is locked; choose some and press Unlock")
        grid = QGridLayout()
        grid.setContentsMargins(0, 0, 0, 0)
        grid.setSpacing(4)
        for i, button in enumerate(
            (self.canvas, self.lock_painted, self.lock_label, self.undo, self.redo, self.unlock)
        ):
            grid.addWidget(button, i // 3, i % 3)
        self.add_line(
            "Paint, fill or erase on the result layer, also while it runs: the sites under the brush take the label, a "
            "new label makes a new cluster, the eraser leaves a site to the chain."
        )
        self.content.addLayout(row)
        self.content.addLayout(grid)
        self.content.addWidget(self.locks)
        self._shown: list[tuple[int, int]] | None = None
        self.refresh()

    def _fits(self, layer: Layer) -> bool:
        seg = self.session.segmentation
        ours = [] if seg is None else seg.layers.all()
        return is_labels(layer) and not any(layer is x for x in ours)

    def _lock_label(self) -> None:
        seg = self.session.segmentation
        if seg is not None and seg.layers.labels is not None:
            self.session.corrections.lock_label(int(seg.layers.labels.selected_label))

    def _unlock(self) -> None:
        chosen = [self._shown[self.locks.row(item)][0] for item in self.locks.selectedItems()] if self._shown else []
        for number in chosen or [None]:
            self.session.corrections.unlock(number)

    def refresh(self) -> None:
        """List the locks of the array on the screen."""
        frame = self.session.frame
        rows: list[tuple[int, int]] = []
        strokes = 0
        if frame is not None:
            numbers, counts = np.unique(frame.numbers[frame.locks], return_counts=True)
            rows = list(zip(numbers.tolist(), counts.tolist(), strict=True))
            strokes = frame.corrections
        if rows != self._shown:
            self._shown = rows
            self.locks.clear()
            self.locks.addItems([f"label {number}: {_sites(count)}" for number, count in rows])
            self.locks.setVisible(bool(rows))
        locked = sum(count for _, count in rows)
        facts = [f"{strokes} correction{'s' * (strokes != 1)}"] if strokes else []
        facts += [f"{_sites(locked)} locked"] if locked else []
        seeds = self.seeds.value()
        facts += [f"seeds from {seeds.name}"] if seeds is not None else []
        self.set_summary(", ".join(facts) or "paint to correct")
        alive = self.session.array_run is not None
        for button in (self.lock_painted, self.lock_label):
            button.setEnabled(alive)
        self._count_steps()
        self.unlock.setEnabled(bool(rows))
        self.canvas.setEnabled(not alive and self.session.can("form"))

    def _count_steps(self) -> None:
        self.undo.setEnabled(self.session.steps.can_undo)
        self.redo.setEnabled(self.session.steps.can_redo)


def _sites(count: int) -> str:
    return f"{count:,} site{'s' * (count != 1)}"
