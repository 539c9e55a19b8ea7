"""Image in, labels out: the one engine behind the API, the command line, the widget and the batch."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from napari_gsw.core.arrays import TEMPERATE
from napari_gsw.core.errors import InputError
from napari_gsw.core.evidence.codebook import Codebook
from napari_gsw.core.evidence.site_features import SiteWords, likelihoods
from napari_gsw.core.graph.couplings import couplings
from napari_gsw.core.graph.region_graph import region_graph
from napari_gsw.core.image.lazy import chunk_lengths, is_lazy, levels, read
from napari_gsw.core.image.object_signal import signal_picture
from napari_gsw.core.image.picture import picture
from napari_gsw.core.jit import is_compiled
from napari_gsw.core.model import priors
from napari_gsw.core.model.block_assembly import Opened, described, opened
from napari_gsw.core.model.problem import Problem
from napari_gsw.core.posterior.result import Result, Trace, result, trace_of
from napari_gsw.core.posterior.summary import Summary
from napari_gsw.core.presets import DEFAULT_PRESET, preset
from napari_gsw.core.sampler import bonds as bonding
from napari_gsw.core.sampler import chain_kernels as kernels
from napari_gsw.core.sampler.chain import Snapshot, annealed, even_start_allowed, needs_regroups, run, split_moves
from napari_gsw.core.sampler.chain import start as start_chain
from napari_gsw.core.sampler.ensemble import Ensemble, chain_seeds, pooled
from napari_gsw.core.sampler.tempering import geometric_ladder, tempered
from napari_gsw.core.settings import Settings
from napari_gsw.core.sites.mosaic import Mosaic, counted
from napari_gsw.core.sites.superpixels import given_sites, superpixels
from napari_gsw.core.versions import all_versions

# Called while a segmentation runs with the stage and, once the chain runs, the newest snapshot. True as its answer ends
# the chain there; the result is then that of the snapshot.
Report = Callable[[str, Snapshot | None], bool | None]
# Sweeps from one look at the agreement of the chains to the next.
CHECK_EVERY = 50
# Bytes that are hashed at a time.
HASHED = 2**25


def resolve(settings: Settings | None, preset_name: str | None, changes: Mapping[str, Any]) -> Settings:
    """One Settings object from an object or a preset's name, and changes by keyword."""
    if settings is not None:
        if preset_name is not None:
            raise InputError("give a preset or a Settings object, not both")
        return settings.replace(**changes)
    return preset(preset_name or DEFAULT_PRESET, **changes)


def _own(
    beta: ArrayLike | None, codebook: Codebook | str | None, changes: dict[str, Any]
) -> tuple[ArrayLike | None, Codebook | None, dict[str, Any]]:
    """Two arguments that are settings when they are a number or a word, and data otherwise."""
    if beta is not None and np.ndim(beta) == 0:
        beta, changes = None, changes | {"beta": beta}
    if isinstance(codebook, str):
        codebook, changes = None, changes | {"codebook": codebook}
    return beta, codebook, changes


def prepare(
    image: ArrayLike,
    settings: Settings | None = None,
    *,
    preset: str | None = None,
    sites: ArrayLike | None = None,
    mask: ArrayLike | None = None,
    beta: ArrayLike | None = None,
    codebook: Codebook | str | None = None,
    report: Report | None = None,
    **changes: Any,
) -> Problem:
    """Image -> superpixels, features, graph, couplings: everything the chain needs.

    Parameters
    ----------
    image : 2D or 3D, grey, RGB, RGBA or with any number of channels, of any numeric type; see ``axes``. A dask or zarr
        array, a list of them from fine to coarse or an OME-Zarr group is read in blocks, of which only a few are in
        memory at a time; what is painted from its sites is lazy.
    settings, preset, \\*\\*changes : a Settings object or the name of a preset, and single settings by name.
    sites : superpixels of the user's own, a label image of the image's shape with 0 for background.
    mask : non-zero where the image is to be segmented.
    beta : instead of the setting, one number or an array with a coupling for each edge of ``problem.edges``.
    codebook : colour words, as the setting names them or as a :class:`Codebook`.
    report : called with the name of each stage as it begins.
    """
    beta, codebook, changes = _own(beta, codebook, changes)
    chosen = resolve(settings, preset, changes)
    tell = report or (lambda stage, snapshot: None)
    prior = priors.from_settings(chosen)
    if is_lazy(image):
        return _prepare_lazy(opened(image, chosen.axes), chosen, prior, sites, mask, beta, codebook, tell)
    objects = chosen.signal == "objects"
    seen = signal_picture(image, chosen.axes) if objects else picture(image, chosen.axes)
    tell("superpixels", None)
    made = superpixels(seen, chosen, mask) if sites is None else given_sites(sites, seen.shape, mask)
    tell("graph", None)
    graph = region_graph(seen, made, chosen.neighbourhood)
    tell("features", None)
    words = SiteWords(seen, made, chosen, codebook)
    blocks = likelihoods(words, graph)
    strengths = couplings(graph, chosen, words) if beta is None else np.asarray(beta, dtype=np.float64)
    light = seen.channels[..., 0] if objects else None
    return Problem(graph.n, blocks, graph.edges, strengths, prior, made, graph, chosen, light)


