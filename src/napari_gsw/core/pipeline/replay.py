"""A saved run again from its beginning: on its own image with all that a person did, on another with its settings."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from napari_gsw.core.errors import InputError
from napari_gsw.core.evidence.given_maps import MAPS
from napari_gsw.core.image.several import are_several
from napari_gsw.core.pipeline.deeds import do_again
from napari_gsw.core.pipeline.live_chain import LiveChain, Remake
from napari_gsw.core.pipeline.live_record import LiveRecord, saved_live
from napari_gsw.core.pipeline.prepare import prepare
from napari_gsw.core.pipeline.provenance import looks_of, provenance
from napari_gsw.core.pipeline.saved_run import SavedRun, with_image
from napari_gsw.core.pipeline.segment import segment
from napari_gsw.core.pipeline.stage import Report
from napari_gsw.core.posterior.result import Result, result
from napari_gsw.core.posterior.shared_result import SharedResult


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
    same = bool(saved.looks) and looks_of(image) == dict(saved.looks)
    if not same or not isinstance(saved.live, LiveRecord):
        given = {name: value for name, value in saved.given.items() if name in GIVEN} if same else {}
        taken = saved.settings if same or are_several(image) else saved.settings.replace(axes="auto", spacing="auto")
        outcome: Result | SharedResult = segment(image, taken, seed=saved.seed, report=report, **given)
        return outcome
    saved = with_image(saved, image)
    given = {name: saved.given.get(name) for name in ("mask", *MAPS)}
    live = replayed_chain(
        saved, lambda sites, strokes: prepare(image, saved.settings, sites=sites, seeds=strokes, **given)
    )
    record = provenance(saved.looks, live.summary, live.seed, saved.given, live.steps)
    own = result(live.summary, record, saved_live(live, saved.looks, saved.given))
    if not live.keeps_numbers:
        return own
    own_labels = live.problem.paint(live.named(live.summary.numbers)).astype(own.labels.dtype)
    return dataclasses.replace(own, labels=own_labels)


# What a run may have been given beside its image.
GIVEN = ("sites", "mask", "seeds", "init", "beta", "linked", *MAPS)


def replayed_chain(saved: SavedRun, remake: Remake | None = None) -> LiveChain:
    """The chain of a record, begun again and brought by the same deeds to where it was.

    Parameters
    ----------
    saved : with all that a person did. remake : makes the problem again for sites that strokes have cut.
    """
    record = saved.live
    if not isinstance(record, LiveRecord):
        raise InputError("nobody did anything to this run: segment its image again with its settings and its seed")
    first = record.begun
    live = LiveChain(first.problem, first.settings, saved.seed, first.seeds, first.init, first.closed)
    live.remake = remake
    do_again(live, record.deeds, saved.sweep)
    if not np.array_equal(live.numbers, record.numbers):  # of versions in which they depended on how often one looked
        live.numbers = record.numbers
    return live
