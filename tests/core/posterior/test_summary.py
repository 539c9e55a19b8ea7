"""Summary of chains: a partition, its range, every detail, and a verdict; in the API and in the window."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest
import tifffile
from skimage.data import astronaut

import napari_gsw as gsw
from napari_gsw.cli import main
from napari_gsw.core.interactive.interactive_run import InteractiveRun
from napari_gsw.core.pipeline.segment import make_ensemble
from napari_gsw.core.posterior.consensus import compute_expected_loss, find_consensus
from napari_gsw.core.posterior.result import calibrate_boundary_odds, make_calibrated_boundary

IMAGE = astronaut()[60:180, 150:300]


@pytest.fixture(scope="module")
def result():
    return gsw.segment(IMAGE, seed=1, chains=2, sweeps=80)


def test_the_consensus_is_the_result_that_the_settings_ask_for(result):
    pixels = result.problem.graph.pixels
    found = find_consensus(result.draws, "vi", pixels)
    assert found.expected == result.consensus().expected
    assert compute_expected_loss(result.clusters, result.draws, "vi", pixels) == pytest.approx(found.expected)
    best = gsw.segment(IMAGE, seed=1, chains=2, sweeps=80, consensus="none")
    assert gsw.log_posterior(best.problem, best.clusters) == pytest.approx(best.snapshot.best.log_posterior)
    assert best.snapshot.best.log_posterior == result.snapshot.best.log_posterior


def test_a_result_says_whose_number_of_clusters_and_whose_log_posterior_it_has(result):
    """The state on the screen may not be the best: each has its own number of clusters."""
    best, n = result.snapshot.best, result.problem.n
    shown = dataclasses.replace(result, clusters=np.arange(n) + 1)
    assert repr(shown) == (
        f"<Result (120, 150): {n} clusters, {result.n_regions} regions of {n} sites; "
        f"best state {best.log_posterior:,.1f} with {best.n_clusters} clusters>"
    )


def test_the_old_name_of_has_background_warns(result):
    with pytest.warns(DeprecationWarning, match="has_background"):
        assert result.objects is result.has_background is False


def test_painted_labels_of_objects_are_counted_as_they_are_shown():
    """With only painted labels in the view of objects, no background is cut out and nothing is missing."""
    image, scribbles = np.kron(np.eye(2), np.ones((30, 30))), np.zeros((60, 60), int)
    scribbles[5, [5, 50]] = 1, 2
    settings = {"only_painted": "yes", "view": "objects", "sweeps": 30, "site_size": 25}
    one = gsw.segment(image, seeds=scribbles, **settings)
    assert (one.n_regions, one.remark, np.unique(one.labels).tolist()) == (2, "", [1, 2])
    two = gsw.segment([image, image], seeds=[scribbles, scribbles], **settings)
    assert (two.n_regions, two[0].n_regions) == (2, 2)


def test_polish_never_lowers_the_log_posterior():
    plain, better = (gsw.segment(IMAGE, seed=1, sweeps=5, consensus="none", polish=p) for p in ("no", "yes"))
    gain = gsw.log_posterior(better.problem, better.clusters) - gsw.log_posterior(plain.problem, plain.clusters)
    assert gain >= 0


def test_regions_are_parts_of_clusters_unless_they_were_too_small(result):
    whole = gsw.segment(IMAGE, seed=1, chains=2, sweeps=80, min_region=0)
    for region in np.unique(whole.regions):
        assert len(np.unique(whole.clusters[whole.regions == region])) == 1
    sizes = np.bincount(result.regions, result.problem.graph.pixels)[1:]
    assert sizes.min() >= 300
    assert np.array_equal(result.problem.paint(result.regions), result.labels)
    clusters = gsw.segment(IMAGE, seed=1, chains=2, sweeps=80, view="clusters")
    assert np.array_equal(clusters.problem.paint(clusters.clusters), clusters.labels)


def test_the_range_lies_in_the_ball(result):
    ball = result.credible_ball()
    clusters = result.draws.max(axis=1) + 1
    assert ball.inside.mean() >= 0.95
    assert clusters[ball.coarsest] == clusters[ball.inside].min()
    assert clusters[ball.finest] == clusters[ball.inside].max()
    assert ball.distances[ball.farthest] == ball.distances[ball.inside].max()


def test_detail_goes_from_one_region_to_every_site(result):
    counts = [len(np.unique(result.summary.labels_at_detail(share))) for share in np.linspace(0, 1, 9)]
    assert counts == sorted(counts)
    assert (counts[0], counts[-1]) == (1, result.problem.n)
    assert result.contour.shape == IMAGE.shape[:2]
    assert result.contour.max() <= 1


def test_a_seeded_site_keeps_its_number_in_every_view():
    seeds = np.zeros(IMAGE.shape[:2], int)
    seeds[5:9, 5:9], seeds[60:64, 60:64] = 40, 41
    for view in ("clusters", "regions"):
        found = gsw.segment(IMAGE, seeds=seeds, sweeps=40, view=view, min_region=2000)
        assert found.labels[7, 7] == 40
        assert found.labels[62, 62] == 41


def test_chains_start_apart_and_a_run_ends_when_they_agree():
    image = np.kron(np.eye(2), np.ones((20, 20)))
    starts = make_ensemble(gsw.prepare(image), gsw.preset("general", chains=3), 0).chains
    assert starts[0].labels.max() == 0
    assert all(chain.labels.max() > 0 for chain in starts[1:])
    run = gsw.segment(image, chains=3, sweeps=5000, burn_in=0.02, stop="agreement", seed=2)
    again = gsw.segment(image, chains=3, sweeps=5000, burn_in=0.02, stop="agreement", seed=2)
    assert run.diagnosis.agree
    assert run.snapshot.sweep < 5000
    assert run.snapshot.sweep % 50 == 0
    assert again.snapshot.sweep == run.snapshot.sweep
    problem = gsw.prepare(image, run.problem.settings)
    live = InteractiveRun(problem, run.problem.settings, 2)
    live.target = 5000
    while live.sweep < live.target:
        live.advance()
    assert live.sweep == run.snapshot.sweep
    assert np.array_equal(live.summary.labels, run.labels)


@pytest.mark.parametrize("changes", [dict(hot=4.0), dict(splits=2), dict(hot=3.0, replicas=2, splits=1)])
def test_every_search_is_reproducible_and_goes_on(changes):
    first, again = (gsw.segment(IMAGE, sweeps=40, seed=5, **changes) for _ in range(2))
    assert np.array_equal(first.labels, again.labels)
    problem = first.problem
    whole = first.snapshot
    live = InteractiveRun(problem, gsw.preset("general", sweeps=40, **changes), 5)
    live.target = 40
    while live.sweep < 40:
        live.advance(min(7, 40 - live.sweep))
    assert live.snapshot.log_posterior == whole.log_posterior
    assert np.array_equal(live.snapshot.together, whole.together)
    assert whole.log_posterior == pytest.approx(gsw.log_posterior(problem, whole.labels))


def test_the_window_shows_every_state(result):
    settings = result.problem.settings.replace(chains=2, sweeps=80)
    live = InteractiveRun(result.problem, settings, 1)
    assert np.array_equal(live.shown("consensus"), live.shown("best"))  # nothing known yet
    live.target = 80
    while live.sweep < 80:
        live.advance()
    for show in ("current", "best", "consensus", "coarsest", "finest", "farthest"):
        assert live.shown(show).shape == (result.problem.n,)
    found = np.unique(live.shown("consensus"), return_inverse=True)[1]
    assert compute_expected_loss(found, result.draws, "vi") == pytest.approx(
        compute_expected_loss(result.clusters, result.draws, "vi")
    )
    live.update_settings(settings.replace(view="clusters"))
    assert np.array_equal(np.unique(live.summary.labels), np.unique(live.summary.clusters))


def test_people_are_less_sure_than_the_posterior(result):
    people = make_calibrated_boundary(IMAGE, result)
    assert people.shape == IMAGE.shape[:2]
    assert 0 <= people.min() <= people.max() < 1
    at = result.boundary > 0.9
    assert people[at].mean() < 0.9
    assert people[at].mean() > people[result.boundary < 0.1].mean()
    assert calibrate_boundary_odds(np.array([2.0]), np.array([0.1])) > calibrate_boundary_odds(
        np.array([-2.0]), np.array([0.1])
    )


def test_uncertainty_on_the_command_line(tmp_path, capsys):
    tifffile.imwrite(tmp_path / "in.tif", IMAGE)
    out = tmp_path / "out"
    line = [str(tmp_path / "in.tif"), "-o", str(out), "--uncertainty", "--chains", "2", "--consensus", "binder"]
    assert main(["segment", *line, "--sweeps", "60"]) == 0
    told = capsys.readouterr().out
    assert "clusters" in told
    assert "not converged" in told or "2 chains agree" in told
    for name in ("entropy", "boundary", "contour", "people", "coarsest", "finest", "farthest"):
        assert tifffile.imread(out / f"{name}.tif").shape == IMAGE.shape[:2]
    content = json.loads((out / "posterior.json").read_text())
    assert content["chains"] == 2
    assert content["verdict"]
    assert content["credible_ball"]["radius_bits"] >= 0
    # Another run without it clears away what no longer belongs to the labels.
    assert main(["segment", *line[:3], "--sweeps", "2", "-q"]) == 0
    assert not (out / "posterior.json").exists()
