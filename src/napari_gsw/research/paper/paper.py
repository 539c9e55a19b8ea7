"""What the paper reports: Xu, Caron and Doucet, "Bayesian nonparametric image segmentation using a generalized
Swendsen-Wang algorithm"."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

# Expected clusters for n = 1099, from the caption of its second figure. They are one too low: E[k] - 1.
CAPTION_CLUSTERS = {1.0: 6.6, 3.0: 17.2, 5.0: 26.5}
SITES = 1099


class Printed(NamedTuple):
    """A column of its table: median Rand index, p-value against the best method (None: it is the best), clusters."""

    rand: float
    p_value: float | None
    clusters: int


# "<.001" in print is .001 here.
TABLE: Mapping[str, Mapping[str, Printed]] = {
    "LabelMe": {
        "mean-shift": Printed(0.7623, 0.0011, 12),
        "rdd-crp": Printed(0.7759, None, 6),
        "T_min 0": Printed(0.7712, 0.0108, 9),
        "T_min 3": Printed(0.7692, 0.0965, 6),
        "T_min 6": Printed(0.7483, 0.001, 4),
        "T_min 9": Printed(0.7235, 0.001, 3),
    },
    "Berkeley": {
        "mean-shift": Printed(0.7988, None, 23),
        "rdd-crp": Printed(0.7748, 0.0066, 9),
        "T_min 0": Printed(0.7882, 0.0566, 12),
        "T_min 3": Printed(0.7797, 0.0052, 8),
        "T_min 6": Printed(0.7291, 0.001, 4),
        "T_min 9": Printed(0.6881, 0.001, 3),
    },
}
