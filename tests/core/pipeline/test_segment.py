"""Image in, labels out."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest
from skimage.data import astronaut

import napari_gsw as gsw
from napari_gsw.core.posterior.regions import compute_site_entropy, make_boundary_image
from napari_gsw.sample_data import sample
from napari_gsw.scores import partitions as metrics

IMAGE = astronaut()[60:180, 150:300]


def test_a_result_is_complete():
    result = gsw.segment(IMAGE, sweeps=40, seed=2, consensus="none")
    n = result.problem.n
    assert result.labels.shape == result.uncertainty.shape == result.boundary.shape == IMAGE.shape[:2]
    assert result.labels.dtype == np.uint16
    assert sorted(np.unique(result.labels)) == list(range(1, result.n_regions + 1))
    assert result.clusters.shape == result.regions.shape == (n,)
    assert np.array_equal(result.problem.paint(result.regions), result.labels)
    assert gsw.log_posterior(result.problem, result.clusters) == pytest.approx(result.trace.log_posterior.max())
    assert result.trace.sweep.tolist() == list(range(1, 41))
    assert 0 <= result.uncertainty.min() <= result.uncertainty.max() <= 1
    assert 0 <= result.boundary.min() <= result.boundary.max() <= 1
    made = json.loads(json.dumps(result.provenance))
    assert made["settings"] == gsw.preset("general", sweeps=40, consensus="none").to_dict()
    assert (made["seed"], made["sites"], made["clusters"]) == (2, n, result.n_clusters)
    assert set(made["versions"]) >= {"napari-gsw", "numpy", "numba", "scikit-image", "python"}


def test_the_same_seed_gives_the_same_labels():
    first, again = (gsw.segment(IMAGE, sweeps=30, seed=4) for _ in range(2))
    other = gsw.segment(IMAGE[::-1], sweeps=30, seed=5)
    assert np.array_equal(first.labels, again.labels)
    assert first.provenance == again.provenance
    assert not np.array_equal(first.trace.log_posterior, other.trace.log_posterior)
    assert first.provenance["image"] != other.provenance["image"]


def test_settings_as_keywords_or_as_an_object():
    whole = gsw.segment(IMAGE, gsw.preset("paper", sweeps=10, alpha=1.0), seed=1)
    words = gsw.segment(IMAGE, preset="paper", sweeps=10, alpha=1.0, seed=1)
    assert np.array_equal(whole.labels, words.labels)
    with pytest.raises(TypeError, match="settings must be a Settings object, not str; preset= takes a name"):
        gsw.segment(np.zeros((8, 8)), "general")
    with pytest.raises(gsw.InputError, match="not both"):
        gsw.segment(IMAGE, gsw.Settings(), preset="paper")
    with pytest.raises(gsw.InputError, match="did you mean alpha"):
        gsw.segment(IMAGE, alfa=1.0)
    with pytest.raises(gsw.InputError, match="preset must be one of"):
        gsw.segment(IMAGE, preset="best")


@pytest.mark.parametrize("shape", [(1, 1), (1, 1, 1), (40, 40, 3), (8, 20, 20)])
@pytest.mark.parametrize(
    ("preset", "likelihood"), [("general", "words"), ("paper", "luminance"), ("paper", "gaussian")]
)
def test_a_constant_image_or_a_single_pixel_is_one_cluster(shape, preset, likelihood):
    axes = {(1, 1, 1): "ZYX"}.get(shape, "auto")
    result = gsw.segment(np.full(shape, 7, np.uint8), preset=preset, sweeps=30, axes=axes, likelihood=likelihood)
    assert result.n_clusters == 1
    assert (result.labels == 1).all()


def test_the_background_of_a_mask_is_not_labelled():
    mask = np.zeros(IMAGE.shape[:2], bool)
    mask[20:90, 30:100] = True
    result = gsw.segment(IMAGE, mask=mask, sweeps=20)
    assert np.array_equal(result.labels > 0, mask)
    assert not result.uncertainty[~mask].any()
    assert not result.boundary[~mask].any()
    assert set(result.provenance["given"]) == {"mask"}


def test_own_superpixels():
    sites = np.kron(np.arange(1, 13).reshape(3, 4) * 10, np.ones((40, 38), int))[:120, :150]
    sites[:5] = 0
    result = gsw.segment(IMAGE, sites=sites, sweeps=20)
    assert result.problem.n == 12
    assert np.array_equal(result.labels > 0, sites > 0)
    for s in np.unique(sites[sites > 0]):
        assert len(np.unique(result.labels[sites == s])) == 1


def test_seeds_clamp_their_sites_and_keep_their_numbers():
    seeds = np.zeros(IMAGE.shape[:2], int)
    seeds[10:20, 10:20] = 5
    seeds[100:110, 130:140] = 5
    seeds[60:70, 60:75] = 2
    result = gsw.segment(IMAGE, seeds=seeds, sweeps=30, view="clusters")
    assert result.labels[15, 15] == result.labels[105, 135] == 5
    assert result.labels[65, 67] == 2
    assert len(np.unique(result.labels)) == result.n_clusters
    with pytest.raises(gsw.InputError, match="seeds must be"):
        gsw.segment(IMAGE, seeds=seeds[:-1])
    with pytest.raises(gsw.InputError, match="touch no site"):
        gsw.segment(IMAGE, seeds=seeds, mask=seeds == 0, site_size=20)
    with pytest.raises(gsw.InputError, match="seeds must be numbers in"):
        gsw.segment(IMAGE, seeds=-seeds)


def test_a_label_image_can_be_the_start():
    first = gsw.segment(IMAGE, sweeps=60, seed=1, view="clusters", consensus="none")
    again = gsw.segment(IMAGE, sweeps=0, init=first.labels, view="clusters")
    assert np.array_equal(again.labels, first.labels)
    assert again.snapshot.log_posterior == pytest.approx(first.snapshot.best.log_posterior)
    half = first.labels.copy()
    half[:, 75:] = 0
    assert gsw.segment(IMAGE, sweeps=0, init=half).n_clusters > 1
    with pytest.raises(gsw.InputError, match="init must be whole numbers"):
        gsw.segment(IMAGE, init=half.astype(float))


@pytest.mark.parametrize(("sampler", "start"), [
    ("gsw", "one"), ("swendsen-wang", "singletons"), ("gibbs", "random"), ("data-driven", "one"), ("bond", "random"),
    ("bond-drawn", "singletons"),
])  # fmt: skip
def test_every_sampler_and_start(sampler, start):
    result = gsw.segment(IMAGE, preset="paper", sweeps=8, sampler=sampler, start=start, site_size=150)
    exact = gsw.log_posterior(result.problem, result.snapshot.labels)
    assert result.snapshot.log_posterior == pytest.approx(exact, rel=1e-9)


@pytest.mark.parametrize(
    "changes",
    [
        dict(prior="potts", K=4, start="random"),
        dict(prior="finite-dirichlet", K=5, alpha=0.5),
        dict(prior="pitman-yor", alpha=1.0, theta=0.2),
        dict(min_size=6, start="random"),
        dict(min_size=3, max_size=30),
    ],
)
def test_every_prior(changes):
    result = gsw.segment(IMAGE, preset="paper", sweeps=30, **changes)
    sizes = np.bincount(result.clusters)[1:]
    assert sizes.min() >= changes.get("min_size", 1)
    assert sizes.max() <= changes.get("max_size", result.problem.n)
    assert len(sizes) <= changes.get("K", result.problem.n)


def test_a_report_hears_of_every_stage_and_can_stop_the_chain():
    heard = []

    def report(stage, snapshot):
        heard.append((stage.name, snapshot and snapshot.sweep))
        return snapshot is not None and snapshot.sweep >= 20

    result = gsw.segment(IMAGE, sweeps=10_000, report=report)
    assert [s for s, sweep in heard[:3]] == ["superpixels", "graph", "features"]
    stage, last = heard[-1]
    assert (stage, last >= 20) == ("sampling", True)
    assert len(result.trace.sweep) == result.provenance["sweeps"] == last < 10_000


def test_uncertainty_is_what_the_chain_saw():
    result = gsw.segment(IMAGE, sweeps=60)
    problem, together = result.problem, result.snapshot.together
    assert problem.paint(compute_site_entropy(problem, together).astype(np.float32)) == pytest.approx(
        result.uncertainty
    )
    image = make_boundary_image(problem, together)
    a, b = problem.edges[np.argmin(together)] + 1
    apart = 1 - together.min()
    touching = (problem.sites[:, :-1] == a) & (problem.sites[:, 1:] == b)
    touching_down = (problem.sites[:-1] == a) & (problem.sites[1:] == b)
    values = np.concatenate((image[:, :-1][touching], image[:-1][touching_down]))
    assert (values >= np.float32(apart) - 1e-6).all()
    sure = compute_site_entropy(problem, np.ones(len(problem.edges)))
    coin = compute_site_entropy(problem, np.full(len(problem.edges), 0.5))
    assert not sure.any()
    assert coin == pytest.approx(1.0)


def test_what_is_not_known_yet_is_not_called_sure():
    stopped = gsw.segment(IMAGE, sweeps=100_000, report=lambda _, s: s is not None)
    assert np.isnan(stopped.uncertainty).all()
    assert np.isnan(stopped.boundary).any()


def test_own_words_are_in_the_provenance(tmp_path):
    book = gsw.Codebook.fit(IMAGE, words=9)
    book.save(tmp_path / "book.json")
    given = gsw.segment(IMAGE, codebook=book, sweeps=1).provenance["given"]
    assert set(given) == {"codebook"}
    assert gsw.segment(IMAGE, codebook=str(tmp_path / "book.json"), sweeps=1).provenance["given"] == given


def test_grey_stored_as_rgb_is_grey_to_the_gaussian():
    grey = IMAGE[..., 0]
    (one,) = gsw.prepare(grey, preset="paper", likelihood="gaussian").likelihoods
    (three,) = gsw.prepare(np.stack([grey] * 3, axis=-1), preset="paper", likelihood="gaussian").likelihoods
    assert one.sums.shape[1] == three.sums.shape[1] == 1


@pytest.mark.parametrize("name", ["mosaic", "mosaic_3d"])
def test_samples_with_a_known_truth_are_found(name):
    image, truth = sample(name)
    result = gsw.segment(image, seed=0, view="clusters")
    assert metrics.adjusted_rand(result.labels, truth) > 0.75


def test_ctrl_c_in_a_script_is_an_exception_like_any_other(tmp_path):
    """Numba crashes when it strikes as a kernel returns, so kernels do not run where it strikes."""
    script = tmp_path / "script.py"
    script.write_text(
        "import numpy as np, napari_gsw as gsw, threading, os, signal, time\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # tests in the background would inherit none
        "image = np.random.default_rng(0).random((60, 60))\n"
        "gsw.segment(image, site_size=30, sweeps=2)\n"
        "def strike():\n"
        "    for _ in range(3):\n"
        "        time.sleep(0.2)\n"
        "        os.kill(os.getpid(), signal.SIGINT)\n"
        "threading.Thread(target=strike).start()\n"
        "caught = 0\n"
        "while caught < 3:\n"
        "    try:\n"
        "        if caught:\n"
        "            gsw.run(gsw.prepare(image, site_size=30), 10**6, every=1)\n"
        "        gsw.segment(image, sweeps=10**6)\n"
        "    except KeyboardInterrupt:\n"
        "        caught += 1\n"
        "print('alive', gsw.segment(image, sweeps=5).n_clusters > 0)\n"
    )
    ended = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=600)
    assert ended.stdout.split()[:2] == ["alive", "True"], ended.stderr[-2000:]


@pytest.mark.parametrize("preset", gsw.PRESETS)
def test_sampling_a_prepared_image_does_what_its_preset_says(preset):
    """Annealing, tempering, burn-in, moves and start: `sample` and `segment` take one way from settings to a chain."""
    settings = gsw.preset(preset, sweeps=30, splits=1)
    result = gsw.segment(IMAGE, settings, seed=4)
    snapshot = gsw.run(gsw.prepare(IMAGE, settings), settings.sweeps, seed=4)
    assert np.array_equal(snapshot.trace[:, 0], result.trace.log_posterior)
    assert np.array_equal(snapshot.labels, result.snapshot.labels)
    assert np.array_equal(snapshot.together, result.snapshot.together, equal_nan=True)
    assert snapshot.state.keys() == result.snapshot.state.keys()
    assert all(np.array_equal(snapshot.state[name], result.snapshot.state[name]) for name in snapshot.state)


def test_sampling_a_prepared_image_tempers_where_the_settings_say_so():
    problem = gsw.prepare(IMAGE, preset="paper", replicas=3, hot=4.0)
    state = gsw.run(problem, 6).state
    assert len(state["ladder"]) == 3
    assert (state["hot"], state["burn_in"]) == (4.0, 3)


@pytest.mark.parametrize(("name", "words"), [("mask", "the mask"), ("sites", "the label image"), ("seeds", "seeds")])
def test_rows_of_different_lengths_beside_an_image_are_refused_by_name(name, words):
    with pytest.raises(gsw.InputError, match=f"{words} must be an array"):
        gsw.prepare(np.zeros((2, 2)), **{name: [[1], [2, 3]]})
