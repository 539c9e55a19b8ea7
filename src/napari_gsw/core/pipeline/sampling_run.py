"""The chains of a segmentation, from their first sweep to what they say together."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from napari_gsw.core.array_types import Int32Array
from napari_gsw.core.features.codebook import Codebook
from napari_gsw.core.model.external_field import add_anchors
from napari_gsw.core.model.problem import Problem, SharedProblem
from napari_gsw.core.model.scribble_field import ScribbleField, is_closed
from napari_gsw.core.pipeline.provenance import describe_image, make_provenance
from napari_gsw.core.pipeline.saved_run import SavedRun, drop_lazy_arrays
from napari_gsw.core.pipeline.stage import Report, Stage
from napari_gsw.core.posterior.result import Result, SharedResult, make_result, make_shared_result
from napari_gsw.core.posterior.summary import Summary
from napari_gsw.core.sampler.chain import make_start_labels
from napari_gsw.core.sampler.ensemble import Ensemble, pool_snapshots, spawn_seeds
from napari_gsw.core.sampler.options import SamplerOptions
from napari_gsw.core.sampler.sample import begin_chain, run
from napari_gsw.core.sampler.snapshot import Snapshot
from napari_gsw.core.settings import Settings

# Sweeps from one look at the agreement of the chains to the next.
CHECK_EVERY = 50

# Called between sweeps with a function that takes the record of all that there is, for who wants to save it now.
SaveHook = Callable[[Callable[[], SavedRun]], object]


class SamplingRun:
    """Chains on their way, and what is needed to say in the end what made the result.

    Attributes
    ----------
    problem, settings, seed, ensemble : what is sampled, how, and by which chains.
    given : arrays of the user's own that went in, by name.
    rows : of each chain, pieces (sweeps, 3) of its trace.
    steps : what was done to it meanwhile; `stopped` whether it was ended before its time.
    """

    def __init__(
        self,
        problem: Problem,
        settings: Settings,
        seed: int,
        ensemble: Ensemble,
        given: Mapping[str, Any],
        looks: Mapping[str, Any] | None = None,
        image: Any = None,
    ) -> None:
        """What the image is known by, `looks`, is found in the `image` where it is not known yet."""
        self.problem, self.settings, self.seed, self.ensemble, self.given = problem, settings, seed, ensemble, given
        self._looks, self._image = looks, image
        self.rows: list[list[NDArray[np.float64]]] = [[] for _ in ensemble.chains]
        self.steps: list[dict[str, Any]] = []
        self.target = settings.sweeps
        self.stopped = False

    def run_to(self, target: int, report: Report | None, keep: SaveHook | None) -> None:
        """Sweep until the target, or until the chains agree, if that is their end, or until somebody ends it."""
        self.target = target
        for snapshots in self.ensemble.run(target - self.ensemble.snapshots[0].sweep, CHECK_EVERY):
            for row, one in zip(self.rows, snapshots, strict=True):
                row.append(one.trace)
            if keep is not None:
                keep(self.saved)
            sweep = snapshots[0].sweep
            if report and report(Stage("sampling", sweep, target), pool_snapshots(snapshots)):
                self.stopped = sweep < target
                break
            if self.ends_by_agreement:
                break

    @property
    def ends_by_agreement(self) -> bool:
        """Whether the chains agree, at a sweep at which that is the end."""
        sweep = self.ensemble.snapshots[0].sweep
        return is_check_sweep(self.settings, sweep) and self.summary().diagnosis.agree

    @property
    def traces(self) -> list[NDArray[np.float64]]:
        """(sweeps, 3) of each chain."""
        for row in self.rows:
            row[:] = [np.concatenate(row)] if row else [np.empty((0, 3))]
        return [row[0] for row in self.rows]

    def summary(self) -> Summary:
        """What the chains have to say together so far."""
        return summarize(self.problem, self.settings, self.ensemble.snapshots, self.traces)

    @cached_property
    def looks(self) -> Mapping[str, Any]:
        """What the image is known by, ready for JSON."""
        return describe_image(self._image) if self._looks is None else self._looks

    def saved(self) -> SavedRun:
        """All of it at this moment."""
        return SavedRun(
            problem=self.problem,
            settings=self.settings,
            seed=self.seed,
            states=tuple(one.state for one in self.ensemble.snapshots),
            traces=tuple(self.traces),
            target=self.target,
            steps=tuple(self.steps),
            looks=self.looks,
            given=drop_lazy_arrays(self.given),
        )

    def result(self) -> Result | SharedResult:
        """The labels, how sure the model is of them, and what made them."""
        stop = [{"sweep": self.ensemble.snapshots[0].sweep, "what": "stopped"}] if self.stopped else []
        summary = self.summary()
        record = make_provenance(self.looks, summary, self.seed, self.given, [*self.steps, *stop])
        if isinstance(self.problem, SharedProblem):
            return make_shared_result(self.problem, summary, record, self.saved())
        return make_result(summary, record, self.saved())


def condition_on_seeds(
    problem: Problem, settings: Settings, clamps: Int32Array | None
) -> tuple[Problem, Int32Array | None]:
    """The problem under the field of what is clamped at the start, and these clamps with those that a map needs.

    Parameters
    ----------
    clamps : (n,) seeds of the sites, -1 for none; None if nothing was painted.
    """
    seeds = add_anchors(problem.map_field, clamps)
    if seeds is None:
        return problem, None
    return ScribbleField(problem, settings, is_closed(settings, seeds, problem.map_field)).apply_to_problem(
        seeds
    ), seeds


def list_codebook_arrays(codebook: Codebook | None) -> dict[str, Any]:
    """The words of a codebook of the user's own, as something that was given."""
    if codebook is None:
        return {}
    return {"codebook": codebook.centres} | ({"softness": np.array(codebook.softness)} if codebook.softness else {})


