"""Many images at once: each as it would be alone, none lost, none twice."""

from __future__ import annotations

import csv
import errno
import json
import multiprocessing
import os
import pickle
import signal
import socket
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

import imageio.v3 as iio
import numpy as np
import pytest
import tifffile
import zarr
from skimage.data import astronaut

import napari_gsw as gsw
from napari_gsw.batch import images
from napari_gsw.batch.images import BatchSpec, Selection, output_stems, result_files, select_images
from napari_gsw.batch.jobs import BatchOptions
from napari_gsw.batch.run import COLUMNS, run_batch, run_batch_spec
from napari_gsw.cli import main
from napari_gsw.files.images import read_labels
from napari_gsw.files.output_folder import JOURNALS
from napari_gsw.files.results import OutputOptions
from napari_gsw.methods import choose

PICTURE = astronaut()
FAST = dict(sweeps=10, site_size=60)
SLOW = dict(sweeps=10_000, site_size=20)  # long enough to be killed in the middle


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Three small images of three kinds, and a file that is none."""
    made = tmp_path_factory.mktemp("images")
    iio.imwrite(made / "b.png", PICTURE[100:140, 180:230])
    np.save(made / "a.npy", PICTURE[:40, :40, 0].astype(np.float32))
    tifffile.imwrite(made / "c.tif", PICTURE[200:240, 200:240], photometric="rgb")
    (made / "notes.txt").write_text("no image")
    return made


@pytest.fixture(scope="module")
def alone(folder, tmp_path_factory):
    """Files that `napari-gsw segment` writes for each, by name."""

    def make(*options):
        key = " ".join(options)
        if key not in made:
            made[key] = {}
            for file in ("a.npy", "b.png", "c.tif"):
                out = tmp_path_factory.mktemp("alone")
                assert main(["segment", str(folder / file), "-o", str(out / f"{file[0]}.tif"), "-q", *options]) == 0
                made[key] |= {p.name: p.read_bytes() for p in out.iterdir()}
        return made[key]

    made: dict[str, dict[str, bytes]] = {}
    return make


@pytest.fixture
def some(folder, tmp_path):
    """A copy of the images, to be changed."""
    made = tmp_path / "images"
    made.mkdir()
    for file in folder.iterdir():
        (made / file.name).write_bytes(file.read_bytes())
    return made


def options(settings):
    return [part for name, value in settings.items() for part in (f"--{name.replace('_', '-')}", str(value))]


def batch(*arguments, settings=FAST):
    return main(["batch", *(str(a) for a in arguments), *options(settings)])


def written(out):
    """All results by name, without those that tell of the run."""
    files = {p.relative_to(out).as_posix(): p for p in sorted(out.rglob("*")) if p.is_file()}
    return {n: p.read_bytes() for n, p in files.items() if not n.startswith((JOURNALS, "batch."))}


def table(out):
    with (out / "batch.csv").open(newline="") as file:
        return {row["name"]: row for row in csv.DictReader(file)}


def count_segmented(monkeypatch):
    """The names of the images that are segmented from now on, in this process."""
    done = []
    real = images.segment

    def noted(image, *arguments, **more):
        done.append(image.shape)
        return real(image, *arguments, **more)

    monkeypatch.setattr(images, "segment", noted)
    return done


def test_a_batch_writes_what_segment_writes_of_each(folder, alone, tmp_path, capsys):
    out = tmp_path / "new" / "out"
    assert batch(folder, "-o", out, "--seed", 4, "--jobs", 1) == 0
    printed = capsys.readouterr()
    assert "3 of 3 images segmented, 0 failed" in printed.out
    assert "3 done, 0 failed" in printed.err
    assert written(out) == alone("--seed", "4", *options(FAST))
    rows = table(out)
    assert tuple(rows["b.png"]) == COLUMNS
    found = gsw.segment(PICTURE[100:140, 180:230], seed=4, **FAST)
    row = rows["b.png"]
    assert (row["status"], row["attempts"], row["labels"], row["reason"]) == ("done", "1", "b.tif", "")
    figures = (found.n_regions, found.n_clusters, found.problem.n, found.snapshot.best.log_posterior)
    assert tuple(float(row[c]) for c in ("regions", "clusters", "sites", "best_log_posterior")) == figures
    told = json.loads((out / "batch.json").read_text())
    assert (told["images"], told["done"], told["failed"], told["left"], told["seed"]) == (3, 3, 0, 0, 4)
    assert told["settings"]["sweeps"] == FAST["sweeps"]
    assert told["versions"]["napari-gsw"] == gsw.__version__
    assert not list(out.glob(".unfinished-*"))


def test_the_python_interface_returns_the_rows(folder, alone, tmp_path):
    rows = run_batch(folder, tmp_path / "out", seed=4, selection=Selection(pattern="[ab].*", limit=1), **FAST)
    assert [(row["name"], row["status"]) for row in rows] == [("a.npy", "done")]
    assert tuple(rows[0]) == COLUMNS
    assert (tmp_path / "out" / "a.tif").read_bytes() == alone("--seed", "4", *options(FAST))["a.tif"]
    with pytest.raises(gsw.InputError, match="did you mean sweeps"):
        run_batch(folder, tmp_path / "other", sweps=3)
    assert not (tmp_path / "other").exists()


@pytest.mark.slow
def test_formats_extras_and_other_methods(folder, tmp_path):
    every = OutputOptions(sites=True, plot=True, uncertainty=True)
    made = {kind: tmp_path / kind for kind in ("tif", "png", "zarr")}
    for kind, out in made.items():
        extras = every if kind == "tif" else OutputOptions()
        run_batch(folder, out, format=kind, extras=extras, selection=Selection(pattern="b*"), **FAST)
    names = {"sites.tif", "overlay.png", "trace.png", "uncertainty.png", "entropy.tif", "posterior.json"}
    assert {f"b.{name}" for name in names} <= {p.name for p in made["tif"].iterdir()}
    for kind in ("png", "zarr"):
        assert np.array_equal(read_labels(made[kind] / f"b.{kind}"), read_labels(made["tif"] / "b.tif"))
    (row,) = run_batch(folder, tmp_path / "f", method="felzenszwalb", selection=Selection(pattern="b*"))
    assert (row["status"], row["clusters"], row["sites"]) == ("done", None, None)
    assert row["regions"] == len(np.unique(read_labels(tmp_path / "f" / "b.tif")))


def test_an_image_that_is_read_in_blocks_is_as_segment_makes_it(tmp_path):
    (tmp_path / "images").mkdir()
    array = zarr.open_array(
        str(tmp_path / "images" / "v.zarr"), mode="w", shape=(220, 200), chunks=(50, 50), dtype="u1"
    )
    array[...] = PICTURE[:220, :200, 0]
    blocks = FAST | {"block_pixels": 4096, "superpixels": "grid"}
    (row,) = run_batch(tmp_path / "images", tmp_path / "out", **blocks)
    assert (row["labels"], row["remarks"]) == ("v.zarr", "read in blocks: written as v.zarr")
    one = tmp_path / "alone"
    assert main(["segment", str(tmp_path / "images" / "v.zarr"), "-o", str(one), "-q", *options(blocks)]) == 0
    assert np.array_equal(read_labels(tmp_path / "out" / "v.zarr"), read_labels(one / "labels.zarr"))
    assert run_batch(tmp_path / "images", tmp_path / "out", resume=True, **blocks) == [row]


# Chains in different places


@pytest.mark.parametrize(
    "more",
    [
        {"replicas": 3},
        *(pytest.param(more, marks=pytest.mark.slow) for more in ({}, {"hot": 4.0, "splits": 2})),
        pytest.param({"consensus": "vi", "start": "random"}, marks=pytest.mark.slow),
    ],
)
def test_chains_that_run_apart_find_what_they_find_together(folder, tmp_path, more):
    """The three steps with everything pickled between them, as a cluster does, beside the whole image at once."""
    order = BatchSpec(folder, choose(changes={"chains": 3, **FAST, **more}), 7)
    apart = tmp_path / "apart"
    (image,) = select_images(folder, apart, Selection(pattern="b.png"))
    apart.mkdir()
    task = order.make_task(image, apart)
    assert task.has_separable_chains()

    def sent(thing):
        return pickle.loads(pickle.dumps(thing))

    prepared = sent(images.prepare_image(sent(task)))
    runs = [sent(images.run_chain(task, sent(prepared), number)) for number in (2, 0, 1)]
    row = images.conclude_image(task, prepared, runs[1], runs[2], runs[0])
    (whole,) = run_batch(
        folder, tmp_path / "whole", seed=7, selection=Selection(pattern="b.png"), chains=3, **FAST, **more
    )
    assert written(apart) == written(tmp_path / "whole")
    assert {n: row[n] for n in ("regions", "clusters", "sites", "best_log_posterior")} == {
        n: whole[n] for n in ("regions", "clusters", "sites", "best_log_posterior")
    }


def test_chains_that_look_at_one_another_stay_together(folder, tmp_path):
    (image,) = select_images(folder, tmp_path, Selection(pattern="b.png"))
    for choice in (
        choose(changes={"chains": 3, "stop": "agreement"}),
        choose(),
        choose("rdd-crp", changes={"chains": 3}),
    ):
        assert not BatchSpec(folder, choice).make_task(image, tmp_path).has_separable_chains()


# Which images, and what their labels are called


def test_names_never_meet():
    names = ["Scan.png", "a.sites.tif", "a.tif", "b.jpg", "b.ome.tif", "labels.png", "scan.tif", "x/a.tif", "x_png.tif"]
    stems = output_stems([*names, "x.jpg", "x.png", "z.v2.png"])
    assert stems[names.index("a.tif")] in ("a", "a_tif")
    assert stems[-1] == "z.v2"
    assert stems[names.index("labels.png")] == "labels_png"
    files = [file.casefold() for stem in stems for file in result_files(stem)]
    assert len(set(files)) == len(files)


def test_images_are_found_and_nothing_else(some, tmp_path):
    (some / "sub" / "deep").mkdir(parents=True)
    iio.imwrite(some / "sub" / "b.png", PICTURE[:30, :30])
    iio.imwrite(some / "sub" / "deep" / "d.PNG", PICTURE[:30, :30], extension=".png")
    iio.imwrite(some / ".hidden.png", PICTURE[:30, :30])
    array = zarr.open_array(str(some / "v.zarr"), mode="w", shape=(30, 30), dtype="u1")
    array[...] = PICTURE[:30, :30, 0]
    out = some / "sub" / "out"
    out.mkdir()
    iio.imwrite(out / "earlier.png", PICTURE[:30, :30])
    flat = [image.name for image in select_images(some, out, Selection())]
    assert flat == ["a.npy", "b.png", "c.tif", "v.zarr"]
    deep = select_images(some, out, Selection(recursive=True))
    assert [image.name for image in deep] == ["a.npy", "b.png", "c.tif", "sub/b.png", "sub/deep/d.PNG", "v.zarr"]
    assert [image.stem for image in deep] == ["a", "b", "c", "sub/b", "sub/deep/d", "v"]
    assert [i.name for i in select_images(some, out, Selection(True, "sub/*", 1))] == ["sub/b.png"]
    rows = run_batch(some, out, selection=Selection(True, "*[bdv].*"), **FAST)
    assert [row["status"] for row in rows] == ["done"] * 4
    assert {"b.tif", "sub/b.tif", "sub/deep/d.tif", "v.tif"} <= set(written(out))


def test_no_image_is_written_over(some, capsys):
    before = written(some)
    assert batch(some, "-o", some) == 2
    assert "must be another" in capsys.readouterr().err
    (some / "images").mkdir()
    (some / "images" / "c.png").write_bytes((some / "b.png").read_bytes())
    # Labels of images/c.png would go to c.tif of the folder above, which is an image itself.
    assert batch(some / "images", "-o", some, "--jobs", 1, "-q") == 2
    (some / "images" / "c.png").unlink()
    assert written(some) == before


# Wrong input


def test_what_cannot_begin_is_one_line_and_exit_code_2(folder, tmp_path, capsys):
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").touch()
    cases = [
        ([tmp_path / "nowhere", "-o", tmp_path / "out"], "is not a folder"),
        ([tmp_path / "file", "-o", tmp_path / "out"], "is not a folder"),
        ([tmp_path / "empty", "-o", tmp_path / "out"], "--recursive looks into its sub-folders"),
        ([folder, "-o", tmp_path / "out", "--pattern", "x*"], "no image like 'x*'"),
        ([folder, "-o", tmp_path / "file"], "cannot be written"),
        ([folder, "-o", tmp_path / "file" / "below"], "cannot be written"),
        ([folder, "-o", tmp_path / "out", "--set", "alpha=-1"], "alpha must be a number > 0"),
        ([folder, "-o", tmp_path / "out", "--preset", "nice"], "preset must be one of"),
        ([folder, "-o", tmp_path / "out", "--scheduler", "somewhere"], "tcp://HOST:8786"),
    ]
    before = sorted(tmp_path.rglob("*"))
    for arguments, words in cases:
        assert batch(*arguments, "--jobs", 1) == 2, words
        printed = capsys.readouterr()
        assert words in printed.err
        assert printed.err.count("\n") == 1
    for arguments in ([], [folder], [folder, "-o", "x", "--resume", "--overwrite"], [folder, "-o", "x", "--jobs", 0]):
        with pytest.raises(SystemExit) as end:
            batch(*arguments)
        assert end.value.code == 2
    assert sorted(tmp_path.rglob("*")) == before


# Some images fail


def test_unreadable_files_are_named_once_and_the_rest_is_finished(some, alone, tmp_path, capsys):
    (some / "bad.png").write_bytes(b"no picture at all")
    (some / "bad.tif").write_bytes(b"II*\0nonsense" + bytes(50))
    np.save(some / "nan.npy", np.full((9, 9), np.nan))
    out = tmp_path / "out"
    assert batch(some, "-o", out, "--jobs", 1, "--seed", 4, "-q") == 3
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 3
    assert all("skipped" in line for line in lines)
    assert "bad.png" in lines[0]
    assert "cannot be read as an image" in lines[0]
    assert written(out) == alone("--seed", "4", *options(FAST))
    rows = table(out)
    assert {n: (r["status"], r["attempts"]) for n, r in rows.items() if r["status"] != "done"} == dict.fromkeys(
        ("bad.png", "bad.tif", "nan.npy"), ("failed", "1")
    )
    assert "NaN or infinite" in rows["nan.npy"]["reason"]
    assert set(json.loads((out / "batch.json").read_text())["failures"]) == {"bad.png", "bad.tif", "nan.npy"}
    (some / "bad.png").write_bytes((some / "b.png").read_bytes())
    assert batch(some, "-o", out, "--jobs", 1, "--seed", 4, "-q", "--resume", "--pattern", "*.png") == 0


def failing(monkeypatch, number, times, name="b"):
    """The writer of traces complains as the system does, of one image and so often."""
    from napari_gsw.files import results as result_files

    real, left = result_files.write_trace, [times]

    def write(traces, path):
        if path.name.startswith(name) and left[0]:
            left[0] -= 1
            raise OSError(number, os.strerror(number))
        real(traces, path)

    monkeypatch.setattr(result_files, "write_trace", write)


def test_a_full_disk_is_told_of_and_the_rest_goes_on(folder, tmp_path, monkeypatch, capsys):
    out = tmp_path / "out"
    failing(monkeypatch, errno.ENOSPC, 1)
    assert batch(folder, "-o", out, "--jobs", 1, "-q") == 3
    printed = capsys.readouterr().err
    assert "b.png skipped" in printed
    assert "No space left on device" in printed
    assert printed.count("\n") == 1
    assert {n for n in written(out) if n.endswith(".tif")} == {"a.tif", "c.tif"}
    assert not [n for n in written(out) if n.startswith("b.")]
    assert table(out)["b.png"]["attempts"] == "1"  # no use in trying again at once
    assert batch(folder, "-o", out, "--jobs", 1, "-q", "--resume") == 0


@pytest.mark.parametrize(("times", "retries", "attempts", "code"), [(1, 1, 2, 0), (1, 0, 1, 3), (9, 2, 3, 3)])
def test_what_may_pass_is_tried_again(folder, tmp_path, monkeypatch, times, retries, attempts, code):
    failing(monkeypatch, errno.EIO, times)
    assert batch(folder, "-o", tmp_path / "out", "--jobs", 1, "-q", "--retries", retries) == code
    assert table(tmp_path / "out")["b.png"]["attempts"] == str(attempts)
    assert table(tmp_path / "out")["a.npy"]["attempts"] == "1"


def test_a_journal_or_a_report_that_cannot_be_written_is_one_line(folder, tmp_path, monkeypatch, capsys):
    real = Path.open
    for ending in (".jsonl", "batch.csv"):

        def full(self, mode="r", *more, ending=ending, **named):
            if self.name.endswith(ending) and mode != "r":
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return real(self, mode, *more, **named)

        monkeypatch.setattr(Path, "open", full)
        assert batch(folder, "-o", tmp_path / ending, "--jobs", 1, "-q") == 2
        printed = capsys.readouterr().err
        assert "cannot be written: No space left on device" in printed
        assert printed.count("\n") == 1


def test_a_defect_in_one_image_is_named(folder, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(images, "segment", lambda *_, **__: 1 / 0)
    assert batch(folder, "-o", tmp_path / "out", "--jobs", 1, "-q") == 3
    assert capsys.readouterr().err.count("a defect of the program: ZeroDivisionError") == 3


# Going on where one was


def test_results_of_an_earlier_run_are_not_mixed_with_new_ones(folder, tmp_path, capsys, monkeypatch):
    out = tmp_path / "out"
    assert batch(folder, "-o", out, "--jobs", 1, "-q") == 0
    assert capsys.readouterr() == ("", "")
    before = written(out)
    assert batch(folder, "-o", out, "--jobs", 1, "-q", "--seed", 1) == 2
    printed = capsys.readouterr().err
    assert "--resume" in printed
    assert "--overwrite" in printed
    assert printed.count("\n") == 1
    assert written(out) == before
    done = count_segmented(monkeypatch)
    assert batch(folder, "-o", out, "--jobs", 1, "-q", "--overwrite") == 0
    assert len(done) == 3
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "b.tif").touch()  # labels of somebody's own
    assert batch(folder, "-o", tmp_path / "mine", "--jobs", 1, "-q") == 2


def test_resume_makes_what_is_missing_or_changed_and_nothing_else(some, tmp_path, monkeypatch):
    out = tmp_path / "out"
    done = count_segmented(monkeypatch)

    def made(*more):
        done.clear()
        assert batch(some, "-o", out, "--jobs", 1, "-q", "--resume", *more) == 0
        assert {row["status"] for row in table(out).values()} == {"done"}
        return len(done)

    assert made("--limit", 1) == 1
    assert made() == 2
    assert made() == 0
    first = written(out)
    (out / "b.trace.csv").unlink()
    assert made() == 1
    iio.imwrite(some / "b.png", PICTURE[101:141, 180:230])
    assert made() == 1
    assert made("--seed", 1) == 3
    assert made("--seed", 1) == 0
    assert made() == 3  # their files are those of the other seed now, whatever the journal says
    assert written(out)["a.tif"] == first["a.tif"]
    assert made("--save-sites") == 3
    iio.imwrite(some / "e.png", PICTURE[:30, :30])
    assert made() == 1


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_keeps_what_is_finished_and_resume_goes_on(number, code, folder, alone, tmp_path, monkeypatch, capsys):
    """It comes while the second image is being sampled, in compiled code."""
    real = images.segment
    begun = []

    def interrupted(image, choice, seed, report):
        begun.append(image.shape)

        def stages(stage, snapshot):
            if stage.name == "sampling" and len(begun) == 2:
                os.kill(os.getpid(), number)
            return report(stage, snapshot)

        return real(image, choice, seed, report=stages)

    out = tmp_path / "out"
    before = [signal.getsignal(one) for one in (signal.SIGINT, signal.SIGTERM)]
    monkeypatch.setattr(images, "segment", interrupted)
    assert batch(folder, "-o", out, "--jobs", 1, "-q", "--seed", 4) == code
    assert [signal.getsignal(one) for one in (signal.SIGINT, signal.SIGTERM)] == before
    assert "--resume goes on" in capsys.readouterr().err
    assert {n for n in written(out) if n.endswith(".tif")} == {"a.tif"}
    assert [row["status"] for row in table(out).values()] == ["done", "left", "left"]
    assert not list(out.glob(".unfinished-*"))
    assert batch(folder, "-o", out, "--jobs", 1, "-q", "--seed", 4, "--resume") == 0
    assert len(begun) == 4
    assert written(out) == alone("--seed", "4", *options(FAST))


# Processes and clusters


def with_a_death(order, options, victims):
    """Run a batch in a thread, and kill processes while it works: after the first result, before the last."""
    rows = []
    thread = threading.Thread(target=lambda: rows.extend(run_batch_spec(order, options)))
    thread.start()
    deadline = time.monotonic() + 120
    while not list(options.folder.glob("*.tif")) and time.monotonic() < deadline:
        time.sleep(0.02)
    pids = victims()
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    assert pids
    thread.join(240)
    assert not thread.is_alive()
    return rows


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
@pytest.mark.slow
def test_processes_that_are_killed_lose_nothing(folder, alone, tmp_path):
    order, out = BatchSpec(folder, choose(changes=SLOW), 4), tmp_path / "out"
    others = {child.pid for child in multiprocessing.active_children()}
    rows = with_a_death(
        order,
        BatchOptions(out, jobs=2, quiet=True),
        lambda: [child.pid for child in multiprocessing.active_children() if child.pid not in others],
    )
    assert [row["status"] for row in rows] == ["done"] * 3
    assert written(out) == alone("--seed", "4", *options(SLOW))
    assert not list(out.glob(".unfinished-*"))


@pytest.fixture(scope="module")
def cluster():
    """The address of a cluster of two processes of one thread each, as --scheduler local starts it."""
    pytest.importorskip("distributed")
    from napari_gsw.batch.dask_cluster import _start_local_cluster

    with socket.socket() as other:
        with suppress(OSError):  # where Dask's dashboard would be, unless somebody has it already
            other.bind(("", 8787))
            other.listen()
        with _start_local_cluster(2, dashboard=False) as address:
            yield address


def on(cluster, out, **more):
    return BatchOptions(out, scheduler=cluster, quiet=True, **more)


def test_a_cluster_makes_the_same_labels(cluster, some, alone, tmp_path, capsys):
    (some / "bad.png").write_bytes(b"no picture at all")
    out = tmp_path / "out"
    rows = run_batch_spec(BatchSpec(some, choose(changes=FAST), 4), on(cluster, out, dashboard=True))
    assert written(out) == alone("--seed", "4", *options(FAST))
    assert {r["name"]: (r["status"], r["attempts"]) for r in rows} == {
        **dict.fromkeys(("a.npy", "b.png", "c.tif"), ("done", 1)),
        "bad.png": ("failed", 1),
    }
    printed = capsys.readouterr().err
    assert "there is no dashboard" in printed
    assert "bad.png skipped" in printed
    assert run_batch_spec(BatchSpec(some, choose(changes=FAST), 4), on(cluster, out, resume=True)) == rows


@pytest.mark.parametrize("more", [{}, {"stop": "agreement"}])
def test_a_cluster_shares_out_the_chains_of_an_image(cluster, folder, alone, tmp_path, more, monkeypatch):
    from napari_gsw.batch import dask_cluster as module

    steps = []
    real = module._submit
    monkeypatch.setattr(module, "_submit", lambda client, title, *v: (steps.append(title), real(client, title, *v))[1])
    settings = FAST | {"chains": 3} | more
    order = BatchSpec(folder, choose(changes=settings), 4, Selection(pattern="b*"))
    run_batch_spec(order, on(cluster, tmp_path / "out"))
    assert steps == (["segment"] if more else ["prepare", "sample", "sample", "sample", "conclude"])
    whole = alone("--seed", "4", *options(settings))
    assert written(tmp_path / "out") == {name: content for name, content in whole.items() if name.startswith("b.")}


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_a_worker_that_is_killed_loses_nothing(cluster, folder, alone, tmp_path):
    from distributed import Client

    order, out = BatchSpec(folder, choose(changes=SLOW), 4), tmp_path / "out"
    with Client(cluster, set_as_default=False) as client:
        pids = client.run(os.getpid)
        rows = with_a_death(
            order,
            on(cluster, out),
            lambda: [pids[worker] for worker, tasks in client.processing().items() if tasks][:1],
        )
        assert [row["status"] for row in rows] == ["done"] * 3
        assert client.run(os.getpid) != pids
    assert written(out) == alone("--seed", "4", *options(SLOW))
    assert not list(out.glob(".unfinished-*"))


def test_a_worker_of_another_version_is_named(cluster, folder, tmp_path, monkeypatch):
    monkeypatch.setattr("napari_gsw.batch.dask_cluster.package_version", lambda: "0.0.1")
    with pytest.raises(gsw.InputError, match=r"has another napari-gsw .*, not 0.0.1.*pip install"):
        run_batch_spec(BatchSpec(folder, choose(changes=FAST)), on(cluster, tmp_path / "out"))
    assert not (tmp_path / "out").exists()
    monkeypatch.undo()
    monkeypatch.setattr("napari_gsw.batch.images.package_version", lambda: "0.0.1")  # of a worker that joins later
    rows = run_batch_spec(BatchSpec(folder, choose(changes=FAST)), on(cluster, tmp_path / "out"))
    assert all("install the same everywhere" in row["reason"] for row in rows)


def test_a_scheduler_that_does_not_answer_is_one_line(folder, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("napari_gsw.batch.dask_cluster.TIMEOUT", 0.3)
    with socket.socket() as mute:  # something that listens but is no scheduler
        mute.bind(("127.0.0.1", 0))
        mute.listen()
        for address in ("tcp://127.0.0.1:9", f"tcp://127.0.0.1:{mute.getsockname()[1]}"):
            assert batch(folder, "-o", tmp_path / "out", "--scheduler", address) == 2
            printed = capsys.readouterr().err
            assert f"no Dask scheduler answers at {address!r}" in printed
            assert printed.count("\n") == 1
    (tmp_path / "file.json").write_text("{}")
    assert batch(folder, "-o", tmp_path / "out", "--scheduler", tmp_path / "file.json") == 2
    assert "no scheduler file" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_without_dask_a_line_says_what_to_install(folder, tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "distributed", None)
    assert batch(folder, "-o", tmp_path / "out", "--scheduler", "local") == 2
    assert 'pip install "napari-gsw[batch]"' in capsys.readouterr().err
    assert batch(folder, "-o", tmp_path / "out", "--dashboard", "--jobs", 1, "-q") == 0
    assert "no dashboard without a cluster" in capsys.readouterr().err
