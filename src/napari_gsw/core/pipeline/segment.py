"""Image to labels: the entry point of the API, the command line, the widget and the batch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple, Self, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray
from skimage import measure

from napari_gsw.core.array_types import BoolArray, Float64Array, Int32Array, LabelImage
from napari_gsw.core.errors import InputError, check_integer, check_seed
from napari_gsw.core.features.codebook import Codebook
from napari_gsw.core.image.lazy import is_image_list, is_lazy, open_lazy_image
from napari_gsw.core.image.normalized_image import parse_axes
from napari_gsw.core.model.external_field import add_anchors
from napari_gsw.core.model.problem import Problem, SharedProblem, check_problem
from napari_gsw.core.model.scribble_field import ScribbleField, is_closed
from napari_gsw.core.pipeline.prepare import Report, Stage, load_codebook, prepare, resolve_arguments
from napari_gsw.core.pipeline.provenance import describe_image, make_provenance
from napari_gsw.core.pipeline.saved_run import SavedRun, attach_image
from napari_gsw.core.posterior.object_edits import FixedPixels
from napari_gsw.core.posterior.result import Result, SharedResult, Trace, make_result, make_shared_result, make_trace
from napari_gsw.core.posterior.summary import Summary
from napari_gsw.core.sampler.chain import make_start_labels, start_chain
from napari_gsw.core.sampler.ensemble import Ensemble, pool_snapshots, spawn_seeds
from napari_gsw.core.sampler.options import SamplerOptions
from napari_gsw.core.sampler.sample import run as run_sampler
from napari_gsw.core.sampler.snapshot import Snapshot
from napari_gsw.core.sampler.state import N_TRACED
from napari_gsw.core.settings import MIN_REGION_PIXELS, Settings
from napari_gsw.core.settings.presets import DEFAULT_PRESET, shared_preset
from napari_gsw.core.settings.presets import preset as make_preset

# A run that ends by agreement is checked after multiples of so many sweeps, so that its end is reproducible.
CHECK_EVERY = 50
# An image with more pixels takes long to prepare: a coarse copy of it is shown meanwhile.
LARGE = 6_000_000
# Of the copy: pixels at most, superpixels, sweeps of the chain, and samples along each axis whose mean is a pixel.
COPY, SITES, SWEEPS, SAMPLES = 200_000, 800, 40, 4
PREVIEW = Stage("preview")

# Called between sweeps with a function that returns the run as it is, to be saved.
SaveHook = Callable[[Callable[[], SavedRun]], object]
# State and trace of one of several chains, as plain arrays that any process can continue with.
ChainRun = tuple[Mapping[str, NDArray[Any]], Float64Array]


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
    def resume(cls, saved: SavedRun) -> Self:
        """Continue a saved run."""
        run = cls.__new__(cls)
        chains = Ensemble(saved.resume_chains())
        SamplingRun.__init__(run, saved.problem, saved.settings, saved.seed, chains, saved.given)
        run.traces, run.target = list(saved.traces), saved.target
        run.earlier_steps = [dict(step) for step in saved.steps]
        if saved.looks:
            run.image_digest = saved.looks
        return run

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


def sample_chain(problem: Problem, settings: Settings, seed: int, number: int) -> ChainRun:
    """Run the chain of this number alone."""
    problem, clamps = condition_on_seeds(problem, settings, None)
    alone = SamplingRun(problem, settings, seed, make_ensemble(problem, settings, seed, clamps, None, (number,)))
    alone.run()
    return dict(alone.ensemble.snapshots[0].state), alone.traces[0]


def combine_chains(problem: Problem, settings: Settings, runs: Sequence[ChainRun]) -> Summary:
    """Summarize chains that ran alone; the same as if they had run side by side."""
    problem = condition_on_seeds(problem, settings, None)[0]
    snapshots = [run_sampler(problem, 0, state=state) for state, _ in runs]
    return Summary(problem, settings, snapshots, [trace for _, trace in runs])


class Preview(NamedTuple):
    """Labels of a coarse copy, and how many pixels of the image along each axis one of its pixels stands for."""

    labels: NDArray[np.uint16]
    step: int


def choose_step(shape: tuple[int, ...]) -> int:
    """Return how many pixels of an image along each axis become one of its copy; 1 for an image that is not large."""
    pixels = int(np.prod(shape))
    if pixels <= LARGE:
        return 1
    step = int(np.ceil((pixels / COPY) ** (1 / len(shape))))
    return min(SAMPLES * (-(-step // SAMPLES)), min(shape))


def make_preview(
    image: NDArray[Any],
    settings: Settings,
    seed: int,
    mask: BoolArray | None,
    seeds: LabelImage | None,
    report: Callable[[Stage], None],
) -> Preview | None:
    """Segment a coarse copy of a large image; None if the image is not large, or the copy cannot be segmented.

    `report` is called between the steps; what it raises ends the preview.
    """
    axes = parse_axes(image, settings.axes)
    spatial = [index for index, axis in enumerate(axes) if axis in "ZYX"]
    step = choose_step(tuple(image.shape[index] for index in spatial))
    if step == 1:
        return None
    report(PREVIEW)
    if settings.view == "objects":  # which are too small to be seen
        settings = make_preset(DEFAULT_PRESET, spacing=settings.spacing)
    min_region = (MIN_REGION_PIXELS if settings.min_region is None else settings.min_region) // step ** len(spatial)
    try:
        result = segment(
            downsample(image, spatial, step),
            settings.replace(sweeps=SWEEPS, chains=1, site_count=SITES, min_region=max(1, min_region), axes=axes),
            seed=seed,
            mask=None if mask is None else _pool(mask, [step] * mask.ndim, np.min),
            seeds=None if seeds is None else _pool(seeds, [step] * seeds.ndim, np.max),
            report=lambda stage, snapshot: report(PREVIEW),  # its stages are not those of the image
        )
    except InputError:  # raised again by the image itself, unless the copy is too coarse
        return None
    return Preview(np.asarray(result.labels).astype(np.uint16), step)


def downsample(array: NDArray[Any], axes: list[int], step: int) -> NDArray[Any]:
    """Return means over blocks of `step` elements along some axes, of a few samples each, in the array's dtype."""
    n_samples = step if step % SAMPLES else SAMPLES  # the step of a thin stack may be small
    stride = step // n_samples
    slices = [slice(None)] * array.ndim
    for axis in axes:
        slices[axis] = slice(stride // 2, array.shape[axis] // step * step, stride)
    means = _pool(array[tuple(slices)], [n_samples if axis in axes else 1 for axis in range(array.ndim)], np.mean)
    return (means if array.dtype.kind == "f" else np.rint(means)).astype(array.dtype)


def _pool(array: NDArray[Any], sizes: list[int], pool: Callable[..., Any]) -> NDArray[Any]:
    """Reduce each block of an array to one value; the rest at its ends is left out."""
    whole = tuple(slice(0, n // size * size) for n, size in zip(array.shape, sizes, strict=True))
    return np.asarray(measure.block_reduce(array[whole], tuple(sizes), pool))
