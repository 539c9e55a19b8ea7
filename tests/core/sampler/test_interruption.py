"""Ctrl+C ends what was begun: within a sweep, with nothing left behind; in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[2]
# Each of these would take a quarter of an hour. The next one, and the end of the interpreter, must not wait for it.
SCRIPT = """
import os, signal, threading, time
import napari_gsw as gsw
from napari_gsw.core.pipeline.segment import make_ensemble
from problems import planar

signal.signal(signal.SIGINT, signal.default_int_handler)  # tests in the background would inherit none
LONG = 10**7
problem = planar(n=300)
gsw.run(problem, 1, ladder=(1.0, 0.5))  # compiles
calls = {
    "one chain": lambda: gsw.run(problem, LONG),
    "snapshots": lambda: list(gsw.sample(problem, LONG, every=LONG // 2)),
    "replicas": lambda: gsw.run(problem, LONG, ladder=(1.0, 0.5)),
    "several chains": lambda: list(make_ensemble(problem, gsw.Settings(chains=2), 0).run(LONG)),
    "prior": lambda: gsw.simulate_prior(problem, LONG),
}


def interrupt():
    time.sleep(0.3)
    os.kill(os.getpid(), signal.SIGINT)


for name, call in calls.items():
    threading.Thread(target=interrupt, daemon=True).start()
    try:
        call()
    except KeyboardInterrupt:
        print(name, "then", gsw.run(problem, 3).sweep, flush=True)
"""
NAMES = ("one chain", "snapshots", "replicas", "several chains", "prior")


@pytest.mark.skipif(sys.platform == "win32", reason="signals are another matter there")
def test_ctrl_c_ends_the_sampling_and_neither_the_next_call_nor_the_end_waits():
    env = os.environ | {"PYTHONPATH": os.pathsep.join([str(TESTS), *sys.path])}
    process = subprocess.Popen(
        [sys.executable, "-c", SCRIPT], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        out, err = process.communicate(timeout=600)
    except subprocess.TimeoutExpired:
        process.kill()
        pytest.fail(f"it did not end after {process.communicate()[0]}")
    assert (process.returncode, out.splitlines()) == (0, [f"{name} then 3" for name in NAMES]), err


def test_run_keeps_the_last_snapshot_alone(monkeypatch):
    """A snapshot has a copy of the chain's state: thousands of them do not fit into memory."""
    import gc

    import napari_gsw as gsw
    from napari_gsw.core.sampler import ensemble as module
    from problems import planar

    most = 0
    take = module.make_snapshot

    def counted(*args):
        nonlocal most
        most = max(most, sum(type(thing) is gsw.Snapshot for thing in gc.get_objects()))
        return take(*args)

    monkeypatch.setattr(module, "make_snapshot", counted)
    gc.collect()
    before = sum(type(thing) is gsw.Snapshot for thing in gc.get_objects())
    gsw.run(planar(n=40), 5, every=1)
    assert most - before <= 1
