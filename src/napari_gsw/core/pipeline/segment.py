"""Image in, labels out: the one engine behind the API, the command line, the widget and the batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from napari_gsw.core.evidence.codebook import Codebook
from napari_gsw.core.image.several import are_several
from napari_gsw.core.inputs import random_seed, whole_number
from napari_gsw.core.jit import is_compiled
from napari_gsw.core.model.problem import Problem, check_problem
from napari_gsw.core.model.shared_problem import SharedProblem
from napari_gsw.core.model.steering import Steering, is_closed
from napari_gsw.core.pipeline.prepare import named_codebook, prepare, resolve, settings_or_data
from napari_gsw.core.pipeline.provenance import provenance
from napari_gsw.core.pipeline.stage import Report, Stage
from napari_gsw.core.posterior.result import Result, Trace, result, trace_of
from napari_gsw.core.posterior.shared_result import SharedResult, shared_result
from napari_gsw.core.posterior.summary import Summary
from napari_gsw.core.presets import DEFAULT_PRESET, shared_changes
from napari_gsw.core.sampler import chain_kernels
from napari_gsw.core.sampler.ensemble import Ensemble, chain_seeds, pooled
from napari_gsw.core.sampler.options import SamplerOptions
from napari_gsw.core.sampler.sample import begin_chain, run
from napari_gsw.core.sampler.snapshot import Snapshot
from napari_gsw.core.sampler.start import start_labels
from napari_gsw.core.settings import Settings

# Sweeps from one look at the agreement of the chains to the next.
CHECK_EVERY = 50


@overload
def segment(
    image: list[NDArray[Any]] | tuple[NDArray[Any], ...], settings: Settings | None = None, **more: Any
) -> SharedResult:
    """Several images that share their clusters."""


@overload
def segment(image: ArrayLike, settings: Settings | None = None, **more: Any) -> Result:
    """One image."""


def segment(
    image: Any,
    settings: Settings | None = None,
    *,
    preset: str | None = None,
    seed: int | None = 0,
    sites: Any = None,
    mask: Any = None,
    seeds: Any = None,
    init: Any = None,
    beta: ArrayLike | None = None,
    codebook: Codebook | str | None = None,
    linked: bool = False,
    report: Report | None = None,
    **changes: Any,
) -> Result | SharedResult:
    """Segment an image: one partition, how sure the model is of it, and what made it.

    A list of arrays in memory are several images that share their clusters: a label means the same in all of them, and
    seeds in one teach all. `sites`, `mask`, `seeds` and `init` are then lists with None where an image has none, and so
    are the labels of the result (:class:`~napari_gsw.core.posterior.shared_result.SharedResult`); a preset is
    changed by :func:`~napari_gsw.core.presets.shared_changes`, unless settings say otherwise.

    The arguments are those of :func:`prepare`, and

    Parameters
    ----------
    seed : the same image, settings and seed give the same labels, bit for bit. None draws one, which the provenance of
        the result names.
    seeds : label image of the image's shape: the sites under non-zero pixels are clamped to that label and keep its
        number; a site under several is cut between them; 0 leaves a site to the chain. What the seeds say about all
        other sites is a matter of the settings ``steering`` and ``only_painted``.
    init : label image of the image's shape to start the chain from (by majority; sites under 0 share a cluster).
    report : called with the stage and, while the chain runs, with snapshots; when it returns True the chain ends there
        and the result is what it has found.

    Examples
    --------
    >>> result = segment(np.kron(np.eye(2), np.ones((20, 20))), sweeps=50, seed=0)
    >>> result.labels.shape, result.n_clusters
    ((40, 40), 2)
    """
    seed = random_seed(seed)
    beta, codebook, changes = settings_or_data(beta, codebook, changes)
    if settings is None and are_several(image):
        changes = shared_changes(preset or DEFAULT_PRESET) | changes
    chosen = resolve(settings, preset, changes)
    codebook = named_codebook(chosen) if codebook is None else codebook  # here: its words are in the provenance
    beside = {"sites": sites, "mask": mask, "seeds": seeds, "beta": beta, "linked": linked}
    problem = prepare(image, chosen, codebook=codebook, report=report, **beside)
    clamps = None if seeds is None else problem.labels_under(seeds, "seeds")
    if clamps is not None:
        problem = Steering(problem, chosen, is_closed(chosen, clamps)).steered(clamps)
    if report and not is_compiled(chain_kernels.advance):
        report(Stage("compiling"), None)
    ensemble = chains(problem, chosen, seed, clamps, init)
    rows: list[list[NDArray[np.float64]]] = [[] for _ in ensemble.chains]

    def summary() -> Summary:
        return summarized(problem, chosen, ensemble.snapshots, [np.concatenate(row) for row in rows])

    steps: list[dict[str, Any]] = []
    for snapshots in ensemble.run(chosen.sweeps, CHECK_EVERY):
        for row, one in zip(rows, snapshots, strict=True):
            row.append(one.trace)
        sampling = Stage("sampling", snapshots[0].sweep, chosen.sweeps)
        if report and report(sampling, pooled(snapshots)):
            if snapshots[0].sweep < chosen.sweeps:
                steps.append({"sweep": snapshots[0].sweep, "what": "stopped"})
            break
        if to_be_judged(chosen, snapshots[0].sweep) and summary().diagnosis.agree:
            break
    inputs = {"sites": sites, "mask": mask, "seeds": seeds, "init": init, "beta": beta, "linked": linked or None}
    given = {k: v for k, v in inputs.items() if v is not None}
    if isinstance(problem, SharedProblem):
        return concluded_shared(image, problem, summary(), seed, codebook, given, steps)
    return concluded(image, summary(), seed, codebook, given, steps)


def summarized(
    problem: Problem, settings: Settings, snapshots: Sequence[Snapshot], traces: Sequence[NDArray[np.float64]]
) -> Summary:
    """A summary of all chains, from the last snapshot and the trace of each."""
    return Summary(problem, settings, pooled(snapshots), traces, [one.together for one in snapshots])


def concluded(
    image: ArrayLike,
    summary: Summary,
    seed: int,
    codebook: Codebook | None,
    inputs: Mapping[str, Any],
    steps: Sequence[Mapping[str, Any]] = (),
) -> Result:
    """The result, with what made it: the image, the settings, the seed, the arrays that went in, the steps."""
    return result(summary, provenance(image, summary, seed, {**inputs, **_own_words(codebook)}, steps))


def concluded_shared(
    images: Sequence[NDArray[Any]],
    problem: SharedProblem,
    summary: Summary,
    seed: int,
    codebook: Codebook | None,
    inputs: Mapping[str, Any],
    steps: Sequence[Mapping[str, Any]] = (),
) -> SharedResult:
    """As :func:`concluded`, of several images."""
    given = {**inputs, **_own_words(codebook)}
    return shared_result(problem, summary, provenance(images, summary, seed, given, steps))


def _own_words(codebook: Codebook | None) -> dict[str, Any]:
    return {} if codebook is None else {"codebook": codebook.centres}


def to_be_judged(settings: Settings, sweep: int) -> bool:
    """Whether a run that ends by agreement is looked at after this sweep: at fixed ones, so that it ends the same."""
    return settings.stop == "agreement" and sweep % CHECK_EVERY == 0 and sweep > int(settings.burn_in * settings.sweeps)


def chains(
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
    for number, own_seed in enumerate(chain_seeds(seed, settings.chains)):
        if numbers is not None and number not in numbers:
            continue
        # Chains that all begin at one cluster would agree before they have looked around.
        wide = settings.replace(start="random") if number and settings.start == "one" else settings
        first = start_labels(problem, wide, own_seed, clamps) if first_labels is None else first_labels
        members.append(begin_chain(problem, options, own_seed, first, clamps))
    return Ensemble(members)


def simulate_prior(problem: Problem, sweeps: int = 1000, seed: int = 0, lam: float = 1.0, burn_in: int = 0) -> Trace:
    """Draw from the Potts-partition prior of a problem, whatever its data: the trace of the chain without a likelihood.

    With beta = 0 the mean number of clusters is ``problem.prior.expected_clusters(problem.n)``.
    """
    check_problem(problem)
    sweeps, burn_in = whole_number("sweeps", sweeps), whole_number("burn_in", burn_in)
    lean = Problem(problem.n, (), problem.edges, problem.beta, problem.prior)
    trace = run(lean, burn_in + sweeps, seed=seed, lam=lam).trace[burn_in:]
    return trace_of(trace, burn_in + sweeps)


def warm_up() -> None:
    """Compile every kernel (or load it from the cache), so that the first segmentation does not have to."""
    segment(np.arange(64.0).reshape(8, 8), site_size=4, sweeps=1, seed=0, regroups=1)
