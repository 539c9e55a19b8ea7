"""Image in, labels out: the one engine behind the API, the command line, the widget and the batch."""

from __future__ import annotations

from typing import Any, overload

from numpy.typing import ArrayLike, NDArray

from napari_gsw.core.errors import InputError, check_integer, check_seed
from napari_gsw.core.features.codebook import Codebook
from napari_gsw.core.image.lazy import is_image_list, is_lazy, open_lazy_image
from napari_gsw.core.model.problem import Problem, check_problem
from napari_gsw.core.pipeline.prepare import load_codebook, prepare, resolve_settings, split_arguments
from napari_gsw.core.pipeline.sampling_run import (
    SamplingRun,
    SaveHook,
    condition_on_seeds,
    list_codebook_arrays,
    make_ensemble,
)
from napari_gsw.core.pipeline.saved_run import SavedRun, attach_image
from napari_gsw.core.pipeline.stage import Report
from napari_gsw.core.posterior.result import Result, SharedResult, Trace, make_trace
from napari_gsw.core.sampler.ensemble import Ensemble
from napari_gsw.core.sampler.sample import resume_chain, run
from napari_gsw.core.settings import Settings
from napari_gsw.core.settings.presets import DEFAULT_PRESET, shared_preset


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
    features: Any = None,
    boundaries: Any = None,
    foreground: Any = None,
    linked: bool = False,
    report: Report | None = None,
    keep: SaveHook | None = None,
    **changes: Any,
) -> Result | SharedResult:
    """Segment an image: one partition, how sure the model is of it, and what made it.

    A list of arrays in memory are several images that share their clusters: a label means the same in all of them, and
    seeds in one teach all. `sites`, `mask`, `seeds` and `init` are then lists with None where an image has none, and so
    are the labels of the result (:class:`~napari_gsw.core.posterior.result.SharedResult`); a preset is
    changed by :func:`~napari_gsw.core.settings.presets.shared_preset`, unless settings say otherwise.

    The arguments are those of :func:`prepare`, and

    Parameters
    ----------
    seed : the same image, settings and seed give the same labels, bit for bit; None takes a random one, which the
        provenance of the result names.
    seeds : label image of the image's shape: the sites under non-zero pixels are clamped to that label and keep its
        number; a site under several is cut between them; 0 leaves a site to the chain. What the seeds say about all
        other sites is a matter of the settings ``steering`` and ``only_painted``.
    init : label image of the image's shape to start the chain from (by majority; sites under 0 share a cluster).
    report : called with the stage and, while the chain runs, with snapshots; when it returns True the chain ends there
        and the result is what it has found.
    keep : called between sweeps with a function that gives all of the run as it is now, to be saved;
        :class:`napari_gsw.Autosave` is one.

    Examples
    --------
    >>> import numpy as np
    >>> result = segment(np.kron(np.eye(2), np.ones((20, 20))), sweeps=50, seed=0)
    >>> result.labels.shape, result.n_clusters
    ((40, 40), 2)
    """
    seed = check_seed(seed)
    beta, codebook, changes = split_arguments(beta, codebook, changes)
    if settings is None and is_image_list(image):
        changes = shared_preset(preset or DEFAULT_PRESET) | changes
    chosen = resolve_settings(settings, preset, changes)
    codebook = load_codebook(chosen) if codebook is None else codebook  # here: its words are in the provenance
    maps = {"features": features, "boundaries": boundaries, "foreground": foreground}
    beside = {"sites": sites, "mask": mask, "seeds": seeds, "beta": beta, "linked": linked, **maps}
    problem = prepare(image, chosen, codebook=codebook, report=report, **beside)
    clamps = None if seeds is None else problem.labels_under(seeds, "seeds")
    problem, clamps = condition_on_seeds(problem, chosen, clamps)
    inputs = beside | {"init": init, "linked": linked or None}
    given = {name: value for name, value in inputs.items() if value is not None} | list_codebook_arrays(codebook)
    ensemble = make_ensemble(problem, chosen, seed, clamps, init)
    going = SamplingRun(problem, chosen, seed, ensemble, given, image=image)
    going.run_to(chosen.sweeps, report, keep)
    return going.result()


def resume(
    saved: SavedRun,
    *,
    image: Any = None,
    sweeps: int | None = None,
    report: Report | None = None,
    keep: SaveHook | None = None,
) -> Result | SharedResult:
    """Go on with a run that was saved, to its end or further, as if it had never stopped: bit for bit the same labels.

    Parameters
    ----------
    saved : the run, as :func:`napari_gsw.open_session` reads it.
    image : the image again, where it is a lazy one that objects are to be cut out of; otherwise it is not needed.
    sweeps : from here on; None goes on to where the run was to end.
    report, keep : as for :func:`segment`.
    """
    if image is not None and is_lazy(image):
        saved = attach_image(saved, open_lazy_image(image, saved.settings.axes).array)
    context = saved.problem.block_context
    if context is not None and context.image is None and saved.settings.view == "objects":
        raise InputError("objects are cut out of the image, which is too large to be in the session: give image=")
    members = [resume_chain(saved.problem, state) for state in saved.states]
    if any(chain.sweep != len(rows) for chain, rows in zip(members, saved.traces, strict=True)):
        raise InputError("the traces of the saved run do not belong to its chains")
    going = SamplingRun(saved.problem, saved.settings, saved.seed, Ensemble(members), saved.given, saved.looks)
    going.rows = [[rows] for rows in saved.traces]
    going.steps = [dict(step) for step in saved.steps]
    target = saved.target if sweeps is None else saved.sweep + check_integer("sweeps", sweeps)
    if target != saved.target:
        going.steps.append({"sweep": saved.sweep, "what": "run", "sweeps": target - saved.sweep})
    going.target = target
    if sweeps is not None or not going.ends_by_agreement:  # it was saved at its end, too
        going.run_to(target, report, keep)
    return going.result()


def simulate_prior(problem: Problem, sweeps: int = 1000, seed: int = 0, lam: float = 1.0, burn_in: int = 0) -> Trace:
    """Draw from the Potts-partition prior of a problem, whatever its data: the trace of the chain without a likelihood.

    With beta = 0 the mean number of clusters is ``problem.prior.expected_clusters(problem.n)``.
    """
    check_problem(problem)
    sweeps, burn_in = check_integer("sweeps", sweeps), check_integer("burn_in", burn_in)
    lean = Problem(problem.n, (), problem.edges, problem.beta, problem.prior)
    trace = run(lean, burn_in + sweeps, seed=seed, lam=lam).trace[burn_in:]
    return make_trace(trace, burn_in + sweeps)
