"""Session files: what is saved comes back, what is wrong with a file is said, and nothing in it need be trusted."""

import copy
import errno
import json
import os
import pickle
import shutil
import subprocess
import sys
import threading
import tracemalloc
import zipfile
import zlib
from typing import NamedTuple

import numpy as np
import pytest
from numcodecs.zstd import compress

import napari_gsw as gsw
from napari_gsw.core.errors import InputError
from napari_gsw.core.interactive.saved_session import SavedSession
from napari_gsw.core.pipeline.saved_run import DTYPES
from napari_gsw.core.sites.blocked_labels import CompressedArray
from napari_gsw.files import images, session_file
from napari_gsw.files.session_file import SESSION_KEY, is_session

IMAGE = np.kron(np.random.default_rng(0).integers(0, 255, (4, 6, 3)), np.ones((20, 20, 1))).astype(np.uint8)


@pytest.fixture(scope="module")
def result():
    return gsw.segment(IMAGE, sweeps=40, seed=2, report=lambda _, one: one is not None and one.sweep >= 10)


@pytest.fixture
def saved(result, tmp_path):
    return gsw.save_session(tmp_path / "run.zarr.zip", result, image=IMAGE, image_path=tmp_path / "in" / "photo.png")


def test_what_is_saved_comes_back(saved, result):
    session = gsw.open_session(saved)
    assert session.run.sweep == result.snapshot.sweep
    assert session.run.settings == result.summary.settings
    assert session.images[0].name == "photo.png"
    assert session.images[0].paths[1] == os.path.join("in", "photo.png")
    np.testing.assert_array_equal(session.images[0].pixels, IMAGE)
    for name, array in result.run.states[0].items():
        np.testing.assert_array_equal(session.run.states[0][name], array)
        assert session.run.states[0][name].dtype == array.dtype
    np.testing.assert_array_equal(gsw.resume(session.run).labels, gsw.segment(IMAGE, sweeps=40, seed=2).labels)


def test_zarr_itself_reads_it(saved):
    zarr = pytest.importorskip("zarr")
    with zarr.storage.ZipStore(saved, mode="r") as store:
        group = zarr.open_group(store=store, mode="r")
        assert group["runs/run/problem/sites"].shape == IMAGE.shape[:2]


def test_a_session_is_written_over_and_nothing_else_is(saved, result, tmp_path):
    gsw.save_session(saved, result)
    mine = tmp_path / "mine.zip"
    with zipfile.ZipFile(mine, "w") as archive:
        archive.writestr("letter.txt", "dear")
    before = mine.read_bytes()
    with pytest.raises(InputError, match=r"mine\.zip.*is no session"):
        gsw.save_session(mine, result)
    assert mine.read_bytes() == before
    gsw.save_session(mine, result, overwrite=True)
    assert is_session(mine)


@pytest.mark.parametrize("copied", [lambda value: pickle.loads(pickle.dumps(value)), copy.copy, copy.deepcopy])
def test_results_can_be_pickled_and_copied(result, copied):
    other = copied(result)
    np.testing.assert_array_equal(other.labels, result.labels)
    np.testing.assert_array_equal(gsw.resume(other.run, sweeps=12).labels, gsw.resume(result.run, sweeps=12).labels)
    assert copied(result.snapshot).best.log_posterior == result.snapshot.best.log_posterior
    with pytest.raises(TypeError):
        other.run.states[0]["sweep"] = 0


@pytest.mark.parametrize("name", ["", "."])
def test_a_session_needs_a_name(result, name):
    with pytest.raises(InputError, match="no name of a file"):
        gsw.save_session(name, result)


def test_a_result_of_another_method_is_no_session(tmp_path, result):
    from dataclasses import replace

    with pytest.raises(InputError, match="cannot be saved"):
        gsw.save_session(tmp_path / "x.zarr.zip", replace(result, run=None))


def test_a_failing_disk_leaves_the_old_session_and_nothing_else(saved, result, monkeypatch):
    before = saved.read_bytes()

    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(session_file.os, "fsync", full)
    with pytest.raises(InputError, match="No space left"):
        gsw.save_session(saved, result)
    assert saved.read_bytes() == before
    assert os.listdir(saved.parent) == [saved.name]


