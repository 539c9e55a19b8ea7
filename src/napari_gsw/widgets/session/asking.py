"""Ask me: shows a person the place whose label would teach most, takes the answer, and asks again.

Questions are composed where the chain runs, as an order between two sweeps; the answer is a correction like any stroke.
"""

from __future__ import annotations

from collections import deque
from contextlib import suppress

import napari
import numpy as np
from qtpy.QtCore import QObject, Signal

from napari_gsw.core.arrays import Mask
from napari_gsw.core.pipeline.live_chain import LiveChain
from napari_gsw.core.posterior.questions import Question, next_question
from napari_gsw.widgets.layers.source import Position
from napari_gsw.widgets.session.array_run import ArrayRun
from napari_gsw.widgets.session.canvas import Canvas
from napari_gsw.widgets.session.corrections import Corrections
from napari_gsw.widgets.session.orders import Orders

# A site follows the one that is asked about if this is how probable it is, at least.
FOLLOWS = 0.5
# What outlines stand for in the layer of the question.
ASKED, FOLLOWING = 1, 2
# Candidates that are named.
MOST_SAID = 3


class Asking(QObject):  # type: ignore[misc]
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
        orders: Orders,
        canvas: Canvas,
        corrections: Corrections,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self.viewer, self.orders, self.canvas, self.corrections = viewer, orders, canvas, corrections
        self.active = False
        self.question: Question | None = None
        self._position: Position = ()
        self._nothing_left = False
        # Whether a question is on its way, and those that have come.
        self._ordered = False
        self._replies: deque[tuple[Position, LiveChain, Question | None]] = deque()
        self._skipped: dict[Position, Mask] = {}
        corrections.changed.connect(self._corrected)

    @property
    def text(self) -> str:
        """What there is to say to a person; nothing if nobody wants to be asked."""
        if not self.active:
            return ""
        if self.question is not None:
            some = list(zip(self.question.numbers.tolist(), self.question.probabilities.tolist(), strict=True))[
                :MOST_SAID
            ]
            return f"Which label is this? {', '.join(f'{number} ({100 * p:.0f} %)' for number, p in some)}"
        if self._nothing_left:
            return "There is nothing left to ask."
        if self.orders.run is None:
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
        if (seg := self.orders.segmentation) is not None:
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
            here = question.follow >= FOLLOWS
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
            position, live, question = self._replies.popleft()
            self._ordered = False
            array_run = self._array_run(position)
            # One from before a correction may ask what has been answered.
            if array_run is not None and array_run.live is live and array_run.obeyed == array_run.submitted:
                self._show(position, question)
                return
        position_now, frame = self.canvas.position, self.canvas.frame
        if self._ordered or self._nothing_left or position_now is None or frame is None or not frame.known:
            return
        if frame.array_run is self._array_run(position_now) and frame.obeyed == frame.array_run.submitted:
            self._order(position_now)

    def _order(self, position: Position) -> None:
        asked, replies = self._skipped.get(position), self._replies
        self._ordered = True

        def compose(live: LiveChain) -> None:
            skipped = asked if asked is not None and len(asked) == live.problem.n else None
            numbers = live.named(live.summary.partition)
            replies.append((position, live, next_question(live.summary, skipped, numbers)))

        self.orders.submit(position, compose)

    def _show(self, position: Position, question: Question | None) -> None:
        seg, array_run = self.orders.segmentation, self._array_run(position)
        self.question, self._position, self._nothing_left = question, position, question is None
        if question is not None and seg is not None and array_run is not None and seg.layers.labels is not None:
            values = np.where(question.follow >= FOLLOWS, FOLLOWING, 0)
            values[question.site] = ASKED
            image = np.asarray(array_run.paint(values))
            seg.layers.show_question(position, image)
            seg.layers.look_at(position, image, ASKED)
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
        if (seg := self.orders.segmentation) is not None:
            seg.layers.hide_question()

    def _array_run(self, position: Position) -> ArrayRun | None:
        seg = self.orders.segmentation
        return None if seg is None else seg.array_runs.get(position)
