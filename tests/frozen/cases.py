"""The cases whose results are frozen: one function each, which returns arrays by name.

A case uses public names, or those of :mod:`frozen.adapter`. Images are small, so that a case takes a second or two once
all kernels are compiled.
"""

from __future__ import annotations

import csv
import json
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

import napari_gsw as gsw
from frozen import adapter, sessions
from napari_gsw.sample_data import UNEVEN, mosaic, random_mosaic, sample

Arrays = dict[str, Any]


@dataclass(frozen=True)
class Case:
    """One frozen result.

    Attributes
    ----------
    make : computes the arrays.
    quick : whether it is part of `make test`; the others run with `make slow` and `make frozen`.
    """

    make: Callable[[], Arrays]
    quick: bool = False


# ---- images

CROPS = {
    "astronaut": (slice(40, 120), slice(180, 270)),
    "tissue": (slice(0, 80), slice(0, 90)),
    "nuclei": (slice(0, 96), slice(0, 96)),
    "membranes": (slice(0, 96), slice(0, 96)),
    "mosaic": (slice(40, 120), slice(60, 160)),
    "mosaic_3d": (slice(0, 6), slice(0, 40), slice(0, 40)),
    "uneven_volume": (slice(0, 5), slice(0, 40), slice(0, 40)),
}
SPACING = {"uneven_volume": UNEVEN}


@cache
def image_of(name: str) -> Any:
    """A crop of a sample image."""
    return sample(name)[0][CROPS[name]].copy()


def strokes(shape: tuple[int, ...]) -> Any:
    """Seeds of three labels that touch few sites."""
    seeds = np.zeros(shape, np.int32)
    seeds[8:11, 5:30], seeds[60:63, 10:60], seeds[30:50, 70:73] = 3, 7, 5
    return seeds


def maps(shape: tuple[int, ...]) -> Arrays:
    """A map of features, of boundaries and of the foreground."""
    rows, columns = np.indices(shape)
    noise = np.random.default_rng(7).normal(0, 0.1, (12, *shape))
    features = noise + np.sin(np.arange(12)[:, None, None] * columns / 40) + (rows > 40)
    lines = np.exp(-(((columns - 50) / 3) ** 2)) + 0.05 * np.abs(noise[0])
    return {
        "features": features.astype(np.float32),
        "boundaries": (255 * np.clip(lines, 0, 1)).astype(np.uint8),
        "foreground": np.clip((rows > 30) + noise[1], 0, 1).astype(np.float32),
    }


# ---- what is kept of a result


def keep_result(result: Any) -> Arrays:
    """Labels, traces, uncertainty and chain state of a segmentation; of several images, image by image."""
    shares_labels = isinstance(result, gsw.SharedResult)
    parts = [(f" {k}", one) for k, one in enumerate(result.images)] if shares_labels else [("", result)]
    kept: Arrays = {"clusters": result.clusters, "regions": result.regions}
    for suffix, one in parts:
        kept[f"labels{suffix}"] = np.asarray(one.labels).astype(np.int64)
        kept[f"uncertainty{suffix}"] = np.asarray(one.uncertainty)
        kept[f"boundary{suffix}"] = np.asarray(one.boundary)
    for c, trace in enumerate(result.traces):
        kept[f"trace {c}"] = np.stack([np.asarray(column, float) for column in trace], axis=1)
    snapshot = result.run.states[0] if shares_labels else result.snapshot.state
    last = [float(np.asarray(trace.log_posterior)[-1]) for trace in result.traces]
    return kept | {"state": adapter.neutral_state(snapshot), "log posterior": last}


def keep_snapshot(snapshot: gsw.Snapshot) -> Arrays:
    """Labels, trace and chain state of a snapshot."""
    return {
        "labels": snapshot.labels,
        "best": snapshot.best.labels,
        "together": snapshot.together,
        "trace": snapshot.trace,
        "state": adapter.neutral_state(snapshot.state),
        "log posterior": [float(snapshot.log_posterior)],
    }


def segment(image: Any, **options: Any) -> Arrays:
    """Segment and keep the result; a named image has a spacing where it needs one."""
    if isinstance(image, str):
        options = ({"spacing": SPACING[image]} if image in SPACING else {}) | options
        image = image_of(image)
    return keep_result(gsw.segment(image, **options))


# ---- presets, samplers, priors and images: every pair of two occurs

