"""Objects that a network sees: fragments put together by the chain, and how sure it is that two are one."""

from __future__ import annotations

from importlib import resources

import numpy as np
import pytest

import napari_gsw as gsw
from napari_gsw.core.features import network as networks
from napari_gsw.core.features.network import (
    COARSE_SIDE,
    INSIDE,
    WIDTH,
    _predict_two_scales,
    are_too_large,
    estimate_object_width,
    predict_objects,
    resize_linear,
    to_uint8,
)
from napari_gsw.core.graph.boundary_model import COLOURS, ObjectModel, load_builtin_object_model
from napari_gsw.core.graph.region_graph import build_region_graph
from napari_gsw.core.image.normalized_image import NormalizedImage
from napari_gsw.core.interactive.label_changes import match_labels
from napari_gsw.core.model.priors import Potts
from napari_gsw.core.model.problem import Problem
from napari_gsw.core.pipeline.prepare import NETWORK_SETTINGS, is_replaced_by_network
from napari_gsw.core.posterior.objects import MERGE_PROBABILITY, calibrate, decode_objects, same_object_probability
from napari_gsw.core.posterior.region_table import find_likeliest_partner
from napari_gsw.core.settings import setting_fields
from napari_gsw.core.sites.superpixels import find_fragments, make_object_sites, mark_fragments
from napari_gsw.research.evaluation.easy_images import EasyImage
from napari_gsw.scores.partitions import adjusted_rand
from pictures import cells

RUNTIME = pytest.mark.skipif(not networks.has_onnxruntime(), reason="onnxruntime is not installed")


@pytest.fixture(scope="module")
def seen():
    image, truth = cells()
    return image, truth, gsw.segment(image, preset="microscopy", seed=0)


@RUNTIME
def test_touching_cells_are_parted_by_the_posterior(seen):
    image, truth, result = seen
    assert result.problem.has_fragments
    assert result.n_regions == 7
    assert adjusted_rand(result.labels, truth) > 0.95
    assert result.provenance["network"]["sha256"] == networks.BUILTIN_SHA256["objects"]
    assert np.isfinite(result.provenance["log_posterior"])
    table = result.table(image)
    pairs = {(int(a), int(b)) for a, b in zip(table["index"], table["one_with"], strict=True) if b}
    assert pairs
    assert all((b, a) in pairs for a, b in pairs)
    assert (
        table["one_with_probability"] <= calibrate(np.array([MERGE_PROBABILITY]))
    ).all()  # what is shown as two is so
    assert table["one_with_probability"].max() > 0


@RUNTIME
def test_settings_that_the_network_settles_change_nothing_and_the_others_are_asked(seen):
    image, _, _ = seen
    short = gsw.preset("microscopy", sweeps=40)
    changed, refused = {}, set()
    labels = gsw.segment(image, short, seed=0).labels
    for name, setting in setting_fields().items():
        if not is_replaced_by_network(name) or (setting.kind is str and not setting.choices):
            continue
        now = getattr(short, name)
        others = [word for word in setting.choices if word != now]
        if not others:
            raised = 2 * (now or 0.3) + 1
            others = [min(setting.kind(raised), setting.high - 0.01 * (setting.kind is float))]
        try:
            other = gsw.segment(image, short.replace(**{name: others[-1]}), seed=0)
        except ValueError:
            refused.add(name)
        else:
            changed[name] = not np.array_equal(other.labels, labels)
    assert len(changed) > 30
    assert not any(changed.values()), [name for name in changed if changed[name]]
    assert len(refused) < 5, refused
    assert [is_replaced_by_network(name) for name in ("site_size", "network", "min_region")] == [True, False, False]
    for name in NETWORK_SETTINGS[:2]:
        (other,) = (word for word in setting_fields()[name].choices if word != getattr(short, name))
        assert not np.array_equal(gsw.segment(image, short.replace(**{name: other}), seed=0).labels, labels)


