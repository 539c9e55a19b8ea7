"""Image to labels: the entry point of the API, the command line, the widget and the batch."""

from __future__ import annotations

from typing import Any, overload

from numpy.typing import ArrayLike, NDArray

from napari_gsw.core.errors import InputError, check_integer, check_seed
from napari_gsw.core.features.codebook import Codebook
from napari_gsw.core.image.lazy import is_image_list, is_lazy, open_lazy_image
from napari_gsw.core.model.problem import Problem, check_problem
from napari_gsw.core.pipeline.prepare import load_codebook, prepare, resolve_arguments
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
from napari_gsw.core.sampler.sample import run as run_sampler
from napari_gsw.core.settings import Settings
from napari_gsw.core.settings.presets import DEFAULT_PRESET, shared_preset


@overload
def segment(
    image: list[NDArray[Any]] | tuple[NDArray[Any], ...], settings: Settings | None = None, **more: Any
) -> SharedResult:
    """Segment several images together."""


@overload
def segment(image: ArrayLike, settings: Settings | None = None, **more: Any) -> Result:
    """Segment one image."""


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
    """Segment an image and estimate the uncertainty.

    A list of arrays in memory is a joint segmentation: a label means the same in all images, and seeds in one apply to
    all. `sites`, `mask`, `seeds` and `init` are then lists with None where an image has none, as are the labels of the
    result (:class:`~napari_gsw.core.posterior.result.SharedResult`). A preset is changed by
    :func:`~napari_gsw.core.settings.presets.shared_preset`, unless settings say otherwise.

    Parameters not listed here are those of :func:`prepare`.

    Parameters
    ----------
    seed : int, optional
        Random seed. The same image, settings and seed give bitwise identical labels. None draws a seed, which the
        provenance of the result names.
    seeds : array-like, optional
        Label image of the image's shape. Sites under non-zero pixels are clamped to that label and keep its number; a
        site under several is split between them. The settings ``steering`` and ``only_painted`` decide what the seeds
        mean for other sites.
    init : array-like, optional
        Label image to start the chains from, by majority. Sites under 0 share a cluster.
    report : callable, optional
        Called with the stage and, during sampling, with snapshots. Returning True ends the run with what it has found.
    keep : callable, optional
        Called between sweeps with a function that returns the whole run, to be saved;
        :class:`napari_gsw.Autosave` is one.

    Examples
    --------
    >>> import numpy as np
    >>> result = segment(np.kron(np.eye(2), np.ones((20, 20))), sweeps=50, seed=0)
    >>> result.labels.shape, result.n_clusters
    ((40, 40), 2)
    """
    seed = check_seed(seed)
    if settings is None and is_image_list(image):
        changes = shared_preset(preset or DEFAULT_PRESET) | changes
    chosen, beta, codebook = resolve_arguments(settings, preset, beta, codebook, changes)
    codebook = load_codebook(chosen) if codebook is None else codebook  # its words are part of the provenance
    maps = {"features": features, "boundaries": boundaries, "foreground": foreground}
    inputs = {"sites": sites, "mask": mask, "seeds": seeds, "beta": beta, "linked": linked, **maps}
    problem = prepare(image, chosen, codebook=codebook, report=report, **inputs)
    clamps = None if seeds is None else problem.labels_under(seeds, "seeds")
    problem, clamps = condition_on_seeds(problem, chosen, clamps)
    inputs |= {"init": init, "linked": linked or None}
    given = {name: value for name, value in inputs.items() if value is not None} | list_codebook_arrays(codebook)
    run = SamplingRun(problem, chosen, seed, make_ensemble(problem, chosen, seed, clamps, init), given, image)
    run.run(report, keep)
    return run.result()


def resume(
    saved: SavedRun,
    *,
    image: Any = None,
    sweeps: int | None = None,
    report: Report | None = None,
    keep: SaveHook | None = None,
) -> Result | SharedResult:
    """Continue a saved run to its end or further, as if it had never stopped: the labels are bitwise identical.

    Parameters
    ----------
    saved : SavedRun
        As :func:`napari_gsw.open_session` returns it.
    image : array-like, optional
        The image again; needed only for objects of a lazy image.
    sweeps : int, optional
        Sweeps from here on. None continues to the target of the run.
    report, keep : callable, optional
        As for :func:`segment`.
    """
    if image is not None and is_lazy(image):
        saved = attach_image(saved, open_lazy_image(image, saved.settings.axes).array)
    context = saved.problem.block_context
    if context is not None and context.image is None and saved.settings.view == "objects":
        raise InputError("the session does not hold its image, which objects are cut out of: pass image=")
    run = SamplingRun.resume(saved)
    if sweeps is not None:
        run.target = saved.sweep + check_integer("sweeps", sweeps)
        if run.target != saved.target:
            run.earlier_steps.append({"sweep": saved.sweep, "what": "run", "sweeps": run.target - saved.sweep})
    if sweeps is not None or not run.ends_by_agreement:  # it may have been saved at its end
        run.run(report, keep)
    return run.result()


def simulate_prior(problem: Problem, sweeps: int = 1000, seed: int = 0, lam: float = 1.0, burn_in: int = 0) -> Trace:
    """Sample the Potts-partition prior of a problem, without its data, and return the trace of the chain.

    With beta = 0 the mean number of clusters is ``problem.prior.expected_clusters(problem.n)``.
    """
    check_problem(problem)
    sweeps, burn_in = check_integer("sweeps", sweeps), check_integer("burn_in", burn_in)
    without_data = Problem(problem.n, (), problem.edges, problem.beta, problem.prior)
    trace = run_sampler(without_data, burn_in + sweeps, seed=seed, lam=lam).trace[burn_in:]
    return make_trace(trace, burn_in + sweeps)
