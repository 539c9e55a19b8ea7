"""Types of arrays."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

Int32Array = NDArray[np.int32]
Int64Array = NDArray[np.int64]
UInt32Array = NDArray[np.uint32]  # an index that cannot be negative needs no check
Float64Array = NDArray[np.float64]
Float32Array = NDArray[np.float32]
BoolArray = NDArray[np.bool_]

ChannelImage = Float32Array  # (*shape, C) channels of an image
Sites = Int32Array  # (*shape,) site of each pixel from 1, 0 where there is none
LabelImage = NDArray[np.integer[Any]]  # (*shape,) whole numbers >= 0
PointArray = Float64Array  # (p, axes) positions in pixels
Arrays = Mapping[str, NDArray[Any]]  # by name, as in the state of a chain
