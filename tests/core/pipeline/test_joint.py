"""Several images as one problem: the same model as one image, and labels that mean the same in all of them."""

from __future__ import annotations

import numpy as np
import pytest
from skimage.data import astronaut, coffee

import napari_gsw as gsw
from law_problems import check
from napari_gsw.core.features.codebook import choose_colour_codebook, load_builtin_codebook
from napari_gsw.core.features.site_features import ImageFeatures
from napari_gsw.core.graph.couplings import compute_couplings
from napari_gsw.core.graph.random_walk import make_transition_matrix, smooth_counts
from napari_gsw.core.graph.region_graph import build_region_graph
from napari_gsw.core.image.foreground_signal import normalize_images
from napari_gsw.core.image.lazy import is_image_list
from napari_gsw.core.image.normalized_image import normalize_image
from napari_gsw.core.model.scribble_field import ScribbleField
from napari_gsw.core.sampler import bonds
from napari_gsw.core.sites.superpixels import make_superpixels
from napari_gsw.sample_data import sample
from pictures import cells

FACE, CUP = astronaut()[60:180, 150:300], coffee()[100:180, 200:330]


def partitions_of(n, rng):
    """Some partitions: random ones, all in one, each alone."""
    return [rng.integers(0, k, n) for k in (2, 5, 30)] + [np.zeros(n, int), np.arange(n)]


# ---- the model


def test_the_log_posterior_is_that_of_a_problem_built_by_hand_whose_graph_is_in_blocks():
    settings = gsw.preset("general")
    problem = gsw.prepare([FACE, CUP], settings)
    histograms, edges, beta, before = [], [], [], 0
    for image in (FACE, CUP):
        seen = normalize_image(image)
        sites = make_superpixels(seen, settings)
        graph = build_region_graph(seen, sites)
        features = ImageFeatures([seen], [sites], settings)
        steps = make_transition_matrix(graph, settings.graph_scale)
        both = [smooth_counts(h, steps, settings.graph_passes).toarray() for h in (features.colour, features.texture)]
        histograms.append([np.pad(h, ((0, 0), (0, 200 - h.shape[1]))) for h in both])
        edges.append(graph.edges + before)
        beta.append(compute_couplings(graph, settings, features))
        before += graph.n
    counts = [np.concatenate(blocks) for blocks in zip(*histograms, strict=True)]
    by_hand = gsw.Problem.from_counts(
        counts, np.concatenate(edges), np.concatenate(beta), gsw.DirichletProcess(settings.alpha),
        [settings.phi, settings.texture_phi], [settings.evidence, settings.texture_evidence],
    )  # fmt: skip
    assert (problem.n, len(problem.edges)) == (before, len(by_hand.edges))
    for labels in partitions_of(problem.n, np.random.default_rng(0)):
        assert gsw.log_posterior(problem, labels) == pytest.approx(gsw.log_posterior(by_hand, labels), rel=1e-12)


@pytest.mark.parametrize("preset", ["general", "photo", "microscopy", "paper"])
def test_a_list_of_one_image_is_that_image(preset):
    settings = gsw.preset(preset, sweeps=30, view="clusters")
    shared, alone = gsw.segment([FACE], settings, seed=3), gsw.segment(FACE, settings, seed=3)
    assert len(shared) == 1
    for name in ("labels", "uncertainty", "boundary"):
        assert np.array_equal(getattr(shared, name)[0], getattr(alone, name))
    assert np.array_equal(shared.trace.log_posterior, alone.trace.log_posterior)


def quarters(array):
    middle = array.shape[0] // 2, array.shape[1] // 2
    return [array[rows, columns]
            for rows in (slice(0, middle[0]), slice(middle[0], None))
            for columns in (slice(0, middle[1]), slice(middle[1], None))]  # fmt: skip


