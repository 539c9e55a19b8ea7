"""Provenance of a result: enough to reproduce it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from napari_gsw.core.graph.couplings import describe_network
from napari_gsw.core.image.lazy import get_chunk_shape, is_image_list, is_lazy, list_levels, read
from napari_gsw.core.model.problem import log_posterior
from napari_gsw.core.pipeline.prepare import describe_object_network
from napari_gsw.core.posterior.summary import Summary
from napari_gsw.core.versions import collect_versions

# Bytes hashed at a time.
HASHED_BYTES = 2**25
SETTINGS_SUFFICE = "the same image, given arrays, settings and seed make the same labels"
STEPS_NEEDED = (
    "settings and seed alone do not make these labels: the settings are those at the end, and a person ran, stopped, "
    "tuned or corrected the chain in the steps listed, each after the sweep of its number"
)


def make_provenance(
    image_digest: Mapping[str, Any],
    summary: Summary,
    seed: int,
    inputs: Mapping[str, Any],
    steps: Sequence[Mapping[str, Any]] = (),
) -> dict[str, Any]:
    """Describe how a result was made, ready for JSON.

    The best sample of the chains may be another than the partition that is the result. `inputs` are arrays of the user
    by name, `steps` the actions during the run; without any, image, settings and seed reproduce the result.
    """
    problem, best = summary.problem, summary.snapshot.best
    network = describe_object_network(summary.settings, problem)
    if network is None and inputs.get("beta") is None:
        network = describe_network(summary.settings)
    return {
        "software": "napari-gsw",
        "versions": collect_versions(),
        **image_digest,
        "given": hash_inputs(inputs, "images" in image_digest),
        **({"maps": dict(problem.maps)} if problem.maps else {}),
        "settings": summary.settings.to_dict(),
        **({} if network is None else {"network": network}),
        "seed": int(seed),
        "reproducible": not steps,
        "reproduction": STEPS_NEEDED if steps else SETTINGS_SUFFICE,
        **({"steps": [dict(step) for step in steps]} if steps else {}),
        "sites": problem.n,
        "edges": len(problem.edges),
        "sweeps": summary.snapshot.sweep,
        "counted_sweeps": summary.counted,
        "clusters": len(np.unique(summary.partition)),
        "log_posterior": log_posterior(problem, summary.partition),
        "best_clusters": best.n_clusters,
        "best_log_posterior": best.log_posterior,
        "best_sweep": best.sweep,
    }


def describe_image(image: Any) -> dict[str, Any]:
    """Return shape, type and hash of an image, in memory or lazy, or of each of a list, ready for JSON."""
    return {"images": [_describe(item) for item in image]} if is_image_list(image) else {"image": _describe(image)}


def _describe(image: ArrayLike) -> dict[str, Any]:
    array: Any = list_levels(image)[0] if is_lazy(image) else np.asarray(image)
    return {"shape": list(array.shape), "dtype": str(array.dtype), "sha256": hash_array(array)}


def hash_inputs(inputs: Mapping[str, Any], has_several_images: bool = False) -> dict[str, Any]:
    """Hash arrays of the user by name; of several images each may be a list. Switches stay as they are."""

    def digest(value: Any, may_be_list: bool) -> Any:
        if value is None or isinstance(value, bool):
            return value
        if may_be_list and isinstance(value, (list, tuple)):
            return [digest(item, False) for item in value]
        return hash_array(value if is_lazy(value) else np.asarray(value))

    return {name: digest(value, has_several_images) for name, value in inputs.items()}


def hash_array(array: Any) -> str:
    """Return the SHA-256 of an array's shape, type and values; the same in memory and lazy."""
    shape = tuple(int(n) for n in array.shape)
    digest = hashlib.sha256(f"{shape}{array.dtype.str}".encode())
    row_bytes = max(1, array.dtype.itemsize * int(np.prod(shape[1:])))
    # Rows of whole chunks, so that no chunk of a lazy array is read twice.
    n_rows = get_chunk_shape(array)[0] if is_lazy(array) and shape else max(1, HASHED_BYTES // row_bytes)
    n_rows *= max(1, HASHED_BYTES // (row_bytes * n_rows))
    for start in range(0, shape[0], n_rows) if shape else ():
        digest.update(np.ascontiguousarray(read(array, (slice(start, start + n_rows),))).data)
    if not shape:
        digest.update(np.asarray(array).tobytes())
    return digest.hexdigest()
