"""What made a result: enough to make it again."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from napari_gsw.core.graph.couplings import describe_network
from napari_gsw.core.image.lazy import get_chunk_shape, is_image_list, is_lazy, list_levels, read
from napari_gsw.core.model.problem import log_posterior
from napari_gsw.core.pipeline.prepare_objects import describe_object_network
from napari_gsw.core.posterior.summary import Summary
from napari_gsw.core.versions import collect_versions

# Bytes that are hashed at a time.
HASHED = 2**25
# What a person is told about how to come to the same labels.
SETTINGS_SUFFICE = "the same image, given arrays, settings and seed make the same labels"
STEPS_NEEDED = (
    "settings and seed alone do not make these labels: the settings are those at the end, and a person ran, stopped, "
    "tuned or corrected the chain in the steps listed, each after the sweep of its number"
)


def make_provenance(
    looks: Mapping[str, Any],
    summary: Summary,
    seed: int,
    inputs: Mapping[str, Any],
    steps: Sequence[Mapping[str, Any]] = (),
) -> dict[str, Any]:
    """What made a result: enough to make it again; ready for JSON.

    ``clusters`` and ``log_posterior`` are those of the partition that is the result; ``best_clusters``,
    ``best_log_posterior`` and ``best_sweep`` those of the best state of the chains, which need not be the same.

    Parameters
    ----------
    looks : what the image that was segmented is known by; see :func:`looks_of`.
    inputs : arrays of the user's own that went into it, by name; beside several images a list each.
    steps : what a person did while the chain ran, in order; without any, image, settings and seed are enough.
    """
    several = "images" in looks
    problem, best = summary.problem, summary.snapshot.best
    network = describe_object_network(summary.settings, problem)
    if network is None and inputs.get("beta") is None:
        network = describe_network(summary.settings)
    return {
        "software": "napari-gsw",
        "versions": collect_versions(),
        **looks,
        "given": hash_inputs(inputs, several),
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
    """What an image, in memory or lazy, is known by, ready for JSON; or a list of several that share their clusters."""
    return {"images": [_look(one) for one in image]} if is_image_list(image) else {"image": _look(image)}


def _look(image: ArrayLike) -> dict[str, Any]:
    """What an image is known by."""
    array: Any = list_levels(image)[0] if is_lazy(image) else np.asarray(image)
    return {"shape": list(array.shape), "dtype": str(array.dtype), "sha256": hash_array(array)}


def hash_inputs(inputs: Mapping[str, Any], several: bool = False) -> dict[str, Any]:
    """What arrays of the user's own are known by, by name; of several images each array is a list."""
    return {name: _given_hash(value, several) for name, value in inputs.items()}


def _given_hash(value: Any, several: bool) -> Any:
    """The hash of an array or, beside several images, of each one of a list; a switch as it is."""
    if value is None or isinstance(value, bool):
        return value
    if several and isinstance(value, (list, tuple)):
        return [_given_hash(one, False) for one in value]
    return hash_array(value if is_lazy(value) else np.asarray(value))


def hash_array(array: Any) -> str:
    """SHA-256 of an array's shape, type and values; the same whether it is in memory or lazy."""
    shape = tuple(int(n) for n in array.shape)
    digest = hashlib.sha256(f"{shape}{array.dtype.str}".encode())
    row = max(1, array.dtype.itemsize * int(np.prod(shape[1:])))
    # Rows of whole chunks, so that a lazy array is not read again and again.
    thick = get_chunk_shape(array)[0] if is_lazy(array) and shape else max(1, HASHED // row)
    thick *= max(1, HASHED // (row * thick))
    for start in range(0, shape[0], thick) if shape else ():
        digest.update(np.ascontiguousarray(read(array, (slice(start, start + thick),))).data)
    if not shape:
        digest.update(np.asarray(array).tobytes())
    return digest.hexdigest()
