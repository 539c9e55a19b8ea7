"""A run of one or several chains of one problem up to a target."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from napari_gsw.core.array_types import Float64Array, Int32Array
from napari_gsw.core.features.codebook import Codebook
from napari_gsw.core.image.lazy import is_lazy
from napari_gsw.core.model.external_field import add_anchors
from napari_gsw.core.model.problem import Problem, SharedProblem
from napari_gsw.core.model.scribble_field import ScribbleField, is_closed
from napari_gsw.core.pipeline.provenance import describe_image, make_provenance
from napari_gsw.core.pipeline.saved_run import SavedRun
from napari_gsw.core.pipeline.stage import Report, Stage
from napari_gsw.core.posterior.object_edits import FixedPixels
from napari_gsw.core.posterior.result import Result, SharedResult, make_result, make_shared_result
from napari_gsw.core.posterior.summary import Summary
from napari_gsw.core.sampler.chain import make_start_labels, start_chain
from napari_gsw.core.sampler.ensemble import Ensemble, pool_snapshots, spawn_seeds
from napari_gsw.core.sampler.options import SamplerOptions
from napari_gsw.core.sampler.sample import run
from napari_gsw.core.sampler.snapshot import Snapshot
from napari_gsw.core.sampler.state import N_TRACED
from napari_gsw.core.settings import Settings

# A run that ends by agreement is checked after multiples of so many sweeps, so that its end is reproducible.
CHECK_EVERY = 50

# Called between sweeps with a function that returns the run as it is, to be saved.
SaveHook = Callable[[Callable[[], SavedRun]], object]


class SamplingRun:
    """Chains of one problem, their traces and their target."""

    def __init__(
        self,
        problem: Problem,
        settings: Settings,
        seed: int,
        ensemble: Ensemble,
        inputs: Mapping[str, Any] | None = None,
        image: Any = None,
    ) -> None:
        self.problem, self.settings, self.seed, self.ensemble = problem, settings, seed, ensemble
        self.inputs, self.image = inputs or {}, image  # arrays of the user by name
        self.traces: list[Float64Array] = [np.empty((0, N_TRACED)) for _ in ensemble.chains]  # (sweeps, 3) of each
        self.earlier_steps: list[dict[str, Any]] = []  # of the user, before the run was resumed
        self.target, self.paused_target = settings.sweeps, 0  # the latter of a paused run only
        self.was_stopped = False  # before its target
        self.edits: FixedPixels | None = None
        self._summary: tuple[tuple[Snapshot, ...], Summary] | None = None

    @classmethod
    def resume(cls, saved: SavedRun) -> SamplingRun:
        """Continue a saved run."""
        run = cls.__new__(cls)
        run._continue(saved)
        run.earlier_steps = [dict(step) for step in saved.steps]
        return run

    def _continue(self, saved: SavedRun) -> None:
        ensemble = Ensemble(saved.resume_chains())
        SamplingRun.__init__(self, saved.problem, saved.settings, saved.seed, ensemble, saved.given)
        self.traces, self.target = list(saved.traces), saved.target
        if saved.looks:
            self.image_digest = saved.looks

    @property
    def sweep(self) -> int:
        """Number of sweeps done."""
        return self.ensemble.snapshots[0].sweep

    @property
    def snapshot(self) -> Snapshot:
        """The first chain's snapshot, with the best sample and the sums of all chains."""
        return pool_snapshots(self.ensemble.snapshots)

    @property
    def summary(self) -> Summary:
        """Summary of all chains, made once for each state of the run."""
        snapshots = self.ensemble.snapshots
        if self._summary is None or self._summary[0] is not snapshots:
            self._summary = snapshots, Summary(self.problem, self.settings, snapshots, self.traces, self.edits)
        return self._summary[1]

    @property
    def steps(self) -> list[dict[str, Any]]:
        """Actions of the user, ready for JSON."""
        return self.earlier_steps

    @cached_property
    def image_digest(self) -> Mapping[str, Any]:
        """Shape, type and hash of the image, ready for JSON."""
        return describe_image(self.image)

    def advance(self, max_sweeps: int | None = None) -> None:
        """Sweep for a moment: at most `max_sweeps`, or to the target. If the chains agree, the target is reached."""
        sweeps = max(self.target - self.sweep, 1) if max_sweeps is None else max_sweeps
        if self.settings.stop == "agreement":
            sweeps = min(sweeps, CHECK_EVERY - self.sweep % CHECK_EVERY)
        pairs = zip(self.traces, self.ensemble.advance(sweeps), strict=True)
        self.traces = [np.concatenate((trace, snapshot.trace)) for trace, snapshot in pairs]
        if self.ends_by_agreement:
            self.target = self.sweep

    @property
    def ends_by_agreement(self) -> bool:
        """True if the chains agree at a sweep at which that ends the run."""
        is_check = self.sweep % CHECK_EVERY == 0 and self.sweep > int(self.settings.burn_in * self.settings.sweeps)
        return self.settings.stop == "agreement" and is_check and self.summary.diagnosis.agree

    def run(self, report: Report | None = None, keep: SaveHook | None = None) -> None:
        """Sweep to the target, or until `report` returns True."""
        target = self.target
        while True:
            if self.sweep < self.target:
                self.advance()
            if keep is not None:
                keep(self.save)
            if report and report(Stage("sampling", self.sweep, target), self.snapshot):
                self.was_stopped = self.sweep < self.target
                return
            if self.sweep >= self.target:
                return

    def save(self) -> SavedRun:
        """Return the run as it is now."""
        return SavedRun(
            problem=self.problem,
            settings=self.settings,
            seed=self.seed,
            states=tuple(snapshot.state for snapshot in self.ensemble.snapshots),
            traces=tuple(self.traces),
            target=max(self.target, self.paused_target),
            steps=tuple(self.steps),
            looks=self.image_digest,
            given={name: value for name, value in self.inputs.items() if not is_lazy(value)},  # lazy ones are files
            live=self.state(),
        )

    def state(self) -> Any:
        """Return what an interactive run has beside its chains; None for others."""
        return None

    def result(self) -> Result | SharedResult:
        """Return labels, uncertainty and provenance."""
        if isinstance(self.problem, SharedProblem):
            return make_shared_result(self.problem, self.summary, self.provenance(), self.save())
        return make_result(self.summary, self.provenance(), self.save())

    def provenance(self) -> dict[str, Any]:
        """Return how the result was made, ready for JSON."""
        stop = [{"sweep": self.sweep, "what": "stopped"}] if self.was_stopped else []
        return make_provenance(self.image_digest, self.summary, self.seed, self.inputs, [*self.steps, *stop])


