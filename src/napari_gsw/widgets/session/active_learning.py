"""Ask the user for the most informative label, one superpixel after the other.

The next query is computed as a command between two sweeps. The answer is a correction like any scribble.
"""

from __future__ import annotations

from collections import deque
from contextlib import suppress

import numpy as np
from qtpy.QtCore import QObject, Signal

from napari_gsw.core.array_types import BoolArray
from napari_gsw.core.interactive.interactive_run import InteractiveRun
from napari_gsw.core.posterior.active_learning import Query, next_query
from napari_gsw.widgets.layers.image_source import Position
from napari_gsw.widgets.session.corrections import Corrections

# Smallest probability with which a superpixel counts as following the answer.
FOLLOWS = 0.5
# Labels in the layer of the query.
ASKED, FOLLOWING = 1, 2
# Largest number of candidate labels in the text.
MAX_NAMED = 3


class ActiveLearning(QObject):  # type: ignore[misc]
    """Queries about the current segmentation, until the user stops them."""

    changed = Signal()  # another query, or none

    def __init__(self, corrections: Corrections, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.corrections, self.layer_view, self.controller = corrections, corrections.layer_view, corrections.controller
        self.active = False  # whether the user wants queries
        self.question: Query | None = None  # None while the next is computed
        self._position: Position = ()
        self._nothing_left = False
        self._is_submitted = False
        self._replies: deque[tuple[Position, InteractiveRun, Query | None]] = deque()
        self._skipped: dict[Position, BoolArray] = {}
        corrections.changed.connect(self._ask_again)

    @property
    def text(self) -> str:
        """The query as a sentence, or why there is none; empty if the user wants none."""
        if not self.active:
            return ""
        if self.question is not None:
            candidates = zip(self.question.numbers.tolist(), self.question.probabilities.tolist(), strict=True)
            names = [f"{number} ({100 * p:.0f} %)" for number, p in candidates]
            return f"Which label is this? {', '.join(names[:MAX_NAMED])}"
        if self._nothing_left:
            return "There is nothing left to ask."
        if self.controller.run is None:
            return "Press Run: too little is known yet for a question."
        return "Looking for the next question ..."

    def start(self) -> None:
        """Ask until :meth:`stop`."""
        self.active, self._nothing_left, self._is_submitted = True, False, False
        self._skipped.clear()
        self._replies.clear()
        self.update()
        self.changed.emit()

    def stop(self) -> None:
        """Stop asking; also when Qt has destroyed the panel already."""
        was_active, self.active, self.question = self.active, False, None
        if (seg := self.controller.segmentation) is not None:
            seg.layers.remove_question()
        if was_active:
            with suppress(RuntimeError):
                self.changed.emit()

    def answer(self, number: int | None = None) -> None:
        """Give the superpixel an existing label, or the most probable one for None."""
        question, array_run = self.question, self.controller.get_array_run(self._position)
        if question is None or array_run is None or array_run.frame is None:
            return
        number = int(question.numbers[0]) if number is None else number
        if number in question.numbers or number in array_run.frame.numbers:
            self._close()
            self.corrections.name_sites(self._position, [question.site], number)
            self.changed.emit()

    def skip(self) -> None:
        """Ask about something else, and not about superpixels that would have followed the answer."""
        if self.question is not None:
            skipped = self.question.propagation >= FOLLOWS
            skipped[self.question.site] = True
            self._skipped[self._position] = skipped | self._skipped.get(self._position, False)
            self._close()
            self.update()
            self.changed.emit()

    def update(self) -> None:
        """Show the next query if it has been computed, or have it computed once the chain allows it."""
        if not self.active or self.question is not None:
            return
        while self._replies:
            position, interactive, question = self._replies.popleft()
            self._is_submitted = False
            array_run = self.controller.get_array_run(position)
            # A query from before a correction may already be answered.
            if array_run is not None and array_run.interactive is interactive and array_run.is_up_to_date:
                self._show(position, question)
                return
        current, frame = self.controller.position, self.controller.frame
        if self._is_submitted or self._nothing_left or current is None or frame is None or not frame.is_estimated:
            return
        array_run = self.controller.array_run
        if array_run is frame.array_run and frame.n_commands_done == array_run.n_commands_sent:
            self._submit(current)

    def _submit(self, position: Position) -> None:
        skipped, replies = self._skipped.get(position), self._replies
        self._is_submitted = True

        def compute(interactive: InteractiveRun) -> None:
            is_current = skipped is not None and len(skipped) == interactive.problem.n
            numbers = interactive.named(interactive.summary.partition)
            query = next_query(interactive.summary, skipped if is_current else None, numbers)
            replies.append((position, interactive, query))

        self.controller.submit(position, compute)

    def _show(self, position: Position, question: Query | None) -> None:
        seg, array_run = self.controller.segmentation, self.controller.get_array_run(position)
        self.question, self._position, self._nothing_left = question, position, question is None
        if question is not None and seg is not None and array_run is not None and seg.layers.labels is not None:
            values = np.where(question.propagation >= FOLLOWS, FOLLOWING, 0)
            values[question.site] = ASKED
            image = np.asarray(array_run.paint(values))
            seg.layers.show_question(position, image)
            seg.layers.centre_view(position, image, ASKED)
        self.changed.emit()

    def _ask_again(self) -> None:
        """Compute the query anew after any correction: a scribble is an answer, too."""
        if self.active:
            self._nothing_left = False
            self._close()
            self.changed.emit()

    def _close(self) -> None:
        self.question = None
        if (seg := self.controller.segmentation) is not None:
            seg.layers.hide_question()