def _prepare_lazy(
    image: Opened,
    settings: Settings,
    prior: priors.PartitionPrior,
    sites: Any,
    mask: Any,
    beta: ArrayLike | None,
    codebook: Codebook | None,
    tell: Report,
) -> Problem:
    grid = image.grid(settings.block_pixels)
    if len(grid) == 1:
        sites, mask = (None if a is None else np.asarray(a) for a in (sites, mask))
        whole = settings.replace(axes=image.axes)
        made = prepare(image.whole(), whole, sites=sites, mask=mask, beta=beta, codebook=codebook, report=tell)
        return replace(made, sites=Mosaic.whole(made.site_image), settings=settings)

    def done(blocks: int) -> None:
        tell(f"block {blocks} of {len(grid)}", None)

    found = described(image, grid, settings, sites, mask, codebook, done)
    blocks = likelihoods(found.words, found.graph)
    strengths = couplings(found.graph, settings, found.words) if beta is None else np.asarray(beta, dtype=np.float64)
    return Problem(
        found.graph.n,
        blocks,
        found.graph.edges,
        strengths,
        prior,
        found.sites,
        found.graph,
        settings,
        frame=found.frame,
    )


def segment(
    image: ArrayLike,
    settings: Settings | None = None,
    *,
    preset: str | None = None,
    seed: int = 0,
    sites: ArrayLike | None = None,
    mask: ArrayLike | None = None,
    seeds: ArrayLike | None = None,
    init: ArrayLike | None = None,
    beta: ArrayLike | None = None,
    codebook: Codebook | str | None = None,
    report: Report | None = None,
    **changes: Any,
) -> Result:
    """Segment an image: one partition, how sure the model is of it, and what made it.

    The arguments are those of :func:`prepare`, and

    Parameters
    ----------
    seed : the same image, settings and seed give the same labels, bit for bit.
    seeds : label image of the image's shape: the sites under non-zero pixels are clamped to that label (by majority)
        and keep its number; 0 leaves a site to the chain.
    init : label image of the image's shape to start the chain from (by majority; sites under 0 share a cluster).
    report : called with the stage and, while the chain runs, with snapshots; when it returns True the chain ends there
        and the result is what it has found.

    Examples
    --------
    >>> result = segment(np.kron(np.eye(2), np.ones((20, 20))), sweeps=50, seed=0)
    >>> result.labels.shape, result.n_clusters
    ((40, 40), 2)
    """
    beta, codebook, changes = _own(beta, codebook, changes)
    chosen = resolve(settings, preset, changes)
    codebook = named_codebook(chosen) if codebook is None else codebook  # here: its words are in the provenance
    problem = prepare(image, chosen, sites=sites, mask=mask, beta=beta, codebook=codebook, report=report)
    held = None if seeds is None else site_labels(problem, seeds, "seeds")
    if report and not is_compiled(kernels.advance):
        report("compiling", None)
    ensemble = chains(problem, chosen, seed, held, init)
    rows: list[list[NDArray[np.float64]]] = [[] for _ in ensemble.chains]

    def known() -> Summary:
        return summarized(problem, chosen, ensemble.snapshots, [np.concatenate(row) for row in rows])

    for snapshots in ensemble.run(chosen.sweeps, CHECK_EVERY):
        for row, one in zip(rows, snapshots, strict=True):
            row.append(one.trace)
        if report and report("sampling", pooled(snapshots)):
            break
        if to_be_judged(chosen, snapshots[0].sweep) and known().diagnosis.agree:
            break
    given = {"sites": sites, "mask": mask, "seeds": seeds, "init": init, "beta": beta}
    return concluded(image, known(), seed, codebook, {k: v for k, v in given.items() if v is not None})


