"""Ask me: shows a person the place whose label would teach most, takes the answer, and asks again.

Questions are composed where the chain runs, as an order between two sweeps; the answer is a correction like any stroke.
"""

from __future__ import annotations

from collections import deque
from contextlib import suppress

import napari
import numpy as np
from qtpy.QtCore import QObject, Signal

from napari_gsw.core.array_types import BoolArray
from napari_gsw.core.interactive.interactive_run import InteractiveRun
from napari_gsw.core.posterior.active_learning import Query, next_query
from napari_gsw.widgets.layers.image_source import Position
from napari_gsw.widgets.session.array_run import ArrayRun
from napari_gsw.widgets.session.corrections import Corrections
from napari_gsw.widgets.session.layer_view import LayerView
from napari_gsw.widgets.session.run_worker import CommandQueue

# A site follows the one that is asked about if this is how probable it is, at least.
FOLLOWS = 0.5
# What outlines stand for in the layer of the question.
ASKED, FOLLOWING = 1, 2
# Candidates that are named.
MAX_NAMED = 3


class ActiveLearning(QObject):  # type: ignore[misc]
    """Questions about the segmentation that the orders work on, one after the other until a person stops.

    Signals
    -------
    changed : another question, or none.

    Attributes
    ----------
    active : whether a person wants to be asked.
    question : what is asked now, or None while the chain makes up its mind.
    """

    changed = Signal()

    def __init__(
        self,
        viewer: napari.Viewer,
        commands: CommandQueue,
        canvas: LayerView,
        corrections: Corrections,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self.viewer, self.commands, self.canvas, self.corrections = viewer, commands, canvas, corrections
        self.active = False
        self.question: Query | None = None
        self._position: Position = ()
        self._nothing_left = False
        # Whether a question is on its way, and those that have come.
        self._ordered = False
        self._replies: deque[tuple[Position, InteractiveRun, Query | None]] = deque()
        self._skipped: dict[Position, BoolArray] = {}
        corrections.changed.connect(self._corrected)

    @property
    def text(self) -> str:
        """What there is to say to a person; nothing if nobody wants to be asked."""
        if not self.active:
            return ""
        if self.question is not None:
            some = list(zip(self.question.numbers.tolist(), self.question.probabilities.tolist(), strict=True))[
                :MAX_NAMED
            ]
            return f"Which label is this? {', '.join(f'{number} ({100 * p:.0f} %)' for number, p in some)}"
        if self._nothing_left:
            return "There is nothing left to ask."
        if self.commands.run is None:
            return "Press Run: too little is known yet for a question."
        return "Looking for the next question ..."

    # ---- what the user does

    def start(self) -> None:
        """Ask, and go on asking."""
        self.active, self._nothing_left, self._ordered = True, False, False
        self._skipped.clear()
        self._replies.clear()
        self.look()
        self.changed.emit()

    def stop(self) -> None:
        """No more questions; silent at the end, when Qt may have destroyed the panel already."""
        was_active, self.active, self.question = self.active, False, None
        if (seg := self.commands.segmentation) is not None:
            seg.layers.remove_question()
        if was_active:
            with suppress(RuntimeError):
                self.changed.emit()

    def answer(self, number: int | None = None) -> None:
        """The label of the place, or None for the likeliest; a label that nobody has is no answer."""
        question, frame = self.question, self.canvas.frames.get(self._position)
        if question is None or frame is None:
            return
        number = int(question.numbers[0]) if number is None else number
        if number not in question.numbers and number not in frame.numbers:
            return
        self._close()
        self.corrections.name_sites(self._position, [question.site], number)
        self.changed.emit()

    def skip(self) -> None:
        """A person cannot say: ask about something else, and not about what would have followed."""
        question = self.question
        if question is not None:
            here = question.propagation >= FOLLOWS
            here[question.site] = True
            self._skipped[self._position] = here | self._skipped.get(self._position, False)
            self._close()
            self.look()
            self.changed.emit()

    # ---- what happens meanwhile

    def look(self) -> None:
        """Order a question when the chain knows enough for one, and show it when it has come."""
        if not self.active or self.question is not None:
            return
        while self._replies:
            position, interactive, question = self._replies.popleft()
            self._ordered = False
            array_run = self._array_run(position)
            # One from before a correction may ask what has been answered.
            if (
                array_run is not None
                and array_run.interactive is interactive
                and array_run.n_commands_done == array_run.n_commands_sent
            ):
                self._show(position, question)
                return
        position_now, frame = self.canvas.position, self.canvas.frame
        if self._ordered or self._nothing_left or position_now is None or frame is None or not frame.is_estimated:
            return
        if (
            frame.array_run is self._array_run(position_now)
            and frame.n_commands_done == frame.array_run.n_commands_sent
        ):
            self._order(position_now)

    def _order(self, position: Position) -> None:
        asked, replies = self._skipped.get(position), self._replies
        self._ordered = True

        def compose(interactive: InteractiveRun) -> None:
            skipped = asked if asked is not None and len(asked) == interactive.problem.n else None
            numbers = interactive.named(interactive.summary.partition)
            replies.append((position, interactive, next_query(interactive.summary, skipped, numbers)))

        self.commands.submit(position, compose)

    def _show(self, position: Position, question: Query | None) -> None:
        seg, array_run = self.commands.segmentation, self._array_run(position)
        self.question, self._position, self._nothing_left = question, position, question is None
        if question is not None and seg is not None and array_run is not None and seg.layers.labels is not None:
            values = np.where(question.propagation >= FOLLOWS, FOLLOWING, 0)
            values[question.site] = ASKED
            image = np.asarray(array_run.paint(values))
            seg.layers.show_question(position, image)
            seg.layers.centre_view(position, image, ASKED)
        self.changed.emit()

    def _corrected(self) -> None:
        """A stroke is an answer too, wherever it is: the question is composed anew."""
        if self.active:
            self._nothing_left = False
            self._close()
            self.changed.emit()

    def _close(self) -> None:
        """Take the question off the screen."""
        self.question = None
        if (seg := self.commands.segmentation) is not None:
            seg.layers.hide_question()

    def _array_run(self, position: Position) -> ArrayRun | None:
        seg = self.commands.segmentation
        return None if seg is None else seg.array_runs.get(position)
