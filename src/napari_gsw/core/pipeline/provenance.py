"""What made a result: enough to make it again."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from napari_gsw.core.image.lazy import chunk_lengths, is_lazy, levels, read
from napari_gsw.core.model.problem import Problem
from napari_gsw.core.sampler.snapshot import Snapshot
from napari_gsw.core.settings import Settings
from napari_gsw.core.versions import all_versions

# Bytes that are hashed at a time.
HASHED = 2**25


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
