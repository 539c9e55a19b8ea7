"""An image that does not fit into memory, from zarr to zarr: seconds and memory of each stage.

``python -m napari_gsw.research.benchmarks.slide IMAGE LABELS [BOUNDARIES]`` is the process that is measured: it
segments a zarr array, writes the labels, and prints seconds and memory as JSON.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import zarr

from napari_gsw.core.pipeline.segment import segment
from napari_gsw.core.pipeline.stage import Stage
from napari_gsw.core.sampler.snapshot import Snapshot
from napari_gsw.core.threads import count_cores
from napari_gsw.files.labels import write_labels
from napari_gsw.research.benchmarks.memory import process_peak
from napari_gsw.research.benchmarks.report import BenchSection, Cell, Ratio

CHUNK = 1024
# Kinds of regions, amplitude of the stripes that a third of them have, and noise, which is too weak to be removed.
KINDS, STRIPES, NOISE = 12, 20.0, 4.0
STAGES = {
    "blocks": "blocks: sites, words, faces",
    "assembly": "putting them together, couplings",
    "sampling": "sampling",
    "result": "consensus, regions",
    "labels": "labels as OME-Zarr with its levels",
}


def measure_slide(side: int) -> BenchSection:
    """Measure a slide of side x side pixels, which needs about 5 bytes of disk per pixel."""
    with tempfile.TemporaryDirectory() as folder:
        image, labels, boundaries = (Path(folder, f"{name}.zarr") for name in ("slide", "labels", "boundaries"))
        write_slide(image, boundaries, side)
        measured = segment_in_process([image, labels])
    rows: list[list[Cell]] = [[STAGES[name], *values] for name, values in measured["stages"].items()]
    title = f"{side:,} x {side:,} pixels from zarr to zarr on {count_cores()} cores, preset general"
    peaks = [row[3] for row in rows if isinstance(row[3], float)]
    ratios = {f"peak MB, {side:,} x {side:,}": Ratio(max(peaks), "low", 0.3)} if peaks else {}
    columns = ["", "seconds", "processor seconds", "peak MB so far"]
    return BenchSection(title, columns, rows, ratios, facts={"pixels": side**2, **measured["facts"]})


def segment_in_process(files: Sequence[Path]) -> dict[str, Any]:
    """Segment in a process of its own: an image, the labels to write, and optionally a map of boundaries."""
    command = [sys.executable, "-m", "napari_gsw.research.benchmarks.slide", *map(str, files)]
    process = subprocess.run(command, capture_output=True, text=True)
    if process.returncode:
        raise RuntimeError(f"the slide was not segmented: {process.stderr[-2000:]}")
    content: dict[str, Any] = json.loads(process.stdout.splitlines()[-1])
    return content


def write_slide(image: Path, boundaries: Path, side: int, noise: float = NOISE) -> None:
    """Write regions of twelve kinds, some striped, with noise, and a map of their boundaries, chunk by chunk."""
    pixels = zarr.create_array(str(image), shape=(side, side, 3), chunks=(CHUNK, CHUNK, 3), dtype="u1")
    lines = zarr.create_array(str(boundaries), shape=(side, side), chunks=(CHUNK, CHUNK), dtype="f4")
    colours = np.random.default_rng(0).integers(30, 225, (KINDS, 3))

    def write_chunk(corner: tuple[int, int]) -> None:
        y, x = (np.arange(c, min(c + CHUNK, side)) for c in corner)
        a = np.sin(y / 211)[:, np.newaxis] + np.sin((y[:, np.newaxis] + x) / 317)
        b = np.sin(x / 263)[np.newaxis] + np.sin((y[:, np.newaxis] - x) / 389)
        kind = np.digitize(a, [-0.8, 0, 0.8]) * 3 + np.digitize(b, [-0.5, 0.5])
        stripes = (kind % 3 == 0) * STRIPES * np.sin(x / 3)
        grain = np.random.default_rng(corner).normal(0, noise, (len(y), len(x), 3))
        chunk = slice(int(y[0]), int(y[-1]) + 1), slice(int(x[0]), int(x[-1]) + 1)
        pixels[chunk] = np.clip(colours[kind] + stripes[..., np.newaxis] + grain, 0, 255).astype(np.uint8)
        edge = np.zeros(kind.shape, bool)
        edge[1:] |= kind[1:] != kind[:-1]
        edge[:, 1:] |= kind[:, 1:] != kind[:, :-1]
        lines[chunk] = np.where(edge, 0.9, 0.05)

    with ThreadPoolExecutor(count_cores()) as pool:
        list(pool.map(write_chunk, [(y, x) for y in range(0, side, CHUNK) for x in range(0, side, CHUNK)]))


def main(image: str, labels: str, *boundaries: str) -> None:
    """Segment, write the labels, and print the measurements."""
    stages: dict[str, list[float | None]] = {}
    current = ("blocks", time.perf_counter(), time.process_time())

    def begin_stage(name: str) -> None:
        nonlocal current
        previous, wall, processor = current
        peak = process_peak()
        stages[previous] = [
            time.perf_counter() - wall, time.process_time() - processor, None if peak is None else peak / 1e6
        ]  # fmt: skip
        current = (name, time.perf_counter(), time.process_time())

    def report(stage: Stage, snapshot: Snapshot | None) -> None:
        if stage.name in ("assembly", "sampling") and stage.name not in (*stages, current[0]):
            begin_stage(stage.name)
        if stage.name == "sampling" and stage.done == stage.total:
            begin_stage("result")

    lines = zarr.open(boundaries[0], mode="r") if boundaries else None
    result = segment(zarr.open(image, mode="r"), seed=0, report=report, boundaries=lines)
    begin_stage("labels")
    write_labels(result.labels, labels, provenance=result.provenance)
    begin_stage("")
    facts = {
        "sites": result.problem.n, "clusters": result.n_clusters, "regions": result.n_regions,
        "sweeps": result.snapshot.sweep,
        "bytes of compressed sites": sum(len(piece.data) for piece in result.problem.sites.pieces),
    }  # fmt: skip
    print(json.dumps({"facts": facts, "stages": stages}))


if __name__ == "__main__":
    main(*sys.argv[1:])
