"""What a run is asked to do, and what has come of it so far: one image, the runs of its arrays and its layers."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from napari.layers import Image, Labels, Layer
from numpy.typing import NDArray

from napari_gsw.core.errors import InputError
from napari_gsw.core.features.input_maps import MAP_NAMES, sites_source
from napari_gsw.core.image.normalized_image import find_nonfinite_pixels
from napari_gsw.core.interactive.interactive_run import LIVE_SETTINGS, InteractiveRun
from napari_gsw.core.interactive.saved_session import SavedSession
from napari_gsw.core.model.problem import Problem, SharedProblem
from napari_gsw.core.pipeline.prepare import prepare
from napari_gsw.core.pipeline.preview import Preview, make_preview
from napari_gsw.core.pipeline.provenance import describe_image
from napari_gsw.core.pipeline.saved_run import SavedRun, attach_image
from napari_gsw.core.pipeline.stage import Stage
from napari_gsw.core.settings import Settings, setting_fields
from napari_gsw.core.settings.presets import with_shared_moves
from napari_gsw.core.sites.blocked_labels import BlockedLabels
from napari_gsw.core.sites.scribbles import find_scribbled_sites
from napari_gsw.core.sites.site_values import mean_channels_per_site
from napari_gsw.widgets.layers.image_source import ImageSource, Position
from napari_gsw.widgets.layers.lazy_labels import compile_outlines
from napari_gsw.widgets.layers.map_layers import read_maps
from napari_gsw.widgets.layers.result_layers import ResultLayers
from napari_gsw.widgets.session.array_run import ArrayRun

StageReport = Callable[[Stage], None]
# Called with what a large image looks like in a coarse copy.
PreviewReport = Callable[[Preview], None]
ArrayRunMaker = Callable[[StageReport, PreviewReport], ArrayRun]
# What there is to do at one position: a chain that goes on, or one that has to be made first.
ArrayJob = tuple[Position, ArrayRun | ArrayRunMaker]


@dataclass(frozen=True, eq=False)
class RunPlan:
    """Everything that decides a run, taken from the form when Run is pressed.

    Attributes
    ----------
    sites : a Labels layer with superpixels, or None to make them.
    sites_data : its array then, so that a later edit shows.
    seeds : a Labels layer whose labels are clamped, or None.
    mask_data : what the mask of the source was then, likewise.
    lock : whether paint that is already there is locked.
    maps : image layers that are evidence beside the image, by the names of the maps.
    """

    source: ImageSource
    settings: Settings
    seed: int
    sites: Labels | None = None
    sites_data: NDArray[np.integer] | None = None
    seeds: Labels | None = None
    lock: bool = False
    maps: Mapping[str, Image] = field(default_factory=dict)
    mask_data: tuple[NDArray[Any], ...] = ()

    def unstarted(self) -> RunPlan:
        """The plan before the first: it has a seed that nobody can choose, so that everything starts afresh."""
        return RunPlan(self.source, self.settings, -1)

    def same_sites(self, other: RunPlan) -> bool:
        """Whether two plans have the same superpixels."""
        if self.sites is not other.sites or self.source.key != other.source.key:
            return False
        if len(self.mask_data) != len(other.mask_data) or not all(map(np.array_equal, self.mask_data, other.mask_data)):
            return False
        if self.sites is not None:
            return bool(np.array_equal(self.sites_data, other.sites_data))  # type: ignore[arg-type]
        follows = sites_source(self.settings, self.maps)
        if follows != sites_source(other.settings, other.maps):
            return False
        if follows != "image" and (
            self.maps.get(follows) is not other.maps.get(follows)
            or not _same(self.settings, other.settings, ("evidence",))
        ):
            return False
        return _same(self.settings, other.settings, ("image", "superpixels"))

    def same_problem(self, other: RunPlan) -> bool:
        """Whether a chain of one plan can go on as one of the other: only how it moves may differ."""
        return (
            self.same_sites(other)
            and self.seeds is other.seeds
            and self.settings.chains == other.settings.chains
            and all(self.maps.get(name) is other.maps.get(name) for name in MAP_NAMES)
            and _same(self.settings, other.settings, ("features", "prior", "coupling", "evidence"))
        )


def _same(a: Settings, b: Settings, sections: tuple[str, ...]) -> bool:
    return all(
        getattr(a, name) == getattr(b, name)
        for name, setting in setting_fields().items()
        if setting.section in sections and (a.is_active(name) or b.is_active(name))
    )


@dataclass
class Segmentation:
    """One image's segmentation.

    Attributes
    ----------
    plan : that of the last run.
    array_runs : the chains, by position.
    written : what was last written to the label layer at a position; the difference to what is there is paint.
    written_regions : likewise of the layer of regions or objects.
    taken_paint : what was painted at a position when its first chain was begun.
    """

    plan: RunPlan
    layers: ResultLayers
    array_runs: dict[Position, ArrayRun] = field(default_factory=dict)
    written: dict[Position, Any] = field(default_factory=dict)
    written_regions: dict[Position, Any] = field(default_factory=dict)
    taken_paint: dict[Position, NDArray[np.uint16] | None] = field(default_factory=dict)

    def is_of(self, layer: Layer | None) -> bool:
        """Whether a layer is among the images that are segmented."""
        return any(layer is image for image in self.plan.source.image_layers)

    def has_sites_of(self, source: ImageSource, settings: Settings, sites: Labels | None) -> bool:
        """Whether a run on a source would have the sites of these chains; `sites` is the layer that they come from."""
        if not self.array_runs or self.plan.source.key != source.key or self.plan.sites is not sites:
            return False
        return sites is not None or _same(settings, self.plan.settings, ("image", "superpixels"))

    def jobs(self, plan: RunPlan) -> list[ArrayJob]:
        """What there is to do for a plan: chains that go on, and those that have to be made (again)."""
        jobs: list[ArrayJob] = []
        for position in plan.source.positions:
            array_run = self.array_runs.get(position)
            # By what it was made itself: a preparation that was stopped has made nothing of a later plan.
            made_by = None if array_run is None else array_run.plan
            if made_by is None or array_run is None or plan.seed != made_by.seed:
                jobs.append((position, self._maker(plan, position, None, False)))
            elif plan.same_problem(made_by) and _tuned(array_run.interactive, plan.settings):
                jobs.append((position, array_run))
            else:
                jobs.append((position, self._maker(plan, position, array_run, plan.same_sites(made_by))))
        self.plan = plan
        return jobs

    def _maker(self, plan: RunPlan, position: Position, before: ArrayRun | None, same_sites: bool) -> ArrayRunMaker:
        paint = self.taken_paint[position] = self._paint_at(position) if before is None else None

        def make(report: StageReport, show: PreviewReport) -> ArrayRun:
            return make_array_run(plan, position, report, before, same_sites, paint, show)

        return make

    def late_paint(self, position: Position) -> NDArray[np.uint16] | None:
        """What was painted since the first chain at a position was begun, before anything was written there."""
        if position in self.written or position not in self.taken_paint:
            return None
        here, taken = self._paint_at(position), self.taken_paint.pop(position)
        if here is not None and taken is not None:
            here[here == taken] = 0
        return here if here is not None and here.any() else None

    def _paint_at(self, position: Position) -> NDArray[np.uint16] | None:
        """What a person has painted where no chain has been yet."""
        layers = self.layers.label_layers
        if not layers or layers[0].multiscale:  # which nobody can paint on
            return None
        here = np.array(self.layers.labels_at(position))
        known = self.written.get(position)
        if known is not None:
            here[here == known] = 0
        return here if here.any() else None


def _tuned(interactive: InteractiveRun, settings: Settings) -> bool:
    """Hand the chain the settings that may change; False if others differ."""
    changed = [
        k for k, v in settings.to_dict().items() if v != getattr(interactive.settings, k) and settings.is_active(k)
    ]
    start = ("start", "start_clusters")  # of no matter to a chain that has started
    if any(name not in LIVE_SETTINGS and name not in start for name in changed):
        return False
    interactive.retune(
        interactive.settings.replace(**{k: v for k, v in settings.to_dict().items() if k in LIVE_SETTINGS})
    )
    return True


def make_array_run(
    plan: RunPlan,
    position: Position,
    report: StageReport,
    before: ArrayRun | None,
    same_sites: bool,
    paint: NDArray[np.uint16] | None,
    show: PreviewReport | None = None,
) -> ArrayRun:
    """Prepare one array and start its chain, as ``gsw.segment`` does; then bring over what the user has done."""
    source = plan.source
    image, mask = source.image(position), source.mask_at(position)
    unusable = None if source.is_chunked or source.shares_labels else find_nonfinite_pixels(image, plan.settings.axes)
    if unusable is not None:  # they are outside the image
        mask = ~unusable if mask is None else mask & ~unusable
    seeds = None if plan.seeds is None else source.labels_at(plan.seeds, position)
    sites: Any = None if plan.sites is None else source.labels_at(plan.sites, position)
    given: dict[str, Any] = {
        name: a for name, a in (("mask", mask), ("sites", sites), ("seeds", seeds)) if a is not None
    }
    maps = read_maps(source, plan.maps, position, plan.settings)
    given |= maps
    if before is not None and same_sites:
        sites = before.sites  # no need to make them again
    # A site in which two labels meet is cut.
    kept = None if before is None else before.interactive.locked_scribbles()
    strokes = kept if kept is not None else paint if seeds is None else seeds
    if (
        show is not None
        and before is None
        and sites is None
        and not maps
        and not (source.is_chunked or source.shares_labels)
    ):
        coarse = make_preview(image, plan.settings, plan.seed, mask, strokes, report)
        if coarse is not None:
            show(coarse)
    problem = array_problem(plan, image, {"sites": sites, "mask": mask, "seeds": strokes, **maps}, report)
    if source.is_image_list:
        given = {name: [source.plane(a, z) for z in range(source.space[0])] for name, a in given.items()}
    elif source.shares_labels:
        given |= {"shared slices": True, "linked": source.slices == "linked"}
    report(Stage("start"))
    compile_outlines(source.pixels)
    edits = None if before is None else before.interactive.edits
    # What was fixed counts for no label: it does not decide whether the painted ones are all that there are.
    closed = before.interactive.steering.closed if before is not None and edits is not None else None
    locked = None if before is None else before.paint_locked(before.interactive.locks, before.interactive.numbers)
    interactive = None if before is None else _continued(plan, problem, before, locked)
    if interactive is not None:
        given["init"] = interactive.initial.init
    else:
        if before is not None:
            seeds = locked if before.interactive.locks.any() else None
            given = {name: array for name, array in given.items() if name != "seeds"}
            given |= {} if seeds is None else {"seeds": seeds}
        interactive = InteractiveRun(problem, plan.settings, plan.seed, seeds, None, closed)
    if kept is not None and not same_sites:  # of what is held, the strokes themselves have the last word
        under = problem.labels_under(kept, "strokes").astype(np.int64)
        interactive.paint(np.flatnonzero(under > 0), under[under > 0], True)
    if paint is not None:
        _carry_over(interactive, paint, plan.lock)
    if edits is not None:
        interactive.adopt(edits)
    interactive.forget_changes()
    if not isinstance(problem.sites, BlockedLabels):
        interactive.strokes = None if strokes is None else np.array(strokes, np.int32)
    array_run = complete_run(plan, position, interactive, image, given)
    array_run.unusable = 0 if unusable is None else int(unusable.sum())
    return array_run


def _continued(plan: RunPlan, problem: Problem, before: ArrayRun, locked: Any) -> InteractiveRun | None:
    """A chain that goes on from what is on the screen, or None where it has to start afresh.

    More chains than before begin apart: from one state they would agree from the first sweep. And what is on the screen
    may be something that the new settings forbid, such as more clusters than there may be.

    Parameters
    ----------
    locked : (\\*shape,) label image of the locked sites.
    """
    if plan.settings.chains > before.interactive.settings.chains:
        return None
    init, closed = before.paint(before.interactive.numbers), before.interactive.steering.closed
    try:
        interactive = InteractiveRun(problem, plan.settings, plan.seed, None, init, closed)
        _carry_over(interactive, locked, True)
    except InputError:  # if it was not the state, it is raised again at the fresh start
        return None
    return interactive


def complete_run(
    plan: RunPlan, position: Position, interactive: InteractiveRun, image: Any, given: dict[str, Any]
) -> ArrayRun:
    """A chain of an array with what the window needs to show it.

    Parameters
    ----------
    image : the pixels at the position. given : arrays of the user's own that went in, by name.
    """
    source, problem, mask = plan.source, interactive.problem, given.get("mask")
    interactive.steering.make_ready()
    names = _channel_names(source)
    if isinstance(problem.sites, BlockedLabels):
        assert problem.graph is not None
        means, names = problem.graph.means, ("L*", "a*", "b*") if source.layer.rgb else names
    else:
        kept = {"mask": mask} | {name: given[name] for name in MAP_NAMES if name in given}
        interactive.rebuild_problem = lambda sites, strokes: array_problem(
            plan, image, {"sites": sites, "seeds": strokes, **kept}, lambda stage: None
        )
        means = mean_channels_per_site(
            image, source.axes, problem.site_image
        )  # a session of a script may leave them open
    images = source.planes(image) if source.is_image_list else None
    interactive.inputs, interactive.image = given, image if images is None else images
    array_run = ArrayRun(interactive, image, source.axes, means, names, source.pixel_size, images)
    array_run.plan = plan
    return array_run


def array_problem(plan: RunPlan, image: Any, given: Mapping[str, Any], report: StageReport) -> Problem:
    """What is sampled of one array: the array, or its slices as several images with shared labels.

    Slices without any site, by the mask or by given sites, are left out.

    Parameters
    ----------
    given : sites, mask, strokes as ``seeds``, and maps beside the image; None for none.
    """
    sites, mask, strokes = given["sites"], given["mask"], given["seeds"]
    if not plan.source.shares_labels:
        return prepare(image, plan.settings, **given, report=lambda stage, _: report(stage))
    axes, part = plan.settings.axes, plan.source.plane
    planes = plan.source.planes(image)
    bounds = [array for array in (sites, mask) if array is not None]
    kept = [z for z in range(len(planes)) if all(np.any(array[z]) for array in bounds)]
    kept = kept or list(range(len(planes)))  # whose error says what is wrong
    problem = prepare(
        [planes[z] for z in kept],
        plan.settings.replace(axes=axes.replace("Z", "")),
        sites=None if sites is None else [part(sites, z) for z in kept],
        mask=None if mask is None else [part(mask, z) for z in kept],
        seeds=None if strokes is None else [part(strokes, z) for z in kept],
        linked=plan.source.slices == "linked",
        report=lambda stage, _: report(stage),
    )
    assert isinstance(problem, SharedProblem)
    return problem.stacked(kept, len(planes))


def adapt_settings(source: ImageSource, settings: Settings) -> Settings:
    """The settings of the form, with the moves that a source needs whose slices share their labels."""
    if source.is_image_list and settings.view == "objects":
        raise InputError("objects of several images together are for gsw.segment; choose View: clusters or regions")
    if source.depth == 3 and not source.shares_labels and settings.coupling == "learnt":
        name = "Membranes" if settings.boundary_model == "membranes" else "Photo"
        learnt = f"{name} (couplings learnt from flat images)"
        raise InputError(f"{learnt} is for flat images; choose another preset, or slices")
    if source.shares_labels:
        return settings.replace(**with_shared_moves(settings))
    return settings.replace(spacing=source.spacing) if settings.spacing == "auto" else settings


def _carry_over(interactive: InteractiveRun, paint: Any, lock: bool) -> None:
    if isinstance(interactive.problem.sites, BlockedLabels):
        most = interactive.problem.labels_under(paint, "paint")
        sites = np.flatnonzero(most > 0)
        numbers = most[sites].astype(np.int64)
    else:
        sites, numbers = find_scribbled_sites(interactive.problem.site_image, np.flatnonzero(paint), paint)
    interactive.paint(sites, numbers, lock)


def _channel_names(source: ImageSource) -> tuple[str, ...]:
    if source.layer.rgb:
        return ("red", "green", "blue")
    if source.channels:
        return tuple(layer.name for layer in (source.layer, *source.channels))
    return ()


def parse_position(word: str) -> Position:
    """The position that :func:`~napari_gsw.widgets.session.run_plan.format_position` named.

    >>> saved_position("run"), saved_position("3,0")
    ((), (3, 0))
    """
    return () if word == "run" else tuple(int(part) for part in word.split(","))


def saved_inputs(session: SavedSession, name: str) -> dict[Position, Any]:
    """What was given beside the image (mask, sites or seeds) at each position."""
    return {
        parse_position(word): run.given[name] for word, run in session.runs.items() if run.given.get(name) is not None
    }


def restore_runs(plan: RunPlan, session: SavedSession) -> dict[Position, ArrayRun]:
    """The run of each array, of an image that was checked; to be called off the GUI thread."""
    runs: dict[Position, ArrayRun] = {}
    for position, saved in _runs_of(plan.source, session):
        image = plan.source.image(position)
        if plan.source.is_chunked:
            saved = attach_image(saved, image)
        interactive = InteractiveRun.restore(saved)
        runs[position] = complete_run(
            replace(plan, settings=saved.settings), position, interactive, image, dict(saved.given)
        )
    return runs


def _runs_of(source: ImageSource, session: SavedSession) -> list[tuple[Position, SavedRun]]:
    """The saved runs of a source's arrays, wherever the user was when it was saved."""
    positions = (
        (position, format_position(position)) for position in itertools.product(*map(range, source.stack_shape))
    )
    return [(position, session.runs[word]) for position, word in positions if word in session.runs]


def check_same_pixels(source: ImageSource, session: SavedSession) -> None:
    """Raise an InputError unless the image is still the one that was segmented; to be called off the GUI thread."""
    runs = _runs_of(source, session)
    if not runs:
        raise InputError("the session belongs to other slices of the image")
    for position, saved in runs:
        image = source.image(position)
        looked_at = source.planes(image) if source.is_image_list else image
        if saved.looks and describe_image(looked_at) != dict(saved.looks):
            raise InputError(f"{source.layer.name!r} has changed since the session was saved: its pixels are others")


def check_same_shape(source: ImageSource, session: SavedSession) -> None:
    """Raise an InputError if the image cannot be that of the session, before anything is read of it."""
    for run in session.runs.values():
        sites = run.problem.sites
        if sites is not None and tuple(sites.shape) != source.space:
            raise InputError(
                f"{source.layer.name!r} has {' x '.join(map(str, source.space))} pixels, and the image of the session "
                f"{' x '.join(map(str, sites.shape))}"
            )


def format_position(position: Position) -> str:
    """The name of an array's run in a session.

    >>> position_word(()), position_word((3, 0))
    ('run', '3,0')
    """
    return ",".join(map(str, position)) or "run"
