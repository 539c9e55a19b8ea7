"""Many jobs: resumed, parallel, and none taken down by another."""

from __future__ import annotations

import errno
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import psutil
import pytest

import napari_gsw as gsw
from napari_gsw.batch.interruption import Terminated, exit_code, raise_on_sigterm
from napari_gsw.batch.jobs import WORKER_DIED, Failure, JobOptions, catch_errors, iter_jobs, run_jobs


def squared(value):
    return {"square": value * value}


def touchy(value):
    """Leaves a mark for every call; fails or dies as it is told."""
    folder, number, fate = value
    (Path(folder) / f"called-{number}-{len(list(Path(folder).glob(f'called-{number}-*')))}").touch()
    if fate == "refuse":
        raise gsw.InputError(f"number {number} is not wanted")
    if fate == "defect":
        raise ZeroDivisionError("oh")
    if fate == "die":
        os._exit(9)
    return {"number": number}


def endless(value):
    """Done at once, or never."""
    Path(value).touch()
    while value.endswith("never"):
        time.sleep(0.05)
    return {"done": True}


def wait_for(condition):
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def calls(folder, number):
    return len(list(Path(folder).glob(f"called-{number}-*")))


def tasks(folder, **fates):
    return {f"job {k}": (str(folder), k, fates.get(f"n{k}", "")) for k in range(5)}


def test_rows_come_in_the_order_of_the_jobs(tmp_path):
    rows = run_jobs("t", squared, {str(k): k for k in (3, 1, 2)}, {}, JobOptions(tmp_path, 2, quiet=True))
    assert list(rows.done.items()) == [(str(k), {"square": k * k}) for k in (3, 1, 2)]
    assert not rows.failed


def test_what_is_done_is_not_done_again(tmp_path):
    options = JobOptions(tmp_path / "out", quiet=True)
    first = run_jobs("t", touchy, tasks(tmp_path, n3="refuse"), {"a": 1}, options)
    assert first.failed == {"job 3": "number 3 is not wanted"}
    second = run_jobs("t", touchy, tasks(tmp_path), {"a": 1}, options)
    assert [calls(tmp_path, k) for k in range(5)] == [1, 1, 1, 2, 1]
    assert list(second.done) == [f"job {k}" for k in range(5)]
    run_jobs("t", touchy, tasks(tmp_path), {"a": 2}, options)  # other settings
    assert [calls(tmp_path, k) for k in range(5)] == [2, 2, 2, 3, 2]
    run_jobs("t", touchy, tasks(tmp_path), {"a": 1}, JobOptions(tmp_path / "out", fresh=True, quiet=True))
    assert [calls(tmp_path, k) for k in range(5)] == [3, 3, 3, 4, 3]


def test_a_torn_line_is_done_again_and_harms_no_other(tmp_path):
    options = JobOptions(tmp_path / "out", quiet=True)
    run_jobs("t", touchy, tasks(tmp_path), {}, options)
    (journal,) = (tmp_path / "out" / ".progress").iterdir()
    # As another process has left it: a run never writes into the file of another.
    torn = journal.with_name(journal.name.replace(".jsonl", "-other.jsonl"))
    torn.write_text(journal.read_text()[:-20])
    journal.unlink()
    for _ in range(2):
        again = run_jobs("t", touchy, tasks(tmp_path), {}, options)
        assert again.done["job 4"] == {"number": 4}
    assert [calls(tmp_path, k) for k in range(5)] == [1, 1, 1, 1, 2]


def test_a_changed_file_is_read_again(tmp_path):
    files = {f"job {k}": [tmp_path / f"{k}.txt"] for k in range(5)}
    for (file,) in files.values():
        file.write_text("a")
    options = JobOptions(tmp_path / "out", quiet=True)
    run_jobs("t", touchy, tasks(tmp_path), {}, options, files)
    (tmp_path / "2.txt").write_text("changed")
    run_jobs("t", touchy, tasks(tmp_path), {}, options, files)
    assert [calls(tmp_path, k) for k in range(5)] == [1, 1, 2, 1, 1]


def test_a_defect_is_named_and_the_rest_goes_on(tmp_path, capsys):
    rows = run_jobs("t", touchy, tasks(tmp_path, n1="defect", n2="refuse"), {}, JobOptions(tmp_path, quiet=True))
    assert list(rows.done) == ["job 0", "job 3", "job 4"]
    assert "ZeroDivisionError" in rows.failed["job 1"]
    assert "job 2 skipped: number 2 is not wanted" in capsys.readouterr().err


def test_a_process_that_dies_takes_no_other_job_with_it(tmp_path):
    rows = run_jobs("t", touchy, tasks(tmp_path, n1="die"), {}, JobOptions(tmp_path, 2, quiet=True))
    assert rows.failed == {"job 1": WORKER_DIED}
    assert list(rows.done) == ["job 0", "job 2", "job 3", "job 4"]
    # In the pool, where what is in flight is lost with it; alone, if something was; and once more as a retry.
    assert calls(tmp_path, 1) in (2, 3)
    assert sum(calls(tmp_path, k) for k in (0, 2, 3, 4)) <= 5


