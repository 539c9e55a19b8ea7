"""Files of the user stay, whatever is written beside them, and refusals come before the work."""

from __future__ import annotations

import json
import os
import signal
import sys

import imageio.v3 as iio
import numpy as np
import pytest
import tifffile
from skimage.data import astronaut

from napari_gsw.cli import main
from napari_gsw.cli.options import read_settings_file
from napari_gsw.cli.segment import SweepBar
from napari_gsw.core.errors import InputError
from napari_gsw.files.images import read_labels

IMAGE = astronaut()[60:110, 150:210]
FAST = ("-q", "--sweeps", "5", "--site-size", "60")
# Names of ours, as the issue lists them, that people use too.
THEIRS = ("people.tif", "overlay.png", "sites.tif", "contour.tif", "trace.png", "posterior.json", "boundary.zarr/notes")


@pytest.fixture
def image(tmp_path):
    path = tmp_path / "photo.png"
    iio.imwrite(path, IMAGE)
    return path


@pytest.fixture
def theirs(image, tmp_path):
    """Files of somebody else beside the image."""
    for name in THEIRS:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("mine")
    return tmp_path


@pytest.fixture
def no_sampling(monkeypatch):
    def sampled(*_, **__):
        raise AssertionError("it was sampled")

    monkeypatch.setattr("napari_gsw.methods.segment", sampled)


def run(*arguments):
    return main([str(a) for a in arguments])


def content(folder):
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_files_of_others_stay(theirs, monkeypatch):
    before = content(theirs)
    monkeypatch.chdir(theirs)
    assert run("segment", "photo.png", "-o", ".", *FAST) == 0
    assert run("segment", "photo.png", "-o", ".", "--save-plot", *FAST) == 2
    after = content(theirs)
    assert {name: after[name] for name in before} == before
    assert set(after) - set(before) == {"labels.tif", "provenance.json", "trace.csv"}


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (["--save-plot"], "overlay.png"),
        (["--save-sites"], "sites.tif"),
        (["--uncertainty"], "contour.tif"),
        (["--method", "felzenszwalb", "--save-plot"], "overlay.png"),
    ],
)
def test_a_file_in_the_way_is_named_before_anything_is_sampled(options, named, theirs, no_sampling, capsys):
    before = content(theirs)
    fast = () if "--method" in options else FAST
    assert run("segment", theirs / "photo.png", "-o", theirs, *options, *fast) == 2
    printed = capsys.readouterr().err
    assert f"{named}': the file exists" in printed
    assert "--overwrite" in printed
    assert printed.count("\n") == 1
    assert content(theirs) == before


def test_overwrite_is_the_users_word_for_what_is_written_and_nothing_else(theirs):
    before = content(theirs)
    assert run("segment", theirs / "photo.png", "-o", theirs, "--save-plot", "--overwrite", *FAST) == 0
    after = content(theirs)
    assert {name for name in before if before[name] != after[name]} == {"overlay.png", "trace.png"}
    assert run("segment", theirs / "photo.png", "-o", theirs, *FAST) == 0  # they are ours now
    assert set(before) - set(content(theirs)) == {"overlay.png", "trace.png"}


def test_labels_that_somebody_has_worked_on_stay(image, tmp_path, capsys):
    assert run("segment", image, "-o", tmp_path / "out", *FAST) == 0
    tifffile.imwrite(tmp_path / "out" / "labels.tif", np.ones((5, 5), np.uint8))
    before = content(tmp_path)
    assert run("segment", image, "-o", tmp_path / "out", *FAST) == 2
    assert "labels.tif': the file exists" in capsys.readouterr().err
    assert content(tmp_path) == before


def test_two_formats_do_not_share_a_provenance(image, tmp_path, capsys):
    assert run("segment", image, "-o", tmp_path / "x.tif", *FAST) == 0
    before = content(tmp_path)
    assert run("segment", image, "-o", tmp_path / "x.png", "--seed", 1, *FAST) == 2
    assert "x.provenance.json' is the provenance of 'x.tif'" in capsys.readouterr().err
    assert content(tmp_path) == before
    assert run("segment", image, "-o", tmp_path / "x.png", "--seed", 1, "--overwrite", *FAST) == 0
    assert content(tmp_path).keys() == {"photo.png", "x.png", "x.provenance.json", "x.trace.csv"}


