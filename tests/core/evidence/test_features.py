"""Words and histograms."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.sparse import csr_array
from skimage.data import astronaut

import napari_gsw as gsw
from napari_gsw.core.features.codebook import Codebook, load_builtin_codebook
from napari_gsw.core.features.site_features import ImageFeatures
from napari_gsw.core.features.texture import compute_texture
from napari_gsw.core.features.words import bin_luminance, make_histograms, smear_counts, to_codebook_space
from napari_gsw.core.graph.region_graph import build_region_graph
from napari_gsw.core.image.normalized_image import normalize_image
from napari_gsw.core.pipeline.prepare import build_likelihoods
from napari_gsw.core.sites.superpixels import make_superpixels
from napari_gsw.sample_data import mosaic

RNG = np.random.default_rng(0)
IMAGE = astronaut()[:120, :140]


def test_each_pixel_gets_its_nearest_word():
    book = gsw.Codebook.fit(IMAGE, words=25)
    assert book.centres.shape == (25, 3)
    channels = normalize_image(IMAGE).channels
    distance = np.linalg.norm(channels[..., None, :].astype(float) - book.centres, axis=-1)
    found = np.take_along_axis(distance, book.words(channels)[..., None], axis=-1)[..., 0]
    assert found == pytest.approx(distance.min(axis=-1))


def test_words_are_better_than_random_ones_and_the_same_for_the_same_seed():
    channels = normalize_image(IMAGE).channels.reshape(-1, 3).astype(float)

    def error(centres):
        return np.min(np.linalg.norm(channels[::7, None] - centres, axis=-1), axis=1).mean()

    book = gsw.Codebook.fit(IMAGE, words=30, seed=1)
    random = channels[RNG.choice(len(channels), 30, replace=False)]
    assert error(book.centres) < 0.95 * error(random)
    assert np.array_equal(book.centres, gsw.Codebook.fit(IMAGE, words=30, seed=1).centres)


def test_many_images_have_the_same_weight():
    small, large = np.zeros((10, 10, 3), np.uint8), np.full((200, 200, 3), 255, np.uint8)
    book = gsw.Codebook.fit([small, large], words=2)
    assert sorted(book.centres[:, 0].round().tolist()) == [0, 100]
    with pytest.raises(gsw.InputError, match="at least one image"):
        gsw.Codebook.fit([])
    with pytest.raises(gsw.InputError, match="all RGB or all not"):
        gsw.Codebook.fit([small, np.zeros((5, 5))])


def test_an_image_of_few_colours_has_few_words():
    assert len(gsw.Codebook.fit(np.tile([[0, 1], [2, 1]], (9, 9)), words=120).centres) == 3
    assert len(gsw.Codebook.fit(np.zeros((9, 9))).centres) == 1


def test_a_codebook_is_saved_as_numbers_and_read_back_exactly(tmp_path):
    book = gsw.Codebook.fit(IMAGE, words=17)
    book.save(tmp_path / "book.json")
    again = gsw.Codebook.load(tmp_path / "book.json")
    assert np.array_equal(book.centres, again.centres)
    assert again.space == "lab"
    (tmp_path / "bad.json").write_text('{"space": "lab", "centres": [[1, 2], [3]]}')
    for name in ("bad.json", "missing.json"):
        with pytest.raises(gsw.InputError, match=name):
            gsw.Codebook.load(tmp_path / name)
    from_file = gsw.prepare(IMAGE, preset="paper", codebook=str(tmp_path / "book.json"))
    assert np.array_equal(
        from_file.likelihoods[0].counts.toarray(),
        gsw.prepare(IMAGE, preset="paper", codebook=book).likelihoods[0].counts.toarray(),
    )


def test_shipped_words():
    colours, textures = load_builtin_codebook("lab"), load_builtin_codebook("texture")
    assert colours.centres.shape == (120, 3)
    assert len(np.unique(colours.centres, axis=0)) == 120
    assert (colours.centres[:, 0].min(), colours.centres[:, 0].max()) == pytest.approx((0, 100), abs=6)
    assert textures.centres.shape == (32, compute_texture(normalize_image(IMAGE).luminance).shape[-1])


def test_a_codebook_for_other_channels_is_refused():
    grey = RNG.random((20, 20))
    with pytest.raises(gsw.InputError, match="words in 'lab', but the image is in 'channels'"):
        gsw.prepare(grey, codebook=load_builtin_codebook("lab"))
    with pytest.raises(gsw.InputError, match="not RGB"):
        gsw.prepare(grey, codebook="shipped")
    with pytest.raises(gsw.InputError, match="cannot be read"):
        gsw.prepare(IMAGE, codebook="no-such-file.json")


def test_histograms_count_the_pixels_of_each_site():
    sites = np.array([[1, 1, 2], [0, 3, 2]])
    words = np.array([[4, 0, 1], [2, 1, 1]], dtype=np.int32)
    assert make_histograms(words, sites).toarray().tolist() == [[1, 0, 0, 0, 1], [0, 2, 0, 0, 0], [0, 1, 0, 0, 0]]


def test_luminance_bins():
    seen = normalize_image(np.linspace(0, 1, 800).reshape(20, 40))
    words = bin_luminance(seen, 8)
    assert (words.min(), words.max()) == (0, 7)
    assert np.bincount(words.ravel()).min() > 80


@pytest.mark.parametrize(
    ("image", "changes", "widths"),
    [
        (IMAGE, dict(), [120]),
        (IMAGE, dict(codebook="image", words=40), [40]),
        (IMAGE, dict(likelihood="luminance"), [8]),
        (IMAGE, dict(texture_words=32), [120, 32]),
        (IMAGE, dict(texture_words=10), [120, 10]),
        (IMAGE[..., 0], dict(words=50, texture_words=32), [50, 32]),
        (RNG.random((8, 20, 20)), dict(texture_words=12), [120, 12]),
        (RNG.random((20, 20, 5)), dict(axes="YXC"), [120]),
    ],
)
def test_blocks_of_features(image, changes, widths):
    settings = gsw.Settings(site_size=30, evidence=6.0, texture_evidence=3.0, texture_phi=11.0, **changes)
    seen = normalize_image(image, settings.axes)
    sites = make_superpixels(seen, settings)
    blocks = build_likelihoods(ImageFeatures(seen, sites, settings), build_region_graph(seen, sites))
    assert len(blocks) == len(widths)
    pixels = np.bincount(sites.ravel())[1:]
    for block, width in zip(blocks, widths, strict=True):
        assert block.counts.shape[0] == sites.max()
        assert block.counts.shape[1] <= width
        assert np.array_equal(block.counts.sum(axis=1), pixels)
    assert blocks[0].weight * pixels.mean() == pytest.approx(6.0)
    if len(blocks) == 2:
        assert (blocks[1].phi, blocks[1].weight * pixels.mean()) == pytest.approx((11.0, 3.0))


def test_gaussian_channels_hold_the_moments_of_the_pixels():
    seen = normalize_image(RNG.random((20, 30, 4)), "YXC")
    settings = gsw.Settings(likelihood="gaussian", evidence=None)
    sites = make_superpixels(seen, settings)
    (block,) = build_likelihoods(ImageFeatures(seen, sites, settings), build_region_graph(seen, sites))
    centred = seen.channels.astype(float) - seen.channels.reshape(-1, 4).astype(float).mean(axis=0)
    for i in (1, int(sites.max())):
        assert block.sums[i - 1] == pytest.approx(centred[sites == i].sum(axis=0))
        assert block.squares[i - 1] == pytest.approx((centred[sites == i] ** 2).sum(axis=0))


def test_texture_does_not_depend_on_orientation():
    light = normalize_image(IMAGE[:100, :100]).luminance
    assert np.rot90(compute_texture(light)) == pytest.approx(compute_texture(np.rot90(light)), abs=1e-4)


def test_words_of_hue_saturation_and_value():
    """Hue is an angle: red on either side of 0 is near, and grey has none."""
    rgb = np.array([[[255, 0, 10], [255, 10, 0], [0, 255, 255], [128, 128, 128]]], np.uint8)
    seen = to_codebook_space(normalize_image(rgb), "hsv")[0]
    assert np.linalg.norm(seen[0] - seen[1]) < 0.15
    assert np.linalg.norm(seen[0] - seen[2]) > 1.9
    assert np.allclose(seen[3], [0, 0, 0.25], atol=0.01)
    with pytest.raises(gsw.InputError, match="lab"):
        to_codebook_space(normalize_image(rgb), "texture")


def test_a_codebook_of_the_users_own_decides_the_colours():
    image = mosaic()[0][:60, :80]
    for space in ("lab", "hsv"):
        book = Codebook.learn([to_codebook_space(normalize_image(image), space)], 30, space)
        one = gsw.prepare(image, preset="paper", site_size=60, codebook=book)
        words = book.words(to_codebook_space(normalize_image(image), space))
        assert one.likelihoods[0].counts.shape[1] == len(np.unique(words))
    both = [gsw.prepare(image, preset="paper", site_size=60, colours=c) for c in ("lab", "hsv")]
    assert both[0].likelihoods[0].counts.shape != both[1].likelihoods[0].counts.shape


def test_how_soft_words_are_belongs_to_the_codebook(tmp_path):
    """A site between two words counts for both; beyond its softness words do not know of each other."""
    counts = csr_array(np.array([[10, 0, 0], [0, 10, 0], [0, 0, 10]]))
    hard = Codebook(np.array([[0.0], [2.0], [60.0]]), "channels")
    assert smear_counts(counts, hard) is counts
    soft = replace(hard, softness=4.0)
    near = smear_counts(counts, soft).toarray()
    assert near[0, 1] > 0.8 * near[0, 0] > 0
    assert near[0, 2] == near[2, 0] == 0
    assert near.sum(axis=1) == pytest.approx(16 * 10, abs=2)
    many = csr_array(np.tile(counts.toarray(), (9000, 1)))  # more than are done at a time
    assert np.array_equal(smear_counts(many, soft).toarray(), np.tile(near, (9000, 1)))
    assert soft.thinned(3.0).softness == 4.0
    assert len(soft.thinned(3.0).centres) == 2
    for book in (hard, soft):
        book.save(tmp_path / "book.json")
        assert gsw.Codebook.load(tmp_path / "book.json").softness == book.softness
    (tmp_path / "book.json").write_text('{"space": "channels", "softness": "much", "centres": [[1.0]]}')
    with pytest.raises(gsw.InputError, match=r"book.json' is not a codebook: softness must be a number"):
        gsw.Codebook.load(tmp_path / "book.json")
    with pytest.raises(gsw.InputError, match="softness must be a number"):
        Codebook(np.eye(2), "channels", -1.0)


def test_values_beyond_what_words_are_kept_in_are_refused():
    book = Codebook(np.eye(2), "channels")
    with pytest.raises(gsw.InputError, match="scale them down"):
        book.words(np.array([[1.0, 1e60]]))
    with pytest.raises(gsw.InputError, match="must hold numbers, not complex"):
        book.words(np.array([[1.0, 1j]]))
    assert book.words(np.array([[1.0, 0.1]])) == [0]