class ChainRun(NamedTuple):
    """What one of several chains has found, as plain arrays that any process can go on with: its state, its trace."""

    state: Mapping[str, NDArray[Any]]
    trace: NDArray[np.float64]


def sampled(problem: Problem, settings: Settings, seed: int, number: int) -> ChainRun:
    """Run one of the chains of a segmentation, the one of this number, by itself."""
    alone = chains(problem, settings, seed, numbers=(number,))
    trace = np.concatenate([one.trace for (one,) in alone.run(settings.sweeps)])
    return ChainRun(dict(alone.snapshots[0].state), trace)


def gathered(problem: Problem, settings: Settings, runs: Sequence[ChainRun]) -> Summary:
    """What chains that ran by themselves have to say together: the same as if they had run side by side."""
    snapshots = [run(problem, 0, state=one.state) for one in runs]
    return summarized(problem, settings, snapshots, [one.trace for one in runs])


def can_be_parted(settings: Settings) -> bool:
    """Whether the chains need nothing of one another: those that end by agreement have to be looked at together."""
    return settings.chains > 1 and settings.stop != "agreement"


def summarized(
    problem: Problem, settings: Settings, snapshots: Sequence[Snapshot], traces: Sequence[NDArray[np.float64]]
) -> Summary:
    """A summary of all chains, from the last snapshot and the trace of each."""
    return Summary(problem, settings, pooled(snapshots), traces, [one.together for one in snapshots])


def concluded(
    image: ArrayLike, summary: Summary, seed: int, codebook: Codebook | None, given: Mapping[str, Any]
) -> Result:
    """The result, with what made it: the image, the settings, the seed, and the arrays that were given besides."""
    words = {} if codebook is None else {"codebook": codebook.centres}
    made = provenance(image, summary.settings, seed, summary.problem, summary.snapshot, {**given, **words})
    return result(summary, made)


def named_codebook(settings: Settings) -> Codebook | None:
    """The codebook of the file that the settings name, if they name one."""
    return None if settings.codebook in ("auto", "shipped", "image") else Codebook.load(settings.codebook)


def to_be_judged(settings: Settings, sweep: int) -> bool:
    """Whether a run that ends by agreement is looked at after this sweep: at fixed ones, so that it ends the same."""
    return settings.stop == "agreement" and sweep % CHECK_EVERY == 0 and sweep > int(settings.burn_in * settings.sweeps)


def chains(
    problem: Problem,
    settings: Settings,
    seed: int,
    held: NDArray[np.int32] | None = None,
    init: ArrayLike | None = None,
    numbers: Sequence[int] | None = None,
) -> Ensemble:
    """The chains that the settings describe, before their first sweep.

    Parameters
    ----------
    held : (n,) seeds of the sites, -1 for none.
    init : label image to start from instead of ``settings.start``.
    numbers : of the chains that are wanted; None for all.
    """
    given = None if init is None else site_labels(problem, init, "init")
    bonds = bonding.from_settings(problem, settings)
    moves = int(needs_regroups(problem)) if settings.regroups is None else settings.regroups
    burn_in = int(settings.burn_in * settings.sweeps)
    cooling = annealed(settings.hot, burn_in) if settings.hot > 1 else TEMPERATE
    ladder = geometric_ladder(settings.replicas, settings.hottest) if settings.replicas > 1 else None
    whole = split_moves(settings.splits, settings.full_scans)
    made = []
    for number, own in enumerate(chain_seeds(seed, settings.chains)):
        if numbers is not None and number not in numbers:
            continue
        # Chains that all begin at one cluster would agree before they have looked around.
        wide = settings.replace(start="random") if number and settings.start == "one" else settings
        first = start_labels(problem, wide, own) if given is None else given
        chain = start_chain(problem, bonds, moves, burn_in, own, first, held, cooling, whole)
        made.append(chain if ladder is None else tempered(chain, ladder, own))
    return Ensemble(made)


