"""Several runs in one folder, and signals: nothing of another run is lost, and nothing of somebody else's."""

from __future__ import annotations

import csv
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import imageio.v3 as iio
import pytest
from skimage.data import astronaut

import napari_gsw as gsw
from napari_gsw.batch import images, run
from napari_gsw.batch.images import Selection
from napari_gsw.batch.jobs import WORKER_DIED, Failure
from napari_gsw.batch.run import run_batch
from napari_gsw.cli import main
from napari_gsw.files.output_folder import SCRATCH
from napari_gsw.files.results import OutputOptions

PICTURE = astronaut()
FAST = dict(sweeps=5, site_size=60)
SLOW = dict(sweeps=20_000, site_size=20)


@pytest.fixture
def folder(tmp_path):
    made = tmp_path / "images"
    made.mkdir()
    for k, name in enumerate(("a1", "a2", "b1", "b2")):
        iio.imwrite(made / f"{name}.png", PICTURE[100:130, 180 + k : 210 + k])
    return made


@pytest.fixture
def no_sampling(monkeypatch):
    def sampled(*_, **__):
        raise AssertionError("it was sampled")

    monkeypatch.setattr(images, "segment", sampled)


def table(out):
    with (out / "batch.csv").open(newline="", encoding="utf-8") as file:
        return {row["name"]: row["status"] for row in csv.DictReader(file)}


def part(pattern):
    return Selection(pattern=pattern)


def test_files_of_others_stay(folder, tmp_path, no_sampling):
    out = tmp_path / "out"
    out.mkdir()
    (out / "a1.people.tif").write_text("mine")
    with pytest.raises(gsw.InputError, match=r"a1.people.tif': the file exists"):
        run_batch(folder, out, extras=OutputOptions(uncertainty=True), **FAST)
    (out / "batch.csv").write_text("mine")
    with pytest.raises(gsw.InputError, match=r"batch.csv"):
        run_batch(folder, out, resume=True, **FAST)
    assert {p.name: p.read_text() for p in out.iterdir() if p.is_file()} == {
        "a1.people.tif": "mine", "batch.csv": "mine",
    }  # fmt: skip


