"""The numbers of a network in a file: half-precision arrays by name, what they are, and a hash that they must have.

A file holds numbers alone, and what is done with them is written down in
:mod:`napari_gsw.core.features.network_plan`: a file that has other arrays, or other numbers than its hash says, is
refused.
"""

from __future__ import annotations

import hashlib
import json
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray

from napari_gsw.core.array_types import Float32Array
from napari_gsw.core.errors import InputError
from napari_gsw.core.features.network_plan import OBJECTS, PHOTO, NetworkPlan

# The plans by the name that a file gives.
PLANS: Mapping[str, NetworkPlan] = {"photo": PHOTO, "objects": OBJECTS}
ABOUT = "about"


@dataclass(frozen=True, eq=False)
class NetworkWeights:
    """The weights of a network.

    Attributes
    ----------
    kind : the name of its plan.
    arrays : of each convolution ``NAME.weight`` (outputs, inputs, size, size) and ``NAME.bias`` (outputs,) float32.
    sha256 : of the numbers as they are stored.
    """

    kind: str
    arrays: Mapping[str, Float32Array]
    sha256: str

    @property
    def plan(self) -> NetworkPlan:
        """What the network looks like."""
        return PLANS[self.kind]


def save_weights(path: str | PathLike[str], kind: str, arrays: Mapping[str, NDArray[np.float16]], **about: Any) -> str:
    """Write weights, as :class:`NetworkWeights` has them, and what else there is to say; returns their hash."""
    _check_shapes(kind, arrays)
    sha256 = weights_hash(arrays)
    words = json.dumps({"kind": kind, "sha256": sha256, **about})
    with open(path, "wb") as file:  # a name without .npz stays what it is
        content: dict[str, Any] = {ABOUT: np.array(words), **arrays}
        np.savez(file, **content)
    return sha256


def load_weights(path: str | PathLike[str], kind: str) -> NetworkWeights:
    """Read weights; whatever is wrong with the file is an InputError in one line.

    Parameters
    ----------
    kind : the plan that the file must be of.
    """
    try:
        with open(path, "rb") as file, np.load(file, allow_pickle=False) as content:
            arrays = {name: content[name] for name in content.files}
        about = json.loads(str(arrays.pop(ABOUT)))
        stored_kind, stored_hash = str(about["kind"]), str(about["sha256"])
    except OSError as reason:
        raise InputError(f"network {str(path)!r} cannot be read: {reason.strerror or 'it is no file'}") from None
    except (ValueError, KeyError, TypeError, AttributeError, EOFError, zipfile.BadZipFile, MemoryError):
        raise InputError(f"{str(path)!r} is not a network: it must be written by napari_gsw.research.paper") from None
    if stored_kind != kind:
        raise InputError(f"network {str(path)!r} is one for {stored_kind}, and {kind} is wanted")
    try:
        _check_shapes(kind, arrays)
    except InputError as reason:
        raise InputError(f"{str(path)!r} is not a network for {kind}: {reason}") from None
    if weights_hash(arrays) != stored_hash:
        raise InputError(f"network {str(path)!r} is damaged: its numbers are not those that its hash was made of")
    return NetworkWeights(kind, {name: a.astype(np.float32) for name, a in arrays.items()}, stored_hash)


def weights_hash(arrays: Mapping[str, NDArray[np.float16]]) -> str:
    """SHA-256 of the names, shapes and numbers of arrays, in the order of their names."""
    digest = hashlib.sha256()
    for name in sorted(arrays):
        digest.update(f"{name}{arrays[name].shape}".encode())
        digest.update(np.ascontiguousarray(arrays[name], dtype="<f2").data)
    return digest.hexdigest()


def _check_shapes(kind: str, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Refuse arrays that are not those of a plan."""
    if kind not in PLANS:
        raise InputError(f"there is no network for {kind}; those that there are: {', '.join(PLANS)}")
    shapes: dict[str, tuple[int, ...]] = {}
    for c in PLANS[kind].convolutions():
        shapes |= {f"{c.name}.weight": (c.outputs, c.inputs, c.size, c.size), f"{c.name}.bias": (c.outputs,)}
    for name in sorted(shapes.keys() | arrays.keys()):
        if name not in arrays or name not in shapes:
            raise InputError(f"it has {'no' if name not in arrays else 'an unknown'} array {name}")
        array = arrays[name]
        if array.shape != shapes[name] or array.dtype != np.float16:
            raise InputError(f"array {name} must be float16 of shape {shapes[name]}, not {array.dtype} {array.shape}")
        if not np.isfinite(array).all():
            raise InputError(f"array {name} has numbers that are not finite")