def rewritten(saved, change, packed=zipfile.ZIP_STORED):
    """A copy of a session whose members `change` has changed in place."""
    with zipfile.ZipFile(saved) as archive:
        members = {info.filename: archive.read(info) for info in archive.infolist()}
    change(members)
    other = saved.with_name("other.zarr.zip")
    with zipfile.ZipFile(other, "w", packed) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return other


def head_changed(change):
    """A change of the tree of words."""

    def apply(members):
        root = json.loads(members["zarr.json"])
        change(root["attributes"][SESSION_KEY])
        members["zarr.json"] = json.dumps(root).encode()

    return apply


def array_changed(name, **changes):
    def apply(members):
        path = next(key for key in members if key.endswith(f"{name}/zarr.json"))
        members[path] = json.dumps(json.loads(members[path]) | changes).encode()

    return apply


def big_endian(members):
    path = next(key for key in members if key.endswith("problem/sites/zarr.json"))
    members[path] = members[path].replace(b'"little"', b'"big"')


def fields(head):
    return head["content"]["fields"]["runs"]["map"]["run"]["fields"]


def state(head):
    return fields(head)["states"]["tuple"][0]["map"]


def counts(head):
    blocks = fields(head)["problem"]["fields"]["likelihoods"]["tuple"]
    return next(one["fields"]["counts"]["fields"] for one in blocks if "counts" in one["fields"])


def deep(head):
    for _ in range(200):
        head["content"] = {"list": [head["content"]]}


def packed(side):
    """A label image that zlib packs a thousandfold, without its data."""
    return {"record": "packed", "fields": {"data": None, "shape": {"tuple": [side, side]}, "dtype": "<u2"}}


TAMPERED = {
    "newer": (head_changed(lambda h: h.update(version=99)), "newer napari-gsw"),
    "no version": (head_changed(lambda h: h.update(version="1")), "no session"),
    "empty": (head_changed(lambda h: h.pop("content")), "empty"),
    "no mark": (lambda m: m.update({"zarr.json": b'{"attributes": {}}'}), "no session of napari-gsw"),
    "no JSON": (lambda m: m.update({"zarr.json": b"{" * 100_000}), "no JSON"),
    "deep JSON": (lambda m: m.update({"zarr.json": b"[" * 100_000 + b"]" * 100_000}), "no"),
    "deep tree": (head_changed(deep), "nested deeper"),
    "unknown record": (head_changed(lambda h: h["content"].update(record="os.system")), "unknown form"),
    "unknown field": (head_changed(lambda h: h["content"]["fields"].update(command="rm")), "damaged"),
    "pickle": (lambda m: m.update({"x.pkl": pickle.dumps(print)}), "missing, or there are others"),
    "absolute name": (lambda m: m.update({"/etc/passwd": b"x"}), "which no session has"),
    "name with dots": (lambda m: m.update({"../../escape": b"x"}), "which no session has"),
    "missing chunk": (lambda m: m.pop(next(k for k in m if "sites/c/" in k)), "missing"),
    "objects": (array_changed("problem/sites", data_type="object"), "of a kind that no session has"),
    "pickle codec": (array_changed("problem/sites", codecs=[{"name": "pickle"}]), "of a kind that no session has"),
    "huge": (array_changed("problem/sites", shape=[10**6, 10**6]), "session"),
    "order of bytes": (big_endian, "of a kind that no session has"),
    "negative": (array_changed("problem/sites", shape=[-1, 5]), "of a kind"),
    "other type": (array_changed("problem/sites", data_type="float64"), "session"),
    "settings": (head_changed(lambda h: fields(h)["settings"]["fields"].update(sweeps=-3)), "sweeps"),
    "unknown setting": (head_changed(lambda h: fields(h)["settings"]["fields"].update(bogus=1)), "settings"),
    "no states": (head_changed(lambda h: fields(h)["states"].update(tuple=[])), "state"),
    "NaN trace": (head_changed(lambda h: fields(h)["traces"].update(tuple=[None])), "trace"),
    "other sites": (head_changed(lambda h: fields(h)["problem"]["fields"].update(n=7)), "must|other|row"),
    "attributes of another kind": (lambda m: m.update({"zarr.json": b'{"attributes": []}'}), "no session"),
    "null attributes": (lambda m: m.update({"zarr.json": b'{"attributes": null}'}), "no session"),
    "set of lists": (head_changed(lambda h: h.update(content={"set": [{"list": []}]})), "no set can have"),
    "words without end": (head_changed(lambda h: counts(h).update(shape={"list": [1, 2**50]})), "words"),
    "sites without end": (head_changed(lambda h: fields(h)["problem"]["fields"].update(n=2**40)), "number of sites"),
    "sites of which nothing is stored": (
        head_changed(lambda h: fields(h)["problem"]["fields"].update(n=2**27)), "of which nothing is stored"
    ),
    "label images without end": (
        head_changed(lambda h: fields(h)["given"]["map"].update(sites=packed(70_000))), "it promises a session of 20 GB"
    ),
    "too many axes": (array_changed("problem/sites", shape=[200_000] + [1] * 50_000), "of a kind"),
    "no field": (head_changed(lambda h: fields(h)["problem"]["fields"].update(field={"list": [None]})), "damaged"),
}  # fmt: skip


