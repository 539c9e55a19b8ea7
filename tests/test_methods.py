"""Methods by name: lookup, choices, and segmentation."""

from __future__ import annotations

import numpy as np
import pytest

from napari_gsw.core.errors import InputError
from napari_gsw.methods import METHODS, Method, choose, segment


def test_methods_are_found_by_entry_points():
    assert next(iter(METHODS)) == "gsw"
    assert {"rdd-crp", "felzenszwalb", "multicut", "graph-cut"} <= set(METHODS)
    assert all(isinstance(method, Method) for method in METHODS.values())
    assert "magic" not in METHODS


def test_parameters_of_a_method_say_what_it_takes():
    assert METHODS["gsw"].arrays == ("sites", "mask", "seeds", "init", "features", "boundaries", "foreground")
    assert not METHODS["gsw"].needs_seeds
    assert METHODS["watershed"].needs_seeds
    assert METHODS["multicut"].arrays == ("sites", "mask")
    assert METHODS["multicut"].takes_settings
    assert not METHODS["felzenszwalb"].takes_settings


def test_own_settings_of_a_method_go_first():
    choice = choose("rdd-crp", "paper", {"alpha": "1e-3", "gamma": "0.5", "evidence": "4"})
    assert (choice.options.alpha, choice.settings.evidence, choice.settings.alpha) == (1e-3, 4, 3.0)
    assert choice.to_dict()["alpha"] == 1e-3
    with pytest.raises(InputError, match="method must be one of gsw"):
        choose("magic")
    with pytest.raises(InputError, match="felzenszwalb has no setting 'sweeps'"):
        choose("felzenszwalb", changes={"sweeps": 3})


def test_arrays_that_a_method_does_not_take_are_refused():
    with pytest.raises(InputError, match="takes no seeds"):
        segment(np.zeros((20, 20)), choose("felzenszwalb"), seeds=np.zeros((20, 20), int))
    outcome = segment(np.kron(np.eye(2), np.ones((30, 30))), choose("felzenszwalb", changes={"min_size": 50}))
    assert outcome.result is None
    assert outcome.provenance["regions"] == outcome.labels.max()