def summarize(
    problem: Problem, settings: Settings, snapshots: Sequence[Snapshot], traces: Sequence[NDArray[np.float64]]
) -> Summary:
    """A summary of all chains, from the last snapshot and the trace of each."""
    return Summary(problem, settings, pool_snapshots(snapshots), traces, [one.together for one in snapshots])


def is_check_sweep(settings: Settings, sweep: int) -> bool:
    """Whether a run that ends by agreement is looked at after this sweep: at fixed ones, so that it ends the same."""
    return settings.stop == "agreement" and sweep % CHECK_EVERY == 0 and sweep > int(settings.burn_in * settings.sweeps)


def make_ensemble(
    problem: Problem,
    settings: Settings,
    seed: int,
    clamps: NDArray[np.int32] | None = None,
    init: ArrayLike | None = None,
    numbers: Sequence[int] | None = None,
) -> Ensemble:
    """The chains that the settings describe, before their first sweep.

    Parameters
    ----------
    clamps : (n,) seeds of the sites, -1 for none.
    init : label image to start from instead of ``settings.start``.
    numbers : of the chains that are wanted; None for all.
    """
    first_labels = None if init is None else problem.labels_under(init, "init")
    options = SamplerOptions.from_settings(problem, settings, settings.sweeps)
    members = []
    for number, own_seed in enumerate(spawn_seeds(seed, settings.chains)):
        if numbers is not None and number not in numbers:
            continue
        # Chains that all begin at one cluster would agree before they have looked around.
        wide = settings.replace(start="random") if number and settings.start == "one" else settings
        first = make_start_labels(problem, wide, own_seed, clamps) if first_labels is None else first_labels
        members.append(begin_chain(problem, options, own_seed, first, clamps))
    return Ensemble(members)


class ChainRun(NamedTuple):
    """What one of several chains has found, as plain arrays that any process can go on with: its state, its trace."""

    state: Mapping[str, NDArray[Any]]
    trace: NDArray[np.float64]


def sample_chain(problem: Problem, settings: Settings, seed: int, number: int) -> ChainRun:
    """Run one of the chains of a segmentation, the one of this number, by itself."""
    problem, clamps = condition_on_seeds(problem, settings, None)
    alone = make_ensemble(problem, settings, seed, clamps, numbers=(number,))
    trace = np.concatenate([one.trace for (one,) in alone.run(settings.sweeps)])
    return ChainRun(dict(alone.snapshots[0].state), trace)


def combine_chains(problem: Problem, settings: Settings, runs: Sequence[ChainRun]) -> Summary:
    """What chains that ran by themselves have to say together: the same as if they had run side by side."""
    problem = condition_on_seeds(problem, settings, None)[0]
    snapshots = [run(problem, 0, state=one.state) for one in runs]
    return summarize(problem, settings, snapshots, [one.trace for one in runs])


def chains_are_independent(settings: Settings) -> bool:
    """Whether the chains need nothing of one another: those that end by agreement have to be looked at together."""
    return settings.chains > 1 and settings.stop != "agreement"