@pytest.mark.parametrize("name", TAMPERED)
def test_a_tampered_file_is_refused_in_a_sentence(saved, name):
    change, sentence = TAMPERED[name]
    other = rewritten(saved, change)
    with pytest.raises(InputError, match=sentence) as refusal:
        gsw.open_session(other)
    assert "\n" not in str(refusal.value)
    assert "other.zarr.zip" in str(refusal.value)


def test_the_title_is_read_without_the_rest(saved, tmp_path):
    bomb = tmp_path / "bomb.zarr.zip"
    with zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("zarr.json", b'{"attributes": {"napari-gsw session": [' + b"0," * 10**7 + b"0]}}")
    huge = rewritten(saved, head_changed(lambda head: head.update(more=[0] * 10**6)))
    tracemalloc.start()
    try:
        assert not is_session(bomb)
        title = session_file.read_title(huge)
        with pytest.raises(InputError, match=r"'zarr\.json' is packed"):
            gsw.open_session(bomb)
        assert tracemalloc.get_traced_memory()[1] < 1e6
    finally:
        tracemalloc.stop()
    assert title == session_file.read_title(saved)
    assert title.startswith("photo.png, ")


def test_bits_that_have_turned_are_seen(saved):
    content = bytearray(saved.read_bytes())
    with zipfile.ZipFile(saved) as archive:
        info = next(i for i in archive.infolist() if "problem/sites/c/0" in i.filename)
        start = info.header_offset + 30 + len(info.filename)
    content[start + 12] ^= 0xFF
    saved.write_bytes(content)
    with pytest.raises(InputError, match="damaged"):
        gsw.open_session(saved)


@pytest.mark.parametrize("keep", [0, 10, 2000, -30])
def test_a_torn_file_is_refused(saved, keep):
    content = saved.read_bytes()
    saved.write_bytes(content[:keep])
    with pytest.raises(InputError, match="cannot be opened"):
        gsw.open_session(saved)


def test_what_is_no_file_is_said(tmp_path):
    with pytest.raises(InputError, match="there is no session"):
        gsw.open_session(tmp_path / "nowhere.zarr.zip")
    with pytest.raises(InputError, match="cannot be opened"):
        gsw.open_session(tmp_path)