@pytest.mark.parametrize("command", ["segment", "batch", "evaluate", "reproduce"])
def test_a_name_that_is_empty_is_no_folder(command, image, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    before = content(tmp_path)
    source = {"segment": [image], "batch": [tmp_path], "evaluate": ["--folder", tmp_path], "reproduce": ["fig1"]}
    with pytest.raises(SystemExit) as end:
        run(command, *source[command], "-o", "")
    assert end.value.code == 2
    assert "must have a name" in capsys.readouterr().err
    assert content(tmp_path) == before


def test_a_zarr_that_cannot_be_written_is_refused_first(image, tmp_path, no_sampling, capsys):
    (tmp_path / "z.zarr").mkdir()
    (tmp_path / "z.zarr" / "thesis.txt").write_text("all my work")
    before = content(tmp_path)
    for more in ([], ["--overwrite"]):
        assert run("segment", image, "-o", tmp_path / "z.zarr", *more, *FAST) == 2
        assert "z.zarr': the file exists" in capsys.readouterr().err
    assert content(tmp_path) == before


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_the_chain_and_keeps_what_it_has_found(number, code, image, tmp_path, monkeypatch):
    real = SweepBar.report

    def signalled(self, stage, snapshot):
        if stage.name == "sampling" and stage.done >= 50 and self.stopped is None:
            os.kill(os.getpid(), number)
        return real(self, stage, snapshot)

    monkeypatch.setattr(SweepBar, "report", signalled)
    before = [signal.getsignal(one) for one in (signal.SIGINT, signal.SIGTERM)]
    assert run("segment", image, "-o", tmp_path / "out", "-q", "--sweeps", 100_000, "--site-size", 60) == code
    assert [signal.getsignal(one) for one in (signal.SIGINT, signal.SIGTERM)] == before
    assert content(tmp_path / "out").keys() == {"labels.tif", "provenance.json", "trace.csv"}
    assert 0 < json.loads((tmp_path / "out" / "provenance.json").read_text())["sweeps"] < 100_000


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_a_signal_before_the_chain_begins_leaves_nothing(image, tmp_path, monkeypatch, capsys):
    def signalled(*_, **__):
        os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr("napari_gsw.methods.segment", signalled)
    assert run("segment", image, "-o", tmp_path / "out", *FAST) == 143
    assert "nothing was written" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


# --settings and --seed random


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """One result in every format that carries what made it, and the labels."""
    folder = tmp_path_factory.mktemp("results")
    iio.imwrite(folder / "photo.png", IMAGE)
    words = ["--preset", "paper", "--alpha", 2, "--seed", 9, "-q", "--sweeps", 5]
    for name in ("a.tif", "b.ome.tif", "c.zarr", "d.png"):
        assert run("segment", folder / "photo.png", "-o", folder / name, *words) == 0
    return folder


@pytest.mark.parametrize("carrier", ["a.tif", "b.ome.tif", "c.zarr", "d.provenance.json"])
def test_the_settings_of_a_result_make_it_again(carrier, results, tmp_path):
    assert run("segment", results / "photo.png", "-o", tmp_path, "-q", "--settings", results / carrier) == 0
    assert np.array_equal(read_labels(tmp_path / "labels.tif"), read_labels(results / "a.tif"))
    again, first = (
        json.loads(path.read_text()) for path in (tmp_path / "provenance.json", results / "a.provenance.json")
    )
    assert {k: v for k, v in again.items() if k != "files"} == {k: v for k, v in first.items() if k != "files"}


def test_options_beside_a_file_of_settings_have_the_last_word(results, tmp_path, capsys):
    words = ["--settings", results / "a.provenance.json", "--seed", 1, "--sweeps", 4, "--set", "alpha=3", "-q"]
    assert run("segment", results / "photo.png", "-o", tmp_path / "out", *words) == 0
    made = json.loads((tmp_path / "out" / "provenance.json").read_text())
    assert (made["seed"], made["settings"]["sweeps"], made["settings"]["alpha"]) == (1, 4, 3.0)
    assert run("segment", results / "photo.png", "-o", tmp_path / "x", *words[:2], "--preset", "photo") == 2
    assert "choose one of them" in capsys.readouterr().err
    (tmp_path / "crp.json").write_text('{"method": "dd-crp", "alpha": 1}')
    assert run("segment", results / "photo.png", "-o", "x", "--settings", tmp_path / "crp.json", "--method", "gsw") == 2
    assert "has settings of dd-crp, not of gsw" in capsys.readouterr().err


def test_settings_of_other_methods_and_of_a_batch(results, tmp_path):
    image = results / "photo.png"
    assert run("segment", image, "-o", tmp_path / "f.tif", "--method", "felzenszwalb", "--set", "scale=50", "-q") == 0
    words = ["--settings", tmp_path / "f.provenance.json", "-q"]
    assert run("segment", image, "-o", tmp_path / "g.tif", *words) == 0
    assert np.array_equal(read_labels(tmp_path / "g.tif"), read_labels(tmp_path / "f.tif"))
    (tmp_path / "in").mkdir()
    iio.imwrite(tmp_path / "in" / "photo.png", IMAGE)
    batch = ["batch", tmp_path / "in", "--jobs", 1, "-q", "-o"]
    assert run(*batch, tmp_path / "one", "--settings", results / "a.tif") == 0
    assert np.array_equal(read_labels(tmp_path / "one" / "photo.tif"), read_labels(results / "a.tif"))
    assert run(*batch, tmp_path / "two", "--settings", tmp_path / "one" / "batch.json") == 0
    assert np.array_equal(read_labels(tmp_path / "two" / "photo.tif"), read_labels(results / "a.tif"))


def test_what_is_no_file_of_settings_is_one_line(results, tmp_path, capsys):
    files = {
        "deep.json": "[" * 100_000,
        "deeper.json": '{"settings": ' * 100_000,
        "list.json": "[1]",
        "text.json": "alpha = 1",
        "unknown.json": '{"alfa": 1}',
        "seed.json": '{"alpha": 1, "seed": "x"}',
        "range.json": '{"software": "napari-gsw", "settings": {"alpha": -1}}',
        "kind.json": '{"software": "napari-gsw", "settings": 3}',
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    tifffile.imwrite(tmp_path / "bare.tif", IMAGE)
    words = ["segment", results / "photo.png", "-o", tmp_path / "out", "-q", "--settings"]
    for name in (*files, "bare.tif", "nowhere.json"):
        assert run(*words, tmp_path / name) == 2, name
        printed = capsys.readouterr().err
        assert printed.count("\n") == 1, name
        assert len(printed) < 3000
    assert not (tmp_path / "out").exists()


def test_settings_in_other_shapes(tmp_path):
    shapes = {
        "crp": {"software": "napari-gsw", "settings": {"K": 2}, "method": {"name": "rdd-crp", "gamma": 0.1}, "seed": 3},
        "stack": {"software": "napari-gsw", "parts": {n: {"settings": {"K": 2}, "seed": 3} for n in ("0", "1")}},
        "plain": {"K": 2, "seed": 3},
    }  # fmt: skip
    for name, shape in shapes.items():
        (tmp_path / name).write_text(json.dumps(shape))
    assert read_settings_file(str(tmp_path / "crp"))[:3] == ("rdd-crp", {"K": 2, "gamma": 0.1}, 3)
    assert (
        read_settings_file(str(tmp_path / "stack"))[:3]
        == read_settings_file(str(tmp_path / "plain"))[:3]
        == (None, {"K": 2}, 3)
    )
    shapes["stack"]["parts"]["1"]["seed"] = 4
    (tmp_path / "stack").write_text(json.dumps(shapes["stack"]))
    with pytest.raises(InputError, match="different settings"):
        read_settings_file(str(tmp_path / "stack"))


def test_what_settings_alone_do_not_make_is_said(results, tmp_path, capsys):
    made = json.loads((results / "a.provenance.json").read_text()) | {"reproducible": False, "given": {"mask": "0"}}
    (tmp_path / "p.json").write_text(json.dumps(made))
    assert run("segment", results / "photo.png", "-o", tmp_path / "out", "--settings", tmp_path / "p.json", "-q") == 0
    printed = capsys.readouterr().err
    assert "a person had a hand in that result" in printed
    assert "also given mask" in printed


def test_a_random_seed_is_written_down(image, tmp_path, capsys):
    seeds = []
    for name in ("a", "b"):
        assert run("segment", image, "-o", tmp_path / name, "--seed", "random", *FAST) == 0
        seeds.append(json.loads((tmp_path / name / "provenance.json").read_text())["seed"])
    assert seeds[0] != seeds[1]
    assert run("segment", image, "-o", tmp_path / "c", "--seed", seeds[0], *FAST) == 0
    assert np.array_equal(read_labels(tmp_path / "c" / "labels.tif"), read_labels(tmp_path / "a" / "labels.tif"))
    assert run("batch", tmp_path, "-o", tmp_path / "d", "--seed", "random", "--resume") == 2
    assert "batch.json" in capsys.readouterr().err