@pytest.mark.parametrize("likelihood", ["words", "luminance", "gaussian"])
@pytest.mark.parametrize("neighbourhood", [1, 2])
def test_the_quarters_of_a_photograph_are_the_photograph_but_for_the_edges_across_the_cuts(likelihood, neighbourhood):
    grid = np.arange(120)[:, None] // 10 * 15 + np.arange(150) // 10 + 1
    grid[:, 75:] += 1000  # no site crosses a cut
    grid[60:] += 5000
    settings = gsw.Settings(
        coupling="contrast", beta=3.0, contrast_scale=8.0, likelihood=likelihood, neighbourhood=neighbourhood
    )
    entire = gsw.prepare(FACE, settings, sites=grid)
    parts = gsw.prepare(quarters(FACE), settings, sites=quarters(grid))
    assert parts.n == entire.n
    # Where each site of the quarters is in the photograph.
    pairs = [np.unique(np.stack((s[s > 0], e[s > 0])), axis=1)
             for s, e in zip(parts.site_images, quarters(entire.sites), strict=True)]  # fmt: skip
    place = np.concatenate(pairs, axis=1)[1] - 1
    assert sorted(place) == list(range(entire.n))
    block, other = parts.likelihoods[0], entire.likelihoods[0]
    if likelihood == "gaussian":
        assert np.allclose(block.sums, other.sums[place], rtol=1e-9, atol=1e-7)
        assert np.array_equal(block.mass, other.mass[place])
        assert block.variance == pytest.approx(other.variance)
    else:
        assert np.array_equal(block.counts.toarray(), other.counts.toarray()[place])
        assert np.array_equal(block.concentration, other.concentration)
    assert block.weight == other.weight
    quarter = np.concatenate([np.full(p.shape[1], k) for k, p in enumerate(pairs)])
    of_site = np.empty(entire.n, int)
    of_site[place] = quarter
    within = of_site[entire.edges[:, 0]] == of_site[entire.edges[:, 1]]
    touching = {tuple(e): b for e, b in zip(entire.edges[within].tolist(), entire.beta[within], strict=True)}
    joined = {tuple(sorted(e)): b for e, b in zip(place[parts.edges].tolist(), parts.beta, strict=True)}
    first = {tuple(e) for e in entire.edges[within & (entire.graph.order == 1)].tolist()}
    assert {e: b for e, b in joined.items() if e in first} == {e: touching[e] for e in first}
    if neighbourhood == 1:
        assert joined == touching
    for labels in partitions_of(entire.n, np.random.default_rng(1)):
        if neighbourhood == 1:
            same = labels[entire.edges[:, 0]] == labels[entire.edges[:, 1]]
            cut = entire.beta[same & ~within].sum()
            assert gsw.log_posterior(parts, labels[place]) + cut == pytest.approx(gsw.log_posterior(entire, labels))


@pytest.mark.parametrize("coupling", ["constant", "length", "contrast", "learnt"])
def test_links_are_all_that_linked_images_have_more(coupling):
    images = [FACE, FACE[::-1], FACE[:, ::-1]]
    settings = gsw.preset("general", coupling=coupling)
    apart, linked = gsw.prepare(images, settings), gsw.prepare(images, settings, linked=True)
    known = {tuple(e): b for e, b in zip(apart.edges.tolist(), apart.beta, strict=True)}
    both = {tuple(e): b for e, b in zip(linked.edges.tolist(), linked.beta, strict=True)}
    assert {e: both[e] for e in known} == known
    links = {e: b for e, b in both.items() if e not in known}
    first, second, third = linked.site_images
    upon = {tuple(p) for a, b in ((first, second), (second, third)) for p in np.stack((a, b), -1).reshape(-1, 2) - 1}
    assert set(links) == upon
    assert np.array_equal(linked.edges, linked.edges[np.lexsort(linked.edges.T[::-1])])
    pixels = linked.graph.pixels
    for (i, j), beta in list(links.items())[::7]:
        a, b = (first, second) if i + 1 <= first.max() else (second, third)
        share = ((a == i + 1) & (b == j + 1)).sum() / min(pixels[i], pixels[j])
        assert 0 <= beta <= settings.beta * share * (1 + 1e-12)
        if coupling in ("constant", "length"):
            assert beta == pytest.approx(settings.beta * share)
    for labels in partitions_of(linked.n, np.random.default_rng(2)):
        more = sum(b for (i, j), b in links.items() if labels[i] == labels[j])
        assert gsw.log_posterior(linked, labels) == pytest.approx(gsw.log_posterior(apart, labels) + more)


