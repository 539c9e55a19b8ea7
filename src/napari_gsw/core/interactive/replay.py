"""Replay of a saved run: on its own image with all actions of the user, on another with its settings."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from napari_gsw.core.errors import InputError
from napari_gsw.core.features.input_maps import MAP_NAMES
from napari_gsw.core.image.lazy import is_image_list
from napari_gsw.core.interactive.interactive_run import METHODS, PACKED, UNPACKED, InteractiveRun, RebuildProblem
from napari_gsw.core.interactive.saved_session import Action, InteractiveState
from napari_gsw.core.pipeline.prepare import Report, prepare
from napari_gsw.core.pipeline.provenance import describe_image
from napari_gsw.core.pipeline.saved_run import SavedRun, attach_image
from napari_gsw.core.pipeline.segment import segment
from napari_gsw.core.posterior.result import Result, SharedResult

# Files of format 1 know some methods under another name.
RENAMED_METHODS = {
    "retune": "update_settings",
    "adopt": "set_fixed_pixels",
    "go_back": "revert_to",
    "wake": "resume_after_correction",
}
# Inputs of a run beside its image.
INPUTS = ("sites", "mask", "seeds", "init", "beta", "linked", *MAP_NAMES)


def replay(saved: SavedRun, image: Any, *, report: Report | None = None) -> Result | SharedResult:
    """Segment an image as a saved run was segmented.

    The run's own image, which is known by its hash, gives the same labels: all runs, scribbles, locks, edits and
    changes of settings are repeated, each after the same sweep. For another image only settings and seed are used.

    Parameters
    ----------
    saved : SavedRun
        As :func:`napari_gsw.open_session` returns it.
    image : array-like or list of array-like
        Image, or the images of a joint segmentation.
    report : callable, optional
        As for :func:`napari_gsw.segment`; not called while actions are repeated.
    """
    same = bool(saved.looks) and describe_image(image) == dict(saved.looks)
    if not same or not isinstance(saved.live, InteractiveState):
        inputs = {name: value for name, value in saved.given.items() if name in INPUTS} if same else {}
        keeps_axes = same or is_image_list(image)
        settings = saved.settings if keeps_axes else saved.settings.replace(axes="auto", spacing="auto")
        outcome: Result | SharedResult = segment(image, settings, seed=saved.seed, report=report, **inputs)
        return outcome
    saved = attach_image(saved, image)
    inputs = {name: saved.given.get(name) for name in ("mask", *MAP_NAMES)}
    run = replay_run(saved, lambda sites, seeds: prepare(image, saved.settings, sites=sites, seeds=seeds, **inputs))
    result = run.result()
    if isinstance(result, SharedResult) or not run.keeps_displayed_labels:
        return result
    labels = run.problem.paint(run.named(run.summary.numbers)).astype(result.labels.dtype)
    return dataclasses.replace(result, labels=labels)


def replay_run(saved: SavedRun, rebuild_problem: RebuildProblem | None = None) -> InteractiveRun:
    """Begin a saved interactive run again and repeat its actions.

    `rebuild_problem` makes the problem again for sites that scribbles have split.
    """
    state = saved.live
    if not isinstance(state, InteractiveState):
        raise InputError("the run has no actions of a user: segment its image again with its settings and its seed")
    first = state.initial
    run = InteractiveRun(first.problem, first.settings, saved.seed, first.seeds, first.init, first.closed)
    run.inputs, run.image_digest, run.rebuild_problem = saved.given, saved.looks, rebuild_problem
    replay_actions(run, state.log.actions, saved.sweep)
    # In older versions they depended on how often they were drawn.
    if not np.array_equal(run.display_labels, state.display_labels):
        run.set_labels(state.display_labels)
    return run


def replay_actions(run: InteractiveRun, actions: Sequence[Action], sweep: int) -> None:
    """Repeat actions on a run at its start, and sweep on to `sweep`."""
    for action in actions:
        method = RENAMED_METHODS.get(action.method, action.method)
        if method not in METHODS:
            raise InputError(f"a run has no action {method!r}")
        _advance_to(run, action.sweep)
        if action.labels.shape != run.display_labels.shape:
            raise InputError("an action belongs to other sites")
        if not np.array_equal(run.display_labels, action.labels):  # as in replay_run
            run.set_labels(action.labels.astype(np.int64))
        values = action.arguments.items()
        getattr(run, method)(**{k: PACKED.get(type(v), UNPACKED)[1](v, run.problem) for k, v in values})
    _advance_to(run, sweep)


def _advance_to(run: InteractiveRun, sweep: int) -> None:
    while run.sweep < sweep:
        run.advance(sweep - run.sweep)