def test_files_of_others_are_neither_cleared_away_nor_in_the_way_of_what_is_not_written(folder, tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    for name in ("a1.people.tif", "a1.overlay.png"):
        (out / name).write_text("mine")
    run_batch(folder, out, selection=part("a1*"), **FAST)
    assert (out / "a1.people.tif").read_text() == "mine"
    run_batch(folder, out, selection=part("a1*"), extras=OutputOptions(plot=True), overwrite=True, **FAST)
    assert (out / "a1.people.tif").read_text() == "mine"
    assert iio.imread(out / "a1.overlay.png").ndim == 3


def test_parts_of_a_batch_share_a_folder_and_a_report(folder, tmp_path):
    (folder / "b3.png").write_bytes(b"no picture at all")
    out = tmp_path / "out"
    run_batch(folder, out, selection=part("a*"), **FAST)
    rows = run_batch(folder, out, selection=part("b*"), **FAST)
    assert [row["name"] for row in rows] == ["b1.png", "b2.png", "b3.png"]
    expected = dict.fromkeys(("a1.png", "a2.png", "b1.png", "b2.png"), "done") | {"b3.png": "failed"}
    assert table(out) == expected
    told = json.loads((out / "batch.json").read_text())
    assert (told["images"], told["done"], told["failed"]) == (5, 4, 1)
    with pytest.raises(gsw.InputError, match="holds results already"):  # the same images
        run_batch(folder, out, selection=part("a*"), **FAST)
    with pytest.raises(gsw.InputError, match="holds results already"):  # other settings
        run_batch(folder, out, selection=part("b3*"), seed=5, **FAST)
    run_batch(folder, out, selection=part("a2*"), overwrite=True, **FAST)
    assert table(out) == expected
    (folder / "a1.png").unlink()
    (out / "b1.tif").unlink()
    run_batch(folder, out, selection=part("a2*"), resume=True, **FAST)
    assert table(out) == {"a2.png": "done", "b2.png": "done", "b3.png": "failed"}


def test_no_row_is_lost_when_another_run_reports_in_between(folder, tmp_path, monkeypatch):
    """The other run begins when this one has read what there is, and is done before this one writes it."""
    out, real, others = tmp_path / "out", run._write_files, ["b*"]

    def interrupted(*arguments):
        if others:
            run_batch(folder, out, selection=part(others.pop()), **FAST)
        real(*arguments)

    monkeypatch.setattr(run, "_write_files", interrupted)
    run_batch(folder, out, selection=part("a*"), **FAST)
    assert table(out) == dict.fromkeys(("a1.png", "a2.png", "b1.png", "b2.png"), "done")


def test_scratch_of_a_living_run_stays(folder, tmp_path):
    from napari_gsw.files.output_folder import _machine, scratch_folder

    out = tmp_path / "out"
    out.mkdir()
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()
    left = out / f"{SCRATCH}{_machine()}-{process.pid}-dead"
    with scratch_folder(out) as living:
        left.mkdir()
        run_batch(folder, out, selection=part("a1*"), **FAST)
        assert living.exists()
        assert not left.exists()


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not have such names")
def test_a_name_that_is_not_utf_8(tmp_path, capsys):
    folder = tmp_path / "images"
    folder.mkdir()
    for name in (b"caf\xe9.png", b"bad\xe9.png"):
        (folder / os.fsdecode(name)).write_bytes(b"none")
    iio.imwrite(folder / "a.png", PICTURE[:30, :30])
    (folder / "a.png").rename(folder / os.fsdecode(b"caf\xe9.png"))
    words = ["--sweeps", "5", "--site-size", "60", "--jobs", "1"]
    assert main(["batch", str(folder), "-o", str(tmp_path / os.fsdecode(b"o\xe9")), *words]) == 3
    out = tmp_path / os.fsdecode(b"o\xe9")
    assert table(out) == {"caf\\xe9.png": "done", "bad\\xe9.png": "failed"}
    assert list(json.loads((out / "batch.json").read_text(encoding="utf-8"))["failures"]) == ["bad\\xe9.png"]
    assert "bad\\xe9.png skipped" in capsys.readouterr().err
    assert (out / os.fsdecode(b"caf\xe9.tif")).exists()


# Signals


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_the_request_to_end_goes_to_all_and_loses_nothing(folder, tmp_path):
    """As SLURM sends it: to this process and to its workers."""
    out = tmp_path / "out"
    others = {child.pid for child in multiprocessing.active_children()}

    def end():
        deadline = time.monotonic() + 60
        while not any('"row"' in p.read_text() for p in out.glob(".progress/*.jsonl")) and time.monotonic() < deadline:
            time.sleep(0.02)
        workers.extend(c.pid for c in multiprocessing.active_children() if c.pid not in others)
        for pid in (*workers, os.getpid()):
            os.kill(pid, signal.SIGTERM)

    workers: list[int] = []
    thread = threading.Thread(target=end)
    thread.start()
    words = [part for name, value in SLOW.items() for part in (f"--{name.replace('_', '-')}", str(value))]
    code = main(["batch", str(folder), "-o", str(out), *words, "--jobs", "2", "-q"])
    thread.join()
    assert code == 143
    assert workers
    assert {child.pid for child in multiprocessing.active_children()} <= others
    statuses = list(table(out).values())
    assert set(statuses) == {"done", "left"}
    assert not list(out.glob(f"{SCRATCH}*"))


# A cluster


def test_a_row_that_its_worker_took_with_it_is_waited_for(tmp_path):
    """Dask makes it again; it is not the scheduler that is gone."""
    from napari_gsw.batch.dask_cluster import _run_on_cluster

    class Future:
        def __init__(self, *statuses):
            self.statuses = list(statuses)

        @property
        def status(self):
            return self.statuses[0]

        def result(self):
            return {"regions": 3}

    future = Future("lost", "finished")

    class Completed(list):
        def add(self, one):
            self.append(one)

        def __iter__(self):
            while self:
                one = self.pop(0)
                yield one
                one.statuses = one.statuses[1:] or one.statuses

    client = SimpleNamespace(
        status="running", loop=None, nthreads=lambda: {"w": 1}, submit=lambda *_, **__: future, cancel=lambda _: None
    )
    client.scheduler = SimpleNamespace(address="tcp://here")
    package = SimpleNamespace(as_completed=lambda loop: Completed())
    assert list(_run_on_cluster(client, package, lambda task: {}, {"a": None})) == [("a", {"regions": 3})]
    client.status, future.statuses = "connecting", ["lost"]
    with pytest.raises(gsw.InputError, match="scheduler at tcp://here is gone"):
        list(_run_on_cluster(client, package, lambda task: {}, {"a": None}))


@pytest.mark.parametrize("dashboard", [False, True])
def test_a_cluster_of_our_own_is_for_this_machine_alone(dashboard, monkeypatch):
    distributed = pytest.importorskip("distributed")
    from napari_gsw.batch import dask_cluster

    @contextmanager
    def started(**arguments):
        given.update(arguments)
        yield SimpleNamespace(scheduler_address="tcp://127.0.0.1:1")

    given = {}
    monkeypatch.setattr(distributed, "LocalCluster", started)
    with dask_cluster._start_local_cluster(2, dashboard):
        assert (given["host"], given["dashboard_address"]) == ("127.0.0.1", "127.0.0.1:0")


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="looks at Linux's list of sockets")
def test_an_image_that_kills_its_worker_is_named_and_the_rest_is_finished(tmp_path):
    """The cluster of --scheduler local; and its dashboard is for this machine alone."""
    pytest.importorskip("distributed")
    import dask
    import distributed

    from napari_gsw.batch import dask_cluster

    def work(task):
        if task == "poison":
            os._exit(9)
        return {"number": task}

    jobs = {str(k): "poison" if k == 3 else k for k in range(8)}
    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 0}),
        dask_cluster._start_local_cluster(2, dashboard=True) as address,
        distributed.Client(address, set_as_default=False) as client,
    ):
        answers = dict(dask_cluster._run_on_cluster(client, distributed, work, jobs))
        port = client.scheduler_info()["services"]["dashboard"]
        sockets = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()]
    assert answers.pop("3") == Failure(WORKER_DIED, True)
    assert answers == {name: {"number": task} for name, task in jobs.items() if name != "3"}
    assert [own for _, own, _, state, *_ in sockets if state == "0A" and own.endswith(f":{port:04X}")] == [
        f"0100007F:{port:04X}"
    ]  # it listens at 127.0.0.1
