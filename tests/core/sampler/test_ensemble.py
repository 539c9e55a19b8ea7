"""Several chains on threads: none meets another, whatever goes wrong."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from napari_gsw.core.sampler import ensemble
from napari_gsw.core.sampler.bonds import constant_bonds
from napari_gsw.core.sampler.chain import start_chain
from napari_gsw.core.sampler.ensemble import Ensemble
from napari_gsw.core.sampler.options import SamplerOptions
from problems import planar


def test_no_chain_is_left_running_when_another_fails(monkeypatch):
    running, advanced = [], ensemble._advance

    def slow_or_broken(chain, sweeps):
        if chain is team.chains[0]:
            raise MemoryError
        running.append(chain)
        time.sleep(0.3)
        found = advanced(chain, sweeps)
        running.remove(chain)
        return found

    problem = planar(60)
    team = Ensemble([start_chain(problem, SamplerOptions(constant_bonds(problem, 3.0)), seed) for seed in range(2)])
    with monkeypatch.context() as patch:
        patch.setattr(ensemble, "_advance", slow_or_broken)
        with pytest.raises(MemoryError):
            team.advance(1)
        assert running == []
    assert len(team.advance(2)) == 2


@pytest.mark.parametrize("count", [1, 3])
def test_an_interrupted_advance_ends_after_a_sweep_and_changes_nothing_but_when(count):
    """All chains come to the same sweep, and to the states that they would have come to anyway."""
    problem = planar(60)
    teams = [
        Ensemble([start_chain(problem, SamplerOptions(constant_bonds(problem, 3.0)), seed) for seed in range(count)])
        for _ in range(2)
    ]
    team, undisturbed = teams
    team._size = 10**9
    threading.Timer(0.05, team.interrupt).start()
    snapshots = team.advance(10**9)  # hours
    (sweep,) = {one.sweep for one in snapshots}
    assert 0 < sweep < 10**8
    assert [len(one.trace) for one in snapshots] == [sweep] * count
    undisturbed._size = sweep
    for one, other in zip(snapshots, undisturbed.advance(sweep), strict=True):
        assert np.array_equal(one.labels, other.labels)
        assert np.array_equal(one.trace, other.trace)
    assert team._size == 10**9  # it says nothing about how many make an interval
    team._size = 5
    assert team.advance(5)[0].sweep == sweep + 5  # and the next one is not interrupted


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_chains_go_on_in_a_forked_process():
    script = """
import os
from napari_gsw.core.sampler.bonds import constant_bonds
from napari_gsw.core.sampler.options import SamplerOptions
from napari_gsw.core.sampler.chain import start_chain
from napari_gsw.core.sampler.ensemble import Ensemble
from problems import planar

problem = planar(60)
team = Ensemble([start_chain(problem, SamplerOptions(constant_bonds(problem, 3.0)), seed) for seed in range(2)])
team.advance(1)
child = os.fork()
if child == 0:
    team.advance(1)
    os._exit(7)
raise SystemExit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    asked = [sys.executable, "-W", "ignore", "-c", script]
    assert subprocess.run(asked, cwd=Path(__file__).parents[2], timeout=600).returncode == 7
