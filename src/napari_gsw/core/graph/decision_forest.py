"""Boosted decision trees as plain arrays: read from JSON, evaluated in compiled code, learnt elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from napari_gsw.core.arrays import Floats, Ints
from napari_gsw.core.errors import InputError
from napari_gsw.core.graph.decision_forest_kernels import leaf_sums


@dataclass(frozen=True, eq=False)
class DecisionForest:
    """Trees one after the other. A node with a feature of -1 is a leaf.

    Attributes
    ----------
    root : (trees,) first node of each tree.
    feature : (nodes,) column that a node looks at.
    threshold : (nodes,) up to this value one goes left, above it right; of a leaf, its value.
    left, right : (nodes,) where one goes.
    """

    root: Ints
    feature: Ints
    threshold: Floats
    left: Ints
    right: Ints

    def scores(self, rows: Floats) -> Floats:
        """(rows,) sum of the leaves that each row (rows, features) ends in."""
        if rows.shape[1] <= self.feature.max(initial=-1):
            raise InputError(f"the forest looks at {self.feature.max() + 1} features, not {rows.shape[1]}")
        return leaf_sums(self.root, self.feature, self.threshold, self.left, self.right, np.ascontiguousarray(rows))

    def to_dict(self) -> dict[str, list[float]]:
        """Plain lists, ready for JSON; numbers to seven digits."""
        content: dict[str, list[float]] = {name: getattr(self, name).tolist() for name in self.__dataclass_fields__}
        content["threshold"] = [float(f"{x:.7g}") for x in content["threshold"]]
        return content

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> DecisionForest:
        """The forest that :meth:`to_dict` wrote; every index is checked, because the compiled code checks none."""
        try:
            places = {name: np.array(content[name], dtype=np.int32) for name in ("root", "feature", "left", "right")}
            forest = cls(threshold=np.array(content["threshold"], dtype=np.float64), **places)
        except (KeyError, TypeError, ValueError) as reason:
            raise InputError(f"this is not a forest: {reason}") from None
        nodes = len(forest.feature)
        inner = forest.feature >= 0
        same = all(a.shape == (nodes,) for a in (forest.threshold, forest.left, forest.right))
        # Children come after their parent, so that no walk goes round in circles.
        down = same and all(
            ((a[inner] > np.flatnonzero(inner)) & (a[inner] < nodes)).all() for a in (forest.left, forest.right)
        )
        if not (down and ((forest.root >= 0) & (forest.root < nodes)).all() and np.isfinite(forest.threshold).all()):
            raise InputError("this is not a forest: nodes must lead to later nodes, and thresholds must be finite")
        return forest