@RUNTIME
def test_a_picture_and_its_mirror_image_are_seen_alike():
    image, _ = cells()
    network = networks.load_builtin_network("objects")
    size = slice(0, 128), slice(0, 160)  # a multiple of the stride: nothing is mirrored at the border of one alone
    maps, mirrored = predict_objects(image[size], network), predict_objects(image[size][:, ::-1], network)
    assert np.abs(maps - mirrored[:, ::-1]).max() < 0.02


def test_probabilities_are_brought_to_how_often_they_are_right():
    said = np.linspace(0, 1, 101)
    calibrated = calibrate(said)
    assert (np.diff(calibrated) >= 0).all()
    assert calibrated[0] < 0.02
    assert calibrated[95] < said[95]  # too sure of itself
    assert 0.45 < calibrate(np.array([0.5]))[0] < 0.55
    assert np.isnan(calibrate(np.array([np.nan]))).all()


@RUNTIME
def test_the_same_labels_again_and_from_a_lazy_image(seen):
    import dask.array as da

    image, _, result = seen
    assert np.array_equal(gsw.segment(image, preset="microscopy", seed=0).labels, result.labels)
    lazy = gsw.segment(da.from_array(image, chunks=64), preset="microscopy", seed=0)
    assert np.array_equal(np.asarray(lazy.labels), result.labels)