BOMB = """
import resource, sys, zipfile
import napari_gsw as gsw
import numba, zarr
at_rest = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
for path in sys.argv[1:]:
    try:
        gsw.open_session(path)
        print("opened", path)
    except gsw.InputError as reason:
        pass
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - at_rest) // 1024)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="resource is of POSIX")
def test_bombs_do_not_go_off(saved, tmp_path):
    """A packed member of 256 MB, and an array of zeros that would be 4 TB."""
    packed = tmp_path / "packed.zarr.zip"
    with (
        zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open("zarr.json", "w", force_zip64=True) as member,
    ):
        for _ in range(256):
            member.write(bytes(2**20))
    claimed = rewritten(saved, array_changed("problem/sites", shape=[10**6, 10**6], fill_value=0))
    shutil.move(claimed, tmp_path / "claimed.zarr.zip")
    answer = subprocess.run(
        [sys.executable, "-c", BOMB, packed, tmp_path / "claimed.zarr.zip"], capture_output=True, text=True, check=True
    )
    assert answer.stdout.split()[0].isdigit(), answer.stdout
    assert int(answer.stdout) < 200  # megabytes


def test_the_autosave_writes_while_it_runs_and_once_more_at_the_end(tmp_path):
    path = tmp_path / "auto.zarr.zip"
    sweeps = []

    def look(stage, one):
        if one is not None:
            keep.wait()
            sweeps.append(gsw.open_session(path).run.sweep)

    with gsw.Autosave(path, every=0.0) as keep:
        gsw.segment(IMAGE, sweeps=30, report=look, keep=keep)
    assert sweeps
    assert sweeps == sorted(sweeps)
    assert gsw.open_session(path).run.sweep == 30
    assert os.listdir(tmp_path) == [path.name]


def test_an_autosave_that_fails_tells_it_once_and_the_run_goes_on(tmp_path):
    sentences = []
    mine = tmp_path / "mine.txt"
    mine.write_text("mine")
    with gsw.Autosave(mine, every=0.0, tell=sentences.append) as keep:
        result = gsw.segment(IMAGE, sweeps=120, keep=keep)
    assert result.snapshot.sweep == 120
    assert len(sentences) == 1
    assert "is no session" in sentences[0]
    assert mine.read_text() == "mine"


def test_whoever_leaves_an_autosave_does_not_wait_for_what_is_written(tmp_path, monkeypatch):
    begun, may_end, deeds = threading.Event(), threading.Event(), []

    def slow_save(path, session):
        begun.set()
        assert may_end.wait(60)
        deeds.append("saved")

    monkeypatch.setattr(session_file, "save_session", slow_save)
    keep = gsw.Autosave(tmp_path / "auto.zarr.zip")
    keep.save(lambda: "session")
    assert begun.wait(60)
    keep.leave(lambda: deeds.append("left"))
    assert deeds == []
    keep.save(lambda: "too late")
    may_end.set()
    keep.close()
    assert deeds == ["saved", "left"]


def test_an_autosave_that_fails_as_nobody_expects_tells_it_and_tries_again(tmp_path, monkeypatch):
    reasons, saved, sentences = [MemoryError(), ValueError("before 1980"), None], [], []

    def failing_save(path, session):
        if (reason := reasons.pop(0)) is not None:
            raise reason
        saved.append(session)

    monkeypatch.setattr(session_file, "save_session", failing_save)
    keep = gsw.Autosave(tmp_path / "auto.zarr.zip", every=0.0, tell=sentences.append)
    for session in ("first", "second", "third"):
        assert keep.due
        keep.save(lambda session=session: session)
        keep.wait()
    keep.close()
    assert saved == ["third"]
    assert ["MemoryError" in sentences[0], "before 1980" in sentences[1]] == [True, True]


VICTIM = """
import sys
import numpy as np
import napari_gsw as gsw
image = np.kron(np.random.default_rng(0).integers(0, 255, (4, 6, 3)), np.ones((20, 20, 1))).astype(np.uint8)
with gsw.Autosave(sys.argv[1], every=0.0) as keep:
    def look(stage, one):
        if one is not None:
            keep.wait()
            print(one.sweep, flush=True)
    gsw.segment(image, sweeps=100_000, seed=2, report=look, keep=keep)
