"""The command line as a person uses it."""

from __future__ import annotations

import csv
import json

import imageio.v3 as iio
import numpy as np
import pytest
import tifffile
from skimage.data import astronaut

import napari_gsw as gsw
from napari_gsw.cli import main
from napari_gsw.core.settings import setting_fields

IMAGE = astronaut()[60:150, 150:270]


@pytest.fixture
def image(tmp_path):
    path = tmp_path / "photo.png"
    iio.imwrite(path, IMAGE)
    return path


def run(*arguments):
    return main([str(a) for a in arguments])


def test_segment_writes_labels_provenance_and_trace(image, tmp_path, capsys):
    out = tmp_path / "new" / "out"
    assert run("segment", image, "-o", out, "--sweeps", 30, "--seed", 3) == 0
    assert sorted(p.name for p in out.iterdir()) == ["labels.tif", "provenance.json", "trace.csv"]
    labels = tifffile.imread(out / "labels.tif")
    api = gsw.segment(IMAGE, sweeps=30, seed=3)
    assert labels.dtype == np.uint16
    assert np.array_equal(labels, api.labels)
    made = json.loads((out / "provenance.json").read_text())
    assert made["image"] == api.provenance["image"]
    assert (made["seed"], made["settings"]["sweeps"]) == (3, 30)
    with (out / "trace.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 30
    assert [float(r["log_posterior"]) for r in rows] == api.trace.log_posterior.tolist()
    printed = capsys.readouterr()
    told = f"{api.n_clusters} clusters, {api.n_regions} regions of {api.problem.n} sites after 30 sweeps"
    assert told in printed.out
    assert "30/30 sweeps" in printed.err
    assert "sweeps/s" in printed.err
    assert "clusters, best" in printed.err


def test_plots_sites_and_png(image, tmp_path):
    out = tmp_path / "out"
    assert run("segment", image, "-o", out, "--sweeps", 10, "--save-plot", "--save-sites", "--format", "png", "-q") == 0
    names = {"labels.png", "sites.tif", "overlay.png", "trace.png", "uncertainty.png", "provenance.json", "trace.csv"}
    assert {p.name for p in out.iterdir()} == names
    assert iio.imread(out / "labels.png").shape == IMAGE.shape[:2]
    assert iio.imread(out / "overlay.png").shape == IMAGE.shape
    assert iio.imread(out / "trace.png").shape[1] > 600
    assert tifffile.imread(out / "sites.tif").max() == json.loads((out / "provenance.json").read_text())["sites"]


def test_output_may_be_a_file(image, tmp_path):
    out = tmp_path / "out"
    for name in ("mine.png", "sites.tif", "overlay.png"):
        assert run("segment", image, "-o", out / name, "--sweeps", 5, "-q", "--save-plot", "--save-sites") == 0
        labels = (tifffile.imread if name.endswith("tif") else iio.imread)(out / name)
        assert (labels.dtype, labels.shape) == (np.uint16, IMAGE.shape[:2])
        assert labels.max() < 60  # clusters, not sites and not a picture
        stem = name.partition(".")[0]
        assert {p.name for p in out.glob(f"{stem}.*")} >= {f"{stem}.provenance.json", f"{stem}.trace.csv"}


def test_no_input_is_written_over(image, tmp_path, capsys):
    before = image.read_bytes()
    assert run("segment", image, "-o", image, "-q") == 2
    assert "would write over an input" in capsys.readouterr().err
    assert image.read_bytes() == before
    (tmp_path / "folder.tif").mkdir()
    assert run("segment", image, "-o", tmp_path / "folder.tif", "-q") == 2
    assert "is a folder" in capsys.readouterr().err
    assert run("segment", image, "-o", tmp_path / "out.jpg", "-q") == 2
    assert "written as .tif, .ome.tif, .png, .npy or .zarr" in capsys.readouterr().err
    assert run("segment", image, "-o", tmp_path / ("x" * 300), "-q") == 2
    assert run("segment", "y" * 300, "-o", tmp_path / "out", "-q") == 2


def test_no_input_is_cleared_away_or_written_over_under_another_name(tmp_path, capsys):
    """A volume that PNG cannot hold becomes a TIFF; left-overs of an earlier run go: neither may be an input."""
    volume = tmp_path / "v.tif"
    tifffile.imwrite(volume, np.random.default_rng(0).random((4, 20, 20)).astype(np.float32), metadata={"axes": "ZYX"})
    before = volume.read_bytes()
    assert run("segment", volume, "-o", tmp_path / "v.png", "-q", "--sweeps", 2) == 2
    assert "would write over an input" in capsys.readouterr().err
    assert volume.read_bytes() == before
    assert run("segment", volume, "-o", tmp_path / "out", "-q", "--sweeps", 2, "--save-sites") == 0
    sites = tmp_path / "out" / "sites.tif"
    assert run("segment", volume, "-o", tmp_path / "out", "-q", "--sweeps", 2, "--sites", sites) == 2
    assert sites.exists()


def test_quiet_prints_nothing(image, tmp_path, capsys):
    assert run("segment", image, "-o", tmp_path / "out", "--quiet", "--sweeps", 5) == 0
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("name", ["sample:mosaic", "sample:mosaic_3d"])
def test_samples_can_be_segmented(name, tmp_path):
    assert run("segment", name, "-o", tmp_path / "out", "--sweeps", 3, "-q", "--save-plot") == 0


def test_mask_sites_and_seeds_come_from_files(image, tmp_path):
    mask = np.zeros(IMAGE.shape[:2], np.uint8)
    mask[10:80, 10:100] = 255
    sites = np.kron(np.arange(1, 55).reshape(6, 9), np.ones((15, 14), int))[:90, :120].astype(np.uint16)
    seeds = np.zeros(IMAGE.shape[:2], np.uint8)
    seeds[30:40, 30:40] = 9
    for name, array in dict(mask=mask, sites=sites, seeds=seeds).items():
        tifffile.imwrite(tmp_path / f"{name}.tif", array)
    out = tmp_path / "out"
    given = [f"--{n}={tmp_path / n}.tif" for n in ("mask", "sites", "seeds")]
    assert run("segment", image, "-o", out, "--sweeps", 10, "-q", *given) == 0
    labels = tifffile.imread(out / "labels.tif")
    assert np.array_equal(labels > 0, mask > 0)
    assert labels[35, 35] == 9
    assert set(json.loads((out / "provenance.json").read_text())["given"]) == {"mask", "sites", "seeds"}


@pytest.mark.parametrize(
    ("shape", "axes", "space"),
    [((3, 40, 50), "CYX", (40, 50)), ((6, 40, 50), "ZYX", (6, 40, 50)), ((6, 2, 40, 50), "ZCYX", (6, 40, 50))],
)
def test_tiff_axes_are_read(shape, axes, space, tmp_path):
    array = np.random.default_rng(0).integers(0, 4000, shape).astype(np.uint16)
    tifffile.imwrite(tmp_path / "a.tif", array, imagej=True, metadata={"axes": axes})
    assert run("segment", tmp_path / "a.tif", "-o", tmp_path / "out", "--sweeps", 2, "-q") == 0
    assert tifffile.imread(tmp_path / "out" / "labels.tif").shape == space


def test_numpy_files_and_grey_with_alpha(tmp_path):
    np.save(tmp_path / "a.npy", IMAGE[..., 0].astype(np.float32))
    assert run("segment", tmp_path / "a.npy", "-o", tmp_path / "x", "--sweeps", 2, "-q") == 0
    iio.imwrite(tmp_path / "la.png", IMAGE[..., :2])
    assert run("segment", tmp_path / "la.png", "-o", tmp_path / "y", "--sweeps", 2, "-q") == 0


def corrupt(tmp_path, name):
    (tmp_path / name).write_bytes(b"II*\0nonsense" + bytes(50))
    return tmp_path / name


BAD = {
    "alpha": (["--alpha", "0"], "alpha must be a number > 0, not 0"),
    "alpha-set": (["--set", "alpha=-2"], "alpha must be a number > 0, not -2"),
    "theta": (["--prior", "pitman-yor", "--theta", "1"], "theta must be a number in [-1e+09, 1), not"),
    "theta-alpha": (["--prior", "pitman-yor", "--theta", "-0.5", "--alpha", "0.7"], "whole number L"),
    "K": (["--K", "0", "--prior", "potts"], "K must be a whole number >= 1"),
    "min-size": (["--min-size", "100000"], "min_size must be a whole number in [0, "),
    "unknown-setting": (["--set", "alfa=1"], "did you mean alpha?"),
    "no-value": (["--set", "alpha"], "--set takes NAME=VALUE"),
    "preset": (["--preset", "nice"], "preset must be one of general, photo, microscopy, membranes, paper"),
    "mask-missing": (["--mask", "nowhere.tif"], "'nowhere.tif' is not a file"),
    "codebook": (["--codebook", "nowhere.json"], "codebook 'nowhere.json' cannot be read"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_settings_are_one_line_and_exit_code_2(case, image, tmp_path, capsys):
    arguments, words = BAD[case]
    before = sorted(tmp_path.rglob("*"))
    assert run("segment", image, "-o", tmp_path / "out" / "deep", *arguments, "-q") == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert words in printed.err
    assert printed.err.count("\n") == 1
    assert sorted(tmp_path.rglob("*")) == before  # nothing half written


def test_bad_files_are_one_line_and_exit_code_2(image, tmp_path, capsys):
    shape = IMAGE.shape[:2]
    files = {
        "nan.npy": np.full((5, 5), np.nan),
        "empty.npy": np.zeros((0, 5)),
        "mask.npy": np.zeros(shape, np.uint8),
        "other.npy": np.ones((7, 7), int),
        "negative.npy": np.full(shape, -1),
        "float.npy": np.ones(shape),
        "time.npy": np.zeros((2, 3, 4, 5)),
    }
    for name, array in files.items():
        np.save(tmp_path / name, array)
    (tmp_path / "folder.png").mkdir()
    (tmp_path / "is-a-file").write_text("")
    np.save(tmp_path / "objects.npy", np.array([{}], dtype=object), allow_pickle=True)
    cases = [
        ([tmp_path / "nan.npy"], "NaN or infinite"),
        ([tmp_path / "empty.npy"], "empty"),
        ([tmp_path / "time.npy"], "axes must be given"),
        ([tmp_path / "missing.png"], "is not a file"),
        ([tmp_path / "folder.png"], "is not a file"),
        ([tmp_path / "objects.npy"], "cannot be read as an image"),
        ([corrupt(tmp_path, "bad.tif")], "cannot be read as an image"),
        ([corrupt(tmp_path, "bad.png")], "cannot be read as an image"),
        ([image, "--mask", tmp_path / "mask.npy"], "the mask has no pixel"),
        ([image, "--mask", tmp_path / "other.npy"], "the mask must have the image's shape"),
        ([image, "--sites", tmp_path / "other.npy"], "the label image must have the image's shape"),
        ([image, "--sites", tmp_path / "negative.npy"], "numbers >= 0, not -1"),
        ([image, "--sites", tmp_path / "float.npy"], "must hold whole numbers"),
        (["sample:lena"], "there is no sample 'lena'"),
    ]
    before = sorted(tmp_path.rglob("*"))
    for arguments, words in cases:
        assert run("segment", *arguments, "-o", tmp_path / "out", "-q") == 2, words
        printed = capsys.readouterr()
        assert words in printed.err
        assert printed.err.count("\n") == 1
        assert "Traceback" not in printed.err
    for target in (tmp_path / "is-a-file", tmp_path / "is-a-file" / "below", "/proc/nothing/here"):
        assert run("segment", image, "-o", target, "-q") == 2
        assert "cannot be written" in capsys.readouterr().err
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("earlier", [False, True])
def test_full_disk_leaves_nothing_or_the_earlier_result(earlier, image, tmp_path, monkeypatch, capsys):
    def full_disk(*_):
        raise OSError(28, "No space left on device")

    out = tmp_path / "out"
    if earlier:
        assert run("segment", image, "-o", out, "--sweeps", 2, "-q") == 0
    before = {p.name: p.read_bytes() for p in out.glob("*")}
    monkeypatch.setattr("napari_gsw.files.results.write_trace", full_disk)
    assert run("segment", image, "-o", out, "--sweeps", 3, "-q") == 2
    assert "No space left on device" in capsys.readouterr().err
    assert out.exists() == earlier
    assert {p.name: p.read_bytes() for p in out.glob("*")} == before


@pytest.mark.slow
def test_more_labels_than_uint16_holds_are_written_as_uint32(tmp_path, capsys):
    """260 x 260 singletons that stay singletons: 67,600 clusters."""
    sites = np.arange(1, 260 * 260 + 1, dtype=np.uint32).reshape(260, 260)
    tifffile.imwrite(tmp_path / "sites.tif", sites)
    np.save(tmp_path / "image.npy", sites.astype(np.float32))
    arguments = ["--sites", tmp_path / "sites.tif", "--start", "singletons", "--sweeps", 0, "--texture-words", 0]
    arguments += ["--view", "clusters"]
    assert run("segment", tmp_path / "image.npy", "-o", tmp_path / "out", "--save-sites", *arguments) == 0
    labels = tifffile.imread(tmp_path / "out" / "labels.tif")
    assert (labels.dtype, labels.max()) == (np.uint32, 67_600)
    assert tifffile.imread(tmp_path / "out" / "sites.tif").dtype == np.uint32
    assert "written as uint32" in capsys.readouterr().err
    assert run("segment", tmp_path / "image.npy", "-o", tmp_path / "two", "--format", "png", *arguments) == 0
    printed = capsys.readouterr().err
    assert "PNG cannot hold 32-bit labels: written as labels.tif" in printed
    assert "there is no uncertainty" in printed  # without a sweep


def test_help_explains_every_knob(capsys):
    with pytest.raises(SystemExit) as end:
        run("segment", "--help")
    assert end.value.code == 0
    text = " ".join(capsys.readouterr().out.split()).replace("- ", "-")
    for name, setting in setting_fields().items():
        assert f"--{name.replace('_', '-')} VALUE" in text
        assert setting.help.split()[0] in text
        assert " ".join(setting.help.replace("- ", "-").split()[:4]) in text


def test_wrong_usage_is_exit_code_2(capsys):
    for arguments in ([], ["segment"], ["segment", "a.png"], ["segment", "a", "-o", "b", "--seed", "x"], ["paint"]):
        with pytest.raises(SystemExit) as end:
            run(*arguments)
        assert end.value.code == 2
        assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize(
    ("option", "sentence"),
    [
        ("--preset=", "preset must be one of general, "),
        ("--method=", "method must be one of gsw, "),
        ("--set=axes=", "axes must be auto or Y, X "),
        ("--set=axes=ÄÖ", "axes must be auto or Y, X "),
        ("--checkpoint=", "'' is no name of a file for a session"),
        ("--checkpoint-every=nan", "--checkpoint-every must be a number >= 0, not nan"),
        ("--checkpoint-every=inf", "--checkpoint-every must be a number >= 0, not inf"),
        ("--checkpoint-every=-1", "--checkpoint-every must be a number >= 0, not -1.0"),
    ],
)
def test_empty_and_impossible_values_are_refused(image, tmp_path, capsys, option, sentence):
    assert run("segment", image, "-o", tmp_path / "out", "--sweeps", 2, "-q", option) == 2
    said = capsys.readouterr().err
    assert sentence in said
    assert said.count("\n") == 1
    assert not (tmp_path / "out").exists()
