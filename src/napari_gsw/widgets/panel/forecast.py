"""How many clusters the prior expects, without keeping the window waiting."""

from __future__ import annotations

from qtpy.QtCore import QObject, Signal

from napari_gsw.core.errors import InputError
from napari_gsw.core.model.priors import PartitionPrior, Truncated, from_settings
from napari_gsw.core.settings import Settings
from napari_gsw.widgets.kit.worker import make_worker

# Of priors with limits there is no formula, only a sum that grows with the square of the number of sites: up to so many
# it is done while one waits, up to so many in the background (half a minute), and of more nothing is said.
AT_ONCE, MOST = 300, 5_000

Question = tuple[PartitionPrior, int]


class Forecast(QObject):  # type: ignore[misc]
    """Answers at once, or later.

    Signals
    -------
    answered : what could not be said at once is known now.
    """

    answered = Signal()

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._answers: dict[Question, float | None] = {}
        self._under_way = False

    def clusters(self, settings: Settings, sites: int) -> float | None:
        """The prior mean of the number of clusters among so many sites; None where it is not known, or not yet."""
        try:
            prior = from_settings(settings)
        except InputError:  # refused elsewhere, with its reason
            return None
        if not isinstance(prior, Truncated) or sites <= AT_ONCE:
            return expected_clusters(prior, sites)
        question = (prior, sites)
        if question not in self._answers and sites <= MOST and not self._under_way:
            self._under_way = True
            worker = make_worker(lambda: (question, expected_clusters(prior, sites)))
            worker.returned.connect(self._keep)
            worker.start()
        return self._answers.get(question)

    def _keep(self, answer: tuple[Question, float | None]) -> None:
        self._under_way = False
        self._answers = dict([answer])
        self.answered.emit()


def expected_clusters(prior: PartitionPrior, sites: int) -> float | None:
    """How many clusters a prior expects of so many sites; None where it forbids them all."""
    try:
        return prior.expected_clusters(sites)
    except InputError:
        return None
