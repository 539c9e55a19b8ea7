"""The summary of the search experiment."""

from __future__ import annotations

from napari_gsw.research.paper import search


def test_gaps_are_to_the_best_that_any_way_has_found():
    run = {"seconds": [0.0, 1.0, 2.5], "best": [-9.0, -4.0, -3.0], "polished": -2.0}
    assert [search.best_after(run, t) for t in (0.0, 0.9, 1.0, 3.0)] == [-9.0, -9.0, -4.0, -3.0]
    other = {"seconds": [0.0], "best": [-8.0], "polished": -1.0}
    records = {"a": {"sites": {"paper": 5}, "runs": {"paper/plain/0": run, "paper/annealing/0": other}}}
    assert search.best_known(records["a"], "paper") == -1.0
    assert search.gaps_to_best(records, "paper", "plain", 1.0).tolist() == [3.0]
    assert search.gaps_to_best(records, "paper", "plain", None).tolist() == [1.0]
    assert search.gaps_to_best(records, "paper", "annealing", 1.0).tolist() == [7.0]
