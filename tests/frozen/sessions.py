"""Session files of the version before the interactive run was rewritten, and what becomes of them when they are opened.

The files in ``tests/data/sessions`` are never written again by a later version: what matters is that old files open.
``python -m frozen.record --sessions FOLDER`` writes such files with the present version.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import napari_gsw as gsw
from frozen.adapter import Run
from napari_gsw.sample_data import mosaic, mosaic_3d
from pictures import CENTRES, cells

FOLDER = Path(__file__).parents[1] / "data" / "sessions"
RNG_SEED = 0
# Sweeps after opening.
MORE = 15

Arrays = dict[str, Any]


def path_of(name: str) -> Path:
    """Path of a stored session."""
    return FOLDER / f"{name}.zarr.zip"


# ---- images


@cache
def plane(flipped: bool = False) -> Any:
    """Two noisy grey levels, 40 x 60."""
    noise = np.random.default_rng(RNG_SEED).normal(0, 6, (40, 60))
    image = (np.where(np.arange(60) < 25, 60.0, 160.0) + noise).clip(0, 255).astype(np.uint8)
    return image[:, ::-1].copy() if flipped else image


def colour() -> Any:
    """Six colours, 48 x 64."""
    return mosaic()[0][20:68, 60:124].copy()


def volume() -> Any:
    """Five grey levels, 5 x 24 x 24."""
    return mosaic_3d()[0][:5, 30:54, 30:54].copy()


def nuclei() -> Any:
    """Nuclei, two of which touch."""
    return cells()[0][:, :110].copy()


def in_blocks() -> Any:
    """An image that is read in blocks."""
    import dask.array

    return dask.array.from_array(np.tile(plane(), (2, 2)), chunks=(40, 50))


# ---- runs

SETTINGS = gsw.preset("general", superpixels="grid", site_size=100, sweeps=30, chains=2)


def begin(image: Any, settings: gsw.Settings = SETTINGS, **given: Any) -> Run:
    """Start the chains of an image."""
    return Run.begin(image, settings, 1, **given)


def at_rest() -> Run:
    """A run that has come to its end."""
    run = begin(colour(), gsw.preset("photo", site_size=40, sweeps=30, chains=2))
    run.run(30)
    return run


def under_way() -> Run:
    """A run with a mask and seeds that has 19 sweeps before it."""
    seeds = np.zeros((40, 60), np.int32)
    seeds[5, 5:12], seeds[30, 40:52] = 3, 8
    run = begin(plane(), SETTINGS.replace(site_size=60), seeds=seeds, mask=np.indices((40, 60)).sum(axis=0) > 8)
    run.start(30)
    run.go(11)
    return run


def painted() -> Run:
    """Strokes between sweeps and at rest, not held."""
    run = begin(plane())
    run.run(10)
    run.draw((slice(13, 17), slice(10, 30)), 41, lock=False)
    run.wake()
    run.start(20)
    run.go(4)
    run.draw((slice(25, 30), 44), 42, lock=False)
    run.paint([0, 1], 7)
    run.go(3)
    return run


def locked() -> Run:
    """Strokes that are held, locks and unlocks, other settings, a look back."""
    run = begin(plane(), SETTINGS.replace(superpixels="slic", site_size=60))
    run.run(12)
    run.draw((slice(10, 14), slice(5, 20)), 41)
    run.wake()
    run.draw((slice(24, 28), slice(40, 55)), 42)
    run.wake()
    run.lock([5, 6])
    run.start(20)
    run.go(4)
    run.change_settings(lam=3.0, sweeps=40, splits=1)
    run.unlock(np.flatnonzero(run.locks)[:1])
    run.go(5)
    run.change_settings(steering=3.0)
    run.look_back(12)
    run.go(2)
    return run


def split() -> Run:
    """Strokes of two labels in one site, which is cut."""
    run = begin(plane())
    run.run(10)
    run.draw((slice(13, 17), 21), 41)
    run.start(20)
    run.go(3)
    run.draw((slice(13, 17), 28), 42)
    run.go(4)
    run.draw((slice(3, 6), slice(22, 24)), 43)
    run.go(2)
    return run


def edited() -> Run:
    """Objects that were accepted, merged, cut, deleted and drawn."""
    run = begin(nuclei(), gsw.preset("microscopy", objects="classical", sweeps=12))
    run.run(12)

    def number(k: int) -> int:
        return int(run.labels[CENTRES[k]])

    patch, bridge, line = np.zeros((3, *run.labels.shape), bool)
    patch[55:63, 60:70] = bridge[24:27, 25:81] = line[70:110, 100] = True
    run.edit("accept", number(3))
    run.wake()
    run.edit("merge", [number(0), number(1)], stroke=bridge)
    run.edit("cut", line)
    run.wake()
    run.edit("delete", number(4))
    run.edit("draw", patch, 90)
    run.start(12)
    run.go(5)
    return run


def is_image_list() -> Run:
    """Three images that share their labels, with a stroke in one of them."""
    images = [plane(), plane(True)[:30, :50], plane()[5:, 10:]]
    run = begin(images, gsw.preset("general", superpixels="grid", site_size=60, sweeps=20, regroups=1, hot=4.0))
    run.run(20)
    run.draw((1, slice(8, 20), slice(3, 6)), 42)
    run.wake()
    run.draw((0, slice(8, 20), slice(3, 6)), 41)
    run.wake()
    return run


def lazy() -> Run:
    """An image in blocks with sites that were painted and locked."""
    run = begin(in_blocks(), gsw.preset("general", site_size=60, sweeps=20, block_pixels=2**12))
    run.run(20)
    run.paint([3, 4, 5], 41, lock=True)
    run.wake()
    run.lock([40, 41])
    run.paint([60], 42)
    run.wake()
    return run


def undone() -> Run:
    """Five steps, three of which were undone."""
    run = painted()
    run.lock([20, 21, 22])
    run.go(2)
    run.draw((slice(30, 35), slice(2, 9)), 44)
    run.go(3)
    for _ in range(3):
        run.undo()
        run.go(1)
    return run


def three_d() -> Run:
    """A volume with voxels that are deeper than wide and a stroke in one slice."""
    run = begin(volume(), gsw.preset("general", site_size=40, sweeps=20, spacing="2,1,1"))
    run.run(20)
    run.draw((2, slice(4, 12), slice(3, 6)), 31)
    run.wake()
    run.draw((3, slice(14, 20), slice(12, 20)), 32)
    run.wake()
    return run


def repeated() -> Run:
    """A session that was itself made by a replay."""
    return Run.replay(split().save(), plane())


# Name: the runs of a session by the position of their array, and the images that they belong to.
Made = dict[str, tuple[Callable[[], Run], Callable[[], Any]]]


def stack_run(k: int) -> Callable[[], Run]:
    """One plane of a stack, each with something else done to it."""

    def make() -> Run:
        run = begin(plane(k == 1), SETTINGS.replace(chains=1))
        run.run(10)
        if k:
            run.draw((slice(10, 14), slice(5, 20)), 40 + k)
            run.wake()
        return run

    return make


SESSIONS: dict[str, Made] = {
    "at_rest": {"run": (at_rest, colour)},
    "under_way": {"run": (under_way, plane)},
    "painted": {"run": (painted, plane)},
    "locked": {"run": (locked, plane)},
    "split": {"run": (split, plane)},
    "edited": {"run": (edited, nuclei)},
    "several": {"run": (is_image_list, lambda: [plane(), plane(True)[:30, :50], plane()[5:, 10:]])},
    "stack": {str(k): (stack_run(k), lambda k=k: plane(k == 1)) for k in range(3)},  # type: ignore[misc]
    "lazy": {"run": (lazy, in_blocks)},
    "undone": {"run": (undone, plane)},
    "replayed": {"run": (repeated, plane)},
    "three_d": {"run": (three_d, volume)},
}
QUICK = {"under_way", "locked", "split", "edited", "several", "undone"}


def write(name: str, folder: Path) -> Path:
    """Write a session with the present version, its images in it where they are in memory."""
    made = SESSIONS[name]
    runs = {word: make().save() for word, (make, _) in made.items()}
    images = [image() for _, image in made.values()]
    pixels = np.stack(images) if len(images) > 1 else images[0]
    shares_labels = pixels if isinstance(pixels, list) else [pixels] if isinstance(pixels, np.ndarray) else []
    kept = tuple(gsw.SavedImage(f"{name} {k}", pixels=one) for k, one in enumerate(shares_labels))
    return gsw.save_session(folder / f"{name}.zarr.zip", gsw.SavedSession(runs, kept))


# ---- what becomes of a session


def keep_run(run: Run) -> Arrays:
    """Visible state of a run."""
    kept: Arrays = {"labels": run.labels.astype(np.int64), "numbers": run.numbers, "locks": run.locks}
    kept["counts"] = [run.sweep, run.target, run.undo_steps, run.redo_steps]
    return kept | {f"trace {c}": rows for c, rows in enumerate(run.traces)}


def reopened(name: str) -> Arrays:
    """A stored session opened, continued, undone, redone, resumed, replayed, saved and opened again."""
    found: Arrays = {}
    session = gsw.open_session(path_of(name))
    for word, (_, image) in SESSIONS[name].items():
        pixels = image()
        for what, kept in outcomes(session.runs[word], pixels).items():
            found |= {f"{word} {what} {key}": value for key, value in kept.items()}
    return found


def outcomes(saved: gsw.SavedRun, image: Any) -> dict[str, Arrays]:
    """All that can be done with a saved run."""
    found: dict[str, Arrays] = {}
    run = Run.restore(saved, image)
    found["opened"] = keep_run(run)
    run.finish()
    run.go(MORE)
    found["continued"] = keep_run(run)
    run.run(MORE)
    found["run on"] = keep_run(run)
    run = Run.restore(saved, image)
    while run.undo():
        pass
    found["undone"] = keep_run(run)
    while run.redo():
        pass
    found["redone"] = keep_run(run)
    run.go(MORE)
    found["redone, continued"] = keep_run(run)
    resumed = gsw.resume(saved, sweeps=MORE, image=image if hasattr(image, "chunks") else None)
    found["resumed"] = labels_of(resumed)
    found["replayed"] = labels_of(gsw.replay(saved, image))
    run = Run.restore(saved, image)
    run.go(1)
    with tempfile.TemporaryDirectory() as folder:
        path = gsw.save_session(Path(folder) / "again.zarr.zip", run.save())
        again = Run.restore(gsw.open_session(path).run, image)
    again.go(MORE)
    found["saved again"] = keep_run(again)
    return found


def labels_of(result: Any) -> Arrays:
    """Labels and traces of a result of one or several images."""
    parts = [one.labels for one in result.images] if isinstance(result, gsw.SharedResult) else [result.labels]
    kept: Arrays = {f"labels {k}": np.asarray(part).astype(np.int64) for k, part in enumerate(parts)}
    return kept | {f"trace {c}": np.asarray(one.log_posterior) for c, one in enumerate(result.traces)}