def test_death_of_several_processes_names_each_of_their_jobs(tmp_path):
    rows = run_jobs(
        "t", touchy, tasks(tmp_path, n1="die", n2="die", n4="die"), {}, JobOptions(tmp_path, 2, quiet=True, retries=0)
    )
    assert rows.failed == dict.fromkeys(("job 1", "job 2", "job 4"), WORKER_DIED)
    assert list(rows.done) == ["job 0", "job 3"]


SCRIPT = """
from napari_gsw.batch.jobs import JobOptions, run_jobs
from pathlib import Path
import sys
run_jobs("t", len, {"a": "aa", "b": "b"}, {}, JobOptions(Path(sys.argv[1]), 2, quiet=True))
"""


def test_a_script_without_a_main_block_is_told_of_it(tmp_path):
    (tmp_path / "script.py").write_text(SCRIPT)
    ran = subprocess.run([sys.executable, tmp_path / "script.py", tmp_path], capture_output=True, text=True)
    assert ran.returncode == 1
    assert "under if __name__ == '__main__':" in ran.stderr


ORPHANS = """
from napari_gsw.batch.jobs import JobOptions, run_jobs
from pathlib import Path
import os, sys, time

def sleep(folder):
    (Path(folder) / f"{os.getpid()}.pid").touch()
    time.sleep(600)

if __name__ == "__main__":
    run_jobs("t", sleep, {"a": sys.argv[1], "b": sys.argv[1]}, {}, JobOptions(Path(sys.argv[1]), 2, quiet=True))
"""


def test_workers_end_with_a_killed_parent(tmp_path):
    (tmp_path / "script.py").write_text(ORPHANS)
    with subprocess.Popen([sys.executable, tmp_path / "script.py", tmp_path]) as process:
        wait_for(lambda: len(list(tmp_path.glob("*.pid"))) == 2)
        process.kill()
    pids = [int(file.stem) for file in tmp_path.glob("*.pid")]
    wait_for(lambda: not any(psutil.pid_exists(pid) for pid in pids))


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_the_request_to_end_stops_all_processes_and_keeps_what_is_done(tmp_path):
    """As SLURM sends it: to this process and to its workers, of which one has work that would never end."""
    jobs = {name: str(tmp_path / name) for name in ("first", "never", "second", "last never")}
    workers = []

    def end():
        deadline = time.monotonic() + 60
        while not (tmp_path / "last never").exists() and time.monotonic() < deadline:
            time.sleep(0.02)
        workers.extend(multiprocessing.active_children())
        for process in (*(worker.pid for worker in workers), os.getpid()):
            os.kill(process, signal.SIGTERM)

    thread = threading.Thread(target=end)
    thread.start()
    done = []
    with raise_on_sigterm(), pytest.raises(Terminated) as reason:  # noqa: PT012 (what came before it counts)
        for outcome in iter_jobs("t", endless, jobs, {}, JobOptions(tmp_path / "out", 2, quiet=True)):
            done.append(outcome)
    thread.join()
    assert exit_code(reason.value) == 143
    assert sorted(outcome.name for outcome in done) == ["first", "second"]
    assert len(workers) == 2
    assert multiprocessing.active_children() == []


def test_what_may_pass_is_what_the_system_says_and_does_not_last():
    def failure(reason):
        def work(_):
            raise reason

        return catch_errors(work, None)

    assert failure(OSError(errno.EIO, "Input/output error")).again
    assert not failure(OSError(errno.ENOSPC, "No space left on device")).again
    assert not failure(OSError("broken data stream")).again  # as decoders say it
    assert not failure(gsw.InputError("wrong")).again
    assert failure(MemoryError()).again
    assert failure(ZeroDivisionError("a\nb")) == Failure("a defect of the program: ZeroDivisionError: a b")
    assert catch_errors(squared, Failure("before")) == Failure("before")


def test_a_journal_tells_how_many_tries_it_took(tmp_path):
    options, moods = JobOptions(tmp_path, quiet=True), [OSError(errno.EIO, "hiccup")]

    def moody(value):
        if moods:
            raise moods.pop()
        return squared(value)

    for _ in range(2):  # done, and then read
        (outcome,) = iter_jobs("t", moody, {"a": 3}, {}, options)
        assert outcome == ("a", {"square": 9}, 2)
    (outcome,) = iter_jobs("t", moody, {"a": 3}, {}, options, is_valid=lambda row: row["square"] > 10)
    assert outcome.attempts == 1


def test_an_output_folder_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(gsw.InputError, match="cannot be written"):
        run_jobs("t", squared, {"a": 1}, {}, JobOptions(tmp_path / "file" / "out", quiet=True))
