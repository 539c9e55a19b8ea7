"""A saved run again from its beginning: on its own image with all that a person did, on another with its settings."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from napari_gsw.core.errors import InputError
from napari_gsw.core.features.input_maps import MAP_NAMES
from napari_gsw.core.image.lazy import is_image_list
from napari_gsw.core.interactive.actions import replay_actions
from napari_gsw.core.interactive.interactive_run import InteractiveRun, RebuildProblem
from napari_gsw.core.interactive.interactive_state import InteractiveState, save_interactive
from napari_gsw.core.pipeline.prepare import prepare
from napari_gsw.core.pipeline.provenance import describe_image, make_provenance
from napari_gsw.core.pipeline.saved_run import SavedRun, attach_image
from napari_gsw.core.pipeline.segment import segment
from napari_gsw.core.pipeline.stage import Report
from napari_gsw.core.posterior.result import Result, SharedResult, make_result


def replay(saved: SavedRun, image: Any, *, report: Report | None = None) -> Result | SharedResult:
    """Segment an image as a saved run was segmented.

    Of the run's own image (by its hash) everything is done again from the first sweep: runs, strokes, locks, edits,
    changed settings, each after the sweep at which it was done, and the labels are the same. Of another image the
    settings and the seed are taken: strokes mean places in one image.

    Parameters
    ----------
    saved : the run, as :func:`napari_gsw.open_session` reads it.
    image : array, or a list of those that share their clusters.
    report : as for :func:`napari_gsw.segment`; told of nothing while deeds are done again.
    """
    same = bool(saved.looks) and describe_image(image) == dict(saved.looks)
    if not same or not isinstance(saved.live, InteractiveState):
        given = {name: value for name, value in saved.given.items() if name in INPUTS} if same else {}
        taken = saved.settings if same or is_image_list(image) else saved.settings.replace(axes="auto", spacing="auto")
        outcome: Result | SharedResult = segment(image, taken, seed=saved.seed, report=report, **given)
        return outcome
    saved = attach_image(saved, image)
    given = {name: saved.given.get(name) for name in ("mask", *MAP_NAMES)}
    live = replay_run(saved, lambda sites, strokes: prepare(image, saved.settings, sites=sites, seeds=strokes, **given))
    record = make_provenance(saved.looks, live.summary, live.seed, saved.given, live.steps)
    own = make_result(live.summary, record, save_interactive(live, saved.looks, saved.given))
    if not live.keeps_displayed_labels:
        return own
    own_labels = live.problem.paint(live.named(live.summary.numbers)).astype(own.labels.dtype)
    return dataclasses.replace(own, labels=own_labels)


# What a run may have been given beside its image.
INPUTS = ("sites", "mask", "seeds", "init", "beta", "linked", *MAP_NAMES)


def replay_run(saved: SavedRun, remake: RebuildProblem | None = None) -> InteractiveRun:
    """The chain of a record, begun again and brought by the same deeds to where it was.

    Parameters
    ----------
    saved : with all that a person did. remake : makes the problem again for sites that strokes have cut.
    """
    record = saved.live
    if not isinstance(record, InteractiveState):
        raise InputError("nobody did anything to this run: segment its image again with its settings and its seed")
    first = record.begun
    live = InteractiveRun(first.problem, first.settings, saved.seed, first.seeds, first.init, first.closed)
    live.remake = remake
    replay_actions(live, record.deeds, saved.sweep)
    if not np.array_equal(live.numbers, record.numbers):  # of versions in which they depended on how often one looked
        live.numbers = record.numbers
    return live