@RUNTIME
def test_strokes_and_masks_work_with_fragments(seen):
    image, truth, _ = seen
    seeds = np.zeros(truth.shape, np.int32)
    for number in np.unique(truth[truth > 0]):
        rows, columns = np.nonzero(truth == number)
        seeds[rows[len(rows) // 2], columns[len(rows) // 2]] = 50 + number
    result = gsw.segment(image, preset="microscopy", seeds=seeds, seed=0)
    assert set(50 + np.unique(truth[truth > 0])) <= set(np.unique(result.labels).tolist())
    mask = np.zeros(truth.shape, bool)
    mask[:, :80] = True
    inside = gsw.segment(image, preset="microscopy", mask=mask, seed=0)
    assert inside.problem.has_fragments
    assert not inside.labels[:, 80:].any()
    assert inside.labels[:, :80].any()


@RUNTIME
def test_where_the_network_cannot_look_it_is_classical(seen):
    image, _, _ = seen
    assert not gsw.prepare(np.stack([image] * 3), preset="microscopy", axes="ZYX").has_fragments
    assert not gsw.prepare(image, preset="microscopy", view="regions").has_fragments
    assert not gsw.prepare(image, preset="microscopy", network="none").has_fragments
    assert not gsw.prepare(np.zeros((40, 40)), preset="microscopy").has_fragments  # nothing to be seen
    photo = str(resources.files("napari_gsw") / "data" / "network_photo.npz")
    with pytest.raises(gsw.InputError, match="is one for photo"):
        gsw.prepare(image, preset="microscopy", network=photo)


def test_without_onnxruntime_it_is_classical(monkeypatch):
    image, _ = cells()
    classical = gsw.segment(image, preset="microscopy", objects="classical", seed=0)
    assert "network" not in classical.provenance
    monkeypatch.setattr(networks, "has_onnxruntime", lambda: False)
    result = gsw.segment(image, preset="microscopy", seed=0)
    assert np.array_equal(result.labels, classical.labels)
    assert result.provenance["network"]["unused"] == "onnxruntime is missing"


def coupled(edges, beta, n):
    return Problem(n, (), np.array(edges, np.int32), np.array(beta, float), Potts(COLOURS))


def test_two_fragments_are_one_with_the_probability_of_their_coupling():
    odds = 0.7
    problem = coupled([(0, 1)], [odds + np.log(COLOURS - 1)], 2)
    expected = 1 / (1 + np.exp(-odds))
    for state in ([0, 0], [0, 1]):
        assert same_object_probability(problem, np.array([state], np.int32)) == pytest.approx([expected])


def test_probabilities_of_a_triangle_are_those_of_all_its_states():
    problem = coupled([(0, 1), (0, 2), (1, 2)], [4.0, 3.0, 2.5], 3)
    states = np.array([[0, 0, 0], [0, 0, 1], [0, 1, 0], [0, 1, 1], [0, 1, 2]], np.int32)
    i, j = problem.edges.T
    same = states[:, i] == states[:, j]
    ways = np.array([1, 31, 31, 31, 31 * 30])
    weight = ways * np.exp(same @ problem.beta)
    weight /= weight.sum()
    exact = weight @ same
    averaged = sum(
        w * same_object_probability(problem, state[np.newaxis]) for w, state in zip(weight, states, strict=True)
    )
    assert averaged == pytest.approx(exact, abs=1e-9)


def test_likely_pairs_are_objects_and_a_person_has_the_last_word():
    problem = coupled([(0, 1), (1, 2), (2, 3)], [1.0, 1.0, 1.0], 4)
    free = np.full(4, -1, np.int32)
    labels = decode_objects(problem, np.array([0.9, 0.2, 0.8]), free)
    assert labels.tolist() == [0, 0, 1, 1]
    apart = np.array([7, -1, -1, 9], np.int32)
    assert decode_objects(problem, np.array([0.9, 0.9, 0.9]), apart) is None
    assert decode_objects(problem, np.array([0.9, 0.1, 0.9]), apart).tolist() == [0, 0, 1, 1]
    alike = np.array([7, -1, -1, 7], np.int32)
    assert decode_objects(problem, np.array([0.9, 0.1, 0.2]), alike).tolist() == [0, 0, 1, 0]


def test_the_neighbour_with_which_a_label_is_most_probably_one():
    problem = coupled([(0, 1), (1, 2), (2, 3)], [0.0, 0.0, 0.0], 4)
    other, share = find_likeliest_partner(problem, np.array([0.3, 0.4, 0.9]), np.array([0, 1, 2, 2]), 4)
    assert other.tolist() == [1, 2, 1, -1]
    assert share.tolist() == [0.3, 0.4, 0.4, 0.0]


def test_fragments_and_blocks_of_background_are_sites():
    y, x = np.mgrid[:40, :60]
    middle = np.maximum(1 - np.hypot(y - 20, x - 20) / 12, 1 - np.hypot(y - 20, x - 38) / 12).astype(np.float32)
    inside = (middle > 0).astype(np.float32)
    pieces = find_fragments(inside, middle)
    assert pieces.max() == 2
    assert pieces[20, 20] != pieces[20, 38]
    sites = make_object_sites(pieces, np.ones(pieces.shape, bool))
    known = mark_fragments(sites, pieces)
    assert known.sum() == 2
    assert known[sites[20, 20] - 1]
    assert not known[sites[0, 0] - 1]
    assert (sites > 0).all()
    assert not find_fragments(0 * inside, middle).any()


def test_couplings_of_an_object_with_its_background_add_up():
    """Along all of its border a fragment is no object by the odds of the forest, however many blocks it touches."""
    pieces = np.zeros((40, 40), np.int32)
    pieces[10:22, 10:22] = 1
    maps = np.zeros((40, 40, 5), np.float32)
    maps[..., :3] = (pieces > 0)[..., np.newaxis]
    maps[..., WIDTH] = 0.3
    sites = make_object_sites(pieces, np.ones(pieces.shape, bool))
    graph = build_region_graph(NormalizedImage(maps[..., :1], False), sites)
    known = mark_fragments(sites, pieces)
    beta = load_builtin_object_model().couplings(sites, maps, graph, known)
    i, j = graph.edges.T
    border = known[i] != known[j]
    assert border.sum() > 1
    assert beta[border].sum() < np.log(COLOURS - 1)  # rather an object
    assert (beta[~border] > 5).all()


@RUNTIME
def test_maps_are_the_same_at_every_brightness_and_widths_in_pixels():
    image, truth = cells()
    network = networks.load_builtin_network("objects")
    maps = predict_objects(image, network)
    assert maps.shape == (*image.shape, 5)
    assert predict_objects(image.astype(np.uint16) * 257, network) is maps  # kept, since it looks the same
    across = np.sqrt(np.median(np.bincount(truth.ravel())[1:]))
    assert estimate_object_width(maps) == pytest.approx(across, rel=0.35)
    assert estimate_object_width(np.zeros((4, 4, 5), np.float32)) > 0


@RUNTIME
def test_objects_too_large_for_the_network_are_left_to_the_other_way():
    network = networks.load_builtin_network("objects")
    image = EasyImage("square", size=2 * COARSE_SIDE + 80).read().image
    maps = np.zeros((*image.shape, 5), np.float32)
    maps[:40, :, INSIDE] = 1  # hollow where the square is
    assert are_too_large(image, maps, network)
    many, truth = (np.tile(one, (4, 4)) for one in cells())  # many small ones in a large picture
    maps = np.zeros((*many.shape, 5), np.float32)
    maps[..., INSIDE] = truth > 0
    assert max(many.shape) > 2 * COARSE_SIDE
    assert not are_too_large(many, maps, network)
    assert not are_too_large(
        many[:COARSE_SIDE, :COARSE_SIDE], np.zeros((COARSE_SIDE, COARSE_SIDE, 5), np.float32), network
    )


@RUNTIME
def test_plain_shapes_out_of_focus_are_seen_sharply():
    network = networks.load_builtin_network("objects")
    for blur, less in ((2.0, True), (5.0, False)):
        easy = EasyImage("disks", blur=blur, noise=10)
        seen = predict_objects(easy.read().image, network)[..., INSIDE]
        unsure = np.count_nonzero((seen > 0.1) & (seen < 0.9))
        image = to_uint8(easy.read().image)
        plain = _predict_two_scales(image.tobytes(), image.shape, network)[..., INSIDE]
        assert bool(unsure < np.count_nonzero((plain > 0.1) & (plain < 0.9))) is less


def test_pictures_of_any_kind_are_stretched():
    ramp = np.arange(600.0).reshape(20, 30)
    assert to_uint8(ramp).max() == 255
    assert to_uint8(np.zeros((5, 5))).tolist() == np.zeros((5, 5, 3)).tolist()
    two = np.stack((ramp, ramp[::-1] * 0 + 7), axis=-1)
    assert to_uint8(two).shape == (20, 30, 3)
    # Red on green of one lightness: what differs is seen in grey.
    red = np.where(ramp[..., np.newaxis] > 300, [200, 50, 50], [50, 200, 50]).astype(np.uint8)
    grey = to_uint8(red)
    assert np.array_equal(grey[..., 0], grey[..., 1])
    assert np.ptp(grey) == 255
    assert to_uint8(np.full((1, 1, 2), 7, np.uint8)).tolist() == [[[0, 0, 0]]]
    assert to_uint8(np.full((1, 1, 2), 6e19)).tolist() == [[[0, 0, 0]]]
    assert resize_linear(np.ones((4, 4, 2)), (7, 9)).shape == (7, 9, 2)


def test_a_file_that_is_no_model_is_refused(tmp_path):
    (tmp_path / "a.json").write_text("{}")
    with pytest.raises(gsw.InputError, match="is not a model of objects"):
        ObjectModel.load(tmp_path / "a.json")
    with pytest.raises(gsw.InputError, match="cannot be read"):
        ObjectModel.load(tmp_path / "none.json")
    load_builtin_object_model().save(tmp_path / "b.json")
    again = ObjectModel.load(tmp_path / "b.json")
    assert np.array_equal(again.pair.threshold, load_builtin_object_model().pair.threshold)


def test_numbers_on_the_screen_do_not_depend_on_what_a_chain_calls_its_clusters():
    shown = np.array([5, 5, 5, 3])
    for labels in ([0, 1, 2, 3], [7, 2, 0, 1], [1, 3, 2, 0]):
        assert match_labels(np.array(labels), shown, np.ones(4)).tolist() == [5, 1, 2, 3]


def test_the_layout_of_an_image_in_memory_changes_nothing():
    image = np.random.default_rng(0).integers(0, 255, (40, 50, 3), dtype=np.uint8)
    plain = gsw.segment(image, preset="microscopy", seed=0, sweeps=3)
    for other in (np.asfortranarray(image), np.repeat(image, 2, axis=1)[:, ::2]):
        assert np.array_equal(gsw.segment(other, preset="microscopy", seed=0, sweeps=3).labels, plain.labels)