def test_a_link_falls_with_the_colour_difference_as_a_boundary_does():
    flat = np.full((8, 8, 3), 90, np.uint8)
    settings = gsw.Settings(coupling="contrast", beta=2.0, contrast_scale=10.0, site_count=1)
    problem = gsw.prepare([flat, flat, flat + np.uint8(20)], settings, linked=True)
    colours = [normalize_image(image).channels[0, 0] for image in (flat, flat, flat + np.uint8(20))]
    steps = np.linalg.norm(np.diff(colours, axis=0), axis=1)
    assert problem.edges.tolist() == [[0, 1], [1, 2]]
    assert problem.beta == pytest.approx(2.0 * np.exp(-steps / 10.0))


@pytest.mark.parametrize("linked", [False, True])
@pytest.mark.parametrize("likelihood", ["words", "gaussian"])
def test_shared_clusters_are_sampled_exactly(linked, likelihood):
    rng = np.random.default_rng(4)
    sites = np.repeat([[1, 2, 3]], 2, axis=0)
    images = [rng.integers(80, 140, (2, 3, 3)).astype(np.uint8) for _ in range(2)]
    settings = gsw.Settings(
        likelihood=likelihood, beta=0.5, evidence=2.0, phi=4.0, gauss_spread=0.6, gauss_kappa=0.5, alpha=1.2
    )
    problem = gsw.prepare(images, settings, sites=[sites, sites], linked=linked)
    assert problem.n == 6
    assert len(problem.edges) == (7 if linked else 4)
    check(problem, bonds.constant_bonds(problem, 2.0))
    held = problem.labels_under([np.array([[1, 0, 2]] * 2), None], "seeds")
    assert held.tolist() == [1, -1, 2, -1, -1, -1]
    check(problem, bonds.constant_bonds(problem, 2.0), seeds=held)


# ---- the same words


@pytest.mark.parametrize("changes", [
    {"likelihood": "words", "words": 20}, {"likelihood": "luminance"}, {"likelihood": "gaussian"},
])  # fmt: skip
def test_a_brightness_means_the_same_in_all_images(changes):
    rng = np.random.default_rng(5)
    dark, bright = (np.clip(rng.normal(m, 40, (40, 50)), 0, 4095).astype(np.uint16) for m in (800, 2500))
    halves = np.concatenate((dark, bright), axis=1)
    settings = gsw.Settings(beta=2.0, coupling="contrast", sweeps=60, splits=2, **changes)
    a, b, c = gsw.segment([dark, bright, halves], settings).labels
    assert len(np.unique(a)) == len(np.unique(b)) == 1
    assert a[0, 0] != b[0, 0]
    assert (c[:, :40] == a[0, 0]).all()
    assert (c[:, 60:] == b[0, 0]).all()


def test_texture_words_are_learnt_from_all_images():
    problem = gsw.prepare([FACE, CUP], gsw.Settings(texture_words=12, coupling="constant"))
    counts = problem.likelihoods[1].counts
    assert counts.shape == (problem.n, 12)
    alone = gsw.prepare(FACE, gsw.Settings(texture_words=12, coupling="constant")).likelihoods[1].counts
    assert (counts.toarray()[: alone.shape[0]] != alone.toarray()).any()  # other words than FACE would have by itself


def test_pale_images_have_the_same_words():
    """Each alone would have words of its own, of its own colours."""
    rng = np.random.default_rng(0)
    pale = [100 + rng.integers(0, high, (30, 40, 3)).astype(np.uint8) for high in (12, 30)]
    settings, inside = gsw.preset("general"), np.ones((30, 40), bool)
    pictures = normalize_images(pale, reduce_noise=True)
    assert all(one.pale for one in pictures)
    sites = [inside.astype(np.int32)] * 2
    book = ImageFeatures(pictures, sites, settings).codebook
    for one in pictures:
        alone = choose_colour_codebook([one], [inside], settings, None)
        assert not np.array_equal(alone.centres, book.centres)
        shared = choose_colour_codebook([one], [inside], settings, book)
        assert np.array_equal(shared.centres, book.centres)
        assert shared.softness == book.softness > 0
    plain = normalize_images(pale)
    assert ImageFeatures(plain, sites, settings).codebook is load_builtin_codebook("lab")


