"""Nothing that we did not write is removed or replaced, and results are whole or absent."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time

import numpy as np
import pytest

from napari_gsw.core.errors import InputError
from napari_gsw.files import output_folder as module
from napari_gsw.files.images import read_labels
from napari_gsw.files.labels import write_labels, write_labels_layer
from napari_gsw.files.output_folder import (
    SCRATCH,
    Manifest,
    check_writable,
    fingerprint,
    output_folder,
    read_manifest,
    replace_atomically,
    scratch_folder,
)
from napari_gsw.files.results import write_csv

LABELS = np.arange(35, dtype=np.uint16).reshape(5, 7)
MADE = {"software": "napari-gsw", "seed": 3}


def content(folder):
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def put(folder, names, mark="provenance.json", seed=3, **more):
    """Write files as a run does: each holds the seed."""
    with output_folder(folder, mark, **more) as scratch:
        for name in names:
            (scratch / name).write_text(json.dumps(MADE | {"seed": seed}) if name == mark else str(seed))


@pytest.mark.parametrize("ending", [".tif", ".ome.tif", ".png", ".npy", ".zarr"])
def test_labels_of_ours_are_replaced_and_those_of_others_are_not(ending, tmp_path):
    path = tmp_path / f"cells{ending}"
    write_labels(LABELS, path, provenance=MADE)
    write_labels(LABELS + 1, path, provenance=MADE | {"seed": 4})
    assert np.array_equal(read_labels(path), LABELS + 1)
    with (path / "0" / "zarr.json" if path.is_dir() else path).open("ab") as file:
        file.write(b" ")  # somebody has worked on them
    before = content(tmp_path)
    with pytest.raises(InputError, match=rf"cells{ending}': the file exists.*overwrite=True"):
        write_labels(LABELS, path, provenance=MADE)
    assert content(tmp_path) == before
    write_labels(LABELS, path, provenance=MADE, overwrite=True)
    assert np.array_equal(read_labels(path), LABELS)


def test_a_provenance_of_somebody_else_stays(tmp_path):
    (tmp_path / "cells.provenance.json").write_text('{"software": "another"}')
    before = content(tmp_path)
    with pytest.raises(InputError, match=r"cells.provenance.json': the file exists"):
        write_labels(LABELS, tmp_path / "cells.tif", provenance=MADE)
    assert content(tmp_path) == before


@pytest.mark.skipif(sys.platform == "win32", reason="links")
def test_a_link_is_never_ours(tmp_path):
    write_labels(LABELS, tmp_path / "a.tif", provenance=MADE)
    (tmp_path / "a.tif").rename(tmp_path / "mine.tif")
    (tmp_path / "a.tif").symlink_to("mine.tif")
    with pytest.raises(InputError, match=r"a.tif': the file exists"):
        write_labels(LABELS, tmp_path / "a.tif", provenance=MADE)
    assert (tmp_path / "a.tif").is_symlink()


def test_one_provenance_tells_of_one_result(tmp_path):
    write_labels(LABELS, tmp_path / "x.tif", provenance=MADE)
    with pytest.raises(InputError, match=r"x.provenance.json' is the provenance of 'x.tif'"):
        write_labels(LABELS, tmp_path / "x.png", provenance=MADE | {"seed": 4})
    assert {p.name for p in tmp_path.iterdir()} == {"x.tif", "x.provenance.json"}
    write_labels(LABELS, tmp_path / "x.png", provenance=MADE)  # the same result in another format
    assert set(json.loads((tmp_path / "x.provenance.json").read_text())["files"]) == {"x.tif", "x.png"}
    write_labels(LABELS, tmp_path / "x.tif")  # a word on that one no more, but still on the other
    assert set(json.loads((tmp_path / "x.provenance.json").read_text())["files"]) == {"x.png"}


def test_the_dialog_of_napari_has_asked_about_one_name_only(tmp_path):
    layer = {"name": "cells", "metadata": {"napari-gsw": MADE}}
    for name in ("cells.tif", "plain.tif"):
        (tmp_path / name).write_text("an earlier file")
    write_labels_layer(str(tmp_path / "cells.tif"), LABELS, layer)
    assert np.array_equal(read_labels(tmp_path / "cells.tif"), LABELS)
    with pytest.raises(OSError, match=r"plain.tif': the file exists"):  # asked about `plain`
        write_labels_layer(str(tmp_path / "plain"), LABELS, layer)
    (tmp_path / "other.provenance.json").write_text("mine")
    with pytest.raises(OSError, match=r"other.provenance.json': the file exists"):
        write_labels_layer(str(tmp_path / "other.tif"), LABELS, layer)
    assert not (tmp_path / "other.tif").exists()


def test_what_an_earlier_result_left_goes_if_it_is_as_it_was(tmp_path):
    put(tmp_path, ["provenance.json", "labels.tif", "trace.csv", "overlay.png"])
    (tmp_path / "overlay.png").write_text("painted by hand")
    (tmp_path / "people.tif").write_text("holidays")
    put(tmp_path, ["provenance.json", "labels.tif"], seed=4)
    assert content(tmp_path).keys() == {"provenance.json", "labels.tif", "overlay.png", "people.tif"}
    assert (tmp_path / "labels.tif").read_text() == "4"


@pytest.mark.parametrize("step", range(1, 6))
def test_killed_at_any_moment_what_is_there_is_ours(step, tmp_path, monkeypatch):
    """A run dies at each of its moves in turn; the next one goes through, and leaves the same as without the death."""

    class Killed(BaseException):
        pass

    names = ["provenance.json", "labels.tif", "trace.csv"]
    put(tmp_path, [*names, "overlay.png"])
    real, moves = os.replace, []

    def dies(source, target):
        moves.append(target)
        if len(moves) >= step:
            raise Killed
        real(source, target)

    monkeypatch.setattr("os.replace", dies)
    with pytest.raises(Killed):
        put(tmp_path, names, seed=4)
    monkeypatch.undo()
    put(tmp_path, names, seed=4)
    assert {n: c for n, c in content(tmp_path).items() if n != "provenance.json"} == {
        "labels.tif": b"4", "trace.csv": b"4",
    }  # fmt: skip
    mark = read_manifest(tmp_path / "provenance.json")
    assert mark.content["seed"] == 4
    assert "unfinished" not in json.loads((tmp_path / "provenance.json").read_text())
    assert all(mark.owns(tmp_path / name) for name in ("labels.tif", "trace.csv"))


def test_what_cannot_be_placed_changes_nothing(tmp_path, monkeypatch):
    put(tmp_path, ["provenance.json", "labels.tif"])
    before = content(tmp_path)
    real = os.replace

    def refuses(source, target):
        if target.name == "labels.tif":
            raise PermissionError(13, "Permission denied")
        real(source, target)

    monkeypatch.setattr("os.replace", refuses)
    with pytest.raises(InputError, match="cannot be written: Permission denied"):
        put(tmp_path, ["provenance.json", "labels.tif"], seed=4)
    assert content(tmp_path) == before


def test_a_mark_that_is_nonsense_is_none(tmp_path):
    for number, text in enumerate(
        ["", "[]", "3", '{"files": 3}', '{"files": {"a": "b"}}', "[" * 100_000, '{"a":' * 9999]
    ):
        file = tmp_path / str(number)
        file.write_text(text)
        assert read_manifest(file) is None
    (tmp_path / "own.json").write_text(Manifest({"mine": 1}, {"a.tif": ["0" * 64]}).to_json())
    assert read_manifest(tmp_path / "own.json").content == {"mine": 1}


def test_a_full_disk_reads_as_a_full_disk(tmp_path, monkeypatch):
    """NumPy's own words say how many numbers it wanted to write."""

    def short_write(*_, **__):
        raise OSError("14300 requested and 9148 written")

    monkeypatch.setattr("tifffile.imwrite", short_write)
    with pytest.raises(InputError, match="cannot be written: No space left on device"):
        write_labels(LABELS, tmp_path / "a.tif")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a device that is always full")
