"""Are the results of two commits the same, bit for bit? Labels, traces and chain states of some thirty small problems.

    python tools/same_results.py -o before.json          on the one commit
    python tools/same_results.py --compare before.json   on the other

Only names that both commits have are used; `quantities` knows the chain state of either. What differs is named, and the
exit code is 1. Numbers depend on the machine and on the versions of numpy and numba: compare on one machine.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

import napari_gsw as gsw
from napari_gsw.sample_data import mosaic, mosaic_3d, random_mosaic, sample

Arrays = dict[str, Any]


def quantities(state: Mapping[str, Any]) -> Arrays:
    """The arrays of a chain state by name, whichever version wrote it."""
    if "version" in state:
        return {name: array for name, array in state.items() if name not in ("version", "fingerprint")}
    named: Arrays = {
        "labels": state["labels"],
        "seeds": state["seeds"],
        "generator": state["generator"],
        "log_posterior": state["value"][0],
        "best_log_posterior": state["value"][1],
        "best_labels": state["best"],
        "together": state["together"],
        "moments": state["moments"],
        "gauss": state["gauss"],
    }
    named |= dict(zip(("sweep", "counted", "best_sweep"), state["counted"], strict=True))
    if "strength" in state:
        named |= {"bond_strength": state["strength"], "draws": state["draws"], "draw_gap": state["gap"][0]}
        named |= dict(zip(("bond_low", "bond_high"), state["bond_range"], strict=True))
        named |= dict(zip(("regroups", "burn_in"), state["moves"], strict=True))
        named |= dict(zip(("coldness", "hot", "cooling_sweeps"), state["cooling"], strict=True))
        named |= dict(zip(("splits", "scans", "near", "informed", "full_scans"), state["splits"], strict=True))
    for name in ("ladder", "exchanges", "hot_labels", "hot_generator", "hot_slots", "hot_moments", "hot_gauss"):
        if name in state:
            named[name] = state[name]
    if "hot_value" in state:
        named["hot_log_posterior"] = state["hot_value"]
    return named


def digest(value: Any) -> str:
    """Of the values alone: a whole number is the same as an integer and as a float."""
    array = np.asarray(value)
    if array.dtype.kind in "biuf" and array.size and np.array_equal(array, np.rint(array)):
        array = array.astype(np.int64)
    return hashlib.sha256(
        f"{array.shape}{array.dtype.str}".encode() + np.ascontiguousarray(array).tobytes()
    ).hexdigest()[:16]


def of_result(result: Any) -> Arrays:
    found: Arrays = {
        "labels": np.asarray(result.labels).astype(np.int64),
        "clusters": result.clusters,
        "regions": result.regions,
        "uncertainty": np.asarray(result.uncertainty),
        "boundary": np.asarray(result.boundary),
    }
    for c, trace in enumerate(result.traces):
        found |= {f"trace {c} {name}": column for name, column in trace._asdict().items()}
    return found | {f"state {name}": array for name, array in quantities(result.snapshot.state).items()}


def of_snapshot(snapshot: Any) -> Arrays:
    found = {"labels": snapshot.labels, "best": snapshot.best.labels, "together": snapshot.together}
    found |= {"log_posterior": snapshot.log_posterior, "trace": snapshot.trace}
    return found | {f"state {name}": array for name, array in quantities(snapshot.state).items()}


def pictures() -> dict[str, Any]:
    return {
        "astronaut": sample("astronaut")[0][100:260, 150:330],
        "tissue": sample("tissue")[0][:160, :180],
        "mosaic": random_mosaic(np.random.default_rng(0))[0],
    }


def planted(n: int = 40) -> gsw.Problem:
    rng = np.random.default_rng(1)
    truth = np.arange(n) * 4 // n
    shares = rng.dirichlet(np.full(12, 0.4), 4)
    counts = np.array([rng.multinomial(30, shares[k]) for k in truth])
    edges = [(i, i + 1) for i in range(n - 1)] + [(i, i + 5) for i in range(n - 5)]
    return gsw.Problem.from_counts(counts, edges, beta=0.3, prior=gsw.PitmanYor(1.0, 0.2), phi=6.0)


def strokes(shape: tuple[int, ...]) -> Any:
    seeds = np.zeros(shape, np.int32)
    seeds[10:14, 10:40] = 3
    seeds[100:104, 60:140] = 7
    return seeds


def steered() -> Arrays:
    """A chain that a person paints on, locks, undoes and lets go on."""
    try:
        from napari_gsw.core.pipeline.live_chain import LiveChain
    except ImportError:
        from napari_gsw.core.pipeline.live_chain import LiveChain
    settings = gsw.preset("general", sweeps=60, chains=2)
    live = LiveChain(gsw.prepare(mosaic()[0][:120, :160], settings), settings, 5)
    live.target = 60
    found: Arrays = {}
    for turn, act in enumerate(
        (
            lambda: None,
            lambda: live.paint([3, 4, 5], 9, lock=True),
            lambda: live.paint([20, 21], 0),
            lambda: live.lock(np.flatnonzero(live.numbers == live.numbers[40])),
            lambda: live.undo(),
            lambda: live.retune(settings.replace(lam=3.0, splits=2)),
            lambda: live.redo(),
        )
    ):
        act()
        for _ in range(4):
            live.advance(2)
        found |= {f"{turn} numbers": live.numbers, f"{turn} locks": live.locks}
        found |= {f"{turn} {c} trace": rows for c, rows in enumerate(live.traces)}
    return found | {f"state {k}": v for k, v in quantities(live.ensemble.snapshots[1].state).items()}


def resumed() -> Arrays:
    problem = planted()
    first = gsw.run(problem, 30, seed=3, lam=4.0, burn_in=10, splits=1)
    return of_snapshot(gsw.run(problem, 25, state=dict(first.state)))


def in_blocks() -> Arrays:
    import dask.array

    image = np.tile(mosaic()[0], (2, 2, 1))
    lazy = dask.array.from_array(image, chunks=(100, 110, 3))
    result = gsw.segment(lazy, preset="general", seed=0, sweeps=30, block_pixels=2**13)
    return of_result(result)


def problems() -> dict[str, Callable[[], Arrays]]:
    made: dict[str, Callable[[], Arrays]] = {}
    for name, image in pictures().items():
        for preset in gsw.PRESETS:
            made[f"{preset}, {name}"] = lambda i=image, p=preset: of_result(gsw.segment(i, preset=p, seed=2, sweeps=60))
    volume = mosaic_3d()[0][:12, :48, :48]
    image = pictures()["mosaic"]
    seeds = strokes(image.shape[:2])
    some = np.where(np.arange(40) % 9 == 0, np.arange(40) // 20, -1)
    made |= {
        "general, volume": lambda: of_result(gsw.segment(volume, preset="general", seed=0, sweeps=40)),
        "microscopy, volume": lambda: of_result(gsw.segment(volume, preset="microscopy", seed=0)),
        "seeds": lambda: of_result(gsw.segment(image, seeds=seeds, seed=1, sweeps=40)),
        "seeds, photo": lambda: of_result(gsw.segment(image, preset="photo", seeds=seeds, sweeps=40)),
        "locks": steered,
        "limits": lambda: of_result(
            gsw.segment(image, preset="paper", min_size=6, max_size=200, sweeps=60, site_size=120, seed=4)
        ),
        "tempering": lambda: of_result(
            gsw.segment(image, preset="paper", replicas=3, chains=2, sweeps=30, splits=1, seed=4)
        ),
        "neighbours of neighbours": lambda: of_result(
            gsw.segment(
                image, preset="paper", prior="pitman-yor", theta=0.3, neighbourhood=2, sampler="data-driven",
                full_scans=0.5, sweeps=40, seed=1,
            )
        ),
        "gaussian": lambda: of_result(
            gsw.segment(image, preset="paper", likelihood="gaussian", position=2.0, sweeps=40, min_size=3, seed=1)
        ),
        "polished": lambda: of_result(gsw.segment(image, preset="paper", polish="yes", sweeps=30, start="random")),
        "binder": lambda: of_result(gsw.segment(image, preset="general", consensus="binder", sweeps=40)),
        "mask, felzenszwalb": lambda: of_result(
            gsw.segment(image, mask=seeds == 0, superpixels="felzenszwalb", sweeps=20)
        ),
        "counts": lambda: of_snapshot(
            gsw.run(planted(), 80, seed=3, lam=np.linspace(0, 8, len(planted().edges)), init=np.arange(40) % 7, every=7)
        ),
        "counts, seeds": lambda: of_snapshot(
            gsw.run(planted(), 80, seeds=some, regroups=2, splits=2)
        ),
        "counts, annealed": lambda: of_snapshot(gsw.run(planted(), 60, annealing=(3.0, 30), ladder=(1.0, 0.6, 0.3))),
        "resumed": resumed,
        "in blocks": in_blocks,
    }  # fmt: skip
    return made


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--output", type=Path, help="write the digests")
    parser.add_argument("--compare", type=Path, help="digests of another commit")
    parser.add_argument("--only", default="", help="problems whose name holds this")
    args = parser.parse_args()
    found = {
        name: {key: digest(value) for key, value in work().items()}
        for name, work in problems().items()
        if args.only in name
    }
    if args.output:
        args.output.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    if not args.compare:
        return 0
    before, different = json.loads(args.compare.read_text(encoding="utf-8")), 0
    for name, digests in found.items():
        old = before.get(name, {})
        keys = sorted(key for key in digests.keys() | old.keys() if digests.get(key) != old.get(key))
        different += bool(keys)
        print(f"{name}: {'the same' if not keys else 'DIFFERENT: ' + ', '.join(keys)}")
    print(f"{len(found) - different} of {len(found)} problems are the same")
    return int(different > 0)


if __name__ == "__main__":
    sys.exit(main())