MATRIX = (
    ("general", "gsw", "dirichlet-process", "astronaut"),
    ("general", "gsw", "dirichlet-process", "uneven_volume"),
    ("general", "swendsen-wang", "pitman-yor", "tissue"),
    ("general", "swendsen-wang", "dirichlet-process", "mosaic_3d"),
    ("general", "swendsen-wang", "dirichlet-process", "uneven_volume"),
    ("general", "gibbs", "finite-dirichlet", "nuclei"),
    ("general", "gibbs", "dirichlet-process", "mosaic_3d"),
    ("general", "data-driven", "potts", "membranes"),
    ("general", "data-driven", "dirichlet-process", "mosaic_3d"),
    ("general", "data-driven", "dirichlet-process", "uneven_volume"),
    ("general", "bond", "finite-dirichlet", "uneven_volume"),
    ("general", "bond-drawn", "finite-dirichlet", "mosaic_3d"),
    ("general", "bond-drawn", "dirichlet-process", "nuclei"),
    ("general", "bond-drawn", "dirichlet-process", "membranes"),
    ("photo", "gsw", "pitman-yor", "nuclei"),
    ("photo", "swendsen-wang", "dirichlet-process", "membranes"),
    ("photo", "gibbs", "potts", "astronaut"),
    ("photo", "data-driven", "finite-dirichlet", "tissue"),
    ("photo", "bond", "potts", "astronaut"),
    ("photo", "bond-drawn", "potts", "astronaut"),
    ("microscopy", "gsw", "finite-dirichlet", "membranes"),
    ("microscopy", "swendsen-wang", "potts", "nuclei"),
    ("microscopy", "gibbs", "dirichlet-process", "tissue"),
    ("microscopy", "data-driven", "pitman-yor", "astronaut"),
    ("microscopy", "bond", "pitman-yor", "mosaic_3d"),
    ("microscopy", "bond-drawn", "dirichlet-process", "uneven_volume"),
    ("membranes", "gsw", "potts", "tissue"),
    ("membranes", "swendsen-wang", "finite-dirichlet", "astronaut"),
    ("membranes", "gibbs", "pitman-yor", "membranes"),
    ("membranes", "data-driven", "dirichlet-process", "nuclei"),
    ("membranes", "bond", "dirichlet-process", "tissue"),
    ("membranes", "bond-drawn", "dirichlet-process", "tissue"),
    ("paper", "gsw", "potts", "mosaic_3d"),
    ("paper", "swendsen-wang", "finite-dirichlet", "astronaut"),
    ("paper", "gibbs", "potts", "uneven_volume"),
    ("paper", "data-driven", "dirichlet-process", "tissue"),
    ("paper", "bond", "dirichlet-process", "mosaic_3d"),
    ("paper", "bond", "dirichlet-process", "nuclei"),
    ("paper", "bond", "dirichlet-process", "membranes"),
    ("paper", "bond-drawn", "pitman-yor", "uneven_volume"),
)
# Of the matrix: runs in `make test`.
QUICK_ROWS = range(0, len(MATRIX), 4)


def matrix_case(preset: str, sampler: str, prior: str, image: str) -> Arrays:
    """One row of the matrix."""
    changes: Arrays = {"sweeps": 40, "prior": prior, "sampler": sampler}
    if preset in ("general", "photo", "paper"):
        changes["site_size"] = 40
    if sampler == "data-driven" and preset in ("microscopy", "membranes"):
        changes |= {"distance": "euclidean", "objects": "classical"}
    return segment(image, preset=preset, seed=2, **changes)


# ---- options of a segmentation


