"""How many clusters the prior expects, without keeping the window waiting."""

from __future__ import annotations

import threading
from contextlib import suppress

from qtpy.QtCore import QObject, Signal

from napari_gsw.core.errors import InputError
from napari_gsw.core.model.priors import PartitionPrior, Truncated, from_settings
from napari_gsw.core.settings import Settings

# Of priors with limits there is no formula, only a sum that grows with the square of the number of sites: up to so many
# it is done while one waits, up to so many in the background (some seconds), and of more nothing is said.
AT_ONCE, MOST = 300, 2_000

Question = tuple[PartitionPrior, int]


class Forecast(QObject):  # type: ignore[misc]
    """Answers at once, or later.

    Signals
    -------
    answered : what could not be said at once is known now.
    """

    answered = Signal()
    _worked_out = Signal(object, object)

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._worked_out.connect(self._keep)  # in the window's thread
        self._answers: dict[Question, float | None] = {}
        self._under_way = False

    def clusters(self, settings: Settings, sites: int) -> float | None:
        """The prior mean of the number of clusters among so many sites; None where it is not known, or not yet."""
        try:
            prior = from_settings(settings)
        except InputError:  # refused elsewhere, with its reason
            return None
        # The first answer of a process loads what it is computed with, which takes longer than a few sites do.
        if not isinstance(prior, Truncated) or (sites <= AT_ONCE and self._answers):
            return expected_clusters(prior, sites)
        question = (prior, sites)
        if question not in self._answers and sites <= MOST and not self._under_way:
            self._under_way = True
            # A thread of its own: those of Qt are as many as there are cores, and a run would wait for one.
            threading.Thread(target=self._work, args=question, name="gsw-forecast", daemon=True).start()
        return self._answers.get(question)

    def _work(self, prior: PartitionPrior, sites: int) -> None:
        answer = expected_clusters(prior, sites)
        with suppress(RuntimeError):  # the panel is gone
            self._worked_out.emit((prior, sites), answer)

    def _keep(self, question: Question, answer: float | None) -> None:
        self._under_way = False
        self._answers = {question: answer}
        self.answered.emit()


def expected_clusters(prior: PartitionPrior, sites: int) -> float | None:
    """How many clusters a prior expects of so many sites; None where it forbids them all."""
    try:
        return prior.expected_clusters(sites)
    except InputError:
        return None
