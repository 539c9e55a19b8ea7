"""``segment --checkpoint``, ``--resume`` and ``replay``: what is killed goes on to the labels of an undisturbed run."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from skimage.io import imread, imsave

import napari_gsw as gsw
from napari_gsw.cli import main
from napari_gsw.core.interactive.interactive_run import InteractiveRun
from napari_gsw.core.interactive.saved_session import SavedImage, SavedSession

IMAGE = np.kron(np.random.default_rng(0).integers(0, 255, (4, 6, 3)), np.ones((20, 20, 1))).astype(np.uint8)
OPTIONS = ("--seed", "3", "--sweeps", "60", "-q")


@pytest.fixture
def photo(tmp_path):
    path = tmp_path / "photo.png"
    imsave(path, IMAGE, check_contrast=False)
    return path


def run(*words):
    return main([str(word) for word in words])


def labels(folder):
    return imread(folder / "labels.tif")


def test_a_run_that_was_stopped_is_resumed_to_the_same_labels(photo, tmp_path, capsys):
    assert run("segment", photo, "-o", tmp_path / "full", *OPTIONS) == 0
    part = gsw.segment(IMAGE, seed=3, sweeps=60, report=lambda _, one: one is not None and one.sweep >= 20)
    gsw.save_session(tmp_path / "run.zarr.zip", part)
    words = ("segment", photo, "-o", tmp_path / "on", *OPTIONS, "--checkpoint", tmp_path / "run.zarr.zip")
    assert run(*words) == 2
    assert "--resume" in capsys.readouterr().err
    assert run(*words, "--resume") == 0
    np.testing.assert_array_equal(labels(tmp_path / "on"), labels(tmp_path / "full"))
    assert gsw.open_session(tmp_path / "run.zarr.zip").run.sweep == 60
    assert run(*words, "--resume", "--overwrite") == 0, "a run that is complete is written again"


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--resume",), "name it with --checkpoint"),
        (("--checkpoint", "run.zarr.zip", "--resume", "--lam", "3"), "lam"),
        (("--checkpoint", "run.zarr.zip", "--resume", "--seed", "4"), "seed 3, not 4"),
        (("--checkpoint", "photo.png"), "is there already"),
        (("--checkpoint", "run.zarr.zip", "--method", "felzenszwalb"), "no state to save"),
    ],
)
def test_a_checkpoint_of_something_else_is_refused(photo, tmp_path, capsys, monkeypatch, words, sentence):
    monkeypatch.chdir(tmp_path)
    gsw.save_session("run.zarr.zip", gsw.segment(IMAGE, seed=3, sweeps=60))
    options = OPTIONS if "--method" not in words else ("-q",)
    assert run("segment", photo, "-o", "out", *options, *words) == 2
    assert sentence in capsys.readouterr().err
    assert not os.path.exists("out")


def test_a_checkpoint_of_another_image_is_refused(photo, tmp_path, capsys):
    gsw.save_session(tmp_path / "run.zarr.zip", gsw.segment(IMAGE[::-1], seed=3, sweeps=60))
    words = ("--checkpoint", tmp_path / "run.zarr.zip", "--resume")
    assert run("segment", photo, "-o", tmp_path / "out", *OPTIONS, *words) == 2
    assert "another image" in capsys.readouterr().err


def steered(photo, tmp_path):
    """A session as the window saves it: with a stroke in it."""
    settings = gsw.preset("general", sweeps=40, axes="YXS")
    live = InteractiveRun(gsw.prepare(IMAGE, settings), settings, seed=1)
    live.run_for(20)
    while live.sweep < live.target:
        live.advance()
    live.paint(np.arange(4), 77, lock=True)
    live.settle()
    while live.sweep < live.target:
        live.advance()
    live.image = IMAGE
    saved = live.save()
    path = tmp_path / "steered.zarr.zip"
    gsw.save_session(path, SavedSession({"run": saved}, (SavedImage("photo", (str(photo),)),)))
    return live, path


def test_a_session_is_replayed_with_its_strokes_and_on_others_with_its_settings(photo, tmp_path, capsys):
    live, path = steered(photo, tmp_path)
    assert run("replay", path, "-o", tmp_path / "again", "-q") == 0
    own = live.problem.paint(live.named(live.summary.numbers))
    np.testing.assert_array_equal(labels(tmp_path / "again"), own)
    assert 77 in labels(tmp_path / "again")
    other = tmp_path / "other" / "upside.png"
    other.parent.mkdir()
    imsave(other, IMAGE[::-1], check_contrast=False)
    assert run("replay", path, "--image", other, "-o", tmp_path / "upside", "-q") == 0
    alone = gsw.segment(IMAGE[::-1], live.settings, seed=1)
    np.testing.assert_array_equal(labels(tmp_path / "upside"), alone.labels)
    assert run("replay", path, "--image", other.parent, "-o", tmp_path / "all", "--jobs", "1", "-q") == 0
    np.testing.assert_array_equal(imread(tmp_path / "all" / "upside.tif"), alone.labels)
    photo.unlink()
    assert run("replay", path, "-o", tmp_path / "lost", "-q") == 2
    assert "--image" in capsys.readouterr().err


COMMAND = "import sys; from napari_gsw.cli import main; sys.exit(main())"


def killed_again_and_again(words, after, most=1000):
    """Start a command, kill it after a while and start it again until it is through; the number of kills."""
    for kills in range(most):
        process = subprocess.Popen([sys.executable, "-c", COMMAND, *map(str, words)], stderr=subprocess.PIPE)
        try:
            _, complaint = process.communicate(timeout=after())
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.communicate()
            continue
        assert process.returncode == 0, complaint
        return kills
    raise AssertionError("it never came to an end")


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
def test_kills_at_random_moments_change_nothing(photo, tmp_path, seed):
    """About a hundred kills in all: each run is killed whenever it pleases, and goes on."""
    chance = random.Random(seed)
    options = ("--seed", seed, "--sweeps", "40000", "-q")
    assert run("segment", photo, "-o", tmp_path / "full", *options) == 0
    words = ("segment", photo, "-o", tmp_path / "on", *options, "--checkpoint", tmp_path / "c.zarr.zip", "--resume")
    words += ("--checkpoint-every", 0.2)
    began = time.monotonic()
    kills = killed_again_and_again(words, lambda: chance.uniform(2.0, 5.0 + 0.1 * (time.monotonic() - began)))
    print(kills, "kills")
    np.testing.assert_array_equal(labels(tmp_path / "on"), labels(tmp_path / "full"))
    assert not [name for name in os.listdir(tmp_path) if name.startswith(".unfinished")]


def test_a_mask_that_the_checkpoint_has_not_is_refused(photo, tmp_path, capsys):
    gsw.save_session(tmp_path / "run.zarr.zip", gsw.segment(IMAGE, seed=3, sweeps=60))
    imsave(tmp_path / "mask.png", np.ones(IMAGE.shape[:2], np.uint8), check_contrast=False)
    words = ("--checkpoint", tmp_path / "run.zarr.zip", "--resume", "--mask", tmp_path / "mask.png")
    assert run("segment", photo, "-o", tmp_path / "out", *OPTIONS, *words) == 2
    assert "another mask" in capsys.readouterr().err


def test_a_run_that_ended_by_agreement_ends_there_again(tmp_path):
    result = gsw.segment(IMAGE, seed=3, sweeps=4000, chains=2, stop="agreement")
    assert result.snapshot.sweep < 4000
    again = gsw.resume(gsw.open_session(gsw.save_session(tmp_path / "run.zarr.zip", result)).run)
    assert again.snapshot.sweep == result.snapshot.sweep
    np.testing.assert_array_equal(again.labels, result.labels)
    assert gsw.resume(result.run, sweeps=10).snapshot.sweep == result.snapshot.sweep + 10


def test_an_image_that_has_changed_is_not_taken_for_that_of_the_session(photo, tmp_path, capsys):
    _, path = steered(photo, tmp_path)
    imsave(photo, IMAGE[::-1], check_contrast=False)
    assert run("replay", path, "-o", tmp_path / "again", "-q") == 2
    assert "it has changed" in capsys.readouterr().err
    assert run("replay", path, "--image", photo, "-o", tmp_path / "other") == 0
    assert "its settings and its seed are taken" in capsys.readouterr().out


def test_another_image_is_replayed_with_its_own_axes_and_spacing(tmp_path):
    import tifffile

    planes = np.stack([IMAGE[..., 0], IMAGE[..., 1]])
    volume = np.repeat(planes[:1], 3, axis=0)
    saved = gsw.segment(volume[:, :40, :40], axes="ZYX", spacing="5,1,1", sweeps=5)
    gsw.save_session(tmp_path / "volume.zarr.zip", saved)
    tifffile.imwrite(tmp_path / "channels.ome.tif", planes, metadata={"axes": "CYX"})
    assert (
        run("replay", tmp_path / "volume.zarr.zip", "--image", tmp_path / "channels.ome.tif", "-o", tmp_path / "o") == 0
    )
    assert labels(tmp_path / "o").shape == planes.shape[1:]
    folder = tmp_path / "folder"
    folder.mkdir()
    imsave(folder / "plane.png", IMAGE[..., 0], check_contrast=False)
    words = ("--image", folder, "-o", tmp_path / "all", "--jobs", "1", "-q")
    assert run("replay", tmp_path / "volume.zarr.zip", *words) == 0


def test_pixels_outside_the_mask_may_be_nan_and_all_files_are_written(tmp_path):
    import tifffile

    image = IMAGE[..., 0].astype(np.float32)
    image[:20, :20], image[:20, 20:30] = np.nan, np.inf
    tifffile.imwrite(tmp_path / "scene.tif", image)
    imsave(tmp_path / "mask.png", np.isfinite(image).astype(np.uint8), check_contrast=False)
    words = ("--mask", tmp_path / "mask.png", "--save-plot", "--uncertainty", "--table", "--sweeps", "60", "-q")
    assert run("segment", tmp_path / "scene.tif", "-o", tmp_path / "out", *words) == 0
    assert {"overlay.png", "people.tif", "regions.csv"} <= set(os.listdir(tmp_path / "out"))
    rows = np.genfromtxt(tmp_path / "out" / "regions.csv", delimiter=",", names=True)
    means = next(rows[name] for name in rows.dtype.names if name.startswith("mean"))
    assert np.isfinite(means).all()
    for region, mean in zip(rows["index"], means, strict=True):
        np.testing.assert_allclose(image[labels(tmp_path / "out") == region].mean(), mean, rtol=1e-4)