def test_pictures_on_a_full_disk_say_so(tmp_path):
    from matplotlib.figure import Figure

    from napari_gsw.files.geometry import make_geometry
    from napari_gsw.files.labels import write_npy, write_png, write_tiff
    from napari_gsw.files.output_folder import report_write_errors
    from napari_gsw.files.plots import save_figure, save_overlay

    (tmp_path / "full").symlink_to("/dev/full")
    large = np.zeros((300, 300), np.uint16)
    place = make_geometry(2)
    for write in (
        lambda path: write_png(large, path, place, "", None),
        lambda path: write_npy(large, path, place, "", None),
        lambda path: write_tiff(large, path, place, "", None),
        lambda path: save_overlay(large, large, path),
        lambda path: save_figure(Figure(), path),
    ):
        with pytest.raises(InputError, match="No space left on device"), report_write_errors("it"):
            write(tmp_path / "full")


def test_reports_of_others_are_not_written_over(tmp_path):
    write_csv(tmp_path / "batch.csv", ["a"], [[1]])
    write_csv(tmp_path / "batch.csv", ["a"], [[2]])
    assert (tmp_path / "batch.csv").read_bytes() == b"a\r\n2\r\n"
    (tmp_path / "batch.csv").write_text("mine")
    with pytest.raises(InputError, match=r"batch.csv': the file exists"):
        write_csv(tmp_path / "batch.csv", ["a"], [[3]])
    with pytest.raises(InputError, match=r"batch.csv': the file exists"):
        check_writable(tmp_path, ["other.csv", "batch.csv"])
    assert (tmp_path / "batch.csv").read_text() == "mine"
    check_writable(tmp_path, ["batch.csv"], overwrite=True)
    write_csv(tmp_path / "batch.csv", ["a"], [[3]])
    assert "3" in (tmp_path / "batch.csv").read_text()
    with pytest.raises(ZeroDivisionError), replace_atomically(tmp_path / "batch.csv") as scratch:
        scratch.write_text(str(1 / 0))
    assert "3" in (tmp_path / "batch.csv").read_text()