def condition_on_seeds(
    problem: Problem, settings: Settings, clamps: Int32Array | None
) -> tuple[Problem, Int32Array | None]:
    """Return the problem under the field of its clamps (n,), and the clamps with those that a foreground map needs."""
    seeds = add_anchors(problem.map_field, clamps)
    if seeds is None:
        return problem, None
    field = ScribbleField(problem, settings, is_closed(settings, seeds, problem.map_field))
    return field.apply_to_problem(seeds), seeds


def list_codebook_arrays(codebook: Codebook | None) -> dict[str, Any]:
    """Return the arrays of a codebook of the user by name."""
    if codebook is None:
        return {}
    return {"codebook": codebook.centres} | ({"softness": np.array(codebook.softness)} if codebook.softness else {})


def make_ensemble(
    problem: Problem,
    settings: Settings,
    seed: int,
    clamps: NDArray[np.int32] | None = None,
    init: ArrayLike | None = None,
    chain_numbers: Sequence[int] | None = None,
) -> Ensemble:
    """Make the chains of the settings, or some of them, before their first sweep.

    `clamps` (n,) are labels of clamped sites, -1 for free ones; `init` is a label image to start from.
    """
    first_labels = None if init is None else problem.labels_under(init, "init")
    options = SamplerOptions.from_settings(problem, settings, settings.sweeps)
    chains = []
    for number, chain_seed in enumerate(spawn_seeds(seed, settings.chains)):
        if chain_numbers is not None and number not in chain_numbers:
            continue
        # Chains that all begin with one cluster would agree before they have explored anything.
        wide = settings.replace(start="random") if number and settings.start == "one" else settings
        first = make_start_labels(problem, wide, chain_seed, clamps) if first_labels is None else first_labels
        chains.append(start_chain(problem, options, chain_seed, first, clamps))
    return Ensemble(chains)


# State and trace of one of several chains, as plain arrays that any process can continue with.
ChainRun = tuple[Mapping[str, NDArray[Any]], Float64Array]


def sample_chain(problem: Problem, settings: Settings, seed: int, number: int) -> ChainRun:
    """Run the chain of this number alone."""
    problem, clamps = condition_on_seeds(problem, settings, None)
    alone = SamplingRun(problem, settings, seed, make_ensemble(problem, settings, seed, clamps, None, (number,)))
    alone.run()
    return dict(alone.ensemble.snapshots[0].state), alone.traces[0]


def combine_chains(problem: Problem, settings: Settings, runs: Sequence[ChainRun]) -> Summary:
    """Summarize chains that ran alone; the same as if they had run side by side."""
    problem = condition_on_seeds(problem, settings, None)[0]
    snapshots = [run(problem, 0, state=state) for state, _ in runs]
    return Summary(problem, settings, snapshots, [trace for _, trace in runs])


def chains_are_independent(settings: Settings) -> bool:
    """Return whether each chain can run alone; chains that end by agreement have to be compared meanwhile."""
    return settings.chains > 1 and settings.stop != "agreement"
