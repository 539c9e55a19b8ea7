"""The types of arrays, each defined once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int32]
Longs = NDArray[np.int64]
Counts = NDArray[np.uint32]  # unsigned: an index that cannot be negative needs no check for it
Bytes = NDArray[np.int8]
Floats = NDArray[np.float64]
Floats32 = NDArray[np.float32]
Mask = NDArray[np.bool_]

Pixels = Floats32  # (*shape, C) channels of an image
Sites = Ints  # (*shape,) number of the site of each pixel from 1, 0 where there is none
LabelImage = NDArray[np.integer[Any]]  # (*shape,) any whole numbers >= 0
Points = Floats  # (p, axes) places in an image, in pixels

# Arrays by name, as a chain state has them.
Arrays = Mapping[str, NDArray[Any]]