def option_cases() -> dict[str, Callable[[], Arrays]]:
    """Inputs and options of `segment` beyond preset, sampler and prior."""
    image = image_of("mosaic")
    seeds, mask = strokes(image.shape[:2]), np.indices(image.shape[:2]).sum(axis=0) < 140
    few: Arrays = {"sweeps": 40, "site_size": 40, "seed": 1}
    paper: Arrays = {"preset": "paper", **few}
    given = maps(image.shape[:2])
    sites = (np.indices(image.shape[:2])[0] // 8 * 20 + np.indices(image.shape[:2])[1] // 7 + 1).astype(np.int32)
    volume = image_of("mosaic_3d")
    volume_seeds = np.zeros(volume.shape, np.int32)
    volume_seeds[2, 4:8, 4:20], volume_seeds[3, 30:34, 8:30] = 2, 9
    is_image_list = [image, image_of("mosaic")[::-1, :60], random_mosaic(np.random.default_rng(4), (50, 70))[0]]
    frames = [image[:60, :60], image[5:65, 5:65], image[10:70, 10:70]]
    one_seed = [None, strokes((80, 100))[:, :60], None]
    options: dict[str, Any] = {
        "seeds": partial(segment, image, seeds=seeds, **few),
        "seeds, photo": partial(segment, image, preset="photo", seeds=seeds, **few),
        "seeds, only painted": partial(segment, image, seeds=seeds, only_painted="yes", **few),
        "seeds, open": partial(segment, image, seeds=seeds, only_painted="no", steering=4.0, **few),
        "seeds, no reach": partial(segment, image, seeds=seeds, steering=0.0, **few),
        "seeds, volume": partial(segment, volume, seeds=volume_seeds, **few),
        "init": partial(segment, image, init=sites % 6 + 1, **few),
        "mask": partial(segment, image, mask=mask, **few),
        "mask, volume": partial(segment, volume, mask=volume > 1200, **few),
        "sites": partial(segment, image, sites=sites, **few),
        "coupling of each edge": partial(coupled, image),
        "features": partial(segment, image, features=given["features"], **few),
        "features, alone": partial(
            segment, image, features=given["features"], likelihood="none", sites_from="features", **few
        ),
        "boundaries": partial(segment, image, boundaries=given["boundaries"], **few),
        "boundaries, alone": partial(
            segment, image, boundaries=given["boundaries"], coupling="boundaries", sites_from="image", **few
        ),
        "foreground": partial(segment, image, foreground=given["foreground"], **few),
        "foreground, both": partial(segment, image, foreground=given["foreground"], foreground_names="both", **few),
        "all maps, seeds": partial(segment, image, seeds=seeds, **given, **few),
        "spacing": partial(segment, volume, spacing=(4.0, 1.0, 1.0), neighbourhood=2, **few),
        "spacing, objects": partial(segment, "uneven_volume", preset="microscopy", seed=3, sweeps=30),
        "tempering": partial(segment, image, **(paper | dict(replicas=3, chains=2, splits=1))),
        "annealing": partial(segment, image, **(paper | dict(hot=3.0, start="random"))),
        "sizes": partial(segment, image, **(paper | dict(min_size=6, max_size=60))),
        "chains": partial(segment, image, chains=3, start="singletons", **few),
        "agreement": partial(segment, image, **(few | dict(chains=2, stop="agreement", sweeps=200))),
        "regroups": partial(segment, image, **(paper | dict(regroups=2, splits=2, full_scans=0.3))),
        "neighbours of neighbours": partial(
            segment, image, neighbourhood=2, second_weight=0.3, sampler="data-driven", distance="chi2", **paper
        ),
        "total variation": partial(segment, image, sampler="data-driven", distance="total-variation", **paper),
        "gaussian": partial(segment, image, likelihood="gaussian", position=2.0, min_size=3, **paper),
        "luminance": partial(segment, image, likelihood="luminance", coupling="length", **paper),
        "polished": partial(segment, image, polish="yes", start="random", **paper),
        "consensus vi": partial(segment, image, consensus="vi", **paper),
        "consensus binder": partial(segment, image, consensus="binder", chains=2, **paper),
        "regions": partial(segment, image, view="regions", min_region=80, merge="colour", **paper),
        "regions, join": partial(segment, image, preset="photo", join=0.6, **few),
        "objects, classical": partial(segment, "nuclei", preset="microscopy", objects="classical", sweeps=30),
        "objects, network": partial(segment, "nuclei", preset="microscopy", sweeps=30),
        "grey": partial(segment, "nuclei", preset="general", **few),
        "float with holes": partial(segment, holes(), preset="general", mask=np.isfinite(holes()), **few),
        "channels": partial(segment, np.moveaxis(given["features"][:4], 0, -1), axes="YXC", **few),
        "blurred": partial(segment, blurred(), preset="general", **few),
        "several images": partial(segment, is_image_list, **few),
        "several images, seeds": partial(segment, is_image_list, seeds=one_seed, **few),
        "several images, linked": partial(segment, frames, linked=True, **few),
        "several images, objects": partial(
            segment, [image_of("nuclei"), image_of("nuclei")[:60, :70]], preset="microscopy", sweeps=30
        ),
        "lazy, general": partial(in_blocks, "general"),
        "lazy, seeds": partial(in_blocks, "general", seeds=True),
        "lazy, photo": partial(in_blocks, "photo"),
        "lazy, microscopy": partial(in_blocks, "microscopy"),
        "lazy, zarr": zarr_blocks,
        "resume": resumed,
        "interrupted": interrupted,
    }
    for kind in ("slic", "felzenszwalb", "watershed", "grid", "ridges"):
        options[f"superpixels {kind}"] = partial(superpixels, image, superpixels=kind, site_size=50)
    options["superpixels, volume"] = partial(superpixels, volume, superpixels="slic", site_size=60)
    options["superpixels, volume watershed"] = partial(
        superpixels, volume, superpixels="watershed", site_size=60, spacing=(3.0, 1.0, 1.0)
    )
    options["superpixels, mask"] = partial(superpixels, image, mask=mask, site_count=90, compactness=20.0)
    options["superpixels, smooth"] = partial(superpixels, image, site_size=50, smoothing=1.5, denoise="auto")
    return options


QUICK_OPTIONS = {
    "seeds", "seeds, volume", "mask", "all maps, seeds", "spacing", "tempering", "sizes", "agreement", "regroups",
    "consensus binder", "polished", "objects, classical", "several images, seeds", "lazy, general", "resume",
    "superpixels slic", "superpixels ridges",
}  # fmt: skip


def holes() -> Any:
    """An image of floats with NaN in it."""
    image = image_of("nuclei").astype(np.float64)
    image[20:25, 30:50] = np.nan
    return image


def blurred() -> Any:
    """A flat image of plain shapes that is out of focus."""
    from scipy import ndimage

    steps = np.where(np.indices((80, 90)).sum(axis=0) < 80, 60.0, 170.0)
    steps[50:70, 50:80] = 120.0
    return np.clip(ndimage.gaussian_filter(steps, 2.5), 0, 255).astype(np.uint8)


def coupled(image: Any) -> Arrays:
    """A segmentation with a coupling for each edge."""
    m = len(gsw.prepare(image, site_size=40).edges)
    return segment(image, beta=np.linspace(0.1, 3.0, m), site_size=40, sweeps=40)


def superpixels(image: Any, **options: Any) -> Arrays:
    """The superpixels alone, with edges, couplings and log posterior of one partition."""
    problem = gsw.prepare(image, **options)
    labels = np.arange(problem.n) % 3
    value = gsw.log_posterior(problem, labels)
    kept = {"labels": np.asarray(problem.sites), "edges": problem.edges, "beta": problem.beta}
    return kept | {"log posterior": [float(value)]}


def in_blocks(preset: str, seeds: bool = False) -> Arrays:
    """A dask array that is read in blocks."""
    import dask.array

    if preset == "microscopy":
        image, chunks = np.tile(image_of("nuclei"), (2, 2)), (80, 90)
    else:
        image, chunks = np.tile(mosaic()[0][:100, :120], (2, 2, 1)), (70, 80, 3)
    lazy = dask.array.from_array(image, chunks=chunks)
    more = {}
    if seeds:
        paint = np.zeros(image.shape[:2], np.int32)
        paint[10:14, 10:40], paint[120:124, 60:140] = 3, 7
        more["seeds"] = paint
    return segment(lazy, preset=preset, seed=0, sweeps=30, block_pixels=2**13, **more)


def zarr_blocks() -> Arrays:
    """A zarr array that is read in blocks."""
    import zarr

    with tempfile.TemporaryDirectory() as folder:
        volume = np.tile(image_of("mosaic_3d"), (2, 2, 2))
        stored = zarr.create_array(f"{folder}/v.zarr", shape=volume.shape, chunks=(6, 30, 30), dtype=volume.dtype)
        stored[:] = volume
        return segment(stored, preset="general", seed=0, sweeps=30, block_pixels=2**13, axes="ZYX")


def resumed() -> Arrays:
    """A run that is saved to a file at its end and goes on."""
    result = gsw.segment(image_of("mosaic"), preset="photo", chains=2, site_size=40, sweeps=25, seed=3)
    with tempfile.TemporaryDirectory() as folder:
        path = gsw.save_session(Path(folder) / "run.zarr.zip", result)
        saved = gsw.open_session(path).run
    return keep_result(gsw.resume(saved, sweeps=20))


def interrupted() -> Arrays:
    """A run that is stopped on its way and goes on to its target."""
    options: Arrays = {"preset": "general", "site_size": 40, "sweeps": 40, "seed": 5}
    part = gsw.segment(image_of("mosaic"), **options, report=lambda _, one: one is not None and one.sweep >= 15)
    return keep_result(gsw.resume(part.run))


# ---- problems without an image


def planted(likelihood: str, prior: str, n: int = 40) -> gsw.Problem:
    """A chain of sites in four planted clusters."""
    rng = np.random.default_rng(1)
    truth = np.arange(n) * 4 // n
    shares = rng.dirichlet(np.full(12, 0.4), 4)
    counts = np.array([rng.multinomial(30, shares[k]) for k in truth])
    edges = np.array([(i, i + 1) for i in range(n - 1)] + [(i, i + 5) for i in range(n - 5)], np.int32)
    law = {
        "dirichlet-process": gsw.DirichletProcess(1.0),
        "pitman-yor": gsw.PitmanYor(1.0, 0.2),
        "finite-dirichlet": gsw.FiniteDirichlet(6, 1.0),
        "potts": gsw.Potts(5),
        "table": gsw.TablePrior(-0.4 * np.arange(n + 1), -0.1 * np.arange(n + 1) ** 1.1),
    }[prior]
    if likelihood == "counts":
        return gsw.Problem.from_counts(counts, edges, beta=0.3, prior=law, phi=6.0)
    pixel = np.repeat(np.arange(n), 8)
    values = rng.normal(size=(4, 3))[truth[pixel]] + rng.normal(0, 0.7, (len(pixel), 3))
    blocks: tuple[Any, ...] = (gsw.Gaussian.from_pixels(values, pixel, n, evidence=6.0),)
    if likelihood == "both":
        blocks = (gsw.DirichletMultinomial(counts, 6.0, 8.0), *blocks)
    return gsw.Problem(n, blocks, edges, np.linspace(-0.2, 0.8, len(edges)), law)


PRIORS = ("dirichlet-process", "pitman-yor", "finite-dirichlet", "potts", "table")
BONDS = ("lam", "edges", "data-driven", "drawn")


def problem_case(likelihood: str, prior: str, bond: str) -> Arrays:
    """A chain of a problem with given bonds."""
    problem = planted(likelihood, prior)
    if bond == "lam":
        chosen: Arrays = {"lam": 2.0}
    elif bond == "edges":
        chosen = {"lam": np.linspace(0, 8, len(problem.edges))}
    elif bond == "data-driven":
        distance = "euclidean" if likelihood == "gaussian" else "hellinger"
        chosen = {"bonds": adapter.bonds.data_driven_bonds(problem, 4.0, 2.0, distance)}
    else:
        chosen = {"bonds": adapter.bonds.random_bonds(problem, 0.1, 0.6)}
    return keep_snapshot(gsw.run(problem, 80, seed=3, burn_in=20, **chosen))


def problem_cases() -> dict[str, Callable[[], Arrays]]:
    """Every prior with every likelihood and every kind of bonds, and the other options of `sample`."""
    cases: dict[str, Callable[[], Arrays]] = {
        f"{likelihood}, {prior}, {bond}": partial(problem_case, likelihood, prior, bond)
        for likelihood in ("counts", "gaussian", "both")
        for prior in PRIORS
        for bond in BONDS
    }
    counts = partial(planted, "counts", "pitman-yor")
    some = np.where(np.arange(40) % 9 == 0, np.arange(40) // 20, -1)
    options: dict[str, Arrays] = {
        "start": {"init": np.arange(40) % 7, "every": 7},
        "seeds": {"seeds": some, "regroups": 2, "splits": 2},
        "annealing": {"annealing": (3.0, 30), "ladder": (1.0, 0.6, 0.3)},
        "full scans": {"full_scans": 0.3, "splits": 1, "lam": 1.0},
    }
    cases |= {f"sample, {name}": partial(sampled, counts, more) for name, more in options.items()}
    cases["sample, state"] = sampled_on
    cases["sample, each"] = sampled_each
    cases["simulate_prior"] = simulated
    return cases


def sampled(problem: Callable[[], gsw.Problem], options: Arrays) -> Arrays:
    """A chain with options of `sample`."""
    return keep_snapshot(gsw.run(problem(), 80, seed=3, **options))


def sampled_on() -> Arrays:
    """A chain that goes on from its own state."""
    problem = planted("counts", "pitman-yor")
    first = gsw.run(problem, 30, seed=3, lam=4.0, burn_in=10, splits=1)
    return keep_snapshot(gsw.run(problem, 25, state=dict(first.state)))


def sampled_each() -> Arrays:
    """All snapshots of a chain."""
    problem = planted("both", "dirichlet-process")
    every = list(gsw.sample(problem, 30, seed=8, every=5))
    return {"sweeps": [one.sweep for one in every], "labels": np.stack([one.labels for one in every])} | {
        "log posterior": [float(one.log_posterior) for one in every]
    }


def simulated() -> Arrays:
    """The trace of the prior."""
    trace = gsw.simulate_prior(planted("counts", "dirichlet-process"), 60, seed=2)
    return {"trace": np.stack([np.asarray(column, float) for column in trace], axis=1)}


# ---- the batch and the command line


def keep_folder(folder: Path) -> Arrays:
    """Names of all files, label images and the columns of all tables of a folder."""
    import tifffile

    names = sorted(path.relative_to(folder) for path in folder.rglob("*") if path.is_file())
    files = [folder / name for name in names if not any(part.startswith(".") for part in name.parts)]
    kept: Arrays = {"files": " ".join(path.relative_to(folder).as_posix() for path in files)}
    for path in files:
        name = path.relative_to(folder).as_posix()
        if path.suffix == ".tif":
            kept[name] = tifffile.imread(path)
        elif path.suffix == ".csv" and "batch" not in path.name:
            with path.open(newline="") as file:
                rows = list(csv.reader(file))
            kept[f"{name} columns"] = " ".join(rows[0])
            kept[f"{name} rows"] = json.dumps(rows[1:])
    return kept


def write_images(folder: Path) -> None:
    """Two images of different kinds."""
    import imageio.v3 as iio

    iio.imwrite(folder / "a.png", image_of("mosaic")[:40, :50])
    np.save(folder / "b.npy", image_of("astronaut")[:40, :40, 0].astype(np.float32))


def batch_by_function() -> Arrays:
    """Two images through `run_batch`."""
    from napari_gsw.batch.run import run_batch

    with tempfile.TemporaryDirectory() as name:
        inside, out = Path(name, "in"), Path(name, "out")
        inside.mkdir()
        write_images(inside)
        run_batch(inside, out, preset="general", seed=4, sweeps=20, site_size=40)
        return keep_folder(out)


def batch_by_command() -> Arrays:
    """Two images through `napari-gsw batch`."""
    with tempfile.TemporaryDirectory() as name:
        inside = Path(name, "in")
        inside.mkdir()
        write_images(inside)
        words = ["--preset", "photo", "--sweeps", "20", "--seed", "4", "--table", "--save-sites", "--jobs", "1"]
        return command(name, "batch", str(inside), *words)


def command(folder: str, *words: str) -> Arrays:
    """All files that a command writes into a new folder."""
    from napari_gsw.cli import main

    out = Path(folder, "out")
    if main([*words, "-o", str(out), "-q"]) != 0:
        raise RuntimeError(f"{words} failed")
    return keep_folder(out)


def segment_by_command(*options: str, file: str = "a.png") -> Arrays:
    """One image through `napari-gsw segment`."""
    with tempfile.TemporaryDirectory() as name:
        write_images(Path(name))
        return command(name, "segment", str(Path(name, file)), "--sweeps", "20", "--seed", "6", *options)


def replay_by_command() -> Arrays:
    """A session of an earlier version through `napari-gsw replay`."""
    with tempfile.TemporaryDirectory() as name:
        return command(name, "replay", str(sessions.path_of("painted")))


def file_cases() -> dict[str, Callable[[], Arrays]]:
    """Cases that write files."""
    every = ("--table", "--uncertainty", "--save-sites", "--save-plot")
    return {
        "batch by function": batch_by_function,
        "batch by command": batch_by_command,
        "segment by command": segment_by_command,
        "segment by command, all files": partial(segment_by_command, *every),
        "segment by command, microscopy": partial(
            segment_by_command, "--preset", "microscopy", "--table", file="b.npy"
        ),
        "replay by command": replay_by_command,
    }


# ---- all of them


def all_cases() -> dict[str, Case]:
    """Every case by name."""
    cases: dict[str, Case] = {}
    for k, row in enumerate(MATRIX):
        cases[f"matrix: {', '.join(row)}"] = Case(partial(matrix_case, *row), k in QUICK_ROWS)
    for name, make in option_cases().items():
        cases[f"segment: {name}"] = Case(make, name in QUICK_OPTIONS)
    for name, make in problem_cases().items():
        cases[f"problem: {name}"] = Case(make, True)
    for name, make in file_cases().items():
        cases[f"files: {name}"] = Case(make, name in ("batch by function", "segment by command"))
    for name in sessions.SESSIONS:
        cases[f"session: {name}"] = Case(partial(sessions.reopened, name), name in sessions.QUICK)
    return cases
