"""A chain's state from anywhere: right, or refused in a sentence that names what is wrong."""

from __future__ import annotations

import re

import numpy as np
import pytest

import napari_gsw as gsw
from napari_gsw.core.model.external_field import ExternalField
from napari_gsw.core.sampler.chain import restart_from, start_chain
from napari_gsw.core.sampler.options import SamplerOptions
from napari_gsw.core.sampler.snapshot import CHAIN_ENTRIES, REPLICA_ENTRIES, export_state
from problems import planar

N = 30
SEEDS = np.where(np.arange(N) % 9 == 0, np.arange(N) // 15, -1)


@pytest.fixture(scope="module")
def problem():
    return planar(n=N, words=8, channels=1, clusters=3)


@pytest.fixture(scope="module")
def state(problem):
    return dict(gsw.run(problem, 12, seeds=SEEDS, ladder=(1.0, 0.6, 0.3), splits=1).state)


def wrong_values(array):
    """Contents that a careless or malicious file may have instead of an array."""
    yield from (None, "text", np.array([None]), array.astype(complex), array[..., np.newaxis])
    yield array[..., :-1] if array.ndim else np.stack([array, array])
    if array.dtype.itemsize > 1:
        yield np.full(array.shape, np.nan)
        yield np.full(array.shape, np.inf)


# Of each number one that it may not be, even where its type is right.
TAMPERED = [
    ("labels", -1),
    ("labels", 10**6),
    ("labels", 2**40),
    ("best_labels", -1),
    ("best_labels", N),
    ("seeds", -2),
    ("seeds", 2**31),
    ("sweep", -1),
    ("counted", 10**6),
    ("best_sweep", 10**6),
    ("together", -1),
    ("together", 10**6),
    ("log_posterior", 0.0),
    ("log_posterior", 1e300),
    ("best_log_posterior", 0.0),
    ("moments", 1e3),
    ("gauss", 1e3),
    ("bond_strength", -1.0),
    ("bond_low", -0.1),
    ("bond_low", 0.9),
    ("bond_high", 1.0),
    ("regroups", -1),
    ("regroups", 2**40),
    ("burn_in", -1),
    ("splits", -1),
    ("splits", 2**40),
    ("scans", 2**40),
    ("scans", -1),
    ("near", 1.5),
    ("informed", -0.5),
    ("full_scans", 0.0),
    ("coldness", 0.0),
    ("coldness", -1.0),
    ("hot", 0.0),
    ("cooling_sweeps", -1),
    ("draws", -1),
    ("draws", N),
    ("draw_gap", 0),
    ("draw_gap", -3),
    ("ladder", 0.5),
    ("exchanges", -1),
    ("hot_slots", 0),
    ("hot_slots", N + 1),
    ("hot_labels", -1),
    ("hot_labels", N - 1),
    ("hot_log_posterior", 0.0),
    ("hot_moments", 1e3),
    ("hot_gauss", 1e3),
]


@pytest.mark.parametrize(("name", "value"), TAMPERED)
def test_a_number_out_of_place_is_refused_by_name(problem, state, name, value):
    array = state[name].astype(np.int64 if state[name].dtype.kind in "iu" else np.float64)
    array[...] = value
    # Of replicas the first one is told of what the others have in common with it.
    named = name.removeprefix("hot_") if name in ("hot_log_posterior", "hot_moments", "hot_gauss") else name
    with pytest.raises(gsw.InputError, match=f"wrong '(hot_)?{named}'|wrong 'hot_moments'"):
        gsw.sample(problem, 2, state=state | {name: array})


@pytest.mark.parametrize("name", [*CHAIN_ENTRIES, *REPLICA_ENTRIES])
def test_what_is_not_the_array_that_it_must_be_is_refused_by_name(problem, state, name):
    for value in wrong_values(state[name]):
        # A row that is too short may make another one too long.
        with pytest.raises(gsw.InputError, match=f"{re.escape(repr(name))}|wrong '(hot_)?(moments|labels|exchanges)'"):
            gsw.sample(problem, 2, state=state | {name: value})


@pytest.mark.parametrize("name", sorted({*CHAIN_ENTRIES, *REPLICA_ENTRIES} - {"ladder"}))
def test_what_is_missing_is_named(problem, state, name):
    with pytest.raises(gsw.InputError, match=f"lacks '{name}'"):
        gsw.sample(problem, 2, state={k: v for k, v in state.items() if k != name})


def test_what_is_no_state_is_refused(problem):
    for other in (3, "state", [1, 2], np.zeros(4)):
        with pytest.raises(gsw.InputError, match="state must be the arrays of a snapshot"):
            gsw.sample(problem, 2, state=other)


@pytest.mark.parametrize("order", [">", "<"])
def test_arrays_of_either_byte_order_any_width_and_read_only_go_on_the_same(problem, state, order):
    rest = gsw.run(problem, 8, state=state)
    other = {}
    for name, array in state.items():
        kind = array.dtype.newbyteorder(order)
        if array.dtype.kind == "i" and array.ndim:
            kind = np.dtype(np.int64).newbyteorder(order)
        other[name] = array.astype(kind, order="F")
        other[name].setflags(write=False)
    again = gsw.run(problem, 8, state=other)
    assert np.array_equal(again.trace, rest.trace)
    assert all(np.array_equal(again.state[name], rest.state[name]) for name in rest.state)


def test_a_state_of_another_problem_of_the_same_size_is_refused():
    def made(**changes):
        parts = dict(counts=counts, edges=edges, beta=0.3, prior=gsw.DirichletProcess(1.0), phi=6.0, evidence=4.0)
        return gsw.Problem.from_counts(**(parts | changes))

    rng = np.random.default_rng(0)
    counts, edges = rng.integers(0, 9, (12, 5)), np.array([(i, i + 1) for i in range(11)])
    other_edges = edges.copy()
    other_edges[5] = (5, 7)
    state = gsw.run(made(), 5).state
    assert gsw.run(made(), 5, state=state).sweep == 10
    for change in (
        dict(counts=counts[::-1]),
        dict(edges=other_edges),
        dict(beta=0.31),
        dict(phi=7.0),
        dict(evidence=4.5),
        dict(prior=gsw.DirichletProcess(1.1)),
        dict(prior=gsw.DirichletProcess(1.0).truncated(2)),
    ):
        with pytest.raises(gsw.InputError, match="another problem"):
            gsw.sample(made(**change), 5, state=state)


def test_a_corrected_chain_says_which_problem_it_samples_now():
    """Strokes change the field of a chain: its state goes on under this field and under no other."""
    plain = planar(n=N, words=8)
    pulled = plain.with_field(ExternalField(np.linspace(-1, 1, N)[:, np.newaxis], np.array([3], np.int32)))
    seeds = np.where(np.arange(N) == 3, 1, -1)
    chain = restart_from(start_chain(plain, SamplerOptions.from_problem(plain, 10)), np.zeros(N, int), seeds, 0, pulled)
    state = export_state(chain)
    again = plain.with_field(ExternalField(np.linspace(-1, 1, N)[:, np.newaxis], np.array([3], np.int32)))
    assert gsw.run(again, 2, state=state).sweep == 2
    with pytest.raises(gsw.InputError, match="another problem"):
        gsw.sample(plain, 2, state=state)


def test_the_last_digit_of_a_float_makes_no_other_problem(problem):
    """Tables are logarithms of Gamma functions, which are not the same to the last digit everywhere."""
    nearly = planar(n=N, words=8, channels=1, clusters=3)
    evidence = nearly.evidence
    nearly.__dict__["evidence"] = evidence._replace(
        table=evidence.table * (1 + 2e-16), tail=evidence.tail * (1 + 2e-16)
    )
    assert np.array_equal(nearly.fingerprint, problem.fingerprint)


def test_a_fingerprint_is_computed_once_and_its_data_once_for_all_fields(monkeypatch):
    from napari_gsw.core.model import problem as module

    calls = []
    digest = module.hash_data
    monkeypatch.setattr(module, "hash_data", lambda *arrays: calls.append(1) or digest(*arrays))
    plain = planar(n=N, words=8)
    for _ in gsw.sample(plain, 5):
        pass
    seeds = np.where(np.arange(N) == 3, 1, -1)
    for pull in (0.5, 1.0):
        steered = plain.with_field(ExternalField(np.full((N, 1), pull), np.array([3], np.int32)))
        gsw.run(steered, 2, seeds=seeds)
    assert len(calls) == 1


def test_a_chain_goes_on_where_rounding_is_all_that_is_left_of_the_spread():
    """The squares of a cluster of one site cancel to 0, times a thousand million draws: a finding of the fuzz."""
    sums = np.array([[1.49451734, 6.57407420], [5.53683070, -7.81695710], [-7.03134804, 1.24288290]]) * 1e89
    block = gsw.Gaussian(
        np.ones(3, int), sums, sums**2, sums.var(axis=0), evidence=1e9, kappa=1e-99, shape=1.0001, spread=1e-6
    )
    problem = gsw.Problem(3, (block,), np.array([[0, 1], [2, 1]]), 0.0, gsw.DirichletProcess(1.0))
    for seed in range(6):
        snapshot = gsw.run(problem, 6, seed=seed)
        assert abs(snapshot.log_posterior - gsw.log_posterior(problem, snapshot.labels)) <= block.rounding(
            snapshot.labels
        )
        assert gsw.run(problem, 1, state=snapshot.state).sweep == 7
