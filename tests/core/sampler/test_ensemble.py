"""Several chains on threads: none meets another, whatever goes wrong."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from napari_gsw.core.sampler import ensemble
from napari_gsw.core.sampler.bonds import fixed
from napari_gsw.core.sampler.ensemble import Ensemble
from napari_gsw.core.sampler.options import SamplerOptions
from napari_gsw.core.sampler.start import start_chain
from problems import planar


def test_no_chain_is_left_running_when_another_fails(monkeypatch):
    running, advanced = [], ensemble._advanced

    def slow_or_broken(chain, sweeps):
        if chain is team.chains[0]:
            raise MemoryError
        running.append(chain)
        time.sleep(0.3)
        found = advanced(chain, sweeps)
        running.remove(chain)
        return found

    problem = planar(60)
    team = Ensemble([start_chain(problem, SamplerOptions(fixed(problem, 3.0)), seed) for seed in range(2)])
    with monkeypatch.context() as patch:
        patch.setattr(ensemble, "_advanced", slow_or_broken)
        with pytest.raises(MemoryError):
            team.advance(1)
        assert running == []
    assert len(team.advance(2)) == 2


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_chains_go_on_in_a_forked_process():
    script = """
import os
from napari_gsw.core.sampler.bonds import fixed
from napari_gsw.core.sampler.options import SamplerOptions
from napari_gsw.core.sampler.start import start_chain
from napari_gsw.core.sampler.ensemble import Ensemble
from problems import planar

problem = planar(60)
team = Ensemble([start_chain(problem, SamplerOptions(fixed(problem, 3.0)), seed) for seed in range(2)])
team.advance(1)
child = os.fork()
if child == 0:
    team.advance(1)
    os._exit(7)
raise SystemExit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    asked = [sys.executable, "-W", "ignore", "-c", script]
    assert subprocess.run(asked, cwd=Path(__file__).parents[2], timeout=120).returncode == 7
