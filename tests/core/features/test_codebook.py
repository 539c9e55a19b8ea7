"""Codebooks: learning, looking up, files."""

from __future__ import annotations

import numpy as np
import pytest
from skimage.data import astronaut

import napari_gsw as gsw
from napari_gsw.core.features.codebook import Codebook, find_nearest, load_builtin_codebook, run_kmeans
from napari_gsw.core.features.texture import compute_texture
from napari_gsw.core.image.normalized_image import normalize_image

RNG = np.random.default_rng(11)
IMAGE = astronaut()[:120, :140]


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


def test_values_beyond_what_words_are_kept_in_are_refused():
    book = Codebook(np.eye(2), "channels")
    with pytest.raises(gsw.InputError, match="scale them down"):
        book.words(np.array([[1.0, 1e60]]))
    with pytest.raises(gsw.InputError, match="must hold numbers, not complex"):
        book.words(np.array([[1.0, 1j]]))
    assert book.words(np.array([[1.0, 0.1]])) == [0]


@pytest.mark.parametrize("channels", [1, 2, 3, 4, 6, 7])
@pytest.mark.parametrize("pixels", [1, 5, 1000, 3001])
def test_the_nearest_word_is_that_of_all_distances(channels, pixels):
    values = np.round(RNG.normal(size=(pixels, channels)) * 30).astype(np.float32)  # whole numbers, so that ties occur
    centres = np.round(RNG.normal(size=(50, channels)) * 30).astype(np.float32)
    centres[40:] = centres[:10]
    distance = np.square(values[:, np.newaxis].astype(float) - centres).sum(axis=-1)
    assert np.array_equal(find_nearest(values, centres), distance.argmin(axis=1))


def test_the_nearest_word_of_constant_and_of_no_pixels():
    centres = RNG.normal(size=(9, 3)).astype(np.float32)
    assert (find_nearest(np.tile(centres[4], (30, 1)), centres) == 4).all()
    assert len(find_nearest(np.zeros((0, 3), np.float32), centres)) == 0


def test_k_means_lowers_the_error_and_keeps_a_centre_that_nobody_is_near():
    values = RNG.normal(size=(2000, 2)).astype(np.float32)
    start = np.concatenate((values[:20], [[1e4, 1e4]])).astype(np.float32)
    found = run_kmeans(values, start)

    def error(centres):
        return np.square(values[:, np.newaxis] - centres).sum(axis=-1).min(axis=1).mean()

    assert error(found) < 0.9 * error(start)
    assert found[-1].tolist() == [1e4, 1e4]
