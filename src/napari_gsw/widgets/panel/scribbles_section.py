"""Scribbles and locks: how they correct and constrain a run, and which layer it starts from."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from napari.layers import Layer
from qtpy.QtCore import Signal
from qtpy.QtWidgets import QGridLayout, QListWidget

from napari_gsw.core.settings import setting_fields
from napari_gsw.widgets.common.collapsible import Section
from napari_gsw.widgets.common.labels import make_button
from napari_gsw.widgets.common.layer_choosers import LayerCombo
from napari_gsw.widgets.common.layouts import make_form
from napari_gsw.widgets.common.setting_widgets import SettingWidget, setting_title
from napari_gsw.widgets.layers.layer_metadata import is_labels
from napari_gsw.widgets.session.session import Session

PAINT_HINT = (
    "Paint, fill or erase on the result layer, also during a run: the superpixels under the brush take the label, a "
    "new label makes a new cluster, the eraser releases a superpixel."
)
UNDO_TIP = "Undo the last scribble, lock, edit, reset, preset or superpixel (Ctrl+Z)"


class ScribblesSection(Section):
    """Seeds, locks, undo and redo, and the settings of scribbles.

    Signals: `changed` when another layer of seeds is chosen, `canvas_wanted` when the user wants to paint before the
    first run.
    """

    changed = Signal()
    canvas_wanted = Signal()

    def __init__(self, session: Session, controls: Mapping[str, SettingWidget]) -> None:
        super().__init__("Strokes and locks", "Correct a run by painting, and lock what is right", "widget.md#painting")
        self.session = session
        self._rows: list[tuple[int, int]] | None = None
        self.seeds = LayerCombo(self._fits, [("None", None)])
        self.seeds.setToolTip("A Labels layer whose labels are locked when a run starts or restarts")
        self.seeds.chosen.connect(self.changed)
        form = make_form()
        form.addRow("Seeds", self.seeds)
        for name in ("steering", "painted_detail"):
            form.addRow(setting_title(name, setting_fields()[name]), controls[name])
            form.labelForField(controls[name]).setToolTip(controls[name].toolTip())
        steps, corrections = session.steps, session.corrections
        self.canvas = make_button(
            "Paint first", "Make the label layer now, to paint seeds before the first run", self.canvas_wanted.emit
        )
        self.lock_painted = make_button(
            "Lock painted", "Lock every superpixel painted so far (Ctrl+Alt+L)", corrections.lock_painted
        )
        self.lock_label = make_button("Lock label", "Lock the region of the layer's selected label", self._lock_label)
        self.undo = make_button("Undo", UNDO_TIP, steps.undo)
        self.redo = make_button("Redo", "Redo what was undone (Ctrl+Shift+Z)", steps.redo)
        self.unlock = make_button("Unlock", "Unlock the selected labels, or all if none is selected", self._unlock)
        steps.changed.connect(self._count_steps)
        self.locks = QListWidget()
        self.locks.setMaximumHeight(84)
        self.locks.setSelectionMode(QListWidget.SelectionMode.ExtendedSelection)
        self.locks.setToolTip("Locked labels; select some and press Unlock")
        grid = QGridLayout()
        grid.setContentsMargins(0, 0, 0, 0)
        grid.setSpacing(4)
        buttons = (self.canvas, self.lock_painted, self.lock_label, self.undo, self.redo, self.unlock)
        for index, button in enumerate(buttons):
            grid.addWidget(button, index // 3, index % 3)
        self.add_line(PAINT_HINT)
        self.content.addLayout(form)
        self.content.addLayout(grid)
        self.content.addWidget(self.locks)
        self.refresh()

    def _fits(self, layer: Layer) -> bool:
        seg = self.session.segmentation
        return is_labels(layer) and (seg is None or all(layer is not own for own in seg.layers.all()))

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
        rows: list[tuple[int, int]] = []
        facts = []
        if frame is not None:
            labels, counts = np.unique(frame.numbers[frame.locks], return_counts=True)
            rows = list(zip(labels.tolist(), counts.tolist(), strict=True))
            if frame.corrections:
                facts.append(f"{frame.corrections} correction{'s' * (frame.corrections != 1)}")
        if rows != self._rows:
            self._rows = rows
            self.locks.clear()
            self.locks.addItems([f"label {label}: {_count_sites(count)}" for label, count in rows])
            self.locks.setVisible(bool(rows))
        if rows:
            facts.append(f"{_count_sites(sum(count for _, count in rows))} locked")
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


def _count_sites(count: int) -> str:
    return f"{count:,} site{'s' * (count != 1)}"