"""


def test_a_killed_run_goes_on_from_its_last_save(tmp_path):
    path = tmp_path / "killed.zarr.zip"
    last = 0
    with subprocess.Popen([sys.executable, "-c", VICTIM, path], stdout=subprocess.PIPE, text=True) as process:
        while last < 60:
            last = int(process.stdout.readline())
        process.kill()
    session = gsw.open_session(path)
    assert session.run.sweep >= last
    here = gsw.resume(session.run, sweeps=0)
    undisturbed = gsw.segment(
        IMAGE, sweeps=100_000, seed=2, report=lambda _, one: one is not None and one.sweep >= session.run.sweep
    )
    same = min(here.snapshot.sweep, undisturbed.snapshot.sweep)
    np.testing.assert_array_equal(here.trace.log_posterior[:same], undisturbed.trace.log_posterior[:same])


@pytest.mark.parametrize("dtype", sorted(DTYPES))
def test_arrays_of_every_type_are_written_as_zarr_would_and_read_as_they_were(dtype, tmp_path, monkeypatch):
    """In several chunks, of which the last is not full; from another order of bytes, and not contiguous."""
    zarr = pytest.importorskip("zarr")
    monkeypatch.setattr(session_file, "CHUNK", 20)
    numbers = np.random.default_rng(0).integers(0, 2 if dtype == "bool" else 100, (23, 8, 3)).astype(dtype)
    swapped = numbers.astype(numbers.dtype.newbyteorder())
    arrays = {"a/b/plain": numbers, "a/swapped": swapped, "part": numbers[::2, 1], "line": numbers[:, 0, 0]}
    session_file.write_group(tmp_path / "x.zip", {"mark": [1, None]}, arrays)
    with zarr.storage.ZipStore(tmp_path / "x.zip", mode="r") as store:
        group = zarr.open_group(store=store, mode="r")
        assert group.attrs["mark"] == [1, None]
        assert set(group["a"]) == {"b", "swapped"}
        for name, array in arrays.items():
            np.testing.assert_array_equal(group[name][...], array)
    with zipfile.ZipFile(tmp_path / "x.zip") as archive:
        for name in arrays:
            assert len([member for member in archive.namelist() if member.startswith(f"{name}/c/")]) > 1
        for name, array in arrays.items():
            stored = session_file.StoredArray.parse(name, json.loads(archive.read(f"{name}/zarr.json")))
            back = stored.read(archive)
            assert back.dtype == np.dtype(dtype)
            assert back.dtype.isnative
            assert back.flags.writeable
            np.testing.assert_array_equal(back, array)


def test_what_zarr_itself_has_written_is_read(tmp_path):
    """As sessions of before have been."""
    zarr = pytest.importorskip("zarr")
    numbers = np.random.default_rng(0).integers(0, 2, (23, 8))
    for dtype in ("bool", "int16", "float64"):
        with zarr.storage.ZipStore(tmp_path / f"{dtype}.zip", mode="w", compression=zipfile.ZIP_STORED) as store:
            zarr.create_array(
                store, name="x", shape=numbers.shape, dtype=dtype, chunks=(5, 8), compressors=zarr.codecs.ZstdCodec(),
                config={"write_empty_chunks": True},
            )[...] = numbers  # fmt: skip
        with zipfile.ZipFile(tmp_path / f"{dtype}.zip") as archive:
            stored = session_file.StoredArray.parse("x", json.loads(archive.read("x/zarr.json")))
            np.testing.assert_array_equal(stored.read(archive), numbers.astype(dtype))


def test_a_chunk_that_holds_more_than_it_says_is_refused_before_it_is_unpacked(saved):
    def swollen(members):
        name = next(key for key in members if "problem/sites/c/" in key)
        members[name] = compress(bytes(2**28), 1)

    path = rewritten(saved, swollen)
    tracemalloc.start()
    try:
        with pytest.raises(InputError, match="is damaged"):
            gsw.open_session(path)
        assert tracemalloc.get_traced_memory()[1] < 2**26
    finally:
        tracemalloc.stop()


def test_a_session_whose_arrays_pack_well_is_opened(result, tmp_path, monkeypatch):
    """An image with little in it takes more times the bytes of its file than other images may."""
    monkeypatch.setattr(images, "ALWAYS", 0)
    image = np.zeros((14_000, 14_000), np.uint8)
    image[::50] = 7
    path = gsw.save_session(tmp_path / "large.zarr.zip", result, image=image)
    assert image.nbytes > images.MAX_COMPRESSION * path.stat().st_size
    assert gsw.open_session(path).images[0].pixels.sum() == 7 * 280 * 14_000


class Place(NamedTuple):
    """A tuple of no kind that a session knows."""

    row: int
    column: int


def test_whatever_its_runs_are_called_and_its_window_holds_a_session_that_was_saved_is_opened(result, tmp_path):
    names = ("Zelle ä (1)", "Zelle ö (1)", "", "..", "a/b", "a:b", "a", "c", "zarr.json")
    image = np.zeros((20, 20))
    window = {"place": Place(3, 4), "ü": {"../x": image, "..\\x": image + 1}}
    one = gsw.save_session(tmp_path / "one.zarr.zip", result)
    session = SavedSession({name: gsw.open_session(one).run for name in names}, window=window)
    path = gsw.save_session(tmp_path / "names.zarr.zip", session)
    back = gsw.open_session(path)
    assert tuple(back.runs) == names
    for run in back.runs.values():
        np.testing.assert_array_equal(run.problem.sites, result.run.problem.sites)
    assert back.window["place"] == (3, 4)
    assert [array.max() for array in back.window["ü"].values()] == [0, 1]


@pytest.mark.parametrize("limit", ["MAX_MEMBERS", "MAX_JSON"])
def test_what_could_not_be_opened_is_not_saved(result, tmp_path, monkeypatch, limit):
    monkeypatch.setattr(session_file, limit, 10)
    with pytest.raises(InputError, match="too many time points"):
        gsw.save_session(tmp_path / "large.zarr.zip", result)
    assert not list(tmp_path.iterdir())


def test_chunks_that_are_not_there_cost_nothing(saved):
    """Descriptions of 2,000 arrays, each of which would have 200,000 chunks."""

    def claim(members):
        name = next(key for key in members if key.endswith("problem/sites/zarr.json"))
        description = json.loads(members[name])
        grid = {"name": "regular", "configuration": {"chunk_shape": [1]}}
        content = json.dumps(description | {"shape": [200_000], "data_type": "uint8", "chunk_grid": grid}).encode()
        members |= {f"x{k}/zarr.json": content for k in range(2000)}

    path = rewritten(saved, claim)
    tracemalloc.start()
    try:
        with pytest.raises(InputError, match="are missing"):
            gsw.open_session(path)
        assert tracemalloc.get_traced_memory()[1] < 2**26
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("content", [b"null", b"[]", b'{"attributes": null}', b'{"attributes": 3}', b"\xff"])
def test_a_zip_of_anything_is_no_session(tmp_path, content):
    path = tmp_path / "any.zarr.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("zarr.json", content)
    assert not is_session(path)
    assert session_file.read_title(path) is None
    with pytest.raises(InputError, match="cannot be opened"):
        gsw.open_session(path)


def test_a_session_with_a_name_that_is_no_text_is_refused(saved):
    content = saved.read_bytes().replace(b"problem/sites", b"problem/\xff\xff\xff\xff\xff")
    content, place = bytearray(content), -1
    while (place := content.find(b"PK\x01\x02", place + 1)) >= 0:
        content[place + 9] |= 8  # names are UTF-8
    saved.write_bytes(content)
    with pytest.raises(InputError, match="cannot be opened"):
        gsw.open_session(saved)
    assert not is_session(saved)


def test_a_member_that_ends_beyond_the_file_is_refused(saved):
    content = bytearray(saved.read_bytes())
    last = content.rfind(b"PK\x01\x02")
    size = int.from_bytes(content[last + 20 : last + 24], "little") + 5_000
    for place in (last + 20, last + 24):
        content[place : place + 4] = size.to_bytes(4, "little")
    saved.write_bytes(content)
    with pytest.raises(InputError, match="cannot be opened"):
        gsw.open_session(saved)


def test_a_packed_block_that_holds_more_than_it_says_is_refused():
    zeros = zlib.compress(bytes(2**28))
    tracemalloc.start()
    try:
        for block in (CompressedArray(zeros, (10, 10), "<u2"), CompressedArray(b"no deflate", (10, 10), "<u2")):
            with pytest.raises(ValueError, match=r"damaged|buffer"):
                block.array()
        assert tracemalloc.get_traced_memory()[1] < 2**24
    finally:
        tracemalloc.stop()
