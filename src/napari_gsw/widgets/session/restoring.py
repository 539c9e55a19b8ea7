"""A saved session -> the runs of its arrays, ready to be shown and to go on."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

from napari_gsw.core.errors import InputError
from napari_gsw.core.pipeline.live_record import restored_live
from napari_gsw.core.pipeline.provenance import looks_of
from napari_gsw.core.pipeline.saved_run import SavedRun, with_image
from napari_gsw.core.pipeline.saved_session import SavedSession
from napari_gsw.widgets.layers.source import Position, Source
from napari_gsw.widgets.session.array_run import ArrayRun
from napari_gsw.widgets.session.keeper import position_word
from napari_gsw.widgets.session.plan import Plan, finished_run


def saved_position(word: str) -> Position:
    """The position that :func:`~napari_gsw.widgets.session.keeper.position_word` named.

    >>> saved_position("run"), saved_position("3,0")
    ((), (3, 0))
    """
    return () if word == "run" else tuple(int(part) for part in word.split(","))


def given_parts(session: SavedSession, name: str) -> dict[Position, Any]:
    """What was given beside the image (mask, sites or seeds) at each position."""
    return {
        saved_position(word): run.given[name] for word, run in session.runs.items() if run.given.get(name) is not None
    }


def restored_runs(plan: Plan, session: SavedSession) -> dict[Position, ArrayRun]:
    """The run of each array, of an image that was checked; to be called off the GUI thread."""
    runs: dict[Position, ArrayRun] = {}
    for position, saved in _runs_of(plan.source, session):
        image = plan.source.image(position)
        if plan.source.large:
            saved = with_image(saved, image)
        live = restored_live(saved)
        runs[position] = finished_run(replace(plan, settings=saved.settings), position, live, image, dict(saved.given))
    return runs


def _runs_of(source: Source, session: SavedSession) -> list[tuple[Position, SavedRun]]:
    """The saved runs of a source's arrays, wherever the user was when it was saved."""
    positions = ((position, position_word(position)) for position in itertools.product(*map(range, source.loop)))
    return [(position, session.runs[word]) for position, word in positions if word in session.runs]


def check_pixels(source: Source, session: SavedSession) -> None:
    """Raise an InputError unless the image is still the one that was segmented; to be called off the GUI thread."""
    runs = _runs_of(source, session)
    if not runs:
        raise InputError("the session belongs to other slices of the image")
    for position, saved in runs:
        image = source.image(position)
        looked_at = source.planes(image) if source.several else image
        if saved.looks and looks_of(looked_at) != dict(saved.looks):
            raise InputError(f"{source.layer.name!r} has changed since the session was saved: its pixels are others")


def check_source(source: Source, session: SavedSession) -> None:
    """Raise an InputError if the image cannot be that of the session, before anything is read of it."""
    for run in session.runs.values():
        sites = run.problem.sites
        if sites is not None and tuple(sites.shape) != source.space:
            raise InputError(
                f"{source.layer.name!r} has {' x '.join(map(str, source.space))} pixels, and the image of the session "
                f"{' x '.join(map(str, sites.shape))}"
            )