def test_what_is_background_in_one_image_is_so_in_all():
    nuclei, truth = cells()
    part = (slice(73, 88), slice(23, 51))  # two nuclei fill most of it
    result = gsw.segment([nuclei, nuclei[part]], preset="microscopy", seed=1)
    there, near = result.labels
    assert ((there > 0) == (truth > 0)).mean() > 0.97
    assert ((near > 0) == (truth[part] > 0)).mean() > 0.9
    assert (near > 0).mean() > 0.5
    assert result[1].n_regions == near.max()
    assert result.n_regions == there.max() + near.max()


# ---- paint in one, segment all


def painted(truth, rng, share=0.03):
    """A few pixels of every region."""
    return np.where(rng.random(truth.shape) < share, truth, 0)


@pytest.mark.parametrize("linked", [False, True])
def test_painting_one_slice_labels_all_of_them(linked):
    volume, truth = sample("mosaic_3d")
    slices, known = list(volume[4:20:4]), truth[4:20:4]
    seeds = [None] * len(slices)
    seeds[1] = painted(known[1], np.random.default_rng(0))
    result = gsw.segment(slices, seeds=seeds, sweeps=80, linked=linked, prior="finite-dirichlet", K=5)
    right = [(labels == t).mean() for labels, t in zip(result.labels, known, strict=True)]
    assert min(right) > (0.97 if linked else 0.85), right


def test_a_seed_in_one_image_names_the_cluster_in_another_of_another_size():
    left, right = np.full((40, 60, 3), 60, np.uint8), np.full((30, 30, 3), 60, np.uint8)
    left[:, 30:], right[:15] = (200, 60, 60), (200, 60, 60)
    seeds = np.zeros((40, 60), np.uint8)
    seeds[5:10, 5:10], seeds[5:10, 45:50] = 7, 4
    result = gsw.segment([left, right], seeds=[seeds, None], sweeps=40)
    assert set(np.unique(result.labels[1])) == {4, 7}
    assert (result.labels[1][:12] == 4).all()
    assert (result.labels[1][18:] == 7).all()


def slanted(shape, seed):
    """A noisy picture of two colours with a slanted border, and which is which."""
    truth = np.where((np.arange(shape[0])[:, None] + np.arange(shape[1])) < sum(shape) / 2, 3, 8)
    colours = np.where((truth == 3)[..., None], (200, 80, 60), (70, 120, 180))
    noise = np.random.default_rng(seed).normal(0, 12, (*shape, 3))
    return np.clip(colours + noise, 0, 255).astype(np.uint8), truth


def test_clusters_that_are_one_in_several_images_become_one():
    images, truths = zip(
        *(slanted(shape, k) for k, shape in ((1, (50, 60)), (0, (60, 60)), (7, (60, 60)))), strict=True
    )
    seeds = np.zeros((2, 60, 60), np.uint8)
    seeds[0, 5:12, 5:12], seeds[1, 48:55, 48:55] = 3, 8
    result = gsw.segment(images, seeds=[None, *seeds], site_size=60)
    assert min((labels == t).mean() for labels, t in zip(result.labels, truths, strict=True)) > 0.93
    moves = result.provenance["settings"]
    assert (moves["regroups"], moves["hot"]) == (1, 4.0)
    assert gsw.segment(images, sweeps=1, hot=1.0).provenance["settings"]["hot"] == 1.0


@pytest.mark.parametrize("closed", [False, True])
def test_strokes_speak_to_images_that_no_walk_leads_to_by_colour_alone(closed):
    red, blue = np.full((20, 20, 3), (200, 60, 60), np.uint8), np.full((20, 20, 3), (60, 60, 200), np.uint8)
    problem = gsw.prepare([np.concatenate((red, blue), axis=1), red, blue], gsw.Settings(site_size=50))
    seeds = np.zeros((20, 40), np.uint8)
    seeds[5:15, 5:15], seeds[5:15, 25:35] = 1, 2
    clamps = problem.labels_under([seeds, None, None], "seeds")
    pull = ScribbleField(problem, gsw.Settings(steering=1.0), closed).field(clamps).pull
    for number, own in ((1, 0), (2, 1)):
        here = pull[problem.sites_in_image(number)]
        assert (here[:, own] > 0).all()
        assert (here[:, own] > here[:, 1 - own] + 5).all()


# ---- what comes back