def test_a_fingerprint_of_a_folder_sees_names_and_contents(tmp_path):
    (tmp_path / "z" / "deep").mkdir(parents=True)
    (tmp_path / "z" / "deep" / "a").write_text("1")
    seen = [fingerprint(tmp_path / "z")]
    (tmp_path / "z" / "deep" / "a").write_text("2")
    seen.append(fingerprint(tmp_path / "z"))
    (tmp_path / "z" / "deep" / "a").rename(tmp_path / "z" / "deep" / "b")
    seen.append(fingerprint(tmp_path / "z"))
    assert len(set(seen)) == 3


# Scratch folders

HOLDS = """
import sys, time
from pathlib import Path
from napari_gsw.files.output_folder import scratch_folder
with scratch_folder(Path(sys.argv[1])) as folder:
    (folder / "half").write_text("written")
    print("ready", flush=True)
    time.sleep(600)
"""


def scratches(folder):
    return sorted(p.name for p in folder.iterdir() if p.name.startswith(SCRATCH))


def remaining(folder):
    """Scratch folders that are left after another run."""
    with scratch_folder(folder):
        pass
    return scratches(folder)


def test_scratch_is_removed_after_an_error(tmp_path):
    with pytest.raises(ZeroDivisionError), scratch_folder(tmp_path) as folder:
        (folder / "half").write_text(str(1 / 0))
    assert scratches(tmp_path) == []


def test_scratch_of_a_living_process_stays_and_of_a_dead_one_goes(tmp_path):
    process = subprocess.Popen([sys.executable, "-c", HOLDS, str(tmp_path)], stdout=subprocess.PIPE)
    try:
        assert process.stdout.readline() == b"ready\n"
        with scratch_folder(tmp_path):  # one of this process stays, too
            assert len(remaining(tmp_path)) == 2
    finally:
        process.kill()
        process.communicate()
    assert len(scratches(tmp_path)) == 1
    assert remaining(tmp_path) == []


def test_scratch_of_another_machine_goes_after_a_day_without_a_change(tmp_path):
    left = tmp_path / f"{SCRATCH}{'0' * 12}-{os.getpid()}-abc"
    left.mkdir()
    (left / "half").write_text("written")
    yesterday = time.time() - module.DAY - 60
    os.utime(left, (yesterday, yesterday))
    assert remaining(tmp_path) == [left.name]  # a file in it is younger
    os.utime(left / "half", (yesterday, yesterday))
    assert remaining(tmp_path) == []


@pytest.mark.parametrize("name", ["mine", f"{'0' * 12}-x-abc", f"{'0' * 12}-1-abc.txt"])
def test_folder_of_another_name_stays(name, tmp_path):
    left = tmp_path / f"{SCRATCH}{name}"
    left.mkdir()
    os.utime(left, (0, 0))
    assert remaining(tmp_path) == [left.name]