def start_labels(problem: Problem, settings: Settings, seed: int) -> NDArray[np.int64] | None:
    """Labels of the start that the settings name; None leaves one cluster to the chain."""
    n = problem.n
    if settings.start == "one":
        return None
    if settings.start == "singletons":
        return np.arange(n)
    # Equal sizes that the prior allows, dealt at random by a generator that is not the chain's own.
    most = min(settings.start_clusters, n)
    tries = itertools.chain(range(most, 0, -1), range(most + 1, n + 1))
    count = next((k for k in tries if even_start_allowed(problem, k)), None)
    if count is None:
        raise InputError("start random finds no sizes that the prior allows (K, min_size, max_size); start from one")
    return np.random.default_rng((seed, 1)).permutation(np.arange(n) * count // n)


def site_labels(problem: Problem, image: ArrayLike, name: str) -> NDArray[np.int32]:
    """Label image -> (n,) the commonest non-zero label under each site, -1 where there is none."""
    sites = problem.sites
    assert sites is not None
    labels: Any = image if is_lazy(image) else np.asarray(image)
    if tuple(labels.shape) != sites.shape or labels.dtype.kind not in "bui":
        raise InputError(
            f"{name} must be whole numbers of the image's shape: {sites.shape}, not {labels.shape} ({labels.dtype})"
        )
    any_painted = False

    def part(where: tuple[slice, ...]) -> NDArray[np.integer]:
        nonlocal any_painted
        here = read(labels, where)
        if here.min() < 0 or here.max() > np.iinfo(np.int32).max:
            raise InputError(f"{name} must be numbers in [0, 2147483647], not {here.min()} to {here.max()}")
        any_painted |= bool(here.any())
        return here

    site, label, count = counted(sites, problem.n, part)
    if not len(site) and any_painted:
        raise InputError(f"{name} touch no site: every labelled pixel lies outside the mask or the given sites")
    found = np.full(problem.n, -1, np.int32)
    order = np.argsort(count, kind="stable")  # the commonest comes last and stays
    found[site[order]] = label[order]
    return found


def provenance(
    image: ArrayLike, settings: Settings, seed: int, problem: Problem, snapshot: Snapshot, given: Mapping[str, Any]
) -> dict[str, Any]:
    """What made a result: enough to make it again."""
    array: Any = levels(image)[0] if is_lazy(image) else np.asarray(image)
    return {
        "software": "napari-gsw",
        "versions": all_versions(),
        "image": {"shape": list(array.shape), "dtype": str(array.dtype), "sha256": array_hash(array)},
        "given": {name: array_hash(value if is_lazy(value) else np.asarray(value)) for name, value in given.items()},
        "settings": settings.to_dict(),
        "seed": int(seed),
        "sites": problem.n,
        "edges": len(problem.edges),
        "sweeps": snapshot.sweep,
        "clusters": snapshot.best.n_clusters,
        "best_log_posterior": snapshot.best.log_posterior,
        "best_sweep": snapshot.best.sweep,
    }


def array_hash(array: Any) -> str:
    """SHA-256 of an array's shape, type and values; the same whether it is in memory or lazy."""
    shape = tuple(int(n) for n in array.shape)
    found = hashlib.sha256(f"{shape}{array.dtype.str}".encode())
    row = max(1, array.dtype.itemsize * int(np.prod(shape[1:])))
    # Rows of whole chunks, so that a lazy array is not read again and again.
    thick = chunk_lengths(array)[0] if is_lazy(array) and shape else max(1, HASHED // row)
    thick *= max(1, HASHED // (row * thick))
    for start in range(0, shape[0], thick) if shape else ():
        found.update(np.ascontiguousarray(read(array, (slice(start, start + thick),))).data)
    if not shape:
        found.update(np.asarray(array).tobytes())
    return found.hexdigest()


def simulate_prior(problem: Problem, sweeps: int = 1000, seed: int = 0, lam: float = 1.0, burn_in: int = 0) -> Trace:
    """Draw from the Potts-partition prior of a problem, whatever its data: the trace of the chain without a likelihood.

    With beta = 0 the mean number of clusters is ``problem.prior.expected_clusters(problem.n)``.
    """
    bare = Problem(problem.n, (), problem.edges, problem.beta, problem.prior)
    trace = run(bare, burn_in + sweeps, seed=seed, lam=lam).trace[burn_in:]
    return trace_of(trace, burn_in + sweeps)


def warm_up() -> None:
    """Compile every kernel (or load it from the cache), so that the first segmentation does not have to."""
    segment(np.arange(64.0).reshape(8, 8), site_size=4, sweeps=1, seed=0, regroups=1)