def test_a_result_of_several_images_is_complete():
    result = gsw.segment([FACE, CUP], sweeps=40, seed=2)
    assert isinstance(result, gsw.SharedResult)
    assert isinstance(result.problem, gsw.SharedProblem)
    assert [x.shape for x in result.labels] == [x.shape for x in result.uncertainty] == [(120, 150), (80, 130)]
    assert result.clusters.shape == result.regions.shape == (result.problem.n,)
    for k, one in enumerate(result):
        assert np.array_equal(result.problem.paint(result.clusters)[k], one.labels)
        assert one.n_clusters == len(np.unique(one.labels))
        assert one.contour.shape == one.boundary.shape == one.labels.shape
        assert one.boundary.max() > 0
    assert result.n_clusters == len(np.unique(np.concatenate([x.ravel() for x in result.labels])))
    assert "2 images" in repr(result)
    assert [x["shape"] for x in result.provenance["images"]] == [[120, 150, 3], [80, 130, 3]]
    regions = gsw.segment([FACE, CUP], sweeps=40, seed=2, view="regions")
    assert not set(np.unique(regions.labels[0])) & set(np.unique(regions.labels[1]))


def test_provenance_names_what_was_given_image_by_image():
    seeds = np.zeros(CUP.shape[:2], np.uint8)
    seeds[:5, :5] = 1
    given = gsw.segment([FACE, CUP], sweeps=5, seeds=(None, seeds)).provenance["given"]
    assert list(given) == ["seeds"]
    assert given["seeds"][0] is None
    assert len(given["seeds"][1]) == 64
    assert gsw.segment([FACE, FACE], sweeps=5, linked=True).provenance["given"] == {"linked": True}


def test_masks_and_sites_of_some_images():
    mask = np.zeros(FACE.shape[:2], bool)
    mask[20:90, 30:100] = True
    cut = np.arange(80)[:, None] // 20 * 10 + np.arange(130) // 20 + 1
    problem = gsw.prepare([FACE, CUP], mask=[mask, None], sites=[None, cut])
    assert np.array_equal(problem.site_images[0] > 0, mask)
    assert len(np.unique(problem.site_images[1])) == len(np.unique(cut))
    assert problem.sites_in_image(1).sum() == len(np.unique(cut))
    assert (problem.sites_in_image(0) ^ problem.sites_in_image(1)).all()


def test_sites_have_one_size_in_all_images():
    problem = gsw.prepare([FACE, FACE[:60, :75]], gsw.Settings(site_count=500, superpixels="grid"))
    counts = [problem.sites_in_image(k).sum() for k in range(2)]
    assert counts[0] == pytest.approx(4 * counts[1], rel=0.15)
    assert sum(counts) == pytest.approx(500, rel=0.1)


def test_a_list_of_lazy_arrays_is_a_pyramid_and_a_list_of_rows_is_an_image():
    dask = pytest.importorskip("dask.array")
    levels = [dask.from_array(FACE), dask.from_array(FACE[::2, ::2])]
    assert not is_image_list(levels)
    assert gsw.segment(levels, sweeps=5).labels.shape == (120, 150)
    assert gsw.segment(FACE[..., 0].tolist(), sweeps=5).labels.shape == (120, 150)
    assert not is_image_list([np.zeros(4), np.zeros(4)])
    with pytest.raises(gsw.InputError, match="not both"):
        gsw.segment([FACE, levels[0]])


@pytest.mark.parametrize(("images", "more", "sentence"), [
    ([FACE, CUP[..., 0]], {}, "same channels, not RGB and 1"),
    ([FACE, CUP.astype(np.float32)], {}, "same type, not uint8 and float32"),
    ([FACE[..., 0], np.zeros((8, 9, 9), np.uint8)], {}, "same number of dimensions"),
    ([FACE, CUP], {"linked": True}, "linked images must have one shape"),
    (FACE, {"linked": True}, "linked is for a list"),
    ([FACE, CUP], {"seeds": [None]}, "seeds must be a list with an entry"),
    ([FACE, CUP], {"mask": np.ones((120, 150))}, "mask must be a list"),
    ([FACE, CUP], {"seeds": [np.ones((3, 3), int), None]}, "seeds must be whole numbers of the image's shape"),
])  # fmt: skip
def test_what_cannot_be_shared_is_said_in_a_sentence(images, more, sentence):
    with pytest.raises(gsw.InputError, match=sentence):
        gsw.segment(images, sweeps=1, **more)
