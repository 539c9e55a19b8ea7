"""One chain of a segmentation by itself, for a cluster, and what several of them say together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from napari_gsw.core.model.problem import Problem
from napari_gsw.core.pipeline.sampling import chains, steered_start, summarized
from napari_gsw.core.posterior.summary import Summary
from napari_gsw.core.sampler.sample import run
from napari_gsw.core.settings import Settings


class ChainRun(NamedTuple):
    """What one of several chains has found, as plain arrays that any process can go on with: its state, its trace."""

    state: Mapping[str, NDArray[Any]]
    trace: NDArray[np.float64]


def sampled(problem: Problem, settings: Settings, seed: int, number: int) -> ChainRun:
    """Run one of the chains of a segmentation, the one of this number, by itself."""
    problem, clamps = steered_start(problem, settings, None)
    alone = chains(problem, settings, seed, clamps, numbers=(number,))
    trace = np.concatenate([one.trace for (one,) in alone.run(settings.sweeps)])
    return ChainRun(dict(alone.snapshots[0].state), trace)


def gathered(problem: Problem, settings: Settings, runs: Sequence[ChainRun]) -> Summary:
    """What chains that ran by themselves have to say together: the same as if they had run side by side."""
    problem = steered_start(problem, settings, None)[0]
    snapshots = [run(problem, 0, state=one.state) for one in runs]
    return summarized(problem, settings, snapshots, [one.trace for one in runs])


def can_be_parted(settings: Settings) -> bool:
    """Whether the chains need nothing of one another: those that end by agreement have to be looked at together."""
    return settings.chains > 1 and settings.stop != "agreement"
