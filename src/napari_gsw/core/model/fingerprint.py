"""Fingerprint of a problem: a hash that any change of its data, graph, prior or field changes.

Floats are rounded to seven digits, because the last digits of a logarithm differ between machines and versions of the
libraries. Of the tables of words, which may have millions of entries, two entries for each word determine the rest.
"""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from napari_gsw.core.array_types import Float64Array
from napari_gsw.core.graph.region_graph import CsrGraph
from napari_gsw.core.likelihood.tables import RATE, LikelihoodTables
from napari_gsw.core.model.external_field import ExternalField
from napari_gsw.core.model.priors import PriorTables

# Bytes of a fingerprint.
FINGERPRINT_BYTES = 16


def hash_data(evidence: LikelihoodTables, graph: CsrGraph) -> bytes:
    """Hash the data and the graph, which do not depend on the field or the prior."""
    first = evidence.table_start.astype(np.int64)
    last = first + evidence.table_end.astype(np.int64) - 1
    second = np.minimum(first + 1, last)
    arrays = [
        array
        for name, array in evidence._replace(gauss=_flat_gauss(evidence.gauss))._asdict().items()
        if name != "table"
    ]
    return _digest(*arrays, evidence.table[second], evidence.table[last], graph.left, graph.right, graph.beta)


def _flat_gauss(gauss: Float64Array) -> Float64Array:
    """Return priors of channels (C, GAUSS) with common values written once, as in older versions."""
    if not len(gauss):
        return np.ones(RATE)
    common = gauss[:, :RATE]
    return np.concatenate((common[0], gauss[:, RATE])) if (common == common[0]).all() else gauss


def hash_problem(data: bytes, prior: PriorTables, field: ExternalField | None) -> NDArray[np.uint8]:
    """Hash the whole problem, given the digest of its data; (FINGERPRINT_BYTES,) uint8."""
    digest = _digest(np.frombuffer(data, np.uint8), *prior, *(() if field is None else field))
    return np.frombuffer(digest, np.uint8)


def _digest(*arrays: Any) -> bytes:
    """Hash arrays and their shapes, the same on every machine."""
    digest = hashlib.blake2b(digest_size=FINGERPRINT_BYTES)
    for values in arrays:
        array = np.asarray(values)
        if array.dtype.kind == "f":
            with np.errstate(over="ignore", under="ignore"):
                array = array.astype("<f4")
        else:
            array = array.astype(array.dtype.newbyteorder("<"), copy=False)
        digest.update(f"{array.shape}{array.dtype.str}".encode())
        digest.update(np.ascontiguousarray(array).data)
    return digest.digest()
